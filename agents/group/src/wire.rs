//! The protocol's messages as they travel: `fabricast_groups` to `fabricast.v1` and back.

use std::num::NonZeroU32;

use fabricast_groups::directory::{GroupSnapshot, HostedGroup, MemberView, Verdict};
use fabricast_groups::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision, Version};
use fabricast_groups::message::{Enrolment, MembershipStatus, Neighbor, OaReport, PositionUpdate};
use fabricast_groups::names::{
    Address, EndpointName, GroupName, JobName, LayerName, NameError, NodeName, ProcessName,
};
use fabricast_groups::record::{Colors, Expected, GroupRecord, MemberRecord, Route, RouteState};
use fabricast_proto::v1;
use fabricast_routing::Mgid;
use fabricast_rpc::Reason;
use tonic::Status;

/// Reads a required message field.
///
/// # Errors
///
/// `INVALID_ARGUMENT / FIELD_MISSING` naming the field.
pub fn required<T>(field: &'static str, value: Option<T>) -> Result<T, Status> {
    value.ok_or_else(|| {
        Reason::FieldMissing.status(format!("{field} is missing"), &[("field", field)])
    })
}

/// Reads a name.
///
/// - `parse`: the constructor of the name's type.
///
/// # Errors
///
/// `INVALID_ARGUMENT / NAME_INVALID` naming the field and what is wrong.
pub fn name<T>(
    field: &'static str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, Status> {
    parse(text).map_err(|error| {
        Reason::NameInvalid.status(format!("{field}: {error}"), &[("field", field)])
    })
}

/// A group as its agent's snapshot.
///
/// # Errors
///
/// A missing or invalid field.
pub fn snapshot(answer: &v1::GetGroupResponse) -> Result<GroupSnapshot, Status> {
    let wire = required("group", answer.group.as_ref())?;
    let group = group_record(wire)?;
    let members = wire.members.iter().map(|member| member_view(group.gn, member));
    let agent_address = match wire.agent_address.as_str() {
        "" => None,
        text => Some(name("group.agent_address", text, Address::new)?),
    };
    let members = members.collect::<Result<_, _>>()?;
    Ok(GroupSnapshot { revision: Revision(answer.revision), group, agent_address, members })
}

/// A group's record.
///
/// # Errors
///
/// A missing or invalid field.
pub fn group_record(wire: &v1::Group) -> Result<GroupRecord, Status> {
    let agent = match wire.agent_node.as_str() {
        "" => None,
        text => Some(name("group.agent_node", text, NodeName::new)?),
    };
    let route = wire.route.as_ref().map(read_route).transpose()?;
    let layer = match wire.layer.as_str() {
        "" => None,
        text => Some(name("group.layer", text, LayerName::new)?),
    };
    let job = match wire.job.as_str() {
        "" => None,
        text => Some(name("group.job", text, JobName::new)?),
    };
    Ok(GroupRecord {
        gn: Gn(wire.gn),
        name: name("group.name", &wire.name, GroupName::new)?,
        mgid: Mgid(wire.mgid),
        agent,
        epoch: Epoch(wire.epoch),
        members_revision: Revision(wire.members_revision),
        changed: Revision(wire.records_revision),
        persistent: wire.persistent,
        exclusive: wire.exclusive,
        layer,
        job,
        expected: NonZeroU32::new(wire.complete_at_member_count)
            .map(|members| Expected { members, met: !wire.incomplete }),
        created: wire.create_time.as_ref().map_or(Moment(0), created),
        route,
    })
}

fn created(time: &prost_types::Timestamp) -> Moment {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let nanos = u64::try_from(time.nanos).unwrap_or(0);
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// A member with the life and address of its node.
///
/// # Errors
///
/// A missing or invalid field.
pub fn member_view(gn: Gn, wire: &v1::Member) -> Result<MemberView, Status> {
    Ok(MemberView {
        member: MemberRecord {
            gn,
            pn: Pn(wire.pn),
            node: name("member.node", &wire.node, NodeName::new)?,
            process: name("member.process", &wire.process, ProcessName::new)?,
            endpoint: name("member.endpoint", &wire.endpoint, EndpointName::new)?,
            joined: Revision(wire.joined_revision),
        },
        incarnation: Incarnation(wire.incarnation),
        address: name("member.address", &wire.address, Address::new)?,
    })
}

/// A member as it travels.
#[must_use]
pub fn member_to_wire(view: &MemberView) -> v1::Member {
    v1::Member {
        pn: view.member.pn.0,
        node: view.member.node.to_string(),
        endpoint: view.member.endpoint.to_string(),
        process: view.member.process.to_string(),
        address: view.address.to_string(),
        joined_revision: view.member.joined.0,
        incarnation: view.incarnation.0,
    }
}

fn color(field: &str, value: u32) -> Result<u16, Status> {
    u16::try_from(value)
        .map_err(|_| Reason::ColorOutOfRange.status(field.to_owned(), &[("field", field)]))
}

/// Reads a route.
///
/// # Errors
///
/// An unknown state or a color beyond 16 bits.
pub fn read_route(wire: &v1::Route) -> Result<Route, Status> {
    let state = match wire.state() {
        v1::RouteState::Routed => {
            let first = color("route.color", wire.color)?;
            let second = wire.second_color.map(|second| color("route.second_color", second));
            let colors = Colors { first, second: second.transpose()? };
            RouteState::Routed { colors, virtual_group: wire.virtual_group }
        }
        v1::RouteState::UnicastOnly => RouteState::UnicastOnly,
        v1::RouteState::Unspecified => {
            return Err(
                Reason::FieldMissing.status("route.state is missing", &[("field", "route.state")])
            );
        }
    };
    let cut_off = wire.cut_off_endpoints.iter();
    let cut_off = cut_off.map(|text| name("route.cut_off_endpoints", text, EndpointName::new));
    Ok(Route {
        revision: Revision(wire.routed_revision),
        state,
        reason: wire.reason.clone(),
        cut_off: cut_off.collect::<Result<_, _>>()?,
    })
}

/// A route as it travels.
#[must_use]
pub fn route_to_wire(route: &Route) -> v1::Route {
    let (state, colors, virtual_group) = match route.state {
        RouteState::Routed { colors, virtual_group } => {
            (v1::RouteState::Routed, colors, virtual_group)
        }
        RouteState::UnicastOnly => (v1::RouteState::UnicastOnly, Colors::from(0), 0),
    };
    v1::Route {
        routed_revision: route.revision.0,
        state: state.into(),
        color: u32::from(colors.first),
        second_color: colors.second.map(u32::from),
        virtual_group,
        reason: route.reason.clone(),
        cut_off_endpoints: route.cut_off.iter().map(ToString::to_string).collect(),
    }
}

/// A place in the tree as it travels.
#[must_use]
pub fn position_to_wire(update: &PositionUpdate) -> v1::Position {
    v1::Position {
        gn: update.gn.0,
        epoch: update.epoch.0,
        pn: update.pn.0,
        node: update.node.to_string(),
        parent: update.parent.as_ref().map(neighbor_to_wire),
        children: update.children.iter().map(neighbor_to_wire).collect(),
        route: update.route.as_ref().map(route_to_wire),
        version: update.version.0,
        enrolment: update.enrolment.as_deref().map(enrolment_to_wire),
    }
}

fn enrolment_to_wire(enrolment: &Enrolment) -> v1::Enrolment {
    v1::Enrolment {
        group: enrolment.group.to_string(),
        mgid: enrolment.mgid.0,
        member: Some(member_to_wire(&enrolment.member)),
        agent_node: enrolment.agent.to_string(),
        agent_address: enrolment.agent_address.to_string(),
        revision: enrolment.known.0,
    }
}

/// Reads a place in the tree.
///
/// # Errors
///
/// A missing or invalid field.
pub fn read_position(wire: &v1::Position) -> Result<PositionUpdate, Status> {
    Ok(PositionUpdate {
        gn: Gn(wire.gn),
        epoch: Epoch(wire.epoch),
        pn: Pn(wire.pn),
        node: name("position.node", &wire.node, NodeName::new)?,
        parent: wire.parent.as_ref().map(read_neighbor).transpose()?,
        children: wire.children.iter().map(read_neighbor).collect::<Result<_, _>>()?,
        route: wire.route.as_ref().map(read_route).transpose()?,
        version: Version(wire.version),
        enrolment: wire
            .enrolment
            .as_ref()
            .map(|one| read_enrolment(Gn(wire.gn), one))
            .transpose()?,
    })
}

fn read_enrolment(gn: Gn, wire: &v1::Enrolment) -> Result<Box<Enrolment>, Status> {
    let member = required("enrolment.member", wire.member.as_ref())?;
    Ok(Box::new(Enrolment {
        group: name("enrolment.group", &wire.group, GroupName::new)?,
        mgid: Mgid(wire.mgid),
        member: member_view(gn, member)?,
        agent: name("enrolment.agent_node", &wire.agent_node, NodeName::new)?,
        agent_address: name("enrolment.agent_address", &wire.agent_address, Address::new)?,
        known: Revision(wire.revision),
    }))
}

fn neighbor_to_wire(neighbor: &Neighbor) -> v1::Neighbor {
    v1::Neighbor {
        pn: neighbor.pn.0,
        node: neighbor.node.to_string(),
        address: neighbor.address.to_string(),
    }
}

fn read_neighbor(wire: &v1::Neighbor) -> Result<Neighbor, Status> {
    Ok(Neighbor {
        pn: Pn(wire.pn),
        node: name("neighbor.node", &wire.node, NodeName::new)?,
        address: name("neighbor.address", &wire.address, Address::new)?,
    })
}

/// A report as it travels.
#[must_use]
pub fn report_to_wire(agent_node: &NodeName, report: &OaReport) -> v1::OperatingAgentStatus {
    let membership = |status: &MembershipStatus| v1::MembershipStatus {
        gn: status.gn.0,
        epoch: status.epoch.0,
        pn: status.pn.0,
        position_version: status.version.0,
        joined_revision: status.joined.0,
    };
    v1::OperatingAgentStatus {
        agent_node: agent_node.to_string(),
        node: report.node.to_string(),
        incarnation: report.incarnation.0,
        memberships: report.memberships.iter().map(membership).collect(),
    }
}

/// Reads a report.
///
/// # Errors
///
/// A missing or invalid field.
pub fn read_report(wire: &v1::OperatingAgentStatus) -> Result<OaReport, Status> {
    let membership = |status: &v1::MembershipStatus| MembershipStatus {
        gn: Gn(status.gn),
        epoch: Epoch(status.epoch),
        pn: Pn(status.pn),
        version: Version(status.position_version),
        joined: Revision(status.joined_revision),
    };
    Ok(OaReport {
        node: name("statuses.node", &wire.node, NodeName::new)?,
        incarnation: Incarnation(wire.incarnation),
        memberships: wire.memberships.iter().map(membership).collect(),
    })
}

/// One hosted group as the TIC is told.
#[must_use]
pub fn hosted_to_wire(hosted: &HostedGroup) -> v1::HostedGroup {
    v1::HostedGroup { gn: hosted.gn.0, epoch: hosted.epoch.0, known_revision: hosted.known.0 }
}

/// The TIC's answer to the agents of one node.
#[must_use]
pub fn read_verdict(wire: &v1::GroupAgentVerdict) -> Verdict {
    Verdict {
        expelled: wire.expelled,
        refresh: wire.refresh_gns.iter().copied().map(Gn).collect(),
        drop: wire.drop_gns.iter().copied().map(Gn).collect(),
    }
}

/// A group as its agent knows it, without members.
#[must_use]
pub fn group_to_wire(record: &GroupRecord, agent_address: &str) -> v1::Group {
    v1::Group {
        name: record.name.to_string(),
        gn: record.gn.0,
        mgid: record.mgid.0,
        agent_node: record.agent.as_ref().map_or_else(String::new, ToString::to_string),
        agent_address: agent_address.to_owned(),
        epoch: record.epoch.0,
        members_revision: record.members_revision.0,
        records_revision: record.changed.0,
        persistent: record.persistent,
        exclusive: record.exclusive,
        layer: record.layer.as_ref().map_or_else(String::new, ToString::to_string),
        route: record.route.as_ref().map(route_to_wire),
        ..v1::Group::default()
    }
}

#[cfg(test)]
mod tests;
