//! Switches: the list with their entries, and one with its ports and table.

use fabricast_drawing::{Fabric, Scope, draw};
use fabricast_proto::v1;
use fabricast_topology::SwitchId;
use maud::{Markup, html};

use super::Page;
use super::parts::{end_link, fact, name, pages, picture, rows_of, switch_link};
use crate::changes::{Action, Verb};
use crate::details::{Details, SwitchDetail};
use crate::http::{Query, encoded};
use crate::snapshot::Snapshot;

/// Most table entries that a page lists.
const LISTED: usize = 400;

/// Entries used and free, switch by switch.
pub(crate) fn tables(now: &Snapshot, query: &Query) -> Page {
    let (filter, page) = (query.get("filter"), query.number("page"));
    let fabric = now.fabric.as_deref();
    let title = |switch: &v1::Switch| switch.description.clone();
    let mut found: Vec<&v1::Switch> = now
        .switches
        .iter()
        .filter(|switch| {
            filter.is_empty() || switch.name.contains(filter) || title(switch).contains(filter)
        })
        .collect();
    found.sort_by_key(|switch| std::cmp::Reverse(switch.used_entries));
    let status = now.status.clone().unwrap_or_default();
    let address = format!("/tables?filter={}&page=", encoded(filter));
    let body = html! {
        h1 { "Tables" }
        p .soft { "The fullest table of each switch, the fullest switches first. A group needs one entry "
            "in each table that its tree passes; groups on one tree share it." }
        dl .facts {
            (fact("Entries of a table", status.colors))
            (fact("Used in the fullest", status.used_entries))
            (fact("Entries in all switches", status.programmed_entries))
            (fact("Virtual groups", status.virtual_groups))
            (fact("Most groups on a tree", status.max_tfi))
            (fact("Groups without entries", status.unicast_only_groups))
        }
        (fill_counts(&now.switches))
        p { a href="/capacity" { "What would tables of other sizes cost?" } }
        form method="get" action="/tables" data-filter="" {
            label for="filter" { "Part of the name (press /)"
                input #filter type="search" name="filter" value=(filter) maxlength="256";
            }
            noscript { button { "Show" } }
        }
        p .soft { (found.len()) " of " (now.switches.len()) " switches" }
        div .scroll tabindex="0" role="group" aria-label="Switches" {
            table {
                thead { tr { th { "Switch" } th { "State" } th { "Entries" } th .number { "Used" }
                    th .number { "Free" } th { "Tables" } th .number { "Ports" } } }
                tbody { @for switch in rows_of(&found, page) { (row(fabric, switch)) } }
            }
        }
        (pages(&address, page, found.len()))
    };
    Page::new("/tables", "Tables", body)
}

fn row(fabric: Option<&Fabric>, switch: &v1::Switch) -> Markup {
    let free = switch.colors.saturating_sub(switch.used_entries);
    html! {
        tr {
            td { (switch_link(fabric, &switch.name)) }
            td { @if switch.live { span .good { "up" } } @else { span .bad { "down" } } }
            td { (fill_meter(switch)) }
            td .number { (switch.used_entries) }
            td .number { (free) }
            td { (kind(switch)) }
            td .number { (switch.port_count) }
        }
    }
}

fn fill_meter(switch: &v1::Switch) -> Markup {
    let (used, colors) = (switch.used_entries, switch.colors.max(1));
    let text = format!("{used} of {colors} entries used");
    let (low, high) = (colors / 2, colors * 3 / 4);
    html! {
        meter min="0" max=(colors) low=(low) high=(high) optimum="0" value=(used) aria-label=(text) title=(text) { (text) }
    }
}

fn kind(switch: &v1::Switch) -> &'static str {
    match switch.table_kind() {
        v1::TableKind::PerPort => "per port",
        v1::TableKind::PerSwitch => "per switch",
        v1::TableKind::Unspecified => "?",
    }
}

/// Counts the switches by the share of entries that they use.
fn fill_counts(switches: &[v1::Switch]) -> Markup {
    let mut counts = [0_usize; 6];
    for switch in switches {
        let class = fabricast_drawing::fill_class(switch.used_entries, switch.colors);
        counts[usize::from(class)] += 1;
    }
    let words = ["empty", "to a quarter", "to half", "to three quarters", "more", "full"];
    html! {
        h2 { "Switches by their fullest table" }
        dl .facts { @for (word, count) in words.iter().zip(counts) { (fact(word, count)) } }
    }
}

/// One switch.
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
