//! Nodes: the list, and one with its memberships.

use fabricast_proto::v1;
use maud::{Markup, html};

use super::Page;
use super::parts::{fact, group_link, name, node_link, pages, rows_of};
use crate::changes::{Action, Verb};
use crate::details::Details;
use crate::http::{Query, encoded};
use crate::snapshot::Snapshot;

/// The list of nodes.
pub(crate) fn nodes(now: &Snapshot, query: &Query) -> Page {
    let (filter, state, page) = (query.get("filter"), query.get("state"), query.number("page"));
    let wanted = |node: &&std::sync::Arc<v1::Node>| {
        let by_state = match state {
            "up" => node.state() == v1::NodeState::Up,
            "failed" => node.state() == v1::NodeState::Failed,
            "drained" => node.drained,
            _ => true,
        };
        by_state && (filter.is_empty() || node.name.contains(filter))
    };
    let found: Vec<_> = now.nodes.values().filter(wanted).collect();
    let address = format!("/nodes?filter={}&state={}&page=", encoded(filter), encoded(state));
    let states = [("", "all"), ("up", "up"), ("failed", "failed"), ("drained", "drained")];
    let body = html! {
        h1 { "Nodes" }
        form method="get" action="/nodes" data-filter="" {
            label for="filter" { "Part of the name (press /)"
                input #filter type="search" name="filter" value=(filter) maxlength="256";
            }
            label for="state-filter" { "State"
                select #state-filter name="state" {
                    @for (value, text) in states { option value=(value) selected[value == state] { (text) } }
                }
            }
            noscript { button { "Show" } }
        }
        p .soft { (found.len()) " of " (now.nodes.len()) " nodes" }
        div .scroll tabindex="0" role="group" aria-label="Nodes" {
            table {
                thead { tr { th { "Node" } th { "State" } th .number { "Incarnation" } th { "Address" } th { "Endpoints" } } }
                tbody {
                    @for node in rows_of(&found, page) {
                        tr {
                            td { (node_link(&node.name)) }
                            td { (node_state(node)) }
                            td .number { (node.incarnation) }
                            td { (name(&node.address)) }
                            td { (name(&node.endpoints.join(", "))) }
                        }
                    }
                }
            }
        }
        (pages(&address, page, found.len()))
    };
    Page::new("/nodes", "Nodes", body)
}

pub(super) fn node_state(node: &v1::Node) -> Markup {
    html! {
        @match node.state() {
            v1::NodeState::Up => span .good { "up" },
            v1::NodeState::Failed => span .bad { "failed" },
            v1::NodeState::Silent => span .warn { "silent" },
            v1::NodeState::Unspecified => span .soft { "?" },
        }
        @if node.drained { span .warn { ", drained" } }
        @if node.suppressed_until.is_some() { span .warn { ", suppressed" } }
    }
}

pub(crate) async fn node(now: &Snapshot, details: &Details, query: &Query) -> Page {
    let wanted = query.get("name");
    if !now.nodes.contains_key(wanted) {
        return Page::not_found("No node of this name is registered.");
    }
    let answer = details.node(wanted).await;
    let answer = match &*answer {
        Ok(answer) => answer,
        Err(problem) => return Page::missing("/nodes", wanted, problem),
    };
    let node = answer.node.clone().unwrap_or_default();
    let body = html! {
        h1 { "Node " (name(&node.name)) }
        @if !node.suppressed_reason.is_empty() { p .warn { "Suppressed: " (node.suppressed_reason) } }
        dl .facts {
            (fact("State", node_state(&node)))
            (fact("Incarnation", node.incarnation))
            (fact("Address", name(&node.address)))
            (fact("Endpoints", name(&node.endpoints.join(", "))))
            (fact("Job", if answer.job.is_empty() { "–" } else { &answer.job }))
            (fact("Group agents", answer.hosted_group_count))
            (fact("Memberships", answer.membership_count))
        }
        h2 { "Memberships" }
        @if answer.memberships.is_empty() { p .soft { "None." } }
        @else {
            div .scroll tabindex="0" role="group" aria-label="Memberships" {
                table {
                    thead { tr { th { "Group" } th .number { "PN" } th { "Process" } th { "Endpoint" } } }
                    tbody {
                        @for one in &answer.memberships {
                            tr { td { (group_link(&one.group)) } td .number { (one.pn) }
                                td { (name(&one.process)) } td { (name(&one.endpoint)) } }
                        }
                    }
                }
            }
            @if answer.membership_count as usize > answer.memberships.len() {
                p .soft { "and " (answer.membership_count as usize - answer.memberships.len()) " more" }
            }
        }
    };
    let verb = match node.state() {
        v1::NodeState::Failed => Verb::Readmit,
        v1::NodeState::Up | v1::NodeState::Silent | v1::NodeState::Unspecified => Verb::Expel,
    };
    let actions = vec![Action::of_node(verb, &node.name)];
    Page { actions, ..Page::new("/nodes", wanted, body) }
}
