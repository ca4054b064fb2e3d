//! G4: at most one agent per group acts, and no node obeys a former agent. Checked at every step.

use std::collections::BTreeMap;

use fabricast_groups::operating::Oa;
use fabricast_groups::{Epoch, Gn, Incarnation, Revision};

use crate::node::SimNode;

/// The highest epoch that a node has obeyed, by incarnation, group and membership.
#[derive(Debug, Default)]
pub(crate) struct Obedience(BTreeMap<(Incarnation, Gn, Revision), Epoch>);

impl Obedience {
    /// Checks a node after it has handled a message.
    pub(crate) fn note(&mut self, oa: &Oa) {
        for held in oa.memberships() {
            let Some(position) = &held.position else { continue };
            let key = (oa.incarnation(), held.member.gn, held.member.joined);
            let before = self.0.insert(key, position.epoch);
            assert!(before <= Some(position.epoch), "G4: an agent of the past was obeyed");
        }
    }
}

/// The host of the agent in each epoch of a group.
#[derive(Debug, Default)]
pub(crate) struct Appointments(BTreeMap<(Gn, Epoch), (usize, Incarnation)>);

impl Appointments {
    /// Checks a node that may host agents.
    pub(crate) fn note(&mut self, node: &SimNode) {
        let Some(ga) = &node.ga else { return };
        let incarnation = (node.index, ga.incarnation());
        for hosted in ga.status() {
            let first = *self.0.entry((hosted.gn, hosted.epoch)).or_insert(incarnation);
            assert_eq!(
                first, incarnation,
                "G4: two agents of {:?} in {:?}",
                hosted.gn, hosted.epoch
            );
        }
    }
}
