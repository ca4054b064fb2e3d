//! The list of groups.

use fabricast_proto::v1;
use maud::{Markup, html};

use super::Page;
use super::parts::{PAGE, group_link, name, node_link, pages, route_state, rows_of};
use crate::http::{Query, encoded};
use crate::overlay::is_routed;
use crate::snapshot::Snapshot;

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
