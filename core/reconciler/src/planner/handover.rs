//! Decides when senders may be told a new color, and when an entry may lead elsewhere (rule R5).

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::ids::Gn;
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{Colors, Route, RouteReason, RouteState};
use fabricast_topology::{EndpointId, Graph, Peer, SwitchId};

use crate::directory_cache::{CachedGroup, CachedMember, DirectoryCache};
use crate::interface::GroupRoute;
use crate::planner::Planner;
use crate::table_state::{EntryPoint, Write, Writes};

/// The reported routes, which senders use, beside the planned ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handover<'a> {
    pub(crate) planner: &'a Planner,
    pub(crate) directory: &'a DirectoryCache,
    /// Routes as reported last, by GN.
    pub(crate) reported: &'a BTreeMap<Gn, Route>,
}

/// The part of a reported route that stays in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteOverlap {
    /// The member will get another color or none, or other members are left out on another
    /// spanning tree.
    Nothing,
    /// The color stays. The spanning tree is another one, or is not known because another route
    /// service reported the route.
    Color,
    /// Color and spanning tree stay.
    Tree,
}

impl Handover<'_> {
    /// The swaps that no sender of another group meets any more.
    ///
    /// A group that was not told its new color yet still sends with the old one. If all swaps wait
    /// for each other in a circle, none is ready: see [`Handover::withdrawals`].
    ///
    /// - `is_settled`: false for an entry point where a member may send by a replaced route.
    pub(crate) fn ready_swaps(
        &self,
        swaps: &Writes,
        is_settled: impl Fn(&EntryPoint) -> bool,
    ) -> Writes {
        let mut ready = Writes::new();
        for (switch, writes) in swaps {
            let is_free = |write: &&Write| {
                let point = write.at(*switch);
                is_settled(&point) && !self.meets(point, RouteOverlap::Nothing)
            };
            let free: Vec<Write> = writes.iter().filter(is_free).copied().collect();
            if !free.is_empty() {
                ready.insert(*switch, free);
            }
        }
        ready
    }

    /// Reports that take the routes of the groups that swaps wait for. The groups lose no messages,
    /// as these take the unicast tree.
    pub(crate) fn withdrawals(&self, swaps: &Writes) -> Vec<GroupRoute> {
        let points = swaps
            .iter()
            .flat_map(|(switch, writes)| writes.iter().map(move |write| write.at(*switch)));
        let gns: BTreeSet<Gn> =
            points.flat_map(|point| self.senders(point, RouteOverlap::Nothing)).collect();
        gns.into_iter().map(|gn| withdrawal(gn, &self.directory.groups[&gn])).collect()
    }

    /// True if all senders at an entry point keep color and spanning tree of their reported route,
    /// and there are any. Cost: the groups with a member at the endpoint there.
    ///
    /// Trees that do not leave their leaf may share an entry though they belong to different
    /// spanning trees. Then one group may keep the entry while the other must leave it before it
    /// leads up.
    pub(crate) fn is_kept(&self, point: EntryPoint) -> bool {
        self.meets(point, RouteOverlap::Tree)
            && !self.meets(point, RouteOverlap::Nothing)
            && !self.meets(point, RouteOverlap::Color)
    }

    /// True if any member at an entry point has a reported route with this overlap.
    pub(crate) fn meets(&self, point: EntryPoint, overlap: RouteOverlap) -> bool {
        self.senders(point, overlap).next().is_some()
    }

    /// GNs of the groups with members at an entry point that have a reported route with this
    /// overlap.
    fn senders(&self, point: EntryPoint, overlap: RouteOverlap) -> impl Iterator<Item = Gn> {
        let graph = &self.planner.graph;
        let port = graph.port(point.switch, point.in_port);
        let endpoint = port.and_then(|port| match graph.peer(port) {
            Peer::Endpoint(endpoint) => Some(endpoint),
            Peer::Switch(_) | Peer::None => None,
        });
        let groups = endpoint.into_iter().flat_map(|endpoint| self.directory.groups_at(endpoint));
        let sends = move |(gn, group): &(Gn, &CachedGroup)| {
            // Cheap, and almost always false.
            if !self.reported.get(gn).is_some_and(|route| has_color(route, point.color)) {
                return false;
            }
            self.points_of(*gn, group, overlap).any(|at| at == point)
        };
        groups.filter(sends).map(|(gn, _)| gn)
    }

    /// Entry points of the members of one group that have a reported route with this overlap.
    fn points_of<'a>(
        &'a self,
        gn: Gn,
        group: &'a CachedGroup,
        overlap: RouteOverlap,
    ) -> impl Iterator<Item = EntryPoint> + 'a {
        let reported = self.reported.get(&gn).filter(|route| route.colors().is_some());
        reported.into_iter().flat_map(move |reported| {
            let planned = self.planner.route(gn, group);
            let is_same = planned.colors() == reported.colors();
            // Entries towards members that are cut off only now stay until all senders know, but
            // only on the same spanning tree.
            let is_newly_cut_off = |name: &EndpointName| !reported.cut_off.contains(name);
            let part = self.planner.part(group);
            let kept = match is_same {
                true if self.planner.reported_parts.get(&gn) == part.as_ref() => RouteOverlap::Tree,
                true if !planned.cut_off.iter().any(is_newly_cut_off) => RouteOverlap::Color,
                true | false => RouteOverlap::Nothing,
            };
            let graph = &self.planner.graph;
            let has_overlap = move |endpoint| {
                let is_cut_off = is_cut_off(graph, &planned, endpoint);
                overlap == if is_cut_off { RouteOverlap::Nothing } else { kept }
            };
            points_where(graph, group, reported, has_overlap)
        })
    }
}

/// Entry points of the members that send by a route.
pub(crate) fn sender_points<'a>(
    graph: &'a Graph,
    group: &'a CachedGroup,
    route: &'a Route,
) -> impl Iterator<Item = EntryPoint> + 'a {
    points_where(graph, group, route, |_| true)
}

/// True if packets of a group would meet one of some entries where they enter the fabric, and do
/// not do so by their present route.
///
/// - `reported`: the route that the members use, if it is known.
/// - `route`: the route that they are to be told.
pub(crate) fn needs_swap(
    graph: &Graph,
    group: &CachedGroup,
    reported: Option<&Route>,
    route: &Route,
    writes: &Writes,
) -> bool {
    if writes.is_empty() {
        return false;
    }
    let used = LazyCell::new(|| -> BTreeSet<EntryPoint> {
        let reported = reported.into_iter();
        reported.flat_map(|reported| sender_points(graph, group, reported)).collect()
    });
    group.endpoints().filter_map(|one| entry_port(graph, one)).any(|(switch, in_port)| {
        let mut writes = writes.get(&switch).into_iter().flatten();
        writes.any(|write| {
            let is_met = write.in_port == in_port && has_color(route, write.color);
            is_met && !used.contains(&write.at(switch))
        })
    })
}

/// Entry points of the members that send by a route and whose endpoint is `wanted`.
fn points_where<'a>(
    graph: &'a Graph,
    group: &'a CachedGroup,
    route: &'a Route,
    wanted: impl Fn(EndpointId) -> bool + 'a,
) -> impl Iterator<Item = EntryPoint> + 'a {
    let sends = move |member: &CachedMember| {
        let endpoint = member.known()?;
        let is_served = member.joined <= route.revision && !is_cut_off(graph, route, endpoint);
        (is_served && wanted(endpoint)).then_some(endpoint)
    };
    let members = route
        .colors()
        .into_iter()
        .flat_map(|colors| group.members.values().map(move |member| (colors, member)));
    let ports = members
        .filter_map(move |(colors, member)| Some((colors, entry_port(graph, sends(member)?)?)));
    ports.flat_map(|(colors, (switch, in_port))| {
        let colors = [Some(colors.first), colors.second].into_iter().flatten();
        colors.map(move |color| EntryPoint { switch, in_port, color })
    })
}

/// True if members send with this color by a route.
pub(crate) fn has_color(route: &Route, color: u16) -> bool {
    let Some(Colors { first, second }) = route.colors() else { return false };
    first == color || second == Some(color)
}

/// True if a route leaves an endpoint out.
fn is_cut_off(graph: &Graph, route: &Route, endpoint: EndpointId) -> bool {
    // Almost always there are none, and the name is not looked up.
    let mut cut_off = route.cut_off.iter();
    cut_off.any(|name| name.as_str() == graph.endpoint_name(endpoint))
}

/// Switch and port where packets of an endpoint enter the fabric.
fn entry_port(graph: &Graph, endpoint: EndpointId) -> Option<(SwitchId, u8)> {
    let port = graph.attachment(endpoint)?;
    Some((graph.switch_of(port), graph.port_number(port)))
}

/// Report that a group has no route for now.
pub(crate) fn withdrawal(gn: Gn, group: &CachedGroup) -> GroupRoute {
    let route = Route {
        revision: group.members_revision,
        state: RouteState::UnicastOnly,
        reason: "waits until other groups have left its entries".to_owned(),
        reason_code: RouteReason::WaitsForEntries,
        cut_off: Vec::new(),
    };
    GroupRoute { gn, route }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::tests::{group, planned, routed};
    use fabricast_groups::ids::{Pn, Revision};
    use fabricast_topology::PortSet;

    fn swap(planner: &Planner, endpoint: &str, color: u16) -> (SwitchId, Write) {
        let endpoint = planner.graph.find_endpoint(endpoint).unwrap();
        let (switch, in_port) = entry_port(&planner.graph, endpoint).unwrap();
        (switch, Write { in_port, color, out: PortSet::single(1) })
    }

    fn writes(swaps: &[(SwitchId, Write)]) -> Writes {
        let mut writes = Writes::new();
        for (switch, write) in swaps {
            writes.entry(*switch).or_default().push(*write);
        }
        writes
    }

    fn handover<'a>(
        planned: &'a (Planner, DirectoryCache),
        reported: &'a BTreeMap<Gn, Route>,
    ) -> Handover<'a> {
        Handover { planner: &planned.0, directory: &planned.1, reported }
    }

    /// All keys that a packet of an endpoint can have with two colors.
    fn all_points(handover: &Handover<'_>) -> impl Iterator<Item = EntryPoint> {
        let graph = &handover.planner.graph;
        let ports = graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint));
        ports.flat_map(|port| {
            let (switch, in_port) = (graph.switch_of(port), graph.port_number(port));
            (0..2).map(move |color| EntryPoint { switch, in_port, color })
        })
    }

    fn points(handover: &Handover<'_>, overlap: RouteOverlap) -> BTreeSet<EntryPoint> {
        all_points(handover).filter(|point| handover.meets(*point, overlap)).collect()
    }

    fn kept(handover: &Handover<'_>) -> BTreeSet<EntryPoint> {
        all_points(handover).filter(|point| handover.is_kept(*point)).collect()
    }

    #[test]
    fn an_entry_is_swapped_once_its_senders_were_told_another_color() {
        // The planned color is 0, the reported one 1.
        let planned = planned(vec![group(0, &["h0", "h4"])]);
        let reported = BTreeMap::from([(Gn(1), routed(1))]);
        let (met, free) = (swap(&planned.0, "h0", 1), swap(&planned.0, "h1", 1));
        let ready = handover(&planned, &reported).ready_swaps(&writes(&[met, free]), |_| true);
        assert_eq!(ready, writes(&[free]));
        let reported = BTreeMap::from([(Gn(1), routed(0))]);
        let ready = handover(&planned, &reported).ready_swaps(&writes(&[met]), |_| true);
        assert_eq!(ready, writes(&[met]), "nobody sends by it any more");
    }

    /// Without a route a group has no color, which is not color 0.
    #[test]
    fn senders_of_a_group_that_lost_its_route_are_waited_for() {
        let planned = planned(vec![group(0, &["h0"])]);
        let reported = BTreeMap::from([(Gn(1), routed(0))]);
        let handover = handover(&planned, &reported);
        assert_eq!(points(&handover, RouteOverlap::Tree), BTreeSet::new());
        let (met, free) = (swap(&planned.0, "h0", 0), swap(&planned.0, "h1", 0));
        assert_eq!(handover.ready_swaps(&writes(&[met, free]), |_| true), writes(&[free]));
    }

    /// Found by the simulation: a member that has just joined, or was cut off, sends nothing yet.
    /// So the entry that it will use belongs to another tree.
    #[test]
    fn only_members_that_are_served_before_and_after_keep_their_tree() {
        let mut planned = planned(vec![group(0, &["h0", "h4"])]);
        let count = |planned: &(Planner, DirectoryCache), route, overlap| {
            let reported = BTreeMap::from([(Gn(1), route)]);
            points(&handover(planned, &reported), overlap).len()
        };
        let all = count(&planned, routed(0), RouteOverlap::Color);
        assert_eq!(all, 2, "the spanning tree of the reported route is not known");
        planned.0.note_reported(Gn(1), &planned.1.groups[&Gn(1)]);
        let same_tree = |planned: &_, route| count(planned, route, RouteOverlap::Tree);
        assert_eq!(same_tree(&planned, routed(0)), 2);
        let cut_off = vec![EndpointName::new("h4").unwrap()];
        assert_eq!(same_tree(&planned, Route { cut_off, ..routed(0) }), 1);
        let members = &mut planned.1.groups.get_mut(&Gn(1)).unwrap().members;
        members.get_mut(&Pn(1)).unwrap().joined = Revision(5);
        assert_eq!(same_tree(&planned, routed(0)), 1);
        assert_eq!(same_tree(&planned, Route { revision: Revision(5), ..routed(0) }), 2);
    }

    /// Found by the simulation: such a group's entries may still belong to another tree.
    #[test]
    fn a_group_that_was_told_before_its_swap_keeps_no_tree() {
        let mut planned = planned(vec![group(0, &["h0", "h4"])]);
        planned.0.note_reported(Gn(1), &planned.1.groups[&Gn(1)]);
        planned.0.note_reported_early(Gn(1));
        let reported = BTreeMap::from([(Gn(1), routed(0))]);
        let handover = handover(&planned, &reported);
        assert_eq!(points(&handover, RouteOverlap::Tree), BTreeSet::new());
        assert_eq!(points(&handover, RouteOverlap::Color).len(), 2);
    }

    /// Found by the simulation: of two groups whose trees share only a leaf's entry, one stayed.
    /// Its tree grew off the leaf while the other group still sent there.
    #[test]
    fn a_tree_is_not_kept_where_one_sender_leaves_and_another_stays() {
        let mut planned = planned(vec![group(0, &["h0", "h4"]), group(1, &["h0", "h5"])]);
        planned.0.note_reported(Gn(1), &planned.1.groups[&Gn(1)]);
        let point = |endpoint: &str| {
            let endpoint = planned.0.graph.find_endpoint(endpoint).unwrap();
            let (switch, in_port) = entry_port(&planned.0.graph, endpoint).unwrap();
            EntryPoint { switch, in_port, color: 0 }
        };
        let stays = BTreeMap::from([(Gn(1), routed(0))]);
        let both = BTreeSet::from([point("h0"), point("h4")]);
        assert_eq!(kept(&handover(&planned, &stays)), both);
        // The planned color of the second group is 1.
        let one_leaves = BTreeMap::from([(Gn(1), routed(0)), (Gn(2), routed(0))]);
        let kept = kept(&handover(&planned, &one_leaves));
        assert_eq!(kept, BTreeSet::from([point("h4")]));
    }

    /// Found by the simulation: such a group was told after the swap, which had cut its members off
    /// by then.
    #[test]
    fn a_group_that_sends_by_an_entry_already_need_not_wait_for_its_swap() {
        let (planner, directory) = planned(vec![group(0, &["h0", "h4"])]);
        let swaps = writes(&[swap(&planner, "h0", 0)]);
        let waits = |reported: Option<&Route>| {
            needs_swap(&planner.graph, &directory.groups[&Gn(1)], reported, &routed(0), &swaps)
        };
        assert!(waits(None));
        assert!(waits(Some(&routed(1))));
        assert!(!waits(Some(&routed(0))));
        let cut_off = Route { cut_off: vec![EndpointName::new("h0").unwrap()], ..routed(0) };
        assert!(waits(Some(&cut_off)));
    }

    #[test]
    fn a_swap_concerns_packets_of_both_colors_of_a_route_and_none_without_a_tree() {
        let (planner, directory) = planned(vec![group(0, &["h0", "h4"])]);
        let swaps = writes(&[swap(&planner, "h0", 0)]);
        let waits = |route: &Route| {
            needs_swap(&planner.graph, &directory.groups[&Gn(1)], None, route, &swaps)
        };
        let state = |first, second| RouteState::Routed {
            colors: Colors { first, second },
            virtual_group: 0,
        };
        assert!(waits(&Route { state: state(1, Some(0)), ..routed(1) }));
        assert!(!waits(&Route { state: state(1, None), ..routed(1) }));
        assert!(!waits(&Route { state: RouteState::UnicastOnly, ..routed(0) }));
    }

    /// Found by the simulation: such swaps were written while senders still used the entries.
    #[test]
    fn a_circle_of_swaps_is_broken_by_withdrawing_the_routes_in_it() {
        let planned = planned(vec![group(0, &["h0", "h4"]), group(4, &["h1", "h5"])]);
        let reported = BTreeMap::from([(Gn(1), routed(1)), (Gn(2), routed(0))]);
        let swaps = writes(&[swap(&planned.0, "h0", 1)]);
        assert_eq!(handover(&planned, &reported).ready_swaps(&swaps, |_| true), Writes::new());
        let withdrawals = handover(&planned, &reported).withdrawals(&swaps);
        assert_eq!(withdrawals.iter().map(|one| one.gn).collect::<Vec<_>>(), [Gn(1)]);
        let reported = BTreeMap::from([(Gn(1), withdrawals[0].route.clone())]);
        assert_eq!(handover(&planned, &reported).ready_swaps(&swaps, |_| true), swaps);
    }
}
