//! Calls and connections that a process has refused, as their client asked too much.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use super::header;

/// Counts of refusals by service, role of the client, and limit.
#[derive(Debug)]
pub struct Limited(Mutex<BTreeMap<[&'static str; 3], u64>>);

impl Limited {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Counts one refusal.
    ///
    /// - `service`: the service called, `-` for a connection.
    /// - `role`: what the client is, such as `tenant`.
    /// - `limit`: the setting that was reached.
    pub fn refused(&self, service: &'static str, role: &'static str, limit: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry([service, role, limit]).or_default() += 1;
    }

    /// How often that was counted.
    #[must_use]
    pub fn count(&self, service: &'static str, role: &'static str, limit: &'static str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&[service, role, limit]).copied().unwrap_or_default()
    }

    pub(super) fn write(&self, text: &mut String) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "fabricast_rpc_limited_total";
        let help = "Calls and connections that were refused, as their client asked too much, by service, role of the client and limit.";
        header(text, name, help, "counter");
        for ([service, role, limit], number) in counts.iter() {
            let labels = format!("service=\"{service}\",role=\"{role}\",limit=\"{limit}\"");
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{name}{{{labels}}} {number}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_shown_by_service_role_and_limit() {
        let limited = Limited::new();
        limited.refused("TicService", "tenant", "open_calls");
        limited.refused("TicService", "tenant", "open_calls");
        let mut text = String::new();
        limited.write(&mut text);
        let labels = "service=\"TicService\",role=\"tenant\",limit=\"open_calls\"";
        let line = format!("fabricast_rpc_limited_total{{{labels}}} 2");
        assert!(text.lines().any(|one| one == line), "{text}");
        assert_eq!(limited.count("TicService", "tenant", "open_calls"), 2);
    }
}
