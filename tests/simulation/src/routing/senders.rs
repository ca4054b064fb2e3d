//! Routes as the senders know them: they learn of a new route some time after the TIC, and send
//! with the old one until then.

use std::collections::BTreeMap;

use fabricast_groups::directory::Directory;
use fabricast_groups::record::{Change, MemberRecord, Route};
use fabricast_groups::{Gn, Pn, Revision};

/// A membership: group, rank and the revision of its join.
pub(crate) type MemberKey = (Gn, Pn, Revision);

/// Returns the key of a member.
pub(crate) fn member_key(member: &MemberRecord) -> MemberKey {
    (member.gn, member.pn, member.joined)
}

/// The route that each member knows, with the revision at which it became the group's.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    told: BTreeMap<MemberKey, (Revision, Option<Route>)>,
    /// Revision of the newest route sent to each member, delivered or not.
    newest: BTreeMap<MemberKey, Revision>,
}

impl Senders {
    /// Applies changes: a new member knows the route at once, a former one sends no more. Returns
    /// the routes to deliver.
    pub(crate) fn decided(
        &mut self,
        directory: &Directory,
        changes: &[Change],
    ) -> Vec<(MemberKey, Route)> {
        let mut to_tell = Vec::new();
        for change in changes {
            match change {
                Change::MemberPut(member) => {
                    let group = directory.group(member.gn);
                    let route = group.and_then(|group| group.route.clone());
                    self.told.insert(member_key(member), (directory.revision(), route));
                }
                Change::MemberDeleted(member) => {
                    self.told.remove(&member_key(member));
                    self.newest.remove(&member_key(member));
                }
                Change::GroupPut(group) => {
                    if let Some(route) = &group.route {
                        let member_keys: Vec<MemberKey> =
                            directory.members(group.gn).map(member_key).collect();
                        let at = directory.revision();
                        self.newest.extend(member_keys.iter().map(|member_key| (*member_key, at)));
                        to_tell.extend(
                            member_keys.into_iter().map(|member_key| (member_key, route.clone())),
                        );
                    }
                }
                Change::GroupDeleted(gn) => {
                    self.told.retain(|(of, ..), _| of != gn);
                    self.newest.retain(|(of, ..), _| of != gn);
                }
                _ => {}
            }
        }
        to_tell
    }

    /// Delivers a route that became its group's at a revision; returns whether it was new to the
    /// member.
    pub(crate) fn hear(&mut self, member_key: MemberKey, at: Revision, route: Route) -> bool {
        let Some(told) = self.told.get_mut(&member_key).filter(|told| told.0 < at) else {
            return false;
        };
        let news = told.1.as_ref() != Some(&route);
        *told = (at, Some(route));
        news
    }

    /// Returns whether a member knows the newest route, so that whatever else arrives is older. It
    /// may have known the same route before.
    pub(crate) fn is_up_to_date(&self, member_key: MemberKey) -> bool {
        let known = self.told.get(&member_key).map(|told| told.0);
        self.newest.get(&member_key).is_none_or(|newest| known >= Some(*newest))
    }

    /// Returns the route that a member knows.
    pub(crate) fn route(&self, member_key: MemberKey) -> Option<&Route> {
        self.told.get(&member_key)?.1.as_ref()
    }
}
