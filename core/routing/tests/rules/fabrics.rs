//! Random small fabrics and histories of groups and faults on them.

#[path = "../support/histories.rs"]
mod histories;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_routing::{EngineOptions, FixedRootEngine, RoutingEngine};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    EndpointId, FatTree, Graph, GraphBuilder, Peer, PortId, SwitchId, TableKind,
};
use proptest::prelude::*;

use histories::Picks;
pub(crate) use histories::{Step, faults, faults_of};

/// A fabric with its fat-tree view.
#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    pub(crate) graph: Arc<Graph>,
    pub(crate) fat_tree: Arc<FatTree>,
    _case: (String, Option<u32>, Picks), // so that a failing case shows it
}

impl Fabric {
    pub(crate) fn new(spec: String, disorder: Option<u32>) -> Option<Self> {
        Self::lacking(spec, disorder, Vec::new())
    }

    /// Generates a fabric of which some parts have never been there.
    pub(crate) fn lacking(spec: String, disorder: Option<u32>, absent: Picks) -> Option<Self> {
        let graph = TopologySpec::parse(&spec).ok()?.generate().ok()?;
        let graph = disorder.map_or(graph.clone(), |seed| disordered(&graph, seed));
        let graph = graph.without(&faults_of(&graph, &absent));
        let fat_tree = FatTree::detect(&graph).ok()?;
        let (graph, fat_tree) = (Arc::new(graph), Arc::new(fat_tree));
        Some(Self { graph, fat_tree, _case: (spec, disorder, absent) })
    }

    /// Iterates over the switches of a top midplane, each with its position.
    fn tops(&self, tn: u32) -> impl Iterator<Item = (u32, SwitchId)> + '_ {
        let params = self.fat_tree.params();
        let (blocks, l3s) = (params.blocks, params.l3_per_tn);
        let l2 = (0..blocks).filter_map(move |at| Some((at, self.fat_tree.l2_switch(tn, at)?)));
        let l3 = (0..l3s).filter_map(move |x| Some((blocks + x, self.fat_tree.l3_switch(tn, x)?)));
        l2.chain(l3)
    }

    /// Tells whether both trees of a pair, which take the same positions in both halves of the
    /// level-1 switches, can meet in a switch above level 1.
    pub(crate) fn halves_meet(&self) -> bool {
        let params = self.fat_tree.params();
        let (half, tns) = (params.spines / 2, params.tns_per_group);
        let positions = |groups: std::ops::Range<u32>| {
            (groups.start * tns..groups.end * tns)
                .flat_map(move |tn| self.tops(tn).map(move |(at, switch)| (tn % tns, at, switch)))
        };
        let low: BTreeSet<_> = positions(0..half).collect();
        positions(half..2 * half).any(|one| low.contains(&one))
    }

    /// Makes an engine, with fault tolerance if that is asked for and to be had.
    pub(crate) fn engine(&self, colors: u16, way: Way) -> FixedRootEngine {
        self.engine_that(colors, way, false)
    }

    /// Makes an engine whose groups stay where they are after a failure.
    pub(crate) fn staying(&self, colors: u16, way: Way) -> FixedRootEngine {
        self.engine_that(colors, way, true)
    }

    fn engine_that(
        &self,
        colors: u16,
        (tables, dual): Way,
        stay_after_healing: bool,
    ) -> FixedRootEngine {
        let fault_tolerant = dual
            && self.fat_tree.params().spines > 1
            && (tables == TableKind::PerPort || colors > 1);
        let options = EngineOptions {
            fault_tolerant,
            stay_after_healing,
            ..EngineOptions::new(colors, tables)
        };
        FixedRootEngine::new(self.graph.clone(), self.fat_tree.clone(), options)
            .expect("colors in range")
    }
}

/// Kind of tables, and whether groups have two trees.
pub(crate) type Way = (TableKind, bool);

pub(crate) fn any_way() -> impl Strategy<Value = Way> {
    let tables = prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)];
    (tables, any::<bool>())
}

fn two_levels() -> impl Strategy<Value = String> {
    (1u32..5, 1u32..4, 1u32..4, 1u32..4).prop_map(|(leaves, spines, hosts, lanes0)| {
        let spines = if leaves == 1 { 0 } else { spines };
        format!(
            "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
             endpoints_per_leaf = {hosts}\nlanes0 = {lanes0}"
        )
    })
}

fn three_levels() -> impl Strategy<Value = String> {
    (1u32..4, 2u32..4, 1u32..3, 1u32..3, 1u32..3).prop_map(|(half, pods, hosts, lanes0, lanes1)| {
        let k = half * 2 * lanes0.max(lanes1);
        format!(
            "kind = \"k-ary-3-level\"\nk = {k}\npods = {pods}\nendpoints_per_leaf = {hosts}\n\
             lanes0 = {lanes0}\nlanes1 = {lanes1}"
        )
    })
}

fn four_levels() -> impl Strategy<Value = String> {
    let sizes = (2u32..4, 1u32..4, 1u32..3, 1u32..4, 1u32..3, 1u32..4);
    let lanes = (1u32..3, 1u32..3, 1u32..3, 1u32..3);
    (sizes, lanes).prop_map(|((q, m, p, k, w, l3), (hosts, lanes0, lanes1, lanes2))| {
        format!(
            "kind = \"cn-tn-fat-tree\"\nq = {q}\nm = {m}\np = {p}\nk = {k}\nw = {w}\n\
             l3_per_tn = {l3}\nendpoints_per_leaf = {hosts}\nlanes0 = {lanes0}\n\
             lanes1 = {lanes1}\nlanes2 = {lanes2}"
        )
    })
}

/// Trees of directors, or single core switches, that level-1 switches of a midplane share.
fn pruned() -> impl Strategy<Value = String> {
    let sizes = (2u32..6, 1u32..5, 1u32..3, 0usize..4, 1u32..3);
    let cores = prop_oneof![Just((0u32, 0u32)), (1u32..4, 1u32..4)];
    let lanes = (1u32..3, 1u32..3);
    (sizes, cores, lanes).prop_map(|((midplanes, spines, up, cores, hosts), core, lanes)| {
        let ((line_ports, core_spines), (lanes0, core_lanes)) = (core, lanes);
        let divisors: Vec<u32> = (1..=spines * up).filter(|n| spines * up % n == 0).collect();
        let cores = divisors[cores % divisors.len()];
        format!(
            "kind = \"pruned-fat-tree\"\nmidplanes = {midplanes}\nleaves = 2\nspines = {spines}\n\
             uplinks_per_spine = {up}\ncores = {cores}\nline_ports = {line_ports}\n\
             core_spines = {core_spines}\nendpoints_per_leaf = {hosts}\nlanes0 = {lanes0}\n\
             core_lanes = {core_lanes}"
        )
    })
}

/// Leaves of more than 64 endpoints.
fn wide() -> impl Strategy<Value = String> {
    (1u32..4, 65u32..140).prop_map(|(leaves, hosts)| {
        let spines = if leaves == 1 { 0 } else { 3 };
        format!(
            "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
             endpoints_per_leaf = {hosts}"
        )
    })
}

/// Fabrics of one to four levels, with parallel links, half of them numbered in disorder, and half
/// of them without parts that a whole fabric would have.
pub(crate) fn fabric() -> impl Strategy<Value = Fabric> {
    fabric_lacking(prop_oneof![Just(Vec::new()), faults()])
}

/// Fabrics of one to four levels without these parts.
pub(crate) fn fabric_lacking(
    absent: impl Strategy<Value = Picks>,
) -> impl Strategy<Value = Fabric> {
    let spec = prop_oneof![
        4 => two_levels(),
        4 => three_levels(),
        4 => four_levels(),
        4 => pruned(),
        1 => wide()
    ];
    (spec, proptest::option::of(any::<u32>()), absent).prop_filter_map(
        "not a fabric that is found to be a fat tree",
        |(spec, disorder, absent)| Fabric::lacking(spec, disorder, absent),
    )
}

/// Fabrics in which level-1 switches of one midplane lead to one director or core switch, half of
/// them without parts.
pub(crate) fn directors() -> impl Strategy<Value = Fabric> {
    let absent = prop_oneof![Just(Vec::new()), faults()];
    (pruned(), proptest::option::of(any::<u32>()), absent).prop_filter_map(
        "no top midplanes that share switches",
        |(spec, disorder, absent)| {
            let fabric = Fabric::lacking(spec, disorder, absent);
            fabric.filter(|fabric| fabric.fat_tree.shares_tops())
        },
    )
}

/// Numbers switches, their ports and endpoints anew.
fn disordered(graph: &Graph, seed: u32) -> Graph {
    let key =
        |at: u32| (at.wrapping_add(seed) | 1).wrapping_mul(2_654_435_761).rotate_left(seed & 7);
    let mut builder = GraphBuilder::new();
    let mut switches: Vec<SwitchId> = graph.switches().collect();
    switches.sort_by_key(|switch| key(switch.0));
    let mut place = BTreeMap::new();
    for switch in switches {
        let mut ports: Vec<PortId> = graph.ports(switch).collect();
        ports.sort_by_key(|port| key(port.0));
        let count = u8::try_from(ports.len()).expect("a small switch");
        let (name, text) = (graph.switch_name(switch), graph.switch_description(switch));
        let new = builder.add_switch(name, text, count, *graph.switch_facts(switch));
        for (number, port) in (1..).zip(ports) {
            place.insert(port, builder.port(new, number).expect("as many ports as before"));
        }
    }
    let mut endpoints: Vec<EndpointId> = graph.endpoints().collect();
    endpoints.sort_by_key(|endpoint| key(endpoint.0));
    for endpoint in endpoints {
        let adapter = graph.adapter_of(endpoint);
        let (name, text) = (graph.adapter_name(adapter), graph.adapter_description(adapter));
        builder.add_adapter(name, text, *graph.adapter_facts(adapter));
        let new = builder.add_endpoint(*graph.endpoint_facts(endpoint));
        let port = graph.attachment(endpoint).expect("generated endpoints are connected");
        builder.attach(new, place[&port]).expect("a free port");
    }
    for (port, new) in &place {
        if let Peer::Switch(other) = graph.peer(*port)
            && *port < other
        {
            builder.link(*new, place[&other]).expect("two free ports");
        }
    }
    builder.build().expect("names are still unique")
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(Step::any(0..30, [6, 4, 3, 1, 2]), 1..most)
}

/// Makes one step; changes that make no sense as the groups are now are left out.
pub(crate) fn make(engine: &mut dyn RoutingEngine, graph: &Graph, step: &Step) {
    if let Step::Faults(picks) = step {
        engine.set_faults(faults_of(graph, picks));
    } else if let Some(change) = step.change(engine) {
        engine.apply(&[change]).expect("a change that makes sense");
    }
}
