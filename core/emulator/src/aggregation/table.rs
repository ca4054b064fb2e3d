//! Aggregation entries of switches and adapters.
//!
//! They are written under a fence of their own, not the multicast tables': another part of the control
//! plane may be their writer.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{AggregationEntry, AggregationNode, EndpointId, SwitchId};
use thiserror::Error;

use super::Failure;
use crate::emulator::Emulator;
use crate::table::Fence;

/// How much an aggregation engine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationLimits {
    /// Entries of a switch. Adapters have as many as they need.
    pub entries: u16,
    /// Children of an entry.
    pub children: u32,
}

impl Default for AggregationLimits {
    /// The 16 entries of the aggregation paper's switches, and the most children it measured.
    fn default() -> Self {
        Self { entries: 16, children: 64 }
    }
}

/// Where entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AggregationPlace {
    /// A switch.
    Switch(SwitchId),
    /// An adapter, for all processes on the endpoint.
    Adapter(EndpointId),
}

impl AggregationPlace {
    /// Where a node is.
    pub(crate) const fn of(node: AggregationNode) -> Self {
        match node {
            AggregationNode::Switch(switch) => Self::Switch(switch),
            AggregationNode::Process { endpoint, .. } => Self::Adapter(endpoint),
        }
    }
}

/// A change of one place's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregationWrite {
    /// Adds an entry; one that is there already must be the same.
    Put(AggregationEntry),
    /// Takes a tree's entry from a holder; nothing if there is none.
    Remove {
        /// Who holds it.
        holder: AggregationNode,
        /// The tree.
        tree: u32,
    },
}

/// A place refused to have its entries written or read. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct AggregationError {
    /// The name of the switch or endpoint, or its number if there is no such one.
    pub place: String,
    /// What is wrong.
    pub problem: AggregationProblem,
}

/// Why a place refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AggregationProblem {
    /// The graph has no such switch or endpoint.
    #[error("not part of the fabric")]
    Unknown,
    /// It has failed.
    #[error("not answering")]
    Dead,
    /// Somebody newer has written here.
    #[error(
        "fence (term {}, generation {}) is older than (term {}, generation {})",
        offered.term, offered.generation, seen.term, seen.generation
    )]
    StaleFence {
        /// What the write carried.
        offered: Fence,
        /// The newest that was seen.
        seen: Fence,
    },
    /// There would be more entries than the switch has.
    #[error("{wanted} entries are more than {limit}")]
    Full {
        /// Entries there would be.
        wanted: usize,
        /// Entries of the switch.
        limit: u16,
    },
    /// A change is wrong.
    #[error("change {index} (tree {tree}): {problem}")]
    Change {
        /// Its place in the batch, from 0.
        index: usize,
        /// Its tree.
        tree: u32,
        /// What is wrong with it.
        problem: ChangeProblem,
    },
}

/// Why a change does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChangeProblem {
    /// The holder is somewhere else.
    #[error("the holder is not here")]
    OtherHolder,
    /// A child or the parent is not part of the fabric.
    #[error("a child or the parent is not part of the fabric")]
    UnknownNode,
    /// Nobody, the same child twice, the holder below itself, or the parent among the children.
    #[error("the children are nobody, doubled, or above the holder")]
    Children,
    /// More children than the engine takes.
    #[error("{children} children are more than {limit}")]
    TooManyChildren {
        /// How many there are.
        children: usize,
        /// How many there may be.
        limit: u32,
    },
    /// The holder has another entry for this tree: what runs on it would get wrong results. Remove
    /// it first.
    #[error("the holder has another entry for this tree")]
    Different,
}

/// One place's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct AggregationTable {
    entries: BTreeMap<(u32, AggregationNode), AggregationEntry>,
    fence: Fence,
}

impl AggregationTable {
    pub(crate) fn get(&self, tree: u32, holder: AggregationNode) -> Option<&AggregationEntry> {
        self.entries.get(&(tree, holder))
    }
}

impl Emulator {
    /// Sets what the aggregation engines take from now on.
    pub fn set_aggregation_limits(&mut self, limits: AggregationLimits) {
        self.aggregation.limits = limits;
    }

    /// Changes the aggregation entries of one place, in order, all or none.
    ///
    /// Operations that a removed entry has part of fail. The place remembers the fence of a write it
    /// obeyed; an empty batch only leaves the fence.
    ///
    /// # Errors
    ///
    /// [`AggregationError`] naming place and change.
    pub fn write_aggregation(
        &mut self,
        place: AggregationPlace,
        fence: Fence,
        writes: &[AggregationWrite],
    ) -> Result<(), AggregationError> {
        let refuse = |problem| AggregationError { place: self.place_name(place), problem };
        let table = self.aggregation_table(place).map_err(refuse)?;
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
                        self.check_entry(place, entry)
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
        let limit = self.aggregation.limits.entries;
        let wanted = entries.len();
        if matches!(place, AggregationPlace::Switch(_)) && wanted > usize::from(limit) {
            return Err(refuse(AggregationProblem::Full { wanted, limit }));
        }
        let table = AggregationTable { entries, fence };
        match place {
            AggregationPlace::Switch(switch) => {
                self.aggregation.tables.switches[switch.index()] = table
            }
            AggregationPlace::Adapter(endpoint) => {
                self.aggregation.tables.adapters.insert(endpoint, table);
            }
        }
        for (tree, holder) in removed {
            self.lose_partials(|key, node| key.0 == tree && node == holder, Failure::EntryRemoved);
        }
        Ok(())
    }

    /// Reads all aggregation entries of one place, by tree.
    ///
    /// # Errors
    ///
    /// [`AggregationProblem::Unknown`], [`AggregationProblem::Dead`].
    pub fn read_aggregation(
        &self,
        place: AggregationPlace,
    ) -> Result<Vec<AggregationEntry>, AggregationError> {
        let refuse = |problem| AggregationError { place: self.place_name(place), problem };
        Ok(self.aggregation_table(place).map_err(refuse)?.entries.values().cloned().collect())
    }

    /// Gives the newest fence that an aggregation write to a place carried.
    ///
    /// # Errors
    ///
    /// As [`Emulator::read_aggregation`].
    pub fn aggregation_fence(&self, place: AggregationPlace) -> Result<Fence, AggregationError> {
        let refuse = |problem| AggregationError { place: self.place_name(place), problem };
        Ok(self.aggregation_table(place).map_err(refuse)?.fence)
    }

    /// The table of a place that answers.
    fn aggregation_table(
        &self,
        place: AggregationPlace,
    ) -> Result<&AggregationTable, AggregationProblem> {
        static EMPTY: AggregationTable =
            AggregationTable { entries: BTreeMap::new(), fence: Fence { term: 0, generation: 0 } };
        let live = match place {
            AggregationPlace::Switch(switch) => self.faults.switch_is_live(switch),
            AggregationPlace::Adapter(endpoint) => self.faults.endpoint_is_live(endpoint),
        };
        if !self.has_place(place) {
            return Err(AggregationProblem::Unknown);
        }
        if !live {
            return Err(AggregationProblem::Dead);
        }
        Ok(match place {
            AggregationPlace::Switch(switch) => &self.aggregation.tables.switches[switch.index()],
            AggregationPlace::Adapter(endpoint) => {
                self.aggregation.tables.adapters.get(&endpoint).unwrap_or(&EMPTY)
            }
        })
    }

    pub(super) fn has_place(&self, place: AggregationPlace) -> bool {
        match place {
            AggregationPlace::Switch(switch) => switch.index() < self.graph.switch_count(),
            AggregationPlace::Adapter(endpoint) => endpoint.index() < self.graph.endpoint_count(),
        }
    }

    fn place_name(&self, place: AggregationPlace) -> String {
        match place {
            AggregationPlace::Switch(switch) if self.has_place(place) => {
                format!("switch {}", self.graph.switch_name(switch))
            }
            AggregationPlace::Adapter(endpoint) if self.has_place(place) => {
                format!("adapter {}", self.graph.endpoint_name(endpoint))
            }
            AggregationPlace::Switch(switch) => format!("switch #{}", switch.0),
            AggregationPlace::Adapter(endpoint) => format!("adapter #{}", endpoint.0),
        }
    }

    fn check_entry(
        &self,
        place: AggregationPlace,
        entry: &AggregationEntry,
    ) -> Option<ChangeProblem> {
        let AggregationEntry { holder, parent, children, .. } = entry;
        let limit = self.aggregation.limits.children;
        let named = || children.iter().chain(parent);
        let distinct: BTreeSet<_> = named().collect();
        let own_switch = matches!(holder, AggregationNode::Switch(_)) && distinct.contains(holder);
        if AggregationPlace::of(*holder) != place {
            Some(ChangeProblem::OtherHolder)
        } else if named().any(|node| !self.has_place(AggregationPlace::of(*node))) {
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
