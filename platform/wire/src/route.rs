//! Routes of groups, as the route service reports them and members are told.

use fabricast_groups::ids::Revision;
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{Colors, Route, RouteReason, RouteState};
use fabricast_proto::v1;

use crate::error::{WireError, decode_name};

/// Encodes a route.
#[must_use]
pub fn encode_route(route: &Route) -> v1::Route {
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
        reason_code: route.reason_code.number(),
        cut_off_endpoints: route.cut_off.iter().map(ToString::to_string).collect(),
    }
}

/// Decodes a route.
///
/// # Errors
///
/// A state that is unknown or left out, a color of more than 16 bits, an invalid endpoint.
pub fn decode_route(wire: &v1::Route) -> Result<Route, WireError> {
    let state = match wire.state() {
        v1::RouteState::Routed => {
            let first = decode_color("route.color", wire.color)?;
            let second = wire.second_color.map(|one| decode_color("route.second_color", one));
            let colors = Colors { first, second: second.transpose()? };
            RouteState::Routed { colors, virtual_group: wire.virtual_group }
        }
        v1::RouteState::UnicastOnly => RouteState::UnicastOnly,
        v1::RouteState::Unspecified => return Err(WireError::missing("route.state")),
    };
    let cut_off = wire.cut_off_endpoints.iter();
    let cut_off =
        cut_off.map(|text| decode_name("route.cut_off_endpoints", text, EndpointName::new));
    Ok(Route {
        revision: Revision(wire.routed_revision),
        state,
        reason: wire.reason.clone(),
        reason_code: RouteReason::from_number(wire.reason_code),
        cut_off: cut_off.collect::<Result<_, _>>()?,
    })
}

fn decode_color(field: &str, color: u32) -> Result<u16, WireError> {
    u16::try_from(color).map_err(|_| WireError::Color { field: field.to_owned(), color })
}
