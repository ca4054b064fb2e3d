//! What people and fate do in the world of routes.

use std::sync::Arc;
use std::time::Duration;

use fabricast_emulator::Component;
use fabricast_groups::Incarnation;
use fabricast_groups::command::{
    Command, FormGroup, FormGroups, FormMember, GroupSpec, Join, Joiner, Leave, RegisterNode,
};
use fabricast_groups::names::{Address, EndpointName, GroupName, NodeName, ProcessName, RequestId};
use fabricast_topology::{EndpointId, SwitchId};

use super::{Event, RESTART, World};
use crate::routing::scenario::{RouteDeed, RouteParty};

impl World {
    /// Every endpoint has a node of its own.
    pub(super) fn register_nodes(&mut self) {
        let graph = self.witness.graph.clone();
        for endpoint in graph.endpoints() {
            let endpoint = graph.endpoint_name(endpoint);
            let command = Command::RegisterNode(RegisterNode {
                name: NodeName::new(endpoint).expect("a good name"),
                address: Address::new(endpoint).expect("a good address"),
                endpoints: vec![EndpointName::new(endpoint).expect("a good name")],
                start_id: 1,
            });
            self.decide(&command).expect("nodes are welcome");
        }
    }

    pub(crate) fn do_deed(&mut self, deed: RouteDeed) {
        match deed {
            RouteDeed::Join { endpoint, group, process } => {
                let member = self.joiner(endpoint, process);
                let request_id = self.request_id();
                self.order(&Command::Join(Join { request_id, group: spec(group), member }));
            }
            RouteDeed::Leave { endpoint, group, process } => {
                let Joiner { node, incarnation, process, .. } = self.joiner(endpoint, process);
                let (request_id, group) = (self.request_id(), spec(group).name);
                let leave = Leave { request_id, group, node, incarnation, process };
                self.order(&Command::Leave(leave));
            }
            RouteDeed::Form { group, first, step, count } => {
                let members = (0..count).map(|at| self.joiner(first + at * step, at));
                let members = members.map(FormMember::from).collect();
                let groups = vec![FormGroup { group: spec(group), members }];
                let request_id = self.request_id();
                self.order(&Command::FormGroups(Arc::new(FormGroups { request_id, groups })));
            }
            RouteDeed::Delete { group } => {
                let (request_id, group) = (self.request_id(), spec(group).name);
                self.order(&Command::DeleteGroup { request_id, group });
            }
            RouteDeed::Link { link, broken } => {
                let link = self.links[link as usize % self.links.len()];
                self.damage(Component::Link(link), broken);
            }
            RouteDeed::Switch { switch, off } => {
                let count = u32::try_from(self.graph.switch_count()).expect("a few");
                self.damage(Component::Switch(SwitchId(switch % count)), off);
            }
            RouteDeed::BreakWatch { router } => {
                let watches = self.tic.watches.clone();
                for key in watches.into_iter().filter(|key| key.0 == router) {
                    self.break_watch(key);
                }
            }
            RouteDeed::Kill { who } => self.kill(who),
            RouteDeed::Freeze { who, stop: true } => drop(self.frozen.insert(who)),
            RouteDeed::Freeze { who, stop: false } => self.thaw(who),
            RouteDeed::Cut { from, to, cut: true } => drop(self.cut.insert((from, to))),
            RouteDeed::Cut { from, to, cut: false } => drop(self.cut.remove(&(from, to))),
            RouteDeed::SlowSwitches { delay } => self.switch_delay = delay,
            RouteDeed::FailTouches { count, done } => self.failing_touches = (count, done),
        }
        self.look();
    }

    fn kill(&mut self, who: RouteParty) {
        self.frozen.remove(&who);
        match who {
            RouteParty::Router(at) => {
                self.routers[at] = None;
                self.tic.watches.retain(|(router, ..)| *router != at);
            }
            RouteParty::Agent(at) => {
                self.agents[at] = None;
                self.waiting.remove(&at);
            }
            RouteParty::Tic => {
                self.tic_is_down = true;
                for key in self.tic.watches.clone() {
                    self.break_watch(key);
                }
            }
        }
        self.enqueue(RESTART, Event::Start(who));
    }

    /// Lets a process go on with what has come for it meanwhile.
    fn thaw(&mut self, who: RouteParty) {
        if !self.frozen.remove(&who) {
            return;
        }
        match who {
            RouteParty::Router(at) => self.go_on(at),
            RouteParty::Agent(at) => {
                for (caller, ask) in self.waiting.remove(&at).unwrap_or_default() {
                    if let Some(agent) = &mut self.agents[at] {
                        agent.serve(caller, ask);
                    }
                }
                self.go_on_agent(at);
            }
            RouteParty::Tic => {}
        }
    }

    /// Heals everything; who was killed is on its way back.
    pub(crate) fn heal(&mut self) {
        (self.delay, self.loss_percent) = (Duration::from_millis(3), 0);
        (self.switch_delay, self.failing_touches) = (Duration::from_millis(2), (0, false));
        self.cut.clear();
        for who in self.frozen.clone() {
            self.thaw(who);
        }
        for switch in self.graph.switches() {
            self.damage(Component::Switch(switch), false);
        }
        for link in self.links.clone() {
            self.damage(Component::Link(link), false);
        }
    }

    /// What the TIC refuses changes nothing.
    fn order(&mut self, command: &Command) {
        if !self.tic_is_down {
            let _ = self.decide(command);
        }
    }

    fn request_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::new(&format!("r{}", self.requests)).expect("a good name")
    }

    fn joiner(&self, endpoint: u32, process: u32) -> Joiner {
        let count = u32::try_from(self.graph.endpoint_count()).expect("a few");
        let name = self.graph.endpoint_name(EndpointId(endpoint % count));
        Joiner {
            node: NodeName::new(name).expect("a good name"),
            incarnation: Incarnation(1),
            endpoint: EndpointName::new(name).expect("a good name"),
            process: ProcessName::new(&format!("p{process}")).expect("a good name"),
        }
    }
}

fn spec(group: u32) -> GroupSpec {
    let name = GroupName::new(&format!("g{group}")).expect("a good name");
    GroupSpec { persistent: group == 0, ..GroupSpec::new(name) }
}
