//! Durable state of an allocator.

use fabricast_topology::{EndpointId, Graph, Peer, SwitchId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::faults::Following;
use super::ledger::{Holder, Quota, Reservation, ReservationId};
use super::request::{Collective, CollectiveId, Refusal, TreeId};
use super::undo::{Before, Journal};
use super::{Allocator, Settings};
use crate::fabric::Fabric;
use crate::switch_tree::SwitchTree;

/// Everything an allocator holds. Switches and endpoints are those of the same graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorState {
    /// Collectives, by id.
    pub collectives: Vec<Collective>,
    /// Reservations by id, with their switches.
    pub reservations: Vec<(ReservationId, Reservation, Vec<SwitchId>)>,
    /// Limits, by holder.
    pub quotas: Vec<(Holder, Quota)>,
    /// Number of the next tree.
    pub next_tree: u32,
    /// Number of the next reservation.
    pub next_reservation: u32,
}

/// Reason why a state does not fit a fabric: it belongs to another fabric, or was damaged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The request of a collective is invalid.
    #[error("collective {id} is not valid")]
    Request {
        /// Number of the collective.
        id: CollectiveId,
        /// Problem of the collective.
        #[source]
        why: Refusal,
    },
    /// Two collectives have one number.
    #[error("collective {id} is there twice")]
    Twice {
        /// Number of the collectives.
        id: CollectiveId,
    },
    /// A switch tree is not one of this fabric.
    #[error("the switch tree of collective {id} does not fit the fabric")]
    Tree {
        /// Number of the collective.
        id: CollectiveId,
        /// Problem of the tree.
        #[source]
        why: TreeProblem,
    },
    /// A tree has a number that was not given out yet.
    #[error("tree {tree} of collective {id} has a number that was not given out yet")]
    Number {
        /// Number of the collective.
        id: CollectiveId,
        /// Number of the tree.
        tree: TreeId,
    },
    /// A reservation is in a switch that does not exist.
    #[error("reservation {} names switch #{}, which does not exist", id.0, switch.0)]
    Reservation {
        /// Number of the reservation.
        id: ReservationId,
        /// Number of the switch.
        switch: SwitchId,
    },
    /// A switch has fewer entries than are held and reserved.
    #[error("switch {switch} lacks {missing} of the entries that are held and reserved")]
    TooFew {
        /// Name of the switch.
        switch: String,
        /// Number of entries.
        missing: u32,
    },
}

/// Problem of a switch tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeProblem {
    /// The tree refers to switches, ports or members that do not exist.
    #[error("it points to switches, ports or members that do not exist")]
    Dangling,
    /// A link does not connect the two switches that it is between.
    #[error("the links do not connect the switches")]
    Links,
    /// A member is not on its leaf switch.
    #[error("a member is on another switch")]
    Members,
    /// The parent of a node is not on its path to the root.
    #[error("a parent is not above its child")]
    Ancestor,
}

impl Allocator {
    /// Returns everything that must be kept to continue after a restart.
    #[must_use]
    pub fn state(&self) -> AllocatorState {
        AllocatorState {
            collectives: self.collectives.values().cloned().collect(),
            ..self.state_but_collectives()
        }
    }

    /// Returns the state without the collectives, for callers that store these one by one.
    #[must_use]
    pub fn state_but_collectives(&self) -> AllocatorState {
        AllocatorState {
            collectives: Vec::new(),
            reservations: self
                .ledger
                .reservations()
                .map(|(id, reservation)| (id, reservation.clone(), self.ledger.switches_of(id)))
                .collect(),
            quotas: self.ledger.quotas().collect(),
            next_tree: self.next_tree,
            next_reservation: self.ledger.next_reservation,
        }
    }

    /// Continues with a state. Trees stay as they are, even if faults have hit them meanwhile,
    /// until [`Allocator::set_faults`].
    ///
    /// # Errors
    ///
    /// [`RestoreError`] with the part that does not fit.
    pub fn restore(
        fabric: Fabric,
        settings: Settings,
        state: AllocatorState,
    ) -> Result<Self, RestoreError> {
        let mut allocator = Self::new(fabric, settings);
        allocator.next_tree = state.next_tree;
        allocator.ledger.next_reservation = state.next_reservation;
        for (holder, quota) in state.quotas {
            allocator.ledger.set_quota(holder, quota);
        }
        for collective in state.collectives {
            allocator.restore_collective(collective)?;
        }
        let graph = std::sync::Arc::clone(allocator.fabric.graph());
        for (id, reservation, switches) in state.reservations {
            let unknown = |switch: &&SwitchId| switch.index() >= graph.switch_count();
            if let Some(switch) = switches.iter().find(unknown) {
                return Err(RestoreError::Reservation { id, switch: *switch });
            }
            allocator.ledger.record_reservation(id, reservation, &switches);
        }
        for switch in graph.switches() {
            let missing = allocator.ledger.missing(switch);
            if missing > 0 {
                let switch = graph.switch_name(switch).to_owned();
                return Err(RestoreError::TooFew { switch, missing });
            }
        }
        Ok(allocator)
    }

    /// Begins to record changes, so that [`Allocator::undo_changes`] can undo them; those before
    /// stay.
    pub fn record_changes(&mut self) {
        let (next_tree, next_reservation) = (self.next_tree, self.ledger.next_reservation);
        let before = Before { next_tree, next_reservation, ..Before::default() };
        self.journal = Journal(Some(before));
    }

    /// Undoes all changes since [`Allocator::record_changes`], as they did not become durable, and
    /// records those that follow. Faults stay; if they have changed meanwhile, or collectives have
    /// followed them, all collectives have to follow them again.
    ///
    /// Cost: that of what has changed; O(switches) for each reservation.
    pub fn undo_changes(&mut self) {
        let Some(before) = self.journal.0.take() else { return };
        for (id, collective) in before.collectives {
            if let Some(changed) = self.collectives.remove(&id) {
                self.ledger.give_back(&changed);
            }
            if let Some(collective) = collective {
                self.ledger.take(&collective);
                self.collectives.insert(id, collective);
            }
        }
        for (id, reservation) in before.reservations {
            self.ledger.cancel(id);
            if let Some((reservation, switches)) = reservation {
                self.ledger.record_reservation(id, reservation, &switches);
            }
        }
        for (holder, quota) in before.quotas {
            self.ledger.set_quota(holder, quota);
        }
        self.next_tree = before.next_tree;
        self.ledger.next_reservation = before.next_reservation;
        if before.has_followed {
            self.following = Some(Following::default());
        }
        self.record_changes();
    }

    fn restore_collective(&mut self, collective: Collective) -> Result<(), RestoreError> {
        let id = collective.request.id;
        collective.request.check().map_err(|why| RestoreError::Request { id, why })?;
        if self.collectives.contains_key(&id) {
            return Err(RestoreError::Twice { id });
        }
        if let Some((number, tree)) = collective.service.switch_tree() {
            check(tree, self.fabric.graph(), &collective.request.members)
                .map_err(|why| RestoreError::Tree { id, why })?;
            if number.0 >= self.next_tree {
                return Err(RestoreError::Number { id, tree: number });
            }
        }
        self.ledger.take(&collective);
        self.collectives.insert(id, collective);
        Ok(())
    }
}

/// Checks that a tree lies in a graph and connects these members.
pub(super) fn check(
    tree: &SwitchTree,
    graph: &Graph,
    members: &[EndpointId],
) -> Result<(), TreeProblem> {
    let switches = &tree.physical.switches;
    for (at, node) in switches.iter().enumerate() {
        let known = node.switch.index() < graph.switch_count();
        let above = node.up.map_or(at == 0, |up| {
            (up.parent as usize) < at && up.port.index() < graph.port_count()
        });
        if !(known && above) {
            return Err(TreeProblem::Dangling);
        }
        let connects = node.up.is_none_or(|up| match graph.peer(up.port) {
            Peer::Switch(peer) => {
                let ends = (graph.switch_of(up.port), graph.switch_of(peer));
                ends == (node.switch, switches[up.parent as usize].switch)
            }
            Peer::Endpoint(_) | Peer::None => false,
        });
        if !connects {
            return Err(TreeProblem::Links);
        }
    }
    let leaves = &tree.physical.members;
    if leaves.len() != members.len() || tree.member_parents.len() != members.len() {
        return Err(TreeProblem::Members);
    }
    for (leaf, member) in leaves.iter().zip(members) {
        let leaf = switches.get(*leaf as usize).ok_or(TreeProblem::Dangling)?;
        let known = member.index() < graph.endpoint_count();
        let port = known.then(|| graph.attachment(*member)).flatten();
        if port.map(|port| graph.switch_of(port)) != Some(leaf.switch) {
            return Err(TreeProblem::Members);
        }
    }
    check_parents(tree)
}

/// Checks that every parent is a kept switch above its child.
fn check_parents(tree: &SwitchTree) -> Result<(), TreeProblem> {
    let switches = &tree.physical.switches;
    let mut places = Vec::new();
    for (at, kept) in tree.kept.iter().enumerate() {
        let place = switches.iter().position(|node| node.switch == kept.switch);
        places.push(place.ok_or(TreeProblem::Dangling)?);
        if kept.parent.map_or(at != 0, |parent| parent as usize >= at) {
            return Err(TreeProblem::Dangling);
        }
    }
    if places.first() != Some(&0) {
        return Err(TreeProblem::Ancestor);
    }
    let is_above = |upper: u32, lower: usize, strictly: bool| {
        let Some(upper) = places.get(upper as usize) else { return false };
        let up = |at: &usize| switches[*at].up.map(|up| up.parent as usize);
        std::iter::successors(Some(lower), up).skip(usize::from(strictly)).any(|at| at == *upper)
    };
    let kept = tree.kept.iter().zip(&places);
    let mut switches_hang =
        kept.map(|(kept, place)| kept.parent.is_none_or(|parent| is_above(parent, *place, true)));
    let mut members_hang = (tree.physical.members.iter().zip(&tree.member_parents))
        .map(|(leaf, parent)| is_above(*parent, *leaf as usize, false));
    if switches_hang.all(|hangs| hangs) && members_hang.all(|hangs| hangs) {
        Ok(())
    } else {
        Err(TreeProblem::Ancestor)
    }
}
