//! What people and fate do in the simulation.

use fabricast_groups::Gn;
use fabricast_groups::command::{Command, FormGroup, GroupSpec, Joiner};
use fabricast_groups::hints::MgidHints;
use fabricast_groups::names::{EndpointName, GroupName, ProcessName, RequestId};
use fabricast_groups::operating::{JoinCall, LeaveCall};
use fabricast_groups::record::{Route, RouteState};

use super::World;
use crate::node::{Party, name};

impl World {
    /// One thing that people or fate do.
    pub(super) fn blow(&mut self) {
        let at = self.chance.index(self.nodes.len());
        let group = format!("g{}", self.chance.below(4));
        let process = format!("p{}", self.chance.below(2));
        match self.chance.below(42) {
            0..=19 => self.join(at, &group, &process),
            20..=27 => self.leave(at, &group, &process),
            28 | 29 => self.nodes[at].oa.stop(self.now),
            30..=33 => self.nodes[at].oa.start(self.now),
            34 => self.nodes[at].mute ^= true,
            35 => self.nodes[at].cut_off ^= true,
            36 => self.tic.restart(self.now),
            37 => {
                let members = [at, self.chance.index(self.nodes.len())];
                let group = format!("f{}", self.chance.below(3));
                self.form(&group, &members);
            }
            38 => self.fail_process(at, &process),
            39 | 40 => self.route(),
            _ => self.delete(&group),
        }
        let sent = self.nodes[at].drain(self.now);
        self.send(Party::Node(at), sent);
    }

    /// Ends the storm's doings: every node is connected and reports again; the stopped stay so.
    pub(crate) fn calm_down(&mut self) {
        for node in &mut self.nodes {
            (node.mute, node.cut_off) = (false, false);
        }
    }

    fn request_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::new(&format!("r{}", self.requests)).unwrap()
    }

    pub(crate) fn join(&mut self, at: usize, group: &str, process: &str) {
        let wish = JoinCall {
            request_id: self.request_id(),
            group: spec(group),
            process: ProcessName::new(process).unwrap(),
            endpoint: None,
        };
        let _ = self.nodes[at].oa.join(self.now, wish);
    }

    fn leave(&mut self, at: usize, group: &str, process: &str) {
        let wish = LeaveCall {
            request_id: self.request_id(),
            group: GroupName::new(group).unwrap(),
            process: ProcessName::new(process).unwrap(),
        };
        let _ = self.nodes[at].oa.leave(self.now, wish);
    }

    fn delete(&mut self, group: &str) {
        let request_id = self.request_id();
        let group = GroupName::new(group).unwrap();
        let _ = self.decide(&Command::DeleteGroup { request_id, group });
    }

    /// The route service has programmed the present groups, some with one endpoint left out.
    fn route(&mut self) {
        let revision = self.tic.directory.revision();
        let mut routes = Vec::new();
        for group in self.tic.directory.groups_from(Gn(0)) {
            let color = u16::try_from(self.chance.below(3)).unwrap();
            let endpoint = format!("h{}/0", self.chance.below(20));
            let route = Route {
                revision,
                state: RouteState::Routed { colors: color.into(), virtual_group: 0 },
                reason: String::new(),
                cut_off: vec![EndpointName::new(&endpoint).unwrap()],
            };
            routes.push((group.gn, route));
        }
        self.decide(&Command::Routed { routes, clean: Some(revision) }).expect("it is a report");
    }

    fn fail_process(&mut self, at: usize, process: &str) {
        let command = Command::ProcessFailed {
            node: name(at),
            incarnation: self.nodes[at].oa.incarnation(),
            process: ProcessName::new(process).unwrap(),
        };
        let _ = self.decide(&command);
    }

    pub(crate) fn form(&mut self, group: &str, nodes: &[usize]) {
        let joiner = |at: &usize| Joiner {
            node: name(*at),
            incarnation: self.nodes[*at].oa.incarnation(),
            endpoint: EndpointName::new(&format!("h{at}/1")).unwrap(),
            process: ProcessName::new("launched").unwrap(),
        };
        let members = nodes.iter().map(joiner).collect();
        let group = FormGroup { group: spec(group), members };
        self.decide(&Command::FormGroups(vec![group])).expect("a batch is answered group by group");
    }
}

fn spec(group: &str) -> GroupSpec {
    let name = GroupName::new(group).unwrap();
    GroupSpec {
        name,
        mgid: None,
        persistent: group == "g0",
        exclusive: false,
        hints: MgidHints::default(),
    }
}
