//! Joins and leaves as they travel: read from a request, answered from the records.

use std::num::NonZeroU32;

use fabricast_groups::command::{Answer, Command, GroupSpec, Join, Joiner, Leave};
use fabricast_groups::ids::{Gn, Incarnation};
use fabricast_groups::names::{EndpointName, GroupName, JobName, NodeName, ProcessName};
use fabricast_proto::v1;
use fabricast_routing::Mgid;
use fabricast_rpc::{Caller, Reason};
use tonic::Status;

use crate::fields;
use crate::records::{wire_group, wire_member, wire_members_on};
use crate::service::{Tic, mismatch};
use crate::wire;

impl Tic {
    /// Reads a request to join.
    pub(crate) fn join_command(&self, request: v1::JoinGroupRequest) -> Result<Command, Status> {
        let incarnation = fields::not_zero("incarnation", request.incarnation)?;
        Ok(Command::Join(Join {
            request_id: fields::request_id(&request.request_id)?,
            group: GroupSpec {
                name: fields::name("group", &request.group, GroupName::new)?,
                mgid: request.mgid.map(Mgid),
                persistent: request.persistent,
                exclusive: request.exclusive,
                hints: self.hints(request.hints.unwrap_or_default())?,
                job: job("job", &request.job)?,
                complete_at: NonZeroU32::new(request.complete_at_member_count),
            },
            member: Joiner {
                node: fields::name("node", &request.node, NodeName::new)?,
                incarnation: Incarnation(incarnation),
                endpoint: fields::name("endpoint", &request.endpoint, EndpointName::new)?,
                process: fields::name("process", &request.process, ProcessName::new)?,
            },
        }))
    }

    /// What a granted join is answered with.
    pub(crate) fn joined(&self, answer: Answer) -> Result<v1::JoinGroupResponse, Status> {
        let Answer::Joined(joined) = answer else { return Err(mismatch()) };
        let (count, member) = self.records.read(|directory| {
            let member = wire_member(directory, &joined.member);
            (directory.member_count(joined.group.gn), member)
        });
        let address = joined.agent_address.as_str();
        Ok(v1::JoinGroupResponse {
            group: Some(wire::group(&joined.group, address, count, Vec::new())),
            member: Some(member),
            revision: joined.member.joined.0,
        })
    }
}

impl Tic {
    /// Finds a group, with its members or those on one node.
    pub(crate) fn look_up(
        &self,
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
        let group = self.records.read(|directory| {
            let gn = match &name {
                Some(name) => directory.find_group(name),
                None => Some(Gn(request.gn)),
            };
            let group = gn.and_then(|gn| directory.group(gn))?;
            // A tenant learns nothing of the groups of others, not even that they are there.
            caller.owns_group(group.name.as_str()).then_some(())?;
            let is_known = group.members_revision.0 == request.unless_members_revision;
            let mut found = wire_group(directory, group, node.is_none() && !is_known);
            if let Some(node) = node.as_ref().filter(|_| !is_known) {
                found.members = wire_members_on(directory, group.gn, node);
            }
            Some((found, directory.revision(), is_known))
        });
        let (group, revision, members_left_out) = group.ok_or_else(|| {
            let text = name.map_or_else(|| format!("gn {}", request.gn), |name| name.to_string());
            Reason::UnknownGroup.status(format!("no group '{text}'"), &[("group", &text)])
        })?;
        Ok(v1::GetGroupResponse { group: Some(group), revision: revision.0, members_left_out })
    }
}

/// Reads a request to leave.
pub(crate) fn leave_command(request: &v1::LeaveGroupRequest) -> Result<Command, Status> {
    let incarnation = fields::not_zero("incarnation", request.incarnation)?;
    Ok(Command::Leave(Leave {
        request_id: fields::request_id(&request.request_id)?,
        group: fields::name("group", &request.group, GroupName::new)?,
        node: fields::name("node", &request.node, NodeName::new)?,
        incarnation: Incarnation(incarnation),
        process: fields::name("process", &request.process, ProcessName::new)?,
    }))
}

/// What a leave is answered with.
pub(crate) fn left(answer: &Answer) -> Result<v1::LeaveGroupResponse, Status> {
    let Answer::Left { gn, pn, revision } = answer else { return Err(mismatch()) };
    Ok(v1::LeaveGroupResponse { revision: revision.0, gn: gn.0, pn: pn.0 })
}

/// Reads the name of a job, which may be left out.
pub(crate) fn job(field: &str, text: &str) -> Result<Option<JobName>, Status> {
    (!text.is_empty()).then(|| fields::name(field, text, JobName::new)).transpose()
}
