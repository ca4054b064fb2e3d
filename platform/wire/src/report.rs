//! Periodic reports: of operating agents to group agents, and of group agents to the TIC.

use fabricast_groups::directory::{HostedGroup, Verdict};
use fabricast_groups::ids::{Epoch, Gn, Incarnation, Pn, Revision, Version};
use fabricast_groups::message::{MembershipStatus, OaReport};
use fabricast_groups::names::NodeName;
use fabricast_proto::v1;

use crate::error::{WireError, decode_name};

/// Encodes the report of an operating agent.
///
/// - `agent_node`: the node whose group agents it is for.
#[must_use]
pub fn encode_report(agent_node: &NodeName, report: &OaReport) -> v1::OperatingAgentStatus {
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

/// Decodes the report of an operating agent.
///
/// # Errors
///
/// A missing or invalid field.
pub fn decode_report(wire: &v1::OperatingAgentStatus) -> Result<OaReport, WireError> {
    let membership = |status: &v1::MembershipStatus| MembershipStatus {
        gn: Gn(status.gn),
        epoch: Epoch(status.epoch),
        pn: Pn(status.pn),
        version: Version(status.position_version),
        joined: Revision(status.joined_revision),
    };
    Ok(OaReport {
        node: decode_name("statuses.node", &wire.node, NodeName::new)?,
        incarnation: Incarnation(wire.incarnation),
        memberships: wire.memberships.iter().map(membership).collect(),
    })
}

/// Encodes a hosted group for the TIC.
#[must_use]
pub fn encode_hosted_group(hosted: &HostedGroup) -> v1::HostedGroup {
    v1::HostedGroup { gn: hosted.gn.0, epoch: hosted.epoch.0, known_revision: hosted.known.0 }
}

/// Decodes the report of the group agents of one node: the node, its incarnation, the groups it
/// hosts.
///
/// # Errors
///
/// A missing or invalid field.
pub fn decode_group_agent_status(
    status: &v1::GroupAgentStatus,
) -> Result<(NodeName, Incarnation, Vec<HostedGroup>), WireError> {
    let node = decode_name("statuses.node", &status.node, NodeName::new)?;
    let incarnation = not_zero("statuses.incarnation", status.incarnation)?;
    let groups = status.groups.iter().map(|group| {
        Ok(HostedGroup {
            gn: Gn(not_zero("statuses.groups.gn", group.gn)?),
            epoch: Epoch(group.epoch),
            known: Revision(group.known_revision),
        })
    });
    Ok((node, Incarnation(incarnation), groups.collect::<Result<_, WireError>>()?))
}

/// Decodes the TIC's answer to the group agents of one node.
#[must_use]
pub fn decode_verdict(wire: &v1::GroupAgentVerdict) -> Verdict {
    Verdict {
        expelled: wire.expelled,
        refresh: wire.refresh_gns.iter().copied().map(Gn).collect(),
        drop: wire.drop_gns.iter().copied().map(Gn).collect(),
    }
}

/// Demands a number that is not zero, which stands for a number left out.
fn not_zero(field: &str, number: u64) -> Result<u64, WireError> {
    if number == 0 { Err(WireError::missing(field)) } else { Ok(number) }
}
