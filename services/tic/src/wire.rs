//! The records as they travel: from `fabricast_groups` to `fabricast.v1`, and routes back.

use std::time::Duration;

use fabricast_groups::directory::HostedGroup;
use fabricast_groups::ids::{Epoch, Gn, Incarnation, Moment, Revision};
use fabricast_groups::names::{EndpointName, NodeName};
use fabricast_groups::record::{
    Colors, GroupRecord, MemberRecord, NodeRecord, NodeState, Route, RouteState,
};
use fabricast_proto::v1;
use tonic::Status;

use crate::fields;

/// A group as it travels.
///
/// - `agent_address`: where the agent's node listens; empty if the group has no agent.
pub(crate) fn group(
    record: &GroupRecord,
    agent_address: &str,
    member_count: usize,
    members: Vec<v1::Member>,
) -> v1::Group {
    v1::Group {
        name: record.name.as_str().to_owned(),
        gn: record.gn.0,
        mgid: record.mgid.0,
        agent_node: record.agent.as_ref().map_or_else(String::new, ToString::to_string),
        agent_address: agent_address.to_owned(),
        epoch: record.epoch.0,
        members,
        member_count: u32::try_from(member_count).unwrap_or(u32::MAX),
        members_revision: record.members_revision.0,
        persistent: record.persistent,
        exclusive: record.exclusive,
        route: record.route.as_ref().map(route),
        create_time: Some(timestamp(record.created)),
        records_revision: record.changed.0,
        layer: record.layer.as_ref().map_or_else(String::new, ToString::to_string),
        job: record.job.as_ref().map_or_else(String::new, ToString::to_string),
        complete_at_member_count: record.expected.map_or(0, |expected| expected.members.get()),
        incomplete: !record.is_complete(),
    }
}

/// A moment as it travels.
pub(crate) fn timestamp(moment: Moment) -> prost_types::Timestamp {
    let since = Duration::from_nanos(moment.0);
    prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

/// A member as it travels.
///
/// - `node`: the member's node.
pub(crate) fn member(record: &MemberRecord, node: Option<&NodeRecord>) -> v1::Member {
    v1::Member {
        pn: record.pn.0,
        node: record.node.as_str().to_owned(),
        endpoint: record.endpoint.as_str().to_owned(),
        process: record.process.as_str().to_owned(),
        address: node.map_or_else(String::new, |node| node.address.to_string()),
        joined_revision: record.joined.0,
        incarnation: node.map_or(0, |node| node.incarnation.0),
    }
}

/// A node as it travels.
///
/// - `now`: on the clock that its record was written by.
pub(crate) fn node(record: &NodeRecord, now: Moment) -> v1::Node {
    let suppressed = record.flaps.and_then(|flaps| Some((flaps, flaps.suppressed_until(now)?)));
    let state = match record.state {
        NodeState::Up => v1::NodeState::Up,
        NodeState::Failed => v1::NodeState::Failed,
    };
    v1::Node {
        name: record.name.as_str().to_owned(),
        address: record.address.as_str().to_owned(),
        endpoints: record.endpoints.iter().map(|name| name.as_str().to_owned()).collect(),
        incarnation: record.incarnation.0,
        state: state.into(),
        suppressed_until: suppressed.map(|(_, until)| timestamp(until)),
        suppressed_reason: suppressed.map_or_else(String::new, |(flaps, _)| flaps.to_string()),
    }
}

/// A route as it travels.
pub(crate) fn route(record: &Route) -> v1::Route {
    let (state, colors, virtual_group) = match record.state {
        RouteState::Routed { colors, virtual_group } => {
            (v1::RouteState::Routed, colors, virtual_group)
        }
        RouteState::UnicastOnly => (v1::RouteState::UnicastOnly, Colors::from(0), 0),
    };
    v1::Route {
        routed_revision: record.revision.0,
        state: state.into(),
        color: u32::from(colors.first),
        second_color: colors.second.map(u32::from),
        virtual_group,
        reason: record.reason.clone(),
        cut_off_endpoints: record.cut_off.iter().map(|name| name.as_str().to_owned()).collect(),
    }
}

/// Reads a route that the route service reports.
///
/// It becomes part of the group's record and so survives a restart of the TIC; a route service
/// that reports everything anew after a restart changes nothing.
pub(crate) fn read_route(route: &v1::Route, colors: u16) -> Result<Route, Status> {
    let state = match v1::RouteState::try_from(route.state) {
        Ok(v1::RouteState::Routed) => {
            let color = |field: &str, color: u32| {
                let checked = u16::try_from(color).ok().filter(|color| *color < colors);
                checked.ok_or_else(|| {
                    fabricast_rpc::Reason::ColorOutOfRange.status(
                        format!("{field}: color {color} is not below {colors}"),
                        &[("field", field)],
                    )
                })
            };
            let first = color("routes.route.color", route.color)?;
            let second = route.second_color.map(|one| color("routes.route.second_color", one));
            let colors = Colors { first, second: second.transpose()? };
            RouteState::Routed { colors, virtual_group: route.virtual_group }
        }
        Ok(v1::RouteState::UnicastOnly) => RouteState::UnicastOnly,
        Ok(v1::RouteState::Unspecified) | Err(_) => {
            return Err(fields::missing("routes.route.state"));
        }
    };
    let cut_off = route
        .cut_off_endpoints
        .iter()
        .map(|name| fields::name("routes.route.cut_off_endpoints", name, EndpointName::new))
        .collect::<Result<_, _>>()?;
    let reason = fields::text("routes.route.reason", &route.reason)?.to_owned();
    Ok(Route { revision: Revision(route.routed_revision), state, reason, cut_off })
}

/// Reads the status report of the group agents of one node.
pub(crate) fn read_status(
    status: v1::GroupAgentStatus,
) -> Result<(NodeName, Incarnation, Vec<HostedGroup>), Status> {
    let node = fields::name("statuses.node", &status.node, NodeName::new)?;
    let incarnation = fields::not_zero("statuses.incarnation", status.incarnation)?;
    let groups = status.groups.into_iter().map(|group| {
        Ok(HostedGroup {
            gn: Gn(fields::not_zero("statuses.groups.gn", group.gn)?),
            epoch: Epoch(group.epoch),
            known: Revision(group.known_revision),
        })
    });
    Ok((node, Incarnation(incarnation), groups.collect::<Result<_, Status>>()?))
}
