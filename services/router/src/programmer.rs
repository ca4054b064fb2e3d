//! Reads and writes switch tables through the switch agents.
//!
//! The service trusts only what an agent has confirmed. After any doubt the switches of the agent
//! are read back before the next write to them.

mod compare;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::{Reason, RpcError};
use fabricast_topology::{Graph, SwitchId, TableEntry};
use thiserror::Error;

use crate::drift::DriftLog;
use crate::environment::Environment;
use crate::table_state::{Tables, Write, Writes};

/// Most entries in one call; keeps a request far below the message limit.
const ENTRIES_PER_CALL: usize = 20_000;

/// Term and generation of the writer.
pub(crate) type Fence = v1::Fence;

/// Result of writes or readings at several agents.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The last problem, if anything was left undone; the next turn tries again.
    pub(crate) incomplete: Option<ProgramError>,
    /// A switch has seen the fence of a newer route service.
    pub(crate) deposed: bool,
}

/// Why something was not read or written.
#[derive(Debug, Error)]
pub(crate) enum ProgramError {
    /// The call to a switch agent failed.
    #[error("switch agent {agent}: {message}")]
    Call { agent: String, message: String },
    /// A switch or adapter did not take its part.
    #[error("{place}: {message}")]
    Refused { place: String, message: String },
    /// No switch agent has a switch or adapter.
    #[error("no switch agent has {place}")]
    NoAgent { place: String },
}

impl Outcome {
    /// Notes an error of a call to an agent.
    pub(crate) fn call_failed(&mut self, agent: &str, error: &RpcError) {
        let (agent, message) = (agent.to_owned(), error.message().to_owned());
        self.incomplete = Some(ProgramError::Call { agent, message });
        self.note_reason(error.reason_text().as_deref());
    }

    /// Notes the reason of a refusal, which may show that a newer route service has written.
    pub(crate) fn note_reason(&mut self, reason: Option<&str>) {
        self.deposed |= reason == Some(Reason::StaleFence.text());
    }
}

/// The switch agents, and what their switches are known to hold.
#[derive(Debug)]
pub(crate) struct Programmer<O> {
    environment: O,
    graph: Arc<Graph>,
    agents: Vec<Agent>,
    /// Index of the agent of each switch.
    owner: BTreeMap<SwitchId, usize>,
    /// Entries of the switches. Whoever makes the plan sets the desired ones.
    tables: Tables,
    drifts: DriftLog,
    /// Switches that their agent left out when it was read.
    silent: BTreeSet<SwitchId>,
    /// Switches still to be compared in this round, the next one last.
    round: Vec<SwitchId>,
}

#[derive(Debug)]
struct Agent {
    address: String,
    /// True if its switches hold what they have confirmed.
    is_known: bool,
    /// True if its switches have seen a fence of ours that is newer than every write that was
    /// given up.
    is_fenced: bool,
}

impl<O: Environment> Programmer<O> {
    pub(crate) fn new(graph: Arc<Graph>, environment: O) -> Self {
        let agent = |address| Agent { address, is_known: false, is_fenced: false };
        let agents = environment.agents().into_iter().map(agent).collect();
        Self {
            environment,
            graph,
            agents,
            owner: BTreeMap::new(),
            tables: Tables::default(),
            drifts: DriftLog::default(),
            silent: BTreeSet::new(),
            round: Vec::new(),
        }
    }

    /// Entries that the switches have confirmed, and those that they ought to hold.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Replaces the entries that one switch ought to hold.
    pub(crate) fn set_desired(
        &mut self,
        switch: SwitchId,
        entries: impl IntoIterator<Item = TableEntry>,
    ) {
        self.tables.set_desired(switch, entries);
    }

    /// Marks drifts as repaired whose switches hold what is desired again.
    pub(crate) fn settle_drifts(&mut self) {
        let now = self.environment.now();
        self.drifts.settle(&self.graph, &self.tables, now);
    }

    /// Lists switches that held something else than they had confirmed.
    pub(crate) fn drifts(&self) -> v1::ListTableDriftsResponse {
        self.drifts.list(&self.graph, self.environment.now())
    }

    /// True if the switches of some agent have yet to see our fence.
    pub(crate) fn has_unfenced(&self) -> bool {
        self.agents.iter().any(|agent| !agent.is_fenced)
    }

    /// Puts every agent in doubt: it is read back before the next write.
    pub(crate) fn doubt_all(&mut self) {
        for agent in &mut self.agents {
            agent.is_known = false;
        }
    }

    /// Puts a switch that was down in doubt, and its agent with it.
    pub(crate) fn doubt(&mut self, switch: SwitchId) {
        if let Some(&owner) = self.owner.get(&switch) {
            self.forget(switch);
            self.agents[owner].is_known = false;
            self.agents[owner].is_fenced = false; // the switch has lost the fence, too
        }
    }

    /// Forgets the confirmed entries of a switch, for a known reason (DRIFT-1).
    fn forget(&mut self, switch: SwitchId) {
        self.drifts.doubt(switch);
        self.tables.forget(switch);
    }

    /// Reads back the switches of every agent in doubt.
    ///
    /// - `fence`: shown to every switch before its first reading, so that a route service with an
    ///   older term cannot change what was read. No fence that we wrote with may be newer.
    pub(crate) async fn read_back(&mut self, fence: Fence) -> Outcome {
        let mut outcome = Outcome::default();
        for index in 0..self.agents.len() {
            if self.agents[index].is_known {
                continue;
            }
            match self.read_agent(index, fence, &mut outcome).await {
                Ok(()) => self.agents[index].is_known = true,
                Err(error) => outcome.call_failed(&self.agents[index].address, &error),
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
    ) -> Result<(), RpcError> {
        for switch in self.environment.list_switches(index).await? {
            if let Some(switch) = self.graph.find_switch(&switch.name)
                && self.owner.insert(switch, index) != Some(index)
            {
                self.drifts.doubt(switch); // never read through this agent
            }
        }
        if !self.agents[index].is_fenced {
            self.show_fence(index, fence, outcome).await?;
            self.agents[index].is_fenced = true;
        }
        let mut silent: BTreeSet<SwitchId> =
            self.owner.iter().filter(|(_, owner)| **owner == index).map(|(at, _)| *at).collect();
        let Self { environment, graph, tables, drifts, .. } = self;
        let mut take = |table: v1::SwitchTable| {
            if let Some((switch, _)) = drifts.take_table(graph, tables, &table, environment.now()) {
                silent.remove(&switch);
            }
        };
        environment.read_tables(index, Vec::new(), &mut take).await?;
        // The agent leaves out a switch that is down. It comes back empty.
        self.silent.retain(|switch| self.owner.get(switch) != Some(&index));
        for switch in silent {
            self.forget(switch);
            self.silent.insert(switch);
        }
        Ok(())
    }

    /// Writes no entries to every switch of an agent, which leaves the fence there.
    async fn show_fence(
        &self,
        index: usize,
        fence: Fence,
        outcome: &mut Outcome,
    ) -> Result<(), RpcError> {
        let ours = self.owner.iter().filter(|(_, owner)| **owner == index);
        let name = |switch: &SwitchId| self.graph.switch_name(*switch).to_owned();
        let writes: Vec<v1::SwitchWrite> = ours
            .map(|(switch, _)| v1::SwitchWrite { switch_name: name(switch), entries: Vec::new() })
            .collect();
        if writes.is_empty() {
            return Ok(());
        }
        let request = v1::WriteTablesRequest { fence: Some(fence), writes };
        let answer = self.environment.write_tables(index, request).await?;
        // Other refusals do no harm: a switch that is down loses all fences and its table.
        for refusal in &answer.refusals {
            outcome.note_reason(Some(&refusal.reason));
        }
        Ok(())
    }

    /// Writes to all switches that are not dead, agent by agent.
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
                self.forget(switch);
                continue;
            }
            match self.owner.get(&switch) {
                // The reading of this agent failed, which is an error already.
                Some(&owner) if !self.agents[owner].is_known => {}
                Some(&owner) => by_agent.entry(owner).or_default().push((switch, writes)),
                None => {
                    let place = format!("switch {}", self.graph.switch_name(switch));
                    outcome.incomplete = Some(ProgramError::NoAgent { place });
                }
            }
        }
        for (index, parts) in by_agent {
            for batch in batches(parts) {
                let switches: Vec<SwitchId> = batch.iter().map(|(switch, _)| *switch).collect();
                if let Err(error) = self.write_batch(index, fence, batch, &mut outcome).await {
                    // The switches may or may not have taken the write.
                    for switch in switches {
                        self.forget(switch);
                    }
                    let agent = &mut self.agents[index];
                    (agent.is_known, agent.is_fenced) = (false, false);
                    outcome.call_failed(&agent.address, &error);
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
    ) -> Result<(), RpcError> {
        let writes = batch
            .iter()
            .map(|(switch, writes)| v1::SwitchWrite {
                switch_name: self.graph.switch_name(*switch).to_owned(),
                entries: writes.iter().map(|write| write.to_wire()).collect(),
            })
            .collect();
        let request = v1::WriteTablesRequest { fence: Some(fence), writes };
        let answer = self.environment.write_tables(index, request).await?;
        let mut refused = BTreeSet::new();
        for refusal in answer.refusals {
            outcome.note_reason(Some(&refusal.reason));
            if let Some(switch) = self.graph.find_switch(&refusal.switch_name) {
                self.forget(switch);
                refused.insert(switch);
            }
            self.agents[index].is_known = false;
            let place = format!("switch {}", refusal.switch_name);
            outcome.incomplete = Some(ProgramError::Refused { place, message: refusal.message });
        }
        for (switch, writes) in batch.iter().filter(|(switch, _)| !refused.contains(switch)) {
            self.tables.record(*switch, writes);
        }
        Ok(())
    }
}

/// Splits writes by switch into calls of bounded size.
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

#[cfg(test)]
mod tests {
    use fabricast_topology::PortSet;

    use super::*;

    fn part(switch: u32, entries: u16) -> (SwitchId, Vec<Write>) {
        let write = |color| Write { in_port: 1, color, out: PortSet::single(2) };
        (SwitchId(switch), (0..entries).map(write).collect())
    }

    #[test]
    fn calls_are_split_before_they_are_too_large() {
        let cut = batches(vec![part(0, 15_000), part(1, 4_000), part(2, 2_000), part(3, 30_000)]);
        let switches: Vec<Vec<u32>> =
            cut.iter().map(|batch| batch.iter().map(|(switch, _)| switch.0).collect()).collect();
        assert_eq!(switches, [vec![0, 1], vec![2], vec![3]]);
    }
}
