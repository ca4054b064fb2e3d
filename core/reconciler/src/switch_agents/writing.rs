//! Writes entries to switches, agent by agent, in calls of bounded size.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabricast_topology::SwitchId;

use super::{Outcome, ProgramError, SwitchAgents};
use crate::interface::{CallError, Output, Refusal, SwitchWrite};
use crate::table_state::Writes;

/// Most entries in one call; keeps a request far below the message limit.
const ENTRIES_PER_CALL: usize = 20_000;

/// Writes of one phase.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    generation: u64,
    calls: VecDeque<Call>,
    outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
struct Call {
    agent: usize,
    writes: Vec<SwitchWrite>,
}

impl Writing {
    /// Starts writes to all switches that are not dead. A switch agent that does not answer does
    /// not hold up the others.
    pub(crate) fn start(
        agents: &mut SwitchAgents,
        generation: u64,
        writes: Writes,
        dead: &BTreeSet<SwitchId>,
    ) -> Self {
        let mut outcome = Outcome::default();
        let mut by_agent: BTreeMap<usize, Vec<SwitchWrite>> = BTreeMap::new();
        for (switch, entries) in writes {
            if dead.contains(&switch) {
                agents.forget(switch);
                continue;
            }
            match agents.owner.get(&switch) {
                // The reading of this agent failed, which is an error already.
                Some(&owner) if !agents.agents[owner].is_known => {}
                Some(&owner) => {
                    by_agent.entry(owner).or_default().push(SwitchWrite { switch, entries });
                }
                None => {
                    let place = format!("switch {}", agents.graph.switch_name(switch));
                    outcome.incomplete = Some(ProgramError::NoAgent { place });
                }
            }
        }
        let calls = by_agent.into_iter().flat_map(|(agent, writes)| {
            batches(writes).into_iter().map(move |writes| Call { agent, writes })
        });
        Self { generation, calls: calls.collect(), outcome }
    }

    /// Takes the answer to the call that [`Self::next_call`] gave.
    pub(crate) fn written(
        &mut self,
        agents: &mut SwitchAgents,
        written: Result<Vec<Refusal>, CallError>,
    ) {
        let Some(Call { agent, writes }) = self.calls.pop_front() else { return };
        let refusals = match written {
            Ok(refusals) => refusals,
            Err(error) => {
                // The switches may or may not have taken the write.
                writes.iter().for_each(|write| agents.forget(write.switch));
                let state = &mut agents.agents[agent];
                (state.is_known, state.is_fenced) = (false, false);
                self.outcome.call_failed(&state.name, &error);
                self.calls.retain(|call| call.agent != agent);
                return;
            }
        };
        let mut refused = BTreeSet::new();
        for refusal in refusals {
            self.outcome.note_kind(refusal.error.kind);
            if let Some(switch) = refusal.switch {
                agents.forget(switch);
                refused.insert(switch);
            }
            agents.agents[agent].is_known = false;
            let place = format!("switch {}", refusal.switch_name);
            let message = refusal.error.message;
            self.outcome.incomplete = Some(ProgramError::Refused { place, message });
        }
        for write in writes.iter().filter(|write| !refused.contains(&write.switch)) {
            agents.tables.record(write.switch, &write.entries);
        }
    }

    /// The next call; `None` if there is none.
    pub(crate) fn next_call(&self) -> Option<Output> {
        let Call { agent, writes } = self.calls.front()?;
        let (agent, generation) = (*agent, self.generation);
        Some(Output::Write { agent, generation, writes: writes.clone() })
    }

    /// Result, once there is no next call.
    pub(crate) fn into_outcome(self) -> Outcome {
        self.outcome
    }
}

/// Splits writes by switch into calls of bounded size.
fn batches(writes: Vec<SwitchWrite>) -> Vec<Vec<SwitchWrite>> {
    let mut batches = vec![Vec::new()];
    let mut entries = 0;
    for write in writes {
        if entries + write.entries.len() > ENTRIES_PER_CALL && entries > 0 {
            batches.push(Vec::new());
            entries = 0;
        }
        entries += write.entries.len();
        batches.last_mut().expect("never empty").push(write);
    }
    batches
}

#[cfg(test)]
mod tests {
    use fabricast_topology::PortSet;

    use super::*;
    use crate::table_state::Write;

    fn part(switch: u32, entries: u16) -> SwitchWrite {
        let write = |color| Write { in_port: 1, color, out: PortSet::single(2) };
        SwitchWrite { switch: SwitchId(switch), entries: (0..entries).map(write).collect() }
    }

    #[test]
    fn calls_are_split_before_they_are_too_large() {
        let cut = batches(vec![part(0, 15_000), part(1, 4_000), part(2, 2_000), part(3, 30_000)]);
        let switches: Vec<Vec<u32>> =
            cut.iter().map(|batch| batch.iter().map(|write| write.switch.0).collect()).collect();
        assert_eq!(switches, [vec![0, 1], vec![2], vec![3]]);
    }
}
