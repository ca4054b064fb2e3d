//! Two trees for every group: with either of them gone every packet still arrives. The emulator
//! says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_emulator::{Component, Deliveries, Emulator, EntryWrite, Fence, Packet};
use fabricast_routing::{
    BuildError, Change, DynamicRootEngine, EngineKind, EngineOptions, FixedRootEngine, LayoutError,
    RootScope, RoutingEngine, build_engine, table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Mgid, Peer, PortId, SplitMix, SwitchId, TableKind,
};

const SMALL: [&str; 6] = [
    "kind = \"leaf-spine\"\nleaves = 4\nspines = 3\nendpoints_per_leaf = 3\n",
    "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nendpoints_per_leaf = 3\nlanes0 = 2\n",
    "kind = \"k-ary-3-level\"\nk = 4\n",
    "kind = \"cn-tn-fat-tree\"\nq = 2\nm = 4\np = 2\nk = 2\nw = 2\nl3_per_tn = 2\n\
     endpoints_per_leaf = 2\n",
    "kind = \"pruned-fat-tree\"\nmidplanes = 3\nleaves = 2\nspines = 4\nuplinks_per_spine = 2\n\
     cores = 2\nline_ports = 2\ncore_spines = 2\nendpoints_per_leaf = 2\n",
    "kind = \"pruned-fat-tree\"\nmidplanes = 3\nleaves = 2\nspines = 4\nuplinks_per_spine = 2\n\
     cores = 2\ncore_spines = 0\nendpoints_per_leaf = 2\n",
];
const LARGE: &str = "kind = \"cn-tn-fat-tree\"\nq = 8\nm = 8\np = 2\nk = 8\nw = 4\nl3_per_tn = 4\n\
     endpoints_per_leaf = 8\n";

struct Fabric {
    graph: Arc<Graph>,
    fat_tree: Arc<FatTree>,
}

impl Fabric {
    fn new(spec: &str) -> Self {
        Self::of(TopologySpec::parse(spec).expect("a sound case").generate().expect("a sound case"))
    }

    fn of(graph: Graph) -> Self {
        let graph = Arc::new(graph);
        let fat_tree = Arc::new(FatTree::detect(&graph).expect("a sound case"));
        Self { graph, fat_tree }
    }

    fn engine(&self, tables: TableKind) -> FixedRootEngine {
        let options = EngineOptions { fault_tolerant: true, ..EngineOptions::new(6, tables) };
        FixedRootEngine::new(self.graph.clone(), self.fat_tree.clone(), options)
            .expect("a sound case")
    }

    /// Both engines that give groups two trees; the second with roots in a scope.
    fn engines(&self, tables: TableKind, scope: RootScope) -> [Box<dyn RoutingEngine>; 2] {
        let options = EngineOptions {
            fault_tolerant: true,
            root_scope: Some(scope),
            ..EngineOptions::new(6, tables)
        };
        let (graph, fat_tree) = (self.graph.clone(), self.fat_tree.clone());
        let dynamic = DynamicRootEngine::new(graph, fat_tree, options).expect("a sound case");
        [Box::new(self.engine(tables)), Box::new(dynamic)]
    }

    /// Random groups, of which some share trees.
    fn groups(&self, count: u32, seed: u64) -> Vec<Change> {
        let mut chance = SplitMix::new(seed);
        let endpoints = u32::try_from(self.graph.endpoint_count()).expect("a sound case");
        let mut group = |mgid| {
            let size = 2 + chance.below(8);
            let members: BTreeSet<u32> = (0..size).map(|_| chance.below(endpoints)).collect();
            let members = members.into_iter().map(EndpointId).collect();
            Change::Put { mgid: Mgid(mgid), members }
        };
        (0..count).map(&mut group).collect()
    }

    /// All links between switches, and all switches that are no leaves.
    fn parts(&self) -> Vec<Component> {
        let graph = &self.graph;
        let between = |port: &PortId| matches!(graph.peer(*port), Peer::Switch(far) if *port < far);
        let ports = (0..u32::try_from(graph.port_count()).expect("a sound case")).map(PortId);
        let links = ports.filter(between).map(Component::Link);
        let is_leaf = |switch: &SwitchId| {
            graph.ports(*switch).any(|port| matches!(graph.peer(port), Peer::Endpoint(_)))
        };
        let above = graph.switches().filter(|switch| !is_leaf(switch)).map(Component::Switch);
        links.chain(above).collect()
    }

    fn leaf(&self, endpoint: EndpointId) -> SwitchId {
        self.graph.switch_of(self.graph.attachment(endpoint).expect("a sound case"))
    }

    /// Sends from every member of every group, and counts lost copies and those too many.
    fn losses(
        &self,
        engine: &dyn RoutingEngine,
        emulator: &mut Emulator,
        is_healthy: bool,
    ) -> [u32; 2] {
        let (mut lost, mut extra) = (0, 0);
        for group in engine.plan().groups().filter(|group| group.has_tree()) {
            let live = engine.live_members(group.mgid).expect("a sound case");
            let colors = engine.plan().sender_colors(group.mgid);
            for from in &live {
                let mut arrived = vec![0; self.graph.endpoint_count()];
                for color in colors.iter().copied() {
                    let packet = Packet { mgid: group.mgid.0, color, ..Packet::default() };
                    let mut copies = Deliveries::new();
                    assert!(!emulator.inject(*from, &packet, &mut copies).looped());
                    copies.as_slice().iter().for_each(|to| arrived[to.index()] += 1);
                }
                assert_eq!(arrived[from.index()], 0, "nothing comes back");
                for to in live.iter().filter(|to| *to != from) {
                    // With one entry for both trees a packet is sent once, and doubled where they
                    // part.
                    let parts = colors.len() > 1 || self.leaf(*to) != self.leaf(*from);
                    let most = if parts { 2 } else { 1 };
                    lost += u32::from(arrived[to.index()] == 0);
                    extra += u32::from(arrived[to.index()] > most);
                    let shared = engine.plan().virtual_group_of(group.mgid).expect("a sound case");
                    if is_healthy && shared.groups.len() == 1 {
                        assert_eq!(arrived[to.index()], most, "every tree delivers");
                    }
                }
            }
        }
        [lost, extra]
    }
}

fn program(graph: &Arc<Graph>, engine: &dyn RoutingEngine) -> Emulator {
    let plan = engine.plan();
    let mut emulator = Emulator::new(graph.clone(), plan.tables(), plan.colors());
    for entry in table_entries(graph, plan) {
        let write = EntryWrite { in_port: entry.in_port, color: entry.color, out: entry.out };
        emulator.write_table(entry.switch, Fence::default(), &[write]).expect("a sound case");
    }
    emulator
}

fn faults_of(graph: &Graph, part: Component) -> Faults {
    let mut faults = Faults::new();
    match part {
        Component::Link(port) => drop(faults.fail_link(graph, port)),
        Component::Switch(switch) => drop(faults.fail_switch(switch)),
        Component::Endpoint(_) => unreachable!("only parts of the network fail here"),
    }
    faults
}

/// Kills parts one after the other; nothing is lost before anybody has noticed, nothing has to be
/// programmed when somebody has, and the groups that lost a tree are named.
fn survives(fabric: &Fabric, engine: &mut dyn RoutingEngine, parts: &[Component]) {
    let graph = &fabric.graph;
    let mut emulator = program(graph, engine);
    assert_eq!(fabric.losses(engine, &mut emulator, true), [0, 0]);
    let tables = table_entries(graph, engine.plan());
    let mut protected = true;
    for part in parts {
        emulator.fail(*part).expect("a sound case");
        assert_eq!(fabric.losses(engine, &mut emulator, false), [0, 0], "{part:?} is dead");
        let faults = faults_of(graph, *part);
        let is_hit = |mgid: Mgid| {
            let mut links = engine.group_trees(mgid).into_iter().flat_map(|tree| tree.links);
            links.any(|(lower, _)| !faults.port_is_live(graph, lower))
        };
        let hit: BTreeSet<Mgid> =
            engine.groups().into_iter().filter(|mgid| is_hit(*mgid)).collect();
        engine.set_faults(faults);
        assert_eq!(table_entries(graph, engine.plan()), tables, "{part:?} is dead");
        let named: BTreeSet<Mgid> = engine.plan().unprotected().map(|one| one.mgid).collect();
        assert_eq!(named, hit);
        protected &= hit.is_empty();
        emulator.heal(*part).expect("a sound case");
        for entry in &tables {
            let write = EntryWrite { in_port: entry.in_port, color: entry.color, out: entry.out };
            emulator.write_table(entry.switch, Fence::default(), &[write]).expect("a sound case");
        }
        engine.set_faults(Faults::new());
        assert_eq!(engine.plan().unprotected().count(), 0);
    }
    assert!(!protected, "no part was in use");
}

#[test]
fn any_link_or_switch_above_the_leaves_may_die() {
    for (seed, spec) in (0..).zip(SMALL) {
        let fabric = Fabric::new(spec);
        for (tables, scope) in [
            (TableKind::PerPort, RootScope::TnGroup),
            (TableKind::PerPort, RootScope::Tn),
            (TableKind::PerSwitch, RootScope::Tn),
        ] {
            for mut engine in fabric.engines(tables, scope) {
                engine.apply(&fabric.groups(20, seed)).unwrap();
                assert!(engine.plan().virtual_groups().any(|group| group.groups.len() > 1));
                survives(&fabric, &mut *engine, &fabric.parts());
            }
        }
    }
}

#[test]
fn a_sample_of_the_parts_of_a_large_fabric_may_die() {
    let fabric = Fabric::new(LARGE);
    let parts = fabric.parts();
    for mut engine in fabric.engines(TableKind::PerPort, RootScope::TnGroup) {
        engine.apply(&fabric.groups(60, 7)).unwrap();
        let mut chance = SplitMix::new(11);
        let count = u32::try_from(parts.len()).unwrap();
        let pick = |_| parts[chance.below(count) as usize];
        let mut sample: Vec<Component> = (0..24).map(pick).collect();
        // Of so many parts most are in nobody's way; these are.
        for mgid in [3, 30, 50] {
            let trees = engine.group_trees(Mgid(mgid));
            let tree = &trees[usize::try_from(mgid % 2).unwrap().min(trees.len() - 1)];
            sample.extend(tree.links.first().map(|(lower, _)| Component::Link(*lower)));
            sample.push(Component::Switch(tree.root));
        }
        sample.retain(|part| parts.contains(part));
        survives(&fabric, &mut *engine, &sample);
    }
}

/// Both trees of a group dead: it moves, a group that is not hit stays, and healing brings it home.
#[test]
fn a_group_that_loses_both_trees_moves_and_comes_back() {
    let fabric = Fabric::new(SMALL[3]);
    let graph = &fabric.graph;
    let mut engine = fabric.engine(TableKind::PerPort);
    engine.apply(&fabric.groups(20, 3)).unwrap();
    let home = engine.plan().clone();
    let trees = engine.group_trees(Mgid(4));
    let [first, second] = &trees[..] else { panic!("it spans leaves") };
    let mut faults = Faults::new();
    faults.fail_link(graph, first.links[0].0);
    faults.fail_link(graph, second.links[0].0);
    engine.set_faults(faults.clone());
    assert!(engine.plan().moved().iter().any(|moved| moved.mgid == Mgid(4)));
    assert_eq!(engine.plan(), &engine.plan_from_scratch());
    let mut emulator = program(graph, &engine);
    for port in [first.links[0].0, second.links[0].0] {
        emulator.fail(Component::Link(port)).unwrap();
    }
    assert_eq!(fabric.losses(&engine, &mut emulator, false), [0, 0]);
    engine.set_faults(Faults::new());
    assert_eq!(engine.plan(), &home);
}

#[test]
fn what_cannot_be_had_is_refused() {
    let build = |spec: &str, kind, colors, tables| {
        let fabric = Fabric::new(spec);
        let options = EngineOptions { fault_tolerant: true, ..EngineOptions::new(colors, tables) };
        build_engine(kind, fabric.graph, Some(fabric.fat_tree), options).err()
    };
    let one_spine = "kind = \"leaf-spine\"\nleaves = 3\nspines = 1\nendpoints_per_leaf = 2\n";
    let fixed = EngineKind::CMr4lmsFixed;
    assert_eq!(
        build(one_spine, fixed, 4, TableKind::PerPort),
        Some(BuildError::Layout(LayoutError::NoSecondTree))
    );
    assert_eq!(
        build(SMALL[0], fixed, 1, TableKind::PerSwitch),
        Some(BuildError::Layout(LayoutError::NoSecondEntry))
    );
    for kind in EngineKind::ALL.iter().copied().filter(|kind| !kind.supports_fault_tolerance()) {
        assert_eq!(
            build(SMALL[0], kind, 4, TableKind::PerPort),
            Some(BuildError::NoFaultTolerance { kind })
        );
    }
}

/// The demo fabric was wired without the switch that the first tree of group 0 hangs from in the
/// first midplane. Nothing may be lost, neither on that tree nor on the other.
#[test]
fn a_top_switch_that_never_was_costs_one_tree_only() {
    let whole = TopologySpec::demo().generate().unwrap();
    let mut absent = Faults::new();
    absent.fail_switch(whole.find_switch("cn0-spine0").unwrap());
    let fabric = Fabric::of(whole.without(&absent));
    let members = ["h0", "h16", "h17"].map(|name| fabric.graph.find_endpoint(name).unwrap());
    for tables in [TableKind::PerPort, TableKind::PerSwitch] {
        let mut engine = fabric.engine(tables);
        for mgid in 0..engine.layout().space().total() {
            let put = Change::Put { mgid: Mgid(mgid), members: members.to_vec() };
            engine.apply(&[put]).unwrap();
            let trees = engine.group_trees(Mgid(mgid));
            let roots: Vec<_> = trees.iter().map(|tree| Some(tree.root)).collect();
            let planned = engine.plan().virtual_group_trees(Mgid(mgid));
            assert_eq!(planned.iter().map(|one| one.root).collect::<Vec<_>>(), roots);
            let mut emulator = program(&fabric.graph, &engine);
            assert_eq!(fabric.losses(&engine, &mut emulator, trees.len() > 1), [0, 0]);
            engine.apply(&[Change::Delete { mgid: Mgid(mgid) }]).unwrap();
        }
    }
}

/// A link that never was costs a group its home, but no tree: another pair is whole. There it stays
/// when a link dies.
#[test]
fn a_group_whose_home_lacks_a_link_takes_a_whole_pair() {
    let spec = "kind = \"leaf-spine\"\nleaves = 4\nspines = 4\nendpoints_per_leaf = 3\n";
    let whole = TopologySpec::parse(spec).unwrap().generate().unwrap();
    let leaf = whole.switch_of(whole.attachment(EndpointId(0)).unwrap());
    let is_up = |port: &PortId| matches!(whole.peer(*port), Peer::Switch(_));
    let mut absent = Faults::new();
    absent.fail_link(&whole, whole.ports(leaf).find(is_up).unwrap());
    let fabric = Fabric::of(whole.without(&absent));
    for tables in [TableKind::PerPort, TableKind::PerSwitch] {
        for mut engine in fabric.engines(tables, RootScope::Tn) {
            engine.apply(&fabric.groups(20, 9)).unwrap();
            assert!(!engine.plan().moved().is_empty());
            assert_eq!(engine.plan().unprotected().count(), 0);
            survives(&fabric, &mut *engine, &fabric.parts());
        }
    }
}

/// Two spines serve the leaves of a group, but no two that are a pair in the paper: one of each
/// half, or both of one half. They are a pair in another color.
#[test]
fn pairs_are_mixed_where_the_two_of_the_paper_are_not_whole() {
    let spec = "kind = \"leaf-spine\"\nleaves = 4\nspines = 4\nendpoints_per_leaf = 3\n";
    let whole = TopologySpec::parse(spec).unwrap().generate().unwrap();
    let leaf = whole.switch_of(whole.attachment(EndpointId(0)).unwrap());
    let ups: Vec<PortId> =
        whole.ports(leaf).filter(|port| matches!(whole.peer(*port), Peer::Switch(_))).collect();
    for lacking in [[0, 3], [2, 3], [0, 1]] {
        let mut absent = Faults::new();
        for at in lacking {
            absent.fail_link(&whole, ups[at]); // of the pairs 0, 2 and 1, 3 each lacks a link
        }
        let fabric = Fabric::of(whole.without(&absent));
        let members = vec![EndpointId(0), EndpointId(3), EndpointId(6)];
        for mut engine in fabric.engines(TableKind::PerPort, RootScope::TnGroup) {
            engine.apply(&[Change::Put { mgid: Mgid(0), members: members.clone() }]).unwrap();
            let unprotected = engine.plan().unprotected().count();
            assert_eq!(unprotected, 0, "{} without {lacking:?}", engine.kind());
            let mut emulator = program(&fabric.graph, &*engine);
            assert_eq!(fabric.losses(&*engine, &mut emulator, true), [0, 0]);
        }
    }
}
