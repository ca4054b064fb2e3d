//! Codecs between the reconciler's types and the messages of `fabricast.v1`, and its calls.
//!
//! Switches, ports and endpoints travel by name; the reconciler knows them by number.

pub(crate) mod choices;

use std::sync::Arc;

use fabricast_groups::ids::{Gn, Pn, Revision};
use fabricast_groups::names::{EndpointName, GroupName};
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_proto::v1::element;
use fabricast_reconciler::{
    CachedMember, CallError, DirectoryChange, DirectoryUpdate, DriftList, ErrorKind, FailedElement,
    GroupRoute, GroupState, Output, RecordedEndpoint, Refusal, Reply, RouteExplanation,
    RouteReport, SwitchTable, SwitchWrite, TableDrift, Write,
};
use fabricast_routing::TreeLink;
use fabricast_rpc::{Reason, RpcError};
use fabricast_topology::{Graph, Mgid, Peer, PortSet, SwitchId};
use fabricast_wire::{WireError, decode_name, decode_route, encode_route};

use crate::environment::Environment;

/// Decodes a message of the watch.
///
/// # Errors
///
/// An invalid name or route.
pub(crate) fn decode_update(
    graph: &Graph,
    message: v1::WatchDirectoryResponse,
) -> Result<DirectoryUpdate, WireError> {
    let kinds = message.changes.into_iter().filter_map(|change| change.kind);
    let changes = kinds.filter_map(|kind| decode_change(graph, kind).transpose());
    let revision = Revision(message.revision);
    Ok(DirectoryUpdate { revision, changes: changes.collect::<Result<_, _>>()? })
}

/// Decodes a change; `None` if routing does not need it.
fn decode_change(graph: &Graph, kind: Kind) -> Result<Option<DirectoryChange>, WireError> {
    Ok(match kind {
        Kind::Group(record) => Some(DirectoryChange::Group(GroupState {
            gn: Gn(record.gn),
            name: decode_name("group.name", &record.name, GroupName::new)?,
            mgid: Mgid(record.home_mgid.unwrap_or(record.mgid)),
            exclusive: record.exclusive,
            incomplete: record.incomplete,
            members_revision: Revision(record.members_revision),
            route: record.route.as_ref().map(decode_route).transpose()?,
        })),
        Kind::DeletedGn(gn) => Some(DirectoryChange::Deleted(Gn(gn))),
        Kind::Joined(v1::MemberChange { gn, member: Some(member) }) => {
            let endpoint = match graph.find_endpoint(&member.endpoint) {
                Some(endpoint) => RecordedEndpoint::Known(endpoint),
                None => {
                    let name = decode_name("member.endpoint", &member.endpoint, EndpointName::new)?;
                    RecordedEndpoint::Unknown(Box::new(name))
                }
            };
            let (joined, sends_only) = (Revision(member.joined_revision), member.sends_only);
            let member_state = CachedMember { endpoint, joined, sends_only };
            let pn = Pn(member.pn);
            Some(DirectoryChange::Joined { gn: Gn(gn), pn, member: member_state })
        }
        Kind::Left(v1::MemberChange { gn, member: Some(member) }) => {
            Some(DirectoryChange::Left { gn: Gn(gn), pn: Pn(member.pn) })
        }
        Kind::FailedElements(list) => {
            let elements = list.elements.iter();
            let elements = elements.filter_map(|element| decode_element(graph, element));
            Some(DirectoryChange::Failed(elements.collect()))
        }
        Kind::Joined(_) | Kind::Left(_) | Kind::Node(_) | Kind::RemovedNode(_) => None,
    })
}

/// Decodes a failed part; `None` if the topology does not have it.
pub(crate) fn decode_element(graph: &Graph, element: &v1::Element) -> Option<FailedElement> {
    match element.kind.as_ref()? {
        element::Kind::Link(end) => {
            let number = u8::try_from(end.port).ok()?;
            let port = graph.port(graph.find_switch(&end.switch_name)?, number)?;
            Some(FailedElement::Link(port))
        }
        element::Kind::SwitchName(name) => graph.find_switch(name).map(FailedElement::Switch),
        element::Kind::Endpoint(name) => graph.find_endpoint(name).map(FailedElement::Endpoint),
    }
}

/// Encodes a failed part.
pub(crate) fn encode_element(graph: &Graph, element: FailedElement) -> v1::Element {
    let kind = match element {
        FailedElement::Link(port) => element::Kind::Link(v1::PortName {
            switch_name: switch_name(graph, graph.switch_of(port)),
            port: graph.port_number(port).into(),
        }),
        FailedElement::Switch(switch) => element::Kind::SwitchName(switch_name(graph, switch)),
        FailedElement::Endpoint(endpoint) => {
            element::Kind::Endpoint(graph.endpoint_name(endpoint).to_owned())
        }
    };
    v1::Element { kind: Some(kind) }
}

/// Decodes the table of a switch; `None` if the switch is not in the topology.
pub(crate) fn decode_table(graph: &Graph, table: &v1::SwitchTable) -> Option<SwitchTable> {
    let switch = graph.find_switch(&table.switch_name)?;
    Some(SwitchTable { switch, entries: table.entries.iter().filter_map(decode_entry).collect() })
}

/// Decodes an entry. `None` if a number does not fit: the entry is then not ours, and counts as
/// absent.
fn decode_entry(entry: &v1::TableEntry) -> Option<Write> {
    let out: Option<PortSet> =
        entry.out_ports.iter().map(|port| u8::try_from(*port).ok()).collect();
    Some(Write {
        in_port: u8::try_from(entry.in_port).ok()?,
        color: u16::try_from(entry.color).ok()?,
        out: out?,
    })
}

fn encode_entry(write: &Write) -> v1::TableEntry {
    v1::TableEntry {
        in_port: u32::from(write.in_port),
        color: u32::from(write.color),
        out_ports: write.out.iter().map(u32::from).collect(),
    }
}

pub(crate) fn switch_name(graph: &Graph, switch: SwitchId) -> String {
    graph.switch_name(switch).to_owned()
}

/// Error of a call, as far as the reconciler tells them apart.
pub(crate) fn call_error(error: RpcError) -> CallError {
    let kind = error_kind(error.reason_text().as_deref());
    CallError { kind, message: error.message().to_owned() }
}

/// Kind of error of a reason.
pub(crate) fn error_kind(reason: Option<&str>) -> ErrorKind {
    let is = |one: Reason| reason == Some(one.text());
    if is(Reason::StaleTerm) {
        ErrorKind::StaleTerm
    } else if is(Reason::StaleFence) {
        ErrorKind::StaleFence
    } else if is(Reason::TopologyDiffers) {
        ErrorKind::TopologyDiffers
    } else {
        ErrorKind::Other
    }
}

/// Makes the calls of a reconciler.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) term: u64,
    pub(crate) scheme: v1::RouteChoiceScheme,
    pub(crate) graph: Arc<Graph>,
}

impl Caller {
    /// Carries out an output that is a call.
    ///
    /// # Panics
    ///
    /// With a reading, which has more than one answer, and with the end of a turn.
    pub(crate) async fn call<O: Environment>(self, environment: O, output: Output) -> Reply {
        let fence = |generation| Some(v1::Fence { term: self.term, generation });
        match output {
            Output::Record(report) => {
                let messages = choices::encode(&self, report);
                let recorded = environment.record_choices(messages).await;
                Reply::Recorded(recorded.map_err(call_error))
            }
            Output::List { agent } => {
                let listed = environment.list_switches(agent).await.map_err(call_error);
                let ids = |switches: Vec<v1::Switch>| {
                    let ids = switches.iter().map(|switch| self.graph.find_switch(&switch.name));
                    ids.flatten().collect()
                };
                Reply::Listed(listed.map(ids))
            }
            Output::Write { agent, generation, writes } => {
                let writes = writes.iter().map(|write| self.encode_write(write)).collect();
                let request = v1::WriteTablesRequest { fence: fence(generation), writes };
                let written = environment.write_tables(agent, request).await;
                let written = written.map_err(call_error);
                let refusal = |refusal| self.decode_refusal(refusal);
                let refusals = |answer: v1::WriteTablesResponse| {
                    answer.refusals.into_iter().map(refusal).collect()
                };
                Reply::Written(written.map(refusals))
            }
            Output::Report(RouteReport { generation, routes, clean }) => {
                let route = |GroupRoute { gn, route }: &GroupRoute| v1::GroupRoute {
                    gn: gn.0,
                    route: Some(encode_route(route)),
                };
                let request = v1::ReportRoutesRequest {
                    term: self.term,
                    routes: routes.iter().map(route).collect(),
                    fence: fence(generation),
                    clean_revision: clean.0,
                };
                let reported = environment.report_routes(request).await;
                Reply::Reported(reported.map_err(call_error))
            }
            Output::ReadBack { .. } | Output::EndTurn(_) => {
                unreachable!("the control loop carries out {output:?} itself")
            }
        }
    }

    fn encode_write(&self, write: &SwitchWrite) -> v1::SwitchWrite {
        v1::SwitchWrite {
            switch_name: switch_name(&self.graph, write.switch),
            entries: write.entries.iter().map(encode_entry).collect(),
        }
    }

    fn decode_refusal(&self, refusal: v1::SwitchRefusal) -> Refusal {
        let kind = error_kind(Some(&refusal.reason));
        Refusal {
            switch: self.graph.find_switch(&refusal.switch_name),
            switch_name: refusal.switch_name,
            error: CallError { kind, message: refusal.message },
        }
    }
}

/// Encodes the explanation of a route.
pub(crate) fn encode_explanation(
    graph: &Graph,
    explanation: RouteExplanation,
) -> v1::RouteExplanation {
    let link = |link: &TreeLink| encode_link(graph, link);
    v1::RouteExplanation {
        group: explanation.group,
        mgid: explanation.mgid,
        color: explanation.color.map(u32::from),
        home_spanning_tree: explanation.home_spanning_tree,
        spanning_tree: explanation.spanning_tree,
        root: explanation.root.map(|root| switch_name(graph, root)).unwrap_or_default(),
        virtual_group: explanation.virtual_group,
        shares_with: explanation.shares_with,
        cut_off_endpoints: explanation.cut_off.iter().map(ToString::to_string).collect(),
        links: explanation.links.iter().filter_map(link).collect(),
        reason: explanation.reason,
    }
}

/// Encodes a link of a tree; `None` if nothing is at the port.
pub(crate) fn encode_link(graph: &Graph, link: &TreeLink) -> Option<v1::TreeLink> {
    let TreeLink { port, tree } = *link;
    let (peer, peer_port) = match graph.peer(port) {
        Peer::Endpoint(endpoint) => (graph.endpoint_name(endpoint), 0),
        Peer::Switch(other) => {
            (graph.switch_name(graph.switch_of(other)), u32::from(graph.port_number(other)))
        }
        Peer::None => return None,
    };
    Some(v1::TreeLink {
        switch_name: switch_name(graph, graph.switch_of(port)),
        port: u32::from(graph.port_number(port)),
        peer: peer.to_owned(),
        peer_port,
        tree: u32::from(tree),
    })
}

/// Encodes the list of drifts.
pub(crate) fn encode_drifts(graph: &Graph, list: &DriftList) -> v1::ListTableDriftsResponse {
    let ago = |time| prost_types::Duration::try_from(time).ok();
    let drift = |drift: &TableDrift| v1::TableDrift {
        switch_name: switch_name(graph, drift.switch),
        seen_ago: ago(drift.seen_ago),
        repaired_ago: drift.repaired_ago.and_then(ago),
        missing_entries: drift.difference.missing,
        extra_entries: drift.difference.extra,
        altered_entries: drift.difference.altered,
    };
    v1::ListTableDriftsResponse {
        drifts: list.drifts.iter().map(drift).collect(),
        drift_count: list.count,
        compared_tables: list.compared,
        compared_ago: list.compared_ago.and_then(ago),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    pub(crate) fn graph() -> Graph {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 4\n";
        TopologySpec::parse(spec).unwrap().generate().unwrap()
    }

    #[test]
    fn entries_survive_the_wire() {
        let write = Write { in_port: 3, color: 17, out: [1, 200].into_iter().collect() };
        assert_eq!(decode_entry(&encode_entry(&write)), Some(write));
        let foreign = v1::TableEntry { color: 1 << 16, ..encode_entry(&write) };
        assert_eq!(decode_entry(&foreign), None);
    }

    #[test]
    fn failed_elements_survive_the_wire_and_unknown_ones_are_left_out() {
        let graph = graph();
        let switch = SwitchId(1);
        let port = graph.port(switch, 2).unwrap();
        let endpoint = graph.find_endpoint("h3").unwrap();
        let elements = [
            FailedElement::Link(port),
            FailedElement::Switch(switch),
            FailedElement::Endpoint(endpoint),
        ];
        for element in elements {
            let encoded = encode_element(&graph, element);
            assert_eq!(decode_element(&graph, &encoded), Some(element));
        }
        let foreign = v1::Element { kind: Some(element::Kind::Endpoint("h99".to_owned())) };
        assert_eq!(decode_element(&graph, &foreign), None);
    }

    #[test]
    fn a_member_that_only_sends_is_taken_as_such() {
        let endpoint = "h3".to_owned();
        let member = v1::Member { endpoint, sends_only: true, ..Default::default() };
        let kind = Kind::Joined(v1::MemberChange { gn: 7, member: Some(member) });
        let change = decode_change(&graph(), kind).unwrap();
        let Some(DirectoryChange::Joined { member, .. }) = change else { panic!("a join") };
        assert!(member.sends_only);
    }

    #[test]
    fn a_member_whose_endpoint_the_topology_does_not_have_keeps_its_name() {
        let graph = graph();
        let member = |endpoint: &str| {
            let member = v1::Member { pn: 1, endpoint: endpoint.to_owned(), ..Default::default() };
            let kind = Kind::Joined(v1::MemberChange { gn: 7, member: Some(member) });
            decode_change(&graph, kind)
        };
        let Some(DirectoryChange::Joined { member: known, .. }) = member("h3").unwrap() else {
            panic!("a join")
        };
        assert_eq!(known.endpoint, RecordedEndpoint::Known(graph.find_endpoint("h3").unwrap()));
        let Some(DirectoryChange::Joined { member: unknown, .. }) = member("h99").unwrap() else {
            panic!("a join")
        };
        assert!(
            matches!(unknown.endpoint, RecordedEndpoint::Unknown(name) if name.as_str() == "h99")
        );
        assert!(member("").is_err());
    }
}
