//! Effects of a change to a running control plane, for `--dry-run`; changes nothing.

use std::collections::BTreeSet;

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{EndpointId, EndpointNameError, Graph, Peer, PortId, SwitchId};
use serde::Serialize;

use crate::args::Format;
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::progress::Progress;
use crate::remote::Remote;

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

/// A part of the fabric, found in its topology.
enum Part {
    Link(BTreeSet<PortId>),
    Switch(SwitchId),
    Endpoint(EndpointId),
}

/// Prints the groups that a part that fails or heals would affect.
///
/// # Errors
///
/// An unknown part, or a server that does not answer.
pub(crate) async fn element(
    remote: &Remote,
    element: v1::Element,
    verb: &str,
    format: Format,
) -> Result<(), Failure> {
    let graph = remote.graph().await?;
    let (part, title) = part(&graph, element)?;
    let groups = touched(remote, &graph, &part, verb).await?;
    print(format, &Impact { dry_run: true, what: format!("{verb} {title}"), groups })
}

/// Prints the groups that have to move off links.
///
/// # Errors
///
/// A server that does not answer.
pub(crate) async fn links(
    remote: &Remote,
    links: Vec<v1::DrainedLink>,
    title: &str,
    format: Format,
) -> Result<(), Failure> {
    let graph = remote.graph().await?;
    let names = links.into_iter().flat_map(|link| [link.end, link.peer]).flatten();
    let ends = names.filter_map(|name| {
        graph.port(graph.find_switch(&name.switch_name)?, u8::try_from(name.port).ok()?)
    });
    let part = Part::Link(ends.collect());
    let groups = touched(remote, &graph, &part, "drain").await?;
    print(format, &Impact { dry_run: true, what: format!("drain {title}"), groups })
}

/// Asks for the groups that a change of a part would affect.
async fn touched(
    remote: &Remote,
    graph: &Graph,
    part: &Part,
    verb: &str,
) -> Result<Vec<AffectedGroup>, Failure> {
    let groups = remote.groups(false).await?;
    let progress = Progress::new("asking", groups.len());
    let mut touched = Vec::new();
    for group in groups {
        let request = v1::ExplainRouteRequest { group: group.name.clone() };
        let answer = remote.answer(remote.router().await?.explain_route(request)).await?;
        let route = answer.explanation.unwrap_or_default();
        let effect = match verb {
            "fail" => part.carries(graph, &route),
            "drain" => part.carries(graph, &route).map(|_| "its tree moves".to_owned()),
            _ => waits_for_mending(&route),
        };
        touched.extend(effect.map(|effect| AffectedGroup {
            group: group.name,
            mgid: group.mgid,
            members: group.member_count,
            effect,
        }));
        progress.step();
    }
    progress.finish();
    Ok(touched)
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
    let touched = groups.into_iter().filter_map(|group| {
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
    let groups = touched.collect();
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
    let touched = groups.map(|group| AffectedGroup {
        effect: format!("ends with its {} memberships", group.member_count),
        group: group.name,
        mgid: group.mgid,
        members: group.member_count,
    });
    let groups: Vec<AffectedGroup> = touched.collect();
    if groups.is_empty() {
        return Err(Failure::input(format!("no group belongs to job '{job}'")));
    }
    print(format, &Impact { dry_run: true, what: format!("end job {job}"), groups })
}

fn part(graph: &Graph, element: v1::Element) -> Result<(Part, String), Failure> {
    let unknown = |what: String| {
        let failure = Failure::input(format!("the fabric has no {what}"));
        failure.hint("`fabricast switch list` and `fabricast node list` show what there is")
    };
    let found = match element.kind {
        Some(Kind::Link(name)) => {
            let number = u8::try_from(name.port).ok();
            let port = graph
                .find_switch(&name.switch_name)
                .and_then(|switch| graph.port(switch, number?))
                .filter(|port| graph.peer(*port) != Peer::None)
                .ok_or_else(|| unknown(format!("link at {}:{}", name.switch_name, name.port)))?;
            let ends = match graph.peer(port) {
                Peer::Switch(other) => BTreeSet::from([port, other]),
                Peer::Endpoint(_) | Peer::None => BTreeSet::from([port]),
            };
            (Part::Link(ends), format!("link {}:{}", name.switch_name, name.port))
        }
        Some(Kind::SwitchName(name)) => {
            let switch = graph.find_switch(&name);
            let switch = switch.ok_or_else(|| unknown(format!("switch '{name}'")))?;
            (Part::Switch(switch), format!("switch {name}"))
        }
        Some(Kind::Endpoint(name)) => {
            let endpoint = graph.resolve_endpoint(&name).map_err(|error| match error {
                EndpointNameError::Unknown { .. } => unknown(format!("endpoint '{name}'")),
                EndpointNameError::Ambiguous { .. } => Failure::input(format!("endpoint: {error}")),
            })?;
            (Part::Endpoint(endpoint), format!("endpoint {}", graph.endpoint_name(endpoint)))
        }
        None => return Err(unknown("part without a name".to_owned())),
    };
    Ok(found)
}

impl Part {
    /// Describes the effect on a route if the part fails; `None` if there is none.
    fn carries(&self, graph: &Graph, route: &v1::RouteExplanation) -> Option<String> {
        let ports = route.links.iter().filter_map(|link| {
            let switch = graph.find_switch(&link.switch_name)?;
            graph.port(switch, u8::try_from(link.port).ok()?)
        });
        let hit: Vec<PortId> = ports.filter(|port| self.has(graph, *port)).collect();
        let members = hit.iter().filter(|port| matches!(graph.peer(**port), Peer::Endpoint(_)));
        match (hit.len(), members.count()) {
            (0, _) => None,
            (_, 0) => Some("its tree uses it".to_owned()),
            (_, 1) => Some("its tree uses it, 1 member is cut off".to_owned()),
            (_, members) => Some(format!("its tree uses it, {members} members are cut off")),
        }
    }

    /// True if the link at a port is lost with the part.
    fn has(&self, graph: &Graph, port: PortId) -> bool {
        let peer = graph.peer(port);
        match self {
            Self::Link(ends) => ends.contains(&port),
            Self::Switch(switch) => {
                graph.switch_of(port) == *switch
                    || matches!(peer, Peer::Switch(other) if graph.switch_of(other) == *switch)
            }
            Self::Endpoint(endpoint) => peer == Peer::Endpoint(*endpoint),
        }
    }
}

/// Describes how a route could improve after a repair; `None` if it cannot.
fn waits_for_mending(route: &v1::RouteExplanation) -> Option<String> {
    if !route.cut_off_endpoints.is_empty() {
        return Some(format!("may reach {} again", route.cut_off_endpoints.join(", ")));
    }
    let home = route.spanning_tree == Some(route.home_spanning_tree);
    (!home && !route.reason.is_empty()).then(|| format!("may return to its tree: {}", route.reason))
}

fn print(format: Format, impact: &Impact) -> Result<(), Failure> {
    output::print(format, impact, |impact| {
        let mut text = format!("would {}; nothing has changed", impact.what);
        if impact.groups.is_empty() {
            text.push_str("\nno group is touched");
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
