//! Simulated switches that combine, and may fail to deliver the result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_groups::{Pn, Revision};
use fabricast_messages::{MemberId, Offer, Run, Values, Wide, Work};

use super::{Event, GN, World};

/// A run that has not ended in this time is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time until members learn of a tree.
const KNOWN: Duration = Duration::from_millis(8);

/// The switches, with a tree over the members of now after every change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switches {
    broken: u64,
    /// Number of runs that all members have contributed to.
    pub(crate) combined: usize,
    tree: u32,
    processes: usize,
    runs: BTreeMap<(u32, u64), Contributions>,
}

#[derive(Clone, Debug, Default)]
struct Contributions {
    parts: BTreeMap<Pn, (Revision, Run)>,
    ended: bool,
}

impl Switches {
    /// - `broken`: chance in a thousand that a member does not get what was combined.
    pub(crate) fn new(broken: u64) -> Self {
        Self { broken, ..Self::default() }
    }
}

/// Combines the contributions of all members.
fn combined(runs: &[Run]) -> Option<Wide> {
    let reduction = match runs[0].work {
        Work::Barrier => return None,
        Work::Broadcast { source } => return runs[source].numbers.clone(),
        Work::AllReduce { reduction } => reduction,
    };
    let values = |run: &Run| match run.numbers.clone().unwrap() {
        Wide::Signed(numbers) => Values::I64(numbers),
        Wide::Unsigned(numbers) => Values::U64(numbers),
    };
    let add = |mut a: Values, b: Values| {
        a.combine(reduction.into(), &b).unwrap();
        a
    };
    match runs.iter().map(values).reduce(add).unwrap() {
        Values::I64(numbers) => Some(Wide::Signed(numbers)),
        Values::U64(numbers) => Some(Wide::Unsigned(numbers)),
        other => panic!("{other:?}"),
    }
}

impl World {
    /// Makes a new tree over the present members, which learn of it one by one.
    pub(super) fn plant(&mut self) {
        let Some(switches) = &mut self.switches else { return };
        switches.tree += 1;
        switches.processes = self.members.len();
        let (tree, processes) = (switches.tree, switches.processes);
        let members: Vec<(Pn, Revision)> =
            self.members.iter().map(|(pn, member)| (*pn, member.joined)).collect();
        for (process, (pn, joined)) in members.into_iter().enumerate() {
            let offer = Offer {
                tree,
                process,
                processes,
                barrier: true,
                broadcast: true,
                all_reduce: true,
                bytes: 64,
            };
            let at = self.soon().after(KNOWN); // once it has its place
            self.push(at, Event::Offer(pn, joined, offer));
        }
    }

    pub(super) fn contribute(&mut self, pn: Pn, run: Run) {
        let (now, joined) = (self.now, self.members[&pn].joined);
        let Some(switches) = &mut self.switches else { return };
        let key = (run.tree, run.sequence);
        let state = switches.runs.entry(key).or_default();
        if state.ended || run.tree != switches.tree {
            let at = self.soon();
            return self.push(at, Event::Combined(pn, joined, key.1, None));
        }
        assert!(state.parts.insert(pn, (joined, run)).is_none(), "{pn} contributed twice");
        if state.parts.len() < switches.processes {
            return self.push(now.after(PATIENCE), Event::GiveUp(key.0, key.1));
        }
        state.ended = true;
        switches.combined += 1;
        let (parts, broken) = (state.parts.clone(), switches.broken);
        let runs: Vec<Run> = parts.values().map(|(_, run)| run.clone()).collect();
        let numbers = combined(&runs);
        for (pn, (joined, _)) in parts {
            let brings = (self.draw(1000) >= broken).then(|| numbers.clone());
            let at = self.soon();
            self.push(at, Event::Combined(pn, joined, key.1, brings));
        }
    }

    /// Withdraws a member, which fails its runs for all that have contributed.
    pub(super) fn withdraw(&mut self, pn: Pn) {
        let Some(switches) = &self.switches else { return };
        let open =
            switches.runs.iter().filter(|(_, run)| !run.ended && run.parts.contains_key(&pn));
        let open: BTreeSet<(u32, u64)> = open.map(|(key, _)| *key).collect();
        open.into_iter().for_each(|(tree, sequence)| self.give_up(tree, sequence));
    }

    pub(super) fn give_up(&mut self, tree: u32, sequence: u64) {
        let state = self.switches.as_mut().and_then(|one| one.runs.get_mut(&(tree, sequence)));
        let Some(state) = state.filter(|state| !state.ended) else { return };
        state.ended = true;
        for (pn, (joined, _)) in state.parts.clone() {
            let at = self.soon();
            self.push(at, Event::Combined(pn, joined, sequence, None));
        }
    }

    /// Delivers an event of the switches to a member at its node.
    pub(super) fn deliver(&mut self, pn: Pn, joined: Revision, event: Event) {
        let Some(member) = self.members.get(&pn).filter(|one| one.joined == joined) else { return };
        let (now, node) = (self.now, member.node.clone());
        self.input(&node, |layer| match event {
            Event::Offer(_, _, offer) => layer.offer(GN, pn, Some(offer)),
            Event::Combined(_, _, sequence, brings) => {
                layer.combined(now, MemberId { gn: GN, pn }, sequence, brings);
            }
            other => panic!("{other:?}"),
        });
        self.drain(&node);
    }
}
