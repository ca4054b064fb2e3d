//! Carries out what the state machines want: one task per call, its answer fed back as an input.
//!
//! A call that fails is simply dropped: the state machine asks again until it is answered, and a
//! repetition while the call is still out is dropped too. So there is at most one call for every
//! question that the state machines have open (`questions.rs`), besides probes and good-byes, which
//! end at their deadline.

use std::time::Duration;

use fabricast_group::{Hosts, MESSAGE_LIMIT, wire};
use fabricast_groups::agent::GaOutput;
use fabricast_groups::command::RegisterNode;
use fabricast_groups::directory::GroupSnapshot;
use fabricast_groups::ids::{Epoch, Gn, Incarnation};
use fabricast_groups::message::{AgentRefusal, Deregister, Register};
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::OaOutput;
use fabricast_proto::v1;
use fabricast_proto::v1::group_agent_service_client::GroupAgentServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{LeaderChannel, Peer, Reason, reason_of};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tracing::debug;

use crate::host::{Effect, Host};
use crate::questions::Question;
use crate::requests::Many;
use crate::tic_wire::{self, Verdict};

/// Hints that a group changed are gathered for this long before it is fetched.
const GATHER: Duration = Duration::from_millis(5);

impl Host {
    /// Starts whatever the effects ask for; returns at once.
    pub(crate) fn carry_out(&self, effects: Vec<Effect>) {
        let mut positions = Vec::new();
        let mut questions = Many::default();
        for effect in effects {
            match effect {
                Effect::Group(_, GaOutput::Position { address, update }) => {
                    positions.push((address.to_string(), wire::position_to_wire(&update)));
                }
                Effect::Group(node, output) => self.spawn(|host| host.group(node, output)),
                Effect::Operating(node, OaOutput::Join(id, join)) => {
                    questions.joins.push((node, id, join));
                }
                Effect::Operating(node, OaOutput::Leave(id, leave)) => {
                    questions.leaves.push((node, id, leave));
                }
                Effect::Operating(node, output) => {
                    self.spawn(|host| host.operating(node, output));
                }
            }
        }
        self.put(questions);
        self.push(positions);
    }

    /// Runs a task until it is done or the process stops.
    pub(crate) fn spawn<F>(&self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (work, stop) = (work(self.clone()), self.0.stop.clone());
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
        });
    }

    /// A client of the TIC.
    pub(crate) fn tic(&self) -> TicServiceClient<LeaderChannel> {
        TicServiceClient::new(self.0.tic.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// A client of the group agents of another process.
    pub(crate) fn agents_at(&self, peer: &Peer) -> GroupAgentServiceClient<Channel> {
        GroupAgentServiceClient::new(peer.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// A client of the operating agents of another process.
    pub(crate) fn agent_at(&self, peer: &Peer) -> OperatingAgentServiceClient<Channel> {
        OperatingAgentServiceClient::new(peer.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    async fn operating(self, node: NodeName, output: OaOutput) {
        match output {
            OaOutput::RegisterNode(announced) => self.register_node(node, announced).await,
            OaOutput::FetchGroup(gn) => self.fetch_for_member(node, gn).await,
            OaOutput::RegisterMember { agent, address, register } => {
                self.register_member(node, agent, address, register).await;
            }
            OaOutput::DeregisterMember { agent, address, deregister } => {
                self.say_good_bye(agent, address, deregister).await;
            }
            // These go in batches, or stay in the process and are dealt with where they are drained.
            OaOutput::Join(..)
            | OaOutput::Leave(..)
            | OaOutput::Answered(..)
            | OaOutput::Ended(_)
            | OaOutput::Up(_)
            | OaOutput::Down(_)
            | OaOutput::NodeRefused(_) => {}
        }
    }

    async fn group(self, node: NodeName, output: GaOutput) {
        match output {
            GaOutput::Probe { node: peer, address, probe } => {
                self.probe(node, peer, address, probe).await;
            }
            GaOutput::NodeFailed { node: failed, incarnation } => {
                self.report_failure(node, failed, incarnation).await;
            }
            GaOutput::Refresh { gn } => self.fetch_for_agent(node, gn).await,
            // Positions go through the outbox.
            GaOutput::Position { .. } => {}
        }
    }

    async fn register_node(&self, node: NodeName, announced: RegisterNode) {
        let request = tic_wire::register_request(&announced);
        let question = Question::Admission(node.clone(), announced.start_id);
        let asked = self.ask(question, self.tic().register_node(request)).await;
        let Some(answer) = asked else { return };
        let answer = match answer {
            Ok(answer) => tic_wire::registered(&announced, answer.into_inner()),
            Err(status) => Err(status),
        };
        match answer {
            Ok(record) => {
                self.input(&node, |agent, now| agent.registered(now, Ok(record)));
            }
            Err(status) => {
                debug!(member = %node, error = %status.message(), "node not registered");
                if let Verdict::Final(refusal) = tic_wire::verdict(&node, &status) {
                    self.input(&node, |agent, now| agent.registered(now, Err(refusal)));
                }
            }
        }
    }

    /// The group as the TIC records it; `Ok(None)` if there is none.
    ///
    /// - `node`: only its members are wanted; `None` means all.
    async fn fetch(
        &self,
        gn: Gn,
        node: Option<&NodeName>,
    ) -> Result<Option<GroupSnapshot>, Status> {
        let members_on_node = node.map_or_else(String::new, ToString::to_string);
        let request =
            v1::GetGroupRequest { gn: gn.0, members_on_node, ..v1::GetGroupRequest::default() };
        match self.tic().get_group(request).await {
            Ok(answer) => wire::snapshot(answer.get_ref()).map(Some),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn fetch_for_member(&self, node: NodeName, gn: Gn) {
        let question = Question::MemberGroup(node.clone(), gn);
        let Some(answer) = self.ask(question, self.fetch(gn, Some(&node))).await else { return };
        match answer {
            Ok(Some(snapshot)) => {
                self.input(&node, |agent, now| agent.group(now, &snapshot));
            }
            Ok(None) => {
                self.input(&node, |agent, _now| agent.no_group(gn));
            }
            Err(status) => debug!(group = gn.0, error = %status.message(), "group not fetched"),
        }
    }

    async fn fetch_for_agent(&self, node: NodeName, gn: Gn) {
        let gathered = async {
            tokio::time::sleep(GATHER).await;
            self.fetch(gn, None).await
        };
        let question = Question::AgentGroup(node.clone(), gn);
        let Some(answer) = self.ask(question, gathered).await else { return };
        match answer {
            Ok(Some(snapshot)) => {
                self.with_agents(&node, |agents, now| agents.snapshot(now, &snapshot));
            }
            Ok(None) => {
                self.with_agents(&node, |agents, _now| agents.gone(gn));
            }
            Err(status) => debug!(group = gn.0, error = %status.message(), "group not fetched"),
        }
    }

    async fn register_member(
        &self,
        node: NodeName,
        agent: NodeName,
        address: Address,
        register: Register,
    ) {
        let (gn, pn) = (register.gn, register.member.member.pn);
        let Ok(peer) = self.peer(address.as_str()) else { return };
        let request = v1::RegisterMemberRequest {
            agent_node: agent.to_string(),
            gn: gn.0,
            epoch: register.epoch.0,
            member: Some(wire::member_to_wire(&register.member)),
        };
        let life = register.member.incarnation;
        let question = Question::Place(node.clone(), life, gn, pn, register.epoch, address);
        let mut client = self.agents_at(&peer);
        let Some(answer) = self.ask(question, client.register_member(request)).await else {
            return;
        };
        let answer = match answer {
            Ok(answer) => answer.into_inner().position.map(|held| wire::read_position(&held)),
            Err(status) => Some(Err(status)),
        };
        let answer = match answer {
            Some(Ok(position)) => Ok(position),
            Some(Err(status)) => match registration_refusal(&register, &status) {
                Some(refusal) => Err(refusal),
                None => return,
            },
            None => return,
        };
        self.input(&node, |agent, now| agent.member_registered(now, gn, pn, answer));
    }

    async fn say_good_bye(&self, agent: NodeName, address: Address, deregister: Deregister) {
        let Ok(peer) = self.peer(address.as_str()) else { return };
        let request = v1::DeregisterMemberRequest {
            agent_node: agent.to_string(),
            gn: deregister.gn.0,
            epoch: deregister.epoch.0,
            pn: deregister.pn.0,
            node: deregister.node.to_string(),
        };
        let said = self.agents_at(&peer).deregister_member(request).await;
        if let Err(status) = said {
            debug!(group = deregister.gn.0, error = %status.message(), "good-bye not heard");
        }
    }

    async fn probe(&self, node: NodeName, peer: NodeName, address: Address, probe: u64) {
        let Ok(at) = self.peer(address.as_str()) else { return };
        let request = v1::ProbeNodeRequest { node: peer.to_string() };
        if let Ok(answer) = self.agent_at(&at).probe_node(request).await {
            let incarnation = Incarnation(answer.into_inner().incarnation);
            self.with_agents(&node, |agents, now| {
                agents.probe_answered(now, &peer, incarnation, probe);
            });
        }
    }

    async fn report_failure(&self, node: NodeName, failed: NodeName, incarnation: Incarnation) {
        let request = v1::ReportNodeFailureRequest {
            node: failed.to_string(),
            incarnation: incarnation.0,
            reporter: format!("group agents on {node}"),
        };
        let question = Question::Failure(node, failed.clone(), incarnation);
        let asked = self.ask(question, self.tic().report_node_failure(request)).await;
        if let Some(Err(status)) = asked {
            debug!(member = %failed, error = %status.message(), "failure not reported");
        }
    }
}

/// What an agent's refusal says; `None` if it did not answer at all.
fn registration_refusal(register: &Register, status: &Status) -> Option<AgentRefusal> {
    let (gn, epoch) = (register.gn, register.epoch);
    let reason = reason_of(status)?;
    if reason == Reason::StaleEpoch.text() {
        return Some(AgentRefusal::StaleEpoch { gn, given: epoch, known: Epoch(epoch.0 + 1) });
    }
    if reason == Reason::NotAMember.text() {
        return Some(AgentRefusal::UnknownMember { gn, pn: register.member.member.pn });
    }
    (reason == Reason::NotHostedHere.text()).then_some(AgentRefusal::NotHosted { gn, epoch })
}
