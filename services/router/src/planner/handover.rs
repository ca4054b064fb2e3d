//! When senders may be told a new color, and when an entry may lead elsewhere (rule R5).

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_routing::{Mgid, virtual_group_entries};
use fabricast_topology::SwitchId;

use crate::image::{EntryPoint, Image, Write, Writes};
use crate::mirror::{Mirror, MirrorGroup};
use crate::planner::Planner;

/// What members keep of the route they were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// They will be told another color, are left out, or will have to do without others on another spanning tree.
    Nothing,
    /// They keep the color, on another spanning tree or on one that is not known: another route service told them.
    Color,
    /// They keep the color and the spanning tree.
    Tree,
}

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
    /// wait for each other in a circle, none is ready: see [`Planner::withdrawn`].
    pub(crate) fn ready_swaps(
        &self,
        mirror: &Mirror,
        reported: &BTreeMap<u64, v1::Route>,
        swaps: &Writes,
    ) -> Writes {
        let in_use = self.entry_points(mirror, reported, Keeps::Nothing);
        let mut ready = Writes::new();
        for (switch, writes) in swaps {
            let free = writes
                .iter()
                .filter(|write| !in_use.contains(&(*switch, write.in_port, write.color)));
            let free: Vec<Write> = free.copied().collect();
            if !free.is_empty() {
                ready.insert(*switch, free);
            }
        }
        ready
    }

    /// Takes the routes of the groups that swaps wait for; without them they lose nothing, as their packets take
    /// the unicast tree.
    pub(crate) fn withdrawn(
        &self,
        mirror: &Mirror,
        reported: &BTreeMap<u64, v1::Route>,
        swaps: &Writes,
    ) -> Vec<v1::GroupRoute> {
        let is_swapped = |(switch, in_port, color): EntryPoint| {
            let writes = swaps.get(&switch).into_iter().flatten();
            writes.clone().any(|write| (write.in_port, write.color) == (in_port, color))
        };
        let in_the_way = |(gn, group): &(&u64, &MirrorGroup)| {
            let mut points = self.points_of(**gn, group, reported, Keeps::Nothing);
            points.any(is_swapped)
        };
        let groups = mirror.groups.iter().filter(in_the_way);
        groups.map(|(gn, group)| withdrawn(*gn, group)).collect()
    }

    /// Where members that are served by the route they were told enter the fabric: those that keep so much of it.
    /// Cost: all members.
    pub(crate) fn entry_points(
        &self,
        mirror: &Mirror,
        reported: &BTreeMap<u64, v1::Route>,
        keeps: Keeps,
    ) -> BTreeSet<EntryPoint> {
        let groups = mirror.groups.iter();
        groups.flat_map(|(gn, group)| self.points_of(*gn, group, reported, keeps)).collect()
    }

    /// Where everybody who enters the fabric by a route that was told keeps its color and its spanning tree. Cost: all
    /// members, three times.
    ///
    /// Trees that do not leave their leaf may share an entry though they are parts of different spanning trees; then one
    /// may keep it while the other has to go before it leads up.
    pub(crate) fn kept_points(
        &self,
        mirror: &Mirror,
        reported: &BTreeMap<u64, v1::Route>,
    ) -> BTreeSet<EntryPoint> {
        let points = |keeps| self.entry_points(mirror, reported, keeps);
        let (gone, moved) = (points(Keeps::Nothing), points(Keeps::Color));
        let mut kept = points(Keeps::Tree);
        kept.retain(|point| !gone.contains(point) && !moved.contains(point));
        kept
    }

    /// Takes note that a group has been told the route that is planned now.
    pub(crate) fn note_told(&mut self, gn: u64, group: &MirrorGroup) {
        if let Some(part) = self.part(group) {
            self.told_parts.insert(gn, part);
        }
    }

    /// Takes note that this was before its entries were swapped: they may still be those of another spanning tree.
    pub(crate) fn note_told_early(&mut self, gn: u64) {
        self.told_parts.remove(&gn);
    }

    fn part(&self, group: &MirrorGroup) -> Option<u32> {
        self.engine.plan().group(Mgid(group.mgid)).map(|planned| planned.part)
    }

    /// The entry points of one group: of members that keep so much of the route they were told.
    fn points_of(
        &self,
        gn: u64,
        group: &MirrorGroup,
        reported: &BTreeMap<u64, v1::Route>,
        keeps: Keeps,
    ) -> impl Iterator<Item = EntryPoint> {
        let told = reported.get(&gn).filter(|told| told.state() == v1::RouteState::Routed);
        told.into_iter().flat_map(move |told| {
            let now = self.route(gn, group);
            let is_same = now.state() == v1::RouteState::Routed
                && (now.color, now.second_color) == (told.color, told.second_color);
            // On the same tree what leads to them stays until everybody knows.
            let is_cut = |name: &String| !told.cut_off_endpoints.contains(name);
            let kept = match is_same {
                true if self.told_parts.get(&gn) == self.part(group).as_ref() => Keeps::Tree,
                true if !now.cut_off_endpoints.iter().any(is_cut) => Keeps::Color,
                true | false => Keeps::Nothing,
            };
            let is_asked_for = move |endpoint: &str| {
                let is_left_out = now.cut_off_endpoints.iter().any(|cut| cut == endpoint);
                keeps == if is_left_out { Keeps::Nothing } else { kept }
            };
            self.points_where(group, told, is_asked_for)
        })
    }

    /// Where members enter the fabric that send by a route.
    pub(crate) fn points_told(
        &self,
        group: &MirrorGroup,
        told: &v1::Route,
    ) -> impl Iterator<Item = EntryPoint> {
        self.points_where(group, told, |_| true)
    }

    /// Of the members that a route serves, those whose endpoint is asked for.
    fn points_where(
        &self,
        group: &MirrorGroup,
        told: &v1::Route,
        is_asked_for: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = EntryPoint> {
        let is_routed = told.state() == v1::RouteState::Routed;
        let sends = move |(pn, endpoint): &(&u32, &String)| {
            let joined = group.joined.get(pn).copied().unwrap_or(0);
            is_routed
                && joined <= told.routed_revision
                && !told.cut_off_endpoints.contains(endpoint)
                && is_asked_for(endpoint)
        };
        let members = group.endpoints.iter().filter(sends);
        let ports = members.filter_map(|(_, endpoint)| self.entry_port(endpoint));
        ports.flat_map(|(switch, number)| {
            let colors = [Some(told.color), told.second_color].into_iter().flatten();
            let colors = colors.map(|color| u16::try_from(color).unwrap_or(u16::MAX));
            colors.map(move |color| (switch, number, color))
        })
    }

    /// The switch and port where packets of an endpoint enter the fabric.
    fn entry_port(&self, endpoint: &str) -> Option<(SwitchId, u8)> {
        let port = self.graph.attachment(self.graph.find_endpoint(endpoint)?)?;
        Some((self.graph.switch_of(port), self.graph.port_number(port)))
    }

    /// Whether packets of a group would meet one of these entries where they enter the fabric, and do not do so already.
    ///
    /// - `told`: the route that its members use, if that is known.
    pub(crate) fn meets(
        &self,
        group: &MirrorGroup,
        (told, route): (Option<&v1::Route>, &v1::Route),
        writes: &Writes,
    ) -> bool {
        if writes.is_empty() {
            return false;
        }
        let used: BTreeSet<EntryPoint> =
            told.into_iter().flat_map(|told| self.points_told(group, told)).collect();
        group.endpoints.values().filter_map(|name| self.entry_port(name)).any(|(switch, number)| {
            let mut writes = writes.get(&switch).into_iter().flatten();
            writes.any(|write| {
                let is_met = write.in_port == number && u32::from(write.color) == route.color;
                is_met && !used.contains(&(switch, number, write.color))
            })
        })
    }
}

/// A report that a group has no route for now.
pub(crate) fn withdrawn(gn: u64, group: &MirrorGroup) -> v1::GroupRoute {
    let route = v1::Route {
        routed_revision: group.members_revision,
        state: v1::RouteState::UnicastOnly.into(),
        reason: "waits until other groups have left its entries".to_owned(),
        ..v1::Route::default()
    };
    v1::GroupRoute { gn, route: Some(route) }
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
        let ready = planner.ready_swaps(&mirror, &reported, &writes(&[met, free]));
        assert_eq!(ready, writes(&[free]));
        let reported = BTreeMap::from([(1, told(0))]);
        let ready = planner.ready_swaps(&mirror, &reported, &writes(&[met]));
        assert_eq!(ready, writes(&[met]), "nobody uses it any more");
    }

    /// Without a route a group has no color, which is not color 0.
    #[test]
    fn senders_of_a_group_that_lost_its_route_are_waited_for() {
        let (planner, mirror) = planned(vec![group(0, &["h0"])]);
        let reported = BTreeMap::from([(1, told(0))]);
        assert_eq!(planner.entry_points(&mirror, &reported, Keeps::Tree), BTreeSet::new());
        let (met, free) = (swap(&planner, "h0", 0), swap(&planner, "h1", 0));
        let ready = planner.ready_swaps(&mirror, &reported, &writes(&[met, free]));
        assert_eq!(ready, writes(&[free]));
    }

    /// Found by the simulation: whoever joins, or was cut off, sends nothing yet, so what holds the entry that it will
    /// use is another tree.
    #[test]
    fn only_members_that_are_served_before_and_after_keep_their_tree() {
        let (mut planner, mut mirror) = planned(vec![group(0, &["h0", "h4"])]);
        let all = planner.entry_points(&mirror, &BTreeMap::from([(1, told(0))]), Keeps::Color);
        assert_eq!(all.len(), 2, "nobody knows yet on which tree they are");
        planner.note_told(1, &mirror.groups[&1]);
        let points = |mirror: &Mirror, told: v1::Route| {
            planner.entry_points(mirror, &BTreeMap::from([(1, told)]), Keeps::Tree).len()
        };
        assert_eq!(points(&mirror, told(0)), 2);
        let cut_off_endpoints = vec!["h4".to_owned()];
        assert_eq!(points(&mirror, v1::Route { cut_off_endpoints, ..told(0) }), 1);
        mirror.groups.get_mut(&1).unwrap().joined.insert(1, 5);
        assert_eq!(points(&mirror, told(0)), 1);
        assert_eq!(points(&mirror, v1::Route { routed_revision: 5, ..told(0) }), 2);
    }

    /// Found by the simulation: one of two groups whose trees share a leaf's entry and nothing else stayed, and its tree
    /// grew off the leaf while the other still sent there.
    #[test]
    fn where_one_sender_goes_and_another_stays_the_tree_is_not_kept() {
        let (mut planner, mirror) = planned(vec![group(0, &["h0", "h4"]), group(1, &["h0", "h5"])]);
        planner.note_told(1, &mirror.groups[&1]);
        let point = |endpoint: &str| {
            let (switch, in_port) = planner.entry_port(endpoint).unwrap();
            (switch, in_port, 0)
        };
        let stays = BTreeMap::from([(1, told(0))]);
        let both = BTreeSet::from([point("h0"), point("h4")]);
        assert_eq!(planner.kept_points(&mirror, &stays), both);
        // The other one's color is 1 by now.
        let one_goes = BTreeMap::from([(1, told(0)), (2, told(0))]);
        assert_eq!(planner.kept_points(&mirror, &one_goes), BTreeSet::from([point("h4")]));
    }

    /// Found by the simulation: such a group was told after the swap, which had cut its members off by then.
    #[test]
    fn a_group_that_sends_by_an_entry_already_need_not_wait_for_its_swap() {
        let (planner, mirror) = planned(vec![group(0, &["h0", "h4"])]);
        let (group, swaps) = (&mirror.groups[&1], writes(&[swap(&planner, "h0", 0)]));
        assert!(planner.meets(group, (None, &told(0)), &swaps));
        assert!(planner.meets(group, (Some(&told(1)), &told(0)), &swaps));
        assert!(!planner.meets(group, (Some(&told(0)), &told(0)), &swaps));
        let cut_off = v1::Route { cut_off_endpoints: vec!["h0".to_owned()], ..told(0) };
        assert!(planner.meets(group, (Some(&cut_off), &told(0)), &swaps));
    }

    /// Found by the simulation: such swaps were written while senders still used the entries.
    #[test]
    fn a_circle_of_swaps_is_broken_by_taking_the_routes_of_those_in_it() {
        let (planner, mirror) = planned(vec![group(0, &["h0", "h4"]), group(4, &["h1", "h5"])]);
        let reported = BTreeMap::from([(1, told(1)), (2, told(0))]);
        let only = writes(&[swap(&planner, "h0", 1)]);
        assert_eq!(planner.ready_swaps(&mirror, &reported, &only), Writes::new());
        let withdrawn = planner.withdrawn(&mirror, &reported, &only);
        assert_eq!(withdrawn.iter().map(|one| one.gn).collect::<Vec<_>>(), [1]);
        let reported = BTreeMap::from([(1, withdrawn[0].route.clone().unwrap())]);
        assert_eq!(planner.ready_swaps(&mirror, &reported, &only), only);
    }

    #[test]
    fn a_route_is_called_programmed_when_every_entry_is_confirmed() {
        let (planner, mirror) = planned(vec![group(0, &["h0", "h4"])]);
        let route = &planner.routes(&mirror)[&1];
        assert!(planner.is_programmed(route, planner.desired()));
        assert!(!planner.is_programmed(route, &Image::default()));
    }
}
