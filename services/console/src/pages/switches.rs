//! One switch, with its ports and table.

use fabricast_drawing::{Fabric, Scope, draw};
use fabricast_topology::SwitchId;
use maud::{Markup, html};

use super::Page;
use super::parts::{end_link, fact, name, picture};
use super::tables::kind;
use crate::changes::{Action, Verb};
use crate::details::{Details, SwitchDetail};
use crate::http::{Query, encoded};
use crate::snapshot::Snapshot;

/// Most table entries that a page lists.
const LISTED: usize = 400;

pub(crate) async fn switch(now: &Snapshot, details: &Details, query: &Query) -> Page {
    let Some(fabric) = &now.fabric else {
        return Page::missing(
            "/tables",
            "Switch",
            "There is no topology yet: no TIC has answered.",
        );
    };
    let Some(id) = fabric.graph().find_switch(query.get("name")) else {
        return Page::not_found("The fabric has no such switch.");
    };
    let node_id = fabric.graph().switch_name(id);
    let title = fabric.switch_title(id).to_owned();
    let listed = now.switches.iter().find(|switch| switch.name == node_id);
    let answer = details.switch(node_id).await;
    let body = html! {
        h1 { "Switch " (name(&title)) }
        p { code { (name(node_id)) } " in " (unit_link(fabric, id)) }
        (health(now, fabric, id))
        @if let Some(switch) = listed {
            dl .facts {
                (fact("State", if switch.live { "up" } else { "down" }))
                (fact("Entries used", format!("{} of {}", switch.used_entries, switch.colors)))
                (fact("Tables", kind(switch)))
                (fact("Ports", switch.port_count))
            }
        }
        p { a href={ "/what-if?switch=" (encoded(node_id)) } { "What if it failed?" } }
        (surroundings(now, fabric, id))
        @match &*answer {
            Ok(detail) => { (ports(fabric, node_id, detail)) (entries(detail)) }
            Err(problem) => p .problem role="status" { "Its agent does not answer: " (problem) },
        }
    };
    let verb = if now.faults.switch_is_live(id) { Verb::Fail } else { Verb::Heal };
    let actions = vec![Action::of_switch(verb, node_id)];
    Page { actions, ..Page::new("/tables", title, body) }
}

fn unit_link(fabric: &Fabric, switch: SwitchId) -> Markup {
    let unit = fabric.midplane(switch);
    html! {
        @if fabric.is_small() { a href="/fabric" { "the fabric" } }
        @else { a href={ "/fabric?inside=" (unit) } { (fabric.title(unit)) } }
    }
}

/// Failures of a switch and of its links, and where they are known from.
fn health(now: &Snapshot, fabric: &Fabric, switch: SwitchId) -> Markup {
    let graph = fabric.graph();
    let connected =
        |port: &fabricast_topology::PortId| graph.peer(*port) != fabricast_topology::Peer::None;
    let dead: Vec<String> = graph
        .ports(switch)
        .filter(connected)
        .filter(|port| !now.faults.port_is_live(graph, *port))
        .map(|port| graph.port_number(port).to_string())
        .collect();
    html! {
        @if !now.faults.switch_is_live(switch) {
            p .bad role="status" { "It has failed: a switch agent reports that it does not answer. Trees avoid it." }
        } @else if !dead.is_empty() {
            p .bad role="status" { "No packet crosses its ports " (dead.join(", "))
                ": the link or what is at its other end has failed. Trees avoid them." }
        }
    }
}

fn surroundings(now: &Snapshot, fabric: &Fabric, switch: SwitchId) -> Markup {
    let scope = match fabric.is_small() {
        true => Scope::Whole,
        false => Scope::Inside(fabric.midplane(switch)),
    };
    let drawing = draw(fabric, scope, &now.overlay());
    html! { details { summary { "Where it is" } (picture(fabric, &drawing, "")) } }
}

fn ports(fabric: &Fabric, switch: &str, detail: &SwitchDetail) -> Markup {
    html! {
        h2 { "Ports" }
        div .scroll tabindex="0" role="group" aria-label="Ports" {
            table {
                thead { tr { th .number { "Port" } th { "State" } th { "Peer" } th .number { "Port" }
                    th .number { "Received" } th .number { "Sent" } th .number { "Dropped" } th { "What if" } } }
                tbody {
                    @for port in detail.ports.iter().filter(|port| !port.peer.is_empty()) {
                        tr {
                            td .number { (port.port) }
                            td { @if port.live { span .good { "up" } } @else { span .bad { "down" } } }
                            td { (end_link(Some(fabric), &port.peer)) }
                            td .number { @if port.peer_port > 0 { (port.peer_port) } @else { "–" } }
                            td .number { (port.received_packets) }
                            td .number { (port.sent_packets) }
                            td .number { (port.dropped_packets) }
                            td { a href={ "/what-if?switch=" (encoded(switch)) "&port=" (port.port) } { "it failed" } }
                        }
                    }
                }
            }
        }
    }
}

fn entries(detail: &SwitchDetail) -> Markup {
    let table = &detail.table;
    html! {
        h2 { "Table" }
        @if table.entries.is_empty() { p .soft { "It is empty." } }
        @else {
            @if let Some(fence) = &table.fence {
                p .soft { "Written by term " (fence.term) ", generation " (fence.generation) "." }
            }
            div .scroll tabindex="0" role="group" aria-label="Table entries" {
                table {
                    thead { tr { th .number { "From port" } th .number { "Color" } th { "To ports" } } }
                    tbody {
                        @for entry in table.entries.iter().take(LISTED) {
                            tr {
                                td .number { @if entry.in_port == 0 { "any" } @else { (entry.in_port) } }
                                td .number { (entry.color) }
                                td { (entry.out_ports.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")) }
                            }
                        }
                    }
                }
            }
            @if table.entries.len() > LISTED { p .soft { "and " (table.entries.len() - LISTED) " more" } }
        }
    }
}
