//! Members that the planned trees of their groups do not reach.
//!
//! A fault of an engine must not lose packets in silence. So packets are walked through the planned
//! rows before the route of a group is reported; a group that misses a member has no route.
//!
//! Invariants
//! - REACH-1: no route is reported as routed whose planned rows, walked from one member with live
//!   links, miss another member that the plan does not name as cut off. A group whose plan did not
//!   change when a part of its trees, or the endpoint of a member, failed or came back is walked in
//!   one of the next turns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::ids::Gn;
use fabricast_routing::{ReachWalker, RoutingEngine, TableImage};
use fabricast_topology::{EndpointId, Graph, Mgid};

use crate::interface::Event;

/// Most groups that are walked again in one turn because faults changed. Those whose plan changed
/// are walked in the turn that plans them.
const GROUPS_PER_TURN: usize = 1000;

/// Walks the planned rows, and remembers the members that were missed.
#[derive(Debug)]
pub(super) struct Reach {
    walker: ReachWalker,
    /// Members that the packets of a group do not reach, by GN.
    missed: BTreeMap<Gn, Vec<EndpointId>>,
    /// GNs of the groups to be walked again, though their plan did not change.
    waiting: BTreeSet<Gn>,
    /// Facts for the log.
    pub(super) events: Vec<Event>,
}

impl Reach {
    pub(super) fn new(graph: &Arc<Graph>) -> Self {
        let walker = ReachWalker::new(graph);
        let (missed, waiting) = (BTreeMap::new(), BTreeSet::new());
        Self { walker, missed, waiting, events: Vec::new() }
    }

    /// Members that the packets of a group do not reach, as far as it was walked.
    pub(super) fn missed(&self, gn: Gn) -> Option<&[EndpointId]> {
        self.missed.get(&gn).map(Vec::as_slice)
    }

    /// Number of groups that miss a member.
    pub(super) fn missing_groups(&self) -> usize {
        self.missed.len()
    }

    /// True if groups are still to be walked again.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has groups walked again, some in each turn.
    pub(super) fn walk_later(&mut self, gns: impl IntoIterator<Item = Gn>) {
        self.waiting.extend(gns);
    }

    /// Takes the next groups to be walked again.
    pub(super) fn take_waiting(&mut self) -> BTreeSet<Gn> {
        match self.waiting.iter().nth(GROUPS_PER_TURN).copied() {
            Some(rest) => {
                let later = self.waiting.split_off(&rest);
                std::mem::replace(&mut self.waiting, later)
            }
            None => std::mem::take(&mut self.waiting),
        }
    }

    /// Forgets a group that has no plan any more.
    pub(super) fn forget(&mut self, gn: Gn) {
        self.missed.remove(&gn);
        self.waiting.remove(&gn);
    }

    /// Walks packets of planned groups. Returns the GNs of those that miss other members than
    /// before.
    ///
    /// Cost: the members of the groups, and one walk over the trees of each virtual group.
    ///
    /// - `image`: the rows of the engine's present plan.
    pub(super) fn walk(
        &mut self,
        engine: &dyn RoutingEngine,
        image: &TableImage,
        groups: impl Iterator<Item = (Gn, Mgid)>,
    ) -> Vec<Gn> {
        let plan = engine.plan();
        let shared = |mgid| plan.group(mgid).map(|group| group.virtual_group);
        let mut groups: Vec<_> = groups.map(|(gn, mgid)| (shared(mgid), gn, mgid)).collect();
        groups.sort_unstable();
        let mut sent = None;
        let mut differing = Vec::new();
        for (shared, gn, mgid) in groups {
            self.waiting.remove(&gn);
            let colors = plan.sender_colors(mgid);
            let mut missed = engine.live_members(mgid).unwrap_or_default();
            let sender = missed.first().copied().filter(|_| !colors.is_empty());
            let packet = sender.map(|_| (shared, colors));
            // One packet stands for all groups of a virtual group if it reaches all of them.
            if packet.is_none() {
                missed.clear();
            } else if packet == sent {
                missed.retain(|member| !self.walker.has_reached(*member));
            }
            if let (Some(sender), Some((_, colors)), false) = (sender, &packet, missed.is_empty()) {
                self.walker.send(image, engine.faults(), colors, sender);
                missed = engine.live_members(mgid).unwrap_or_default();
                missed.retain(|member| !self.walker.has_reached(*member));
                sent = packet;
            }
            if self.missed(gn).unwrap_or_default() != missed {
                differing.push(gn);
            }
            if missed.is_empty() {
                self.missed.remove(&gn);
            } else {
                self.events.push(Event::MembersMissed { gn, missed: missed.len() });
                self.missed.insert(gn, missed);
            }
        }
        differing
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::record::{RouteReason, RouteState};
    use fabricast_routing::{
        Change, ChangeError, EngineKind, EngineOptions, MgidSpace, PartBuilder, Plan, PlannedTree,
        build_engine,
    };
    use fabricast_topology::{Faults, TableKind};

    use super::*;
    use crate::directory_cache::{DirectoryCache, FailedElement};
    use crate::planner::Planner;
    use crate::planner::tests::{group, planner};

    /// An engine whose trees never have the port of h5, and that takes no notice of faults.
    #[derive(Debug)]
    struct Faulty {
        engine: Box<dyn RoutingEngine>,
        faults: Faults,
        plan: Plan,
    }

    impl Faulty {
        fn new(graph: &Arc<Graph>) -> Self {
            let options = EngineOptions::new(4, TableKind::PerPort);
            let kind = EngineKind::Mr4lms;
            let engine = build_engine(kind, Arc::clone(graph), None, options).unwrap();
            Self { plan: engine.plan().clone(), engine, faults: Faults::new() }
        }

        fn lose_port(&mut self) {
            let graph = self.engine.graph();
            let lost = graph.attachment(graph.find_endpoint("h5").unwrap()).unwrap();
            let whole = self.engine.plan();
            self.plan = Plan::listed(4, TableKind::PerPort);
            for color in 0..4 {
                let mut part = PartBuilder::new(color, u16::try_from(color).unwrap());
                for tree in whole.virtual_groups_on(color, 0) {
                    let live = |mgid: &Mgid| (*mgid, whole.group(*mgid).unwrap().live_members);
                    let ports = tree.ports.iter().copied().filter(|port| *port != lost).collect();
                    let groups = tree.groups.iter().map(live).collect();
                    part.add(PlannedTree { root: tree.root, ports, groups });
                }
                self.plan.set_part(color, part);
            }
        }
    }

    impl RoutingEngine for Faulty {
        fn kind(&self) -> EngineKind {
            self.engine.kind()
        }

        fn graph(&self) -> &Arc<Graph> {
            self.engine.graph()
        }

        fn space(&self) -> &MgidSpace {
            self.engine.space()
        }

        fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
            self.engine.apply(changes)?;
            self.lose_port();
            Ok(())
        }

        fn set_faults(&mut self, faults: Faults) {
            self.faults = faults;
        }

        fn faults(&self) -> &Faults {
            &self.faults
        }

        fn plan(&self) -> &Plan {
            &self.plan
        }

        fn groups(&self) -> Vec<Mgid> {
            self.engine.groups()
        }

        fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
            self.engine.members(mgid)
        }
    }

    fn faulty() -> Planner {
        let mut planner = planner();
        planner.engine = Box::new(Faulty::new(&planner.graph));
        planner.image = TableImage::new(&planner.graph, planner.engine.plan());
        planner
    }

    #[test]
    fn a_group_whose_tree_misses_a_member_has_no_route_until_it_is_whole() {
        let mut planner = faulty();
        let mut directory = DirectoryCache::default();
        directory.put(Gn(1), group(0, &["h0", "h4", "h5"]));
        directory.put(Gn(2), group(1, &["h1", "h6"]));
        planner.plan(&directory, &[Gn(1), Gn(2)]);
        let routes = planner.routes(&directory);
        assert_eq!(routes[&Gn(1)].state, RouteState::UnicastOnly);
        assert_eq!(routes[&Gn(1)].reason_code, RouteReason::MembersMissed);
        assert_eq!(routes[&Gn(1)].reason, "its planned trees do not reach h5");
        assert!(routes[&Gn(2)].colors().is_some());
        assert_eq!(planner.reach.missing_groups(), 1);

        directory.put(Gn(1), group(0, &["h0", "h4"]));
        let change = planner.plan(&directory, &[Gn(1)]);
        assert!(change.groups.contains(&Gn(1)));
        assert!(planner.routes(&directory)[&Gn(1)].colors().is_some());
        assert_eq!(planner.reach.missing_groups(), 0);
    }

    #[test]
    fn a_group_that_an_engine_leaves_on_a_dead_link_is_found_when_its_turn_comes() {
        let mut planner = faulty();
        let mut directory = DirectoryCache::default();
        directory.put(Gn(1), group(0, &["h0", "h4"]));
        planner.plan(&directory, &[Gn(1)]);
        let dead = FailedElement::Endpoint(planner.graph.find_endpoint("h4").unwrap());
        planner.set_failed(&[dead]);
        planner.plan(&directory, &[]);
        assert!(planner.has_waiting_walks());
        assert_eq!(planner.walk_waiting(), [Gn(1)]);
        assert!(!planner.has_waiting_walks());
        let route = &planner.routes(&directory)[&Gn(1)];
        assert_eq!(route.reason, "its planned trees do not reach h4");

        planner.set_failed(&[]);
        planner.plan(&directory, &[]);
        assert_eq!(planner.walk_waiting(), [Gn(1)]);
        assert!(planner.routes(&directory)[&Gn(1)].colors().is_some());
    }

    #[test]
    fn only_groups_on_a_part_that_failed_or_came_back_are_walked_again() {
        let mut planner = faulty();
        let mut directory = DirectoryCache::default();
        directory.put(Gn(1), group(0, &["h0", "h4"]));
        directory.put(Gn(2), group(1, &["h1", "h2"]));
        planner.plan(&directory, &[Gn(1), Gn(2)]);
        let port = |endpoint| {
            let endpoint = planner.graph.find_endpoint(endpoint).unwrap();
            planner.graph.attachment(endpoint).unwrap()
        };
        let leaf = planner.graph.switch_of(port("h4"));
        let links = [FailedElement::Link(port("h7")), FailedElement::Switch(leaf)];
        for (failed, walked) in [(links[0], vec![]), (links[1], vec![Gn(1)])] {
            for failed in [vec![failed], Vec::new()] {
                planner.set_failed(&failed);
                planner.plan(&directory, &[]);
                let waiting: Vec<Gn> = planner.reach.take_waiting().into_iter().collect();
                assert_eq!(waiting, walked, "{failed:?}");
            }
        }
    }

    #[test]
    fn groups_wait_for_walks_in_portions() {
        let mut reach = Reach::new(&planner().graph);
        reach.walk_later((0..2500).map(Gn));
        let portions: Vec<usize> = (0..4).map(|_| reach.take_waiting().len()).collect();
        assert_eq!(portions, [1000, 1000, 500, 0]);
    }
}
