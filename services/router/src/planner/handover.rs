//! When senders may be told a new color, and when an entry may lead elsewhere (rule R5).

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_routing::{Mgid, virtual_group_entries};
use fabricast_topology::SwitchId;

use crate::image::{EntryPoint, Image, Write, Writes};
use crate::mirror::{Mirror, MirrorGroup};
use crate::planner::Planner;

impl Planner {
    /// Whether the switches hold everything that packets of a route need.
    pub(crate) fn is_programmed(&self, route: &v1::Route, held: &Image) -> bool {
        if route.state() != v1::RouteState::Routed {
            return true;
        }
        let Ok(id) = u32::try_from(route.virtual_group) else { return false };
        let trees = self.engine.plan().virtual_group_trees(Mgid(id));
        let tables = self.engine.plan().tables();
        !trees.is_empty()
            && trees.iter().all(|tree| {
                let entries = virtual_group_entries(&self.graph, tables, tree);
                let mut entries = entries.iter().filter(|entry| !self.dead.contains(&entry.switch));
                entries.all(|entry| held.covers(entry))
            })
    }

    /// Those of the swaps that no sender of another group can meet any more.
    ///
    /// A group that has yet to be told its new color still sends with the old one. Where all swaps
    /// wait for each other in a circle, there is no order without loss, and all are ready.
    pub(crate) fn ready_swaps(
        &self,
        mirror: &Mirror,
        reported: &BTreeMap<u64, v1::Route>,
        swaps: Writes,
    ) -> Writes {
        let in_use = self.entry_points(mirror, reported, false);
        let mut ready = Writes::new();
        for (switch, writes) in &swaps {
            let free = writes
                .iter()
                .filter(|write| !in_use.contains(&(*switch, write.in_port, write.color)));
            let free: Vec<Write> = free.copied().collect();
            if !free.is_empty() {
                ready.insert(*switch, free);
            }
        }
        if ready.is_empty() { swaps } else { ready }
    }

    /// Where senders enter the fabric with the colors that they were told, of groups that keep theirs or of
    /// those that do not. Cost: all members of those groups.
    pub(crate) fn entry_points(
        &self,
        mirror: &Mirror,
        reported: &BTreeMap<u64, v1::Route>,
        keep: bool,
    ) -> BTreeSet<EntryPoint> {
        let colors = |route: &v1::Route| {
            let routed = route.state() == v1::RouteState::Routed;
            routed.then_some((route.color, route.second_color))
        };
        let mut points = BTreeSet::new();
        for (gn, group) in &mirror.groups {
            let Some(told) = reported.get(gn).and_then(colors) else { continue };
            if (colors(&self.route(*gn, group)) == Some(told)) != keep {
                continue;
            }
            for (switch, number) in group.endpoints.values().filter_map(|at| self.entry_port(at)) {
                let told = [Some(told.0), told.1].into_iter().flatten();
                let told = told.map(|color| u16::try_from(color).unwrap_or(u16::MAX));
                points.extend(told.map(|color| (switch, number, color)));
            }
        }
        points
    }

    /// The switch and port where packets of an endpoint enter the fabric.
    fn entry_port(&self, endpoint: &str) -> Option<(SwitchId, u8)> {
        let port = self.graph.attachment(self.graph.find_endpoint(endpoint)?)?;
        Some((self.graph.switch_of(port), self.graph.port_number(port)))
    }

    /// Whether packets of a group would meet one of these entries where they enter the fabric.
    pub(crate) fn meets(&self, group: &MirrorGroup, route: &v1::Route, writes: &Writes) -> bool {
        let enters = |name: &String| {
            let (switch, number) = self.entry_port(name)?;
            let writes = writes.get(&switch)?;
            Some(
                writes
                    .iter()
                    .any(|write| write.in_port == number && u32::from(write.color) == route.color),
            )
        };
        !writes.is_empty() && group.endpoints.values().any(|name| enters(name).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::tests::{group, planned};
    use fabricast_topology::PortSet;

    fn told(color: u32) -> v1::Route {
        let state = v1::RouteState::Routed.into();
        v1::Route { color, state, ..v1::Route::default() }
    }

    fn swap(planner: &Planner, endpoint: &str, color: u16) -> (SwitchId, Write) {
        let (switch, in_port) = planner.entry_port(endpoint).unwrap();
        (switch, Write { in_port, color, out: PortSet::single(1) })
    }

    fn writes(swaps: &[(SwitchId, Write)]) -> Writes {
        let mut writes = Writes::new();
        for (switch, write) in swaps {
            writes.entry(*switch).or_default().push(*write);
        }
        writes
    }

    #[test]
    fn an_entry_that_untold_senders_use_is_swapped_after_they_have_been_told() {
        // The group's color is 0 by now, its senders were told 1.
        let (planner, mirror) = planned(vec![group(0, &["h0", "h4"])]);
        let reported = BTreeMap::from([(1, told(1))]);
        let (met, free) = (swap(&planner, "h0", 1), swap(&planner, "h1", 1));
        let ready = planner.ready_swaps(&mirror, &reported, writes(&[met, free]));
        assert_eq!(ready, writes(&[free]));
        let ready = planner.ready_swaps(&mirror, &BTreeMap::from([(1, told(0))]), writes(&[met]));
        assert_eq!(ready, writes(&[met]), "nobody uses it any more");
    }

    /// Without a route a group has no color, which is not color 0.
    #[test]
    fn senders_of_a_group_that_lost_its_route_are_waited_for() {
        let (planner, mirror) = planned(vec![group(0, &["h0"])]);
        let reported = BTreeMap::from([(1, told(0))]);
        assert_eq!(planner.entry_points(&mirror, &reported, true), BTreeSet::new());
        let (met, free) = (swap(&planner, "h0", 0), swap(&planner, "h1", 0));
        let ready = planner.ready_swaps(&mirror, &reported, writes(&[met, free]));
        assert_eq!(ready, writes(&[free]));
    }

    #[test]
    fn a_circle_of_swaps_is_broken() {
        let (planner, mirror) = planned(vec![group(0, &["h0", "h4"])]);
        let reported = BTreeMap::from([(1, told(1))]);
        let only = writes(&[swap(&planner, "h0", 1)]);
        assert_eq!(planner.ready_swaps(&mirror, &reported, only.clone()), only);
    }

    #[test]
    fn a_route_is_called_programmed_when_every_entry_is_confirmed() {
        let (planner, mirror) = planned(vec![group(0, &["h0", "h4"])]);
        let route = &planner.routes(&mirror)[&1];
        assert!(planner.is_programmed(route, planner.desired()));
        assert!(!planner.is_programmed(route, &Image::default()));
    }
}
