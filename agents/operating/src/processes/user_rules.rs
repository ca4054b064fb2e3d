//! Rules of the settings: the groups that a process may use, by the user and group it runs as.
//!
//! A process is bound by the same check as the holder of a tenant's certificate
//! ([`Caller::check_group`]). Without rules every process at the socket may use all groups.
//!
//! Invariants
//! - SESSION-5: a process with a tenant joins, uses and ends memberships of that tenant's groups
//!   only, its own and those that it reserves.

use std::fmt;
use std::sync::Arc;

use fabricast_config::ProcessRule;
use fabricast_rpc::{Caller, LocalProcess};
use thiserror::Error;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::WatchStream;

/// The user of a process, and the caller that its groups are checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// `None` if the system does not tell.
    pub(crate) user: Option<u32>,
    pub(crate) caller: Arc<Caller>,
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.caller.fmt(formatter)
    }
}

/// No rule applies to a process.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no rule of operating_agent.process_rules is for {}",
    process.map_or_else(|| "a process whose user is not known".to_owned(), |process| {
        format!("a process of user {} and group {}", process.user, process.group)
    })
)]
pub(crate) struct NoRule {
    process: Option<LocalProcess>,
}

/// A rule with the caller that it makes of a process.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    rule: ProcessRule,
    caller: Arc<Caller>,
}

/// The rules in force; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserRules(Arc<watch::Sender<Vec<Rule>>>);

impl UserRules {
    pub(crate) fn new(rules: &[ProcessRule]) -> Self {
        Self(Arc::new(watch::Sender::new(with_callers(rules))))
    }

    /// Replaces the rules.
    pub(crate) fn set(&self, rules: &[ProcessRule]) {
        let next = with_callers(rules);
        self.0.send_if_modified(|now| {
            let is_changed = *now != next;
            *now = next;
            is_changed
        });
    }

    /// Decides by the first rule that applies to a process.
    ///
    /// - `process`: `None` if the system does not tell.
    pub(crate) fn owner(&self, process: Option<LocalProcess>) -> Result<Owner, NoRule> {
        let user = process.map(|process| process.user);
        let rules = self.0.borrow();
        if rules.is_empty() {
            return Ok(Owner { user, ..Owner::default() });
        }
        let LocalProcess { user: number, group, .. } = process.ok_or(NoRule { process })?;
        let rule = rules.iter().find(|one| one.rule.applies_to(number, group));
        let rule = rule.ok_or(NoRule { process })?;
        Ok(Owner { user, caller: Arc::clone(&rule.caller) })
    }

    /// Waits until the rules decide differently about a process.
    pub(crate) async fn changed(&self, process: Option<LocalProcess>, owner: &Owner) {
        let mut changes = WatchStream::from_changes(self.0.subscribe());
        // The stream has no end, as this holds the sender.
        while self.owner(process).as_ref() == Ok(owner) && changes.next().await.is_some() {}
    }
}

fn with_callers(rules: &[ProcessRule]) -> Vec<Rule> {
    let with_caller = |rule: &ProcessRule| {
        let caller = rule.tenant.clone().map(|tenant| Caller::Known(vec![tenant]));
        Rule { rule: rule.clone(), caller: Arc::new(caller.unwrap_or_default()) }
    };
    rules.iter().map(with_caller).collect()
}
