//! The ports of one tree: as they were built, and what has changed since.
//!
//! A large tree changes by a few ports at a time. Its ports are put in order when somebody reads
//! them, so that a change costs what it changes, and copies share all else.

use std::sync::{Arc, OnceLock};

use fabricast_topology::PortId;

/// Changes up to this number, and up to a sixteenth of the ports, are kept beside them.
const FEW: usize = 128;

/// Switch ports, each once.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    block: Arc<Vec<PortId>>, // of all trees of a part, or of this one
    first: u32,
    end: u32,
    edits: Option<Arc<Edits>>,
}

/// Differences from the range of the block.
#[derive(Clone, Debug, Default)]
struct Edits {
    gone: Vec<PortId>, // rising, all of them in the range
    new: Vec<PortId>,  // rising, none of them in the range
    read: OnceLock<Arc<Vec<PortId>>>,
}

impl Ports {
    /// Takes the ports from `first` to before `end` of a block, which rise there.
    pub(crate) fn of_block(block: &Arc<Vec<PortId>>, first: u32, end: u32) -> Self {
        Self { block: Arc::clone(block), first, end, edits: None }
    }

    /// Takes rising ports.
    ///
    /// # Panics
    ///
    /// If there are 2^32 or more.
    pub(crate) fn new(ports: Vec<PortId>) -> Self {
        let end = u32::try_from(ports.len()).expect("fewer than 2^32 ports");
        Self { block: Arc::new(ports), first: 0, end, edits: None }
    }

    /// Returns the ports, rising.
    ///
    /// Cost: the first time after a change, all of them.
    pub(crate) fn as_slice(&self) -> &[PortId] {
        let Some(edits) = &self.edits else { return self.built() };
        edits.read.get_or_init(|| Arc::new(self.without_and_with(&[], &[])))
    }

    pub(crate) fn len(&self) -> usize {
        let edits = self.edits.as_ref().map_or((0, 0), |edits| (edits.gone.len(), edits.new.len()));
        self.built().len() + edits.1 - edits.0
    }

    fn built(&self) -> &[PortId] {
        &self.block[self.first as usize..self.end as usize]
    }

    /// Takes out ports that are in and puts in some that are not, both rising.
    pub(crate) fn change(&mut self, gone: &[PortId], new: &[PortId]) {
        if gone.is_empty() && new.is_empty() {
            return;
        }
        if let Some(read) = self.edits.as_ref().and_then(|edits| edits.read.get()) {
            let block = Arc::clone(read);
            *self = Self { first: 0, end: self.end_of(&block), block, edits: None };
        }
        let before = self.edits.as_ref().map_or(0, |edits| edits.gone.len() + edits.new.len());
        if before + gone.len() + new.len() > FEW.max(self.built().len() / 16) {
            *self = Self::new(self.without_and_with(gone, new));
            return;
        }
        let edits = Arc::make_mut(self.edits.get_or_insert_default());
        toggle(&mut edits.new, &mut edits.gone, gone);
        toggle(&mut edits.gone, &mut edits.new, new);
    }

    fn end_of(&self, block: &[PortId]) -> u32 {
        debug_assert_eq!(block.len(), self.len(), "as many as counted");
        u32::try_from(block.len()).expect("fewer than 2^32 ports")
    }

    /// Makes the list of all ports but some, and of others, all rising.
    fn without_and_with(&self, gone: &[PortId], new: &[PortId]) -> Vec<PortId> {
        let none = Edits::default();
        let edits = self.edits.as_deref().unwrap_or(&none);
        let mut all: Vec<PortId> = Vec::with_capacity(self.len() + new.len());
        let mut rest = self.built();
        for port in &edits.gone {
            let at = rest.partition_point(|other| other < port);
            all.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
        }
        all.extend_from_slice(rest);
        for new in [&edits.new, new] {
            if !new.is_empty() {
                all.extend_from_slice(new);
                all.sort(); // two rising lists: one pass
            }
        }
        if !gone.is_empty() {
            let mut gone = gone.iter().peekable();
            all.retain(|port| gone.next_if(|one| *one == port).is_none());
        }
        all
    }
}

/// Takes ports out of one rising list, and puts those that are not there into another.
fn toggle(from: &mut Vec<PortId>, to: &mut Vec<PortId>, ports: &[PortId]) {
    let (mut known, mut others) = (Vec::new(), Vec::new());
    for port in ports {
        let list = if from.binary_search(port).is_ok() { &mut known } else { &mut others };
        list.push(*port);
    }
    if !known.is_empty() {
        let mut known = known.iter().peekable();
        from.retain(|port| known.next_if(|one| *one == port).is_none());
    }
    if others.len() < 8 {
        for port in others {
            to.insert(to.partition_point(|other| *other < port), port);
        }
    } else {
        to.extend(others);
        to.sort(); // two rising lists: one pass
    }
}

impl PartialEq for Ports {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Ports {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Ports are what a set of them would be, read or not between changes, and copies stay as
        /// they were.
        #[test]
        fn ports_are_a_set(
            built in proptest::collection::btree_set(0u32..600, 0..500),
            changes in proptest::collection::vec(
                (proptest::collection::btree_set(0u32..600, 0..80), any::<bool>()), 0..12,
            ),
        ) {
            let list = |set: &BTreeSet<u32>| set.iter().copied().map(PortId).collect::<Vec<_>>();
            let mut set = built;
            let mut ports = Ports::new(list(&set));
            for (change, read) in &changes {
                let copy = (ports.clone(), list(&set));
                let gone: BTreeSet<u32> = set.intersection(change).copied().collect();
                let new: BTreeSet<u32> = change.difference(&set).copied().collect();
                ports.change(&list(&gone), &list(&new));
                set = set.symmetric_difference(change).copied().collect();
                prop_assert_eq!(ports.len(), set.len());
                if *read {
                    prop_assert_eq!(ports.as_slice(), list(&set));
                }
                prop_assert_eq!(copy.0.as_slice(), copy.1);
            }
            prop_assert_eq!(ports.as_slice(), list(&set));
        }
    }
}
