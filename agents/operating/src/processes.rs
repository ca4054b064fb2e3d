//! `ProcessService`: what the processes of this machine see of their operating agent.

use std::pin::Pin;
use std::sync::Arc;

use fabricast_group::wire::name;
use fabricast_group::{News, news};
use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use fabricast_groups::record::MemberRecord;
use fabricast_messages::Mode;
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_server::ProcessService;
use fabricast_rpc::{Reason, refusal_from_wire};
use fabricast_telemetry::traces::Origin;
use prost::Message as _;
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status, Streaming};
use tracing::info;

use crate::calls::{joined, left};
use crate::host::Host;
use crate::memory::{Shared, range_invalid};
use crate::operations::{read, result};
use crate::parts::participants;
use crate::service::{OperatingAgentServer, not_a_member};
use crate::sessions::{Call, ProcessId, Session};

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct ProcessServer {
    agent: OperatingAgentServer,
}

impl ProcessServer {
    pub(crate) fn new(host: Host) -> Self {
        Self { agent: OperatingAgentServer { host } }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.agent.host
    }

    /// The session that a request names, if it is the caller's.
    pub(crate) fn session<T>(&self, request: &Request<T>, number: u64) -> Result<Call, Status> {
        self.host().0.sessions.call(number, user(request))
    }

    /// The live node that is named; the only one if none is.
    fn node(&self, text: &str) -> Result<NodeName, Status> {
        if !text.is_empty() {
            return self.agent.live_node(text);
        }
        match self.host().nodes().as_slice() {
            [only] => self.agent.live_node(only.as_str()),
            several => {
                let text = format!("node is missing: {} are served here, name one", several.len());
                Err(Reason::FieldMissing.status(text, &[("field", "node")]))
            }
        }
    }

    fn process(&self, node: &str, process: &str) -> Result<ProcessId, Status> {
        let process = name("process", process, ProcessName::new)?;
        Ok((self.node(node)?, process))
    }

    /// The membership of an attached process in a group.
    pub(crate) fn member(
        &self,
        session: &Session,
        group: &GroupName,
    ) -> Result<MemberRecord, Status> {
        let (node, process) = &session.process;
        let held = self
            .host()
            .look(node, |agent| agent.membership(group, process).map(|held| held.member.clone()));
        held.flatten().ok_or_else(|| not_a_member(group, node))
    }

    /// Joins a process; goes on to its end even if nobody waits for that any more.
    async fn join(&self, call: Call, group: String) -> Result<v1::Membership, Status> {
        let (node, process) = &call.session.process;
        let request = v1::OperatingAgentServiceJoinGroupRequest {
            node: node.to_string(),
            group,
            process: process.to_string(),
            ..Default::default()
        };
        let (node, wish) = self.agent.join_wish(request)?;
        let (tell, told) = oneshot::channel();
        let agent = self.agent.clone();
        let origin = Origin::kept();
        self.host().spawn(|_| async move {
            let end = origin.cover(agent.ended(node, wish)).await;
            drop(call);
            let _ = tell.send(end);
        });
        let end = told.await;
        joined(end.map_err(|_| Reason::ShuttingDown.status("the agent is stopping", &[]))??)
    }

    /// Joins processes in order. The agents take joins node by node, so one call ends where the nodes
    /// stop ascending.
    async fn join_in_order(
        &self,
        group: &str,
        processes: &[ProcessId],
    ) -> Result<Vec<v1::Membership>, Status> {
        let mut memberships = Vec::with_capacity(processes.len());
        for run in processes.chunk_by(|(before, _), (after, _)| before <= after) {
            let join = |(node, process): &ProcessId| v1::OperatingAgentServiceJoinGroupRequest {
                node: node.to_string(),
                group: group.to_owned(),
                process: process.to_string(),
                ..Default::default()
            };
            for end in self.agent.join_all(run.iter().map(join).collect()).await? {
                match end.end {
                    Some(v1::join_end::End::Membership(membership)) => memberships.push(membership),
                    Some(v1::join_end::End::Refusal(refusal)) => {
                        return Err(refusal_from_wire(&refusal));
                    }
                    None => return Err(Status::internal("a join without an end")),
                }
            }
        }
        Ok(memberships)
    }
}

/// The user that the calling process runs as.
pub(crate) fn user<T>(request: &Request<T>) -> Option<u32> {
    let caller = request.extensions().get::<UdsConnectInfo>()?;
    Some(caller.peer_cred?.uid())
}

#[tonic::async_trait]
impl ProcessService for ProcessServer {
    async fn list_local_nodes(
        &self,
        _request: Request<v1::ListLocalNodesRequest>,
    ) -> Result<Response<v1::ListLocalNodesResponse>, Status> {
        let nodes = self.host().nodes().iter().map(ToString::to_string).collect();
        Ok(Response::new(v1::ListLocalNodesResponse { nodes }))
    }

    type AttachProcessStream = AnswerStream<v1::AttachProcessResponse>;

    async fn attach_process(
        &self,
        request: Request<v1::AttachProcessRequest>,
    ) -> Result<Response<Self::AttachProcessStream>, Status> {
        let user = user(&request);
        let caller = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
        let pid = caller.and_then(|caller| caller.pid()).unwrap_or(0);
        let request = request.into_inner();
        let process = self.process(&request.node, &request.process)?;
        let attached = self.host().attach(process, user).await?;
        let (node, name) = &attached.session.process;
        let peer = format_args!("user {} process {pid}", user.unwrap_or(0));
        info!(member = %format_args!("{node}/{name}"), peer = %peer, "process attached");
        let answer =
            v1::AttachProcessResponse { session: attached.session.number, node: node.to_string() };
        // The session lives in the stream: it is over when the transport drops that.
        let rest = tokio_stream::pending().map(move |never: Result<_, Status>| {
            let _lives = &attached;
            never
        });
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(answer)).chain(rest))))
    }

    type ShareMemoryStream = AnswerStream<v1::ShareMemoryResponse>;

    async fn share_memory(
        &self,
        request: Request<Streaming<v1::ShareMemoryRequest>>,
    ) -> Result<Response<Self::ShareMemoryStream>, Status> {
        Ok(Response::new(self.begin_sharing(request).await?))
    }

    async fn reserve_members(
        &self,
        request: Request<v1::ReserveMembersRequest>,
    ) -> Result<Response<v1::ReserveMembersResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let v1::ReserveMembersRequest { group, processes, .. } = request.into_inner();
        name("group", &group, GroupName::new)?;
        if processes.is_empty() {
            return Err(
                Reason::FieldMissing.status("processes is missing", &[("field", "processes")])
            );
        }
        let read = |wanted: &v1::LocalProcess| self.process(&wanted.node, &wanted.process);
        let processes: Vec<ProcessId> = processes.iter().map(read).collect::<Result<_, _>>()?;
        call.session.reserve(processes.iter().cloned());
        let (this, (tell, told)) = (self.clone(), oneshot::channel());
        let origin = Origin::kept();
        self.host().spawn(|_| async move {
            let end = origin.cover(this.join_in_order(&group, &processes)).await;
            drop(call);
            let _ = tell.send(end);
        });
        let end = told.await;
        let end = end.map_err(|_| Reason::ShuttingDown.status("the agent is stopping", &[]))?;
        Ok(Response::new(v1::ReserveMembersResponse { memberships: end? }))
    }

    async fn join_group(
        &self,
        request: Request<v1::ProcessServiceJoinGroupRequest>,
    ) -> Result<Response<v1::ProcessServiceJoinGroupResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let membership = Some(self.join(call, request.into_inner().group).await?);
        Ok(Response::new(v1::ProcessServiceJoinGroupResponse { membership }))
    }

    async fn leave_group(
        &self,
        request: Request<v1::ProcessServiceLeaveGroupRequest>,
    ) -> Result<Response<v1::ProcessServiceLeaveGroupResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let (node, process) = &call.session.process;
        let (node, wish) = self.agent.leave_wish(&v1::OperatingAgentServiceLeaveGroupRequest {
            node: node.to_string(),
            group: request.into_inner().group,
            process: process.to_string(),
            request_id: String::new(),
        })?;
        left(self.agent.ended(node, wish).await?)?;
        Ok(Response::new(v1::ProcessServiceLeaveGroupResponse {}))
    }

    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> Result<Response<v1::ListMembersResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let (node, process) = &call.session.process;
        let group = name("group", &request.get_ref().group, GroupName::new)?;
        let held = self.host().look(node, |agent| agent.membership(&group, process).is_some());
        if held != Some(true) {
            return Err(not_a_member(&group, node));
        }
        let answer = self.host().query_until_answered(node, &group).await?;
        let members = answer.group.unwrap_or_default().members;
        Ok(Response::new(v1::ListMembersResponse { members }))
    }

    type WatchMembersStream = News<v1::WatchMembersResponse>;

    async fn watch_members(
        &self,
        request: Request<v1::WatchMembersRequest>,
    ) -> Result<Response<Self::WatchMembersStream>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let (node, process) = call.session.process.clone();
        let group = name("group", &request.get_ref().group, GroupName::new)?;
        let host = self.host().clone();
        let gone = not_a_member(&group, &node);
        let member = self.member(&call.session, &group)?;
        let mut members = host.follow(&node, member.gn);
        let wakes = members.clone();
        let look = move || {
            let stays = host.look(&node, |agent| {
                agent.membership(&group, &process).is_some_and(|held| held.member == member)
            });
            if stays != Some(true) {
                return Err(gone.clone());
            }
            Ok(members.borrow_and_update().clone())
        };
        let known = news(wakes, look).filter_map(|members| match members {
            Ok(members) => {
                Some(Ok(v1::WatchMembersResponse { members: members?.as_ref().clone() }))
            }
            Err(status) => Some(Err(status)),
        });
        Ok(Response::new(Box::pin(known)))
    }

    type TakePartStream = AnswerStream<v1::TakePartResponse>;

    async fn take_part(
        &self,
        request: Request<Streaming<v1::TakePartRequest>>,
    ) -> Result<Response<Self::TakePartStream>, Status> {
        Ok(Response::new(self.begin_part(request).await?))
    }

    async fn list_participants(
        &self,
        request: Request<v1::ListParticipantsRequest>,
    ) -> Result<Response<v1::ListParticipantsResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let seat = self.seat(&call.session, &request.get_ref().group)?;
        let participants = Some(participants(&seat.roster()));
        Ok(Response::new(v1::ListParticipantsResponse { participants }))
    }

    async fn send_message(
        &self,
        request: Request<v1::SendMessageRequest>,
    ) -> Result<Response<v1::SendMessageResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let request = request.into_inner();
        let seat = self.seat(&call.session, &request.group)?;
        let shared = call.session.read_shared("shared_payload", request.shared_payload)?;
        if shared.is_some() && !request.payload.is_empty() {
            return Err(range_invalid("shared_payload", "shared_payload: payload is given, too"));
        }
        let mode = if request.best_effort { Mode::BestEffort } else { Mode::Reliable };
        drop(call); // the session's end ends the seat, and need not wait for this
        let unknown = seat.send(mode, &shared.unwrap_or(request.payload)).await?;
        let unknown_pns = unknown.into_iter().map(|pn| pn.0).collect();
        Ok(Response::new(v1::SendMessageResponse { unknown_pns }))
    }

    async fn run_operation(
        &self,
        request: Request<v1::RunOperationRequest>,
    ) -> Result<Response<v1::RunOperationResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let request = request.into_inner();
        let seat = self.seat(&call.session, &request.group)?;
        let shared = call.session.read_shared("shared_operation", request.shared_operation)?;
        let wire = match (shared, request.operation) {
            (None, operation) => operation,
            (Some(_), Some(_)) => {
                let what = "shared_operation: operation is given, too";
                return Err(range_invalid("shared_operation", what));
            }
            (Some(bytes), None) => {
                let refused = |error| {
                    range_invalid("shared_operation", &format!("shared_operation: {error}"))
                };
                Some(v1::GroupOperation::decode(bytes.as_slice()).map_err(refused)?)
            }
        };
        let (operation, on_failure) = read(wire)?;
        let memory = call.session.shared();
        drop(call); // as above
        let result = result(seat.operate(&operation, on_failure).await?);
        let lend = |memory: Arc<Shared>| {
            memory.lend(&self.host().0.memories, None, &result.encode_to_vec())
        };
        Ok(Response::new(match memory.and_then(lend) {
            Some(range) => v1::RunOperationResponse { result: None, shared_result: Some(range) },
            None => v1::RunOperationResponse { result: Some(result), shared_result: None },
        }))
    }
}

/// Answers, the last of which may be a refusal.
pub(crate) type AnswerStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
