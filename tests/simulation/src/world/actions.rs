//! Carries out the actions of a scenario.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Gn;
use fabricast_groups::command::{
    Command, DeleteGroup, FormGroup, FormGroups, FormMember, GroupSpec, Joiner,
};
use fabricast_groups::names::{EndpointName, GroupName, ProcessName, RequestId};
use fabricast_groups::operating::{JoinCall, LeaveCall};
use fabricast_groups::record::{Route, RouteReason, RouteState};
use fabricast_groups::tree::TreeShape;
use fabricast_topology::SplitMix;

use super::World;
use crate::node::{SimNode, index_of, name};
use crate::scenario::{Action, AgentFault, Network, Party};

/// Time after which a killed TIC is started again.
const RESTART: Duration = Duration::from_millis(1_500);

impl World {
    pub(crate) fn apply_action(&mut self, action: Action) {
        match action {
            Action::Join { at, group, process } => {
                self.join(at, &format!("g{group}"), &format!("p{process}"));
            }
            Action::Leave { at, group, process } => self.leave(at, group, process),
            Action::Form { group, nodes } => self.form(&format!("f{group}"), &nodes),
            Action::Delete { group } => self.delete(group),
            Action::Route { draw } => self.route(draw),
            Action::Power { at, on: false } => self.nodes[at].oa.stop(self.now),
            Action::Power { at, on: true } => self.nodes[at].oa.start(self.now),
            Action::Respawn { at } => {
                self.nodes[at] = SimNode::new(at, self.now, self.tics.len(), self.settings);
                self.thaw(Party::Node(at), false);
            }
            Action::Mute { at, silent } => self.nodes[at].mute = silent,
            Action::Freeze { who, stop: true } => drop(self.frozen.entry(who).or_default()),
            Action::Freeze { who, stop: false } => self.thaw(who, true),
            Action::Cut { from, to, cut: true } => drop(self.cut.insert((from, to))),
            Action::Cut { from, to, cut: false } => drop(self.cut.remove(&(from, to))),
            Action::FaultAgent { group, fault } => self.fail_agent(group, fault),
            Action::Mend => {
                self.heal_links();
                for node in &mut self.nodes {
                    node.oa.start(self.now);
                }
            }
            Action::KillTic { at } => {
                self.tics[at] = Err(self.now.after(RESTART));
                self.thaw(Party::Tic(at), false);
            }
            Action::SlowStore { delay } => self.store.delay = delay,
            Action::FailWrites { count, done } => self.store.failing = (count, done),
        }
        for at in 0..self.nodes.len() {
            let sent = self.nodes[at].drain(self.now);
            self.send(Party::Node(at), sent);
        }
    }

    /// Resumes a frozen party, with or without the messages that arrived meanwhile.
    fn thaw(&mut self, who: Party, with_messages: bool) {
        let waiting = self.frozen.remove(&who).unwrap_or_default();
        for (from, message) in waiting.into_iter().filter(|_| with_messages) {
            self.deliver(from, who, message);
        }
    }

    /// Heals all faults; nodes without power stay off.
    pub(crate) fn heal(&mut self) {
        self.network = Network::CALM;
        self.store.delay = Duration::ZERO;
        self.store.failing = (0, false);
        self.heal_links();
    }

    /// Restores all links and resumes frozen and mute parties.
    fn heal_links(&mut self) {
        self.cut.clear();
        for who in self.frozen.keys().copied().collect::<Vec<_>>() {
            self.thaw(who, true);
        }
        for node in &mut self.nodes {
            node.mute = false;
        }
    }

    /// Applies a fault to the node that hosts a group's agent, if there is one.
    fn fail_agent(&mut self, group: u32, fault: AgentFault) {
        let directory = self.directory();
        let name = GroupName::new(&format!("g{group}")).expect("a good name");
        let group = directory.find_group(&name).and_then(|gn| directory.group(gn));
        let Some(agent) = group.and_then(|group| group.agent.as_ref()) else { return };
        let (at, tics) = (index_of(agent), self.tics.len());
        let who = Party::Node(at);
        let mut cut = |from: bool, with| {
            self.cut.insert(if from { (who, with) } else { (with, who) });
        };
        match fault {
            AgentFault::Cut { from, with } => cut(from, with),
            AgentFault::CutOffTics { from } => (0..tics).for_each(|tic| cut(from, Party::Tic(tic))),
            AgentFault::Power => self.nodes[at].oa.stop(self.now),
            AgentFault::Freeze => drop(self.frozen.entry(who).or_default()),
            AgentFault::Mute => self.nodes[at].mute = true,
        }
    }

    fn request_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::new(&format!("r{}", self.requests)).expect("a good name")
    }

    pub(crate) fn join(&mut self, at: usize, group: &str, process: &str) {
        let call = JoinCall {
            request_id: self.request_id(),
            group: spec(group),
            process: ProcessName::new(process).expect("a good name"),
            endpoint: None,
            sends_only: false,
        };
        // A node without power refuses.
        let _ = self.nodes[at].oa.join(self.now, call);
    }

    fn leave(&mut self, at: usize, group: u32, process: u32) {
        let call = LeaveCall {
            request_id: self.request_id(),
            group: GroupName::new(&format!("g{group}")).expect("a good name"),
            process: ProcessName::new(&format!("p{process}")).expect("a good name"),
        };
        let _ = self.nodes[at].oa.leave(self.now, call);
    }

    fn delete(&mut self, group: u32) {
        let request_id = self.request_id();
        let group = GroupName::new(&format!("g{group}")).expect("a good name");
        self.submit(&Command::DeleteGroup(DeleteGroup {
            request_id,
            group,
            gn: None,
            most: usize::MAX,
        }));
    }

    /// Submits a command to all TICs; only the leader acts on it.
    fn submit(&mut self, command: &Command) {
        for at in 0..self.tics.len() {
            if self.frozen.contains_key(&Party::Tic(at)) {
                continue;
            }
            if let Ok(tic) = &mut self.tics[at] {
                let sent = tic.submit(self.now, command.clone());
                self.send(Party::Tic(at), sent);
            }
        }
    }

    /// Reports routes for all present groups, each with one endpoint left out.
    fn route(&mut self, draw: u64) {
        let mut chance = SplitMix::new(draw);
        let directory = self.directory();
        let revision = directory.revision();
        let mut routes = Vec::new();
        for group in directory.groups_from(Gn(0)) {
            let color = u16::try_from(chance.below(3)).expect("below 3");
            let endpoint = format!("h{}/0", chance.below(20));
            let route = Route {
                revision,
                state: RouteState::Routed { colors: color.into(), virtual_group: 0 },
                reason: String::new(),
                reason_code: RouteReason::Unspecified,
                cut_off: vec![EndpointName::new(&endpoint).expect("a good name")],
            };
            routes.push((group.gn, route));
        }
        self.submit(&Command::Routed { routes, clean: Some(revision) });
    }

    pub(crate) fn form(&mut self, group: &str, nodes: &[usize]) {
        let joiner = |at: &usize| Joiner {
            node: name(*at),
            incarnation: self.nodes[*at].oa.incarnation(),
            endpoint: EndpointName::new(&format!("h{at}/1")).expect("a good name"),
            process: ProcessName::new("launched").expect("a good name"),
            sends_only: false,
        };
        let members = nodes.iter().map(joiner).map(FormMember::from).collect();
        let groups = vec![FormGroup { group: spec(group), members }];
        let request_id = self.request_id();
        self.submit(&Command::FormGroups(Arc::new(FormGroups { request_id, groups })));
    }
}

fn spec(group: &str) -> GroupSpec {
    let name = GroupName::new(group).expect("a good name");
    let tree = match group {
        "g1" => Some(TreeShape::KNomial { width: 3 }),
        "g2" => Some(TreeShape::Hierarchical { width: 2, block: 2 }),
        _ => None,
    };
    GroupSpec { persistent: group == "g0", tree, ..GroupSpec::new(name) }
}
