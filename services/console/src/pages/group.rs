//! One group: its trees on the fabric, why they are there, and what has happened to it.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_drawing::{Fabric, MemberPlace, draw, draw_members};
use fabricast_groups::ids::Pn;
use fabricast_proto::v1;
use fabricast_wire::decode_tree;
use maud::{Markup, PreEscaped, html};

use super::Page;
use super::parts::{
    ENTRIES, clock, end_link, fact, group_link, legend, name, node_link, picture, route_state,
    scope, switch_link,
};
use crate::details::{Details, GroupDetail};
use crate::history::MoveKind;
use crate::http::{Query, encoded};
use crate::overlay::tree_overlay;
use crate::snapshot::Snapshot;

/// Most members and links that a page lists.
const LISTED: usize = 200;

pub(crate) async fn group(now: &Snapshot, details: &Details, query: &Query) -> Page {
    let wanted = query.get("name");
    if wanted.is_empty() || (now.group(wanted).is_none() && now.problems.is_empty()) {
        return Page::not_found("There is no group of this name; it may have ended.");
    }
    let answer = details.group(wanted).await;
    let detail = match &*answer {
        Ok(detail) => detail,
        Err(problem) => return Page::missing("/groups", wanted, problem),
    };
    let fabric = now.fabric.as_deref();
    let body = html! {
        h1 { "Group " (name(&detail.group.name)) }
        (reason(detail))
        (figures(detail, fabric))
        @if let Some(fabric) = fabric { (tree(now, fabric, detail, query)) }
        (sharers(detail, fabric))
        (history(now, &detail.group))
        (unicast(&detail.group))
        (members(&detail.group))
        (links(detail, fabric))
    };
    Page::new("/groups", wanted, body)
}

/// Reason why the route is as it is, in sentences.
fn reason(detail: &GroupDetail) -> Markup {
    let route = detail.group.route.clone().unwrap_or_default();
    html! {
        @match &*detail.route {
            Err(problem) => p .problem role="status" { "The route service does not explain the route: " (problem) },
            Ok(why) => {
                @match (why.color, why.spanning_tree) {
                    (Some(color), Some(tree)) => p {
                        "Packets carry color " (color) " and follow spanning tree " (tree)
                        @if tree == why.home_spanning_tree { ", the one that MGID " (why.mgid) " maps to." }
                        @else { ", not " (why.home_spanning_tree) ", which MGID " (why.mgid) " maps to." }
                        @if why.shares_with.is_empty() { " No other group is on its tree." }
                    },
                    (Some(color), None) => p {
                        "Packets carry color " (color) "."
                        @if why.shares_with.is_empty() { " No other group is on its tree." }
                    },
                    (None, _) => p { "Packets have no way through the switches; messages go over the unicast tree." },
                }
                @if !why.reason.is_empty() { p .warn { (why.reason) } }
                @if !why.cut_off_endpoints.is_empty() {
                    p .bad { "No live link reaches: " (name(&why.cut_off_endpoints.join(", "))) }
                }
            }
        }
        @if !route.reason.is_empty() && detail.route.as_ref().as_ref().is_ok_and(|why| why.reason.is_empty()) {
            p .warn { (route.reason) }
        }
    }
}

fn figures(detail: &GroupDetail, fabric: Option<&Fabric>) -> Markup {
    let group = &detail.group;
    let why = detail.route.as_ref().as_ref().ok();
    let number = |value: Option<u32>| value.map_or("–".to_owned(), |value| value.to_string());
    html! {
        dl .facts {
            (fact("Members", group.member_count))
            (fact("Route", route_state(group)))
            (fact("Color", number(why.and_then(|why| why.color))))
            (fact("Spanning tree", number(why.and_then(|why| why.spanning_tree))))
            (fact("Virtual group", number(why.and_then(|why| why.virtual_group))))
            (fact("MGID", group.mgid))
            @if let Some(why) = why.filter(|why| !why.root.is_empty()) {
                (fact("Root", switch_link(fabric, &why.root)))
            }
            (fact("Agent on", node_link(&group.agent_node)))
            (fact("Agent's epoch", group.epoch))
            @if !group.job.is_empty() { (fact("Job", name(&group.job))) }
            @if group.exclusive { (fact("Exclusive", "yes")) }
            @if group.incomplete {
                (fact("Waits for", format!("{} members", group.complete_at_member_count)))
            }
        }
    }
}

fn tree(now: &Snapshot, fabric: &Fabric, detail: &GroupDetail, query: &Query) -> Markup {
    let scope = scope(fabric, query.get("inside")).unwrap_or(fabricast_drawing::Scope::Whole);
    let mut overlay = now.overlay();
    match &*detail.route {
        Ok(route) => tree_overlay(fabric.graph(), route, &detail.group.members, &mut overlay),
        Err(_) => tree_overlay(
            fabric.graph(),
            &v1::RouteExplanation::default(),
            &detail.group.members,
            &mut overlay,
        ),
    }
    let own = format!("/group?name={}", encoded(&detail.group.name));
    html! {
        h2 { "Tree" }
        @if scope != fabricast_drawing::Scope::Whole { p { a #up href=(own) { "On the whole fabric" } } }
        (picture(fabric, &draw(fabric, scope, &overlay), &format!("{own}&inside=")))
        (legend(true, Some(ENTRIES)))
    }
}

fn sharers(detail: &GroupDetail, fabric: Option<&Fabric>) -> Markup {
    html! {
        @if !detail.sharers.is_empty() {
            h2 { "On the same tree" }
            p .soft { "Groups of one color whose trees share a link have one table entry there, and "
                "get each other's packets at the switches, not at the processes." }
            ul {
                @for sharer in detail.sharers.iter().take(LISTED) {
                    li {
                        (group_link(&sharer.name))
                        @if let Some(link) = &sharer.link {
                            ": both use " (switch_link(fabric, &link.switch_name)) " port " (link.port)
                            " to " (end_link(fabric, &link.peer))
                        }
                    }
                }
            }
        }
    }
}

fn members(group: &v1::Group) -> Markup {
    html! {
        h2 { "Members" }
        div .scroll tabindex="0" role="group" aria-label="Members" {
            table {
                thead { tr { th .number { "PN" } th { "Node" } th { "Process" } th { "Endpoint" } } }
                tbody {
                    @for member in group.members.iter().take(LISTED) {
                        tr {
                            td .number { (member.pn) }
                            td { (node_link(&member.node)) }
                            td { (name(&member.process)) }
                            td { (name(&member.endpoint)) }
                        }
                    }
                }
            }
        }
        @if group.members.len() > LISTED { p .soft { "and " (group.members.len() - LISTED) " more" } }
    }
}

/// Changes of the group since the console began, newest first.
fn history(now: &Snapshot, group: &v1::Group) -> Markup {
    let mut moves = now.histories.of(group.gn).rev().peekable();
    html! {
        h2 { "Moves" }
        @if moves.peek().is_none() { p .soft { "None since the console began." } }
        @else {
            ol #moves { @for one in moves {
                li {
                    (clock(one.at)) " "
                    @match &one.what {
                        MoveKind::Routed { color, virtual_group } => {
                            "in hardware: color " (color) ", virtual group " (virtual_group)
                        }
                        MoveKind::Unicast => span .bad { "no hardware route" },
                        MoveKind::Agent(node) => { "agent on " (node_link(node)) }
                    }
                    @if !one.reason.is_empty() { ", because: " bdi { (one.reason) } }
                }
            } }
        }
    }
}

/// The tree on which messages go from process to process, beside the one in the switches.
fn unicast(group: &v1::Group) -> Markup {
    let live: BTreeSet<Pn> = group.members.iter().map(|member| Pn(member.pn)).collect();
    let shape = group.tree.as_ref().and_then(|tree| decode_tree(tree).ok()).unwrap_or_default();
    let place = |member: &v1::Member| {
        let parent = shape.position(Pn(member.pn), &live)?.parent.map(|parent| parent.0);
        let title = format!("PN {}, process {} on node {}", member.pn, member.process, member.node);
        Some(MemberPlace { pn: member.pn, label: member.node.clone(), title, parent })
    };
    let places: Vec<MemberPlace> = group.members.iter().filter_map(place).collect();
    let drawing = draw_members(&places);
    let nodes: BTreeMap<u32, &str> =
        group.members.iter().map(|member| (member.pn, member.node.as_str())).collect();
    let link = |unit| match unit {
        fabricast_drawing::Unit::Member(pn) => {
            Some(format!("/node?name={}", encoded(nodes.get(&pn)?)))
        }
        _ => None,
    };
    html! {
        h2 { "Unicast tree" }
        p .soft { "Messages and operations go along this tree where the switches have no route, or beside it." }
        div #unicast .scroll .picture tabindex="0" role="group" aria-label=(drawing.title) {
            (PreEscaped(drawing.svg(&link)))
        }
        @if drawing.left_out > 0 {
            p .soft { "and " (drawing.left_out) " members farther from the root" }
        }
    }
}

/// Counters of a port.
fn counters_of<'a>(
    counters: &'a [v1::SwitchCounters],
    link: &v1::TreeLink,
) -> Option<&'a v1::PortCounters> {
    let switch = counters.iter().find(|one| one.switch_name == link.switch_name)?;
    switch.ports.iter().find(|one| one.port == link.port)
}

fn links(detail: &GroupDetail, fabric: Option<&Fabric>) -> Markup {
    let Ok(route) = &*detail.route else { return html! {} };
    let counters = detail.counters.as_ref().as_ref().map_or(&[][..], Vec::as_slice);
    let found = route.links.iter().filter_map(|link| counters_of(counters, link));
    let dropped: u64 = found.map(|one| one.dropped_packets).sum();
    html! {
        @if !route.links.is_empty() {
            h2 { "Links and packets" }
            @match &*detail.counters {
                Ok(_) => p .soft { "Packets are those of all groups since the counters were cleared; "
                    "switches do not count them by group. Dropped at these ports: " (dropped) "." },
                Err(problem) => p .soft { "There are no counters: " (problem) },
            }
            details {
                summary { "The " (route.links.len()) " links of the tree" }
                div .scroll tabindex="0" role="group" aria-label="Links of the tree" {
                    table #links {
                        thead { tr { th { "Switch" } th .number { "Port" } th { "Peer" } th .number { "Port" } th { "Tree" }
                            th .number { "Received" } th .number { "Sent" } th .number { "Dropped" } } }
                        tbody {
                            @for link in route.links.iter().take(LISTED) {
                                tr {
                                    td { (switch_link(fabric, &link.switch_name)) }
                                    td .number { (link.port) }
                                    td { (end_link(fabric, &link.peer)) }
                                    td .number { @if link.peer_port > 0 { (link.peer_port) } @else { "–" } }
                                    td { @if link.tree == 0 { "first" } @else { "second" } }
                                    @match counters_of(counters, link) {
                                        Some(one) => {
                                            td .number { (one.received_packets) }
                                            td .number { (one.sent_packets) }
                                            td .number { (one.dropped_packets) }
                                        }
                                        None => { td .number { "–" } td .number { "–" } td .number { "–" } }
                                    }
                                }
                            }
                        }
                    }
                }
                @if route.links.len() > LISTED { p .soft { "and " (route.links.len() - LISTED) " more" } }
            }
        }
    }
}
