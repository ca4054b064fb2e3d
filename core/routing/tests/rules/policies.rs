//! Root policies: whatever the loads say, R1, R2 and R4 hold, loads alone move nobody, and what was
//! chosen can be chosen again. And roots are those that the loads speak for.

use std::sync::Arc;

use fabricast_routing::{
    BuildError, Change, EngineKind, EngineOptions, PortLoads, RootPolicy, RoutingEngine,
    build_engine, metrics, table_entries,
};
use fabricast_topology::{EndpointId, Graph, Mgid, SwitchId, TableKind};
use proptest::prelude::*;

use crate::check;
use crate::fabrics::{Fabric, fabric, make, steps};

fn choosing() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.iter().copied().filter(|kind| kind.chooses_roots())
}

fn any_engine() -> impl Strategy<Value = EngineKind> {
    proptest::sample::select(choosing().collect::<Vec<_>>())
}

fn any_policy() -> impl Strategy<Value = RootPolicy> {
    proptest::sample::select(RootPolicy::ALL.to_vec())
}

fn engine_of(
    fabric: &Fabric,
    kind: EngineKind,
    policy: RootPolicy,
    colors: u16,
    tables: TableKind,
) -> Box<dyn RoutingEngine> {
    let options = EngineOptions { root_policy: Some(policy), ..EngineOptions::new(colors, tables) };
    let (graph, view) = (Arc::clone(&fabric.graph), Some(Arc::clone(&fabric.fat_tree)));
    build_engine(kind, graph, view, options).expect("an engine that chooses roots")
}

/// Loads from a few numbers, over and over.
fn loads(graph: &Graph, some: &[u64]) -> Arc<PortLoads> {
    let sent = some.iter().copied().cycle().take(graph.port_count());
    Arc::new(PortLoads::new(graph, sent.collect()))
}

fn any_loads() -> impl Strategy<Value = Vec<u64>> {
    let load = prop_oneof![3 => 0u64..1_000, 1 => Just(u64::MAX)];
    proptest::collection::vec(load, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// R1, R2, R4 after every step of a history in which the loads change, too; and ROOT-2.
    #[test]
    fn packets_find_their_way_whatever_the_loads(
        fabric in fabric(), kind in any_engine(), policy in any_policy(), per_port in any::<bool>(),
        history in proptest::collection::vec((any_loads(), steps(6)), 1..5),
    ) {
        let tables = if per_port { TableKind::PerPort } else { TableKind::PerSwitch };
        let mut engine = engine_of(&fabric, kind, policy, 3, tables);
        for (numbers, steps) in &history {
            let before = engine.plan().clone();
            engine.set_loads(loads(&fabric.graph, numbers));
            prop_assert_eq!(engine.plan(), &before, "loads alone move nobody");
            for step in steps {
                make(&mut *engine, &fabric.graph, step);
                let report = check(&fabric.graph, &*engine);
                prop_assert_eq!(&report.violations, &vec![], "after {:?}", step);
                prop_assert_eq!(report.unused_entries, 0);
                prop_assert!(metrics(&fabric.graph, engine.plan()).max_entries <= 3);
            }
        }
        let mut next = engine_of(&fabric, kind, policy, 3, tables);
        next.set_faults(engine.faults().clone());
        let put = |mgid| Change::Put { mgid, members: engine.members(mgid).unwrap() };
        next.apply(&engine.groups().into_iter().map(put).collect::<Vec<_>>()).unwrap();
        next.restore(&engine.choices()).unwrap();
        let entries = |engine: &dyn RoutingEngine| {
            let mut entries = table_entries(&fabric.graph, engine.plan());
            entries.sort_unstable();
            entries
        };
        prop_assert_eq!(entries(&*next), entries(&*engine), "without any loads");
    }
}

/// Two leaves of 8 endpoints under 4 spines: whatever spans both can hang from each spine.
fn four_spines() -> Fabric {
    let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nendpoints_per_leaf = 8";
    Fabric::new(text.to_owned(), None).expect("a valid description")
}

/// The spines of figure 7 of the Dawning paper: loads 3, 4, 2 and 5.
fn figure_7(fabric: &Fabric) -> (Vec<SwitchId>, Arc<PortLoads>) {
    let graph = &fabric.graph;
    let spines: Vec<SwitchId> =
        graph.switches().filter(|switch| graph.ports(*switch).len() == 2).collect();
    let mut sent = vec![0; graph.port_count()];
    for (spine, load) in spines.iter().zip([3, 4, 2, 5]) {
        sent[graph.ports(*spine).next().expect("a spine has ports").index()] = load;
    }
    (spines, Arc::new(PortLoads::new(graph, sent)))
}

fn put(mgid: u32, members: &[u32]) -> Change {
    let members = members.iter().map(|at| EndpointId(*at)).collect();
    Change::Put { mgid: Mgid(mgid), members }
}

fn root(engine: &dyn RoutingEngine, mgid: u32) -> SwitchId {
    let shared = engine.plan().virtual_group_of(Mgid(mgid));
    shared.and_then(|shared| shared.root).expect("the group has a tree")
}

fn spread(policy: RootPolicy, kind: EngineKind) -> Vec<usize> {
    let fabric = four_spines();
    let (spines, loads) = figure_7(&fabric);
    let mut engine = engine_of(&fabric, kind, policy, 64, TableKind::PerPort);
    engine.set_loads(loads);
    let groups: Vec<Change> = (0..40).map(|mgid| put(mgid, &[mgid % 8, 8 + mgid / 5])).collect();
    engine.apply(&groups).expect("changes that make sense");
    let roots = (0..40).map(|mgid| root(&*engine, mgid));
    let place = |root| spines.iter().position(|spine| *spine == root).expect("a spine");
    roots.map(place).collect()
}

const TREE_FIRST: [EngineKind; 3] = [EngineKind::Mr4lms, EngineKind::MinHopMc, EngineKind::SsspMc];

/// LLP and its relatives send everybody to the spine with load 2, HLSE half of them and the others
/// to that with load 3; none goes where more than the mean is.
#[test]
fn roots_are_where_the_loads_speak_for_them() {
    for kind in TREE_FIRST {
        for policy in [RootPolicy::Llp, RootPolicy::LlpEcMax, RootPolicy::LlpEcSum] {
            assert_eq!(spread(policy, kind), [2; 40], "{kind}, {policy}");
        }
        let cyclic: Vec<usize> = (0..40).map(|mgid| mgid % 4).collect();
        assert_eq!(spread(RootPolicy::Cyclic, kind), cyclic, "{kind}");
        let drawn = spread(RootPolicy::Hlse, kind);
        let count = |spine| drawn.iter().filter(|at| **at == spine).count();
        assert_eq!((count(1), count(3)), (0, 0), "{kind}: {drawn:?}");
        assert!(count(0) > 10 && count(2) > 10, "{kind}: {drawn:?}");
    }
}

/// Equal loads leave it to the engine, which spreads trees by its own count.
#[test]
fn where_loads_are_equal_the_engine_decides_as_without_a_policy() {
    let fabric = four_spines();
    let groups: Vec<Change> = (0..40).map(|mgid| put(mgid, &[mgid % 8, 8 + mgid / 5])).collect();
    for kind in TREE_FIRST {
        let options = EngineOptions::new(64, TableKind::PerPort);
        let mut own = build_engine(kind, fabric.graph.clone(), None, options).unwrap();
        own.apply(&groups).unwrap();
        for policy in [RootPolicy::Llp, RootPolicy::LlpEcMax, RootPolicy::LlpEcSum] {
            let mut engine = engine_of(&fabric, kind, policy, 64, TableKind::PerPort);
            engine.apply(&groups).unwrap();
            assert_eq!(engine.plan(), own.plan(), "{kind}, {policy}");
        }
    }
}

/// A root stays when members come and go, although by now another one would be chosen.
#[test]
fn a_root_stays_while_it_is_as_good_as_any_other() {
    let fabric = four_spines();
    let (_, first) = figure_7(&fabric);
    for kind in TREE_FIRST {
        let mut engine = engine_of(&fabric, kind, RootPolicy::Llp, 64, TableKind::PerPort);
        engine.set_loads(first.clone());
        engine.apply(&[put(7, &[0, 8])]).unwrap();
        let chosen = root(&*engine, 7);
        let mut sent = vec![0; fabric.graph.port_count()];
        sent[fabric.graph.ports(chosen).next().unwrap().index()] = 1_000;
        engine.set_loads(Arc::new(PortLoads::new(&fabric.graph, sent)));
        for members in [&[0, 1, 8][..], &[0, 1, 8, 9], &[0, 9]] {
            engine.apply(&[put(7, members)]).unwrap();
            assert_eq!(root(&*engine, 7), chosen, "{kind}");
        }
        engine.apply(&[put(8, &[2, 10])]).unwrap();
        assert_ne!(root(&*engine, 8), chosen, "{kind}: new groups go elsewhere");
    }
}

/// Two midplanes stand above two level-1 switches; the dynamic engine takes the one that carries
/// less.
#[test]
fn dynamic_roots_are_chosen_among_midplanes_without_conflict() {
    let text = "kind = \"cn-tn-fat-tree\"\nq = 2\nm = 1\np = 2\nk = 1\nw = 2\nl3_per_tn = 2\n\
                endpoints_per_leaf = 1";
    let fabric = Fabric::new(text.to_owned(), None).unwrap();
    let kind = EngineKind::CMr4lmsDynamic;
    let tops = |policy, busy: Option<SwitchId>| {
        let mut engine = engine_of(&fabric, kind, policy, 1, TableKind::PerPort);
        let mut sent = vec![0; fabric.graph.port_count()];
        if let Some(busy) = busy {
            fabric.graph.ports(busy).for_each(|port| sent[port.index()] = 9);
        }
        engine.set_loads(Arc::new(PortLoads::new(&fabric.graph, sent)));
        engine.apply(&[put(0, &[0, 2])]).unwrap();
        root(&*engine, 0)
    };
    for policy in [RootPolicy::Llp, RootPolicy::LlpEcSum, RootPolicy::LlpEcMax, RootPolicy::Hlse] {
        let first = tops(policy, None);
        let other = tops(policy, Some(first));
        assert_ne!(first, other, "{policy}");
        assert_ne!(tops(policy, Some(other)), other, "{policy}");
    }
}

#[test]
fn engines_without_a_choice_refuse_a_policy() {
    let fabric = four_spines();
    for kind in [EngineKind::CMr4lmsFixed, EngineKind::GlobalTree] {
        let options = EngineOptions {
            root_policy: Some(RootPolicy::Hlse),
            ..EngineOptions::new(4, TableKind::PerPort)
        };
        let view = Some(Arc::clone(&fabric.fat_tree));
        let refused = build_engine(kind, fabric.graph.clone(), view, options).err();
        assert_eq!(refused, Some(BuildError::NoRootPolicy { kind }));
    }
}
