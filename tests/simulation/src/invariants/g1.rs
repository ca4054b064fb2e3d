//! G1: a GN is never used for two groups, and a PN never for two live processes of a group. Checked
//! at every write.

use std::collections::BTreeSet;

use fabricast_groups::record::Change;
use fabricast_groups::{Gn, Pn, Revision};

/// GNs, memberships and the revision that were ever durable.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    gns: BTreeSet<Gn>,
    /// Every membership by group, rank and the revision of its join.
    pub(crate) members: BTreeSet<(Gn, Pn, Revision)>,
    pub(crate) revision: Revision,
}

impl Ranks {
    /// Checks a change before it is applied.
    ///
    /// - `is_there`: true if there is a record under its key.
    pub(crate) fn written(&mut self, change: &Change, is_there: bool) {
        match change {
            Change::RevisionPut(revision) => {
                assert!(*revision > self.revision, "G3: a write of the past, {revision:?}");
                self.revision = *revision;
            }
            Change::GroupPut(group) if !is_there => {
                assert!(self.gns.insert(group.gn), "G1: {:?} was used before", group.gn);
            }
            Change::MemberPut(member) => {
                let rank = (member.gn, member.pn);
                assert!(!is_there, "G1: {rank:?} is taken");
                self.members.insert((member.gn, member.pn, member.joined));
            }
            _ => {}
        }
    }
}
