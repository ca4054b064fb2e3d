//! The drain: the time for which no entry is taken away that packets may still need, because
//! senders hear of a new route some time after the TIC.
//!
//! Each entry point has its own drain: senders that leave one entry put off no swap of another.
//!
//! Invariants
//! - DRAIN-1: as long as a member may send by a route that was replaced, no entry where it enters
//!   the fabric begins to lead up another spanning tree.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::Moment;
use fabricast_groups::ids::Gn;
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::Route;

use crate::table_state::{EntryPoint, Writes};

/// Entry points that members may still send to by a replaced route.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// End of the drain of each entry point.
    ends: BTreeMap<EntryPoint, Moment>,
    /// The same, by time.
    order: BTreeSet<(Moment, EntryPoint)>,
    /// Entry points of reports that may or may not have arrived, by GN: their drains begin once
    /// that is known.
    unconfirmed: BTreeMap<Gn, BTreeSet<EntryPoint>>,
    /// Number of groups above with each entry point.
    uncertain: BTreeMap<EntryPoint, u32>,
    /// Another route service may have reported any route; all senders know the newest at this time.
    blind_until: Option<Moment>,
}

impl Drain {
    /// Starts a drain of all entry points, for routes that others may have reported.
    pub(crate) fn start_blind(&mut self, until: Moment) {
        self.blind_until = self.blind_until.max(Some(until));
    }

    /// Starts the drains of entry points, or extends them.
    pub(crate) fn start(&mut self, until: Moment, leaving: impl IntoIterator<Item = EntryPoint>) {
        for point in leaving {
            let end = self.ends.entry(point).or_insert(until);
            self.order.remove(&(*end, point));
            *end = until.max(*end);
            self.order.insert((*end, point));
        }
    }

    /// Notes the end of a time in which senders could not hear of reports.
    pub(crate) fn put_off(&mut self, until: Moment) {
        let leaving: Vec<EntryPoint> = self.ends.keys().copied().collect();
        self.start(until, leaving);
        self.blind_until = self.blind_until.map(|end| end.max(until));
    }

    /// Adds the senders of a report of a group that may or may not have arrived.
    pub(crate) fn add_unconfirmed(&mut self, gn: Gn, points: impl IntoIterator<Item = EntryPoint>) {
        let known = self.unconfirmed.entry(gn).or_default();
        for point in points {
            if known.insert(point) {
                *self.uncertain.entry(point).or_default() += 1;
            }
        }
    }

    /// Starts the drains of all reports of a group that may have arrived: a later one has.
    pub(crate) fn confirm(&mut self, gn: Gn, until: Moment) {
        let points = self.unconfirmed.remove(&gn).unwrap_or_default();
        for point in &points {
            if let Some(groups) = self.uncertain.get_mut(point) {
                *groups -= 1;
                if *groups == 0 {
                    self.uncertain.remove(point);
                }
            }
        }
        self.start(until, points);
    }

    /// Time at which the next drain ends.
    pub(crate) fn due(&self) -> Option<Moment> {
        let first = self.order.first().map(|(end, _)| *end);
        first.into_iter().chain(self.blind_until).min()
    }

    /// Ends the drains whose time is over. Call it only while senders hear of reports.
    pub(crate) fn expire(&mut self, now: Moment) {
        while let Some((end, point)) = self.order.first().copied()
            && end <= now
        {
            self.order.pop_first();
            self.ends.remove(&point);
        }
        self.blind_until = self.blind_until.filter(|end| now < *end);
    }

    /// True if any member may send by any route.
    pub(crate) fn is_blind(&self) -> bool {
        self.blind_until.is_some()
    }

    /// True if a member may be leaving at an entry point.
    pub(crate) fn is_left(&self, point: &EntryPoint) -> bool {
        self.ends.contains_key(point) || self.uncertain.contains_key(point)
    }

    /// True if no member can be leaving at an entry point.
    pub(crate) fn is_settled(&self, point: &EntryPoint) -> bool {
        !self.is_blind() && !self.is_left(point)
    }

    /// True if members leave any of the entries to be written.
    pub(crate) fn delays(&self, writes: &Writes) -> bool {
        let mut writes =
            writes.iter().flat_map(|(at, writes)| writes.iter().map(|one| one.at(*at)));
        writes.any(|point| !self.is_settled(&point))
    }
}

/// True if packets by the route before may need entries that packets by the new one do not.
pub(crate) fn takes_away(before: &Route, route: &Route) -> bool {
    let stays = |endpoint: &EndpointName| before.cut_off.contains(endpoint);
    before.colors() != route.colors() || !route.cut_off.iter().all(stays)
}

#[cfg(test)]
mod tests {
    use fabricast_topology::{PortSet, SwitchId};

    use super::*;
    use crate::planner::tests::routed;
    use crate::table_state::Write;

    const LEFT: EntryPoint = EntryPoint { switch: SwitchId(0), in_port: 1, color: 5 };
    const OTHER: EntryPoint = EntryPoint { switch: SwitchId(0), in_port: 1, color: 6 };

    /// DRAIN-1. Found by the simulation: the senders that had just been told another color were
    /// forgotten at once.
    #[test]
    fn senders_that_leave_are_remembered_until_they_must_have_heard_of_it() {
        let mut drain = Drain::default();
        assert!(drain.is_settled(&LEFT) && drain.due().is_none());
        drain.start(Moment(9), [LEFT]);
        drain.start(Moment(7), [LEFT]);
        drain.expire(Moment(8));
        assert!(drain.is_left(&LEFT) && drain.is_settled(&OTHER));
        drain.put_off(Moment(12));
        drain.expire(Moment(11));
        assert!(drain.is_left(&LEFT) && drain.due() == Some(Moment(12)));
        drain.expire(Moment(12));
        assert!(drain.is_settled(&LEFT) && drain.due().is_none());
        drain.start_blind(Moment(15));
        assert!(!drain.is_settled(&OTHER), "another route service may have reported any route");
        drain.expire(Moment(15));
        assert!(drain.is_settled(&OTHER) && drain.due().is_none());
    }

    #[test]
    fn senders_that_leave_one_entry_put_off_no_swap_of_another() {
        let mut drain = Drain::default();
        drain.start(Moment(7), [LEFT]);
        let swap = |color| {
            let write = Write { in_port: 1, color, out: PortSet::single(2) };
            Writes::from([(SwitchId(0), vec![write])])
        };
        assert!(drain.delays(&swap(5)) && !drain.delays(&swap(6)));
    }

    #[test]
    fn the_senders_of_an_unconfirmed_report_are_remembered_until_a_later_one_is_confirmed() {
        let mut drain = Drain::default();
        drain.add_unconfirmed(Gn(1), [LEFT]);
        drain.add_unconfirmed(Gn(2), [OTHER]);
        drain.expire(Moment(100));
        assert!(drain.is_left(&LEFT) && drain.due().is_none());
        drain.confirm(Gn(1), Moment(110));
        drain.expire(Moment(110));
        assert!(drain.is_settled(&LEFT) && drain.is_left(&OTHER));
    }

    /// Found by the simulation: entries of members that were cut off went before the others had
    /// heard of it.
    #[test]
    fn senders_are_waited_for_if_members_are_cut_off_or_the_color_changes() {
        let route = |color, cut_off: &[&str]| Route {
            cut_off: cut_off.iter().map(|name| EndpointName::new(name).unwrap()).collect(),
            ..routed(color)
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
