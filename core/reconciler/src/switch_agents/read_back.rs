//! Reads back the switches of every agent in doubt, one call after the other.

use std::collections::BTreeSet;

use fabricast_groups::Moment;
use fabricast_topology::SwitchId;

use super::{Outcome, SwitchAgents};
use crate::interface::{CallError, Output, Refusal, SwitchTable, SwitchWrite};

/// Reading of the agents in doubt.
#[derive(Debug)]
pub(crate) struct ReadBack {
    generation: u64,
    agent: usize,
    step: Step,
    /// Switches of the agent whose tables have not arrived.
    silent: BTreeSet<SwitchId>,
    outcome: Outcome,
}

/// Calls to one agent, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    List,
    /// Shows the fence to its switches.
    Fence,
    Read,
}

impl ReadBack {
    /// - `generation`: shown to every switch before its first reading, so that a route service with
    ///   an older term cannot change what was read. No write of ours may have a newer one.
    pub(crate) fn new(generation: u64) -> Self {
        let (step, silent, outcome) = (Step::List, BTreeSet::new(), Outcome::default());
        Self { generation, agent: 0, step, silent, outcome }
    }

    /// Result, once there is no next call.
    pub(crate) fn into_outcome(self) -> Outcome {
        self.outcome
    }

    fn next_agent(&mut self) {
        self.agent += 1;
        self.step = Step::List;
    }
}

impl SwitchAgents {
    /// The next call of a reading; `None` if it is over.
    pub(crate) fn next_reading(&mut self, work: &mut ReadBack) -> Option<Output> {
        loop {
            let agent = work.agent;
            let is_over = agent == self.agents.len();
            match work.step {
                Step::List if is_over || work.outcome.deposed => return None,
                Step::List if self.agents[agent].is_known => work.next_agent(),
                Step::List => return Some(Output::List { agent }),
                Step::Fence => {
                    let write = |switch| SwitchWrite { switch, entries: Vec::new() };
                    let writes: Vec<_> = self.owned(agent).map(write).collect();
                    if !self.agents[agent].is_fenced && !writes.is_empty() {
                        return Some(Output::Write { agent, generation: work.generation, writes });
                    }
                    self.agents[agent].is_fenced = true;
                    work.step = Step::Read;
                }
                Step::Read => {
                    work.silent = self.owned(agent).collect();
                    return Some(Output::ReadBack { agent, switches: Vec::new() });
                }
            }
        }
    }

    /// Switches of an agent.
    pub(crate) fn owned(&self, agent: usize) -> impl Iterator<Item = SwitchId> {
        self.owner.iter().filter(move |(_, owner)| **owner == agent).map(|(switch, _)| *switch)
    }

    /// Takes the list of an agent's switches.
    pub(crate) fn listed(
        &mut self,
        work: &mut ReadBack,
        switches: Result<Vec<SwitchId>, CallError>,
    ) {
        match switches {
            Ok(switches) => {
                for switch in switches {
                    if self.owner.insert(switch, work.agent) != Some(work.agent) {
                        self.drifts.doubt(switch); // never read through this agent
                    }
                }
                work.step = Step::Fence;
            }
            Err(error) => self.reading_failed(work, &error),
        }
    }

    /// Takes the answer of switches to which the fence was shown.
    pub(crate) fn fenced(&mut self, work: &mut ReadBack, written: Result<Vec<Refusal>, CallError>) {
        match written {
            Ok(refusals) => {
                // Other refusals do no harm: a switch that is down loses all fences and its table.
                refusals.iter().for_each(|refusal| work.outcome.note_kind(refusal.error.kind));
                self.agents[work.agent].is_fenced = true;
                work.step = Step::Read;
            }
            Err(error) => self.reading_failed(work, &error),
        }
    }

    /// Takes one table of a reading.
    pub(crate) fn read_table(&mut self, work: &mut ReadBack, table: SwitchTable, now: Moment) {
        work.silent.remove(&table.switch);
        self.take_table(table, now);
    }

    /// Takes the end of an agent's tables.
    pub(crate) fn read(&mut self, work: &mut ReadBack, read: Result<(), CallError>) {
        if let Err(error) = read {
            return self.reading_failed(work, &error);
        }
        let Self { silent, owner, .. } = self;
        // The agent leaves out a switch that is down. It comes back empty.
        silent.retain(|switch| owner.get(switch) != Some(&work.agent));
        for switch in std::mem::take(&mut work.silent) {
            self.forget(switch);
            self.silent.insert(switch);
        }
        self.agents[work.agent].is_known = true;
        work.next_agent();
    }

    fn reading_failed(&self, work: &mut ReadBack, error: &CallError) {
        work.outcome.call_failed(&self.agents[work.agent].name, error);
        work.next_agent();
    }
}
