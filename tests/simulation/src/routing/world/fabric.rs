//! The switches: requests of agents, failures, and the agents' reports of them.

use std::collections::BTreeSet;

use fabricast_emulator::{Component, EntryWrite, Fence, TableProblem};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, Peer, PortId, PortSet, SwitchId};

use super::{Event, HARDWARE_POLL, RouteWorld, checks};
use crate::invariants::r4;
use crate::routing::agent::Caller;
use crate::routing::calls::{SwitchReply, SwitchRequest};
use crate::routing::scenario::RouteParty;
use crate::routing::tic::ElementKey;

/// Returns the links between switches, by their lower ports.
pub(super) fn links(graph: &Graph) -> Vec<PortId> {
    let ports = graph.switches().flat_map(|switch| graph.ports(switch));
    ports.filter(|port| matches!(graph.peer(*port), Peer::Switch(other) if *port < other)).collect()
}

impl RouteWorld {
    /// Carries out a request at its switch and sends the reply.
    pub(super) fn handle_switch_request(&mut self, from: Caller, request: SwitchRequest) {
        self.under_way -= 1;
        let (left, done) = self.failing_requests;
        let fails = left > 0;
        self.failing_requests.0 = left.saturating_sub(1);
        let reply = match request {
            SwitchRequest::Write(switch, fence, entries) => {
                let written = (!fails || done).then(|| self.write(switch, fence, &entries));
                SwitchReply::Written(written.filter(|_| !fails))
            }
            SwitchRequest::Read(switch) => SwitchReply::Table((!fails).then(|| self.read(switch))),
        };
        let delay = self.draw_switch_delay();
        self.under_way += 1;
        self.enqueue(delay, Event::SwitchReply(from, reply));
    }

    fn write(
        &mut self,
        switch: SwitchId,
        fence: v1::Fence,
        entries: &[v1::TableEntry],
    ) -> Result<(), v1::SwitchRefusal> {
        r4::is_in_bounds(self.witness.options.colors, entries);
        let entry = |entry: &v1::TableEntry| EntryWrite {
            in_port: number(entry.in_port),
            color: u16::try_from(entry.color).expect("R4: it was checked"),
            out: entry.out_ports.iter().map(|port| number(*port)).collect(),
        };
        let entries: Vec<EntryWrite> = entries.iter().map(entry).collect();
        let v1::Fence { term, generation } = fence;
        let written = self.emulator.write_table(switch, Fence { term, generation }, &entries);
        if let Err(error) = written {
            let reason = match error.problem {
                TableProblem::Dead => Reason::SwitchDown,
                TableProblem::StaleFence { .. } => Reason::StaleFence,
                problem => panic!("R4: a switch refuses, {problem}"),
            };
            return Err(v1::SwitchRefusal {
                switch_name: self.graph.switch_name(switch).to_owned(),
                reason: reason.text().to_owned(),
                message: error.to_string(),
            });
        }
        self.fences.obeyed(switch, fence);
        for EntryWrite { in_port, color, out } in entries {
            self.witness.written(switch, in_port, color, out);
        }
        Ok(())
    }

    fn read(&self, switch: SwitchId) -> Option<v1::SwitchTable> {
        let entries = self.emulator.read_table(switch).ok()?;
        let Fence { term, generation } = self.emulator.fence(switch).ok()?;
        let out_ports = |out: PortSet| out.iter().map(u32::from).collect();
        let entries = entries.iter().map(|entry| v1::TableEntry {
            in_port: entry.in_port.into(),
            color: entry.color.into(),
            out_ports: out_ports(entry.out),
        });
        Some(v1::SwitchTable {
            switch_name: self.graph.switch_name(switch).to_owned(),
            entries: entries.collect(),
            fence: Some(v1::Fence { term, generation }),
        })
    }

    /// Fails or repairs a part.
    pub(super) fn damage(&mut self, component: Component, broken: bool) {
        let done = match broken {
            true => self.emulator.fail(component),
            false => self.emulator.heal(component),
        };
        if !done.expect("it is a part of the fabric") {
            return;
        }
        let lost = match component {
            Component::Switch(switch) if broken => Some(switch),
            Component::Switch(_) | Component::Link(_) | Component::Endpoint(_) => None,
        };
        if let Some(switch) = lost {
            self.fences.lost(switch);
        }
        self.witness.failed(self.emulator.faults(), lost);
        checks::check(self);
        // The agents concerned report it at once.
        for at in 0..self.agents.len() {
            self.report_faults(at);
        }
    }

    /// An agent polls its hardware, reports failed parts, and schedules the next poll.
    pub(super) fn poll_hardware(&mut self, at: usize, incarnation: u64) {
        if self.agents[at].as_ref().is_some_and(|agent| agent.incarnation == incarnation) {
            self.report_faults(at);
            self.enqueue(HARDWARE_POLL, Event::PollHardware(at, incarnation));
        }
    }

    fn report_faults(&mut self, at: usize) {
        let who = RouteParty::Agent(at);
        if self.agents[at].is_none() || self.frozen.contains(&who) {
            return;
        }
        let seen = self.faults_seen_by(at);
        if !self.is_lost(who, RouteParty::Tic) {
            // Reports arrive in order: a later one never overtakes an earlier one.
            let way = self.draw_message_delay();
            self.seen_at[at] = self.seen_at[at].max(self.now.after(way));
            self.enqueue(self.seen_at[at].since(self.now), Event::FaultsSeen(at, seen));
        }
    }

    /// Returns the failed parts that an agent is responsible for: its switches, and links with an
    /// end at one.
    fn faults_seen_by(&self, at: usize) -> BTreeSet<ElementKey> {
        let ours: BTreeSet<SwitchId> = self.shards[at].switches.iter().copied().collect();
        let faults = self.emulator.faults();
        let dead: BTreeSet<PortId> = faults.dead_link_ports().collect();
        let switches = faults.dead_switches().filter(|switch| ours.contains(switch));
        let links = self.links.iter().filter(|port| {
            let Peer::Switch(other) = self.graph.peer(**port) else { return false };
            let ends = [self.graph.switch_of(**port), self.graph.switch_of(other)];
            dead.contains(port) && ends.iter().any(|end| ours.contains(end))
        });
        switches.map(ElementKey::Switch).chain(links.map(|port| ElementKey::Link(*port))).collect()
    }

    /// Delivers an agent's report of failed parts to the TIC.
    pub(super) fn seen(&mut self, agent: usize, elements: BTreeSet<ElementKey>) {
        if self.tic_is_down {
            return;
        }
        if let Some(message) = self.tic.report(&self.graph, agent, elements) {
            self.witness.told_of_faults(&self.tic.failed(), &self.tic.directory);
            self.publish(&message);
        }
    }
}

fn number(port: u32) -> u8 {
    u8::try_from(port).expect("the agent has checked it")
}
