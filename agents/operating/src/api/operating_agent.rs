//! `OperatingAgentService`: joins, leaves, packets and positions of the hosted nodes.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use fabricast_groups::operating::Phase;
use fabricast_proto::v1;
use fabricast_proto::v1::operating_agent_service_server::OperatingAgentService;
use fabricast_rpc::{Caller, Reason};
use fabricast_wire::{decode_name, decode_position, encode_refusal};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::membership_requests::{
    hosted_node, in_turns, join, join_all, leave, leave_all, live_node, membership_to_wire,
    read_leave, read_long_join,
};
use super::status::{missing, not_a_member, stopped};
use crate::agent::Agent;
use crate::links::measurement::OperationRun;
use crate::links::streams::Ends;
use crate::nodes::direct::Waiting;

/// Longest payload of a packet, in bytes; that of an InfiniBand datagram.
const MAX_PAYLOAD: usize = 4096;
/// Positions that are handed to their nodes at once.
const POSITIONS_AT_ONCE: usize = 256;
/// Timeout for the first message of a streaming call.
const FIRST_MESSAGE: Duration = Duration::from_secs(5);

/// Messages of an answer, the last of which may be a refusal.
pub(super) type AnswerStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct OperatingAgentServer {
    agent: Arc<Agent>,
}

impl OperatingAgentServer {
    pub(crate) fn new(agent: &Arc<Agent>) -> Self {
        Self { agent: Arc::clone(agent) }
    }

    /// Attaches a node's endpoints to the fabric, or detaches them.
    async fn plug(&self, node: &NodeName, is_attached: bool) {
        let nodes = &self.agent.runtime.nodes;
        let endpoints = nodes.read(node, |agent| agent.identity().endpoints.clone());
        let endpoints: Vec<String> =
            endpoints.unwrap_or_default().iter().map(ToString::to_string).collect();
        let message = if is_attached {
            v1::AttachEndpointsRequest { attach: endpoints, ..Default::default() }
        } else {
            v1::AttachEndpointsRequest { detach: endpoints, ..Default::default() }
        };
        self.agent.packets.plug(message).await;
    }
}

/// The first message of a streaming call.
///
/// - `field`: the required field that is missing if there is no message.
pub(super) async fn first_message<T>(
    requests: &mut Streaming<T>,
    field: &str,
) -> Result<T, Status> {
    let first = tokio::time::timeout(FIRST_MESSAGE, requests.message()).await;
    first.map_err(|_| missing(field))??.ok_or_else(|| missing(field))
}

/// Refuses an operating agent that acts for a node of another, and a tenant that has not the group.
fn check_member(caller: &Caller, node: &str, group: &str) -> Result<(), Status> {
    caller.check_node(node)?;
    caller.check_group(group)
}

#[tonic::async_trait]
impl OperatingAgentService for OperatingAgentServer {
    async fn join_group(
        &self,
        request: Request<v1::OperatingAgentServiceJoinGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceJoinGroupResponse>, Status> {
        let asked = request.get_ref();
        check_member(&Caller::of(request.extensions()), &asked.node, &asked.group)?;
        let (node, call) = read_long_join(&self.agent.runtime.nodes, request.into_inner()).await?;
        let membership = Some(join(&self.agent, node, call).await?);
        Ok(Response::new(v1::OperatingAgentServiceJoinGroupResponse { membership }))
    }

    async fn leave_group(
        &self,
        request: Request<v1::OperatingAgentServiceLeaveGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceLeaveGroupResponse>, Status> {
        let asked = request.get_ref();
        check_member(&Caller::of(request.extensions()), &asked.node, &asked.group)?;
        let (node, call) = read_leave(&self.agent.runtime.nodes, &request.into_inner())?;
        leave(&self.agent, node, call).await?;
        Ok(Response::new(v1::OperatingAgentServiceLeaveGroupResponse {}))
    }

    async fn join_many(
        &self,
        request: Request<v1::OperatingAgentServiceJoinManyRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceJoinManyResponse>, Status> {
        use v1::join_end::End;
        let caller = Caller::of(request.extensions());
        let joins = request.into_inner().joins;
        joins.iter().try_for_each(|join| check_member(&caller, &join.node, &join.group))?;
        let end = |end: Result<v1::Membership, Status>| match end {
            Ok(membership) => End::Membership(membership),
            Err(status) => End::Refusal(encode_refusal(status)),
        };
        let ends = join_all(&self.agent, joins).await?;
        let ends = in_turns(ends, |one| v1::JoinEnd { end: Some(end(one)) }).await;
        Ok(Response::new(v1::OperatingAgentServiceJoinManyResponse { ends }))
    }

    async fn leave_many(
        &self,
        request: Request<v1::OperatingAgentServiceLeaveManyRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceLeaveManyResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let leaves = request.into_inner().leaves;
        leaves.iter().try_for_each(|leave| check_member(&caller, &leave.node, &leave.group))?;
        let ends = leave_all(&self.agent, leaves).await?;
        Ok(Response::new(v1::OperatingAgentServiceLeaveManyResponse { ends }))
    }

    async fn query_group(
        &self,
        request: Request<v1::OperatingAgentServiceQueryGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceQueryGroupResponse>, Status> {
        let asked = request.get_ref();
        check_member(&Caller::of(request.extensions()), &asked.node, &asked.group)?;
        let request = request.into_inner();
        let node = live_node(&self.agent.runtime.nodes, &request.node)?;
        let group = decode_name("group", &request.group, GroupName::new)?;
        let v1::QueryGroupResponse { group, positions } =
            self.agent.group_members.query(&node, &group).await?;
        Ok(Response::new(v1::OperatingAgentServiceQueryGroupResponse { group, positions }))
    }

    async fn list_memberships(
        &self,
        request: Request<v1::ListMembershipsRequest>,
    ) -> Result<Response<v1::ListMembershipsResponse>, Status> {
        let nodes = match request.into_inner().node.as_str() {
            "" => self.agent.runtime.nodes.names(),
            text => vec![hosted_node(&self.agent.runtime.nodes, text)?],
        };
        let mut memberships = Vec::new();
        for node in nodes {
            let held = self.agent.runtime.nodes.read(&node, |agent| {
                agent.memberships().map(membership_to_wire).collect::<Vec<_>>()
            });
            memberships.extend(held.unwrap_or_default());
        }
        memberships.sort_by(|a, b| (&a.node, &a.group, a.pn).cmp(&(&b.node, &b.group, b.pn)));
        Ok(Response::new(v1::ListMembershipsResponse { memberships }))
    }

    async fn send_packet(
        &self,
        request: Request<v1::SendPacketRequest>,
    ) -> Result<Response<v1::SendPacketResponse>, Status> {
        let request = request.into_inner();
        if request.payload.len() > MAX_PAYLOAD {
            let text = format!("payload: {} bytes, at most {MAX_PAYLOAD}", request.payload.len());
            return Err(Reason::PayloadTooLong.status(text, &[]));
        }
        let group = decode_name("group", &request.group, GroupName::new)?;
        let process = decode_name("process", &request.process, ProcessName::new)?;
        let node = live_node(&self.agent.runtime.nodes, &request.node)?;
        let held = self
            .agent
            .runtime
            .nodes
            .read(&node, |agent| agent.membership(&group, &process).cloned());
        let held = held.flatten().ok_or_else(|| not_a_member(&group, &node))?;
        let Some(colors) = held.colors() else {
            let text = format!("group: '{group}' has no open multicast connection here");
            return Err(Reason::NotRouted.status(text, &[("group", group.as_str())]));
        };
        let endpoint = &held.member.endpoint;
        self.agent.packets.send(endpoint, held.mgid, colors, &request.payload)?;
        self.agent.listeners.deliver_nearby(&held, &request.payload);
        Ok(Response::new(v1::SendPacketResponse {}))
    }

    type ReceivePacketsStream = AnswerStream<v1::ReceivePacketsResponse>;

    async fn receive_packets(
        &self,
        request: Request<v1::ReceivePacketsRequest>,
    ) -> Result<Response<Self::ReceivePacketsStream>, Status> {
        let node = match request.into_inner().node.as_str() {
            "" => None,
            text => Some(hosted_node(&self.agent.runtime.nodes, text)?),
        };
        let packets = self.agent.listeners.listen(node)?;
        Ok(Response::new(Box::pin(ReceiverStream::new(packets).map(Ok))))
    }

    async fn probe_node(
        &self,
        request: Request<v1::ProbeNodeRequest>,
    ) -> Result<Response<v1::ProbeNodeResponse>, Status> {
        let node = live_node(&self.agent.runtime.nodes, &request.into_inner().node)?;
        let incarnation = self.agent.runtime.nodes.read(&node, |agent| agent.probe()).flatten();
        let incarnation = incarnation.ok_or_else(|| stopped(&node))?.0;
        Ok(Response::new(v1::ProbeNodeResponse { incarnation }))
    }

    async fn update_positions(
        &self,
        request: Request<v1::UpdatePositionsRequest>,
    ) -> Result<Response<v1::UpdatePositionsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let positions = request.into_inner().positions;
        let updates = positions.iter().map(decode_position).collect::<Result<Vec<_>, _>>()?;
        let is_sender = |node: &NodeName| caller.check_node(node.as_str()).is_ok();
        let mut refused = Vec::new();
        for updates in updates.chunks(POSITIONS_AT_ONCE) {
            let inputs = updates.iter().map(|update| (update.node.clone(), update)).collect();
            let taken = self.agent.runtime.nodes.input_many(inputs, |_, agent, now, update| {
                agent.position(now, update, is_sender).is_ok()
            });
            let all = updates.iter().zip(taken).filter(|(_, taken)| *taken != Some(true));
            refused.extend(
                all.map(|(update, _)| v1::RefusedPosition { gn: update.gn.0, pn: update.pn.0 }),
            );
        }
        Ok(Response::new(v1::UpdatePositionsResponse { refused }))
    }

    type OpenLinkStream = AnswerStream<v1::OpenLinkResponse>;

    async fn open_link(
        &self,
        request: Request<Streaming<v1::OpenLinkRequest>>,
    ) -> Result<Response<Self::OpenLinkStream>, Status> {
        let caller = Caller::of(request.extensions());
        let mut requests = request.into_inner();
        let first = first_message(&mut requests, "to_node").await?;
        caller.check_node(&first.from_node)?;
        let ends = Ends {
            node: decode_name("to_node", &first.to_node, NodeName::new)?,
            peer: decode_name("from_node", &first.from_node, NodeName::new)?,
        };
        let later = requests.map_while(Result::ok).map(|message| message.frames);
        let frames = self.agent.streams.accept(ends, first.frames, later)?;
        let answer = |frame: Waiting<v1::LinkFrame>| {
            Ok(v1::OpenLinkResponse { frames: vec![frame.message] })
        };
        Ok(Response::new(Box::pin(frames.map(answer))))
    }

    async fn list_hosted_nodes(
        &self,
        _request: Request<v1::ListHostedNodesRequest>,
    ) -> Result<Response<v1::ListHostedNodesResponse>, Status> {
        let describe = |node: NodeName| {
            self.agent.runtime.nodes.read(&node, |agent| {
                let identity = agent.identity();
                let state = match agent.phase() {
                    Phase::Up => v1::NodeState::Up,
                    Phase::Registering | Phase::Stopped => v1::NodeState::Failed,
                };
                v1::Node {
                    name: identity.node.to_string(),
                    address: identity.address.to_string(),
                    endpoints: identity.endpoints.iter().map(ToString::to_string).collect(),
                    incarnation: agent.incarnation().0,
                    state: state.into(),
                    ..v1::Node::default()
                }
            })
        };
        let nodes = self.agent.runtime.nodes.names().into_iter().filter_map(describe).collect();
        Ok(Response::new(v1::ListHostedNodesResponse { nodes }))
    }

    async fn stop_node(
        &self,
        request: Request<v1::StopNodeRequest>,
    ) -> Result<Response<v1::StopNodeResponse>, Status> {
        let node = hosted_node(&self.agent.runtime.nodes, &request.into_inner().node)?;
        self.agent.runtime.nodes.input(&node, |agent, now| agent.stop(now));
        self.plug(&node, false).await;
        Ok(Response::new(v1::StopNodeResponse {}))
    }

    async fn start_node(
        &self,
        request: Request<v1::StartNodeRequest>,
    ) -> Result<Response<v1::StartNodeResponse>, Status> {
        let node = hosted_node(&self.agent.runtime.nodes, &request.into_inner().node)?;
        self.agent.runtime.nodes.input(&node, |agent, now| agent.start(now));
        self.plug(&node, true).await;
        let incarnation =
            self.agent.runtime.nodes.read(&node, |agent| agent.incarnation().0).unwrap_or(0);
        Ok(Response::new(v1::StartNodeResponse { incarnation }))
    }

    async fn measure_operations(
        &self,
        request: Request<v1::MeasureOperationsRequest>,
    ) -> Result<Response<v1::MeasureOperationsResponse>, Status> {
        let request = request.into_inner();
        let nodes = &self.agent.runtime.nodes;
        let measurement = OperationRun::new(
            live_node(nodes, &request.node)?,
            decode_name("group", &request.group, GroupName::new)?,
            decode_name("process", &request.process, ProcessName::new)?,
            usize::try_from(request.member_count).unwrap_or(usize::MAX),
            &request.operations,
        )?;
        let times = measurement.run(nodes).await?;
        Ok(Response::new(v1::MeasureOperationsResponse { times }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent;

    #[tokio::test]
    async fn a_push_with_an_invalid_position_is_refused_as_a_whole() {
        let test = agent();
        let (nodes, node) = (&test.agent.runtime.nodes, &test.node);
        test.node_up();
        let good = v1::Position { gn: 1, node: node.to_string(), ..Default::default() };
        let push = |positions| {
            let server = OperatingAgentServer::new(&test.agent);
            async move { server.update_positions(Request::new(positions)).await }
        };
        let both = vec![good.clone(), v1::Position::default()];
        let refused = push(v1::UpdatePositionsRequest { positions: both }).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        let waits = || nodes.read(node, |agent| agent.next_deadline()).flatten();
        assert_eq!(waits(), None, "no group was asked about");
        push(v1::UpdatePositionsRequest { positions: vec![good] }).await.unwrap();
        assert!(waits().is_some());
    }
}
