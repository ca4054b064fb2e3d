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
    /// Of the newest route that is on its way to each member, or has reached it.
    newest: BTreeMap<Seat, Revision>,
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
                Change::MemberDeleted(member) => {
                    self.told.remove(&seat(member));
                    self.newest.remove(&seat(member));
                }
                Change::GroupPut(group) => {
                    if let Some(route) = &group.route {
                        let seats: Vec<Seat> = directory.members(group.gn).map(seat).collect();
                        let at = directory.revision();
                        self.newest.extend(seats.iter().map(|seat| (*seat, at)));
                        to_tell.extend(seats.into_iter().map(|seat| (seat, route.clone())));
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

    /// A member hears of a route that became its group's at a revision; whether that was news.
    pub(crate) fn hear(&mut self, seat: Seat, at: Revision, route: Route) -> bool {
        let Some(told) = self.told.get_mut(&seat).filter(|told| told.0 < at) else { return false };
        let news = told.1.as_ref() != Some(&route);
        *told = (at, Some(route));
        news
    }

    /// Whether a member knows the newest route, and whatever else it hears is old: it may know the same one from before.
    pub(crate) fn is_up_to_date(&self, seat: Seat) -> bool {
        let known = self.told.get(&seat).map(|told| told.0);
        self.newest.get(&seat).is_none_or(|newest| known >= Some(*newest))
    }

    /// What a member knows.
    pub(crate) fn route(&self, seat: Seat) -> Option<&Route> {
        self.told.get(&seat)?.1.as_ref()
    }
}
