//! The last contact with each node, and the nodes that are silent, for readers outside the watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::ids::{Incarnation, Moment};
use fabricast_groups::names::NodeName;
use fabricast_groups::watch::NodeIncarnation;
use parking_lot::RwLock;

/// Contacts of one term: a TIC that begins to lead knows of none.
#[derive(Debug, Default)]
pub(crate) struct Contacts {
    last: RwLock<BTreeMap<NodeName, (Incarnation, Moment)>>,
    silent: RwLock<Arc<BTreeSet<NodeName>>>,
}

impl Contacts {
    /// Notes that these nodes have reported or answered.
    ///
    /// - `now`: the wall clock.
    pub(crate) fn note<'a>(
        &self,
        incarnations: impl IntoIterator<Item = &'a NodeIncarnation>,
        now: Moment,
    ) {
        let mut last = self.last.write();
        for NodeIncarnation { node, number } in incarnations {
            match last.get_mut(node) {
                Some(known) => *known = (*number, now),
                None => drop(last.insert(node.clone(), (*number, now))),
            }
        }
    }

    /// The time of the last contact with a node in this incarnation.
    pub(crate) fn last(&self, node: &NodeName, incarnation: Incarnation) -> Option<Moment> {
        let last = self.last.read();
        last.get(node).filter(|(known, _)| *known == incarnation).map(|(_, at)| *at)
    }

    /// Forgets a node whose record is gone.
    pub(crate) fn forget(&self, node: &NodeName) {
        self.last.write().remove(node);
    }

    /// The nodes that are overdue or suspected and have not answered.
    pub(crate) fn silent(&self) -> Arc<BTreeSet<NodeName>> {
        Arc::clone(&self.silent.read())
    }

    pub(crate) fn set_silent<'a>(&self, incarnations: impl Iterator<Item = &'a NodeIncarnation>) {
        let silent: BTreeSet<NodeName> =
            incarnations.map(|incarnation| incarnation.node.clone()).collect();
        if silent != *self.silent() {
            *self.silent.write() = Arc::new(silent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_contact_is_that_of_the_present_incarnation() {
        let contacts = Contacts::default();
        let node = NodeName::new("n").unwrap();
        let incarnation =
            |number| NodeIncarnation { node: node.clone(), number: Incarnation(number) };
        contacts.note([&incarnation(1)], Moment(5));
        assert_eq!(contacts.last(&node, Incarnation(1)), Some(Moment(5)));
        assert_eq!(contacts.last(&node, Incarnation(2)), None, "it was another incarnation");
        contacts.note([&incarnation(2)], Moment(9));
        assert_eq!(contacts.last(&node, Incarnation(2)), Some(Moment(9)));
        contacts.forget(&node);
        assert_eq!(contacts.last(&node, Incarnation(2)), None);
    }
}
