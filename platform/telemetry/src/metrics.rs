//! Metrics of this process, in the OpenMetrics text format.
//!
//! Every metric is a static of this module, so their names are in one place; docs/metrics.md has
//! the same list, which a test compares with it. A process that runs several parts counts them
//! together. Counters and gauges are lock-free; labelled metrics take a read lock.

mod calls;
mod durations;
mod endpoint;
mod labelled;
mod limited;
mod process;

use std::sync::atomic::AtomicU64;
use std::sync::{LazyLock, OnceLock};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

pub use calls::{Calls, Outcome};
pub use durations::Durations;
pub use endpoint::{MetricsError, MetricsServer};
pub use labelled::LabelledGauge;
pub use limited::Limited;

/// A number that only grows.
pub type Counter = prometheus_client::metrics::counter::Counter;
/// A number that is set.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<u64, AtomicU64>;
/// A time in seconds that is set.
pub type Seconds = prometheus_client::metrics::gauge::Gauge<f64, AtomicU64>;

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
    TIC_DRAINED: Gauge "fabricast_tic_drained_nodes", "Nodes that an administrator has drained; 0 while another TIC leads";
    TIC_GROUPS: Gauge "fabricast_tic_groups", "Groups that exist; 0 while another TIC leads";
    TIC_MEMBERS: Gauge "fabricast_tic_members", "Memberships in all groups; 0 while another TIC leads";
    TIC_HELD: Gauge "fabricast_tic_held_nodes", "Nodes that do not answer and are kept, as too many are silent at once";
    TIC_HELD_BLOCKS: Gauge "fabricast_tic_held_blocks", "Leaf switches whose nodes are kept, as too many there are silent at once";
    TIC_RECORDS_COPY: Gauge "fabricast_tic_records_copy_timestamp_seconds", "When a copy of the records was last reported to be complete, as Unix time; 0 if none was since this process began";
    ROUTER_ACTIVE: Gauge "fabricast_router_active", "1 while this route service is at work, 0 while it waits for the term of another";
    ROUTER_SETTLED: Gauge "fabricast_router_settled", "1 while the switches hold exactly the tables that the newest records ask for, and the TIC knows every route and has recorded every choice";
    ROUTER_SEEN_REVISION: Gauge "fabricast_router_seen_revision", "Newest revision of the records taken in";
    ROUTER_ROUTED_REVISION: Gauge "fabricast_router_routed_revision", "Revision that the switches are programmed for";
    ROUTER_ROUTED_GROUPS: Gauge "fabricast_router_routed_groups", "Groups with a hardware route";
    ROUTER_UNICAST_GROUPS: Gauge "fabricast_router_unicast_only_groups", "Groups without a hardware route";
    ROUTER_USED_ENTRIES: Gauge "fabricast_router_used_entries", "Largest number of entries used in one table";
    ROUTER_TABLE_ENTRIES: Gauge "fabricast_router_table_entries", "Entries that a table has";
    ROUTER_MISSING_GROUPS: Gauge "fabricast_router_missing_groups", "Groups without a route because their planned trees do not reach all members";
    ROUTER_MAX_TFI: Gauge "fabricast_router_max_tfi", "Largest number of groups that share one tree";
    ROUTER_COMPUTE: Seconds "fabricast_router_last_compute_seconds", "Time of the last computation";
    ROUTER_PROGRAM: Seconds "fabricast_router_last_program_seconds", "Time of the last programming round";
    ROUTER_DRIFTS: Counter "fabricast_router_table_drifts", "Tables that were read back and held something else than was written";
    ROUTER_COMPARISONS: Counter "fabricast_router_table_comparisons", "Tables that were read back and compared with what was written";
    ROUTER_RECORDING_FILE_BYTES: Gauge "fabricast_router_recording_file_bytes", "Bytes of the files of the recording; 0 without such files";
    ROUTER_RECORDING_DROPPED: Counter "fabricast_router_recording_dropped_records", "Recorded inputs and outputs that came into no file, as the disk was too slow or refused them";
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

/// Nodes in the records of the leading TIC, by state.
pub static TIC_NODES: LazyLock<LabelledGauge> = LazyLock::new(|| LabelledGauge::new("state"));
/// Times of the transactions that the store has made durable.
pub static TIC_COMMITS: LazyLock<Durations> = LazyLock::new(Durations::default);
/// Processor time of the decisions of the leading TIC's writer.
pub static TIC_DECISIONS: LazyLock<Durations> = LazyLock::new(Durations::default);
/// Ends of the validity of certificates that are in force, by their files.
pub static CERTIFICATE_EXPIRY: LazyLock<LabelledGauge> =
    LazyLock::new(|| LabelledGauge::new("path"));
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
    let help = "Nodes in the records by state: up, silent, failed; 0 while another TIC leads";
    TIC_NODES.register(&mut registry, "fabricast_tic_nodes", help);
    let help = "Time until the store had made a transaction durable";
    TIC_COMMITS.register(&mut registry, "fabricast_tic_commit_seconds", help);
    let help = "Processor time in which the writer decided a request; others waited meanwhile";
    TIC_DECISIONS.register(&mut registry, "fabricast_tic_decision_seconds", help);
    let help = "When a certificate in force, or the last of its authorities, expires, as Unix time, by file";
    CERTIFICATE_EXPIRY.register(
        &mut registry,
        "fabricast_certificate_expiry_timestamp_seconds",
        help,
    );
    CALLS.register(&mut registry);
    LIMITED.register(&mut registry);
    registry.register_collector(Box::new(process::ProcessCollector));
    registry
}

static SERVICE: OnceLock<&str> = OnceLock::new();

/// Sets the part that runs in this process, for [`text`]; only the first call counts.
pub(crate) fn name_service(service: &'static str) {
    SERVICE.get_or_init(|| service);
}

/// All metrics of this process in the OpenMetrics text format.
#[must_use]
pub fn text() -> String {
    static REGISTRY: LazyLock<Registry> =
        LazyLock::new(|| registry(SERVICE.get().copied().unwrap_or("unnamed")));
    exposition(&REGISTRY)
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

    /// A metric as it is shown.
    struct Shown {
        name: String,
        labels: Vec<String>,
        help: String,
    }

    fn shown() -> Vec<Shown> {
        // A labelled metric is shown once it has a value.
        let outcome = Outcome { code: "OK", elapsed: std::time::Duration::ZERO };
        CALLS.answered("TicService", "GetGroup", outcome);
        LIMITED.refused("TicService", "tenant", "open_calls");
        TIC_NODES.set("up", 1);
        CERTIFICATE_EXPIRY.set("tls.crt", 1);
        let text = exposition(&registry("x"));
        let header = |prefix: &'static str| {
            text.lines().filter_map(move |line| line.strip_prefix(prefix)?.split_once(' '))
        };
        let described = header("# HELP ").zip(header("# TYPE "));
        let named = described.map(|((name, help), (same, kind))| {
            assert_eq!(name, same);
            let suffix = if kind == "counter" { "_total" } else { "" };
            let sample = if kind == "histogram" { "_count" } else { suffix };
            let sample = format!("\n{name}{sample}{{");
            let labels = text.split_once(&sample).map_or("", |(_, rest)| rest);
            let labels = labels.split('}').next().unwrap_or_default().split("\",");
            let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            let help = help.trim_end_matches('.').to_owned();
            Shown { name: format!("{name}{suffix}"), labels: labels.collect(), help }
        });
        named.collect()
    }

    /// The unit that the end of a name says, as Prometheus wants it.
    fn unit(name: &str) -> &str {
        let last = name.trim_end_matches("_total").rsplit('_').next();
        last.filter(|word| ["seconds", "bytes"].contains(word)).unwrap_or("-")
    }

    #[test]
    fn the_documentation_has_the_same_list() {
        let documentation = include_str!("../../../docs/metrics.md");
        let rows = documentation.lines().skip_while(|line| *line != "| --- | --- | --- | --- |");
        let rows: Vec<&str> = rows.skip(1).take_while(|line| line.starts_with("| `")).collect();
        let shown = shown().into_iter().map(|Shown { name, labels, help }| {
            let unit = unit(&name);
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(" ") };
            format!("| `{name}` | {unit} | {labels} | {help} |")
        });
        assert_eq!(rows, shown.collect::<Vec<_>>());
    }

    #[test]
    fn units_are_base_units() {
        for Shown { name, .. } in shown() {
            let multiples = [
                "milliseconds",
                "microseconds",
                "ms",
                "us",
                "minutes",
                "kilobytes",
                "mib",
                "percent",
            ];
            assert!(!name.split('_').any(|word| multiples.contains(&word)), "{name}");
        }
    }

    /// Written to a file by `fabricast store export`, and not shown here.
    const EXPORT: &str = "fabricast_store_export_timestamp_seconds";

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
                let is_exported = name == EXPORT;
                assert!(is_exported || shown.iter().any(|shown| shown.name == name), "{name}");
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
