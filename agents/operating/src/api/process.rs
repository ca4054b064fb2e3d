//! `ProcessService`: the calls of processes of this machine, at a Unix domain socket.

use std::cmp::Ordering;
use std::sync::Arc;

use fabricast_group::{Changes, changes};
use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use fabricast_groups::operating::{Oa, Phase};
use fabricast_groups::record::MemberRecord;
use fabricast_messages::{MemberId, Mode};
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_server::ProcessService;
use fabricast_rpc::{CallCost, CallMemory, LocalProcess, Reason};
use fabricast_telemetry::traces::Origin;
use fabricast_wire::{decode_name, decode_operation, encode_operation_result};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::info;

use super::membership_requests::{
    check_count, join, join_all, leave, live_node, read_join, read_leave, read_token,
};
use super::operating_agent::{AnswerStream, first_message};
use super::status::{not_a_member, shutting_down, tic_refusal};
use crate::agent::Agent;
use crate::collectives::switch_bytes;
use crate::links::member_handle::{Ended, MemberHandle, Messages};
use crate::nodes::Nodes;
use crate::processes::direct::DirectPath;
use crate::processes::memory::{HALF, Shared, SharingCall, SharingError};
use crate::processes::participants::{Participant, ParticipantMemory};
use crate::processes::reservations::ProcessId;
use crate::processes::sessions::{Call, Session, SessionError};
use crate::processes::user_rules::Owner;
use crate::runtime::shared_calls::SharedCalls;

/// Answer of the TIC to a request for a switch tree.
type TreeAnswer = Result<v1::RequestSwitchTreeResponse, Status>;

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct ProcessServer {
    agent: Arc<Agent>,
    /// Requests for switch trees, by group.
    tree_requests: SharedCalls<GroupName, TreeAnswer>,
}

impl ProcessServer {
    pub(crate) fn new(agent: &Arc<Agent>) -> Self {
        Self { agent: Arc::clone(agent), tree_requests: SharedCalls::default() }
    }

    fn nodes(&self) -> &Nodes {
        &self.agent.runtime.nodes
    }

    /// The calling process's user, and what its groups are checked against.
    fn owner<T>(&self, request: &Request<T>) -> Result<Owner, Status> {
        Ok(self.agent.user_rules.owner(LocalProcess::of(request.extensions()))?)
    }

    /// The session that a request names, if it is the caller's.
    fn session<T>(&self, request: &Request<T>, number: u64) -> Result<Call, Status> {
        Ok(self.agent.sessions.call(number, &self.owner(request)?)?)
    }

    /// The live node that is named; the only one if none is.
    fn node(&self, text: &str) -> Result<NodeName, Status> {
        if !text.is_empty() {
            return live_node(self.nodes(), text);
        }
        match self.nodes().names().as_slice() {
            [only] => live_node(self.nodes(), only.as_str()),
            several => {
                let text = format!("node is missing: {} are served here, name one", several.len());
                Err(Reason::FieldMissing.status(text, &[("field", "node")]))
            }
        }
    }

    fn process(&self, node: &str, process: &str) -> Result<ProcessId, Status> {
        let process = decode_name("process", process, ProcessName::new)?;
        Ok(ProcessId { node: self.node(node)?, process })
    }

    /// The membership of an attached process in a group.
    fn member(&self, session: &Session, group: &GroupName) -> Result<MemberRecord, Status> {
        let ProcessId { node, process } = &session.process;
        let held = self
            .nodes()
            .read(node, |agent| agent.membership(group, process).map(|held| held.member.clone()));
        held.flatten().ok_or_else(|| not_a_member(group, node))
    }

    /// The member that a session's process has opened in a group.
    fn open_member(&self, session: &Session, group: &str) -> Result<MemberHandle, Status> {
        let group = permitted_group(session, group)?;
        if let Some(handle) = session.members.lock().get(&group) {
            return Ok(handle.clone());
        }
        self.member(session, &group)?;
        let text = format!("group: the process takes no part in '{group}'");
        Err(Reason::TakesNoPart.status(text, &[("group", group.as_str())]))
    }

    /// Asks the TIC for the switch tree of a group, together with other members that do meanwhile.
    async fn ask_for_tree(
        &self,
        group: &GroupName,
        request: v1::RequestSwitchTreeRequest,
    ) -> TreeAnswer {
        let runtime = &self.agent.runtime;
        let (mut tic, shared) = (runtime.channels.collectives(), request.clone());
        let origin = Origin::kept();
        let asking = async move { tic.request_switch_tree(shared).await.map(Response::into_inner) };
        let asking = async move { origin.cover(asking).await };
        let answer = self.tree_requests.call(&runtime.tasks, group.clone(), asking).await;
        match answer.unwrap_or_else(|| Err(shutting_down())) {
            // The member that asked for all may have left the group meanwhile.
            Err(status) if Reason::NotAMember.is_of(&status) => {
                let mut tic = runtime.channels.collectives();
                tic.request_switch_tree(request).await.map(Response::into_inner)
            }
            answer => answer,
        }
    }

    /// Finishes a call of a session, even if nobody waits for the answer any more.
    async fn finish<T: Send + 'static>(
        &self,
        call: Call,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let (sender, ended) = oneshot::channel();
        let (origin, cost) = (Origin::kept(), CallCost::current());
        self.agent.runtime.tasks.spawn(async move {
            let end = cost.cover(origin.cover(work)).await;
            drop(call);
            let _ = sender.send(end);
        });
        ended.await.map_err(|_| shutting_down())?
    }
}

/// Joins processes in order. The state machines join node by node, so one batch ends where the
/// nodes stop ascending, and after a node whose joins wait until the TIC has admitted it.
async fn join_in_order(
    agent: &Agent,
    session: &Session,
    group: &str,
    processes: &[ProcessId],
) -> Result<Vec<v1::Membership>, Status> {
    let mut memberships = Vec::with_capacity(processes.len());
    let nodes = &agent.runtime.nodes;
    let is_up = |node: &NodeName| nodes.read(node, Oa::phase) == Some(Phase::Up);
    let goes_on = |before: &ProcessId, after: &ProcessId| match before.node.cmp(&after.node) {
        Ordering::Less => is_up(&before.node),
        Ordering::Equal => true,
        Ordering::Greater => false,
    };
    for run in processes.chunk_by(goes_on) {
        if session.over.is_cancelled() {
            return Err(SessionError::Unknown.into());
        }
        let join = |process| join_request(session, process, group.to_owned());
        let joins = run.iter().map(join).collect();
        for end in join_all(agent, joins).await? {
            memberships.push(end?);
        }
    }
    Ok(memberships)
}

fn join_request(
    session: &Session,
    process: &ProcessId,
    group: String,
) -> v1::OperatingAgentServiceJoinGroupRequest {
    let token = session.job_token.as_ref();
    v1::OperatingAgentServiceJoinGroupRequest {
        node: process.node.to_string(),
        group,
        process: process.process.to_string(),
        job_token: token.map_or_else(String::new, |token| token.as_str().to_owned()),
        ..Default::default()
    }
}

/// The group that a request names, if the session's owner may use it.
fn permitted_group(session: &Session, group: &str) -> Result<GroupName, Status> {
    let name = decode_name("group", group, GroupName::new)?;
    session.owner.caller.check_group(group)?;
    Ok(name)
}

#[tonic::async_trait]
impl ProcessService for ProcessServer {
    async fn list_local_nodes(
        &self,
        request: Request<v1::ListLocalNodesRequest>,
    ) -> Result<Response<v1::ListLocalNodesResponse>, Status> {
        self.owner(&request)?;
        let nodes = self.nodes().names().iter().map(ToString::to_string).collect();
        Ok(Response::new(v1::ListLocalNodesResponse { nodes }))
    }

    type AttachProcessStream = AnswerStream<v1::AttachProcessResponse>;

    async fn attach_process(
        &self,
        request: Request<v1::AttachProcessRequest>,
    ) -> Result<Response<Self::AttachProcessStream>, Status> {
        let owner = self.owner(&request)?;
        let caller = LocalProcess::of(request.extensions());
        let request = request.into_inner();
        let process = self.process(&request.node, &request.process)?;
        let token = read_token(&request.job_token)?;
        let attached = self.agent.sessions.attach(process, owner.clone(), token).await?;
        let ProcessId { node, process } = &attached.session.process;
        let (user, pid) = (owner.user.unwrap_or(0), caller.and_then(|caller| caller.pid));
        info!(%node, %process, user, pid = pid.unwrap_or(0), caller = %owner, "process attached");
        let answer = v1::AttachProcessResponse {
            session: attached.session.number,
            node: node.to_string(),
            direct_host: self.agent.direct_hosts.get(node).cloned().unwrap_or_default(),
        };
        // The session lives in the stream: it is over when the transport drops that.
        let rules = self.agent.user_rules.clone();
        let (sender, ended) = mpsc::channel(1);
        let _ = sender.try_send(Ok(answer)); // the channel is empty
        self.agent.runtime.tasks.spawn(async move {
            tokio::select! {
                () = rules.changed(caller, &owner) => {
                    let why = "session: the rules for processes of this user have changed";
                    let _ = sender.send(Err(Reason::NotPermitted.status(why, &[]))).await;
                }
                () = sender.closed() => {}
            }
            drop(attached);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(ended))))
    }

    type ShareMemoryStream = AnswerStream<v1::ShareMemoryResponse>;

    async fn share_memory(
        &self,
        request: Request<Streaming<v1::ShareMemoryRequest>>,
    ) -> Result<Response<Self::ShareMemoryStream>, Status> {
        let owner = self.owner(&request)?;
        let mut requests = request.into_inner();
        let first = first_message(&mut requests, "session").await?;
        let call = self.agent.sessions.call(first.session, &owner)?;
        let sharing = SharingCall::begin(&call.session)?;
        let named = self.agent.memories.make(owner.user)?;
        let answer = v1::ShareMemoryResponse {
            memory: Some(v1::SharedMemory {
                path: named.path().display().to_string(),
                device: named.identity().device,
                inode: named.identity().inode,
                half_bytes: HALF,
            }),
        };
        let (answers, later) = mpsc::channel(1);
        let memories = Arc::clone(&self.agent.memories);
        self.agent.runtime.tasks.spawn(async move {
            let mut requests = requests.map_while(Result::ok);
            let serving = async {
                let least = first.least_bytes;
                let opened = sharing.opened(&memories, named, least, &mut requests).await;
                let Some(shared) = opened else { return Ok(()) };
                // A process that listens no more has ended the call.
                let _ = answers.send(Ok(v1::ShareMemoryResponse::default())).await;
                sharing.serve(&memories, &shared, &mut requests).await
            };
            let served = tokio::select! {
                served = serving => served,
                () = answers.closed() => Ok(()),
                () = sharing.session_over() => Ok(()),
            };
            drop(sharing);
            if let Err(error) = served {
                let _ = answers.send(Err(error.into())).await;
            }
        });
        Ok(Response::new(Box::pin(
            tokio_stream::once(Ok(answer)).chain(ReceiverStream::new(later)),
        )))
    }

    async fn reserve_members(
        &self,
        request: Request<v1::ReserveMembersRequest>,
    ) -> Result<Response<v1::ReserveMembersResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let v1::ReserveMembersRequest { group, processes, user, .. } = request.into_inner();
        permitted_group(&call.session, &group)?;
        check_count("processes", processes.len())?;
        let read = |wanted: &v1::LocalProcess| self.process(&wanted.node, &wanted.process);
        let processes: Vec<ProcessId> = processes.iter().map(read).collect::<Result<_, _>>()?;
        self.agent.sessions.reserve(&call.session, &processes, user).await?;
        let agent = Arc::clone(&self.agent);
        let session = Arc::clone(&call.session);
        let join = async move { join_in_order(&agent, &session, &group, &processes).await };
        let memberships = self.finish(call, join).await?;
        Ok(Response::new(v1::ReserveMembersResponse { memberships }))
    }

    async fn join_group(
        &self,
        request: Request<v1::ProcessServiceJoinGroupRequest>,
    ) -> Result<Response<v1::ProcessServiceJoinGroupResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        permitted_group(&call.session, &request.get_ref().group)?;
        let session = &call.session;
        let request = join_request(session, &session.process, request.into_inner().group);
        let (node, begun) = read_join(self.nodes(), request)?;
        let agent = Arc::clone(&self.agent);
        let membership = self.finish(call, async move { join(&agent, node, begun).await }).await?;
        let membership = Some(membership);
        Ok(Response::new(v1::ProcessServiceJoinGroupResponse { membership }))
    }

    async fn leave_group(
        &self,
        request: Request<v1::ProcessServiceLeaveGroupRequest>,
    ) -> Result<Response<v1::ProcessServiceLeaveGroupResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        permitted_group(&call.session, &request.get_ref().group)?;
        let ProcessId { node, process } = &call.session.process;
        let (node, begun) = read_leave(
            self.nodes(),
            &v1::OperatingAgentServiceLeaveGroupRequest {
                node: node.to_string(),
                group: request.into_inner().group,
                process: process.to_string(),
                request_id: String::new(),
            },
        )?;
        leave(&self.agent, node, begun).await?;
        Ok(Response::new(v1::ProcessServiceLeaveGroupResponse {}))
    }

    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> Result<Response<v1::ListMembersResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let ProcessId { node, process } = &call.session.process;
        let group = permitted_group(&call.session, &request.get_ref().group)?;
        let held = self.nodes().read(node, |agent| agent.membership(&group, process).is_some());
        if held != Some(true) {
            return Err(not_a_member(&group, node));
        }
        let answer = self.agent.group_members.query_until_answered(node, &group).await?;
        let members = answer.group.unwrap_or_default().members;
        Ok(Response::new(v1::ListMembersResponse { members }))
    }

    type WatchMembersStream = Changes<v1::WatchMembersResponse, Status>;

    async fn watch_members(
        &self,
        request: Request<v1::WatchMembersRequest>,
    ) -> Result<Response<Self::WatchMembersStream>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let ProcessId { node, process } = call.session.process.clone();
        let group = permitted_group(&call.session, &request.get_ref().group)?;
        let nodes = self.nodes().clone();
        let gone = not_a_member(&group, &node);
        let member = self.member(&call.session, &group)?;
        let mut members = self.agent.group_members.watch(&node, member.gn);
        let wakes = members.clone();
        let poll = move || {
            let stays = nodes.read(&node, |agent| {
                agent.membership(&group, &process).is_some_and(|held| held.member == member)
            });
            if stays != Some(true) {
                return Err(gone.clone());
            }
            Ok(members.borrow_and_update().clone())
        };
        let known = changes(wakes, poll).filter_map(|members| match members {
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
        let owner = self.owner(&request)?;
        let mut requests = request.into_inner();
        let first = first_message(&mut requests, "session").await?;
        let call = self.agent.sessions.call(first.session, &owner)?;
        let group = permitted_group(&call.session, &first.group)?;
        let member = self.member(&call.session, &group)?;
        let node = &call.session.process.node;
        let messages = Messages(self.nodes().clone());
        let (handle, events) = messages.open_member(node, member.gn, member.pn)?;
        let session = Arc::clone(&call.session);
        let memory = ParticipantMemory::open(&self.agent.memories, &session, first.part);
        let gone = not_a_member(&group, node);
        let participant = Participant::new(Arc::clone(&session), group, handle, events, first.more);
        let participant = participant.with_memory(memory);
        // If the session has ended meanwhile, nobody else closes the member.
        if session.over.is_cancelled() {
            return Err(SessionError::Unknown.into());
        }
        let (sender, receiver) = mpsc::channel(1);
        let more = requests.map_while(Result::ok).map(|request| request.more);
        self.agent.runtime.tasks.spawn(participant.serve(more, sender));
        let events = ReceiverStream::new(receiver);
        Ok(Response::new(Box::pin(events.map(move |event| event.map_err(|_| gone.clone())))))
    }

    type OpenDirectPathStream = AnswerStream<v1::OpenDirectPathResponse>;

    async fn open_direct_path(
        &self,
        request: Request<Streaming<v1::OpenDirectPathRequest>>,
    ) -> Result<Response<Self::OpenDirectPathStream>, Status> {
        let owner = self.owner(&request)?;
        let mut requests = request.into_inner();
        let first = first_message(&mut requests, "session").await?;
        let call = self.agent.sessions.call(first.session, &owner)?;
        let group = permitted_group(&call.session, &first.group)?;
        let node = &call.session.process.node;
        if !self.agent.direct_hosts.contains_key(node) {
            let text = format!("node '{node}' offers processes no direct path");
            return Err(Reason::NoDirectPath.status(text, &[("node", node.as_str())]));
        }
        let MemberRecord { gn, pn, .. } = self.member(&call.session, &group)?;
        // A tree that the program does not know would make it acknowledge what others lack.
        if !first.knows_trees && !has_default_tree(self.nodes(), node, MemberId { gn, pn }) {
            let text = format!("group '{group}' has a tree that this program does not know");
            return Err(Reason::NoDirectPath.status(text, &[("node", node.as_str())]));
        }
        let (path, responses) = DirectPath::open(self.nodes(), node, MemberId { gn, pn })?;
        info!(%node, process = %call.session.process.process, group = %group, "direct path opened");
        let (session, gone) = (Arc::clone(&call.session), not_a_member(&group, node));
        let requests = tokio_stream::once(first).chain(requests.map_while(Result::ok));
        let (sender, end) = mpsc::channel(1);
        self.agent.runtime.tasks.spawn(async move {
            let served = path.serve(session, requests).await;
            drop(path); // ends the responses
            let _ = sender.send(Err(served.err().map_or(gone, Status::from))).await;
        });
        let end = ReceiverStream::new(end);
        Ok(Response::new(Box::pin(
            ReceiverStream::new(responses).map(|waiting| Ok(waiting.message)).chain(end),
        )))
    }

    async fn list_participants(
        &self,
        request: Request<v1::ListParticipantsRequest>,
    ) -> Result<Response<v1::ListParticipantsResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let handle = self.open_member(&call.session, &request.get_ref().group)?;
        let pns = handle.roster().iter().map(|pn| pn.0).collect();
        let participants = Some(v1::Participants { pns });
        Ok(Response::new(v1::ListParticipantsResponse { participants }))
    }

    async fn send_message(
        &self,
        request: Request<v1::SendMessageRequest>,
    ) -> Result<Response<v1::SendMessageResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let call_memory = CallMemory::of(request.extensions());
        let request = request.into_inner();
        let handle = self.open_member(&call.session, &request.group)?;
        let shared = call.session.read_shared("shared_payload", request.shared_payload)?;
        call_memory.charge(shared.as_ref().map_or(0, Vec::len))?;
        if shared.is_some() && !request.payload.is_empty() {
            let what = "shared_payload: payload is given, too";
            return Err(SharingError::range_invalid("shared_payload", what).into());
        }
        let mode = if request.best_effort { Mode::BestEffort } else { Mode::Reliable };
        drop(call); // the session's end closes the member, and need not wait for this
        let unknown = handle.send(mode, &shared.unwrap_or(request.payload)).await?;
        let unknown_pns = unknown.into_iter().map(|pn| pn.0).collect();
        Ok(Response::new(v1::SendMessageResponse { unknown_pns }))
    }

    async fn run_operation(
        &self,
        request: Request<v1::RunOperationRequest>,
    ) -> Result<Response<v1::RunOperationResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let call_memory = CallMemory::of(request.extensions());
        let request = request.into_inner();
        let handle = self.open_member(&call.session, &request.group)?;
        let shared = call.session.read_shared("shared_operation", request.shared_operation)?;
        let wire = match (shared, request.operation) {
            (None, operation) => operation,
            (Some(_), Some(_)) => {
                let what = "shared_operation: operation is given, too";
                return Err(SharingError::range_invalid("shared_operation", what).into());
            }
            (Some(bytes), None) => Some(decode_shared(&call_memory, &bytes)?),
        };
        let (operation, terms) = decode_operation(wire)?;
        let memory = call.session.shared();
        drop(call); // as above
        let Ended { participants, answer, longest, by_switches } =
            handle.operate(&operation, terms).await?;
        let result = encode_operation_result(&participants, answer, longest);
        let result = v1::OperationResult { by_switches, ..result };
        let lend =
            |memory: Arc<Shared>| memory.lend(&self.agent.memories, None, &result.encode_to_vec());
        Ok(Response::new(match memory.and_then(lend) {
            Some(range) => v1::RunOperationResponse { result: None, shared_result: Some(range) },
            None => v1::RunOperationResponse { result: Some(result), shared_result: None },
        }))
    }

    async fn request_switch_tree(
        &self,
        request: Request<v1::ProcessServiceRequestSwitchTreeRequest>,
    ) -> Result<Response<v1::ProcessServiceRequestSwitchTreeResponse>, Status> {
        let call = self.session(&request, request.get_ref().session)?;
        let group = permitted_group(&call.session, &request.get_ref().group)?;
        self.member(&call.session, &group)?;
        let ProcessId { node, process } = call.session.process.clone();
        drop(call); // as above
        let channels = &self.agent.runtime.channels;
        if channels.fabric().is_none() {
            let text = format!("node '{node}' is on no fabric whose switches combine");
            return Err(Reason::NoAggregation.status(text, &[("node", node.as_str())]));
        }
        let request = v1::RequestSwitchTreeRequest {
            group: group.to_string(),
            node: node.to_string(),
            process: process.to_string(),
        };
        let answer = self.ask_for_tree(&group, request).await.map_err(tic_refusal)?;
        let collective = answer.collective.unwrap_or_default();
        let max_bytes = switch_bytes(&collective);
        let collective = collective.name;
        info!(%node, %process, group = %group, collective, max_bytes, "switch tree granted");
        Ok(Response::new(v1::ProcessServiceRequestSwitchTreeResponse { collective, max_bytes }))
    }
}

/// Decodes an operation that a process has written to its shared memory.
fn decode_shared(memory: &CallMemory, bytes: &[u8]) -> Result<v1::GroupOperation, Status> {
    let refused = |error: &str| {
        let what = format!("shared_operation: {error}");
        Status::from(SharingError::range_invalid("shared_operation", what))
    };
    memory.charge_message("fabricast.v1.GroupOperation", bytes).map_err(|status| {
        let is_unreadable = Reason::RequestUnreadable.is_of(&status);
        if is_unreadable { refused(status.message()) } else { status }
    })?;
    v1::GroupOperation::decode(bytes).map_err(|error| refused(&error.to_string()))
}

/// Returns whether a member's tree is known to be the one that every program knows.
fn has_default_tree(nodes: &Nodes, node: &NodeName, member: MemberId) -> bool {
    let MemberId { gn, pn } = member;
    let tree = |agent: &Oa| Some(agent.member(gn, pn)?.position.as_ref()?.tree);
    nodes.read(node, tree).flatten().is_some_and(|tree| tree.is_default())
}

#[cfg(test)]
mod tests;
