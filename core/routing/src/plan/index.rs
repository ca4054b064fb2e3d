//! Index of the parts of a plan, by group.

use std::sync::Arc;

use crate::plan::part::Part;
use crate::spt::MgidSpace;
use fabricast_topology::Mgid;

/// Finds the part of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupIndex {
    /// The MGID says it, unless the group has moved.
    Numbered(MgidSpace),
    /// Every group is listed with its part, by MGID.
    Listed(Arc<Vec<(Mgid, u32)>>),
}

impl GroupIndex {
    /// The part that the MGID stands for.
    pub(super) fn home(&self, mgid: Mgid) -> Option<u32> {
        match self {
            Self::Numbered(space) => Some(space.spt(mgid)),
            Self::Listed(_) => None,
        }
    }

    pub(super) fn home_color(&self, mgid: Mgid) -> u16 {
        match self {
            Self::Numbered(space) => space.color(space.spt(mgid)),
            Self::Listed(_) => 0,
        }
    }

    /// The part of a group that has not moved.
    pub(super) fn find(&self, mgid: Mgid) -> Option<u32> {
        match self {
            Self::Numbered(space) => Some(space.spt(mgid)),
            Self::Listed(groups) => {
                let at = groups.binary_search_by_key(&mgid, |(mgid, _)| *mgid).ok()?;
                Some(groups[at].1)
            }
        }
    }

    /// Takes the groups of one part out and those of its successor in.
    pub(super) fn replace(&mut self, number: u32, before: Option<&Part>, now: Option<&Part>) {
        let Self::Listed(groups) = self else { return };
        let mgids = |part: Option<&Part>| -> Vec<Mgid> {
            part.map_or_else(Vec::new, |part| part.groups.iter().map(|one| one.mgid).collect())
        };
        let (before, now) = (mgids(before), mgids(now));
        if before == now {
            return;
        }
        let groups = Arc::make_mut(groups);
        if (before.len() + now.len()) * 16 < groups.len() {
            return replace_few(groups, number, &before, &now);
        }
        // A group may have gone to another part already; only what is still here leaves.
        groups.retain(|(mgid, part)| *part != number && now.binary_search(mgid).is_err());
        groups.extend(now.into_iter().map(|mgid| (mgid, number)));
        groups.sort_unstable();
    }
}

/// Does the same one by one.
fn replace_few(groups: &mut Vec<(Mgid, u32)>, number: u32, before: &[Mgid], now: &[Mgid]) {
    let find = |groups: &[(Mgid, u32)], mgid| groups.binary_search_by_key(&mgid, |(mgid, _)| *mgid);
    for mgid in before {
        if let Ok(at) = find(groups, *mgid)
            && groups[at].1 == number
        {
            groups.remove(at);
        }
    }
    for mgid in now {
        match find(groups, *mgid) {
            Ok(at) => groups[at].1 = number,
            Err(at) => groups.insert(at, (*mgid, number)),
        }
    }
}
