//! Carries out what the state machines want: one task per call, its answer fed back as an input; what
//! there may be much of goes many in a call (`errands.rs`, `outbox.rs`, `requests.rs`).
//!
//! A call that fails is simply dropped: the state machine asks again until it is answered, and a
//! repetition while the call is still out is dropped too. So there is at most one call for every
//! question that the state machines have open (`questions.rs`), besides probes and good-byes, which
//! end at their deadline.

use fabricast_group::{Hosts, MESSAGE_LIMIT, wire};
use fabricast_groups::agent::GaOutput;
use fabricast_groups::ids::Incarnation;
use fabricast_groups::message::Deregister;
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::OaOutput;
use fabricast_proto::v1;
use fabricast_proto::v1::group_agent_service_client::GroupAgentServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Channel, LeaderChannel, Peer};
use tracing::debug;

use crate::errands::For;
use crate::host::{Effect, Host};
use crate::messages::MessageEffect;
use crate::questions::Question;
use crate::requests::Many;

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
                Effect::Group(node, GaOutput::Refresh { gn }) => {
                    self.fetch_soon(For::Agent, node, gn);
                }
                Effect::Group(node, output) => self.spawn(|host| host.group(node, output)),
                Effect::Operating(node, OaOutput::RegisterNode(announced)) => {
                    self.announce_soon(node, announced);
                }
                Effect::Operating(node, OaOutput::FetchGroup(gn)) => {
                    self.fetch_soon(For::Members, node, gn);
                }
                Effect::Operating(node, OaOutput::RegisterMember { agent, address, register }) => {
                    self.register_soon(node, &agent, address, &register);
                }
                Effect::Message(MessageEffect::Packets(packets)) => {
                    // What the fabric does not take comes over the tree.
                    let _ = self.send_packets(packets);
                }
                Effect::Message(MessageEffect::Contribute(part)) => {
                    self.spawn(|host| host.contribute(*part));
                }
                Effect::Message(MessageEffect::Dial(node, peer, address)) => {
                    self.spawn(|host| host.dial(node, peer, address));
                }
                Effect::Operating(node, OaOutput::Join(id, join)) => {
                    questions.joins.push((node, id, join));
                }
                Effect::Operating(node, OaOutput::Leave(id, leave)) => {
                    questions.leaves.push((node, id, leave));
                }
                Effect::Operating(_, output) => {
                    self.spawn(|host| host.operating(output));
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

    async fn operating(self, output: OaOutput) {
        match output {
            OaOutput::DeregisterMember { agent, address, deregister } => {
                self.say_good_bye(agent, address, deregister).await;
            }
            // These go in batches, or stay in the process and are dealt with where they are drained.
            OaOutput::Join(..)
            | OaOutput::Leave(..)
            | OaOutput::FetchGroup(_)
            | OaOutput::RegisterNode(_)
            | OaOutput::RegisterMember { .. }
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
            // These go in batches.
            GaOutput::Refresh { .. } | GaOutput::Position { .. } => {}
        }
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
            probe_first: true,
        };
        let question = Question::Failure(node, failed.clone(), incarnation);
        let asked = self.ask(question, self.tic().report_node_failure(request)).await;
        if let Some(Err(status)) = asked {
            debug!(member = %failed, error = %status.message(), "failure not reported");
        }
    }
}
