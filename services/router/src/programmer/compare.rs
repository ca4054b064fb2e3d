//! Compares tables with what their switches have confirmed, a few at a time, in endless rounds.
//!
//! A difference is logged as a drift and taken over as what the switch holds; the next turn writes
//! what is missing. If an agent does not answer, or leaves a switch out, the agent is in doubt and
//! the next turn reads all of its switches.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_topology::SwitchId;

use super::Programmer;
use crate::environment::Environment;

impl<O: Environment> Programmer<O> {
    /// Number of tables in a round.
    pub(crate) fn table_count(&self) -> usize {
        self.owner.len()
    }

    /// Compares the next tables, at most `count`. Returns whether the loop should make a turn:
    /// something differs, or a new round starts.
    pub(crate) async fn compare_some(&mut self, count: usize, dead: &BTreeSet<SwitchId>) -> bool {
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
        let mut differs = false;
        for (agent, switches) in by_agent {
            differs |= self.compare(agent, &switches).await;
        }
        starts_round || differs
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

    /// Compares some switches of an agent. Returns whether the loop should make a turn.
    async fn compare(&mut self, agent: usize, switches: &[SwitchId]) -> bool {
        let names = switches.iter().map(|switch| self.graph.switch_name(*switch).to_owned());
        let names = names.collect();
        let mut left_out: BTreeSet<SwitchId> = switches.iter().copied().collect();
        let mut differs = false;
        let Self { environment, graph, tables, drifts, .. } = self;
        let mut take = |table: v1::SwitchTable| {
            let compared = drifts.take_table(graph, tables, &table, environment.now());
            if let Some((switch, has_drifted)) = compared {
                left_out.remove(&switch);
                differs |= has_drifted;
            }
        };
        let read = environment.read_tables(agent, names, &mut take).await;
        if read.is_err() || !left_out.is_empty() {
            self.agents[agent].is_known = false;
            return true;
        }
        differs
    }
}

#[cfg(test)]
mod tests;
