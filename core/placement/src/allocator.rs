//! Allocates nodes to jobs by the rules, and releases them.

mod choose;
mod cover;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use report::{ClassCapacity, JobReport, Move};

use crate::job::{Job, JobClass, JobId, Spread};
use crate::refusal::JobRefusal;
use crate::topology::{JobTopology, LeftOut};

/// The jobs on a fabric and the nodes that they leave free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAllocator {
    topology: Arc<JobTopology>,
    jobs: BTreeMap<JobId, Job>,
    owner: Vec<Option<JobId>>,   // by node
    free: Vec<u32>,              // by leaf: live nodes without a job
    reaching_out: [Vec<u32>; 3], // by leaf, midplane, block: jobs in it whose class is above it
}

impl JobAllocator {
    /// Creates an allocator without jobs.
    #[must_use]
    pub fn new(topology: Arc<JobTopology>) -> Self {
        Self {
            jobs: BTreeMap::new(),
            owner: vec![None; topology.node_count()],
            free: topology.live_by_leaf(),
            reaching_out: [0, 1, 2].map(|level| vec![0; topology.units(level)]),
            topology,
        }
    }

    /// Returns the topology that jobs are placed on.
    #[must_use]
    pub fn topology(&self) -> &JobTopology {
        &self.topology
    }

    /// Iterates over the jobs, ascending by number.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }

    /// Returns a job; `None` if there is none with this number.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// Returns the number of live nodes without a job.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free.iter().sum()
    }

    /// Allocates `size` nodes to a new job.
    ///
    /// Among the units with room it prefers one whose remaining nodes are of no use to larger jobs,
    /// then the one with the least room. Inside the unit it takes parts that larger jobs could not
    /// use afterwards, and as few nodes more than needed as possible. Cost: the leaves of the
    /// fabric, and a search among the parts of the unit.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] with the rule that leaves no room and the room that there is. The allocator
    /// is unchanged then.
    pub fn allocate(&mut self, id: JobId, size: u32, spread: Spread) -> Result<&Job, JobRefusal> {
        if self.jobs.contains_key(&id) {
            return Err(JobRefusal::Exists { job: id });
        }
        let nodes = self.find(size, spread)?;
        Ok(self.assign(id, nodes))
    }

    /// Allocates exactly these nodes to a new job, if that keeps the rules.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] with the first unavailable node, or with the rule and the job that a link
    /// would be shared with.
    pub fn reserve(&mut self, id: JobId, nodes: &[u32]) -> Result<&Job, JobRefusal> {
        if self.jobs.contains_key(&id) {
            return Err(JobRefusal::Exists { job: id });
        }
        let nodes = self.check_nodes(nodes)?;
        if let Some(node) = nodes.iter().find(|node| !self.topology.is_live(**node)) {
            let why = self.topology.left_out(*node).unwrap_or(LeftOut::Down);
            return Err(JobRefusal::LeftOut { node: *node, why });
        }
        let class = self.topology.class_of(&nodes);
        self.check_links(class, &nodes)?;
        Ok(self.assign(id, nodes))
    }

    /// Adds a job that already runs, even if it breaks a rule on the present fabric.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] if the job exists, or a node does not exist or belongs to another job.
    pub fn restore(&mut self, id: JobId, nodes: &[u32]) -> Result<&Job, JobRefusal> {
        if self.jobs.contains_key(&id) {
            return Err(JobRefusal::Exists { job: id });
        }
        let nodes = self.check_nodes(nodes)?;
        Ok(self.assign(id, nodes))
    }

    /// Releases the nodes of a job and returns it; `None` if there is no such job.
    pub fn release(&mut self, id: JobId) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        for node in &job.nodes {
            self.owner[*node as usize] = None;
            if self.topology.is_live(*node)
                && let Some(leaf) = self.topology.leaf_of(*node)
            {
                self.free[leaf as usize] += 1;
            }
        }
        self.count_units(&job, |held| *held -= 1);
        Some(job)
    }

    fn assign(&mut self, id: JobId, nodes: Vec<u32>) -> &Job {
        for node in &nodes {
            self.owner[*node as usize] = Some(id);
            if self.topology.is_live(*node)
                && let Some(leaf) = self.topology.leaf_of(*node)
            {
                self.free[leaf as usize] -= 1;
            }
        }
        let job = Job { class: self.topology.class_of(&nodes), nodes };
        self.count_units(&job, |held| *held += 1);
        self.jobs.entry(id).or_insert(job)
    }

    /// Changes the count of jobs at every unit that the job reaches out of.
    fn count_units(&mut self, job: &Job, change: impl Fn(&mut u32)) {
        for level in 0..job.class.level() {
            for unit in self.topology.units_of(level, &job.nodes) {
                change(&mut self.reaching_out[level][unit as usize]);
            }
        }
    }

    /// Sorts nodes, and refuses those that do not exist, belong to a job, or are named twice.
    fn check_nodes(&self, nodes: &[u32]) -> Result<Vec<u32>, JobRefusal> {
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

    /// Refuses nodes in a unit that both this job and another one reach out of (rules 5 to 7).
    fn check_links(&self, class: JobClass, nodes: &[u32]) -> Result<(), JobRefusal> {
        for level in 0..class.level() {
            for unit in self.topology.units_of(level, nodes) {
                if self.reaching_out[level][unit as usize] == 0 {
                    continue;
                }
                let reaches_out = |job: &&Job| {
                    job.class.level() > level
                        && self.topology.units_of(level, &job.nodes).contains(&unit)
                };
                let with = self.jobs.iter().find(|(_, job)| reaches_out(job));
                let (with, _) = with.expect("a job is counted at the unit");
                return Err(JobRefusal::Shared { class, level, unit, with: *with });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
