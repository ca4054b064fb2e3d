//! Talks to the switch agents: which switches each has, what they hold, and writes to them.
//!
//! What is known of the hardware is only what an agent has confirmed; after any doubt the agent's
//! switches are read back before they are written again.

mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::{Reason, reason_of};
use fabricast_topology::{Graph, PortSet, SwitchId};
use tonic::Status;

use crate::audit::Audit;
use crate::image::{Image, Write, Writes};
use crate::outside::Outside;

/// Entries in one call, so that a request stays far below the message limit.
const ENTRIES_PER_CALL: usize = 20_000;

/// Term and generation of the writer.
pub(crate) type Fence = v1::Fence;

/// How a round of writes went.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Something was not written; try again.
    pub(crate) incomplete: Option<String>,
    /// A newer route service has written: stand down.
    pub(crate) deposed: bool,
}

/// The switch agents and what their switches are known to hold.
#[derive(Debug)]
pub(crate) struct Programmer<O> {
    outside: O,
    graph: Arc<Graph>,
    agents: Vec<Agent>,
    owner: BTreeMap<SwitchId, usize>,
    held: Image,
    audit: Audit,
    /// Switches whose agent left them out when it was read.
    silent: BTreeSet<SwitchId>,
    /// Switches yet to be compared in this round, the next one last.
    round: Vec<SwitchId>,
}

#[derive(Debug)]
struct Agent {
    address: String,
    /// Whether `held` is what its switches hold.
    known: bool,
    /// Whether its switches have seen a fence of ours that is newer than every write that was given up.
    fenced: bool,
}

impl<O: Outside> Programmer<O> {
    pub(crate) fn new(graph: Arc<Graph>, outside: O) -> Self {
        let agent = |address| Agent { address, known: false, fenced: false };
        let agents = outside.agents().into_iter().map(agent).collect();
        Self {
            outside,
            graph,
            agents,
            owner: BTreeMap::new(),
            held: Image::default(),
            audit: Audit::default(),
            silent: BTreeSet::new(),
            round: Vec::new(),
        }
    }

    /// What the switches hold, as far as confirmed.
    pub(crate) fn held(&self) -> &Image {
        &self.held
    }

    /// Notes which of the switches that had drifted hold what they ought to again.
    pub(crate) fn settle_drifts(&mut self, desired: &Image) {
        let now = self.outside.now();
        self.audit.settle(&self.graph, (&self.held, desired), now);
    }

    /// Lists where switches held something else than they had confirmed.
    pub(crate) fn drifts(&self) -> v1::ListTableDriftsResponse {
        self.audit.list(&self.graph, self.outside.now())
    }

    /// Whether the switches of some agent have yet to see our fence.
    pub(crate) fn has_unfenced(&self) -> bool {
        self.agents.iter().any(|agent| !agent.fenced)
    }

    /// Doubts everything: every agent is read back before the next write.
    pub(crate) fn doubt_all(&mut self) {
        for agent in &mut self.agents {
            agent.known = false;
        }
    }

    /// Doubts what one switch holds, after it was down.
    pub(crate) fn doubt(&mut self, switch: SwitchId) {
        if let Some(&owner) = self.owner.get(&switch) {
            self.audit.doubt(switch);
            self.held.forget(switch);
            self.agents[owner].known = false;
            self.agents[owner].fenced = false; // it has forgotten that
        }
    }

    /// Reads back the switches of every agent in doubt.
    ///
    /// - `fence`: is shown to every switch before its first reading, so that nobody with an older term can
    ///   change what was read; none that we wrote with may be newer.
    pub(crate) async fn read_back(&mut self, fence: Fence) -> Outcome {
        let mut outcome = Outcome::default();
        for index in 0..self.agents.len() {
            if self.agents[index].known {
                continue;
            }
            match self.read_agent(index, fence, &mut outcome).await {
                Ok(()) => self.agents[index].known = true,
                Err(status) => {
                    outcome.incomplete = Some(self.complaint(index, &status));
                    outcome.deposed |= is_stale(reason_of(&status).as_deref());
                }
            }
            if outcome.deposed {
                break;
            }
        }
        outcome
    }

    async fn read_agent(
        &mut self,
        index: usize,
        fence: Fence,
        outcome: &mut Outcome,
    ) -> Result<(), Status> {
        for switch in self.outside.list_switches(index).await? {
            if let Some(switch) = self.graph.find_switch(&switch.name)
                && self.owner.insert(switch, index) != Some(index)
            {
                self.audit.doubt(switch); // nobody knows yet what it holds
            }
        }
        if !self.agents[index].fenced {
            self.show_fence(index, fence, outcome).await?;
            self.agents[index].fenced = true;
        }
        let mut silent: BTreeSet<SwitchId> =
            self.owner.iter().filter(|(_, owner)| **owner == index).map(|(at, _)| *at).collect();
        let Self { outside, graph, held, audit, .. } = self;
        let mut take = |table: v1::SwitchTable| {
            if let Some((switch, _)) = audit.take_table((graph, held), &table, outside.now()) {
                silent.remove(&switch);
            }
        };
        outside.read_tables(index, Vec::new(), &mut take).await?;
        // A switch that is down is left out, and comes back empty.
        self.silent.retain(|switch| self.owner.get(switch) != Some(&index));
        for switch in silent {
            self.audit.doubt(switch);
            self.held.forget(switch);
            self.silent.insert(switch);
        }
        Ok(())
    }

    /// Writes nothing to every switch of an agent, which leaves the fence with it.
    async fn show_fence(
        &self,
        index: usize,
        fence: Fence,
        outcome: &mut Outcome,
    ) -> Result<(), Status> {
        let ours = self.owner.iter().filter(|(_, owner)| **owner == index);
        let name = |switch: &SwitchId| self.graph.switch_name(*switch).to_owned();
        let writes: Vec<v1::SwitchWrite> = ours
            .map(|(switch, _)| v1::SwitchWrite { switch_name: name(switch), entries: Vec::new() })
            .collect();
        if writes.is_empty() {
            return Ok(());
        }
        let request = v1::WriteTablesRequest { fence: Some(fence), writes };
        let answer = self.outside.write_tables(index, request).await?;
        // One that is down has forgotten all fences, and its table, when it comes back.
        outcome.deposed |= answer.refusals.iter().any(|one| is_stale(Some(&one.reason)));
        Ok(())
    }

    /// Writes to all switches but the dead ones, agent by agent.
    pub(crate) async fn write(
        &mut self,
        fence: Fence,
        writes: Writes,
        dead: &BTreeSet<SwitchId>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut by_agent: BTreeMap<usize, Vec<(SwitchId, Vec<Write>)>> = BTreeMap::new();
        for (switch, writes) in writes {
            if dead.contains(&switch) {
                self.audit.doubt(switch);
                self.held.forget(switch);
                continue;
            }
            match self.owner.get(&switch) {
                // An agent in doubt has said so already; its switches wait until it is read back.
                Some(&owner) if !self.agents[owner].known => {}
                Some(&owner) => by_agent.entry(owner).or_default().push((switch, writes)),
                None => {
                    let name = self.graph.switch_name(switch);
                    outcome.incomplete = Some(format!("no switch agent has switch {name}"));
                }
            }
        }
        for (index, parts) in by_agent {
            for batch in batches(parts) {
                let written: Vec<SwitchId> = batch.iter().map(|(switch, _)| *switch).collect();
                if let Err(status) = self.write_batch(index, fence, batch, &mut outcome).await {
                    // The write may or may not have happened: what was there cannot be built on.
                    for switch in written {
                        self.audit.doubt(switch);
                        self.held.forget(switch);
                    }
                    (self.agents[index].known, self.agents[index].fenced) = (false, false);
                    outcome.incomplete = Some(self.complaint(index, &status));
                    outcome.deposed |= is_stale(reason_of(&status).as_deref());
                    break;
                }
            }
        }
        outcome
    }

    async fn write_batch(
        &mut self,
        index: usize,
        fence: Fence,
        batch: Vec<(SwitchId, Vec<Write>)>,
        outcome: &mut Outcome,
    ) -> Result<(), Status> {
        let writes = batch
            .iter()
            .map(|(switch, writes)| v1::SwitchWrite {
                switch_name: self.graph.switch_name(*switch).to_owned(),
                entries: writes.iter().map(write_to_entry).collect(),
            })
            .collect();
        let request = v1::WriteTablesRequest { fence: Some(fence), writes };
        let answer = self.outside.write_tables(index, request).await?;
        let mut refused = BTreeSet::new();
        for refusal in answer.refusals {
            outcome.deposed |= is_stale(Some(&refusal.reason));
            if let Some(switch) = self.graph.find_switch(&refusal.switch_name) {
                self.audit.doubt(switch);
                self.held.forget(switch);
                refused.insert(switch);
            }
            self.agents[index].known = false;
            outcome.incomplete =
                Some(format!("switch {}: {}", refusal.switch_name, refusal.message));
        }
        for (switch, writes) in batch.iter().filter(|(switch, _)| !refused.contains(switch)) {
            self.held.record_all(*switch, writes);
        }
        Ok(())
    }

    fn complaint(&self, index: usize, status: &Status) -> String {
        format!("switch agent {}: {}", self.agents[index].address, status.message())
    }
}

fn is_stale(reason: Option<&str>) -> bool {
    reason.is_some_and(|reason| reason == Reason::StaleFence.text())
}

/// Cuts a list of switches into calls of bounded size.
fn batches(parts: Vec<(SwitchId, Vec<Write>)>) -> Vec<Vec<(SwitchId, Vec<Write>)>> {
    let mut batches = vec![Vec::new()];
    let mut entries = 0;
    for part in parts {
        if entries + part.1.len() > ENTRIES_PER_CALL && entries > 0 {
            batches.push(Vec::new());
            entries = 0;
        }
        entries += part.1.len();
        batches.last_mut().expect("never empty").push(part);
    }
    batches
}

/// An entry as read; what does not fit our types cannot be ours and is taken as absent.
pub(crate) fn entry_to_write(entry: &v1::TableEntry) -> Option<Write> {
    let out: Option<PortSet> =
        entry.out_ports.iter().map(|port| u8::try_from(*port).ok()).collect();
    Some(Write {
        in_port: u8::try_from(entry.in_port).ok()?,
        color: u16::try_from(entry.color).ok()?,
        out: out?,
    })
}

fn write_to_entry(write: &Write) -> v1::TableEntry {
    v1::TableEntry {
        in_port: u32::from(write.in_port),
        color: u32::from(write.color),
        out_ports: write.out.iter().map(u32::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(switch: u32, entries: u16) -> (SwitchId, Vec<Write>) {
        let write = |color| Write { in_port: 1, color, out: PortSet::single(2) };
        (SwitchId(switch), (0..entries).map(write).collect())
    }

    #[test]
    fn calls_are_cut_before_they_grow_too_large() {
        let cut = batches(vec![part(0, 15_000), part(1, 4_000), part(2, 2_000), part(3, 30_000)]);
        let switches: Vec<Vec<u32>> =
            cut.iter().map(|batch| batch.iter().map(|(switch, _)| switch.0).collect()).collect();
        assert_eq!(switches, [vec![0, 1], vec![2], vec![3]]);
    }

    #[test]
    fn entries_survive_the_wire() {
        let write = Write { in_port: 3, color: 17, out: [1, 200].into_iter().collect() };
        assert_eq!(entry_to_write(&write_to_entry(&write)), Some(write));
    }
}
