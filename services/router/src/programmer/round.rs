//! Compares a few tables at a time with what their switches had confirmed, one round after the other.
//!
//! What differs is noted and remembered as what is held; the next turn writes the difference. Whatever does not go
//! as it should (an agent that does not answer, a switch that it leaves out) puts the agent in doubt, so that the next
//! turn reads all of its switches.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_topology::SwitchId;

use super::Programmer;
use crate::outside::Outside;

impl<O: Outside> Programmer<O> {
    /// Number of tables in a round.
    pub(crate) fn table_count(&self) -> usize {
        self.owner.len()
    }

    /// Compares the next tables, `count` at most; whether a turn is wanted, as something differs or a round begins.
    pub(crate) async fn compare_some(&mut self, count: usize, dead: &BTreeSet<SwitchId>) -> bool {
        let begins = self.round.is_empty();
        if begins {
            self.begin_round(dead);
        }
        let mut by_agent: BTreeMap<usize, Vec<SwitchId>> = BTreeMap::new();
        let next = self.round.split_off(self.round.len().saturating_sub(count));
        for switch in next.into_iter().rev() {
            let Some(&owner) = self.owner.get(&switch) else { continue };
            // Those in doubt are read by a turn.
            let is_known = self.agents[owner].known && !self.silent.contains(&switch);
            if is_known && !dead.contains(&switch) {
                by_agent.entry(owner).or_default().push(switch);
            }
        }
        let mut differs = false;
        for (agent, switches) in by_agent {
            differs |= self.compare(agent, &switches).await;
        }
        begins || differs
    }

    /// Switches one after the other, those of one agent together.
    fn begin_round(&mut self, dead: &BTreeSet<SwitchId>) {
        let mut switches: Vec<(usize, SwitchId)> =
            self.owner.iter().map(|(switch, owner)| (*owner, *switch)).collect();
        switches.sort_unstable_by(|a, b| b.cmp(a)); // the last is the first to be read
        self.round = switches.into_iter().map(|(_, switch)| switch).collect();
        // A switch that nobody has, or that does not answer, may be with another agent by now, or back.
        let is_missing =
            |switch: &SwitchId| !self.owner.contains_key(switch) || self.silent.contains(switch);
        if self.graph.switches().any(|switch| !dead.contains(&switch) && is_missing(&switch)) {
            self.doubt_all();
        }
    }

    /// Compares some switches of an agent; whether a turn is wanted.
    async fn compare(&mut self, agent: usize, switches: &[SwitchId]) -> bool {
        let names = switches.iter().map(|switch| self.graph.switch_name(*switch).to_owned());
        let names = names.collect();
        let mut left_out: BTreeSet<SwitchId> = switches.iter().copied().collect();
        let mut differs = false;
        let Self { outside, graph, held, audit, .. } = self;
        let mut take = |table: v1::SwitchTable| {
            let seen = audit.take_table((graph, held), &table, outside.now());
            if let Some((switch, is_other)) = seen {
                left_out.remove(&switch);
                differs |= is_other;
            }
        };
        let read = outside.read_tables(agent, names, &mut take).await;
        if read.is_err() || !left_out.is_empty() {
            self.agents[agent].known = false;
            return true;
        }
        differs
    }
}

#[cfg(test)]
mod tests;
