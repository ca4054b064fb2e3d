//! Breadth-first searches: from many leaves at once, from one switch, and again after a change.

use fabricast_topology::SwitchId;

use super::{MOST_HOPS, NO_PATH};
use crate::links::SwitchLinks;

/// Searches from up to [`WIDTH`] leaves at once: each switch keeps a bit for every wave that has
/// come by.
pub(super) struct Waves {
    marks: Vec<Marks>, // by switch
    at: Vec<u32>,      // switches with waves in `front`
    ahead: Vec<u32>,
    hops: Vec<[u8; WIDTH]>, // by switch, wave by wave: what one switch learns at once lies side by side
}

/// State of all searches at one switch, a bit for each search.
#[derive(Clone, Copy, Default)]
struct Marks {
    seen: Set,
    front: Set, // came by in this step
    next: Set,  // will come by in the next
}

type Set = [u64; WORDS];
const WORDS: usize = 2;
/// Waves in one search.
const WIDTH: usize = 64 * WORDS;

impl Waves {
    /// Waves in one search.
    pub(super) const WIDTH: usize = WIDTH;

    pub(super) fn new(switches: usize) -> Self {
        let marks = vec![Marks::default(); switches];
        let hops = vec![[NO_PATH; WIDTH]; switches];
        Self { marks, at: Vec::new(), ahead: Vec::new(), hops }
    }

    /// Counts the hops of up to [`Waves::WIDTH`] rows of a table, each from its live leaf.
    pub(super) fn spread(
        &mut self,
        links: &SwitchLinks,
        rows: &[(usize, SwitchId)],
        table: &mut [u8],
    ) {
        self.marks.fill(Marks::default());
        self.hops.fill([NO_PATH; WIDTH]);
        self.at.clear();
        for (wave, (_, leaf)) in rows.iter().enumerate() {
            let marks = &mut self.marks[leaf.index()];
            marks.seen[wave / 64] = 1 << (wave % 64);
            marks.front = marks.seen;
            self.hops[leaf.index()][wave] = 0;
            self.at.push(leaf.0);
        }
        for hops in 1..=MOST_HOPS {
            self.step(links);
            if self.at.is_empty() {
                break;
            }
            for switch in &self.at {
                let learned = &mut self.hops[*switch as usize];
                let words = self.marks[*switch as usize].front;
                for (mut waves, learned) in words.into_iter().zip(learned.chunks_exact_mut(64)) {
                    while waves != 0 {
                        learned[waves.trailing_zeros() as usize] = hops;
                        waves &= waves - 1;
                    }
                }
            }
        }
        self.write(rows, table);
    }

    /// Turns what the switches have learned into rows, a block of switches at a time.
    fn write(&self, rows: &[(usize, SwitchId)], table: &mut [u8]) {
        for (at, block) in self.hops.chunks(64).enumerate() {
            for (wave, (row, _)) in rows.iter().enumerate() {
                let first = row * self.hops.len() + at * 64;
                for (cell, hops) in table[first..].iter_mut().zip(block) {
                    *cell = hops[wave];
                }
            }
        }
    }

    /// Moves all waves on by one hop.
    fn step(&mut self, links: &SwitchLinks) {
        let Self { marks, at, ahead, .. } = self;
        ahead.clear();
        for switch in &*at {
            let front = marks[*switch as usize].front;
            for to in links.neighbours(SwitchId(*switch)) {
                let there = &mut marks[to.index()];
                let mut new = front;
                for (new, seen) in new.iter_mut().zip(&there.seen) {
                    *new &= !seen;
                }
                if new != [0; WORDS] {
                    if there.next == [0; WORDS] {
                        ahead.push(to.0);
                    }
                    for (next, new) in there.next.iter_mut().zip(new) {
                        *next |= new;
                    }
                }
            }
        }
        std::mem::swap(at, ahead);
        for switch in &*at {
            let here = &mut marks[*switch as usize];
            here.front = std::mem::take(&mut here.next);
            for (seen, front) in here.seen.iter_mut().zip(here.front) {
                *seen |= front;
            }
        }
    }
}

/// Hops from one switch of any kind; its buffers are used again by the next search.
///
/// A table has rows for leaves only; this is the row of any other switch, such as a tree's root.
#[derive(Clone, Debug, Default)]
pub struct HopSearch {
    hops: Vec<u8>,
    queue: Vec<u32>,
}

impl HopSearch {
    /// Makes a search without buffers.
    #[must_use]
    pub const fn new() -> Self {
        Self { hops: Vec::new(), queue: Vec::new() }
    }

    /// Counts the hops from a switch to every switch, [`NO_PATH`] where there is no path; 0 from a
    /// dead switch to itself. Cost: one visit of every link.
    pub fn from(&mut self, links: &SwitchLinks, switch: SwitchId) -> &[u8] {
        self.hops.clear();
        self.hops.resize(links.switch_count(), NO_PATH);
        self.hops[switch.index()] = 0;
        self.queue.clear();
        self.queue.push(switch.0);
        let mut done = 0;
        while let Some(at) = self.queue.get(done).copied() {
            done += 1;
            let hops = self.hops[at as usize];
            for to in links.neighbours(SwitchId(at)) {
                let there = &mut self.hops[to.index()];
                if *there == NO_PATH {
                    *there = hops + 1;
                    self.queue.push(to.0);
                }
            }
        }
        &self.hops
    }
}

/// Links of switches that a change of faults took away or brought back.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Those that died.
    pub(super) gone: Vec<SwitchId>,
    /// Those that live again.
    pub(super) came: Vec<SwitchId>,
    /// Those that live and have not the links they had, `came` among them.
    pub(super) relinked: Vec<SwitchId>,
}

/// Repairs the row of a live leaf after a change; false if the row has to be computed again.
///
/// Only switches that came or went get another number here. The row is right if then every
/// relinked switch but the leaf has a neighbour one hop nearer and none that is nearer than that.
pub(super) fn mend(links: &SwitchLinks, changed: &Changed, leaf: SwitchId, row: &mut [u8]) -> bool {
    let by_neighbours = |row: &[u8], switch: SwitchId| {
        let nearest = links.neighbours(switch).iter().map(|to| row[to.index()]).min();
        nearest.filter(|hops| *hops < MOST_HOPS).map_or(NO_PATH, |hops| hops + 1)
    };
    for switch in &changed.gone {
        row[switch.index()] = NO_PATH;
    }
    for switch in &changed.came {
        row[switch.index()] = if *switch == leaf { 0 } else { by_neighbours(row, *switch) };
    }
    let is_right =
        |switch: &SwitchId| *switch == leaf || row[switch.index()] == by_neighbours(row, *switch);
    changed.relinked.iter().all(is_right)
}
