//! Checks a batch of changes before any of them is made.

use std::collections::BTreeMap;

use fabricast_topology::EndpointId;

use crate::engine::change::{Change, ChangeError, ChangeProblem};
use crate::engine::fabric::{Fabric, NONE};
use crate::engine::registry::Registry;
use crate::mgid::Mgid;

/// What happens to a group in a batch.
pub(super) struct Staged {
    pub(super) slot: Option<u32>,
    pub(super) members: Option<Vec<u32>>,
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
    fn seat(&self, endpoint: EndpointId) -> Result<u32, ChangeProblem> {
        self.fabric.seat_of(endpoint).ok_or(ChangeProblem::UnknownEndpoint { endpoint })
    }

    /// Checks a change against the groups as the changes before it leave them.
    fn take(
        &self,
        staged: &mut BTreeMap<Mgid, Staged>,
        change: &Change,
    ) -> Result<(), ChangeProblem> {
        let entry = staged.entry(change.mgid()).or_insert_with(|| {
            let slot = self.registry.find(change.mgid());
            let is_put = matches!(change, Change::Put { .. });
            let current = slot.filter(|_| !is_put);
            let members = current.map(|slot| self.registry.get(slot).members.clone());
            Staged { slot, members, put: false }
        });
        match change {
            Change::Put { members, .. } => {
                if std::mem::replace(&mut entry.put, true) {
                    return Err(ChangeProblem::PutTwice);
                }
                entry.members = Some(self.seats_of(members)?);
            }
            Change::Join { endpoint, .. } => {
                let seat = self.seat(*endpoint)?;
                let members = entry.members.as_mut().ok_or(ChangeProblem::UnknownGroup)?;
                match members.binary_search(&seat) {
                    Ok(_) => return Err(ChangeProblem::AlreadyMember { endpoint: *endpoint }),
                    Err(at) => members.insert(at, seat),
                }
            }
            Change::Leave { endpoint, .. } => {
                let seat = self.seat(*endpoint)?;
                let members = entry.members.as_mut().ok_or(ChangeProblem::UnknownGroup)?;
                let at = members
                    .binary_search(&seat)
                    .map_err(|_| ChangeProblem::NotMember { endpoint: *endpoint })?;
                members.remove(at);
            }
            Change::Delete { .. } => {
                entry.members.take().ok_or(ChangeProblem::UnknownGroup)?;
            }
        }
        Ok(())
    }

    /// Gives the seats of new members, rising.
    fn seats_of(&self, members: &[EndpointId]) -> Result<Vec<u32>, ChangeProblem> {
        let mut seats = self.fabric.seats_of(members);
        if seats.is_sorted_by(|a, b| a < b) && seats.last() != Some(&NONE) {
            return Ok(seats);
        }
        if let Some(at) = seats.iter().position(|seat| *seat == NONE) {
            return Err(ChangeProblem::UnknownEndpoint { endpoint: members[at] });
        }
        seats.sort_unstable();
        if let Some(pair) = seats.windows(2).find(|pair| pair[0] == pair[1]) {
            let endpoint = self.fabric.endpoint_at(pair[0]);
            return Err(ChangeProblem::DuplicateMember { endpoint });
        }
        Ok(seats)
    }
}
