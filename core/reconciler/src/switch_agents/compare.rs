//! Compares tables with what their switches have confirmed, a few at a time, in endless rounds.
//!
//! A difference is logged as a drift and taken over as what the switch holds; the next turn writes
//! what is missing. If an agent does not answer, or leaves a switch out, the agent is in doubt and
//! the next turn reads all of its switches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabricast_groups::Moment;
use fabricast_topology::SwitchId;

use super::SwitchAgents;
use crate::interface::{CallError, Output, SwitchTable};

/// Comparison of a few tables.
#[derive(Debug)]
pub(crate) struct Comparing {
    /// Switches by agent, in the order of the calls.
    calls: VecDeque<(usize, Vec<SwitchId>)>,
    /// Switches of the present call whose tables have not arrived.
    left_out: BTreeSet<SwitchId>,
    wants_turn: bool,
}

impl Comparing {
    /// The next call; `None` if there is none.
    pub(crate) fn next_call(&mut self) -> Option<Output> {
        let (agent, switches) = self.calls.front()?;
        self.left_out = switches.iter().copied().collect();
        Some(Output::ReadBack { agent: *agent, switches: switches.clone() })
    }

    /// True if a turn ought to follow: something differs, or a new round has started.
    pub(crate) const fn wants_turn(&self) -> bool {
        self.wants_turn
    }
}

impl SwitchAgents {
    /// Number of tables in a round.
    pub(crate) fn table_count(&self) -> usize {
        self.owner.len()
    }

    /// Starts the comparison of the next tables, at most `count`.
    pub(crate) fn start_comparing(&mut self, count: usize, dead: &BTreeSet<SwitchId>) -> Comparing {
        let starts_round = self.round.is_empty();
        if starts_round {
            self.start_round(dead);
        }
        let mut by_agent: BTreeMap<usize, Vec<SwitchId>> = BTreeMap::new();
        let next = self.round.split_off(self.round.len().saturating_sub(count));
        for switch in next.into_iter().rev() {
            let Some(&owner) = self.owner.get(&switch) else { continue };
            // Agents in doubt are read by a turn.
            let is_known = self.agents[owner].is_known && !self.silent.contains(&switch);
            if is_known && !dead.contains(&switch) {
                by_agent.entry(owner).or_default().push(switch);
            }
        }
        let calls = by_agent.into_iter().collect();
        Comparing { calls, left_out: BTreeSet::new(), wants_turn: starts_round }
    }

    /// Puts all switches into the round, those of one agent next to each other.
    fn start_round(&mut self, dead: &BTreeSet<SwitchId>) {
        let mut switches: Vec<(usize, SwitchId)> =
            self.owner.iter().map(|(switch, owner)| (*owner, *switch)).collect();
        switches.sort_unstable_by(|a, b| b.cmp(a)); // the last is read first
        self.round = switches.into_iter().map(|(_, switch)| switch).collect();
        // A switch without an agent, or one that did not answer, may have moved to another agent or
        // come back.
        let is_missing =
            |switch: &SwitchId| !self.owner.contains_key(switch) || self.silent.contains(switch);
        if self.graph.switches().any(|switch| !dead.contains(&switch) && is_missing(&switch)) {
            self.doubt_all();
        }
    }

    /// Takes one table of a comparison.
    pub(crate) fn compare_table(&mut self, work: &mut Comparing, table: SwitchTable, now: Moment) {
        work.left_out.remove(&table.switch);
        work.wants_turn |= self.take_table(table, now);
    }

    /// Takes the end of the tables of one call.
    pub(crate) fn compared(&mut self, work: &mut Comparing, read: Result<(), CallError>) {
        let Some((agent, _)) = work.calls.pop_front() else { return };
        if read.is_err() || !work.left_out.is_empty() {
            self.agents[agent].is_known = false;
            work.wants_turn = true;
        }
    }
}
