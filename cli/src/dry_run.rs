//! Effects of a change to a running control plane, for `--dry-run`; changes nothing.

use std::collections::BTreeSet;

use fabricast_proto::v1;
use serde::Serialize;
use tonic::Code;

use crate::args::Format;
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::Remote;

/// Endpoints of a group that are named; more are counted.
const MOST_NAMED: usize = 3;

/// A change, and the groups that it would affect.
#[derive(Debug, Serialize)]
struct Impact {
    dry_run: bool,
    what: String,
    groups: Vec<AffectedGroup>,
}

/// A group that would be affected, and how.
#[derive(Debug, Serialize)]
struct AffectedGroup {
    group: String,
    mgid: u32,
    members: u32,
    effect: String,
}

/// Prints the groups whose routes would change with some faults, as the engine of the route service
/// plans them.
///
/// - `what`: the change, for people.
///
/// # Errors
///
/// An unknown part, a plan that cannot be made again, or a server that does not answer.
pub(crate) async fn faults(
    remote: &Remote,
    mut request: v1::PlanFaultsRequest,
    what: String,
    format: Format,
) -> Result<(), Failure> {
    let mut router = remote.router().await?;
    let mut groups: Vec<AffectedGroup> = Vec::new();
    loop {
        let planned = router.plan_faults(request.clone()).await.map_err(|status| {
            if status.code() == Code::Unimplemented {
                return Failure::input("the route service is of a version that plans no faults")
                    .hint("upgrade it, or look at groups with `fabricast route explain`");
            }
            remote.failed(status)
        });
        let v1::PlanFaultsResponse { changes, changed_groups, .. } = planned?.into_inner();
        groups.extend(changes.into_iter().map(AffectedGroup::from));
        match groups.last() {
            Some(last) if request.after_group != last.group => {
                request.after_group.clone_from(&last.group);
            }
            _ => break,
        }
        if groups.len() >= changed_groups as usize {
            break;
        }
    }
    print(format, &Impact { dry_run: true, what, groups })
}

impl From<v1::RouteChange> for AffectedGroup {
    fn from(change: v1::RouteChange) -> Self {
        let (before, after) = (change.before.unwrap_or_default(), change.after.unwrap_or_default());
        let effect = effect(&before, &after);
        Self { group: after.group, mgid: after.mgid, members: change.member_count, effect }
    }
}

/// Describes the difference between two routes of a group.
fn effect(before: &v1::RouteExplanation, after: &v1::RouteExplanation) -> String {
    let mut effects = Vec::new();
    match (tree_name(before), tree_name(after)) {
        (Some(_), None) => effects.push(format!("it loses its tree: {}", after.reason)),
        (None, Some(tree)) => effects.push(format!("it gets {tree}")),
        (Some(from), Some(to)) if from != to => effects.push(format!("it moves to {to}")),
        _ => {}
    }
    let cut_off = only_in(&after.cut_off_endpoints, &before.cut_off_endpoints);
    effects.extend(cut_off.map(|endpoints| format!("{endpoints} cut off")));
    let reached = only_in(&before.cut_off_endpoints, &after.cut_off_endpoints);
    effects.extend(reached.map(|endpoints| format!("{endpoints} reached again")));
    match (effects.is_empty(), after.reason.as_str()) {
        (false, _) => effects.join("; "),
        (true, "") => "its tree changes".to_owned(),
        (true, reason) => format!("its tree changes: {reason}"),
    }
}

/// Names the tree of a route; `None` if it has none. Trees of some engines have a color only.
fn tree_name(route: &v1::RouteExplanation) -> Option<String> {
    let spanning_tree = route.spanning_tree.map(|tree| format!("spanning tree {tree}"));
    spanning_tree.or_else(|| route.color.map(|color| format!("a tree of color {color}")))
}

/// Names the endpoints that are in one list and not in the other, or counts them if they are many;
/// `None` if there are none.
fn only_in(one: &[String], other: &[String]) -> Option<String> {
    let other: BTreeSet<&String> = other.iter().collect();
    let only: Vec<&str> =
        one.iter().filter(|name| !other.contains(name)).map(String::as_str).collect();
    match only.len() {
        0 => None,
        count if count > MOST_NAMED => Some(format!("{count} endpoints")),
        _ => Some(only.join(", ")),
    }
}

/// Prints the memberships that the end of a node would end.
///
/// # Errors
///
/// An unknown node, or a server that does not answer.
pub(crate) async fn node(
    remote: &Remote,
    node: String,
    verb: &str,
    format: Format,
) -> Result<(), Failure> {
    if !remote.nodes().await?.iter().any(|known| known.name == node) {
        let failure = Failure::input(format!("node '{node}' is not registered"));
        return Err(failure.hint("`fabricast node list` shows what there is"));
    }
    let groups = remote.groups(true).await?;
    let affected = groups.into_iter().filter_map(|group| {
        let ends: Vec<String> = group
            .members
            .iter()
            .filter(|member| member.node == node)
            .map(|member| format!("pn {} ({})", member.pn, member.process))
            .collect();
        let last = ends.len() == group.members.len() && !group.persistent;
        let mut effects = Vec::new();
        if !ends.is_empty() {
            effects.push(format!("ends {}", ends.join(", ")));
        }
        if last && !ends.is_empty() {
            effects.push("the group ends".to_owned());
        } else if group.agent_node == node {
            effects.push("another node hosts the group agent".to_owned());
        }
        let effect = effects.join("; ");
        let (mgid, members) = (group.mgid, group.member_count);
        (!effect.is_empty()).then_some(AffectedGroup { group: group.name, mgid, members, effect })
    });
    let groups = affected.collect();
    print(format, &Impact { dry_run: true, what: format!("{verb} node {node}"), groups })
}

/// Prints what the deletion of a group would affect.
///
/// # Errors
///
/// An unknown group, or a server that does not answer.
pub(crate) async fn group(remote: &Remote, name: String, format: Format) -> Result<(), Failure> {
    let request = v1::GetGroupRequest { group: name.clone(), gn: 0, ..Default::default() };
    let answer = remote.answer(remote.tic().get_group(request)).await?;
    let group = answer.group.unwrap_or_default();
    let nodes: BTreeSet<&str> = group.members.iter().map(|member| member.node.as_str()).collect();
    let effect = format!("ends {} memberships on {} nodes", group.member_count, nodes.len());
    let (mgid, members) = (group.mgid, group.member_count);
    let groups = vec![AffectedGroup { group: group.name, mgid, members, effect }];
    print(format, &Impact { dry_run: true, what: format!("delete group {name}"), groups })
}

/// Prints the groups that would end with a job.
///
/// # Errors
///
/// No group belongs to the job, or a server that does not answer.
pub(crate) async fn job(remote: &Remote, job: &str, format: Format) -> Result<(), Failure> {
    let groups = remote.groups(false).await?.into_iter().filter(|group| group.job == job);
    let affected = groups.map(|group| AffectedGroup {
        effect: format!("ends with its {} memberships", group.member_count),
        group: group.name,
        mgid: group.mgid,
        members: group.member_count,
    });
    let groups: Vec<AffectedGroup> = affected.collect();
    if groups.is_empty() {
        return Err(Failure::input(format!("no group belongs to job '{job}'")));
    }
    print(format, &Impact { dry_run: true, what: format!("end job {job}"), groups })
}

fn print(format: Format, impact: &Impact) -> Result<(), Failure> {
    output::print(format, impact, |impact| {
        let mut text = format!("would {}; nothing has changed", impact.what);
        if impact.groups.is_empty() {
            text.push_str("\nno group would be affected");
            return text;
        }
        let mut rows = Rows::new(&["GROUP", "MGID", "MEMBERS", "EFFECT"]);
        for group in &impact.groups {
            rows.push(vec![
                group.group.clone(),
                group.mgid.to_string(),
                group.members.to_string(),
                group.effect.clone(),
            ]);
        }
        text.push_str(&format!("\n{rows}"));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(spanning_tree: Option<u32>, cut_off: &[&str], reason: &str) -> v1::RouteExplanation {
        v1::RouteExplanation {
            spanning_tree,
            cut_off_endpoints: cut_off.iter().map(|name| (*name).to_owned()).collect(),
            reason: reason.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn an_effect_is_the_difference_of_two_routes() {
        let home = || route(Some(3), &[], "");
        let colored = |color| v1::RouteExplanation { color: Some(color), ..route(None, &[], "") };
        let cases = [
            (home(), route(Some(5), &[], "moved"), "it moves to spanning tree 5"),
            (home(), route(None, &[], "no live root"), "it loses its tree: no live root"),
            (route(None, &[], "x"), home(), "it gets spanning tree 3"),
            (home(), route(Some(3), &["a", "b"], ""), "a, b cut off"),
            (route(Some(3), &["a", "b"], ""), route(Some(3), &["b"], ""), "a reached again"),
            (home(), route(Some(3), &["a", "b", "c", "d"], ""), "4 endpoints cut off"),
            (home(), route(Some(5), &["a"], ""), "it moves to spanning tree 5; a cut off"),
            (home(), home(), "its tree changes"),
            (home(), route(Some(3), &[], "one tree left"), "its tree changes: one tree left"),
            (colored(1), colored(2), "it moves to a tree of color 2"),
            (colored(1), colored(1), "its tree changes"),
            (colored(1), route(None, &[], "cut off"), "it loses its tree: cut off"),
        ];
        for (before, after, text) in cases {
            assert_eq!(effect(&before, &after), text);
        }
    }
}
