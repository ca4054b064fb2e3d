//! Reads joins, leaves and look-ups from requests, and builds their responses.

use std::num::NonZeroU32;

use fabricast_groups::command::{GroupSpec, Join, Joined, Joiner, Leave};
use fabricast_groups::directory::GroupCopy;
use fabricast_groups::hints::{Layer, MgidHints};
use fabricast_groups::ids::{Gn, Incarnation, Revision};
use fabricast_groups::names::{EndpointName, GroupName, JobName, LayerName, NodeName, ProcessName};
use fabricast_groups::token::{JobToken, TokenError};
use fabricast_proto::v1;
use fabricast_rpc::{Caller, Reason};
use fabricast_topology::{EndpointNameError, Graph, Mgid};
use fabricast_wire::encode_group;
use tonic::Status;

use crate::api::{fields, pages};
use crate::records::{Records, wire_copy, wire_group, wire_member, wire_members_on};
use crate::writer::directory::Left;

/// Groups that are looked at in one piece of a list.
const PIECE_GROUPS: usize = 1_024;
/// Members with which a piece of a list is closed.
const PIECE_MEMBERS: usize = 4_096;

/// Reads a request to join.
pub(crate) fn join(graph: &Graph, request: v1::JoinGroupRequest) -> Result<Join, Status> {
    let incarnation = fields::not_zero("incarnation", request.incarnation)?;
    Ok(Join {
        request_id: fields::request_id(&request.request_id)?,
        group: GroupSpec {
            name: fields::name("group", &request.group, GroupName::new)?,
            mgid: request.mgid.map(Mgid),
            persistent: request.persistent,
            exclusive: request.exclusive,
            hints: hints(graph, request.hints.unwrap_or_default())?,
            job: job("job", &request.job)?,
            complete_at: NonZeroU32::new(request.complete_at_member_count),
            tree: None,
            operation_bytes: None,
            token: token("job_token", &request.job_token)?,
        },
        member: Joiner {
            node: fields::name("node", &request.node, NodeName::new)?,
            incarnation: Incarnation(incarnation),
            endpoint: endpoint(graph, &request.endpoint)?,
            process: fields::name("process", &request.process, ProcessName::new)?,
            sends_only: request.sends_only,
        },
    })
}

/// Reads the endpoint of a member; one that the topology lacks is no endpoint of the node either,
/// which its record tells.
fn endpoint(graph: &Graph, text: &str) -> Result<EndpointName, Status> {
    match graph.resolve_endpoint(text) {
        Err(EndpointNameError::Unknown { .. }) => fields::name("endpoint", text, EndpointName::new),
        Ok(_) | Err(EndpointNameError::Ambiguous { .. }) => {
            fields::endpoint(graph, "endpoint", text)
        }
    }
}

/// Reads the hints for the MGID of a new group.
fn hints(graph: &Graph, hints: v1::MgidHints) -> Result<MgidHints, Status> {
    let expected = match hints.expected_endpoints.as_slice() {
        [] => Vec::new(),
        names => fields::endpoints(graph, "hints.expected_endpoints", names)?,
    };
    let layer = match hints.layer.as_str() {
        "" => None,
        name => Some(Layer {
            name: fields::name("hints.layer", name, LayerName::new)?,
            groups: hints.layer_group_count,
            all_groups: hints.all_group_count,
        }),
    };
    Ok(MgidHints { expected, layer, planned: None })
}

/// The response to a granted join. Its voucher is for the agent of the member's node only.
pub(crate) fn joined(records: &Records, caller: &Caller, joined: &Joined) -> v1::JoinGroupResponse {
    let (count, member) = records.read(|directory| {
        let member = wire_member(directory, &joined.member);
        (directory.member_count(joined.group.gn), member)
    });
    let address = joined.agent_address.as_str();
    let voucher = joined.voucher.filter(|_| caller.is_agent_of(joined.member.node.as_str()));
    v1::JoinGroupResponse {
        group: Some(v1::Group {
            member_count: u32::try_from(count).unwrap_or(u32::MAX),
            ..encode_group(&joined.group, address)
        }),
        member: Some(v1::Member { voucher: voucher.map(|voucher| voucher.0), ..member }),
        revision: joined.member.joined.0,
    }
}

/// Finds a group, with all its members or those on one node.
pub(crate) fn look_up(
    records: &Records,
    caller: &Caller,
    request: &v1::GetGroupRequest,
) -> Result<v1::GetGroupResponse, Status> {
    let name = match request.gn {
        0 => Some(fields::name("group", &request.group, GroupName::new)?),
        _ => None,
    };
    let node = match request.members_on_node.as_str() {
        "" => None,
        text => Some(fields::name("members_on_node", text, NodeName::new)?),
    };
    let found = records.read(|directory| {
        let gn = match &name {
            Some(name) => directory.find_group(name),
            None => Some(Gn(request.gn)),
        };
        let group = gn.and_then(|gn| directory.group(gn))?;
        // A tenant does not even learn that groups of others exist.
        caller.owns_group(group.name.as_str()).then_some(())?;
        let is_known = group.members_revision.0 == request.unless_members_revision;
        let found = match &node {
            None if !is_known => Found::Copied(GroupCopy::of(directory, group.gn)?),
            Some(node) if !is_known => Found::Whole(Box::new(v1::Group {
                members: wire_members_on(directory, group.gn, node),
                ..wire_group(directory, group)
            })),
            Some(_) | None => Found::Whole(Box::new(wire_group(directory, group))),
        };
        Some((found, directory.revision(), is_known))
    });
    let (found, revision, members_left_out) = found.ok_or_else(|| {
        let text = name.map_or_else(|| format!("gn {}", request.gn), |name| name.to_string());
        Reason::UnknownGroup.status(format!("no group '{text}'"), &[("group", &text)])
    })?;
    let vouches_to = |agent: &NodeName| request.with_vouchers && caller.is_agent_of(agent.as_str());
    let group = Some(found.into_wire(vouches_to));
    Ok(v1::GetGroupResponse { group, revision: revision.0, members_left_out })
}

/// A group that was found in the records.
#[derive(Debug)]
enum Found {
    Whole(Box<v1::Group>),
    /// Yet to be encoded, outside of the records.
    Copied(GroupCopy),
}

impl Found {
    /// - `vouches_to`: returns whether a node's agent has asked for vouchers.
    fn into_wire(self, vouches_to: impl Fn(&NodeName) -> bool) -> v1::Group {
        match self {
            Self::Whole(group) => *group,
            Self::Copied(copy) => {
                let vouches = copy.record.agent.as_ref().is_some_and(vouches_to);
                wire_copy(copy, vouches)
            }
        }
    }
}

/// Lists a page of the groups that a caller may see.
pub(crate) fn list(
    records: &Records,
    caller: &Caller,
    request: &v1::ListGroupsRequest,
) -> Result<v1::ListGroupsResponse, Status> {
    let from = Some(pages::read_gn(&request.page_token)?);
    let with_members = request.with_members;
    let slice = Vec::new().into_iter();
    let mut groups = GroupPages { records, caller, with_members, slice, from, revision: None };
    let (page, next) = pages::fill(request.page_size, &mut groups);
    let next_page_token = next.map(|group| pages::gn_token(Gn(group.gn)));
    Ok(v1::ListGroupsResponse {
        groups: page,
        next_page_token: next_page_token.unwrap_or_default(),
        revision: groups.revision.map_or(0, |revision| revision.0),
    })
}

/// The groups that a caller may see, read from the records in short pieces.
struct GroupPages<'a> {
    records: &'a Records,
    caller: &'a Caller,
    with_members: bool,
    slice: std::vec::IntoIter<Found>,
    /// Begin of the next piece; `None` after the last.
    from: Option<Gn>,
    /// Revision of the first piece.
    revision: Option<Revision>,
}

impl GroupPages<'_> {
    fn read(&mut self, from: Gn) {
        let (slice, next, revision) = self.records.read(|directory| {
            let (mut slice, mut members) = (Vec::new(), 0);
            let mut groups = directory.groups_from(from);
            let looked_at = groups.by_ref().take(PIECE_GROUPS);
            for group in looked_at.filter(|group| self.caller.owns_group(group.name.as_str())) {
                if members >= PIECE_MEMBERS {
                    return (slice, Some(group.gn), directory.revision());
                }
                let copy = self.with_members.then(|| GroupCopy::of(directory, group.gn)).flatten();
                members += copy.as_ref().map_or(0, GroupCopy::member_count);
                slice.push(copy.map_or_else(
                    || Found::Whole(Box::new(wire_group(directory, group))),
                    Found::Copied,
                ));
            }
            (slice, groups.next().map(|group| group.gn), directory.revision())
        });
        (self.slice, self.from) = (slice.into_iter(), next);
        self.revision.get_or_insert(revision);
    }
}

impl Iterator for GroupPages<'_> {
    type Item = v1::Group;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.slice.next() {
                return Some(found.into_wire(|_| false));
            }
            let from = self.from?;
            self.read(from);
        }
    }
}

/// Reads a request to leave.
pub(crate) fn leave(request: &v1::LeaveGroupRequest) -> Result<Leave, Status> {
    let incarnation = fields::not_zero("incarnation", request.incarnation)?;
    Ok(Leave {
        request_id: fields::request_id(&request.request_id)?,
        group: fields::name("group", &request.group, GroupName::new)?,
        node: fields::name("node", &request.node, NodeName::new)?,
        incarnation: Incarnation(incarnation),
        process: fields::name("process", &request.process, ProcessName::new)?,
    })
}

/// The response to a leave.
pub(crate) fn left(left: &Left) -> v1::LeaveGroupResponse {
    v1::LeaveGroupResponse { revision: left.revision.0, gn: left.gn.0, pn: left.pn.0 }
}

/// Reads the token of a job, which may be empty.
pub(crate) fn token(field: &str, text: &str) -> Result<Option<JobToken>, Status> {
    let invalid = |error: TokenError| {
        Reason::NameInvalid.status(format!("{field}: {error}"), &[("field", field)])
    };
    (!text.is_empty()).then(|| JobToken::new(text).map_err(invalid)).transpose()
}

/// Reads the name of a job, which may be empty.
pub(crate) fn job(field: &str, text: &str) -> Result<Option<JobName>, Status> {
    (!text.is_empty()).then(|| fields::name(field, text, JobName::new)).transpose()
}
