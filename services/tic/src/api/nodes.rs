//! Answers about nodes: their records, and what the watch knows of them.

use fabricast_groups::directory::Directory;
use fabricast_groups::names::NodeName;
use fabricast_groups::record::{MemberRecord, NodeRecord, NodeState};
use fabricast_groups::{Moment, Refusal};
use fabricast_proto::v1;
use fabricast_wire::{encode_node, encode_timestamp};
use tonic::Status;

use crate::api::status;
use crate::clock::wall_clock;
use crate::liveness::contacts::Contacts;
use crate::records::Records;

/// Most memberships in one answer.
const MEMBERSHIPS: usize = 1_000;

/// A node as a message, with its last contact.
pub(crate) fn wire_node(node: &NodeRecord, contacts: &Contacts, now: Moment) -> v1::Node {
    let is_silent = node.state == NodeState::Up && contacts.silent().contains(&node.name);
    let recorded = encode_node(node, now);
    let last = contacts.last(&node.name, node.incarnation);
    v1::Node {
        state: if is_silent { v1::NodeState::Silent.into() } else { recorded.state },
        last_contact_time: last.map(encode_timestamp),
        ..recorded
    }
}

/// Looks a node up, with its memberships.
///
/// # Errors
///
/// `NOT_FOUND` / `UNKNOWN_NODE`.
pub(crate) fn look_up(
    records: &Records,
    contacts: &Contacts,
    name: &NodeName,
) -> Result<v1::GetNodeResponse, Status> {
    let found = records.read(|directory| {
        let node = directory.node(name)?;
        let memberships = directory.memberships(name).take(MEMBERSHIPS);
        let memberships = memberships.map(|member| wire_membership(directory, member));
        let hosted = directory.hosted_groups(name);
        let mut jobs = node.endpoints.iter().filter_map(|own| directory.job_of_endpoint(own));
        Some(v1::GetNodeResponse {
            node: Some(wire_node(node, contacts, wall_clock())),
            memberships: memberships.collect(),
            membership_count: count(directory.memberships(name).count()),
            hosted_group_count: count(hosted),
            job: jobs.next().map(ToString::to_string).unwrap_or_default(),
            revision: directory.revision().0,
        })
    });
    found.ok_or_else(|| status::refusal(&Refusal::UnknownNode { node: name.clone() }))
}

fn wire_membership(directory: &Directory, member: &MemberRecord) -> v1::NodeMembership {
    let group = directory.group(member.gn);
    v1::NodeMembership {
        group: group.map(|group| group.name.to_string()).unwrap_or_default(),
        pn: member.pn.0,
        process: member.process.to_string(),
        endpoint: member.endpoint.to_string(),
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
