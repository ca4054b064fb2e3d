//! The hosted nodes' state machines and their deadlines, as one value behind the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::agent::{GaConfig, GaHost, GaOutput};
use fabricast_groups::ids::{Incarnation, Moment};
use fabricast_groups::message::OaReport;
use fabricast_groups::names::{EndpointName, NodeName};
use fabricast_groups::operating::{Identity, Oa, OaConfig, OaOutput};
use fabricast_groups::voucher::VoucherSeed;
use fabricast_telemetry::metrics::{AGENT_ADMISSIONS, AGENT_DOWNS};
use tracing::{debug, info, warn};

use super::adapters::Adapters;
use super::effect::{Effect, Requester};
use super::messages::NodeMessages;
use crate::fabric::packets::PacketSender;

/// Nodes of a process above which `node up` is logged at the level debug, as it would fill the log.
const MANY_NODES: usize = 64;

/// The state machines of one node.
#[derive(Debug)]
pub(crate) struct HostedNode {
    pub(crate) operating: Oa,
    /// The group agents hosted on the node; `None` while the node is not up.
    pub(crate) agents: Option<GaHost>,
    pub(crate) messages: NodeMessages,
    /// All group agents of its members are in this process and need no report, unless its operating
    /// agent has an input or one of them asks.
    pub(super) is_exempt: bool,
    /// The node's entry in [`State::deadlines`].
    scheduled: Option<Moment>,
}

/// All nodes hosted by this process.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) nodes: BTreeMap<NodeName, Box<HostedNode>>, // boxed: map nodes are half empty
    pub(crate) endpoint_owners: BTreeMap<EndpointName, NodeName>,
    /// For the group agents of nodes that come up.
    pub(crate) group_config: GaConfig,
    pub(super) packets: PacketSender,
    /// Next deadline of each node, except for nodes in `rescheduled`.
    deadlines: BTreeSet<(Moment, NodeName)>,
    /// Nodes that had an input since deadlines were last looked at.
    pub(crate) rescheduled: BTreeSet<NodeName>,
    /// Nodes whose message layer has a deadline.
    pub(super) with_message_deadlines: BTreeSet<NodeName>,
}

/// Settings of the state machines when they are created.
#[derive(Debug)]
pub(crate) struct NodeSettings {
    pub(crate) nodes: Vec<Identity>,
    pub(crate) operating_config: OaConfig,
    pub(crate) group_config: GaConfig,
    /// Greater than at any earlier start of these nodes.
    pub(crate) start_id: u64,
    /// Random number that nobody else knows.
    pub(crate) voucher_seed: VoucherSeed,
    /// `None` if endpoints are attached to an emulated fabric.
    pub(crate) adapters: Option<Arc<Adapters>>,
}

fn log_up(node: &NodeName, incarnation: Incarnation, is_one_of_many: bool) {
    if is_one_of_many {
        debug!(%node, incarnation = incarnation.0, "node up");
    } else {
        info!(%node, incarnation = incarnation.0, "node up");
    }
}

impl HostedNode {
    fn next_deadline(&self) -> Option<Moment> {
        let agents = self.agents.as_ref().and_then(GaHost::next_deadline);
        self.operating.next_deadline().into_iter().chain(agents).min()
    }
}

impl State {
    pub(super) fn new(settings: NodeSettings, packets: PacketSender) -> Self {
        let NodeSettings {
            nodes: identities,
            operating_config,
            group_config,
            start_id,
            voucher_seed,
            adapters,
        } = settings;
        let mut nodes = BTreeMap::new();
        let mut endpoint_owners = BTreeMap::new();
        for identity in identities {
            let node = identity.node.clone();
            for endpoint in &identity.endpoints {
                endpoint_owners.insert(endpoint.clone(), node.clone());
            }
            let operating = Oa::new(Moment(0), identity, start_id, voucher_seed, operating_config);
            let messages = NodeMessages::new(node.clone(), adapters.clone());
            let hosted =
                HostedNode { operating, agents: None, messages, is_exempt: false, scheduled: None };
            nodes.insert(node, Box::new(hosted));
        }
        Self {
            nodes,
            endpoint_owners,
            group_config,
            packets,
            deadlines: BTreeSet::new(),
            rescheduled: BTreeSet::new(),
            with_message_deadlines: BTreeSet::new(),
        }
    }

    /// Takes the outputs of one node after an input. Those that concern only this process are dealt
    /// with here, the others become effects.
    pub(super) fn drain(&mut self, node: &NodeName, now: Moment, effects: &mut Vec<Effect>) {
        self.rescheduled.insert(node.clone());
        let is_one_of_many = self.nodes.len() > MANY_NODES;
        let Some(hosted) = self.nodes.get_mut(node) else { return };
        hosted.is_exempt = false;
        let mut is_down = false;
        let (mut former_members, mut former_agents) = (Vec::new(), Vec::new());
        while let Some(output) = hosted.operating.poll_output() {
            let node = node.clone();
            effects.push(match output {
                OaOutput::Up(incarnation) => {
                    log_up(&node, incarnation, is_one_of_many);
                    AGENT_ADMISSIONS.inc();
                    let key = hosted.operating.voucher_key();
                    hosted.agents = Some(GaHost::new(node, incarnation, key, self.group_config));
                    continue;
                }
                OaOutput::Down(incarnation) => {
                    info!(%node, incarnation = incarnation.0, "node down");
                    AGENT_DOWNS.inc();
                    let agents = hosted.agents.take();
                    former_members.extend(agents.iter().flat_map(GaHost::exempt_nodes).cloned());
                    is_down = true;
                    continue;
                }
                OaOutput::Ended(memberships) => {
                    for ended in memberships {
                        info!(%node, group = %ended.group, "membership ended");
                        former_agents.push(ended.agent);
                    }
                    continue;
                }
                OaOutput::NodeRefused(refusal) => {
                    warn!(%node, error = %refusal, "node refused by the TIC");
                    continue;
                }
                OaOutput::RegisterNode(request) => Effect::RegisterNode { node, request },
                OaOutput::Join(id, join) => Effect::Join { node, id, join },
                OaOutput::Leave(id, leave) => Effect::Leave { node, id, leave },
                OaOutput::Answered(id, answer) => Effect::EndCall { node, id, answer },
                OaOutput::FetchGroup(gn) => {
                    Effect::FetchGroup { node, gn, requester: Requester::OperatingAgent }
                }
                OaOutput::RegisterMember { agent, address, register } => {
                    Effect::RegisterMember { node, agent, address, register }
                }
                OaOutput::DeregisterMember { agent, address, deregister } => {
                    Effect::DeregisterMember { agent, address, deregister }
                }
            });
        }
        self.ask_for_reports(former_members);
        self.watch_from(former_agents, node, now);
        self.drain_agents(node, now, effects);
        self.follow_node(node, is_down, now, effects);
    }

    /// Has nodes report once more.
    fn ask_for_reports(&mut self, nodes: impl IntoIterator<Item = NodeName>) {
        for node in nodes {
            if let Some(hosted) = self.nodes.get_mut(&node) {
                hosted.is_exempt = false;
            }
        }
    }

    /// Has group agents of this process watch a node that they need not have watched before.
    ///
    /// - `agents`: their nodes.
    fn watch_from(&mut self, agents: Vec<NodeName>, node: &NodeName, now: Moment) {
        for agent in agents {
            let hosted = self.nodes.get_mut(&agent);
            if let Some(host) = hosted.and_then(|hosted| hosted.agents.as_mut()) {
                host.expect_reports(now, node);
                self.rescheduled.insert(agent);
            }
        }
    }

    /// Hands a report to group agents and their answer to the reporting node. Returns whether they
    /// need no further one; `None` if they are not hosted here. Their outputs are still to be
    /// drained.
    pub(super) fn report_here(
        &mut self,
        agent: &NodeName,
        report: &OaReport,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) -> Option<bool> {
        let agents = self.nodes.get_mut(agent)?.agents.as_mut()?;
        let reply = agents.report(now, report);
        let is_exempt = agents.exempt(now, report);
        if let Some(hosted) = self.nodes.get_mut(&report.node) {
            hosted.operating.report_answered(now, agent, &reply);
            if !reply.is_empty() {
                self.drain(&report.node, now, effects);
            }
        }
        Some(is_exempt)
    }

    /// Takes the outputs of the group agents of one node after an input to them only.
    pub(super) fn drain_agents(&mut self, node: &NodeName, now: Moment, effects: &mut Vec<Effect>) {
        self.rescheduled.insert(node.clone());
        if let Some(agents) = self.nodes.get_mut(node).and_then(|hosted| hosted.agents.as_mut()) {
            while let Some(output) = agents.poll_output(now) {
                let node = node.clone();
                effects.push(match output {
                    GaOutput::Position { address, update } => {
                        Effect::SendPosition { agent: node, address, update }
                    }
                    GaOutput::Refresh { gn } => {
                        Effect::FetchGroup { node, gn, requester: Requester::GroupAgent }
                    }
                    GaOutput::Probe { node: peer, address, probe } => {
                        Effect::Probe { node, peer, address, probe }
                    }
                    GaOutput::NodeFailed { node: failed, incarnation } => {
                        Effect::ReportFailure { node, failed, incarnation }
                    }
                });
            }
            let asked = agents.take_asked();
            self.ask_for_reports(asked);
        }
    }

    /// The earliest deadline of any state machine, as far as is known.
    pub(super) fn next_deadline(&mut self) -> Option<Moment> {
        self.reschedule();
        let nodes = self.with_message_deadlines.iter().filter_map(|node| self.nodes.get(node));
        let messages = nodes.filter_map(|hosted| hosted.messages.next_deadline());
        messages.chain(self.deadlines.first().map(|(due, _)| *due)).min()
    }

    /// Takes the nodes whose operating or group agents are due. Costs as much as there are nodes
    /// that are due or had an input, however many are hosted.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<NodeName> {
        self.reschedule();
        let mut names = Vec::new();
        while self.deadlines.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, name)) = self.deadlines.pop_first()
        {
            if let Some(hosted) = self.nodes.get_mut(&name) {
                hosted.scheduled = None;
            }
            names.push(name);
        }
        names
    }

    /// Brings the deadlines of the nodes that had an input up to date.
    fn reschedule(&mut self) {
        for name in std::mem::take(&mut self.rescheduled) {
            let Some(hosted) = self.nodes.get_mut(&name) else { continue };
            // A deadline that was put off leaves the node where it is: most are put off by reports
            // long before they are due.
            let Some(next) = hosted.next_deadline() else { continue };
            if hosted.scheduled.is_some_and(|due| due <= next) {
                continue;
            }
            if let Some(due) = hosted.scheduled.replace(next) {
                self.deadlines.remove(&(due, name.clone()));
            }
            self.deadlines.insert((next, name));
        }
    }
}
