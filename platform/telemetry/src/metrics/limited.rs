//! Calls and connections that a process has refused because of a client's limits.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Counter;

/// Counts of refusals by service, role of the client, and limit.
#[derive(Debug, Default)]
pub struct Limited(Family<Refused, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    service: &'static str,
    role: &'static str,
    limit: &'static str,
}

impl Limited {
    /// Counts one refusal.
    ///
    /// - `service`: the service called, `-` for a connection.
    /// - `role`: the role of the client, such as `tenant`.
    /// - `limit`: the setting that was exceeded.
    pub fn refused(&self, service: &'static str, role: &'static str, limit: &'static str) {
        self.0.get_or_create(&Refused { service, role, limit }).inc();
    }

    /// Number of refusals with these labels.
    #[must_use]
    pub fn count(&self, service: &'static str, role: &'static str, limit: &'static str) -> u64 {
        self.0.get(&Refused { service, role, limit }).map_or(0, |counter| counter.get())
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Calls and connections that were refused, as their client asked too much, by service, role of the client and limit";
        registry.register("fabricast_rpc_limited", help, self.0.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::exposition;

    #[test]
    fn refusals_are_shown_by_service_role_and_limit() {
        let limited = Limited::default();
        limited.refused("TicService", "tenant", "open_calls");
        limited.refused("TicService", "tenant", "open_calls");
        let mut registry = Registry::default();
        limited.register(&mut registry);
        let text = exposition(&registry);
        let labels = "service=\"TicService\",role=\"tenant\",limit=\"open_calls\"";
        let line = format!("fabricast_rpc_limited_total{{{labels}}} 2");
        assert!(text.lines().any(|one| one == line), "{text}");
        assert_eq!(limited.count("TicService", "tenant", "open_calls"), 2);
        assert_eq!(limited.count("TicService", "tenant", "burst"), 0);
    }
}
