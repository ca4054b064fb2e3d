//! `GroupAgentService` over all group agents that one process hosts.

use std::collections::BTreeSet;

use fabricast_groups::agent::GaHost;
use fabricast_groups::ids::{Epoch, Gn, Moment, Pn};
use fabricast_groups::message::{AgentRefusal, Deregister, OaReport, Register};
use fabricast_groups::names::NodeName;
use fabricast_groups::voucher::Voucher;
use fabricast_proto::v1;
use fabricast_proto::v1::group_agent_service_server::GroupAgentService;
use fabricast_rpc::{Caller, Reason};
use fabricast_wire::encode_refusal;
use tonic::{Request, Response, Status};

use crate::watchers::{Changes, Watchers, changes};

/// Reports in one request; a process that hosts more nodes sends several.
const MAX_STATUSES: usize = 100_000;
/// Reports that one node's agents handle at once.
const REPORTS_AT_ONCE: usize = 256;
/// Registrations in one request.
const MAX_MEMBERS: usize = 10_000;

/// Access to the group agents that one process hosts.
pub trait GroupAgentHost: Clone + Send + Sync + 'static {
    /// Runs `work` on the node's group agents and handles their outputs.
    ///
    /// `None` if the node is not hosted here or not up.
    fn with_agents<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&mut GaHost, Moment) -> T,
    ) -> Option<T>;

    /// The address that other agents reach this process at.
    fn address(&self) -> &str;

    /// The watches of the groups hosted here.
    fn watchers(&self) -> &Watchers;
}

/// The gRPC service.
#[derive(Clone, Debug)]
pub struct GroupAgentServer<H> {
    host: H,
}

impl<H: GroupAgentHost> GroupAgentServer<H> {
    /// Serves the group agents of `host`.
    pub const fn new(host: H) -> Self {
        Self { host }
    }

    fn at<T>(&self, node: &str, work: impl FnOnce(&mut GaHost, Moment) -> T) -> Result<T, Status> {
        let name = fabricast_wire::decode_name("agent_node", node, NodeName::new)?;
        self.host.with_agents(&name, work).ok_or_else(|| {
            let text = format!("agent_node: node '{node}' is not up here");
            Reason::NotHostedHere.status(text, &[("node", node)])
        })
    }
}

fn no_agent(gn: u64) -> Status {
    Reason::NotHostedHere.status(format!("gn: group {gn} has no agent here"), &[])
}

impl<H: GroupAgentHost> GroupAgentServer<H> {
    /// Gives a new member its position in the unicast tree.
    fn register(
        &self,
        caller: &Caller,
        request: v1::RegisterMemberRequest,
    ) -> Result<v1::Position, Status> {
        let gn = Gn(request.gn);
        let member = fabricast_wire::required("member", request.member.as_ref())?;
        caller.check_node(&member.node)?;
        let voucher = member.voucher.map(Voucher);
        let member = fabricast_wire::decode_member(gn, member)?;
        let register = Register { gn, epoch: Epoch(request.epoch), member, voucher };
        let answer = self.at(&request.agent_node, |agents, now| agents.register(now, &register))?;
        let position = answer.map_err(|refusal| refused(&refusal))?;
        Ok(fabricast_wire::encode_position(&position))
    }
}

fn refused(refusal: &AgentRefusal) -> Status {
    let reason = match refusal {
        AgentRefusal::NotHosted { .. } => Reason::NotHostedHere,
        AgentRefusal::StaleEpoch { .. } => Reason::StaleEpoch,
        AgentRefusal::UnknownMember { .. } => Reason::NotAMember,
    };
    reason.status(refusal.to_string(), &[])
}

#[tonic::async_trait]
impl<H: GroupAgentHost> GroupAgentService for GroupAgentServer<H> {
    async fn register_member(
        &self,
        request: Request<v1::RegisterMemberRequest>,
    ) -> Result<Response<v1::RegisterMemberResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let position = Some(self.register(&caller, request.into_inner())?);
        Ok(Response::new(v1::RegisterMemberResponse { position }))
    }

    async fn register_members(
        &self,
        request: Request<v1::RegisterMembersRequest>,
    ) -> Result<Response<v1::RegisterMembersResponse>, Status> {
        use v1::register_answer::Answer;
        let caller = Caller::of(request.extensions());
        let members = request.into_inner().members;
        if members.is_empty() {
            let text = "members is missing";
            return Err(Reason::FieldMissing.status(text, &[("field", "members")]));
        }
        if members.len() > MAX_MEMBERS {
            let text =
                format!("members: {}, at most {MAX_MEMBERS} go into one call", members.len());
            return Err(Reason::LimitReached.status(text, &[("field", "members")]));
        }
        let answers = members.into_iter().map(|member| {
            let answer = match self.register(&caller, member) {
                Ok(position) => Answer::Position(position),
                Err(status) => Answer::Refusal(encode_refusal(status)),
            };
            v1::RegisterAnswer { answer: Some(answer) }
        });
        Ok(Response::new(v1::RegisterMembersResponse { answers: answers.collect() }))
    }

    async fn deregister_member(
        &self,
        request: Request<v1::DeregisterMemberRequest>,
    ) -> Result<Response<v1::DeregisterMemberResponse>, Status> {
        Caller::of(request.extensions()).check_node(&request.get_ref().node)?;
        let request = request.into_inner();
        let leaver = Deregister {
            gn: Gn(request.gn),
            epoch: Epoch(request.epoch),
            pn: Pn(request.pn),
            node: fabricast_wire::decode_name("node", &request.node, NodeName::new)?,
        };
        let answer = self.at(&request.agent_node, |agents, now| agents.deregister(now, &leaver))?;
        answer.map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(v1::DeregisterMemberResponse {}))
    }

    async fn report_operating_agents(
        &self,
        request: Request<v1::ReportOperatingAgentsRequest>,
    ) -> Result<Response<v1::ReportOperatingAgentsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let statuses = request.into_inner().statuses;
        if statuses.len() > MAX_STATUSES {
            let text = format!("statuses: {} are more than {MAX_STATUSES}", statuses.len());
            return Err(Reason::LimitReached.status(text, &[]));
        }
        statuses.iter().try_for_each(|status| caller.check_node(&status.node))?;
        let mut answer = v1::ReportOperatingAgentsResponse::default();
        let mut absent = BTreeSet::new();
        let reports: Vec<OaReport> =
            statuses.iter().map(fabricast_wire::decode_report).collect::<Result<_, _>>()?;
        let mut rest = reports.as_slice();
        for statuses in statuses.chunk_by(|a, b| a.agent_node == b.agent_node) {
            let (agent_node, count) = (&statuses[0].agent_node, statuses.len());
            let reports = rest.split_off(..count).expect("a report for each status");
            for reports in reports.chunks(REPORTS_AT_ONCE) {
                let taken = self.at(agent_node, |agents, now| -> Vec<_> {
                    reports.iter().map(|report| agents.report(now, report)).collect()
                });
                let Ok(replies) = taken else {
                    absent.insert(agent_node.clone());
                    continue;
                };
                for (report, reply) in reports.iter().zip(replies) {
                    answer
                        .positions
                        .extend(reply.positions.iter().map(fabricast_wire::encode_position));
                    answer.unknown.extend(reply.unknown.iter().map(|(gn, pn)| {
                        let node = report.node.to_string();
                        v1::UnknownMembership { node, gn: gn.0, pn: pn.0 }
                    }));
                }
            }
        }
        answer.absent_agent_nodes = absent.into_iter().collect();
        Ok(Response::new(answer))
    }

    async fn query_group(
        &self,
        request: Request<v1::QueryGroupRequest>,
    ) -> Result<Response<v1::QueryGroupResponse>, Status> {
        let request = request.into_inner();
        let address = self.host.address().to_owned();
        let answer = self.at(&request.agent_node, |agents, _now| {
            let (record, members) = agents.query(Gn(request.gn))?;
            // Fields that only the TIC keeps up to date are left out.
            let mut group = v1::Group {
                create_time: None,
                job: String::new(),
                complete_at_member_count: 0,
                incomplete: false,
                ..fabricast_wire::encode_group(record, &address)
            };
            let mut positions = Vec::with_capacity(members.len());
            for (view, position) in members {
                group.members.push(fabricast_wire::encode_member_view(view));
                positions.push(fabricast_wire::encode_position(&position));
            }
            group.member_count = u32::try_from(group.members.len()).unwrap_or(u32::MAX);
            Some(v1::QueryGroupResponse { group: Some(group), positions })
        })?;
        answer.map(Response::new).ok_or_else(|| no_agent(request.gn))
    }

    type WatchGroupMembersStream = Changes<v1::WatchGroupMembersResponse, Status>;

    async fn watch_group_members(
        &self,
        request: Request<v1::WatchGroupMembersRequest>,
    ) -> Result<Response<Self::WatchGroupMembersStream>, Status> {
        let v1::WatchGroupMembersRequest { agent_node, gn } = request.into_inner();
        let this = self.clone();
        let poll = move || {
            let members = this.at(&agent_node, |agents, _now| {
                Some(agents.members(Gn(gn))?.map(fabricast_wire::encode_member_view).collect())
            })?;
            let members = members.ok_or_else(|| no_agent(gn))?;
            Ok(v1::WatchGroupMembersResponse { members })
        };
        poll()?;
        Ok(Response::new(changes(self.host.watchers().watch(Gn(gn)), poll)))
    }

    async fn notify_groups(
        &self,
        request: Request<v1::NotifyGroupsRequest>,
    ) -> Result<Response<v1::NotifyGroupsResponse>, Status> {
        let request = request.into_inner();
        self.at(&request.agent_node, |agents, now| {
            for gn in request.gns {
                agents.refresh(now, Gn(gn));
            }
        })?;
        Ok(Response::new(v1::NotifyGroupsResponse {}))
    }
}
