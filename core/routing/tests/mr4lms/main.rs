//! MR4LMS on fabrics of all shapes: rules R1, R2 and R4 as laws, and what groups may rely on.

mod fabrics;
mod oracle;
mod ordered;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_routing::verify::{Options, Report, Senders, verify};
use fabricast_routing::{
    Change, CutOffReason, MergePartner, MergePolicy, Mr4lms, Mr4lmsOptions, RoutingEngine,
    VirtualGroup, metrics, table_entries,
};
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, Peer, PortId, SwitchId, TableKind};
use proptest::prelude::*;

use fabrics::{Act, act, endpoints_of, fabric, faults, faults_of, members, options, steps};
use oracle::{Oracle, OracleTree};

/// Sends a packet from every live member of every routed group.
fn check(engine: &dyn RoutingEngine) -> Report {
    let plan = engine.plan();
    let options =
        Options { colors: plan.colors(), tables: plan.tables(), senders: Senders::All, list: 5 };
    let entries = table_entries(engine.graph(), plan);
    verify(engine.graph(), engine.faults(), &engine.delivery_groups(), &entries, options)
}

fn engine(graph: &Arc<Graph>, options: Mr4lmsOptions) -> Mr4lms {
    Mr4lms::new(graph.clone(), options).expect("colors in range")
}

/// Returns the members of a group that can be served, without asking the engine.
fn servable(
    graph: &Graph,
    faults: &Faults,
    members: &[EndpointId],
) -> BTreeMap<EndpointId, Option<CutOffReason>> {
    let mut component: Vec<SwitchId> = graph.switches().collect();
    for _ in graph.switches() {
        for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
            if let (Peer::Switch(peer), true) = (graph.peer(port), faults.port_is_live(graph, port))
            {
                let (a, b) = (graph.switch_of(port), graph.switch_of(peer));
                let least = component[a.index()].min(component[b.index()]);
                (component[a.index()], component[b.index()]) = (least, least);
            }
        }
    }
    let port = |member: &EndpointId| graph.attachment(*member);
    let live = |port: &PortId| faults.port_is_live(graph, *port);
    let mut sizes: BTreeMap<SwitchId, usize> = BTreeMap::new();
    for port in members.iter().filter_map(port).filter(live) {
        *sizes.entry(component[graph.switch_of(port).index()]).or_default() += 1;
    }
    let home =
        sizes.iter().max_by_key(|(component, size)| (**size, std::cmp::Reverse(**component)));
    let why = |member: &EndpointId| match port(member) {
        None => Some(CutOffReason::NotOnLeaf),
        Some(port) if !live(&port) => Some(CutOffReason::LinkDown),
        Some(port) => {
            let own = component[graph.switch_of(port).index()];
            (home.map(|(component, _)| *component) != Some(own)).then_some(CutOffReason::LeafCutOff)
        }
    };
    members.iter().map(|member| (*member, why(member))).collect()
}

/// The links that each group needs, lower port first, and its color.
fn trees(engine: &Mr4lms) -> BTreeMap<Mgid, (u16, BTreeSet<(PortId, PortId)>)> {
    let groups = engine.plan().groups().filter(|group| group.has_tree());
    let tree = |mgid: Mgid| engine.group_trees(mgid).remove(0).links.into_iter();
    let links = |mgid| tree(mgid).map(|(a, b)| (a.min(b), a.max(b))).collect();
    groups.map(|group| (group.mgid, (group.color, links(group.mgid)))).collect()
}

/// Tells whether a step may have left a group without some of its links: it changed who can be
/// served, broke its tree, or merged it in a way that allows that.
fn may_lose(before: &Mr4lms, now: &Mr4lms, act: &Act, mgid: Mgid) -> bool {
    let (graph, faults) = (now.graph(), now.faults());
    let (_, tree) = &trees(before)[&mgid];
    let is_dead = |port: &PortId| !faults.port_is_live(graph, *port);
    if tree.iter().any(|(a, b)| is_dead(a) || is_dead(b)) {
        return true;
    }
    let live = |engine: &Mr4lms| engine.live_members(mgid).unwrap_or_default();
    let gained = live(now).iter().any(|member| !live(before).contains(member));
    if gained || matches!(act, Act::Change(change) if change.mgid() == mgid) {
        return true;
    }
    let plan = now.plan();
    let is_merged = plan.virtual_group_of(mgid).is_some_and(|shared| shared.groups.len() > 1);
    let keeps_all =
        now.options().merge_policy == MergePolicy::Keep && plan.tables() == TableKind::PerSwitch;
    is_merged && !keeps_all
}

/// The trees of a plan as the oracle has them.
fn oracle_trees(engine: &Mr4lms) -> BTreeSet<OracleTree> {
    let shared = engine.plan().virtual_groups().filter(|shared| !shared.ports.is_empty());
    let tree = |shared: VirtualGroup<'_>| OracleTree {
        color: shared.color,
        root: shared.root.expect("it has ports"),
        groups: shared.groups.iter().map(|mgid| mgid.0).collect(),
        ports: shared.ports.iter().copied().collect(),
    };
    shared.map(tree).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// R1, R2, R4: after every step packets reach whom they must, and no row is stale.
    #[test]
    fn packets_reach_exactly_the_members(
        fabric in fabric(), options in options(), history in steps(30),
    ) {
        let mut engine = engine(&fabric, options);
        for step in &history {
            let Some(act) = act(&engine, step) else { continue };
            act.make(&mut engine);
            let report = check(&engine);
            prop_assert_eq!(&report.violations, &vec![], "after {:?}", act);
            prop_assert!(report.is_clean());
            let figures = metrics(&fabric, engine.plan());
            prop_assert!(figures.max_entries <= u32::from(options.colors));
            prop_assert_eq!(figures.groups as usize, report.groups);
        }
    }

    /// Members that can be served are served, and the others are named.
    #[test]
    fn all_that_can_be_served_are(
        fabric in fabric(), options in options(), history in steps(30),
    ) {
        let mut engine = engine(&fabric, options);
        for step in &history {
            let Some(act) = act(&engine, step) else { continue };
            act.make(&mut engine);
            for mgid in engine.groups() {
                let members = engine.members(mgid).unwrap();
                let planned = engine.plan().group(mgid).unwrap();
                let mut cut_off = BTreeMap::new();
                cut_off.extend(planned.cut_off.iter().map(|cut| (cut.endpoint, cut.why)));
                let expected = servable(&fabric, engine.faults(), &members);
                let left: BTreeMap<_, _> =
                    expected.iter().filter_map(|(at, why)| Some((*at, (*why)?))).collect();
                prop_assert_eq!(cut_off, left);
                prop_assert_eq!(planned.live_members as usize + planned.cut_off.len(), members.len());
            }
        }
    }

    /// A group that nothing happened to keeps its color and every link it needs.
    #[test]
    fn groups_that_are_not_touched_keep_their_links(
        fabric in fabric(), options in options(), history in steps(30),
    ) {
        let mut engine = engine(&fabric, options);
        for step in &history {
            let Some(act) = act(&engine, step) else { continue };
            let before = engine.clone();
            act.make(&mut engine);
            let now = trees(&engine);
            for (mgid, (color, tree)) in trees(&before) {
                if may_lose(&before, &engine, &act, mgid) {
                    continue;
                }
                let Some((color_now, tree_now)) = now.get(&mgid) else {
                    prop_assert!(engine.live_members(mgid).unwrap().len() < 2);
                    continue;
                };
                prop_assert_eq!(color, *color_now, "group {} after {:?}", mgid.0, act);
                if engine.live_members(mgid) == before.live_members(mgid) {
                    prop_assert_eq!(&tree, tree_now);
                }
            }
        }
    }

    /// The same trees, in the same order of groups, as the algorithms of the paper done plainly.
    #[test]
    fn the_trees_are_those_of_the_plain_algorithms(
        fabric in fabric(), options in options(), broken in faults(),
        groups in proptest::collection::btree_map(0u32..40, members(), 1..20),
    ) {
        let faults = faults_of(&fabric, &broken);
        let mut engine = engine(&fabric, options);
        engine.set_faults(faults.clone());
        let mut oracle = Oracle::new(&fabric, &faults, options);
        for (mgid, picks) in groups {
            let members: BTreeSet<EndpointId> = endpoints_of(&fabric, &picks);
            let put = Change::Put { mgid: Mgid(mgid), members: members.iter().copied().collect() };
            engine.apply(&[put]).unwrap();
            let served = engine.live_members(Mgid(mgid)).unwrap();
            oracle.put(mgid, &served.into_iter().collect());
            // Where the engine lets the nearest tree stay as it is, the paper makes it again.
            let has_root = options.merge_partner == MergePartner::FewestGroups;
            let root = |tree: OracleTree| OracleTree {
                root: if has_root { tree.root } else { SwitchId(0) },
                ..tree
            };
            let ours: BTreeSet<OracleTree> = oracle_trees(&engine).into_iter().map(root).collect();
            prop_assert_eq!(ours, oracle.trees.iter().cloned().map(root).collect());
        }
    }
}

/// The laws above would be empty if the random cases never met what they are about.
#[test]
fn the_random_cases_cover_what_they_should() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let groups = proptest::collection::vec(members(), 1..20);
    let cases = (fabric(), options(), groups);
    let mut seen = BTreeSet::new();
    for _ in 0..450 {
        let (fabric, options, groups) = cases.new_tree(&mut runner).unwrap().current();
        let faults = Faults::new();
        let mut oracle = Oracle::new(&fabric, &faults, options);
        for (mgid, picks) in (0u32..).zip(groups) {
            let members = endpoints_of(&fabric, &picks);
            let known = servable(&fabric, &faults, &members.iter().copied().collect::<Vec<_>>());
            oracle.put(mgid, &members.into_iter().filter(|at| known[at].is_none()).collect());
        }
        seen.extend(oracle.seen.iter().map(|what| (*what, options.tables == TableKind::PerPort)));
    }
    for case in [
        "a color found first",
        "an old tree shared",
        "trees built first again",
        "merged with the nearest",
        "merged with what is in the way",
        "merged with several",
        "merged from the root of an old tree",
        "merged with several that have the fewest groups",
    ] {
        for per_port in [false, true] {
            assert!(seen.contains(&(case, per_port)), "{case:?} never met, only {seen:?}");
        }
    }
}
