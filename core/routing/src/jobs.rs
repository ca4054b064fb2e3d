//! Places jobs on nodes so that no two of them share a link.
//!
//! Source: C-MR4LMS, "Job placement without interference" (rules 1 to 7, theorem 4), with the number of
//! nodes of a leaf, midplane and block as they are in place of the paper's powers of m. Read
//! [`JobAllocator`] first; [`JobGround`] is what it knows of the fabric. A job's *class* is the kind of
//! unit it lies in:
//!
//! | class | lies in one | shares with others |
//! | --- | --- | --- |
//! | T0 | leaf switch | leaves |
//! | T1 | compute midplane | midplanes; its leaves with T0 jobs only (rule 5) |
//! | T2 | block | blocks; its midplanes with smaller classes only (rule 6) |
//! | T3 | fabric | its blocks with smaller classes only (rule 7) |
//!
//! A tree of fewer levels lacks the last classes. Since a job's trees, and all shortest paths between its
//! nodes, stay below the unit it lies in, two jobs that keep these rules share no link, and each has every
//! spanning tree of the fabric for itself.
//!
//! Invariants
//! - JOB-1: jobs placed by [`JobAllocator::allocate`] or [`JobAllocator::reserve`] share no link.
//! - JOB-2: what is free, and what would be chosen, depends on the jobs there are, not on how they came.

mod choose;
mod cover;
mod ground;
pub mod hostlist;
mod refusal;
mod report;
pub mod slurm;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use ground::{JobGround, LeftOut};
pub use refusal::{Held, JobNames, JobRefusal, NoRoom};
pub use report::{ClassRoom, JobReport, Move};

/// The kind of unit that a job lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobClass {
    /// In one leaf switch.
    T0,
    /// In one compute midplane.
    T1,
    /// In one block of midplanes.
    T2,
    /// Anywhere.
    T3,
}

impl JobClass {
    /// All classes, rising.
    pub const ALL: [Self; 4] = [Self::T0, Self::T1, Self::T2, Self::T3];

    /// Gives the level of its unit: 0 leaf switch, 1 compute midplane, 2 block, 3 fabric.
    #[must_use]
    pub const fn level(self) -> usize {
        self as usize
    }

    /// Says what its unit is called.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::T0 => "leaf switch",
            Self::T1 => "compute midplane",
            Self::T2 => "block",
            Self::T3 => "fabric",
        }
    }

    /// Gives the rule that a job of this class lies in one such unit.
    #[must_use]
    pub const fn rule(self) -> Option<u8> {
        match self {
            Self::T0 => Some(2),
            Self::T1 => Some(3),
            Self::T2 => Some(4),
            Self::T3 => None,
        }
    }
}

impl fmt::Display for JobClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["T0", "T1", "T2", "T3"][self.level()])
    }
}

/// Names a job; chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct JobId(pub u64);

/// A job and the nodes it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The kind of unit its nodes lie in.
    pub class: JobClass,
    /// Its nodes by number, rising.
    pub nodes: Vec<u32>,
}

/// Whether a job may be put into a larger unit than its size asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Rules 2 to 4 to the letter.
    #[default]
    No,
    /// If no unit of its class has room, the next class is tried. It still shares no link.
    Yes,
}

/// The jobs on a fabric and what they leave free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAllocator {
    ground: Arc<JobGround>,
    jobs: BTreeMap<JobId, Job>,
    owner: Vec<Option<JobId>>, // by node
    free: Vec<u32>,            // by leaf: nodes to be had
    held: [Vec<u32>; 3],       // by leaf, midplane, block: jobs in it whose class is above it
}

impl JobAllocator {
    /// Makes an allocator without jobs.
    #[must_use]
    pub fn new(ground: Arc<JobGround>) -> Self {
        Self {
            jobs: BTreeMap::new(),
            owner: vec![None; ground.node_count()],
            free: ground.live_by_leaf(),
            held: [0, 1, 2].map(|level| vec![0; ground.units(level)]),
            ground,
        }
    }

    /// Gives what is known of the fabric.
    #[must_use]
    pub fn ground(&self) -> &JobGround {
        &self.ground
    }

    /// Walks the jobs, rising.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }

    /// Finds a job.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// Counts the nodes that no job has.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free.iter().sum()
    }

    /// Finds nodes for a job of `size` nodes and gives them to it.
    ///
    /// Of the units with room it takes one whose rest is of no use to larger jobs, else the one with the least
    /// room; in it the parts that a larger job then cannot have any more and that waste the least nodes.
    /// Cost: the leaves of the fabric, and a search among the parts of the unit.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] says which rule leaves no room and how much there is; then nothing has changed.
    pub fn allocate(&mut self, id: JobId, size: u32, spread: Spread) -> Result<&Job, JobRefusal> {
        if self.jobs.contains_key(&id) {
            return Err(JobRefusal::Exists { job: id });
        }
        let nodes = self.find(size, spread)?;
        Ok(self.take(id, nodes))
    }

    /// Gives a job exactly these nodes, if that keeps the rules.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] names the first node that cannot be had, or the rule and the job it would share a link with.
    pub fn reserve(&mut self, id: JobId, nodes: &[u32]) -> Result<&Job, JobRefusal> {
        if self.jobs.contains_key(&id) {
            return Err(JobRefusal::Exists { job: id });
        }
        let nodes = self.checked(nodes)?;
        if let Some(node) = nodes.iter().find(|node| !self.ground.is_live(**node)) {
            let why = self.ground.left_out(*node).unwrap_or(LeftOut::Down);
            return Err(JobRefusal::LeftOut { node: *node, why });
        }
        let class = self.ground.class_of(&nodes);
        self.stranger(class, &nodes)?;
        Ok(self.take(id, nodes))
    }

    /// Takes over a job that runs already, even if it breaks a rule on the fabric as it is now.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] if there is such a job, or a node does not exist or is another job's.
    pub fn restore(&mut self, id: JobId, nodes: &[u32]) -> Result<&Job, JobRefusal> {
        if self.jobs.contains_key(&id) {
            return Err(JobRefusal::Exists { job: id });
        }
        let nodes = self.checked(nodes)?;
        Ok(self.take(id, nodes))
    }

    /// Takes the nodes back from a job; none if there is no such job.
    pub fn release(&mut self, id: JobId) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        for node in &job.nodes {
            self.owner[*node as usize] = None;
            if self.ground.is_live(*node)
                && let Some(leaf) = self.ground.leaf_of(*node)
            {
                self.free[leaf as usize] += 1;
            }
        }
        self.hold(&job, |held| *held -= 1);
        Some(job)
    }

    fn take(&mut self, id: JobId, nodes: Vec<u32>) -> &Job {
        for node in &nodes {
            self.owner[*node as usize] = Some(id);
            if self.ground.is_live(*node)
                && let Some(leaf) = self.ground.leaf_of(*node)
            {
                self.free[leaf as usize] -= 1;
            }
        }
        let job = Job { class: self.ground.class_of(&nodes), nodes };
        self.hold(&job, |held| *held += 1);
        self.jobs.entry(id).or_insert(job)
    }

    /// Counts a job in or out at every unit that it reaches out of.
    fn hold(&mut self, job: &Job, change: impl Fn(&mut u32)) {
        for level in 0..job.class.level() {
            for unit in self.ground.units_of(level, &job.nodes) {
                change(&mut self.held[level][unit as usize]);
            }
        }
    }

    /// Puts nodes in order; each must exist and be nobody's.
    fn checked(&self, nodes: &[u32]) -> Result<Vec<u32>, JobRefusal> {
        if nodes.is_empty() {
            return Err(JobRefusal::NoNodes);
        }
        let mut seen = BTreeSet::new();
        for node in nodes {
            match self.owner.get(*node as usize) {
                None => return Err(JobRefusal::UnknownNode { node: *node }),
                Some(Some(by)) => return Err(JobRefusal::Taken { node: *node, by: *by }),
                Some(None) if !seen.insert(*node) => {
                    return Err(JobRefusal::Twice { node: *node });
                }
                Some(None) => {}
            }
        }
        Ok(seen.into_iter().collect())
    }

    /// Refuses nodes where another job reaches out of a unit that this one would reach out of.
    fn stranger(&self, class: JobClass, nodes: &[u32]) -> Result<(), JobRefusal> {
        for level in 0..class.level() {
            for unit in self.ground.units_of(level, nodes) {
                if self.held[level][unit as usize] == 0 {
                    continue;
                }
                let reaches_out = |job: &&Job| {
                    job.class.level() > level
                        && self.ground.units_of(level, &job.nodes).contains(&unit)
                };
                let with = self.jobs.iter().find(|(_, job)| reaches_out(job));
                let (with, _) = with.expect("somebody holds the unit");
                return Err(JobRefusal::Shared { class, level, unit, with: *with });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
