//! `OperatingAgentService`: joins, leaves, packets and positions of the hosted nodes.

use std::pin::Pin;

use fabricast_group::wire::{self, name};
use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use fabricast_groups::operating::Phase;
use fabricast_proto::v1;
use fabricast_proto::v1::operating_agent_service_server::OperatingAgentService;
use fabricast_rpc::{Caller, Reason};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::calls::{joined, left, membership_to_wire};
use crate::host::{Host, lock};
use crate::listeners::Listener;

/// Longest payload of a packet, in bytes; that of an InfiniBand datagram.
const MAX_PAYLOAD: usize = 4096;
/// Messages that may wait for a listener before it loses packets.
const LISTENER_QUEUE: usize = 4096;
/// Listeners at one time.
const MAX_LISTENERS: usize = 1024;

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct OperatingAgentServer {
    pub(crate) host: Host,
}

impl OperatingAgentServer {
    /// The node's name, if it is hosted here.
    pub(crate) fn node(&self, text: &str) -> Result<NodeName, Status> {
        let node = name("node", text, NodeName::new)?;
        match self.host.look(&node, |_| ()) {
            Some(()) => Ok(node),
            None => Err(unknown_node(&node)),
        }
    }

    /// The node's name, if it takes part.
    pub(crate) fn live_node(&self, text: &str) -> Result<NodeName, Status> {
        let node = self.node(text)?;
        match self.host.look(&node, |agent| agent.phase()) {
            Some(Phase::Stopped) | None => Err(stopped(&node)),
            Some(Phase::Up | Phase::Registering) => Ok(node),
        }
    }
}

pub(crate) fn unknown_node(node: &NodeName) -> Status {
    let text = format!("node: '{node}' is not hosted here");
    Reason::UnknownNode.status(text, &[("node", node.as_str())])
}

pub(crate) fn stopped(node: &NodeName) -> Status {
    Reason::NodeStopped.status(format!("node '{node}' is stopped"), &[("node", node.as_str())])
}

pub(crate) fn not_a_member(group: &GroupName, node: &NodeName) -> Status {
    let text = format!("group: '{group}' has no such member on node '{node}'");
    Reason::NotAMember.status(text, &[("group", group.as_str()), ("node", node.as_str())])
}

#[tonic::async_trait]
impl OperatingAgentService for OperatingAgentServer {
    async fn join_group(
        &self,
        request: Request<v1::OperatingAgentServiceJoinGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceJoinGroupResponse>, Status> {
        Caller::of(request.extensions()).check_group(&request.get_ref().group)?;
        let (node, wish) = self.join_wish(request.into_inner())?;
        let membership = Some(joined(self.ended(node, wish).await?)?);
        Ok(Response::new(v1::OperatingAgentServiceJoinGroupResponse { membership }))
    }

    async fn leave_group(
        &self,
        request: Request<v1::OperatingAgentServiceLeaveGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceLeaveGroupResponse>, Status> {
        Caller::of(request.extensions()).check_group(&request.get_ref().group)?;
        let (node, wish) = self.leave_wish(&request.into_inner())?;
        left(self.ended(node, wish).await?)?;
        Ok(Response::new(v1::OperatingAgentServiceLeaveGroupResponse {}))
    }

    async fn join_many(
        &self,
        request: Request<v1::OperatingAgentServiceJoinManyRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceJoinManyResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let joins = request.into_inner().joins;
        joins.iter().try_for_each(|join| caller.check_group(&join.group))?;
        let ends = self.join_all(joins).await?;
        Ok(Response::new(v1::OperatingAgentServiceJoinManyResponse { ends }))
    }

    async fn leave_many(
        &self,
        request: Request<v1::OperatingAgentServiceLeaveManyRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceLeaveManyResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let leaves = request.into_inner().leaves;
        leaves.iter().try_for_each(|leave| caller.check_group(&leave.group))?;
        let ends = self.leave_all(&leaves).await?;
        Ok(Response::new(v1::OperatingAgentServiceLeaveManyResponse { ends }))
    }

    async fn query_group(
        &self,
        request: Request<v1::OperatingAgentServiceQueryGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceQueryGroupResponse>, Status> {
        Caller::of(request.extensions()).check_group(&request.get_ref().group)?;
        let request = request.into_inner();
        let node = self.live_node(&request.node)?;
        let group = name("group", &request.group, GroupName::new)?;
        let v1::QueryGroupResponse { group, positions } = self.host.query(&node, &group).await?;
        Ok(Response::new(v1::OperatingAgentServiceQueryGroupResponse { group, positions }))
    }

    async fn list_memberships(
        &self,
        request: Request<v1::ListMembershipsRequest>,
    ) -> Result<Response<v1::ListMembershipsResponse>, Status> {
        let nodes = match request.into_inner().node.as_str() {
            "" => self.host.nodes(),
            text => vec![self.node(text)?],
        };
        let mut memberships = Vec::new();
        for node in nodes {
            let held = self.host.look(&node, |agent| {
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
        let group = name("group", &request.group, GroupName::new)?;
        let process = name("process", &request.process, ProcessName::new)?;
        let node = self.live_node(&request.node)?;
        let held = self.host.look(&node, |agent| agent.membership(&group, &process).cloned());
        let held = held.flatten().ok_or_else(|| not_a_member(&group, &node))?;
        let Some(colors) = held.colors() else {
            let text = format!("group: '{group}' has no open multicast connection here");
            return Err(Reason::NotRouted.status(text, &[("group", group.as_str())]));
        };
        let endpoint = held.member.endpoint.to_string();
        let (source, sequence) = self.host.number_packet(held.mgid);
        let packet = |color: u16| v1::EndpointPacket {
            endpoint: endpoint.clone(),
            packet: Some(v1::Packet {
                mgid: held.mgid.0,
                color: u32::from(color),
                payload: request.payload.clone(),
                source,
                sequence,
            }),
        };
        self.host
            .send_packets([colors.first].into_iter().chain(colors.second).map(packet).collect())?;
        // The fabric sends nothing back to the port that a packet came from; processes that share
        // the sender's endpoint are served here.
        let sender = Some((held.member.gn, held.member.pn));
        let near = self.host.deliver(&endpoint, held.mgid.0, &request.payload, sender);
        self.host.publish(near);
        Ok(Response::new(v1::SendPacketResponse {}))
    }

    type ReceivePacketsStream = ReceiverStreamOf<v1::ReceivePacketsResponse>;

    async fn receive_packets(
        &self,
        request: Request<v1::ReceivePacketsRequest>,
    ) -> Result<Response<Self::ReceivePacketsStream>, Status> {
        let node = match request.into_inner().node.as_str() {
            "" => None,
            text => Some(self.node(text)?),
        };
        let (packets, stream) = mpsc::channel(LISTENER_QUEUE);
        let mut listeners = lock(&self.host.0.listeners);
        listeners.retain(|listener| !listener.packets.is_closed());
        if listeners.len() >= MAX_LISTENERS {
            let text = format!("{MAX_LISTENERS} processes listen already");
            return Err(Reason::LimitReached.status(text, &[]));
        }
        listeners.push(Listener { node, packets });
        Ok(Response::new(ReceiverStreamOf(ReceiverStream::new(stream))))
    }

    async fn probe_node(
        &self,
        request: Request<v1::ProbeNodeRequest>,
    ) -> Result<Response<v1::ProbeNodeResponse>, Status> {
        let node = self.live_node(&request.into_inner().node)?;
        let life = self.host.look(&node, |agent| agent.probe()).flatten();
        let incarnation = life.ok_or_else(|| stopped(&node))?.0;
        Ok(Response::new(v1::ProbeNodeResponse { incarnation }))
    }

    async fn update_positions(
        &self,
        request: Request<v1::UpdatePositionsRequest>,
    ) -> Result<Response<v1::UpdatePositionsResponse>, Status> {
        let positions = request.into_inner().positions;
        let updates = positions.iter().map(wire::read_position);
        for update in updates.collect::<Result<Vec<_>, _>>()? {
            let node = update.node.clone();
            // A refused position asks for what it needs itself; the sender learns by the reports.
            let _ = self.host.input(&node, |agent, now| agent.position(now, &update).is_ok());
        }
        Ok(Response::new(v1::UpdatePositionsResponse {}))
    }

    type OpenLinkStream =
        Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::OpenLinkResponse, Status>> + Send>>;

    async fn open_link(
        &self,
        request: Request<Streaming<v1::OpenLinkRequest>>,
    ) -> Result<Response<Self::OpenLinkStream>, Status> {
        let frames = self.host.answer_link(request.into_inner()).await?;
        Ok(Response::new(Box::pin(frames.map(Ok))))
    }

    async fn list_hosted_nodes(
        &self,
        _request: Request<v1::ListHostedNodesRequest>,
    ) -> Result<Response<v1::ListHostedNodesResponse>, Status> {
        let describe = |node: NodeName| {
            self.host.look(&node, |agent| {
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
        let nodes = self.host.nodes().into_iter().filter_map(describe).collect();
        Ok(Response::new(v1::ListHostedNodesResponse { nodes }))
    }

    async fn stop_node(
        &self,
        request: Request<v1::StopNodeRequest>,
    ) -> Result<Response<v1::StopNodeResponse>, Status> {
        let node = self.node(&request.into_inner().node)?;
        self.host.input(&node, |agent, now| agent.stop(now));
        self.attach(&node, false).await;
        Ok(Response::new(v1::StopNodeResponse {}))
    }

    async fn start_node(
        &self,
        request: Request<v1::StartNodeRequest>,
    ) -> Result<Response<v1::StartNodeResponse>, Status> {
        let node = self.node(&request.into_inner().node)?;
        self.host.input(&node, |agent, now| agent.start(now));
        self.attach(&node, true).await;
        let incarnation = self.host.look(&node, |agent| agent.incarnation().0).unwrap_or(0);
        Ok(Response::new(v1::StartNodeResponse { incarnation }))
    }
}

impl OperatingAgentServer {
    /// Plugs the node's endpoints into the fabric, or pulls them out.
    async fn attach(&self, node: &NodeName, plug: bool) {
        let endpoints = self.host.look(node, |agent| agent.identity().endpoints.clone());
        let endpoints: Vec<String> =
            endpoints.unwrap_or_default().iter().map(ToString::to_string).collect();
        let message = if plug {
            v1::AttachEndpointsRequest { attach: endpoints, ..Default::default() }
        } else {
            v1::AttachEndpointsRequest { detach: endpoints, ..Default::default() }
        };
        // Without a connection there is nothing to tell: the next one starts from the present state.
        let _ = self.host.0.to_fabric.send(message).await;
    }
}

/// A stream of messages that cannot fail.
#[derive(Debug)]
pub(crate) struct ReceiverStreamOf<T>(ReceiverStream<T>);

impl<T> tokio_stream::Stream for ReceiverStreamOf<T> {
    type Item = Result<T, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(context).map(|next| next.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use fabricast_groups::ids::Incarnation;
    use fabricast_groups::record::{NodeRecord, NodeState};

    #[tokio::test]
    async fn of_a_push_with_a_bad_position_nothing_is_taken() {
        let (host, name) = host();
        let record = host.look(&name, |agent| NodeRecord {
            name: name.clone(),
            address: agent.identity().address.clone(),
            endpoints: agent.identity().endpoints.clone(),
            incarnation: Incarnation(1),
            start_id: 1,
            state: NodeState::Up,
            flaps: None,
        });
        host.input(&name, |agent, now| agent.registered(now, Ok(record.unwrap())));
        let good = v1::Position { gn: 1, node: name.to_string(), ..Default::default() };
        let push = |positions| {
            let server = OperatingAgentServer { host: host.clone() };
            async move { server.update_positions(Request::new(positions)).await }
        };
        let both = vec![good.clone(), v1::Position::default()];
        let refused = push(v1::UpdatePositionsRequest { positions: both }).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        let waits = || host.look(&name, |agent| agent.next_deadline()).flatten();
        assert_eq!(waits(), None, "no group was asked about");
        push(v1::UpdatePositionsRequest { positions: vec![good] }).await.unwrap();
        assert!(waits().is_some());
    }
}
