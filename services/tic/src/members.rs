//! Joins and leaves as they travel: read from a request, answered from the records.

use std::num::NonZeroU32;

use fabricast_groups::command::{Answer, Command, GroupSpec, Join, Joiner, Leave};
use fabricast_groups::ids::Incarnation;
use fabricast_groups::names::{EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};
use fabricast_proto::v1;
use fabricast_routing::Mgid;
use tonic::Status;

use crate::fields;
use crate::records::wire_member;
use crate::service::{Tic, mismatch};
use crate::wire;

impl Tic {
    /// Reads a request to join.
    pub(crate) fn join_command(&self, request: v1::JoinGroupRequest) -> Result<Command, Status> {
        let incarnation = fields::not_zero("incarnation", request.incarnation)?;
        Ok(Command::Join(Join {
            request_id: fields::name("request_id", &request.request_id, RequestId::new)?,
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

/// Reads a request to leave.
pub(crate) fn leave_command(request: &v1::LeaveGroupRequest) -> Result<Command, Status> {
    let incarnation = fields::not_zero("incarnation", request.incarnation)?;
    Ok(Command::Leave(Leave {
        request_id: fields::name("request_id", &request.request_id, RequestId::new)?,
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
