//! Metrics of this process, in the OpenMetrics text format.
//!
//! Every metric is a static of this module, so their names are in one place; docs/metrics.md has
//! the same list, which a test compares with it. A process that runs several parts counts them
//! together. Counters and gauges are lock-free; labelled metrics take a read lock.

mod calls;
mod endpoint;
mod limited;

use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

pub use calls::{Calls, Outcome};
pub use endpoint::{MetricsError, MetricsServer};
pub use limited::Limited;

/// A number that only grows.
pub type Counter = prometheus_client::metrics::counter::Counter;
/// A number that is set.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<u64, AtomicU64>;

macro_rules! metrics {
    ($($name:ident: $kind:ident $text:literal, $help:literal;)*) => {
        $(#[doc = concat!($help, ".")] pub static $name: LazyLock<$kind> = LazyLock::new($kind::default);)*

        /// Registers all of them, in the order of the documentation.
        fn register_all(registry: &mut Registry) {
            $(registry.register($text, $help, $kind::clone(&$name));)*
        }
    };
}

// The encoder appends `_total` to the names of counters, and a full stop to each text.
metrics! {
    TIC_LEADS: Gauge "fabricast_tic_leads", "1 while this TIC leads, 0 while another one does";
    TIC_TERM: Gauge "fabricast_tic_term", "Term of the leading TIC, as far as this TIC knows";
    TIC_TRANSACTIONS: Counter "fabricast_tic_transactions", "Transactions that the store has made durable";
    TIC_CHANGES: Counter "fabricast_tic_changes", "Changes of records that were made durable, many in one transaction";
    TIC_STORE_FAILURES: Counter "fabricast_tic_store_failures", "Calls that the store refused or did not answer: transactions, elections, renewals of the lead";
    TIC_EXPELLED: Counter "fabricast_tic_expelled_nodes", "Nodes that were taken out of all their groups";
    TIC_HELD: Gauge "fabricast_tic_held_nodes", "Nodes that do not answer and are kept, as too many are silent at once";
    ROUTER_ACTIVE: Gauge "fabricast_router_active", "1 while this route service is at work, 0 while it waits for the term of another";
    ROUTER_SETTLED: Gauge "fabricast_router_settled", "1 while the switches hold exactly the tables that the newest records ask for, and the TIC knows every route";
    ROUTER_SEEN_REVISION: Gauge "fabricast_router_seen_revision", "Newest revision of the records taken in";
    ROUTER_ROUTED_REVISION: Gauge "fabricast_router_routed_revision", "Revision that the switches are programmed for";
    ROUTER_ROUTED_GROUPS: Gauge "fabricast_router_routed_groups", "Groups with a hardware route";
    ROUTER_UNICAST_GROUPS: Gauge "fabricast_router_unicast_only_groups", "Groups without a hardware route";
    ROUTER_USED_ENTRIES: Gauge "fabricast_router_used_entries", "Largest number of entries used in one table";
    ROUTER_TABLE_ENTRIES: Gauge "fabricast_router_table_entries", "Entries that a table has";
    ROUTER_MISSING_GROUPS: Gauge "fabricast_router_missing_groups", "Groups without a route because their planned trees do not reach all members";
    ROUTER_MAX_TFI: Gauge "fabricast_router_max_tfi", "Largest number of groups that share one tree";
    ROUTER_COMPUTE_US: Gauge "fabricast_router_last_compute_microseconds", "Time of the last computation";
    ROUTER_PROGRAM_US: Gauge "fabricast_router_last_program_microseconds", "Time of the last programming round";
    ROUTER_DRIFTS: Counter "fabricast_router_table_drifts", "Tables that were read back and held something else than was written";
    ROUTER_COMPARISONS: Counter "fabricast_router_table_comparisons", "Tables that were read back and compared with what was written";
    AGENT_ADMISSIONS: Counter "fabricast_operating_agent_admissions", "Times that the TIC has admitted a node hosted here";
    AGENT_DOWNS: Counter "fabricast_operating_agent_downs", "Times that a node hosted here was stopped, or learned that it was expelled";
    SWITCH_ENTRIES: Counter "fabricast_switch_agent_entries_written", "Table entries that switches have taken";
    SWITCH_FAILED_ELEMENTS: Gauge "fabricast_switch_agent_failed_elements", "Parts of the fabric that this agent sees as failed";
    SWITCH_DIRECTED_ANSWERS: Counter "fabricast_switch_agent_directed_answers", "Answers to InfiniBand subnet management packets along directed routes";
    SWITCH_LID_ANSWERS: Counter "fabricast_switch_agent_lid_answers", "Answers to InfiniBand subnet management packets by LID";
    SETTINGS_GENERATION: Gauge "fabricast_settings_generation", "Which settings are in force: 1 those that the part began with, one more with each time that others were read";
    SETTINGS_REFUSED: Counter "fabricast_settings_refused", "Times that settings were read again and not taken over";
    TRACES_EXPORTED: Counter "fabricast_traces_exported_spans", "Spans that the collector has taken";
    TRACES_DROPPED: Counter "fabricast_traces_dropped_spans", "Spans that were lost, as there was no room for them or the collector did not take them";
    FABRIC_PACKETS: Counter "fabricast_fabric_packets", "Packets that endpoints have put on the wire";
}

/// Calls that this process has answered.
pub static CALLS: LazyLock<Calls> = LazyLock::new(Calls::default);
/// Calls and connections that this process has refused because of a client's limits.
pub static LIMITED: LazyLock<Limited> = LazyLock::new(Limited::default);

/// All metrics of this process.
///
/// - `service`: the part that runs, as [`crate::init`] was told.
pub(crate) fn registry(service: &'static str) -> Registry {
    let mut registry = Registry::default();
    let build_info = Family::<[(&str, &str); 2], Gauge>::default();
    build_info
        .get_or_create(&[("service", service), ("version", env!("CARGO_PKG_VERSION"))])
        .set(1);
    let help = "Which part runs here, and of which version";
    registry.register("fabricast_build_info", help, build_info);
    register_all(&mut registry);
    CALLS.register(&mut registry);
    LIMITED.register(&mut registry);
    registry
}

/// Encodes all metrics of a registry.
pub(crate) fn exposition(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, registry);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, type and help of every metric that is shown.
    fn shown() -> Vec<(String, String, String)> {
        // A labelled metric is shown once it has counted something.
        let outcome = Outcome { code: "OK", elapsed: std::time::Duration::ZERO };
        CALLS.answered("TicService", "GetGroup", outcome);
        LIMITED.refused("TicService", "tenant", "open_calls");
        let text = exposition(&registry("x"));
        let header = |prefix: &'static str| {
            text.lines().filter_map(move |line| line.strip_prefix(prefix)?.split_once(' '))
        };
        let described = header("# HELP ").zip(header("# TYPE "));
        let named = described.map(|((name, help), (same, kind))| {
            assert_eq!(name, same);
            let suffix = if kind == "counter" { "_total" } else { "" };
            (format!("{name}{suffix}"), kind.to_owned(), help.trim_end_matches('.').to_owned())
        });
        named.collect()
    }

    #[test]
    fn the_documentation_has_the_same_list() {
        let documentation = include_str!("../../../docs/metrics.md");
        let rows = documentation.lines().filter(|line| line.starts_with("| `fabricast_"));
        let rows: Vec<&str> = rows.collect();
        let shown = shown().into_iter().map(|(name, _, help)| format!("| `{name}` | {help} |"));
        assert_eq!(rows, shown.collect::<Vec<_>>());
    }

    #[test]
    fn rules_and_dashboard_name_existing_metrics() {
        let rules = include_str!("../../../deploy/prometheus/alerts.yaml");
        let dashboard = include_str!("../../../deploy/grafana/fabricast.json");
        let shown = shown();
        for text in [rules, dashboard] {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let named: Vec<&str> = words.filter(|word| word.starts_with("fabricast_")).collect();
            assert!(!named.is_empty());
            for name in named {
                let name = name.trim_end_matches("_bucket");
                assert!(shown.iter().any(|(shown, _, _)| shown == name), "{name}");
            }
        }
    }

    #[test]
    fn counted_values_are_shown() {
        FABRIC_PACKETS.inc_by(2);
        TIC_TERM.set(7);
        let text = exposition(&registry("fabricast-tic"));
        assert!(text.contains("\nfabricast_tic_term 7\n"), "{text}");
        assert!(text.contains("\nfabricast_fabric_packets_total 2\n"), "{text}");
        assert!(text.contains("service=\"fabricast-tic\""), "{text}");
    }
}
