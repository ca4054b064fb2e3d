//! The hosted nodes: their state machines behind one lock, with a clock.
//!
//! Each input runs under the lock. Its outputs are drained before the lock is released, and handed
//! to the [`EffectHandler`] afterwards. The lock is never held over an await.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fabricast_group::{GroupAgentHost, Watchers};
use fabricast_groups::agent::{GaConfig, GaHost};
use fabricast_groups::ids::Moment;
use fabricast_groups::message::{OaReport, OaReportReply};
use fabricast_groups::names::{Address, EndpointName, NodeName};
use fabricast_groups::operating::{Oa, OaConfig, Phase};
use fabricast_messages::{Notice, Packet};
use fabricast_rpc::ScheduledClock;
use fabricast_topology::Mgid;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

pub(crate) mod adapters;
pub(crate) mod direct;
pub(crate) mod effect;
pub(crate) mod messages;
mod pump;
mod state;

use crate::fabric::packets::PacketSender;
use effect::{Effect, EffectHandler};
use messages::NodeMessages;
pub(crate) use state::NodeSettings;
use state::State;

/// The hosted nodes; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Nodes(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    clock: ScheduledClock,
    /// Notified after each input: it may have brought an earlier deadline.
    input: Notify,
    /// Set once, before the first input.
    handler: OnceLock<Weak<dyn EffectHandler>>,
    /// Members of processes that watch the groups hosted here.
    watchers: Watchers,
    /// Address where other agents reach this process, as `host:port`.
    address: String,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Nodes").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Nodes {
    pub(crate) fn new(settings: NodeSettings, packets: PacketSender, address: String) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State::new(settings, packets)),
            clock: ScheduledClock::default(),
            input: Notify::new(),
            handler: OnceLock::new(),
            watchers: Watchers::default(),
            address,
        }))
    }

    /// Sets the handler of effects, and hands it the first ones.
    pub(crate) fn start(&self, handler: Weak<dyn EffectHandler>) {
        assert!(self.0.handler.set(handler).is_ok(), "nodes are started once");
        let names = self.names();
        self.update(|state, now, effects| {
            names.iter().for_each(|node| state.drain(node, now, effects));
        });
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.clock.now().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn names(&self) -> Vec<NodeName> {
        self.state().nodes.keys().cloned().collect()
    }

    /// Reads one node's operating agent; `None` if the node is not hosted here.
    pub(crate) fn read<T>(&self, node: &NodeName, read: impl FnOnce(&Oa) -> T) -> Option<T> {
        self.state().nodes.get(node).map(|hosted| read(&hosted.operating))
    }

    /// Reads one node's group agents; `None` if the node is not hosted here or not up.
    pub(crate) fn read_agents<T>(
        &self,
        node: &NodeName,
        read: impl FnOnce(&GaHost) -> T,
    ) -> Option<T> {
        self.state().nodes.get(node)?.agents.as_ref().map(read)
    }

    /// Reads one node's message layer; `None` if the node is not hosted here.
    pub(crate) fn read_messages<T>(
        &self,
        node: &NodeName,
        read: impl FnOnce(&NodeMessages) -> T,
    ) -> Option<T> {
        self.state().nodes.get(node).map(|hosted| read(&hosted.messages))
    }

    /// Reads the operating agent of the node that owns an endpoint.
    pub(crate) fn read_owner<T>(
        &self,
        endpoint: &EndpointName,
        read: impl FnOnce(&Oa) -> T,
    ) -> Option<T> {
        let state = self.state();
        let owner = state.endpoint_owners.get(endpoint)?;
        state.nodes.get(owner).map(|hosted| read(&hosted.operating))
    }

    /// Reads all nodes in order.
    pub(crate) fn read_all(&self, mut read: impl FnMut(&NodeName, &Oa, &NodeMessages)) {
        for (node, hosted) in &self.state().nodes {
            read(node, &hosted.operating, &hosted.messages);
        }
    }

    /// Endpoints of the nodes that are not stopped.
    pub(crate) fn live_endpoints(&self) -> Vec<String> {
        let mut live = Vec::new();
        self.read_all(|_, agent, _| {
            if agent.phase() != Phase::Stopped {
                live.extend(agent.identity().endpoints.iter().map(ToString::to_string));
            }
        });
        live
    }

    /// Gives one node's operating agent an input; `None` if the node is not hosted here.
    pub(crate) fn input<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&mut Oa, Moment) -> T,
    ) -> Option<T> {
        self.update(|state, now, effects| {
            let answer = work(&mut state.nodes.get_mut(node)?.operating, now);
            state.drain(node, now, effects);
            Some(answer)
        })
    }

    /// Gives operating agents many inputs at once, so that their effects are handled together;
    /// `None` for a node that is not hosted here.
    pub(crate) fn input_many<I, T>(
        &self,
        inputs: Vec<(NodeName, I)>,
        mut work: impl FnMut(&NodeName, &mut Oa, Moment, I) -> T,
    ) -> Vec<Option<T>> {
        self.update(|state, now, effects| {
            let mut changed = BTreeSet::new();
            let mut answers = Vec::with_capacity(inputs.len());
            for (node, input) in inputs {
                let hosted = state.nodes.get_mut(&node);
                answers.push(hosted.map(|hosted| work(&node, &mut hosted.operating, now, input)));
                changed.insert(node);
            }
            changed.iter().for_each(|node| state.drain(node, now, effects));
            answers
        })
    }

    /// Hands the reports of some nodes to the group agents that are hosted here, too, and returns
    /// those to others: the node of the group agents, their address and the report. Most nodes of a
    /// process that hosts them all are exempt and cost next to nothing.
    pub(crate) fn report(&self, nodes: &[NodeName]) -> Vec<(NodeName, Address, OaReport)> {
        self.update(|state, now, effects| {
            let mut others = Vec::new();
            let mut agents = BTreeSet::new(); // nodes whose group agents have taken reports
            for node in nodes {
                let Some(hosted) = state.nodes.get_mut(node) else { continue };
                if hosted.is_exempt {
                    continue;
                }
                state.rescheduled.insert(node.clone());
                let mut is_exempt = true;
                for (agent, address, report) in hosted.operating.reports(now) {
                    if address.as_str() != self.0.address {
                        is_exempt = false;
                        others.push((agent, address, report));
                        continue;
                    }
                    let answer = state.report_here(&agent, &report, now, effects);
                    is_exempt &= answer == Some(true);
                    agents.extend(answer.map(|_| agent));
                }
                if let Some(hosted) = state.nodes.get_mut(node) {
                    hosted.is_exempt = is_exempt;
                }
            }
            agents.iter().for_each(|agent| state.drain_agents(agent, now, effects));
            others
        })
    }

    /// Gives operating agents the answers to their reports: the node, the node of the group agents,
    /// and the answer. Almost all answers are empty and cost next to nothing.
    pub(crate) fn reports_answered<'a>(
        &self,
        answers: impl Iterator<Item = (&'a NodeName, &'a NodeName, OaReportReply)>,
    ) {
        self.update(|state, now, effects| {
            for (node, agent, reply) in answers {
                let Some(hosted) = state.nodes.get_mut(node) else { continue };
                hosted.operating.report_answered(now, agent, &reply);
                if !reply.is_empty() {
                    state.drain(node, now, effects);
                }
            }
        });
    }

    /// Gives one node's message layer an input; `None` if the node is not hosted here.
    pub(crate) fn messages<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&mut NodeMessages, &Oa, Moment) -> T,
    ) -> Option<T> {
        self.update(|state, now, effects| {
            let hosted = state.nodes.get_mut(node)?;
            let answer = work(&mut hosted.messages, &hosted.operating, now);
            state.pump(node, now, effects);
            Some(answer)
        })
    }

    /// Gives a packet that came in at an endpoint to the message layer, if it is one of its own.
    ///
    /// Returns false if the packet is for processes.
    pub(crate) fn message_packet(&self, endpoint: &str, mgid: Mgid, payload: &[u8]) -> bool {
        let Ok(Some(packet)) = Packet::decode(payload) else { return false };
        let Ok(endpoint) = EndpointName::new(endpoint) else { return true };
        self.update(|state, now, effects| {
            let Some(node) = state.endpoint_owners.get(&endpoint).cloned() else { return };
            let Some(hosted) = state.nodes.get_mut(&node) else { return };
            let members = hosted.operating.accepts(mgid, &endpoint).map(|held| &held.member);
            for member in members.filter(|member| member.gn == packet.gn) {
                let is_own =
                    matches!(&packet.notice, Notice::Part(part) if part.source.pn == member.pn);
                if !is_own {
                    hosted.messages.layer.packet(now, member.pn, &packet);
                }
            }
            state.pump(&node, now, effects);
        });
        true
    }

    /// Replaces the settings of all state machines; what is watched gets its new time in full.
    pub(crate) fn reconfigure(&self, operating: OaConfig, group: GaConfig) {
        self.update(|state, now, _| {
            state.group_config = group;
            for (node, hosted) in &mut state.nodes {
                hosted.operating.reconfigure(operating);
                if let Some(agents) = &mut hosted.agents {
                    agents.reconfigure(now, group);
                }
                state.rescheduled.insert(node.clone());
            }
        });
    }

    /// Keeps time forever: ticks the state machines that are due.
    ///
    /// - `least`: deadlines are looked at no more often.
    /// - `most`: they are looked at this often even without a deadline, so that the clock goes on.
    pub(crate) async fn keep_time(&self, least: Duration, most: Duration) {
        loop {
            self.0.clock.tick();
            self.tick();
            tokio::time::sleep(least).await;
            let next = self.state().next_deadline();
            let rest = next.map_or(most, |next| next.since(self.now()).min(most));
            let wait = self.0.input.notified();
            let _ = tokio::time::timeout(rest.saturating_sub(least), wait).await;
        }
    }

    fn tick(&self) {
        // Without a notification: this is no input, and the next tick may be far.
        self.run(|state, now, effects| {
            for node in state.take_due(now) {
                if let Some(hosted) = state.nodes.get_mut(&node) {
                    hosted.operating.tick(now);
                    if let Some(agents) = &mut hosted.agents {
                        agents.tick(now);
                    }
                }
                state.drain(&node, now, effects);
            }
        });
        self.run(|state, now, effects| state.tick_messages(now, effects));
    }

    /// Runs an input: it may bring a deadline that comes sooner.
    fn update<T>(&self, work: impl FnOnce(&mut State, Moment, &mut Vec<Effect>) -> T) -> T {
        let answer = self.run(work);
        self.0.input.notify_one();
        answer
    }

    /// Runs work under the lock, then hands its effects on.
    fn run<T>(&self, work: impl FnOnce(&mut State, Moment, &mut Vec<Effect>) -> T) -> T {
        let now = self.now();
        let mut effects = Vec::new();
        let answer = work(&mut self.state(), now, &mut effects);
        if !effects.is_empty()
            && let Some(handler) = self.0.handler.get().and_then(Weak::upgrade)
        {
            handler.handle(effects);
        }
        answer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl GroupAgentHost for Nodes {
    fn with_agents<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&mut GaHost, Moment) -> T,
    ) -> Option<T> {
        self.update(|state, now, effects| {
            let answer = work(state.nodes.get_mut(node)?.agents.as_mut()?, now);
            state.drain_agents(node, now, effects);
            Some(answer)
        })
    }

    fn address(&self) -> &str {
        &self.0.address
    }

    fn watchers(&self) -> &Watchers {
        &self.0.watchers
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fabricast_groups::directory::{GroupSnapshot, MemberView};
    use fabricast_groups::ids::{Epoch, Gn, Incarnation, Pn, Revision};
    use fabricast_groups::names::{GroupName, ProcessName};
    use fabricast_groups::record::{GroupRecord, MemberRecord};

    use super::*;
    use crate::testing::{TestAgent, agent, agent_with_nodes};

    const GN: Gn = Gn(1);

    /// The TIC's snapshot of a group with a member on each node; its agent is at the first.
    fn snapshot(nodes: &[NodeName]) -> GroupSnapshot {
        let address = Address::new("127.0.0.1:1").unwrap();
        let view = |(node, pn): (&NodeName, u32)| MemberView {
            member: MemberRecord {
                gn: GN,
                pn: Pn(pn),
                node: node.clone(),
                process: ProcessName::new("p").unwrap(),
                endpoint: EndpointName::new(&format!("h{pn}")).unwrap(),
                joined: Revision(1),
                sends_only: false,
            },
            incarnation: Incarnation(1),
            address: address.clone(),
        };
        let group = GroupRecord {
            gn: GN,
            name: GroupName::new("g").unwrap(),
            mgid: Mgid(1),
            agent: nodes.first().cloned(),
            epoch: Epoch(1),
            members_revision: Revision(1),
            changed: Revision(1),
            persistent: false,
            exclusive: false,
            layer: None,
            job: None,
            expected: None,
            home: None,
            tree: Default::default(),
            created: Moment(0),
            route: None,
        };
        GroupSnapshot {
            revision: Revision(1),
            group,
            members: nodes.iter().zip(0..).map(view).collect(),
            agent_address: Some(address),
            vouchers: BTreeMap::new(),
        }
    }

    /// Two nodes that have reported to the agent of their group, at the first, all that there is.
    fn exempt_nodes() -> (TestAgent, [NodeName; 2]) {
        let test = agent_with_nodes(2);
        let (nodes, names) = (&test.agent.runtime.nodes, test.agent.runtime.nodes.names());
        names.iter().for_each(|node| test.up(node));
        let snapshot = snapshot(&names);
        nodes.with_agents(&names[0], |agents, now| agents.snapshot(now, &snapshot)).unwrap();
        for node in &names {
            nodes.input(node, |agent, now| agent.group(now, &snapshot)).unwrap();
        }
        for exempt in [false, true] {
            assert!(nodes.report(&names).is_empty(), "all are here");
            names.iter().for_each(|node| assert_eq!(is_exempt(nodes, node), exempt));
        }
        let names = names.try_into().unwrap();
        (test, names)
    }

    fn is_exempt(nodes: &Nodes, node: &NodeName) -> bool {
        nodes.state().nodes[node].is_exempt
    }

    fn watched(nodes: &Nodes, agents: &NodeName) -> Vec<NodeName> {
        nodes.read_agents(agents, |agents| agents.watched().cloned().collect()).unwrap()
    }

    fn deadline(nodes: &Nodes, node: &NodeName) -> Option<Moment> {
        nodes.read(node, Oa::next_deadline).unwrap()
    }

    #[tokio::test]
    async fn nodes_of_one_process_report_again_once_their_agents_have_changed_something() {
        let (test, names) = exempt_nodes();
        let nodes = &test.agent.runtime.nodes;
        let [first, second] = &names;
        assert!(watched(nodes, first).is_empty());
        assert_eq!(deadline(nodes, second), None);
        nodes.with_agents(first, |agents, _| agents.gone(GN)).unwrap();
        assert!(!is_exempt(nodes, second));
        nodes.report(&names);
        assert!(deadline(nodes, second).is_some(), "it asks the TIC for the group");
        assert!(!is_exempt(nodes, second), "what its report said is not agreed");
    }

    #[tokio::test]
    async fn a_node_that_goes_down_is_watched_again() {
        let (test, names) = exempt_nodes();
        let nodes = &test.agent.runtime.nodes;
        let [first, second] = &names;
        nodes.input(second, |agent, now| agent.stop(now)).unwrap();
        assert_eq!(watched(nodes, first), std::slice::from_ref(second));
    }

    #[tokio::test]
    async fn members_notice_that_the_agent_of_their_group_is_gone() {
        let (test, names) = exempt_nodes();
        let nodes = &test.agent.runtime.nodes;
        let [first, second] = &names;
        nodes.input(first, |agent, now| agent.stop(now)).unwrap();
        assert!(!is_exempt(nodes, second));
        nodes.report(&names);
        assert!(deadline(nodes, second).is_some(), "it waits for an answer");
    }

    #[tokio::test]
    async fn a_stopped_node_attaches_no_endpoint_and_hosts_no_agents() {
        let test = agent();
        let (nodes, node) = (&test.agent.runtime.nodes, &test.node);
        assert_eq!(nodes.live_endpoints(), ["h0"]);
        nodes.input(node, |agent, now| agent.stop(now)).unwrap();
        assert!(nodes.live_endpoints().is_empty());
        assert!(nodes.with_agents(node, |_, _| ()).is_none());
        nodes.input(node, |agent, now| agent.start(now)).unwrap();
        assert_eq!(nodes.live_endpoints(), ["h0"]);
    }

    #[tokio::test]
    async fn a_node_that_is_not_hosted_here_is_unknown() {
        let test = agent();
        let nodes = &test.agent.runtime.nodes;
        let stranger = NodeName::new("n9").unwrap();
        assert!(nodes.input(&stranger, |_, _| ()).is_none());
        assert!(nodes.read(&stranger, |_| ()).is_none());
        let endpoint = EndpointName::new("h9").unwrap();
        assert!(nodes.read_owner(&endpoint, |_| ()).is_none());
    }
}
