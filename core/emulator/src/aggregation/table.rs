//! Aggregation entries of switches and adapters.
//!
//! They have a fence of their own, apart from that of the multicast tables, because another part of
//! the control plane may write them.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{AggregationEntry, AggregationNode, EndpointId, Graph};
use thiserror::Error;

use super::fabric::{AggregationPlace, FabricState};
use crate::table::Fence;

/// Capacity of an aggregation engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationLimits {
    /// Most entries of a switch; adapters have no limit.
    pub entries: u16,
    /// Most children of an entry.
    pub children: u32,
}

impl Default for AggregationLimits {
    /// The 16 entries of the aggregation paper's switches, and the most children it measured.
    fn default() -> Self {
        Self { entries: 16, children: 64 }
    }
}

/// A change of one place's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregationWrite {
    /// Adds an entry; one that is there already must be the same.
    Put(AggregationEntry),
    /// Removes a tree's entry from a holder; does nothing if there is none.
    Remove {
        /// Node that holds the entry.
        holder: AggregationNode,
        /// Number of the tree.
        tree: u32,
    },
}

/// A place refused to have its entries written or read. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct AggregationError {
    /// The name of the switch or endpoint, or its number if there is no such one.
    pub place: String,
    /// Reason of the refusal.
    pub problem: AggregationProblem,
}

/// Reason why a place refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AggregationProblem {
    /// The graph has no such switch or endpoint.
    #[error("not part of the fabric")]
    Unknown,
    /// The switch or endpoint has failed.
    #[error("not answering")]
    Dead,
    /// A newer writer has written here.
    #[error(
        "fence (term {}, generation {}) is older than (term {}, generation {})",
        offered.term, offered.generation, seen.term, seen.generation
    )]
    StaleFence {
        /// Fence of the write.
        offered: Fence,
        /// Newest fence seen here.
        seen: Fence,
    },
    /// The write needs more entries than the switch has.
    #[error("{wanted} entries are more than {limit}")]
    Full {
        /// Entries after the write.
        wanted: usize,
        /// Most entries of the switch.
        limit: u16,
    },
    /// One change of the batch is invalid.
    #[error("change {index} (tree {tree}): {problem}")]
    Change {
        /// Index of the change in the batch, from 0.
        index: usize,
        /// Tree of the change.
        tree: u32,
        /// Reason why it is invalid.
        problem: ChangeProblem,
    },
}

/// Reason why a change is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChangeProblem {
    /// The holder belongs to another switch or endpoint.
    #[error("the holder is not here")]
    OtherHolder,
    /// A child or the parent is not part of the fabric.
    #[error("a child or the parent is not part of the fabric")]
    UnknownNode,
    /// No child, the same child twice, the holder as its own child, or the parent as a child.
    #[error("there is no child, a child is doubled, or it is the holder or its parent")]
    Children,
    /// More children than an entry can have.
    #[error("{children} children are more than {limit}")]
    TooManyChildren {
        /// Children of the entry.
        children: usize,
        /// Most children of an entry.
        limit: u32,
    },
    /// The holder has a different entry for this tree; operations on it would get wrong results.
    /// Remove it first.
    #[error("the holder has another entry for this tree")]
    Different,
}

/// Entries of one place, by tree and holder.
#[derive(Clone, Debug, Default)]
struct AggregationTable {
    entries: BTreeMap<EntryKey, AggregationEntry>,
    fence: Fence,
}

/// The tables of all switches and adapters.
#[derive(Clone, Debug)]
pub(super) struct AggregationTables {
    pub(super) limits: AggregationLimits,
    /// Indexed by switch.
    switches: Vec<AggregationTable>,
    adapters: BTreeMap<EndpointId, AggregationTable>,
}

/// Tree and holder of an entry.
pub(super) type EntryKey = (u32, AggregationNode);

impl AggregationTables {
    pub(super) fn new(graph: &Graph) -> Self {
        Self {
            limits: AggregationLimits::default(),
            switches: vec![AggregationTable::default(); graph.switch_count()],
            adapters: BTreeMap::new(),
        }
    }

    /// Finds the entry of a node for a tree.
    pub(super) fn entry(&self, tree: u32, node: AggregationNode) -> Option<&AggregationEntry> {
        let table = match AggregationPlace::of(node) {
            AggregationPlace::Switch(switch) => self.switches.get(switch.index())?,
            AggregationPlace::Adapter(endpoint) => self.adapters.get(&endpoint)?,
        };
        table.entries.get(&(tree, node))
    }

    /// Clears the table of a place that lost power.
    pub(super) fn clear(&mut self, place: AggregationPlace) {
        match place {
            AggregationPlace::Switch(switch) => {
                self.switches[switch.index()] = AggregationTable::default();
            }
            AggregationPlace::Adapter(endpoint) => {
                self.adapters.remove(&endpoint);
            }
        }
    }

    /// Changes the entries of one place, in order, all or none; returns the entries removed.
    pub(super) fn write(
        &mut self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
        fence: Fence,
        writes: &[AggregationWrite],
    ) -> Result<BTreeSet<EntryKey>, AggregationError> {
        let refuse = |problem| AggregationError { place: fabric.place_name(place), problem };
        let table = self.at(fabric, place)?;
        let seen = table.fence;
        if fence < seen {
            return Err(refuse(AggregationProblem::StaleFence { offered: fence, seen }));
        }
        let mut entries = table.entries.clone();
        let mut removed = BTreeSet::new();
        for (index, write) in writes.iter().enumerate() {
            match write {
                AggregationWrite::Remove { holder, tree } => {
                    if entries.remove(&(*tree, *holder)).is_some() {
                        removed.insert((*tree, *holder));
                    }
                }
                AggregationWrite::Put(entry) => {
                    let before = entries.insert((entry.tree, entry.holder), entry.clone());
                    let same = before.is_none_or(|before| before == *entry);
                    let problem = if same {
                        self.check_entry(fabric, place, entry)
                    } else {
                        Some(ChangeProblem::Different)
                    };
                    if let Some(problem) = problem {
                        let tree = entry.tree;
                        return Err(refuse(AggregationProblem::Change { index, tree, problem }));
                    }
                }
            }
        }
        let limit = self.limits.entries;
        let wanted = entries.len();
        if matches!(place, AggregationPlace::Switch(_)) && wanted > usize::from(limit) {
            return Err(refuse(AggregationProblem::Full { wanted, limit }));
        }
        let table = AggregationTable { entries, fence };
        match place {
            AggregationPlace::Switch(switch) => self.switches[switch.index()] = table,
            AggregationPlace::Adapter(endpoint) => {
                self.adapters.insert(endpoint, table);
            }
        }
        Ok(removed)
    }

    /// Reads all entries of one place, by tree.
    pub(super) fn read(
        &self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
    ) -> Result<Vec<AggregationEntry>, AggregationError> {
        Ok(self.at(fabric, place)?.entries.values().cloned().collect())
    }

    /// Returns the newest fence that a write to a place carried.
    pub(super) fn fence(
        &self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
    ) -> Result<Fence, AggregationError> {
        Ok(self.at(fabric, place)?.fence)
    }

    /// Finds the table of a place that answers.
    fn at(
        &self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
    ) -> Result<&AggregationTable, AggregationError> {
        static EMPTY: AggregationTable =
            AggregationTable { entries: BTreeMap::new(), fence: Fence { term: 0, generation: 0 } };
        let refuse = |problem| AggregationError { place: fabric.place_name(place), problem };
        if !fabric.has_place(place) {
            return Err(refuse(AggregationProblem::Unknown));
        }
        if !fabric.place_is_live(place) {
            return Err(refuse(AggregationProblem::Dead));
        }
        Ok(match place {
            AggregationPlace::Switch(switch) => &self.switches[switch.index()],
            AggregationPlace::Adapter(endpoint) => self.adapters.get(&endpoint).unwrap_or(&EMPTY),
        })
    }

    fn check_entry(
        &self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
        entry: &AggregationEntry,
    ) -> Option<ChangeProblem> {
        let AggregationEntry { holder, parent, children, .. } = entry;
        let limit = self.limits.children;
        let named = || children.iter().chain(parent);
        let distinct: BTreeSet<_> = named().collect();
        let own_switch = matches!(holder, AggregationNode::Switch(_)) && distinct.contains(holder);
        if AggregationPlace::of(*holder) != place {
            Some(ChangeProblem::OtherHolder)
        } else if named().any(|node| !fabric.has_place(AggregationPlace::of(*node))) {
            Some(ChangeProblem::UnknownNode)
        } else if children.is_empty() || distinct.len() < named().count() || own_switch {
            Some(ChangeProblem::Children)
        } else if children.len() > limit as usize {
            Some(ChangeProblem::TooManyChildren { children: children.len(), limit })
        } else {
            None
        }
    }
}
