//! Checks a batch of changes before any of them is made.

use std::collections::BTreeMap;

use fabricast_topology::{EndpointId, Mgid};

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex};
use crate::c_mr4lms::registry::Registry;
use crate::change::{Change, ChangeError, ChangeProblem};

/// The state of a group after a batch.
pub(super) struct Staged {
    pub(super) index: Option<GroupIndex>,
    pub(super) members: Option<Vec<EndpointSlot>>,
    put: bool,
}

/// Checks a whole batch and says what becomes of each group that it touches.
///
/// # Errors
///
/// [`ChangeError`] names the first change that cannot be made.
pub(super) fn stage(
    fabric: &Fabric,
    registry: &Registry,
    changes: &[Change],
) -> Result<BTreeMap<Mgid, Staged>, ChangeError> {
    let stage = Stage { fabric, registry };
    let mut staged = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        stage.take(&mut staged, change).map_err(|problem| ChangeError {
            index,
            mgid: change.mgid(),
            problem,
        })?;
    }
    Ok(staged)
}

struct Stage<'a> {
    fabric: &'a Fabric,
    registry: &'a Registry,
}

impl Stage<'_> {
    fn slot(&self, endpoint: EndpointId) -> Result<EndpointSlot, ChangeProblem> {
        self.fabric.slot_of(endpoint).ok_or(ChangeProblem::UnknownEndpoint { endpoint })
    }

    /// Checks a change against the groups as the changes before it leave them.
    fn take(
        &self,
        staged: &mut BTreeMap<Mgid, Staged>,
        change: &Change,
    ) -> Result<(), ChangeProblem> {
        let entry = staged.entry(change.mgid()).or_insert_with(|| {
            let index = self.registry.find(change.mgid());
            let is_put = matches!(change, Change::Put { .. });
            let current = index.filter(|_| !is_put);
            let members = current.map(|index| self.registry.get(index).members.clone());
            Staged { index, members, put: false }
        });
        match change {
            Change::Put { members, .. } => {
                if std::mem::replace(&mut entry.put, true) {
                    return Err(ChangeProblem::PutTwice);
                }
                entry.members = Some(self.slots_of(members)?);
            }
            Change::Join { endpoint, .. } => {
                let slot = self.slot(*endpoint)?;
                let members = entry.members.as_mut().ok_or(ChangeProblem::UnknownGroup)?;
                match members.binary_search(&slot) {
                    Ok(_) => return Err(ChangeProblem::AlreadyMember { endpoint: *endpoint }),
                    Err(at) => members.insert(at, slot),
                }
            }
            Change::Leave { endpoint, .. } => {
                let slot = self.slot(*endpoint)?;
                let members = entry.members.as_mut().ok_or(ChangeProblem::UnknownGroup)?;
                let at = members
                    .binary_search(&slot)
                    .map_err(|_| ChangeProblem::NotMember { endpoint: *endpoint })?;
                members.remove(at);
            }
            Change::Delete { .. } => {
                entry.members.take().ok_or(ChangeProblem::UnknownGroup)?;
            }
        }
        Ok(())
    }

    /// Gives the slots of new members, rising.
    fn slots_of(&self, members: &[EndpointId]) -> Result<Vec<EndpointSlot>, ChangeProblem> {
        let mut slots = self.fabric.slots_of(members);
        if slots.is_sorted_by(|a, b| a < b) && slots.last() != Some(&EndpointSlot(NONE)) {
            return Ok(slots);
        }
        if let Some(at) = slots.iter().position(|slot| *slot == EndpointSlot(NONE)) {
            return Err(ChangeProblem::UnknownEndpoint { endpoint: members[at] });
        }
        slots.sort_unstable();
        if let Some(pair) = slots.windows(2).find(|pair| pair[0] == pair[1]) {
            let endpoint = self.fabric.endpoint_at(pair[0]);
            return Err(ChangeProblem::DuplicateMember { endpoint });
        }
        Ok(slots)
    }
}
