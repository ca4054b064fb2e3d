//! What processes know of the routes of their groups: they hear of a new one some time after the TIC, and send
//! with the old one until then.

use std::collections::BTreeMap;

use fabricast_groups::directory::Directory;
use fabricast_groups::record::{Change, MemberRecord, Route};
use fabricast_groups::{Gn, Pn, Revision};

/// A membership: group, rank and the revision of its join.
pub(crate) type Seat = (Gn, Pn, Revision);

/// Which seat a member has.
pub(crate) fn seat(member: &MemberRecord) -> Seat {
    (member.gn, member.pn, member.joined)
}

/// The route that each member was told last, with the revision at which it became the group's.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    told: BTreeMap<Seat, (Revision, Option<Route>)>,
}

impl Senders {
    /// Takes note of changes: whoever joins is told the route at once, whoever leaves sends no more. Answers
    /// who is to be told a route, in time.
    pub(crate) fn decided(
        &mut self,
        directory: &Directory,
        changes: &[Change],
    ) -> Vec<(Seat, Route)> {
        let mut to_tell = Vec::new();
        for change in changes {
            match change {
                Change::MemberPut(member) => {
                    let group = directory.group(member.gn);
                    let route = group.and_then(|group| group.route.clone());
                    self.told.insert(seat(member), (directory.revision(), route));
                }
                Change::MemberDeleted(member) => drop(self.told.remove(&seat(member))),
                Change::GroupPut(group) => {
                    if let Some(route) = &group.route {
                        let members = directory.members(group.gn);
                        to_tell.extend(members.map(|member| (seat(member), route.clone())));
                    }
                }
                Change::GroupDeleted(gn) => self.told.retain(|(of, ..), _| of != gn),
                _ => {}
            }
        }
        to_tell
    }

    /// A member hears of a route that became its group's at a revision; whether that was news.
    pub(crate) fn hear(&mut self, seat: Seat, at: Revision, route: Route) -> bool {
        let Some(told) = self.told.get_mut(&seat).filter(|told| told.0 < at) else { return false };
        let news = told.1.as_ref() != Some(&route);
        *told = (at, Some(route));
        news
    }

    /// What a member knows.
    pub(crate) fn route(&self, seat: Seat) -> Option<&Route> {
        self.told.get(&seat)?.1.as_ref()
    }
}
