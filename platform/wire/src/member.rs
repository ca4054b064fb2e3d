//! Members of groups, and the nodes they run on.

use fabricast_groups::directory::MemberView;
use fabricast_groups::ids::{Gn, Incarnation, Moment, Pn, Revision};
use fabricast_groups::names::{Address, EndpointName, NodeName, ProcessName};
use fabricast_groups::record::{MemberRecord, NodeRecord, NodeState};
use fabricast_proto::v1;

use crate::error::{WireError, decode_name};
use crate::group::encode_timestamp;

/// Encodes a member, without a voucher.
///
/// - `node`: the record of its node; without one, address and incarnation are left out.
#[must_use]
pub fn encode_member(record: &MemberRecord, node: Option<&NodeRecord>) -> v1::Member {
    encode(record, node.map_or("", |node| node.address.as_str()), node.map(|node| node.incarnation))
}

/// Encodes a member with the incarnation and address of its node, without a voucher.
#[must_use]
pub fn encode_member_view(view: &MemberView) -> v1::Member {
    encode(&view.member, view.address.as_str(), Some(view.incarnation))
}

fn encode(record: &MemberRecord, address: &str, incarnation: Option<Incarnation>) -> v1::Member {
    v1::Member {
        pn: record.pn.0,
        node: record.node.to_string(),
        endpoint: record.endpoint.to_string(),
        process: record.process.to_string(),
        address: address.to_owned(),
        joined_revision: record.joined.0,
        incarnation: incarnation.map_or(0, |incarnation| incarnation.0),
        voucher: None,
        sends_only: record.sends_only,
    }
}

/// Decodes a member with the incarnation and address of its node.
///
/// - `gn`: the number of the group, which the message does not repeat.
///
/// # Errors
///
/// A missing or invalid field.
pub fn decode_member(gn: Gn, wire: &v1::Member) -> Result<MemberView, WireError> {
    Ok(MemberView {
        member: MemberRecord {
            gn,
            pn: Pn(wire.pn),
            node: decode_name("member.node", &wire.node, NodeName::new)?,
            process: decode_name("member.process", &wire.process, ProcessName::new)?,
            endpoint: decode_name("member.endpoint", &wire.endpoint, EndpointName::new)?,
            joined: Revision(wire.joined_revision),
            sends_only: wire.sends_only,
        },
        incarnation: Incarnation(wire.incarnation),
        address: decode_name("member.address", &wire.address, Address::new)?,
    })
}

/// Encodes a node.
///
/// - `now`: the time on the TIC's clock, which decides whether the node is still suppressed.
#[must_use]
pub fn encode_node(record: &NodeRecord, now: Moment) -> v1::Node {
    let suppressed = record.flaps.and_then(|flaps| Some((flaps, flaps.suppressed_until(now)?)));
    let state = match record.state {
        NodeState::Up => v1::NodeState::Up,
        NodeState::Failed => v1::NodeState::Failed,
    };
    v1::Node {
        name: record.name.to_string(),
        address: record.address.to_string(),
        endpoints: record.endpoints.iter().map(ToString::to_string).collect(),
        incarnation: record.incarnation.0,
        state: state.into(),
        suppressed_until: suppressed.map(|(_, until)| encode_timestamp(until)),
        suppressed_reason: suppressed.map_or_else(String::new, |(flaps, _)| flaps.to_string()),
        last_contact_time: None,
        drained: record.drained,
    }
}
