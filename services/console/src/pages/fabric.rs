//! The fabric: levels, midplanes and switches, colored by entries used and health.

use std::collections::BTreeMap;

use fabricast_drawing::{Drawing, Fabric, Overlay, Scope, Unit, draw};
use fabricast_proto::v1;
use fabricast_topology::PortId;
use maud::{Markup, html};

use super::Page;
use super::parts::{fact, legend, picture, scope};
use crate::details::Details;
use crate::http::Query;
use crate::overlay::port;
use crate::snapshot::{Snapshot, element_text};

/// Most failed parts that are listed.
const LISTED: usize = 20;

/// The fabric, or one midplane of it.
pub(crate) async fn fabric(now: &Snapshot, details: &Details, query: &Query) -> Page {
    let Some(fabric) = &now.fabric else {
        return Page::missing(
            "/fabric",
            "Fabric",
            "There is no topology yet: no TIC has answered.",
        );
    };
    let Some(scope) = scope(fabric, query.get("inside")) else {
        return Page::not_found("The fabric has no such midplane.");
    };
    let mut overlay = now.overlay();
    let problem = add_entries(now, details, Shown { fabric, scope }, &mut overlay).await;
    let drawing = draw(fabric, scope, &overlay);
    let title = match scope {
        Scope::Whole => "Fabric".to_owned(),
        Scope::Inside(unit) => fabric.title(unit),
    };
    let body = html! {
        h1 { (title) }
        @if matches!(scope, Scope::Inside(_)) { p { a #up href="/fabric" { "The whole fabric" } } }
        (figures(now, fabric))
        (picture(fabric, &drawing, ""))
        @if let Some(problem) = problem { p .soft { "Entries of links are not shown: " (problem) } }
        (legend(false))
        (failed(now, fabric, &drawing))
    };
    Page::new("/fabric", title, body)
}

/// A part of a fabric.
struct Shown<'a> {
    fabric: &'a Fabric,
    scope: Scope,
}

/// Reads the tables of switches that are drawn one by one; returns why that is impossible.
async fn add_entries(
    now: &Snapshot,
    details: &Details,
    shown: Shown<'_>,
    overlay: &mut Overlay,
) -> Option<String> {
    let Shown { fabric, scope } = shown;
    let graph = fabric.graph();
    let (key, inside) = match scope {
        Scope::Whole if !fabric.is_small() => return None,
        Scope::Whole => (String::new(), None),
        Scope::Inside(Unit::Switch(switch)) => {
            let unit = fabric.midplane(switch);
            (unit.to_string(), Some(unit))
        }
        Scope::Inside(unit) => (unit.to_string(), Some(unit)),
    };
    let drawn = graph.switches().filter(|s| inside.is_none_or(|unit| fabric.midplane(*s) == unit));
    let live = drawn.filter(|switch| now.faults.switch_is_live(*switch));
    let names: Vec<String> = live.map(|switch| graph.switch_name(switch).to_owned()).collect();
    match &*details.tables(&key, &names).await {
        Ok(tables) => {
            overlay.port_entries = port_entries(fabric, tables);
            None
        }
        Err(problem) => Some(problem.clone()),
    }
}

/// Counts the entries of each input port; those of tables for whole switches belong to no link.
fn port_entries(fabric: &Fabric, tables: &[v1::SwitchTable]) -> BTreeMap<PortId, u32> {
    let mut counts = BTreeMap::new();
    for table in tables {
        for entry in table.entries.iter().filter(|entry| entry.in_port != 0) {
            if let Some(port) = port(fabric.graph(), &table.switch_name, entry.in_port) {
                *counts.entry(port).or_default() += 1;
            }
        }
    }
    counts
}

fn figures(now: &Snapshot, fabric: &Fabric) -> Markup {
    let graph = fabric.graph();
    let up = now.nodes.values().filter(|node| node.state() == v1::NodeState::Up).count();
    let status = now.status.clone().unwrap_or_default();
    html! {
        dl .facts {
            (fact("Switches", graph.switch_count()))
            (fact("Endpoints", graph.endpoint_count()))
            (fact("Nodes up", format!("{up} of {}", now.nodes.len())))
            (fact("Groups", now.groups.len()))
            (fact("Fullest table", format!("{} of {}", status.used_entries, status.colors)))
            (fact("Most groups on a link", status.max_efi))
            (fact("Failed parts", now.failed.len()))
        }
    }
}

fn failed(now: &Snapshot, fabric: &Fabric, drawing: &Drawing) -> Markup {
    let hurt = drawing.cells.iter().filter(|cell| cell.failed > 0).count();
    html! {
        h2 { "Failed parts" }
        @if now.failed.is_empty() {
            p .good { "None." }
        } @else {
            p { (now.failed.len()) " as the switch agents report them; boxes with a failure here: " (hurt) "." }
            ul {
                @for element in now.failed.iter().take(LISTED) {
                    li .bad { (failed_part(fabric, element)) }
                }
                @if now.failed.len() > LISTED { li { "and " (now.failed.len() - LISTED) " more" } }
            }
        }
    }
}

/// A failed part with a link to its switch.
pub(super) fn failed_part(fabric: &Fabric, element: &v1::Element) -> Markup {
    use v1::element::Kind;
    let switch = match &element.kind {
        Some(Kind::Link(end)) => Some(&end.switch_name),
        Some(Kind::SwitchName(name)) => Some(name),
        Some(Kind::Endpoint(_)) | None => None,
    };
    html! {
        bdi { (element_text(element)) }
        @if let Some(switch) = switch { " at " (super::parts::switch_link(Some(fabric), switch)) }
    }
}
