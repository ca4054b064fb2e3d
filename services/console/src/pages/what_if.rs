//! The groups that the failure of a switch or link would hit.

use std::collections::BTreeSet;

use fabricast_drawing::{Fabric, Scope, draw};
use fabricast_proto::v1;
use fabricast_topology::{Peer, PortId, SwitchId};
use maud::{Markup, html};

use super::Page;
use super::parts::{group_link, name, picture, switch_link};
use crate::changes::{Action, Verb};
use crate::details::Details;
use crate::http::Query;
use crate::overlay;
use crate::snapshot::Snapshot;

/// Most groups that are listed.
const LISTED: usize = 200;

/// A part that is thought to fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Switch(SwitchId),
    Link(PortId),
}

/// A group that would be hit, and how.
#[derive(Debug)]
struct Hit {
    group: String,
    /// Trees that use the part, one bit for each.
    trees: u8,
    /// Member endpoints that nothing would reach.
    cut_off: usize,
}

/// The form, and what the part that it names carries.
pub(crate) async fn what_if(now: &Snapshot, details: &Details, query: &Query) -> Page {
    let Some(fabric) = &now.fabric else {
        return Page::missing(
            "/what-if",
            "What if",
            "There is no topology yet: no TIC has answered.",
        );
    };
    let asked = !query.get("switch").is_empty();
    let part = part(fabric, query.get("switch"), query.get("port"));
    let body = html! {
        h1 { "What if it failed?" }
        p .soft { "Choose a switch, or one of its ports for a link: the groups whose trees use it now. "
            "Nothing is changed. " code { "fabricast fabric fail --dry-run" } " prints the same." }
        form method="get" action="/what-if" {
            label for="switch" { "Switch, by node id or name"
                input #switch name="switch" required maxlength="256" value=(query.get("switch"));
            }
            label for="port" { "Port; empty: the whole switch"
                input #port name="port" inputmode="numeric" pattern="[0-9]*" maxlength="3" value=(query.get("port"));
            }
            button { "Show" }
        }
        @match part {
            Ok(part) if asked => (answer(now, fabric, details, part).await),
            Err(problem) if asked => p .problem role="status" { (problem) },
            _ => {}
        }
    };
    let is_found = !asked || part.is_ok();
    let actions = part.map_or_else(|_| Vec::new(), |part| vec![action(now, fabric, part)]);
    Page { is_found, is_live: false, actions, ..Page::new("/what-if", "What if", body) }
}

/// The change that an administrator could make of a part: to fail it, or to heal a failed one.
fn action(now: &Snapshot, fabric: &Fabric, part: Part) -> Action {
    let graph = fabric.graph();
    let verb = |is_live| if is_live { Verb::Fail } else { Verb::Heal };
    match part {
        Part::Switch(switch) => {
            let name = graph.switch_name(switch);
            Action::of_switch(verb(now.faults.switch_is_live(switch)), name)
        }
        Part::Link(port) => {
            let name = graph.switch_name(graph.switch_of(port));
            let is_live = now.faults.port_is_live(graph, port);
            Action::of_link(verb(is_live), name, graph.port_number(port).into())
        }
    }
}

/// Finds a switch, or the link at one of its ports.
///
/// - `port`: its number; empty for the whole switch.
pub(super) fn part(fabric: &Fabric, switch: &str, port: &str) -> Result<Part, &'static str> {
    let graph = fabric.graph();
    let switch = graph.find_switch(switch).ok_or("The fabric has no such switch.")?;
    if port.is_empty() {
        return Ok(Part::Switch(switch));
    }
    let port = port.parse().ok().and_then(|number| graph.port(switch, number));
    let port = port.filter(|port| graph.peer(*port) != Peer::None);
    port.map(Part::Link).ok_or("Nothing is connected to this port.")
}

/// The groups that a part carries, and the fabric without it.
pub(super) async fn answer(
    now: &Snapshot,
    fabric: &Fabric,
    details: &Details,
    part: Part,
) -> Markup {
    let graph = fabric.graph();
    let names: Vec<String> = now.groups.values().map(|group| group.name.clone()).collect();
    let routes = details.routes(names).await;
    let mut overlay = now.overlay();
    let (switch, title) = match part {
        Part::Switch(switch) => {
            overlay.faults.fail_switch(switch);
            (switch, html! { "Switch " (switch_link(Some(fabric), graph.switch_name(switch))) })
        }
        Part::Link(port) => {
            overlay.faults.fail_link(graph, port);
            let switch = graph.switch_of(port);
            let (id, number) = (graph.switch_name(switch), graph.port_number(port));
            let far = match graph.peer(port) {
                Peer::Switch(other) => {
                    switch_link(Some(fabric), graph.switch_name(graph.switch_of(other)))
                }
                Peer::Endpoint(endpoint) => name(graph.endpoint_name(endpoint)),
                Peer::None => html! { "nothing" },
            };
            (
                switch,
                html! { "The link from " (switch_link(Some(fabric), id)) " port " (number) " to " (far) },
            )
        }
    };
    let scope = match fabric.is_small() {
        true => Scope::Whole,
        false => Scope::Inside(fabric.midplane(switch)),
    };
    html! {
        h2 { (title) }
        @match &*routes {
            Err(problem) => p .problem role="status" { "It is not known which groups use it: " (problem) },
            Ok(routes) => (listed(&hits(fabric, routes, part), routes.len())),
        }
        (picture(fabric, &draw(fabric, scope, &overlay), ""))
    }
}

/// Finds the groups whose trees use a part.
fn hits(fabric: &Fabric, routes: &[v1::RouteExplanation], part: Part) -> Vec<Hit> {
    let graph = fabric.graph();
    let ends: BTreeSet<PortId> = match part {
        Part::Link(port) => match graph.peer(port) {
            Peer::Switch(other) => BTreeSet::from([port, other]),
            Peer::Endpoint(_) | Peer::None => BTreeSet::from([port]),
        },
        Part::Switch(switch) => {
            let far = graph.ports(switch).filter_map(|port| match graph.peer(port) {
                Peer::Switch(other) => Some(other),
                Peer::Endpoint(_) | Peer::None => None,
            });
            far.chain(graph.ports(switch)).collect()
        }
    };
    let hit = |route: &v1::RouteExplanation| {
        let mut hit = Hit { group: route.group.clone(), trees: 0, cut_off: 0 };
        for link in &route.links {
            let Some(port) = overlay::port(graph, &link.switch_name, link.port) else { continue };
            if !ends.contains(&port) {
                continue;
            }
            match graph.peer(port) {
                Peer::Endpoint(_) => {
                    hit.cut_off += 1;
                    hit.trees |= 3; // links of endpoints belong to both trees
                }
                Peer::Switch(_) | Peer::None => hit.trees |= 1 << link.tree.min(1),
            }
        }
        (hit.trees != 0).then_some(hit)
    };
    routes.iter().filter_map(hit).collect()
}

fn listed(hits: &[Hit], of: usize) -> Markup {
    html! {
        @if hits.is_empty() { p .good { "None of " (of) " groups uses it." } }
        @else {
            p { (hits.len()) " of " (of) " groups use it." }
            div .scroll tabindex="0" role="group" aria-label="Groups hit" {
                table #hits {
                    thead { tr { th { "Group" } th { "Effect" } } }
                    tbody {
                        @for hit in hits.iter().take(LISTED) {
                            tr {
                                td { (group_link(&hit.group)) }
                                td { (effect(hit)) }
                            }
                        }
                    }
                }
            }
            @if hits.len() > LISTED { p .soft { "and " (hits.len() - LISTED) " more" } }
        }
    }
}

fn effect(hit: &Hit) -> String {
    let tree = if hit.trees == 2 { "its second tree uses it" } else { "its tree uses it" };
    match hit.cut_off {
        0 => tree.to_owned(),
        1 => format!("{tree}, 1 member is cut off"),
        members => format!("{tree}, {members} members are cut off"),
    }
}
