//! Settings of the groups that jobs may reserve.

use std::collections::BTreeMap;

use fabricast_placement::share::ShareRules;
use serde::Deserialize;

/// Section `[tic.job_shares]` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawJobShares {
    /// Entries that jobs may reserve on one leaf switch; a group counts as one on every leaf switch
    /// that its job has nodes at. Default: `colors`, as many as a table has. Lower it to leave
    /// entries to groups of no job.
    pub entries_per_switch: Option<u32>,
    /// Groups that all jobs together may reserve. Default: as many as the entries allow.
    pub groups: Option<u32>,
    /// Groups that the jobs of one account together may reserve, those without an account included.
    /// Default: as many as all jobs.
    pub account_groups: Option<u32>,
    /// The same for accounts with limits of their own, by name.
    pub accounts: BTreeMap<String, u32>,
}

impl RawJobShares {
    /// The rules, where a table has so many entries.
    #[must_use]
    pub fn rules(&self, colors: u16) -> ShareRules {
        ShareRules {
            entries: self.entries_per_switch.unwrap_or(u32::from(colors)),
            groups: self.groups,
            account_groups: self.account_groups,
            accounts: self.accounts.clone(),
        }
    }
}
