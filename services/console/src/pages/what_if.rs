//! Effects of a failure or repair that is only thought of: groups, and their new trees.

use fabricast_drawing::{Drawing, Fabric, Scope, draw};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{Peer, PortId, SwitchId};
use maud::{Markup, html};

use super::Page;
use super::parts::{ENTRIES, fact, group_link, legend, name, picture, switch_link};
use crate::changes::{Action, Verb};
use crate::details::Details;
use crate::http::{Query, encoded};
use crate::overlay::tree_overlay;
use crate::snapshot::Snapshot;

/// Most groups that are listed.
const LISTED: usize = 200;

/// A part that is thought to fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Switch(SwitchId),
    Link(PortId),
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
    // A name that no group has is not asked for: each is another plan.
    let wanted = now.group(query.get("group")).map_or("", |group| &group.name);
    let what = |part| What { part, verb: action(now, fabric, part).verb, wanted };
    let body = html! {
        h1 { "What if it failed?" }
        p .soft { "Choose a switch, or one of its ports for a link. The route service plans all groups without it; "
            "nothing is changed. Of a part that has failed it plans the repair." }
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
            Ok(part) if asked => (answer(now, fabric, details, what(part)).await),
            Err(problem) if asked => p .problem role="status" { (problem) },
            _ => {}
        }
    };
    let is_found = !asked || part.is_ok();
    let actions = part.map_or_else(|_| Vec::new(), |part| vec![action(now, fabric, part)]);
    Page {
        is_found,
        renewal: Some(super::SELDOM),
        actions,
        ..Page::new("/what-if", "What if", body)
    }
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
            let is_live = now.faults.dead_link_ports().all(|dead| dead != port);
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

/// The groups whose routes would change, the plan as a whole, and the new trees of one of them.
pub(super) async fn answer(
    now: &Snapshot,
    fabric: &Fabric,
    details: &Details,
    what: What<'_>,
) -> Markup {
    let What { part, verb, wanted } = what;
    let element = element(fabric, part);
    let (failed, healed) = match verb {
        Verb::Heal => (Vec::new(), vec![element]),
        _ => (vec![element], Vec::new()),
    };
    let links_of = wanted.to_owned();
    let request = v1::PlanFaultsRequest { failed, healed, links_of, ..Default::default() };
    let planned = details.faults(request).await;
    html! {
        h2 { (title(fabric, part)) }
        @for end in failed_ends(now, fabric, part) {
            p .warn { (name(end)) " has failed, so the link is down in any case." }
        }
        @match &*planned {
            Err(problem) => p .problem role="status" { "It cannot be planned: " (problem) },
            Ok(found) => {
                (listed(fabric, part, found, now.groups.len()))
                (trees(now, fabric, &what, found))
            }
        }
    }
}

/// A change that is thought of.
#[derive(Clone, Copy, Debug)]
pub(super) struct What<'a> {
    pub(super) part: Part,
    pub(super) verb: Verb,
    /// Group whose trees are drawn; empty for the first one that would have a tree.
    pub(super) wanted: &'a str,
}

/// The ends of a link that have failed themselves.
fn failed_ends<'a>(now: &Snapshot, fabric: &'a Fabric, part: Part) -> Vec<&'a str> {
    let (graph, Part::Link(port)) = (fabric.graph(), part) else { return Vec::new() };
    let switch = |switch| (!now.faults.switch_is_live(switch)).then(|| graph.switch_name(switch));
    let far = match graph.peer(port) {
        Peer::Switch(other) => switch(graph.switch_of(other)),
        Peer::Endpoint(endpoint) => {
            let is_live = now.faults.endpoint_is_live(endpoint);
            (!is_live).then(|| graph.endpoint_name(endpoint))
        }
        Peer::None => None,
    };
    switch(graph.switch_of(port)).into_iter().chain(far).collect()
}

fn element(fabric: &Fabric, part: Part) -> v1::Element {
    let graph = fabric.graph();
    let kind = match part {
        Part::Switch(switch) => Kind::SwitchName(graph.switch_name(switch).to_owned()),
        Part::Link(port) => Kind::Link(v1::PortName {
            switch_name: graph.switch_name(graph.switch_of(port)).to_owned(),
            port: graph.port_number(port).into(),
        }),
    };
    v1::Element { kind: Some(kind) }
}

fn title(fabric: &Fabric, part: Part) -> Markup {
    let graph = fabric.graph();
    match part {
        Part::Switch(switch) => {
            html! { "Switch " (switch_link(Some(fabric), graph.switch_name(switch))) }
        }
        Part::Link(port) => {
            let switch = graph.switch_of(port);
            let (id, number) = (graph.switch_name(switch), graph.port_number(port));
            let far = match graph.peer(port) {
                Peer::Switch(other) => {
                    switch_link(Some(fabric), graph.switch_name(graph.switch_of(other)))
                }
                Peer::Endpoint(endpoint) => name(graph.endpoint_name(endpoint)),
                Peer::None => html! { "nothing" },
            };
            html! { "The link from " (switch_link(Some(fabric), id)) " port " (number) " to " (far) }
        }
    }
}

/// Address of this view with the trees of a group.
fn address(fabric: &Fabric, part: Part, group: &str) -> String {
    let graph = fabric.graph();
    let place = match part {
        Part::Switch(switch) => format!("switch={}", encoded(graph.switch_name(switch))),
        Part::Link(port) => format!(
            "switch={}&port={}",
            encoded(graph.switch_name(graph.switch_of(port))),
            graph.port_number(port)
        ),
    };
    format!("/what-if?{place}&group={}", encoded(group))
}

fn listed(fabric: &Fabric, part: Part, found: &v1::PlanFaultsResponse, of: usize) -> Markup {
    let (before, after) = (found.before.unwrap_or_default(), found.after.unwrap_or_default());
    html! {
        @if found.changes.is_empty() { p .good { "None of " (of) " groups would get another route." } }
        @else {
            p { (found.changed_groups) " of " (of) " groups would get another route." }
            dl .facts {
                (fact("Groups in hardware", becomes(before.routed_groups, after.routed_groups)))
                (fact("Most groups on a link", becomes(before.max_efi, after.max_efi)))
                (fact("Most groups on a tree", becomes(before.max_tfi, after.max_tfi)))
                (fact("Fullest table", becomes(before.used_entries, after.used_entries)))
            }
            div .scroll tabindex="0" role="group" aria-label="Groups hit" {
                table #hits {
                    thead { tr { th { "Group" } th { "Now" } th { "Then" } th { "New tree" } } }
                    tbody {
                        @for change in found.changes.iter().take(LISTED) {
                            @let (now, then) = (change.before.clone().unwrap_or_default(), change.after.clone().unwrap_or_default());
                            tr {
                                td { (group_link(&now.group)) }
                                td { (route(fabric, &now)) }
                                td { (route(fabric, &then)) }
                                td { a href=(address(fabric, part, &now.group)) { "show" } }
                            }
                        }
                    }
                }
            }
            @if found.changed_groups as usize > LISTED { p .soft { "and " (found.changed_groups as usize - LISTED) " more" } }
        }
    }
}

fn becomes(before: u32, after: u32) -> String {
    if before == after { format!("{before}, as now") } else { format!("{before} → {after}") }
}

fn route(fabric: &Fabric, route: &v1::RouteExplanation) -> Markup {
    html! {
        @match route.color {
            Some(color) => {
                "color " (color)
                @if let Some(tree) = route.spanning_tree { ", tree " (tree) }
                @if !route.root.is_empty() { ", root " (switch_link(Some(fabric), &route.root)) }
            }
            None => span .bad { "no hardware route" },
        }
        @if !route.reason.is_empty() { ": " bdi { (route.reason) } }
        @if !route.cut_off_endpoints.is_empty() {
            span .bad { " cut off: " (name(&route.cut_off_endpoints.join(", "))) }
        }
    }
}

/// The trees of one group, now and then, on the fabric as it would be.
fn trees(
    now: &Snapshot,
    fabric: &Fabric,
    what: &What<'_>,
    found: &v1::PlanFaultsResponse,
) -> Markup {
    let graph = fabric.graph();
    let mut then = now.overlay();
    let switch = match what.part {
        Part::Switch(switch) => {
            match what.verb {
                Verb::Heal => then.faults.heal_switch(switch),
                _ => then.faults.fail_switch(switch),
            };
            switch
        }
        Part::Link(port) => {
            match what.verb {
                Verb::Heal => then.faults.heal_link(graph, port),
                _ => then.faults.fail_link(graph, port),
            };
            graph.switch_of(port)
        }
    };
    let is_drawn = |after: &v1::RouteExplanation| match what.wanted {
        "" => after.color.or(after.spanning_tree).is_some(),
        group => after.group == group,
    };
    let mut changes = found.changes.iter();
    let Some(change) = changes.find(|change| change.after.as_ref().is_some_and(is_drawn)) else {
        let scope = match fabric.is_small() {
            true => Scope::Whole,
            false => Scope::Inside(fabric.midplane(switch)),
        };
        let all_are_listed = found.changed_groups as usize == found.changes.len();
        return html! {
            @if !what.wanted.is_empty() && all_are_listed {
                p { (group_link(what.wanted)) " would keep its route." }
            }
            (picture(fabric, &draw(fabric, scope, &then), ""))
        };
    };
    let group = change.after.as_ref().map_or("", |after| &after.group);
    let mut overlay = now.overlay();
    let shown = [(&mut overlay, &change.before), (&mut then, &change.after)];
    for (overlay, route) in shown {
        tree_overlay(graph, &route.clone().unwrap_or_default(), &[], overlay);
    }
    let drawn = |overlay, prefix: &str| {
        let drawing = draw(fabric, Scope::Whole, overlay);
        picture(fabric, &Drawing { prefix: prefix.to_owned(), ..drawing }, "")
    };
    html! {
        h2 { "Trees of " (group_link(group)) }
        h3 { "Now" } div #now { (drawn(&overlay, "now-")) }
        h3 { "Then" } div #then { (drawn(&then, "then-")) }
        (legend(true, Some(ENTRIES)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabricast_topology::Faults;
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    #[test]
    fn a_link_that_has_not_failed_itself_can_only_fail() {
        let spec = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2";
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let port =
            graph.ports(SwitchId(0)).find(|port| matches!(graph.peer(*port), Peer::Switch(_)));
        let port = port.unwrap();
        let fabric = Fabric::new(Arc::new(graph.clone()));
        let mut faults = Faults::new();
        faults.fail_switch(SwitchId(0));
        let failed = |faults: &Faults| {
            let now = Snapshot { faults: Arc::new(faults.clone()), ..Snapshot::default() };
            let part = Part::Link(port);
            (action(&now, &fabric, part).verb, failed_ends(&now, &fabric, part).len())
        };
        assert_eq!(failed(&faults), (Verb::Fail, 1), "the switch at its end has");
        faults.fail_link(&graph, port);
        assert_eq!(failed(&faults), (Verb::Heal, 1));
        faults.heal_switch(SwitchId(0));
        assert_eq!(failed(&faults), (Verb::Heal, 0));
    }
}
