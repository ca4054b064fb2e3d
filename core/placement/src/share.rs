//! Decides how many multicast groups a job may form.
//!
//! A group takes an entry on every switch of its tree, and so at least on the leaf switches of its
//! members. A job that may form `g` groups therefore counts as `g` entries on every leaf switch
//! that one of its endpoints is attached to. As in HPE Slingshot, whose fabric manager gives each
//! step `M / (S / s) / j` addresses (`M` of the fabric, `S` and `s` nodes of system and job, `j`
//! steps at a time), the share of a job is the part of the entries that its endpoints are of all:
//! of the fabric, and of each leaf switch. Jobs whose nodes are their own hence always get their
//! shares.
//!
//! Invariants
//! - SHARE-1: on no leaf switch do jobs have more entries than [`ShareRules::entries`], in the
//!   fabric no more groups than [`ShareRules::groups`], and in no account more than its limit;
//!   except jobs that are noted without having been decided.

use std::collections::BTreeMap;

use thiserror::Error;

/// Limits on what jobs may reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRules {
    /// Entries that jobs may have on one leaf switch.
    pub entries: u32,
    /// Groups that all jobs together may have; `None` for as many as the entries allow.
    pub groups: Option<u32>,
    /// Groups that the jobs of one account may have; `None` for as many as all jobs.
    pub account_groups: Option<u32>,
    /// The same for accounts with limits of their own.
    pub accounts: BTreeMap<String, u32>,
}

/// A job, and where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareJob {
    /// Account that it counts against; empty if it has none.
    pub account: String,
    /// Its endpoints on each leaf switch, by number of the switch.
    pub leaves: BTreeMap<u32, u32>,
    /// Latest end of the job, in nanoseconds of the caller's clock.
    pub ends: Option<u64>,
}

/// Limit that a share meets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShareLimit {
    /// The job's part of the entries of the fabric and of its leaf switches.
    #[error("the part of the entries that goes with its nodes")]
    Job,
    /// The limit of its account.
    #[error("the limit of account '{account}'")]
    Account {
        /// Name of the account.
        account: String,
    },
    /// The limit of all jobs.
    #[error("the limit of all jobs")]
    AllJobs,
    /// The entries of a leaf switch.
    #[error("the entries of a leaf switch")]
    Leaf {
        /// Number of the switch.
        switch: u32,
    },
}

/// Reason why a job gets no share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRefusal {
    /// Groups that it asks for; 1 if it asks for its whole share.
    pub asked: u32,
    /// Groups that it could have now.
    pub free: u32,
    /// The limit that leaves no more.
    pub limit: ShareLimit,
    /// Time from when on it could have what it asks for, if the jobs that have the rest end as they
    /// say; `None` if that is not known, or it never could.
    pub from: Option<u64>,
}

/// Groups and entries that jobs have. Copies of `K` name them.
#[derive(Clone, Debug)]
pub struct ShareLedger<K> {
    rules: ShareRules,
    /// Endpoints of each leaf switch.
    endpoints: BTreeMap<u32, u32>,
    jobs: BTreeMap<K, Held>,
    used: Used,
}

#[derive(Clone, Debug)]
struct Held {
    job: ShareJob,
    groups: u32,
}

/// Sums over jobs. They are wide: jobs may have been noted under other rules.
#[derive(Clone, Debug, Default)]
struct Used {
    groups: u64,
    accounts: BTreeMap<String, u64>,
    leaves: BTreeMap<u32, u64>,
}

impl<K: Ord + Clone> ShareLedger<K> {
    /// A ledger without jobs.
    ///
    /// - `endpoints`: how many endpoints each leaf switch has.
    pub fn new(rules: ShareRules, endpoints: BTreeMap<u32, u32>) -> Self {
        Self { rules, endpoints, jobs: BTreeMap::new(), used: Used::default() }
    }

    /// Notes the groups of a job, in place of those that it had.
    pub fn insert(&mut self, key: K, job: ShareJob, groups: u32) {
        self.remove(&key);
        self.used.add(&job, groups);
        self.jobs.insert(key, Held { job, groups });
    }

    /// Forgets a job, which may be unknown.
    pub fn remove(&mut self, key: &K) {
        if let Some(Held { job, groups }) = self.jobs.remove(key) {
            self.used.subtract(&job, groups);
        }
    }

    /// Decides how many groups a new job gets; notes nothing.
    ///
    /// - `asked`: exactly so many; 0 for its whole share, or what others leave of it.
    ///
    /// # Errors
    ///
    /// [`ShareRefusal`] if it cannot have so many, or none.
    pub fn decide(&self, job: &ShareJob, asked: u32) -> Result<u32, ShareRefusal> {
        let own = self.share_of(job);
        let (free, limit) = match self.free(&self.used, job) {
            (free, _) if u64::from(own) <= free => (own, ShareLimit::Job),
            (free, limit) => (u32::try_from(free).unwrap_or(u32::MAX), limit),
        };
        let needed = asked.max(1);
        if needed <= free {
            return Ok(if asked == 0 { free } else { asked });
        }
        let from = if needed > own { None } else { self.free_from(job, needed) };
        Err(ShareRefusal { asked: needed, free, limit, from })
    }

    /// The part of all entries that goes with the nodes of a job; at least one.
    fn share_of(&self, job: &ShareJob) -> u32 {
        let part = |whole: u32, own: u32, all: u64| {
            let part = u64::from(whole) * u64::from(own) / all.max(1);
            u32::try_from(part).unwrap_or(u32::MAX)
        };
        let own: u64 = job.leaves.values().map(|own| u64::from(*own)).sum();
        let own = u32::try_from(own).unwrap_or(u32::MAX);
        let all: u64 = self.endpoints.values().map(|all| u64::from(*all)).sum();
        let of_leaves = job.leaves.iter().map(|(leaf, own)| {
            let all = self.endpoints.get(leaf).copied().unwrap_or(1);
            part(self.rules.entries, *own, u64::from(all))
        });
        let of_fabric = self.rules.groups.map(|groups| part(groups, own, all));
        of_leaves.chain(of_fabric).min().unwrap_or(0).max(1)
    }

    /// Groups that a job could have beside others, and what limits them.
    fn free(&self, used: &Used, job: &ShareJob) -> (u64, ShareLimit) {
        let rules = &self.rules;
        let left = |limit: u32, used: u64| u64::from(limit).saturating_sub(used);
        let of = |account: &str| used.accounts.get(account).copied().unwrap_or(0);
        let account = rules.accounts.get(&job.account).copied().or(rules.account_groups);
        let account = account.map(|limit| {
            let account = job.account.clone();
            (left(limit, of(&account)), ShareLimit::Account { account })
        });
        let all = rules.groups.map(|limit| (left(limit, used.groups), ShareLimit::AllJobs));
        let leaves = job.leaves.keys().map(|switch| {
            let used = used.leaves.get(switch).copied().unwrap_or(0);
            (left(rules.entries, used), ShareLimit::Leaf { switch: *switch })
        });
        let limits = account.into_iter().chain(all).chain(leaves);
        limits.min_by_key(|(free, _)| *free).unwrap_or((u64::MAX, ShareLimit::AllJobs))
    }

    /// The first time at which enough jobs have ended.
    fn free_from(&self, job: &ShareJob, needed: u32) -> Option<u64> {
        let mut ends: Vec<(u64, &Held)> =
            self.jobs.values().filter_map(|held| held.job.ends.map(|ends| (ends, held))).collect();
        ends.sort_by_key(|(ends, _)| *ends);
        let mut used = self.used.clone();
        ends.into_iter().find_map(|(ends, held)| {
            used.subtract(&held.job, held.groups);
            (self.free(&used, job).0 >= u64::from(needed)).then_some(ends)
        })
    }
}

impl Used {
    fn add(&mut self, job: &ShareJob, groups: u32) {
        let groups = u64::from(groups);
        self.groups += groups;
        *self.accounts.entry(job.account.clone()).or_default() += groups;
        for leaf in job.leaves.keys() {
            *self.leaves.entry(*leaf).or_default() += groups;
        }
    }

    fn subtract(&mut self, job: &ShareJob, groups: u32) {
        let groups = u64::from(groups);
        self.groups -= groups;
        subtract_from(&mut self.accounts, &job.account, groups);
        job.leaves.keys().for_each(|leaf| subtract_from(&mut self.leaves, leaf, groups));
    }
}

/// Subtracts from a sum, which is dropped once it is zero.
fn subtract_from<K: Ord>(sums: &mut BTreeMap<K, u64>, key: &K, groups: u64) {
    if let Some(sum) = sums.get_mut(key) {
        *sum -= groups;
        if *sum == 0 {
            sums.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(entries: u32) -> ShareRules {
        ShareRules { entries, groups: None, account_groups: None, accounts: BTreeMap::new() }
    }

    /// Two leaf switches with four endpoints each.
    fn ledger(rules: ShareRules) -> ShareLedger<u32> {
        ShareLedger::new(rules, BTreeMap::from([(0, 4), (1, 4)]))
    }

    fn job(leaves: &[(u32, u32)]) -> ShareJob {
        let leaves = leaves.iter().copied().collect();
        ShareJob { leaves, ..ShareJob::default() }
    }

    #[test]
    fn a_share_is_the_part_of_the_entries_that_goes_with_the_nodes() {
        let of_leaves = ledger(rules(32));
        assert_eq!(of_leaves.decide(&job(&[(0, 2)]), 0), Ok(16));
        assert_eq!(of_leaves.decide(&job(&[(0, 4), (1, 4)]), 0), Ok(32));
        assert_eq!(of_leaves.decide(&job(&[(0, 4), (1, 1)]), 0), Ok(8), "the scarcest leaf");
        assert_eq!(of_leaves.decide(&job(&[(0, 2)]), 3), Ok(3));
        let of_fabric = ledger(ShareRules { groups: Some(16), ..rules(32) });
        assert_eq!(of_fabric.decide(&job(&[(0, 4)]), 0), Ok(8), "16 / (8 / 4)");
        let few = ledger(rules(1));
        assert_eq!(few.decide(&job(&[(0, 1)]), 0), Ok(1), "at least one");
    }

    #[test]
    fn more_than_the_own_part_is_refused_for_good() {
        let refused = ledger(rules(32)).decide(&job(&[(0, 2)]), 17).unwrap_err();
        let limit = ShareLimit::Job;
        assert_eq!(refused, ShareRefusal { asked: 17, free: 16, limit, from: None });
    }

    #[test]
    fn an_account_has_a_limit_and_others_do_not_feel_it() {
        let accounts = BTreeMap::from([("physics".to_owned(), 10)]);
        let mut ledger = ledger(ShareRules { account_groups: Some(20), accounts, ..rules(32) });
        let of = |account: &str| ShareJob { account: account.to_owned(), ..job(&[(1, 2)]) };
        ledger.insert(1, of("physics"), 8);
        let refused = ledger.decide(&of("physics"), 3).unwrap_err();
        let limit = ShareLimit::Account { account: "physics".to_owned() };
        assert_eq!(refused, ShareRefusal { asked: 3, free: 2, limit, from: None });
        assert_eq!(ledger.decide(&of("physics"), 0), Ok(2), "what is left of it");
        assert_eq!(ledger.decide(&of("chemistry"), 0), Ok(16));
        ledger.remove(&1);
        assert_eq!(ledger.decide(&of("physics"), 3), Ok(3));
    }

    #[test]
    fn a_refusal_says_when_enough_jobs_will_have_ended() {
        let mut ledger = ledger(rules(32));
        for (key, ends) in [(1, Some(30)), (2, Some(10)), (3, Some(20)), (4, None)] {
            ledger.insert(key, ShareJob { ends, ..job(&[(0, 1)]) }, 8);
        }
        let refused = ledger.decide(&job(&[(0, 2)]), 16).unwrap_err();
        let limit = ShareLimit::Leaf { switch: 0 };
        assert_eq!(refused, ShareRefusal { asked: 16, free: 0, limit, from: Some(20) });
        assert_eq!(ledger.decide(&job(&[(0, 4)]), 32).unwrap_err().from, None, "4 never ends");
        assert_eq!(ledger.decide(&job(&[(1, 2)]), 16), Ok(16), "the other leaf is free");
    }

    proptest! {
        /// SHARE-1, and jobs on nodes of their own always get their share.
        #[test]
        fn no_budget_is_exceeded(
            entries in 1u32..40,
            groups in proptest::option::of(8u32..60),
            steps in proptest::collection::vec((0u32..12, 0u32..5, 0u32..5, 0u32..20), 1..40),
        ) {
            let all = ShareRules { groups, account_groups: Some(50), ..rules(entries) };
            let mut ledger = ledger(all);
            for (key, left, right, asked) in steps {
                let leaves = [(0, left), (1, right)].into_iter().filter(|(_, own)| *own > 0);
                let job = ShareJob { leaves: leaves.collect(), ..ShareJob::default() };
                ledger.remove(&key);
                if let Ok(given) = ledger.decide(&job, asked) {
                    prop_assert!(given > 0 && (asked == 0 || given == asked));
                    ledger.insert(key, job, given);
                }
                prop_assert!(ledger.used.leaves.values().all(|used| *used <= u64::from(entries)));
                prop_assert!(groups.is_none_or(|most| ledger.used.groups <= u64::from(most)));
                prop_assert!(ledger.used.groups <= 50);
            }
            let keys: Vec<u32> = ledger.jobs.keys().copied().collect();
            keys.iter().for_each(|key| ledger.remove(key));
            prop_assert!(ledger.used.groups == 0 && ledger.used.leaves.is_empty());
        }

        #[test]
        fn jobs_on_nodes_of_their_own_always_get_their_share(
            entries in 4u32..40,
            sizes in proptest::collection::vec(1u32..4, 1..4),
        ) {
            let mut ledger = ledger(rules(entries));
            let mut left = 4u32;
            for (key, size) in (0u32..).zip(sizes) {
                let Some(rest) = left.checked_sub(size) else { continue };
                left = rest;
                let one = job(&[(0, size)]);
                let given = ledger.decide(&one, 0);
                prop_assert_eq!(given.as_ref().ok(), Some(&(entries * size / 4)));
                ledger.insert(key, one, entries * size / 4);
            }
        }
    }
}
