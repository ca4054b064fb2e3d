//! Jobs and the servers they have.

use fabricast_simulator::Chance;
use fabricast_topology::EndpointId;

use super::{LEAVES, OF_A_JOB, RAILS, SERVERS};

/// Placement of the servers of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Four whole leaf switches, drawn by chance.
    Leaves,
    /// Eight servers, drawn by chance.
    Servers,
}

impl Placement {
    pub(super) const ALL: [Self; 2] = [Self::Leaves, Self::Servers];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Leaves => "whole leaf switches",
            Self::Servers => "single servers",
        }
    }

    /// Servers of a unit that is drawn.
    const fn unit(self) -> u32 {
        match self {
            Self::Leaves => SERVERS / LEAVES,
            Self::Servers => 1,
        }
    }
}

/// All jobs whose groups exist, and those that broadcast.
#[derive(Clone, Debug)]
pub(super) struct Jobs {
    /// Servers of each job, the one that broadcasts first.
    pub(super) all: Vec<Vec<u32>>,
    /// Indices into them, of jobs that have no server in common.
    pub(super) active: Vec<usize>,
    /// Seed that they were drawn with.
    pub(super) seed: u64,
}

impl Jobs {
    /// Draws jobs. Those that broadcast are spread evenly among the others.
    pub(super) fn new(placement: Placement, at_once: u32, programmed: u32, seed: u64) -> Self {
        let mut chance = Chance::new(seed, 0x0B5);
        let unit = placement.unit();
        let mut draw = |jobs: u32| -> Vec<Vec<u32>> {
            let mut units: Vec<u32> = (0..SERVERS / unit).collect();
            chance.shuffle(&mut units);
            let of_a_job = (OF_A_JOB / unit) as usize;
            let job =
                |units: &[u32]| units.iter().flat_map(|one| one * unit..(one + 1) * unit).collect();
            units.chunks(of_a_job).take(jobs as usize).map(job).collect()
        };
        let mut active_jobs = draw(at_once).into_iter();
        let every = (programmed / at_once).max(1) as usize;
        let mut jobs = Self { all: Vec::new(), active: Vec::new(), seed };
        while jobs.all.len() < programmed as usize {
            if jobs.all.len() % every == every / 2
                && let Some(active) = active_jobs.next()
            {
                jobs.active.push(jobs.all.len());
                jobs.all.push(active);
            } else {
                jobs.all.extend(draw(1));
            }
        }
        jobs
    }

    /// Lists the servers of the jobs that broadcast.
    pub(super) fn active(&self) -> impl Iterator<Item = &[u32]> {
        self.active.iter().map(|at| self.all[*at].as_slice())
    }
}

/// Gives the port of a server on a rail.
pub(super) const fn port(server: u32, rail: u32) -> EndpointId {
    EndpointId(server * RAILS + rail)
}

/// Gives the leaf switch of a server.
pub(super) const fn leaf(server: u32) -> u32 {
    server / (SERVERS / LEAVES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn jobs_that_broadcast_share_no_server_and_stand_among_the_others() {
        for placement in Placement::ALL {
            let jobs = Jobs::new(placement, 8, 256, 7);
            assert_eq!((jobs.all.len(), jobs.active.len()), (256, 8));
            let servers: Vec<u32> = jobs.active().flatten().copied().collect();
            let distinct: BTreeSet<u32> = servers.iter().copied().collect();
            assert_eq!((servers.len(), distinct.len()), (64, 64));
            assert!(jobs.active[0] > 8 && jobs.active[7] < 248);
            assert!(jobs.all.iter().all(|job| job.len() == 8));
        }
    }

    #[test]
    fn whole_leaf_switches_have_both_of_their_servers() {
        let jobs = Jobs::new(Placement::Leaves, 1, 1, 3);
        let leaves: BTreeSet<u32> = jobs.all[0].iter().map(|server| leaf(*server)).collect();
        assert_eq!(leaves.len(), 4);
    }
}
