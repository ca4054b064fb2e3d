//! Positions in a group's unicast tree, as its agent sends them to members.

use std::sync::Arc;

use fabricast_groups::ids::{Epoch, Gn, Pn, Revision, Version};
use fabricast_groups::message::{Enrolment, Neighbor, PositionUpdate};
use fabricast_groups::names::{Address, GroupName, NodeName};
use fabricast_groups::voucher::Voucher;
use fabricast_proto::v1;
use fabricast_topology::Mgid;

use crate::error::{WireError, decode_name, required};
use crate::member::{decode_member, encode_member_view};
use crate::route::{decode_route, encode_route};
use crate::tree::{decode_optional_tree, encode_tree};

/// Encodes a position.
#[must_use]
pub fn encode_position(update: &PositionUpdate) -> v1::Position {
    v1::Position {
        gn: update.gn.0,
        epoch: update.epoch.0,
        pn: update.pn.0,
        node: update.node.to_string(),
        parent: update.parent.as_ref().map(encode_neighbor),
        children: update.children.iter().map(encode_neighbor).collect(),
        route: update.route.as_deref().map(encode_route),
        version: update.version.0,
        enrolment: update.enrolment.as_deref().map(encode_enrolment),
        tree: encode_tree(update.tree),
    }
}

/// Decodes a position.
///
/// # Errors
///
/// A missing or invalid field.
pub fn decode_position(wire: &v1::Position) -> Result<PositionUpdate, WireError> {
    let gn = Gn(wire.gn);
    Ok(PositionUpdate {
        gn,
        epoch: Epoch(wire.epoch),
        pn: Pn(wire.pn),
        node: decode_name("position.node", &wire.node, NodeName::new)?,
        tree: decode_optional_tree("position", wire.tree.as_ref())?,
        parent: wire.parent.as_ref().map(decode_neighbor).transpose()?,
        children: wire.children.iter().map(decode_neighbor).collect::<Result<_, _>>()?,
        route: wire.route.as_ref().map(decode_route).transpose()?.map(Arc::new),
        version: Version(wire.version),
        enrolment: wire.enrolment.as_ref().map(|one| decode_enrolment(gn, one)).transpose()?,
    })
}

fn encode_enrolment(enrolment: &Enrolment) -> v1::Enrolment {
    v1::Enrolment {
        group: enrolment.group.to_string(),
        mgid: enrolment.mgid.0,
        member: Some(v1::Member {
            voucher: enrolment.voucher.map(|voucher| voucher.0),
            ..encode_member_view(&enrolment.member)
        }),
        agent_node: enrolment.agent.to_string(),
        agent_address: enrolment.agent_address.to_string(),
        revision: enrolment.known.0,
    }
}

fn decode_enrolment(gn: Gn, wire: &v1::Enrolment) -> Result<Box<Enrolment>, WireError> {
    let member = required("enrolment.member", wire.member.as_ref())?;
    Ok(Box::new(Enrolment {
        group: decode_name("enrolment.group", &wire.group, GroupName::new)?,
        mgid: Mgid(wire.mgid),
        member: decode_member(gn, member)?,
        agent: decode_name("enrolment.agent_node", &wire.agent_node, NodeName::new)?,
        agent_address: decode_name("enrolment.agent_address", &wire.agent_address, Address::new)?,
        known: Revision(wire.revision),
        voucher: member.voucher.map(Voucher),
    }))
}

fn encode_neighbor(neighbor: &Neighbor) -> v1::Neighbor {
    v1::Neighbor {
        pn: neighbor.pn.0,
        node: neighbor.node.to_string(),
        address: neighbor.address.to_string(),
    }
}

fn decode_neighbor(wire: &v1::Neighbor) -> Result<Neighbor, WireError> {
    Ok(Neighbor {
        pn: Pn(wire.pn),
        node: decode_name("neighbor.node", &wire.node, NodeName::new)?,
        address: decode_name("neighbor.address", &wire.address, Address::new)?,
    })
}
