//! Which part of a plan a group is in.

use std::sync::Arc;

use crate::mgid::Mgid;
use crate::plan::part::Part;
use crate::spt::Numbering;

/// Finds the part of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupIndex {
    /// The MGID says it, unless the group has moved.
    Numbered(Numbering),
    /// Every group is listed with its part, by MGID.
    Listed(Arc<Vec<(Mgid, u32)>>),
}

impl GroupIndex {
    /// Counts the trees that a group is meant to have.
    pub(super) const fn trees_per_group(&self) -> u32 {
        match self {
            Self::Numbered(numbering) => numbering.trees_per_group(),
            Self::Listed(_) => 1,
        }
    }

    /// Tells which tree of its groups a part holds.
    pub(super) const fn which(&self, part: u32) -> u32 {
        match self {
            Self::Numbered(numbering) => numbering.number(part).1,
            Self::Listed(_) => 0,
        }
    }

    /// The part that the MGID stands for.
    pub(super) fn home(&self, mgid: Mgid, which: u32) -> Option<u32> {
        match self {
            Self::Numbered(numbering) => Some(numbering.tree(numbering.space().spt(mgid), which)),
            Self::Listed(_) => None,
        }
    }

    pub(super) fn home_color(&self, mgid: Mgid) -> u16 {
        match self {
            Self::Numbered(numbering) => {
                numbering.color(numbering.tree(numbering.space().spt(mgid), 0))
            }
            Self::Listed(_) => 0,
        }
    }

    /// The part of a group that has not moved.
    pub(super) fn find(&self, mgid: Mgid, which: u32) -> Option<u32> {
        match self {
            Self::Numbered(_) => self.home(mgid, which),
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
        // A group may have gone to another part already; only what is still here leaves.
        groups.retain(|(mgid, part)| *part != number && now.binary_search(mgid).is_err());
        groups.extend(now.into_iter().map(|mgid| (mgid, number)));
        groups.sort_unstable();
    }
}
