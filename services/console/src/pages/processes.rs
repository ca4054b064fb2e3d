//! Figures of the processes of the control plane, as their metrics tell them.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::parts::name;
use crate::details::{Call, Metrics, Process};

/// Most kinds of calls that are listed.
const CALLS: usize = 12;

/// Store, elections, traces, calls, processor and memory of each process.
pub(super) fn figures(processes: &[Process]) -> Markup {
    html! {
        h2 { "Processes" }
        @if processes.is_empty() { p .soft { "None answers." } }
        @else {
            div .scroll tabindex="0" role="group" aria-label="Processes" {
                table #processes {
                    thead { tr { th { "Process" } th .number { "Processor time" } th .number { "Memory" }
                        th .number { "Open files" } th .number { "Calls" } th .number { "Over a limit" }
                        th .number { "Traces sent" } th .number { "Traces lost" } } }
                    tbody { @for process in processes { (row(process)) } }
                }
            }
            (store(processes))
            (calls(processes))
        }
    }
}

fn row(process: &Process) -> Markup {
    let roles: Vec<&str> = process.roles.iter().map(String::as_str).collect();
    html! {
        tr {
            td { (roles.join(", ")) " at " (name(process.addresses.first().map_or("?", String::as_str))) }
            @match &process.metrics {
                Err(problem) => td colspan="7" { span .bad { (problem) } },
                Ok(metrics) => {
                    td .number { (format!("{:.1} s", metrics.get("process_cpu_seconds_total"))) }
                    td .number { (format!("{:.0} MB", metrics.get("process_resident_memory_bytes") / 1e6)) }
                    td .number { (metrics.get("process_open_fds")) " of " (metrics.get("process_max_fds")) }
                    td .number { (metrics.get("fabricast_rpc_calls_total")) }
                    td .number { (metrics.get("fabricast_rpc_limited_total")) }
                    td .number { (metrics.get("fabricast_traces_exported_spans_total")) }
                    td .number { (metrics.get("fabricast_traces_dropped_spans_total")) }
                }
            }
        }
    }
}

/// The store and the elections, as the TICs tell of them.
fn store(processes: &[Process]) -> Markup {
    let tics: Vec<(&Process, &Metrics)> = processes
        .iter()
        .filter(|process| process.roles.contains("tic"))
        .filter_map(|process| Some((process, process.metrics.as_ref().ok()?)))
        .collect();
    html! {
        h2 { "Store and elections" }
        @if tics.is_empty() { p .soft { "No TIC tells of its store." } }
        @else {
            div .scroll tabindex="0" role="group" aria-label="Store and elections" {
                table #store {
                    thead { tr { th { "TIC" } th { "Leads" } th .number { "Term" } th .number { "Transactions" }
                        th .number { "Changes" } th .number { "Mean time to commit" } th .number { "Failed calls of the store" }
                        th .number { "Nodes expelled" } th .number { "Silent nodes kept" } } }
                    tbody { @for (process, metrics) in tics {
                        tr {
                            td { (name(process.addresses.first().map_or("?", String::as_str))) }
                            td { @if metrics.get("fabricast_tic_leads") > 0.0 { span .good { "yes" } } @else { "no" } }
                            td .number { (metrics.get("fabricast_tic_term")) }
                            td .number { (metrics.get("fabricast_tic_transactions_total")) }
                            td .number { (metrics.get("fabricast_tic_changes_total")) }
                            td .number { (time(metrics.mean("fabricast_tic_commit_seconds"))) }
                            td .number { (metrics.get("fabricast_tic_store_failures_total")) }
                            td .number { (metrics.get("fabricast_tic_expelled_nodes_total")) }
                            td .number { (metrics.get("fabricast_tic_held_nodes")) }
                        }
                    } }
                }
            }
        }
    }
}

/// The most frequent calls of all processes together.
fn calls(processes: &[Process]) -> Markup {
    let mut sums: BTreeMap<&str, Call> = BTreeMap::new();
    for metrics in processes.iter().filter_map(|process| process.metrics.as_ref().ok()) {
        for (call, own) in &metrics.calls {
            let sum = sums.entry(call).or_default();
            sum.count += own.count;
            sum.failed += own.failed;
            sum.seconds += own.seconds;
        }
    }
    let mut sums: Vec<(&str, Call)> = sums.into_iter().collect();
    sums.sort_by(|(_, one), (_, other)| other.count.total_cmp(&one.count));
    html! {
        details {
            summary { "The most frequent calls, and how long they take" }
            div .scroll tabindex="0" role="group" aria-label="Calls" {
                table {
                    thead { tr { th { "Call" } th .number { "Answered" } th .number { "Failed" } th .number { "Mean time" } } }
                    tbody { @for (call, sum) in sums.iter().take(CALLS) {
                        tr { td { (call) } td .number { (sum.count) } td .number { (sum.failed) }
                            td .number { (time((sum.count > 0.0).then(|| sum.seconds / sum.count))) } }
                    } }
                }
            }
        }
    }
}

/// A time in the unit that suits it.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(seconds) if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1} s"),
    }
}
