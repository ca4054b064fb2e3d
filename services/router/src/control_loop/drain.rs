//! The drain: the time for which no entry is taken away that packets may still need, because
//! senders hear of a new route some time after the TIC.
//!
//! Invariants
//! - DRAIN-1: as long as a member may send by a route that was replaced, no entry where it enters
//!   the fabric begins to lead up another spanning tree.

use std::collections::BTreeSet;

use fabricast_groups::Moment;
use fabricast_proto::v1;

use crate::table_state::EntryPoint;

/// End of the present drain, and the senders that it is for.
#[derive(Debug, Default)]
pub(super) struct Drain {
    until: Option<Moment>,
    /// Entry points of members that may still send by a replaced route.
    leaving: BTreeSet<EntryPoint>,
    /// Another route service may have reported any route a moment ago.
    is_blind: bool,
}

impl Drain {
    /// Starts a drain for routes that others may have reported.
    pub(super) fn start_blind(&mut self, until: Moment) {
        self.is_blind = true;
        self.until = Some(until);
    }

    /// Starts a drain, or extends it.
    pub(super) fn start(&mut self, until: Moment, leaving: impl IntoIterator<Item = EntryPoint>) {
        self.leaving.extend(leaving);
        self.until = Some(until);
    }

    /// Adds the senders of a report that may or may not have arrived. They are waited for once that
    /// is known.
    pub(super) fn add_unconfirmed(&mut self, points: impl IntoIterator<Item = EntryPoint>) {
        self.leaving.extend(points);
    }

    /// Makes a turn due now, unless the end of a drain is due later.
    pub(super) fn schedule_turn(&mut self, now: Moment) {
        self.until.get_or_insert(now);
    }

    /// Time at which the drain ends.
    pub(super) fn due(&self) -> Option<Moment> {
        self.until
    }

    /// True if every sender has had the time to hear of its newest route.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Ends the drain: no member sends by a replaced route any more.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// True if a member is leaving at an entry point.
    pub(super) fn is_left(&self, point: &EntryPoint) -> bool {
        self.leaving.contains(point)
    }

    /// True if no member can be leaving at an entry point.
    pub(super) fn is_settled(&self, point: &EntryPoint) -> bool {
        !self.is_blind && !self.leaving.contains(point)
    }
}

/// True if packets by the route before may need entries that packets by the new one do not.
pub(super) fn takes_away(before: &v1::Route, route: &v1::Route) -> bool {
    let color = |route: &v1::Route| (route.state, route.color, route.second_color);
    let stays = |endpoint: &String| before.cut_off_endpoints.contains(endpoint);
    color(before) != color(route) || !route.cut_off_endpoints.iter().all(stays)
}

#[cfg(test)]
mod tests {
    use fabricast_topology::SwitchId;

    use super::*;

    const LEFT: EntryPoint = EntryPoint { switch: SwitchId(0), in_port: 1, color: 5 };
    const OTHER: EntryPoint = EntryPoint { switch: SwitchId(0), in_port: 1, color: 6 };

    /// DRAIN-1. Found by the simulation: the senders that had just been told another color were
    /// forgotten at once.
    #[test]
    fn senders_that_leave_are_remembered_until_they_must_have_heard_of_it() {
        let mut drain = Drain::default();
        assert!(drain.is_settled(&LEFT) && drain.is_over(Moment(0)));
        drain.start(Moment(7), [LEFT]);
        drain.start(Moment(9), []);
        assert!(!drain.is_settled(&LEFT) && drain.is_settled(&OTHER));
        assert!(!drain.is_over(Moment(8)) && drain.is_over(Moment(9)));
        drain.end();
        assert!(drain.is_settled(&LEFT) && drain.due().is_none());
        drain.start_blind(Moment(12));
        assert!(!drain.is_settled(&OTHER), "another route service may have reported any route");
    }

    #[test]
    fn an_unconfirmed_report_is_remembered_but_not_waited_for() {
        let mut drain = Drain::default();
        drain.add_unconfirmed([LEFT]);
        assert!(drain.is_over(Moment(0)) && !drain.is_settled(&LEFT));
        drain.schedule_turn(Moment(3));
        drain.schedule_turn(Moment(5));
        assert_eq!(drain.due(), Some(Moment(3)));
    }

    /// Found by the simulation: entries of members that were cut off went before the others had
    /// heard of it.
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
