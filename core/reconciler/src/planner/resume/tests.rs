//! Planners that resume the plan of another, with every engine whose plan depends on the past.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::directory_cache::FailedElement;
use crate::planner::tests::{endpoints_are_in_order, group};
use crate::table_state::{TableState, Tables};
use fabricast_groups::record::Route;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Graph, Peer, PortId, SwitchId, TableKind};
use proptest::prelude::*;

/// Engines whose plan depends on the past.
const ENGINES: [EngineKind; 4] =
    [EngineKind::CMr4lmsDynamic, EngineKind::Mr4lms, EngineKind::MinHopMc, EngineKind::SsspMc];

fn planner(engine: EngineKind) -> Planner {
    planner_with(engine, false)
}

fn planner_with(engine: EngineKind, fault_tolerant: bool) -> Planner {
    let spec = "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 2\nspines_per_cn = 2\n\
                tns_per_group = 2\nblocks = 2\ncns_per_block = 2\nendpoints_per_leaf = 2\n";
    let graph: Arc<Graph> = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
    endpoints_are_in_order(&graph);
    let options = EngineOptions { fault_tolerant, ..EngineOptions::new(2, TableKind::PerPort) };
    Planner::new(&graph, engine, options).unwrap()
}

/// MGID of a group; four groups share a spanning tree.
fn mgid(gn: Gn) -> u32 {
    u32::try_from(gn.0 % 3 + gn.0 / 3 * 64).unwrap()
}

/// A planner and its records, changed step by step.
struct History {
    planner: Planner,
    directory: DirectoryCache,
    /// Entries and routes, changed only where the planner says that they change.
    tables: Tables,
    routes: BTreeMap<Gn, Route>,
}

impl History {
    fn new(engine: EngineKind) -> Self {
        Self::of(planner(engine))
    }

    fn of(planner: Planner) -> Self {
        let (directory, tables) = (DirectoryCache::default(), Tables::default());
        Self { planner, directory, tables, routes: BTreeMap::new() }
    }

    /// Plans, and checks that nothing changed but what the planner names.
    fn plan(&mut self, gns: &[Gn]) {
        let change = self.planner.plan(&self.directory, gns);
        for switch in change.switches {
            self.tables.set_desired(switch, self.planner.entries(switch));
        }
        for gn in change.groups {
            match self.directory.groups.get(&gn) {
                Some(group) => drop(self.routes.insert(gn, self.planner.route(gn, group))),
                None => drop(self.routes.remove(&gn)),
            }
        }
        assert_eq!(*self.tables.desired(), self.planner.desired());
        assert_eq!(self.routes, self.planner.routes(&self.directory));
    }

    fn put(&mut self, gn: Gn, endpoints: &[&str]) {
        let mgid = mgid(gn);
        self.directory.put(gn, group(mgid, endpoints));
        self.plan(&[gn]);
    }

    fn delete(&mut self, gn: Gn) {
        self.directory.remove(gn);
        self.plan(&[gn]);
    }

    fn fail(&mut self, failed: Vec<FailedElement>) {
        self.directory.failed = failed;
        self.planner.set_failed(&self.directory.failed);
        self.plan(&[]);
    }

    /// The first random history whose order of joins and leaves matters: a planner that plans the
    /// remaining groups from scratch has other tables.
    fn with_a_past(engine: EngineKind) -> Self {
        let mut histories = (1..200).map(|seed| Self::with_random_past(engine, seed));
        let matters = |history: &Self| {
            history.restarted(None).desired() != history.planner.desired()
                && history.directory.groups.contains_key(&Gn(1))
        };
        histories.find(matters).expect("the order of groups matters")
    }

    fn with_random_past(engine: EngineKind, mut seed: u64) -> Self {
        let mut below = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        let mut history = Self::new(engine);
        for _ in 0..30 {
            let gn = Gn(1 + below(12));
            if history.directory.groups.contains_key(&gn) && below(3) == 0 {
                history.delete(gn);
                continue;
            }
            let size = 2 + below(3);
            let names: Vec<String> = (0..size).map(|_| format!("h{}", below(16))).collect();
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            history.put(gn, &names);
        }
        history
    }

    fn past(&self) -> RecordedPlan {
        RecordedPlan { failed: self.directory.failed.clone(), chosen: self.planner.choices() }
    }

    /// The plan of a route service that starts now.
    fn restarted(&self, past: Option<&RecordedPlan>) -> Planner {
        let mut planner = planner(self.planner.engine.kind());
        if let Some(past) = past {
            planner.resume(&self.directory, past);
        }
        planner.set_failed(&self.directory.failed);
        let gns: Vec<Gn> = self.directory.groups.keys().copied().collect();
        planner.plan(&self.directory, &gns);
        planner
    }

    fn crosses_switches(&self, gn: Gn) -> bool {
        let Some(group) = self.directory.groups.get(&gn) else { return false };
        self.inner_links(group.name()).next().is_some()
    }

    /// Links between switches in the tree of a group.
    fn inner_links(&self, name: &str) -> impl Iterator<Item = PortId> {
        let graph = self.planner.graph();
        let links = self.planner.explain(&self.directory, name).unwrap().links.into_iter();
        links.map(|link| link.port).filter(|port| matches!(graph.peer(*port), Peer::Switch(_)))
    }

    /// A link between switches on the tree of a group.
    fn link_of(&self, gn: Gn) -> FailedElement {
        FailedElement::Link(self.inner_links(self.directory.groups[&gn].name()).next().unwrap())
    }
}

/// Number of entries that differ between two states; an altered one counts twice.
fn differing(one: &TableState, other: &TableState) -> u32 {
    let switches = planner(EngineKind::Mr4lms).graph().switches();
    let differences = switches.map(|switch| one.difference(other, switch));
    differences.map(|one| one.missing + one.extra + 2 * one.altered).sum()
}

#[test]
fn a_restarted_planner_has_the_plan_of_its_predecessor() {
    for engine in ENGINES {
        let mut history = History::with_a_past(engine);
        let resumed = history.restarted(Some(&history.past()));
        assert_eq!(resumed.desired(), history.planner.desired(), "{engine}");
        assert_eq!(resumed.choices(), history.planner.choices(), "{engine}");
        assert_eq!(
            resumed.routes(&history.directory),
            history.planner.routes(&history.directory),
            "{engine}"
        );
        // Also with faults that cut members off, and after their repair.
        let crossing = (1..=12).map(Gn).find(|gn| history.crosses_switches(*gn)).unwrap();
        let link = history.link_of(crossing);
        let endpoint = |number: u32| FailedElement::Endpoint(EndpointId(number));
        let some = (0..16).step_by(3).map(endpoint).chain([link]).collect();
        for failed in [vec![link], some, Vec::new()] {
            history.fail(failed);
            let resumed = history.restarted(Some(&history.past()));
            assert_eq!(resumed.desired(), history.planner.desired(), "{engine}");
            assert_eq!(resumed.choices(), history.planner.choices(), "{engine}");
        }
        // Also if the faults have changed since the predecessor planned.
        history.fail((0..16).step_by(3).map(endpoint).collect());
        let past = history.past();
        history.fail((0..16).step_by(5).map(endpoint).collect());
        let resumed = history.restarted(Some(&past));
        assert_eq!(resumed.desired(), history.planner.desired(), "{engine}");
    }
}

#[test]
fn changes_since_the_recording_have_the_effect_they_had_on_the_predecessor() {
    for engine in ENGINES {
        // Some of them have the ports of trees that other groups share.
        for gone in (1..=12).map(Gn) {
            let mut history = History::with_a_past(engine);
            let past = history.past();
            history.delete(gone);
            let resumed = history.restarted(Some(&past));
            assert_eq!(resumed.desired(), history.planner.desired(), "{engine}, without {gone}");
        }
        for gn in (1..=12).map(Gn) {
            let mut history = History::with_a_past(engine);
            let past = history.past();
            if !history.crosses_switches(gn) {
                continue;
            }
            let link = history.link_of(gn);
            history.fail(vec![link]);
            let resumed = history.restarted(Some(&past));
            assert_eq!(resumed.desired(), history.planner.desired(), "{engine}, link of {gn}");
        }
    }
}

#[test]
fn equal_records_planned_again_change_nothing() {
    for engine in ENGINES {
        let mut history = History::with_a_past(engine);
        let before = (history.planner.desired(), history.planner.choices());
        let gns: Vec<Gn> = history.directory.groups.keys().copied().collect();
        history.planner.set_failed(&[]);
        history.planner.plan(&history.directory, &gns);
        assert_eq!((history.planner.desired(), history.planner.choices()), before);
    }
}

#[test]
fn choices_that_do_not_fit_any_more_are_dropped_and_the_others_stay() {
    for engine in ENGINES {
        let history = History::with_a_past(engine);
        let mut past = history.past();
        let spoil = past.chosen.values_mut().next_back().unwrap();
        spoil.iter_mut().for_each(|tree| (tree.part, tree.root) = (u32::MAX, u32::MAX));
        let resumed = history.restarted(Some(&past));
        let all = history.planner.desired();
        let spoiled = differing(&resumed.desired(), &all);
        let from_scratch = differing(&history.restarted(None).desired(), &all);
        assert!(
            spoiled < from_scratch,
            "{engine}: {spoiled} of {} differ, from scratch {from_scratch}",
            all.len()
        );
    }
}

#[test]
fn an_exclusive_group_without_a_tree_is_not_retried_by_a_restart() {
    let mut without_tree = 0;
    for engine in ENGINES {
        for seed in 1..40 {
            let mut history = History::with_random_past(engine, seed);
            let exclusive = group(640, &["h0", "h3", "h9", "h15"]);
            history.directory.put(Gn(30), CachedGroup { exclusive: true, ..exclusive });
            history.planner.plan(&history.directory, &[Gn(30)]);
            let route = history.planner.routes(&history.directory)[&Gn(30)].clone();
            without_tree += u32::from(route.colors().is_none());
            history.directory.groups.get_mut(&Gn(30)).unwrap().route = Some(route);
            let resumed = history.restarted(Some(&history.past()));
            assert_eq!(resumed.desired(), history.planner.desired(), "{engine}, {seed}");
            let routes = resumed.routes(&history.directory);
            assert_eq!(routes, history.planner.routes(&history.directory), "{engine}, {seed}");
        }
    }
    assert!(without_tree > 20, "{without_tree}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// PLAN-1: a plan names every switch and every group for which it differs from the one before
    /// (`History::plan` checks that).
    #[test]
    fn a_plan_names_all_that_it_changes(
        engine in prop::sample::select(EngineKind::ALL),
        fault_tolerant: bool,
        steps in prop::collection::vec((0..8u8, 1..12u64, prop::collection::vec(0..16u8, 0..6)), 40),
    ) {
        let fault_tolerant = fault_tolerant && engine.supports_fault_tolerance();
        let mut history = History::of(planner_with(engine, fault_tolerant));
        let graph = Arc::clone(&history.planner.graph);
        let switches: Vec<SwitchId> = graph.switches().collect();
        for (step, gn, picks) in steps {
            let gn = Gn(gn);
            let switch = |pick: &u8| switches[usize::from(*pick) % switches.len()];
            let names: Vec<String> = picks.iter().map(|pick| format!("h{pick}")).collect();
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            match step {
                0 => history.delete(gn),
                1 => {
                    let exclusive = CachedGroup { exclusive: true, ..group(mgid(gn), &names) };
                    history.directory.put(gn, exclusive);
                    history.plan(&[gn]);
                }
                2 => {
                    let picks = picks.iter().take(2);
                    history.fail(picks.map(|pick| FailedElement::Switch(switch(pick))).collect());
                }
                3 => {
                    let picks = picks.iter().take(3);
                    let port = |pick: &u8| graph.port(switch(pick), pick % 3 + 1);
                    history.fail(picks.filter_map(port).map(FailedElement::Link).collect());
                }
                _ => history.put(gn, &names),
            }
        }
    }
}
