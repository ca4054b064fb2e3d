//! Fabrics of which parts have been absent from the start: detection sees what is there, and what
//! engines plan on it is walked by the verifier. No group is silently left without a tree.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_routing::verify::{Options, Senders, verify};
use fabricast_routing::{
    BuildError, Change, EngineKind, EngineOptions, RoutingEngine, UpDown, build_engine,
    table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Mgid, Peer, PortId, SplitMix, SwitchId, TableKind,
    ibnetdiscover,
};

const COLORS: u16 = 12;

/// Fabrics of every kind that can be generated, with their names.
const SPECS: [(&str, &str); 12] = [
    ("leaf-spine", "kind = 'leaf-spine'\nleaves = 12\nspines = 4\nendpoints_per_leaf = 6"),
    (
        "leaf-spine of two lanes",
        "kind = 'leaf-spine'\nleaves = 9\nspines = 3\nendpoints_per_leaf = 4\nlanes0 = 2",
    ),
    ("k-ary", "kind = 'k-ary-3-level'\nk = 6"),
    (
        "fat tree of director switches",
        "kind = 'cn-tn-fat-tree'\nq = 4\nm = 4\np = 2\nk = 4\nw = 2\nl3_per_tn = 2\n\
     endpoints_per_leaf = 4",
    ),
    (
        "fat tree of two lanes",
        "kind = 'cn-tn-fat-tree'\nq = 3\nm = 2\np = 2\nk = 3\nw = 2\nl3_per_tn = 2\n\
     endpoints_per_leaf = 3\nlanes0 = 2\nlanes1 = 2\nlanes2 = 2",
    ),
    (
        "pruned fat tree",
        "kind = 'pruned-fat-tree'\nmidplanes = 6\nleaves = 4\nspines = 4\nuplinks_per_spine = 2\n\
     cores = 4\nline_ports = 6\ncore_spines = 3\nendpoints_per_leaf = 4",
    ),
    // As the Sunway machines: several level-1 switches of a midplane lead to each director.
    (
        "pruned fat tree below directors",
        "kind = 'pruned-fat-tree'\nmidplanes = 7\nleaves = 4\nspines = 8\nuplinks_per_spine = 2\n\
     cores = 4\nline_ports = 4\ncore_spines = 3\ncore_lanes = 2\nendpoints_per_leaf = 4",
    ),
    (
        "pruned fat tree below cores",
        "kind = 'pruned-fat-tree'\nmidplanes = 6\nleaves = 4\nspines = 4\nuplinks_per_spine = 3\n\
     cores = 3\ncore_spines = 0\nendpoints_per_leaf = 4",
    ),
    // Uneven: the level-1 switches have two links to one core switch and one to the other.
    (
        "uneven pruned fat tree",
        "kind = 'pruned-fat-tree'\nmidplanes = 5\nleaves = 3\nspines = 4\nuplinks_per_spine = 3\n\
     cores = 2\ncore_spines = 0\nendpoints_per_leaf = 4",
    ),
    ("torus", "kind = 'torus'\nx = 5\ny = 4\nz = 3\nendpoints_per_switch = 2"),
    ("dragonfly", "kind = 'dragonfly'\na = 4\np = 2\nh = 2"),
    (
        "random network",
        "kind = 'random-regular'\nswitches = 48\nswitch_ports = 12\nseed = 3\n\
     endpoints_per_switch = 4\nlinks_per_switch = 5",
    ),
];

/// Files of real fabrics, with their names.
const FILES: [(&str, &str); 4] = [
    ("cluster", include_str!("../../../data/cluster-edr-96.ibnetdiscover")),
    ("adapters", include_str!("../../../data/quirks/isr9024-two-port-hcas.ibnetdiscover")),
    ("loops", include_str!("../../../data/quirks/loopback-cables.ibnetdiscover")),
    ("timeouts", include_str!("../../../data/quirks/timeout-lines.ibnetdiscover")),
];

fn whole_fabrics() -> impl Iterator<Item = (&'static str, Graph)> {
    let generated = SPECS.iter().map(|(name, spec)| {
        let spec = TopologySpec::parse(spec).expect("a sound case");
        (*name, spec.generate().expect("a sound case"))
    });
    let read =
        FILES.iter().map(|(name, text)| (*name, ibnetdiscover::read(text).expect("a sound case")));
    generated.chain(read)
}

/// Takes so many hundredths of the links between switches and of the switches away, at least one.
fn without(graph: &Graph, links: u32, switches: u32, chance: &mut SplitMix) -> Graph {
    let between = |port: &PortId| matches!(graph.peer(*port), Peer::Switch(far) if *port < far);
    let all = graph.switches().flat_map(|switch| graph.ports(switch)).filter(between);
    let all: Vec<PortId> = all.collect();
    let mut faults = Faults::new();
    let count = |of: usize, hundredths: u32| {
        (u32::try_from(of).expect("a small fabric") * hundredths).div_ceil(100)
    };
    for _ in 0..count(all.len(), links) {
        let at = chance.below(u32::try_from(all.len()).expect("a small fabric"));
        faults.fail_link(graph, all[at as usize]);
    }
    let switch_count = u32::try_from(graph.switch_count()).expect("a small fabric");
    for _ in 0..count(graph.switch_count(), switches) {
        faults.fail_switch(SwitchId(chance.below(switch_count)));
    }
    graph.without(&faults)
}

/// Random groups; some share trees, some are on one leaf.
fn groups(graph: &Graph, chance: &mut SplitMix) -> Vec<Change> {
    let endpoints = u32::try_from(graph.endpoint_count()).expect("a small fabric");
    let mut group = |mgid: u32| {
        let (size, reach) = (2 + chance.below(9), [4, 20, endpoints][mgid as usize % 3]);
        let first = chance.below(endpoints);
        let member = |at: u32| EndpointId((first + at) % endpoints);
        let members: BTreeSet<_> = (0..size).map(|_| member(chance.below(reach))).collect();
        Change::Put { mgid: Mgid(mgid * 5), members: members.into_iter().collect() }
    };
    (0..24).map(&mut group).collect()
}

/// Every way to plan on a fabric; engines that cannot serve it at all are left out.
fn engines(graph: &Graph) -> Vec<Box<dyn RoutingEngine>> {
    let graph = Arc::new(graph.clone());
    let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
    let mut engines = Vec::new();
    for kind in EngineKind::ALL.iter().copied() {
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            for fault_tolerant in [false, true] {
                let options =
                    EngineOptions { fault_tolerant, ..EngineOptions::new(COLORS, tables) };
                match build_engine(kind, graph.clone(), fat_tree.clone(), options) {
                    Ok(engine) => engines.push(engine),
                    Err(
                        BuildError::NeedsFatTree { .. }
                        | BuildError::NoFaultTolerance { .. }
                        | BuildError::Layout(_),
                    ) => {}
                    Err(why) => panic!("{kind}: {why}"),
                }
            }
        }
    }
    engines
}

/// R1, R2, R4, and nobody is forgotten: each member is served, or is said not to be.
fn keeps_the_rules(engine: &dyn RoutingEngine, what: &str) {
    let (graph, plan) = (engine.graph(), engine.plan());
    let options = Options {
        colors: plan.colors(),
        tables: plan.tables(),
        senders: Senders::OnePerSwitch,
        list: 3,
    };
    let entries = table_entries(graph, plan);
    let report = verify(graph, engine.faults(), &engine.delivery_groups(), &entries, options);
    assert_eq!(report.violations, [], "{what}");
    let is_ordered = engine.kind() == EngineKind::Mr4lms && UpDown::of_levels(graph).is_some();
    if engine.kind().needs_fat_tree() || is_ordered {
        assert_eq!(report.cycle, None, "{what}");
    }
    for mgid in engine.groups() {
        let members = engine.members(mgid).expect("it is listed").len();
        match plan.group(mgid) {
            Some(group) => {
                assert_eq!(group.live_members as usize + group.cut_off.len(), members, "{what}");
                let trees = engine.group_trees(mgid).len();
                assert_eq!(trees > 0, group.has_tree(), "{what}: group {}", mgid.0);
                assert_eq!(plan.sender_colors(mgid).is_empty(), trees == 0, "{what}");
            }
            None => assert!(plan.unrouted().iter().any(|one| one.mgid == mgid), "{what}"),
        }
    }
}

/// Plans groups on fabrics that lack so many hundredths of their links and switches.
fn plans_are_sound(links: u32, switches: u32) {
    let mut chance = SplitMix::new(u64::from(7 * links + switches));
    let (mut kinds, mut refused) = (BTreeSet::new(), Vec::new());
    for (name, whole) in whole_fabrics() {
        let graph = without(&whole, links, switches, &mut chance);
        if graph.endpoint_count() < 2 {
            continue;
        }
        // Engines that need a fat tree would be left out, and nobody would notice.
        if FatTree::detect(&whole).is_ok() {
            refused.extend(FatTree::detect(&graph).err().map(|why| (name, why.to_string())));
        }
        let groups = groups(&graph, &mut chance);
        for (mut engine, other) in engines(&graph).into_iter().zip(engines(&graph)) {
            let what = format!(
                "{name}, {}, {:?}, two trees: {}",
                engine.kind(),
                engine.plan().tables(),
                engine.plan().is_dual()
            );
            engine.apply(&groups).expect("groups that make sense");
            keeps_the_rules(&*engine, &what);
            // A part that dies besides is gone round as well.
            let gone = without_one(&graph, &mut chance);
            engine.set_faults(gone.clone());
            keeps_the_rules(&*engine, &what);
            if !engine.kind().plan_depends_on_history() {
                no_order_matters(&*engine, other, &groups, &gone, &what);
            }
            kinds.insert((engine.kind(), engine.plan().is_dual()));
        }
    }
    assert_eq!(kinds.len(), EngineKind::ALL.len() + 3, "not all were tried: {kinds:?}");
    assert!(refused.is_empty(), "fat trees that are none any more: {refused:?}");
}

/// R3: the same groups, one at a time and backwards, before and after the same faults, give the
/// same plan; so do groups that come and go, and faults that heal.
fn no_order_matters(
    engine: &dyn RoutingEngine,
    mut other: Box<dyn RoutingEngine>,
    groups: &[Change],
    faults: &Faults,
    what: &str,
) {
    let (first, last) = groups.split_at(groups.len() / 2);
    for group in last.iter().rev() {
        other.apply(std::slice::from_ref(group)).expect("groups that make sense");
    }
    other.set_faults(faults.clone());
    for group in first.iter().rev() {
        other.apply(std::slice::from_ref(group)).expect("groups that make sense");
    }
    assert_eq!(other.plan(), engine.plan(), "{what}");
    other.set_faults(Faults::new());
    for group in last {
        other.apply(&[Change::Delete { mgid: group.mgid() }]).expect("it is there");
    }
    for group in last {
        other.apply(std::slice::from_ref(group)).expect("groups that make sense");
    }
    other.set_faults(faults.clone());
    assert_eq!(other.plan(), engine.plan(), "{what}, after deletions");
}

fn without_one(graph: &Graph, chance: &mut SplitMix) -> Faults {
    let mut faults = Faults::new();
    let switches = u32::try_from(graph.switch_count()).expect("a small fabric");
    faults.fail_switch(SwitchId(chance.below(switches)));
    faults
}

#[test]
fn plans_on_whole_fabrics() {
    plans_are_sound(0, 0);
}

#[test]
fn plans_on_fabrics_without_some_links() {
    plans_are_sound(1, 0);
    plans_are_sound(5, 0);
}

#[test]
fn plans_on_fabrics_without_some_switches() {
    plans_are_sound(0, 1);
    plans_are_sound(0, 5);
}

#[test]
fn plans_on_fabrics_without_some_of_both() {
    plans_are_sound(1, 1);
    plans_are_sound(5, 5);
}
