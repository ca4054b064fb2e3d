//! Changes of faults under the collectives.
//!
//! A change may concern thousands of collectives, so they can follow it in pieces. Each gives back
//! its own entries and takes others at once, so that AGG-5 holds after every piece.

use std::collections::BTreeMap;
use std::ops::Bound;

use fabricast_topology::Faults;

use super::Allocator;
use super::request::{Collective, CollectiveId, Fallback, Service};
use crate::fabric::Fabric;

/// Processes and switches of a tree that are checked in the time in which a search for a tree looks
/// at one.
const CHECKED_AT_ONCE: usize = 16;

/// The collectives that run on something else after a change of faults, each by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultChanges {
    /// Those with a new switch tree, whose old entries, if there were any, must go.
    pub new_trees: Vec<CollectiveId>,
    /// Those that now run on adapter trees only.
    pub to_adapters: Vec<CollectiveId>,
    /// Those with a member that nothing reaches any more.
    pub suspended: Vec<CollectiveId>,
    /// Those that have no switch tree, or are suspended, as before, but for another reason.
    pub other_reasons: Vec<CollectiveId>,
}

/// The collectives that have yet to follow a change of faults. It tells nothing of those that have
/// followed it: after a restart, or when pieces are undone, all follow it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Following {
    round: Round,
    /// The last collective that was looked at in this round.
    after: Option<CollectiveId>,
}

/// The collectives that get new trees: in order of their ids, round by round.
#[derive(Clone, Copy, Debug, Default)]
enum Round {
    /// Those whose trees were hit.
    #[default]
    Hit,
    /// Those that lack a switch tree, after all that were hit have given theirs back.
    Waiting,
}

/// A change of the service of a collective.
#[derive(Clone, Copy, Debug)]
enum Kind {
    NewTree,
    ToAdapters,
    Suspended,
    OtherReason,
}

impl Allocator {
    /// Takes what has failed, instead of what had, and finds new trees (AGG-7).
    ///
    /// Trees that nothing failed on stay. Collectives that lacked a switch tree for want of
    /// entries, by their quota, or for want of a switch above their members try again, in order of
    /// their ids, after those whose trees were hit. One that demanded a switch tree runs on adapter
    /// trees when there is none left.
    ///
    /// Cost: O(processes, and switches in trees) to find what is hit, and an allocation for each of
    /// those.
    pub fn set_faults(&mut self, faults: Faults) -> FaultChanges {
        self.begin_faults(faults);
        self.follow_faults(usize::MAX)
    }

    /// Takes what has failed, instead of what had; [`Allocator::follow_faults`] finds new trees.
    /// Trees that are allocated from now on avoid it.
    ///
    /// Cost: O(faults), and O(ports) of the parts that fail or are repaired.
    pub fn begin_faults(&mut self, faults: Faults) {
        self.journal.following();
        self.fabric.set_faults(faults);
        self.following = Some(Following::default());
    }

    /// Returns whether collectives have still to follow the faults.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.following.is_some()
    }

    /// Has further collectives follow the faults, as [`Allocator::set_faults`] has all; returns
    /// what has changed. Between two pieces collectives may come and go.
    ///
    /// - `work`: processes and switches after which it ends, whose searches take about half a
    ///   microsecond each. The last collective may exceed it, but one that needs another tree and
    ///   has more processes than are left of it waits for the next piece.
    pub fn follow_faults(&mut self, work: usize) -> FaultChanges {
        let mut kinds = BTreeMap::new();
        let Some(mut following) = self.following.take() else { return FaultChanges::default() };
        self.journal.following();
        self.work = 0;
        while self.work < work {
            let from = following.after.map_or(Bound::Unbounded, Bound::Excluded);
            let Some((id, collective)) = self.collectives.range((from, Bound::Unbounded)).next()
            else {
                match following.round {
                    Round::Hit => (following.round, following.after) = (Round::Waiting, None),
                    Round::Waiting => return FaultChanges::of(kinds),
                }
                continue;
            };
            let follows = match following.round {
                Round::Hit => !stands(&self.fabric, collective),
                Round::Waiting => waits(collective),
            };
            let members = collective.request.members.len();
            if follows && self.work > 0 && self.work.saturating_add(members) > work {
                break; // the next piece begins with it
            }
            let id = *id;
            following.after = Some(id);
            self.work += checked(collective).div_ceil(CHECKED_AT_ONCE);
            if !follows {
                continue;
            }
            match self.serve_again(id) {
                // That its reason is another one is the smaller change.
                Some(kind @ Kind::OtherReason) => _ = kinds.entry(id).or_insert(kind),
                Some(kind) => _ = kinds.insert(id, kind),
                None => {}
            }
        }
        self.following = Some(following);
        FaultChanges::of(kinds)
    }

    /// Gives a collective another tree, or none; returns what has changed, if anything has.
    fn serve_again(&mut self, id: CollectiveId) -> Option<Kind> {
        let before = self.collectives.remove(&id)?;
        self.journal.collective(id, || Some(before.clone()));
        self.ledger.give_back(&before);
        let Collective { request, service: before } = before;
        let service = self.serve(&request);
        let kind = match (&before, &service) {
            // Every tree has a number of its own.
            (before, after) if before == after => None,
            (Service::Adapters { .. }, Service::Adapters { .. })
            | (Service::Suspended { .. }, Service::Suspended { .. }) => Some(Kind::OtherReason),
            (_, Service::Switches { .. }) => Some(Kind::NewTree),
            (_, Service::Adapters { .. }) => Some(Kind::ToAdapters),
            (_, Service::Suspended { .. }) => Some(Kind::Suspended),
        };
        let collective = Collective { request, service };
        self.ledger.take(&collective);
        self.collectives.insert(id, collective);
        kind
    }
}

impl FaultChanges {
    fn of(kinds: BTreeMap<CollectiveId, Kind>) -> Self {
        let mut changes = Self::default();
        for (id, kind) in kinds {
            let list = match kind {
                Kind::NewTree => &mut changes.new_trees,
                Kind::ToAdapters => &mut changes.to_adapters,
                Kind::Suspended => &mut changes.suspended,
                Kind::OtherReason => &mut changes.other_reasons,
            };
            list.push(id);
        }
        changes
    }
}

/// Counts the processes and switches that tell whether a collective can keep its tree.
fn checked(Collective { request, service }: &Collective) -> usize {
    let switches = service.switch_tree().map_or(0, |(_, tree)| tree.physical.switches.len());
    request.members.len() + switches
}

/// Returns whether a collective can keep its tree, or still has none.
fn stands(fabric: &Fabric, collective: &Collective) -> bool {
    let reached = || {
        let mut members = collective.request.members.iter();
        members.all(|member| fabric.leaf_of(*member).is_some())
    };
    match &collective.service {
        Service::Switches { tree, .. } => {
            let live = |switch| fabric.faults().switch_is_live(switch);
            let switches = &tree.physical.switches;
            switches
                .iter()
                .all(|node| live(node.switch) && node.up.is_none_or(|up| fabric.is_live(up.port)))
                && reached()
        }
        Service::Adapters { why: Fallback::Slower | Fallback::Quota { .. } } => reached(),
        Service::Adapters { .. } | Service::Suspended { .. } => true,
    }
}

/// Returns whether a collective tries again to get a tree with every change of faults: it may have
/// lost its own to this change, and what kept it from another one may have passed.
fn waits(collective: &Collective) -> bool {
    match &collective.service {
        Service::Adapters {
            why: Fallback::NoCommonSwitch | Fallback::NoEntries { .. } | Fallback::Quota { .. },
        }
        | Service::Suspended { .. } => true,
        Service::Adapters { why: Fallback::Slower } | Service::Switches { .. } => false,
    }
}
