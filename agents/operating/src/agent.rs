//! The subsystems of an operating agent process, and the way of effects to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fabricast_group::GroupAgentHost as _;
use fabricast_groups::names::NodeName;
use fabricast_proto::v1;
use fabricast_rpc::{Leader, Peer, Security};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::fabric::listeners::Listeners;
use crate::fabric::packets::PacketSender;
use crate::fabric::stream::FabricStream;
use crate::links::combining::Combining;
use crate::links::streams::{Ends, Streams};
use crate::nodes::effect::{Effect, EffectHandler};
use crate::nodes::{NodeSettings, Nodes};
use crate::peers::member_registrations::MemberRegistrations;
use crate::peers::positions::{Positions, SentPosition};
use crate::peers::probes;
use crate::peers::reports::AgentReports;
use crate::processes::group_members::GroupMembers;
use crate::processes::memory::Memories;
use crate::processes::sessions::Sessions;
use crate::processes::user_rules::UserRules;
use crate::runtime::Runtime;
use crate::runtime::channels::Channels;
use crate::runtime::tasks::Tasks;
use crate::tic::group_fetches::GroupFetches;
use crate::tic::membership_calls::MembershipCalls;
use crate::tic::node_registrations::NodeRegistrations;
use crate::tic::reports::{Pace, TicReports};

/// A report is given up after two intervals, but not sooner than this.
const LEAST_REPORT_DEADLINE: Duration = Duration::from_secs(1);

/// The subsystems. Each owns its state; they meet in the nodes' state machines.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) runtime: Runtime,
    pub(crate) registrations: NodeRegistrations,
    pub(crate) fetches: GroupFetches,
    pub(crate) calls: MembershipCalls,
    pub(crate) tic_reports: TicReports,
    pub(crate) member_registrations: MemberRegistrations,
    pub(crate) positions: Positions,
    pub(crate) agent_reports: AgentReports,
    pub(crate) streams: Streams,
    pub(crate) combining: Combining,
    pub(crate) user_rules: UserRules,
    pub(crate) sessions: Sessions,
    pub(crate) group_members: GroupMembers,
    pub(crate) memories: Arc<Memories>,
    pub(crate) direct_hosts: BTreeMap<NodeName, String>,
    pub(crate) packets: PacketSender,
    pub(crate) listeners: Listeners,
}

/// Parts that an [`Agent`] is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) nodes: NodeSettings,
    pub(crate) tic: Leader,
    /// `None` if endpoints are real adapters.
    pub(crate) fabric: Option<Peer>,
    pub(crate) security: Security,
    pub(crate) user_rules: UserRules,
    pub(crate) memories: Memories,
    /// Addresses at which sockets of processes are reached, by node; only of nodes that offer them
    /// a direct path.
    pub(crate) direct_hosts: BTreeMap<NodeName, String>,
    /// Address where other agents reach this process, as `host:port`.
    pub(crate) address: String,
    pub(crate) packets: PacketSender,
}

impl Agent {
    /// Sets the subsystems up; nothing is sent before [`Agent::start`].
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts { nodes, tic, fabric, security, user_rules, memories, .. } = parts;
        let Parts { direct_hosts, address, packets, .. } = parts;
        let nodes = Nodes::new(nodes, packets.clone(), address);
        let channels = Channels::new(security, tic, fabric);
        let runtime = Runtime { nodes: nodes.clone(), tasks: Tasks::default(), channels };
        let calls = MembershipCalls::new(runtime.clone());
        Arc::new(Self {
            registrations: NodeRegistrations::new(runtime.clone()),
            fetches: GroupFetches::new(runtime.clone()),
            tic_reports: TicReports::new(runtime.clone()),
            member_registrations: MemberRegistrations::new(runtime.clone()),
            positions: Positions::new(runtime.clone()),
            agent_reports: AgentReports::new(runtime.clone()),
            streams: Streams { runtime: runtime.clone() },
            combining: Combining { runtime: runtime.clone() },
            user_rules,
            sessions: Sessions::new(runtime.clone(), calls.clone()),
            calls,
            group_members: GroupMembers::new(runtime.clone()),
            memories: Arc::new(memories),
            direct_hosts,
            listeners: Listeners::new(nodes),
            packets,
            runtime,
        })
    }

    /// Lets the nodes announce themselves, which needs a runtime of tokio.
    pub(crate) fn start(self: &Arc<Self>) {
        let handler: Weak<Self> = Arc::downgrade(self);
        self.runtime.nodes.start(handler);
    }

    pub(crate) fn fabric_stream(&self) -> FabricStream {
        FabricStream {
            runtime: self.runtime.clone(),
            packets: self.packets.clone(),
            listeners: self.listeners.clone(),
        }
    }

    /// Sends signs of life to the agents of the members' groups and to the TIC, forever.
    ///
    /// - `interval`: may change; the next report comes after the new one.
    pub(crate) async fn report(&self, mut interval: watch::Receiver<Duration>) {
        let ticking = |every: Duration| {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            (ticks, Pace { interval: every, deadline: (every * 2).max(LEAST_REPORT_DEADLINE) })
        };
        let (mut ticks, mut pace) = ticking(*interval.borrow_and_update());
        for round in 0.. {
            tokio::select! {
                _ = ticks.tick() => {}
                Ok(()) = interval.changed() => {
                    (ticks, pace) = ticking(*interval.borrow_and_update());
                }
            }
            self.agent_reports.report_all(pace.deadline).await;
            self.tic_reports.report_status(round, pace);
        }
    }

    /// Serves the stream to the fabric, forever.
    ///
    /// - `messages`: from [`PacketSender::new`].
    pub(crate) async fn serve_fabric(&self, messages: mpsc::Receiver<v1::AttachEndpointsRequest>) {
        self.fabric_stream().run(messages).await;
    }
}

impl EffectHandler for Agent {
    fn handle(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::RegisterNode { node, request } => {
                    self.registrations.register(node, request)
                }
                Effect::Join { node, id, join } => self.calls.send_join(node, id, join),
                Effect::Leave { node, id, leave } => self.calls.send_leave(node, id, leave),
                Effect::EndCall { node, id, answer } => self.calls.end_call(node, id, answer),
                Effect::FetchGroup { node, gn, requester } => {
                    self.fetches.fetch(requester, node, gn);
                }
                Effect::ReportFailure { node, failed, incarnation } => {
                    self.tic_reports.report_failure(node, failed, incarnation);
                }
                Effect::RegisterMember { node, agent, address, register } => {
                    self.member_registrations.register(node, &agent, address, &register);
                }
                Effect::DeregisterMember { agent, address, deregister } => {
                    probes::deregister(&self.runtime, &agent, &address, &deregister);
                }
                Effect::SendPosition { agent, address, update } => {
                    self.runtime.nodes.watchers().changed(update.gn);
                    self.positions.send(address, SentPosition { agent, update });
                }
                Effect::Probe { node, peer, address, probe } => {
                    probes::probe(&self.runtime, node, peer, &address, probe);
                }
                Effect::OpenLink { node, peer, address } => {
                    self.streams.open(Ends { node, peer }, address);
                }
                Effect::Contribute(contribution) => self.combining.contribute(*contribution),
            }
        }
    }
}
