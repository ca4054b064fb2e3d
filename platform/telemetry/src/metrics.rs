//! What a process counts, in the text form that Prometheus reads.
//!
//! Every metric is a static of this module, so their names are in one place; docs/metrics.md has the same list, which a
//! test holds against it. A process that runs several parts counts them together. Counting is a few atomic
//! operations, whether or not anybody reads.

mod calls;
mod endpoint;
mod limited;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

pub use calls::{Calls, Outcome};
pub use endpoint::{MetricsError, MetricsServer};
pub use limited::Limited;

/// One number with a name.
#[derive(Debug)]
pub struct Metric {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    value: AtomicU64,
}

/// How a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Up only.
    Counter,
    /// Up and down.
    Gauge,
}

impl Metric {
    const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: Kind::Counter, value: AtomicU64::new(0) }
    }

    const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: Kind::Gauge, value: AtomicU64::new(0) }
    }

    /// Gives a gauge its value.
    pub fn set(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// What it is now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Counts so many more.
    pub fn add(&self, more: u64) {
        self.value.fetch_add(more, Ordering::Relaxed);
    }
}

macro_rules! metrics {
    ($($name:ident: $kind:ident $text:literal, $help:literal;)*) => {
        $(#[doc = $help] pub static $name: Metric = Metric::$kind($text, $help);)*
        /// All of them, in the order of the documentation.
        const ALL: &[&Metric] = &[$(&$name),*];
    };
}

metrics! {
    TIC_LEADS: gauge "fabricast_tic_leads", "1 while this TIC leads, 0 while another one does.";
    TIC_TERM: gauge "fabricast_tic_term", "Term of office of the TIC that leads, as far as this one knows.";
    TIC_TRANSACTIONS: counter "fabricast_tic_transactions_total", "Transactions that the store has made durable.";
    TIC_CHANGES: counter "fabricast_tic_changes_total", "Changes of records that were made durable, many in one transaction.";
    TIC_STORE_FAILURES: counter "fabricast_tic_store_failures_total", "Transactions that the store refused or did not answer.";
    TIC_EXPELLED: counter "fabricast_tic_expelled_nodes_total", "Nodes that were taken out of all their groups.";
    ROUTER_ACTIVE: gauge "fabricast_router_active", "1 while this route service is at work, 0 while it waits for the term of another.";
    ROUTER_SETTLED: gauge "fabricast_router_settled", "1 while the switches hold exactly the tables that the records ask for.";
    ROUTER_SEEN_REVISION: gauge "fabricast_router_seen_revision", "Newest revision of the records taken in.";
    ROUTER_ROUTED_REVISION: gauge "fabricast_router_routed_revision", "Revision that the switches are programmed for.";
    ROUTER_ROUTED_GROUPS: gauge "fabricast_router_routed_groups", "Groups with a hardware route.";
    ROUTER_UNICAST_GROUPS: gauge "fabricast_router_unicast_only_groups", "Groups without a hardware route.";
    ROUTER_USED_ENTRIES: gauge "fabricast_router_used_entries", "Largest number of entries used in one table.";
    ROUTER_TABLE_ENTRIES: gauge "fabricast_router_table_entries", "Entries that a table has.";
    ROUTER_MAX_TFI: gauge "fabricast_router_max_tfi", "Largest number of groups that share one tree.";
    ROUTER_COMPUTE_US: gauge "fabricast_router_last_compute_microseconds", "Time of the last computation.";
    ROUTER_PROGRAM_US: gauge "fabricast_router_last_program_microseconds", "Time of the last programming round.";
    ROUTER_DRIFTS: counter "fabricast_router_table_drifts_total", "Tables that were read back and held something else than was written.";
    ROUTER_COMPARISONS: counter "fabricast_router_table_comparisons_total", "Tables that were read back and compared with what was written.";
    AGENT_ADMISSIONS: counter "fabricast_operating_agent_admissions_total", "Times that the TIC has admitted a node hosted here.";
    AGENT_DOWNS: counter "fabricast_operating_agent_downs_total", "Times that a node hosted here was stopped, or learned that it was expelled.";
    SWITCH_ENTRIES: counter "fabricast_switch_agent_entries_written_total", "Table entries that switches have taken.";
    SWITCH_FAILED_ELEMENTS: gauge "fabricast_switch_agent_failed_elements", "Parts of the fabric that this agent sees as failed.";
    SWITCH_DIRECTED_ANSWERS: counter "fabricast_switch_agent_directed_answers_total", "Answers to InfiniBand subnet management packets along directed routes.";
    SWITCH_LID_ANSWERS: counter "fabricast_switch_agent_lid_answers_total", "Answers to InfiniBand subnet management packets by LID.";
    SETTINGS_GENERATION: gauge "fabricast_settings_generation", "Which settings are in force: 1 those that the part began with, one more with each time that others were read.";
    SETTINGS_REFUSED: counter "fabricast_settings_refused_total", "Times that settings were read again and not taken over.";
    TRACES_EXPORTED: counter "fabricast_traces_exported_spans_total", "Spans that the collector has taken.";
    TRACES_DROPPED: counter "fabricast_traces_dropped_spans_total", "Spans that were lost, as there was no room for them or the collector did not take them.";
    FABRIC_PACKETS: counter "fabricast_fabric_packets_total", "Packets that endpoints have put on the wire.";
}

/// Calls that this process has answered.
pub static CALLS: Calls = Calls::new();
/// Calls and connections that this process has refused, as their client asked too much.
pub static LIMITED: Limited = Limited::new();

/// All numbers, as Prometheus reads them.
///
/// - `service`: the part that runs, as [`crate::init`] was told.
#[must_use]
pub fn exposition(service: &str) -> String {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    header(
        &mut text,
        "fabricast_build_info",
        "Which part runs here, and of which version.",
        "gauge",
    );
    // Writing to a text cannot fail.
    let _ = writeln!(text, "fabricast_build_info{{service=\"{service}\",version=\"{version}\"}} 1");
    for metric in ALL {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        header(&mut text, metric.name, metric.help, kind);
        let _ = writeln!(text, "{} {}", metric.name, metric.value.load(Ordering::Relaxed));
    }
    CALLS.write(&mut text);
    LIMITED.write(&mut text);
    text
}

fn header(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_same_list() {
        let documentation = include_str!("../../../docs/metrics.md");
        let rows = documentation.lines().filter(|line| line.starts_with("| `fabricast_"));
        let written: Vec<String> = exposition("x")
            .lines()
            .filter_map(|line| line.strip_prefix("# HELP "))
            .filter_map(|line| line.split_once(' '))
            .map(|(name, help)| (name, help.trim_end_matches('.')))
            .map(|(name, help)| format!("| `{name}` | {help} |"))
            .collect();
        assert_eq!(rows.collect::<Vec<_>>(), written);
    }

    #[test]
    fn rules_and_dashboard_name_metrics_that_there_are() {
        let rules = include_str!("../../../deploy/prometheus/alerts.yaml");
        let dashboard = include_str!("../../../deploy/grafana/fabricast.json");
        let shown = exposition("x");
        let there: Vec<&str> = shown
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        for text in [rules, dashboard] {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let named: Vec<&str> = words.filter(|word| word.starts_with("fabricast_")).collect();
            assert!(!named.is_empty());
            for name in named {
                assert!(there.contains(&name.trim_end_matches("_bucket")), "{name}");
            }
        }
    }

    #[test]
    fn counters_say_total_and_gauges_do_not() {
        for metric in ALL {
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{metric:?}");
        }
    }

    #[test]
    fn what_was_counted_is_shown() {
        FABRIC_PACKETS.add(2);
        TIC_TERM.set(7);
        let text = exposition("fabricast-tic");
        assert!(text.contains("\nfabricast_tic_term 7\n"), "{text}");
        assert!(text.contains("\nfabricast_fabric_packets_total 2\n"), "{text}");
        assert!(text.contains("service=\"fabricast-tic\""), "{text}");
    }
}
