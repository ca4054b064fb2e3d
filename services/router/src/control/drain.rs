//! The time for which nothing is taken away that packets may still need: senders hear of a new route some time after
//! the TIC.
//!
//! Invariants
//! - DRAIN-1: as long as somebody may enter by a route that he is not to use any more, no entry there begins to lead
//!   up another spanning tree.

use std::collections::BTreeSet;

use fabricast_groups::Moment;
use fabricast_proto::v1;

use crate::image::EntryPoint;

/// What is waited for, and why.
#[derive(Debug, Default)]
pub(super) struct Drain {
    until: Option<Moment>,
    /// Where senders may enter by a route that they are not to use any more.
    leaving: BTreeSet<EntryPoint>,
    /// Another route service may have told a route a moment ago, and nobody here knows which.
    is_blind: bool,
}

impl Drain {
    /// Begins with what others may have told.
    pub(super) fn begin_blind(&mut self, until: Moment) {
        self.is_blind = true;
        self.until = Some(until);
    }

    /// Begins, or begins again.
    pub(super) fn begin(&mut self, until: Moment, leaving: impl IntoIterator<Item = EntryPoint>) {
        self.leaving.extend(leaving);
        self.until = Some(until);
    }

    /// Notes where senders may enter by a route of which nobody knows whether they were told; when that is known, they
    /// are waited for.
    pub(super) fn doubt(&mut self, points: impl IntoIterator<Item = EntryPoint>) {
        self.leaving.extend(points);
    }

    /// Calls for another turn, if none is due.
    pub(super) fn wake(&mut self, now: Moment) {
        self.until.get_or_insert(now);
    }

    /// When it is over.
    pub(super) fn due(&self) -> Option<Moment> {
        self.until
    }

    /// Whether every sender has had the time to hear of its newest route.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Nobody uses what he is not to use any more.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Whether nobody can be leaving there.
    pub(super) fn is_settled(&self, point: &EntryPoint) -> bool {
        !self.is_blind && !self.leaving.contains(point)
    }
}

/// Whether packets by the route before may need entries that those by the new one do not.
pub(super) fn takes_away(before: &v1::Route, route: &v1::Route) -> bool {
    let color = |route: &v1::Route| (route.state, route.color, route.second_color);
    let stays = |endpoint: &String| before.cut_off_endpoints.contains(endpoint);
    color(before) != color(route) || !route.cut_off_endpoints.iter().all(stays)
}

#[cfg(test)]
mod tests {
    use fabricast_topology::SwitchId;

    use super::*;

    const LEFT: EntryPoint = (SwitchId(0), 1, 5);
    const OTHER: EntryPoint = (SwitchId(0), 1, 6);

    /// DRAIN-1. Found by the simulation: the senders that had just been told another color were forgotten at once.
    #[test]
    fn who_leaves_is_remembered_until_he_has_had_the_time_to_hear_of_it() {
        let mut drain = Drain::default();
        assert!(drain.is_settled(&LEFT) && drain.is_over(Moment(0)));
        drain.begin(Moment(7), [LEFT]);
        drain.begin(Moment(9), []);
        assert!(!drain.is_settled(&LEFT) && drain.is_settled(&OTHER));
        assert!(!drain.is_over(Moment(8)) && drain.is_over(Moment(9)));
        drain.end();
        assert!(drain.is_settled(&LEFT) && drain.due().is_none());
        drain.begin_blind(Moment(12));
        assert!(!drain.is_settled(&OTHER), "another route service may have told anything");
    }

    #[test]
    fn a_report_that_was_not_answered_is_not_waited_for_and_not_forgotten() {
        let mut drain = Drain::default();
        drain.doubt([LEFT]);
        assert!(drain.is_over(Moment(0)) && !drain.is_settled(&LEFT));
        drain.wake(Moment(3));
        drain.wake(Moment(5));
        assert_eq!(drain.due(), Some(Moment(3)));
    }

    /// Found by the simulation: entries of members that were cut off went before the others had heard of it.
    #[test]
    fn senders_are_waited_for_if_members_are_cut_off_or_the_color_changes() {
        let route = |color, cut_off: &[&str]| v1::Route {
            color,
            cut_off_endpoints: cut_off.iter().map(|name| (*name).to_owned()).collect(),
            ..v1::Route::default()
        };
        let before = route(1, &["h1"]);
        for (after, waits) in [
            (route(1, &["h1"]), false),
            (route(1, &[]), false),
            (route(1, &["h1", "h2"]), true),
            (route(0, &["h1"]), true),
        ] {
            assert_eq!(takes_away(&before, &after), waits, "{after:?}");
        }
    }
}
