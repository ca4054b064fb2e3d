//! The switch agents, and what their switches are known to hold.
//!
//! The reconciler trusts only what an agent has confirmed. After any doubt the switches of the
//! agent are read back before the next write to them.

mod compare;
mod read_back;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::Moment;
use fabricast_topology::{Graph, SwitchId, TableEntry};
use thiserror::Error;

pub(crate) use compare::Comparing;
pub(crate) use read_back::ReadBack;
pub(crate) use writing::Writing;

use crate::drift::{DriftList, DriftLog};
use crate::interface::{CallError, ErrorKind, Event, SwitchTable};
use crate::table_state::Tables;

/// Result of writes or readings at several agents.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The last problem, if anything was left undone; the next turn tries again.
    pub incomplete: Option<ProgramError>,
    /// A switch has seen the fence of a newer route service.
    pub deposed: bool,
}

/// Reason why something was not read or written.
#[derive(Clone, Debug, Error)]
pub enum ProgramError {
    /// The call to a switch agent failed.
    #[error("switch agent {agent}: {message}")]
    Call {
        /// Name of the agent.
        agent: String,
        /// Text of the error.
        message: String,
    },
    /// A switch or adapter did not take its part.
    #[error("{place}: {message}")]
    Refused {
        /// The switch or adapter.
        place: String,
        /// Text of the refusal.
        message: String,
    },
    /// No switch agent has a switch or adapter.
    #[error("no switch agent has {place}")]
    NoAgent {
        /// The switch or adapter.
        place: String,
    },
}

impl Outcome {
    /// Notes an error of a call to an agent.
    pub fn call_failed(&mut self, agent: &str, error: &CallError) {
        let (agent, message) = (agent.to_owned(), error.message.clone());
        self.incomplete = Some(ProgramError::Call { agent, message });
        self.note_kind(error.kind);
    }

    /// Notes the kind of a refusal, which may show that a newer route service has written.
    pub fn note_kind(&mut self, kind: ErrorKind) {
        self.deposed |= kind == ErrorKind::StaleFence;
    }
}

/// The switch agents, and what their switches are known to hold.
#[derive(Debug)]
pub(crate) struct SwitchAgents {
    graph: Arc<Graph>,
    agents: Vec<Agent>,
    /// Index of the agent of each switch.
    owner: BTreeMap<SwitchId, usize>,
    /// Entries of the switches. The planner sets the desired ones.
    tables: Tables,
    drifts: DriftLog,
    /// Switches that their agent left out when it was read.
    silent: BTreeSet<SwitchId>,
    /// Switches still to be compared in this round, the next one last.
    round: Vec<SwitchId>,
}

#[derive(Debug)]
struct Agent {
    name: String,
    /// True if its switches hold what they have confirmed.
    is_known: bool,
    /// True if its switches have seen a fence of ours that is newer than every write that was
    /// given up.
    is_fenced: bool,
}

impl SwitchAgents {
    /// - `names`: names of the agents, for messages; calls name an agent by its index.
    pub(crate) fn new(graph: Arc<Graph>, names: Vec<String>) -> Self {
        let agent = |name| Agent { name, is_known: false, is_fenced: false };
        Self {
            graph,
            agents: names.into_iter().map(agent).collect(),
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
    pub(crate) fn settle_drifts(&mut self, now: Moment) {
        self.drifts.settle(&self.tables, now);
    }

    /// Lists switches that held something else than they had confirmed.
    pub(crate) fn drifts(&self, now: Moment) -> DriftList {
        self.drifts.list(now)
    }

    pub(crate) fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Takes over the list of drifts of other agents.
    pub(crate) fn take_over_drifts(&mut self, other: &mut Self) {
        self.drifts.take_over(&mut other.drifts);
    }

    /// True if every agent's switches are known to hold what they have confirmed, and have seen the
    /// fence.
    pub(crate) fn are_known(&self) -> bool {
        self.agents.iter().all(|agent| agent.is_known && agent.is_fenced)
    }

    /// Switches of an agent that were there when it was read.
    pub(crate) fn answering(&self, agent: usize) -> impl Iterator<Item = SwitchId> {
        self.owned(agent).filter(|switch| !self.silent.contains(switch))
    }

    /// Takes the facts for the log since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.drifts.events)
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

    /// Replaces what a switch is known to hold by what was read. Returns whether it differs.
    fn take_table(&mut self, table: SwitchTable, now: Moment) -> bool {
        self.drifts.take_table(&mut self.tables, table, now)
    }
}

#[cfg(test)]
mod tests;
