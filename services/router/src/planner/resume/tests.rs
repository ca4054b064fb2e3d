//! A planner that takes over from another, with every engine whose plan depends on the past.

use std::sync::Arc;

use super::*;
use crate::image::Image;
use crate::planner::tests::group;
use fabricast_proto::v1;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Graph, TableKind};

/// Engines whose plan depends on the past.
const ENGINES: [EngineKind; 4] =
    [EngineKind::CMr4lmsDynamic, EngineKind::Mr4lms, EngineKind::MinHopMc, EngineKind::SsspMc];

fn planner(engine: EngineKind) -> Planner {
    let spec = "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 2\nspines_per_cn = 2\n\
                tns_per_group = 2\nblocks = 2\ncns_per_block = 2\nendpoints_per_leaf = 2\n";
    let graph: Arc<Graph> = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
    Planner::new(&graph, engine, EngineOptions::new(2, TableKind::PerPort)).unwrap()
}

/// A planner and its records, changed step by step.
struct Bench {
    planner: Planner,
    mirror: Mirror,
}

impl Bench {
    fn new(engine: EngineKind) -> Self {
        Self { planner: planner(engine), mirror: Mirror::default() }
    }

    fn put(&mut self, gn: u64, endpoints: &[&str]) {
        // Four of them have one spanning tree.
        let mgid = u32::try_from(gn % 3 + gn / 3 * 64).unwrap();
        self.mirror.groups.insert(gn, group(mgid, endpoints));
        self.planner.plan(&self.mirror, &[gn]);
    }

    fn delete(&mut self, gn: u64) {
        self.mirror.groups.remove(&gn);
        self.planner.plan(&self.mirror, &[gn]);
    }

    fn fail(&mut self, failed: Vec<v1::Element>) {
        self.mirror.failed = failed;
        self.planner.set_failed(&self.mirror.failed);
        self.planner.plan(&self.mirror, &[]);
    }

    /// Groups that came and went in an order that matters: who plans for those that are left, from
    /// nothing, has other tables. The first such history of a few.
    fn with_a_past(engine: EngineKind) -> Self {
        let mut histories = (1..200).map(|seed| Self::with_random_past(engine, seed));
        let matters = |bench: &Self| {
            *bench.restarted(None).desired() != *bench.planner.desired()
                && bench.mirror.groups.contains_key(&1)
        };
        histories.find(matters).expect("the order of groups matters")
    }

    fn with_random_past(engine: EngineKind, mut seed: u64) -> Self {
        let mut below = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        let mut bench = Self::new(engine);
        for _ in 0..30 {
            let gn = 1 + below(12);
            if bench.mirror.groups.contains_key(&gn) && below(3) == 0 {
                bench.delete(gn);
                continue;
            }
            let size = 2 + below(3);
            let names: Vec<String> = (0..size).map(|_| format!("h{}", below(16))).collect();
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            bench.put(gn, &names);
        }
        bench
    }

    fn past(&self) -> Past {
        Past { failed: self.mirror.failed.clone(), chosen: self.planner.choices() }
    }

    /// What a route service that starts now plans.
    fn restarted(&self, past: Option<&Past>) -> Planner {
        let mut planner = planner(self.planner.engine.kind());
        if let Some(past) = past {
            planner.resume(&self.mirror, past);
        }
        planner.set_failed(&self.mirror.failed);
        let gns: Vec<u64> = self.mirror.groups.keys().copied().collect();
        planner.plan(&self.mirror, &gns);
        planner
    }

    fn crosses_switches(&self, gn: u64) -> bool {
        let Some(group) = self.mirror.groups.get(&gn) else { return false };
        let links = self.planner.explain(&self.mirror, &group.name).unwrap().links;
        links.iter().any(|link| link.peer_port > 0)
    }

    /// A link between switches on the tree of a group.
    fn link_of(&self, gn: u64) -> v1::Element {
        let name = &self.mirror.groups[&gn].name;
        let links = self.planner.explain(&self.mirror, name).unwrap().links;
        let link = links.into_iter().find(|link| link.peer_port > 0).unwrap();
        let end = v1::PortName { switch_name: link.switch_name, port: link.port };
        v1::Element { kind: Some(v1::element::Kind::Link(end)) }
    }
}

/// Entries that two images do not share, as (switch, port, color).
fn differing(one: &Image, other: &Image) -> usize {
    let mut writes = one.removals(other);
    for (switch, more) in other.removals(one) {
        writes.entry(switch).or_default().extend(more);
    }
    writes.values().map(Vec::len).sum()
}

#[test]
fn a_restarted_planner_has_the_plan_of_its_predecessor() {
    for engine in ENGINES {
        let mut bench = Bench::with_a_past(engine);
        let resumed = bench.restarted(Some(&bench.past()));
        assert_eq!(resumed.desired(), bench.planner.desired(), "{engine}");
        assert_eq!(resumed.choices(), bench.planner.choices(), "{engine}");
        assert_eq!(resumed.routes(&bench.mirror), bench.planner.routes(&bench.mirror), "{engine}");
        // Also among faults that cut members off, and once they are gone.
        let crossing = (1..=12).find(|gn| bench.crosses_switches(*gn)).unwrap();
        let link = bench.link_of(crossing);
        let endpoint = |number: u32| v1::Element {
            kind: Some(v1::element::Kind::Endpoint(format!("h{number}"))),
        };
        let some = (0..16).step_by(3).map(endpoint).chain([link.clone()]).collect();
        for failed in [vec![link], some, Vec::new()] {
            bench.fail(failed);
            let resumed = bench.restarted(Some(&bench.past()));
            assert_eq!(resumed.desired(), bench.planner.desired(), "{engine}");
            assert_eq!(resumed.choices(), bench.planner.choices(), "{engine}");
        }
        // Broken when the predecessor planned, and mended or broken elsewhere since.
        bench.fail((0..16).step_by(3).map(endpoint).collect());
        let past = bench.past();
        bench.fail((0..16).step_by(5).map(endpoint).collect());
        let resumed = bench.restarted(Some(&past));
        assert_eq!(resumed.desired(), bench.planner.desired(), "{engine}");
    }
}

#[test]
fn what_happened_meanwhile_does_what_it_would_have_done_to_the_predecessor() {
    for engine in ENGINES {
        // Among them those that have the ports of trees that others share.
        for gone in 1..=12 {
            let mut bench = Bench::with_a_past(engine);
            let past = bench.past();
            bench.delete(gone);
            let resumed = bench.restarted(Some(&past));
            assert_eq!(resumed.desired(), bench.planner.desired(), "{engine}, without {gone}");
        }
        for gn in 1..=12 {
            let mut bench = Bench::with_a_past(engine);
            let past = bench.past();
            if !bench.crosses_switches(gn) {
                continue;
            }
            let link = bench.link_of(gn);
            bench.fail(vec![link]);
            let resumed = bench.restarted(Some(&past));
            assert_eq!(resumed.desired(), bench.planner.desired(), "{engine}, link of {gn}");
        }
    }
}

#[test]
fn records_that_come_again_change_nothing() {
    for engine in ENGINES {
        let mut bench = Bench::with_a_past(engine);
        let before = (bench.planner.desired().clone(), bench.planner.choices());
        let gns: Vec<u64> = bench.mirror.groups.keys().copied().collect();
        bench.planner.set_failed(&[]);
        bench.planner.plan(&bench.mirror, &gns);
        assert_eq!((bench.planner.desired().clone(), bench.planner.choices()), before);
    }
}

#[test]
fn choices_that_fit_no_more_are_left_out_and_the_others_stay() {
    for engine in ENGINES {
        let bench = Bench::with_a_past(engine);
        let mut past = bench.past();
        let spoil = past.chosen.values_mut().next_back().unwrap();
        spoil.iter_mut().for_each(|tree| (tree.part, tree.root) = (u32::MAX, u32::MAX));
        let resumed = bench.restarted(Some(&past));
        let all = bench.planner.desired();
        let spoiled = differing(resumed.desired(), all);
        let anew = differing(bench.restarted(None).desired(), all);
        assert!(spoiled < anew, "{engine}: {spoiled} of {} differ, anew {anew}", all.len());
    }
}

#[test]
fn an_exclusive_group_without_room_is_not_tried_again_by_a_restart() {
    let mut without_room = 0;
    for engine in ENGINES {
        for seed in 1..40 {
            let mut bench = Bench::with_random_past(engine, seed);
            let exclusive = group(640, &["h0", "h3", "h9", "h15"]);
            bench.mirror.groups.insert(30, MirrorGroup { exclusive: true, ..exclusive });
            bench.planner.plan(&bench.mirror, &[30]);
            let route = bench.planner.routes(&bench.mirror)[&30].clone();
            without_room += u32::from(route.state() != v1::RouteState::Routed);
            bench.mirror.groups.get_mut(&30).unwrap().route = Some(route);
            let resumed = bench.restarted(Some(&bench.past()));
            assert_eq!(resumed.desired(), bench.planner.desired(), "{engine}, {seed}");
            let routes = resumed.routes(&bench.mirror);
            assert_eq!(routes, bench.planner.routes(&bench.mirror), "{engine}, {seed}");
        }
    }
    assert!(without_room > 20, "{without_room}");
}
