//! Health: the parts of the control plane, their figures, failures, differences of tables, and the
//! latest events.

use std::time::SystemTime;

use fabricast_proto::v1;
use maud::{Markup, html};

use super::Page;
use super::fabric::failed_part;
use super::nodes::node_state;
use super::parts::{ago, clock, fact, name, node_link, switch_link};
use crate::calls::Server;
use crate::details::{Details, Process};
use crate::snapshot::Snapshot;

/// Most rows of each list.
const LISTED: usize = 50;

/// The state of all parts.
pub(crate) async fn health(now: &Snapshot, details: &Details) -> Page {
    let answer = details.processes().await;
    let processes = answer.as_ref().as_ref().map_or(&[][..], Vec::as_slice);
    let body = html! {
        h1 { "Health" }
        (route_service(now))
        (servers(&now.servers))
        (super::processes::figures(processes))
        (failures(now))
        (drifts(now))
        (nodes(now))
        (timeline(now, processes))
    };
    Page::new("/health", "Health", body)
}

fn route_service(now: &Snapshot) -> Markup {
    let Some(status) = now.status.as_deref().filter(|status| status.active) else {
        return html! { h2 { "Route service" } p .bad { "None is known to be at work." } };
    };
    let fence = status.fence.unwrap_or_default();
    html! {
        h2 { "Route service" }
        dl .facts {
            (fact("State", if status.settled { html! { span .good { "settled" } } } else { html! { span .warn { "at work" } } }))
            (fact("Engine", &status.engine))
            (fact("Term, generation", format!("{}, {}", fence.term, fence.generation)))
            (fact("Routed revision", format!("{} of {}", status.routed_revision, now.revision)))
            (fact("Groups in hardware", status.routed_groups))
            (fact("On unicast only", status.unicast_only_groups))
            (fact("Last computation", format!("{} µs", status.last_compute_us)))
            (fact("Last programming", format!("{} µs", status.last_program_us)))
        }
        @if !status.last_error.is_empty() { p .bad { "Last error: " (status.last_error) } }
        @if !status.load_problem.is_empty() { p .warn { "Loads are missing or old: " (status.load_problem) } }
        @for irregularity in status.irregularities.iter().take(LISTED) { p .warn { "Irregular: " (irregularity) } }
    }
}

fn servers(servers: &[Server]) -> Markup {
    html! {
        h2 { "Parts" }
        div .scroll tabindex="0" role="group" aria-label="Parts" {
            table {
                thead { tr { th { "Address" } th { "Parts" } th { "State" } th { "Leads" } th { "Version" } th { "Up for" } } }
                tbody {
                    @for server in servers {
                        tr {
                            td { (name(&server.address)) }
                            @match &server.info {
                                Ok(info) => {
                                    td { (info.roles.join(", ")) }
                                    td { span .good { "answers" } }
                                    td { (leads(info)) }
                                    td { (info.version) }
                                    td { (up_for(info.uptime)) }
                                }
                                Err(problem) => {
                                    td { "?" } td colspan="4" { span .bad { (problem) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn leads(info: &v1::GetServerInfoResponse) -> String {
    match &info.leadership {
        None => "alone".to_owned(),
        Some(one) if one.leads => format!("yes, term {}", one.term),
        Some(one) if one.address.is_empty() => "no, and knows of none that does".to_owned(),
        Some(one) => format!("no, {} does", one.address),
    }
}

fn up_for(uptime: Option<prost_types::Duration>) -> String {
    match uptime.map_or(0, |time| time.seconds) {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn failures(now: &Snapshot) -> Markup {
    html! {
        h2 { "Failed parts of the fabric" }
        @match (&now.fabric, now.failed.is_empty()) {
            (_, true) => p .good { "None." },
            (Some(fabric), false) => {
                ul { @for element in now.failed.iter().take(LISTED) { li .bad { (failed_part(fabric, element)) } } }
                @if now.failed.len() > LISTED { p .soft { "and " (now.failed.len() - LISTED) " more" } }
            }
            (None, false) => p .bad { (now.failed.len()) " parts" },
        }
    }
}

fn drifts(now: &Snapshot) -> Markup {
    let Some(drifts) = &now.drifts else { return html! {} };
    html! {
        h2 { "Tables read back" }
        p { (drifts.compared_tables) " tables compared with what they should hold, the last "
            (ago(drifts.compared_ago)) "; " (drifts.drift_count) " differed." }
        @if !drifts.drifts.is_empty() {
            div .scroll tabindex="0" role="group" aria-label="Differences" {
                table {
                    thead { tr { th { "Switch" } th { "Seen" } th { "Repaired" } th .number { "Missing" }
                        th .number { "Extra" } th .number { "Altered" } } }
                    tbody {
                        @for drift in drifts.drifts.iter().rev().take(LISTED) {
                            tr {
                                td { (switch_link(now.fabric.as_deref(), &drift.switch_name)) }
                                td { (ago(drift.seen_ago)) }
                                td { @if drift.repaired_ago.is_some() { span .good { (ago(drift.repaired_ago)) } }
                                    @else { span .bad { "not yet" } } }
                                td .number { (drift.missing_entries) }
                                td .number { (drift.extra_entries) }
                                td .number { (drift.altered_entries) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn nodes(now: &Snapshot) -> Markup {
    let is_special = |node: &&std::sync::Arc<v1::Node>| {
        node.state() != v1::NodeState::Up || node.drained || node.suppressed_until.is_some()
    };
    let special: Vec<_> = now.nodes.values().filter(is_special).collect();
    html! {
        h2 { "Failed, silent, drained and suppressed nodes" }
        @if special.is_empty() { p .good { "None of " (now.nodes.len()) "." } }
        @else {
            ul { @for node in special.iter().take(LISTED) { li { (node_link(&node.name)) ": " (node_state(node)) } } }
            @if special.len() > LISTED { p .soft { "and " (special.len() - LISTED) " more" } }
        }
    }
}

/// A line of the time line.
struct Entry<'a> {
    at: SystemTime,
    text: Markup,
    is_bad: bool,
    /// Role or person that has changed something; none for what the console has seen.
    caller: Option<&'a str>,
}

/// Events since the console began, and the audit of all processes, newest first.
fn timeline(now: &Snapshot, processes: &[Process]) -> Markup {
    let seen = now.events.iter().map(|event| Entry {
        at: event.at,
        text: html! { bdi { (event.text) } @if event.more > 0 { ", and " (event.more) " more" } },
        is_bad: event.is_bad,
        caller: None,
    });
    let audited = processes.iter().flat_map(|process| &process.audit).filter_map(|line| {
        Some(Entry {
            at: SystemTime::try_from(line.time?).ok()?,
            text: html! { (line.call) " " @if line.code != "OK" { (line.code) " " } bdi .soft { (line.request) } },
            is_bad: line.code != "OK",
            caller: Some(&line.caller),
        })
    });
    let mut entries: Vec<Entry<'_>> = seen.chain(audited).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
    html! {
        h2 { "Time line" }
        p .soft { "What has changed, and who did it: events since the console began, and the latest lines of the audit. "
            a href="/recording" download="" { "The recording of the route service" }
            " has its latest inputs; " code { "fabricast debug replay" } " plays it again." }
        @if entries.is_empty() { p .soft { "Nothing yet." } }
        @else {
            ol #events {
                @for entry in entries.iter().take(2 * LISTED) {
                    li { (clock(entry.at)) " "
                        @if let Some(caller) = entry.caller { strong { (name(caller)) } " " }
                        span .bad[entry.is_bad] { (entry.text) } }
                }
            }
        }
    }
}
