//! Blocks of nodes that lose their connection together, as those of one leaf switch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::follow::NodeLookup;
use super::{Cause, NodeIncarnation, NodeWatch, WatchOutput, disruption};
use crate::detector::{DetectorConfig, Health};
use crate::ids::Moment;
use crate::names::EndpointName;

/// Fewest silent nodes for which a block counts as cut off.
const FEWEST: usize = 3;

/// The block of each endpoint. A node belongs to the block of its first endpoint.
#[derive(Clone, Debug, Default)]
pub struct Blocks(BTreeMap<EndpointName, u32>);

impl FromIterator<(EndpointName, u32)> for Blocks {
    fn from_iter<I: IntoIterator<Item = (EndpointName, u32)>>(endpoints: I) -> Self {
        Self(endpoints.into_iter().collect())
    }
}

impl Blocks {
    fn of(&self, incarnation: &NodeIncarnation, directory: &impl NodeLookup) -> Option<u32> {
        self.0.get(&directory.first_endpoint(&incarnation.node)?).copied()
    }
}

/// Blocks that may be cut off, and their nodes that are kept meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockHolds {
    /// Beginning of the silence of a block, and the last verdict on one of its nodes.
    silences: BTreeMap<u32, [Moment; 2]>,
    /// The nodes with their blocks.
    pub(super) kept: BTreeMap<NodeIncarnation, u32>,
}

impl BlockHolds {
    /// Decides about a node of a silent block that has answered no probe: true to probe it again.
    ///
    /// - `patience`: time for which nodes of a silent block are kept.
    /// - `pause`: longer than the time between two verdicts on one node.
    fn keeps(
        &mut self,
        now: Moment,
        incarnation: &NodeIncarnation,
        block: u32,
        [patience, pause]: [Duration; 2],
    ) -> bool {
        let [begin, last] = self.silences.entry(block).or_insert([now, now]);
        if now.since(*last) > pause {
            *begin = now;
        }
        *last = now;
        let keeps = now.since(*begin) < patience;
        if keeps {
            self.kept.insert(incarnation.clone(), block);
        } else {
            self.kept.remove(incarnation);
        }
        keeps
    }

    /// The same of a block that is silent no more: probes that failed in that time count against
    /// none of its nodes.
    fn ends(&mut self, incarnation: &NodeIncarnation, block: u32) -> bool {
        self.silences.remove(&block);
        self.kept.remove(incarnation).is_some()
    }

    /// Number of blocks with nodes that are kept.
    pub(super) fn count(&self) -> usize {
        self.kept.values().collect::<BTreeSet<_>>().len()
    }
}

impl NodeWatch {
    /// Expels the nodes that have answered no probe, but for those of a block that may be cut off.
    /// Cost: the watched nodes, if there is one; all nodes when a block begins to be silent.
    pub(super) fn decide_held(&mut self, now: Moment, directory: &impl NodeLookup) {
        if self.disruption.held.is_empty() {
            return;
        }
        let cut_off = self.cut_off_blocks(directory);
        let DetectorConfig { report_timeout, probing, .. } = self.config.detector;
        let pause = report_timeout + probing.worst_case() * 2;
        let mut silent = BTreeSet::new();
        for incarnation in std::mem::take(&mut self.disruption.held) {
            let block = self.blocks.of(&incarnation, directory);
            let times = [self.config.block_patience, pause];
            let keeps = match block {
                Some(block) if cut_off.contains(&block) => {
                    silent.insert(block);
                    self.block_holds.keeps(now, &incarnation, block, times)
                }
                Some(block) => self.block_holds.ends(&incarnation, block),
                None => false,
            };
            if keeps {
                self.detector.watch(incarnation.clone(), now);
                self.detector.doubt(&incarnation, now);
            } else {
                self.output.push_back(WatchOutput::Expel { incarnation, cause: Cause::Silent });
            }
        }
        self.probe_blocks(now, directory, &silent);
    }

    /// Blocks of whose known nodes more than allowed are silent.
    fn cut_off_blocks(&self, directory: &impl NodeLookup) -> BTreeSet<u32> {
        if self.config.block_patience.is_zero() {
            return BTreeSet::new();
        }
        let mut counts = BTreeMap::<u32, [usize; 2]>::new();
        let watched = self
            .detector
            .peers()
            .map(|incarnation| (incarnation, self.detector.health(incarnation)));
        let answered =
            self.disruption.answered.keys().map(|incarnation| (incarnation, Some(Health::Alive)));
        for (incarnation, health) in watched.chain(answered) {
            let Some(block) = self.blocks.of(incarnation, directory) else { continue };
            let [known, silent] = counts.entry(block).or_default();
            *known += 1;
            *silent += usize::from(health != Some(Health::Alive));
        }
        let percent = usize::from(self.config.max_silent_percent);
        let is_cut_off =
            |[known, silent]: [usize; 2]| silent >= FEWEST && silent * 100 > known * percent;
        let cut_off = counts.into_iter().filter(|(_, counts)| is_cut_off(*counts));
        cut_off.map(|(block, _)| block).collect()
    }

    /// Probes the nodes of blocks that are not watched here, to learn whether they answer.
    fn probe_blocks(&mut self, now: Moment, directory: &impl NodeLookup, blocks: &BTreeSet<u32>) {
        if blocks.is_empty() {
            return;
        }
        let is_other = |incarnation: &NodeIncarnation| {
            self.detector.health(incarnation).is_none()
                && !self.disruption.answered.contains_key(incarnation)
                && self
                    .blocks
                    .of(incarnation, directory)
                    .is_some_and(|block| blocks.contains(&block))
        };
        for incarnation in disruption::others(directory, is_other, usize::MAX / 2) {
            self.doubt(now, &incarnation, directory);
        }
    }
}
