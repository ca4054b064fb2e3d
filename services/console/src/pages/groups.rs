//! Groups: the list, and one with its tree on the fabric.

use fabricast_drawing::{Fabric, draw};
use fabricast_proto::v1;
use maud::{Markup, html};

use super::Page;
use super::parts::{
    PAGE, end_link, fact, group_link, legend, name, node_link, pages, picture, route_state,
    rows_of, scope, switch_link,
};
use crate::details::{Details, GroupDetail};
use crate::http::{Query, encoded};
use crate::overlay::tree_overlay;
use crate::snapshot::{Snapshot, is_routed};

/// Most members and links that a page lists.
const LISTED: usize = 200;

/// The list of groups.
pub(crate) fn groups(now: &Snapshot, query: &Query) -> Page {
    let (filter, state, page) = (query.get("filter"), query.get("state"), query.number("page"));
    let wanted = |group: &&std::sync::Arc<v1::Group>| {
        let by_state = match state {
            "routed" => is_routed(group),
            "unicast" => !is_routed(group),
            _ => true,
        };
        by_state && (filter.is_empty() || group.name.contains(filter) || group.job == filter)
    };
    let found: Vec<_> = now.groups.values().filter(wanted).collect();
    let address = format!("/groups?filter={}&state={}&page=", encoded(filter), encoded(state));
    let body = html! {
        h1 { "Groups" }
        form method="get" action="/groups" data-filter="" {
            label for="filter" { "Part of the name, or job (press /)"
                input #filter type="search" name="filter" value=(filter) maxlength="256";
            }
            label for="state-filter" { "Route"
                select #state-filter name="state" {
                    @for (value, text) in [("", "all"), ("routed", "hardware"), ("unicast", "unicast only")] {
                        option value=(value) selected[value == state] { (text) }
                    }
                }
            }
            noscript { button { "Show" } }
        }
        p .soft { (found.len()) " of " (now.groups.len()) " groups" }
        @if !found.is_empty() { (table(rows_of(&found, page))) }
        (pages(&address, page, found.len()))
    };
    Page::new("/groups", "Groups", body)
}

fn table(groups: &[&std::sync::Arc<v1::Group>]) -> Markup {
    debug_assert!(groups.len() <= PAGE, "one page");
    html! {
        div .scroll tabindex="0" role="group" aria-label="Groups" {
            table {
                thead { tr {
                    th { "Group" } th .number { "Members" } th { "Route" } th .number { "Color" }
                    th .number { "Virtual group" } th .number { "MGID" } th { "Agent" } th { "Job" }
                } }
                tbody {
                    @for group in groups {
                        tr {
                            td { (group_link(&group.name)) }
                            td .number { (group.member_count) }
                            td { (route_state(group)) }
                            @match group.route.as_ref().filter(|_| is_routed(group)) {
                                Some(route) => {
                                    td .number { (route.color) } td .number { (route.virtual_group) }
                                }
                                None => { td .number { "–" } td .number { "–" } }
                            }
                            td .number { (group.mgid) }
                            td { (node_link(&group.agent_node)) }
                            td { (name(&group.job)) }
                        }
                    }
                }
            }
        }
    }
}

/// One group.
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
        (members(&detail.group))
        (links(detail, fabric))
    };
    Page::new("/groups", wanted, body)
}

/// Why the route is as it is, in sentences.
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
                    _ => p { "Packets have no way through the switches; messages go over the unicast tree." },
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
        (legend(true))
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

fn links(detail: &GroupDetail, fabric: Option<&Fabric>) -> Markup {
    let Ok(route) = &*detail.route else { return html! {} };
    html! {
        @if !route.links.is_empty() {
            details {
                summary { "The " (route.links.len()) " links of the tree" }
                div .scroll {
                    table {
                        thead { tr { th { "Switch" } th .number { "Port" } th { "Peer" } th .number { "Port" } th { "Tree" } } }
                        tbody {
                            @for link in route.links.iter().take(LISTED) {
                                tr {
                                    td { (switch_link(fabric, &link.switch_name)) }
                                    td .number { (link.port) }
                                    td { (end_link(fabric, &link.peer)) }
                                    td .number { @if link.peer_port > 0 { (link.peer_port) } @else { "–" } }
                                    td { @if link.tree == 0 { "first" } @else { "second" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
