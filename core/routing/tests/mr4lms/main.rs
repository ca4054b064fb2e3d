//! MR4LMS on fabrics of all shapes: rules R1, R2 and R4 as laws, and what groups may rely on.

mod fabrics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_routing::verify::{Options, Report, Senders, verify};
use fabricast_routing::{
    CutOffReason, MergePolicy, Mgid, Mr4lms, Mr4lmsOptions, RoutingEngine, metrics, table_entries,
};
use fabricast_topology::{EndpointId, Graph, Peer, PortId, SwitchId, TableKind};
use proptest::prelude::*;

use fabrics::{Act, act, fabric, options, steps};

/// Sends a packet from every live member of every routed group.
fn check(engine: &Mr4lms) -> Report {
    let plan = engine.plan();
    let options =
        Options { colors: plan.colors(), tables: plan.tables(), senders: Senders::All, list: 5 };
    let entries = table_entries(engine.graph(), plan);
    verify(engine.graph(), engine.faults(), &engine.delivery_groups(), &entries, options)
}

fn engine(graph: &Arc<Graph>, options: Mr4lmsOptions) -> Mr4lms {
    Mr4lms::new(graph.clone(), options).expect("colors in range")
}

/// Gives the members of a group that can be served, without asking the engine.
fn servable(engine: &Mr4lms, members: &[EndpointId]) -> BTreeMap<EndpointId, Option<CutOffReason>> {
    let (graph, faults) = (engine.graph(), engine.faults());
    let mut island: Vec<SwitchId> = graph.switches().collect();
    for _ in graph.switches() {
        for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
            if let (Peer::Switch(peer), true) = (graph.peer(port), faults.port_is_live(graph, port))
            {
                let (a, b) = (graph.switch_of(port), graph.switch_of(peer));
                let least = island[a.index()].min(island[b.index()]);
                (island[a.index()], island[b.index()]) = (least, least);
            }
        }
    }
    let port = |member: &EndpointId| graph.attachment(*member);
    let live = |port: &PortId| faults.port_is_live(graph, *port);
    let mut sizes: BTreeMap<SwitchId, usize> = BTreeMap::new();
    for port in members.iter().filter_map(port).filter(live) {
        *sizes.entry(island[graph.switch_of(port).index()]).or_default() += 1;
    }
    let home = sizes.iter().max_by_key(|(island, size)| (**size, std::cmp::Reverse(**island)));
    let why = |member: &EndpointId| match port(member) {
        None => Some(CutOffReason::NotOnLeaf),
        Some(port) if !live(&port) => Some(CutOffReason::LinkDown),
        Some(port) => {
            let own = island[graph.switch_of(port).index()];
            (home.map(|(island, _)| *island) != Some(own)).then_some(CutOffReason::LeafCutOff)
        }
    };
    members.iter().map(|member| (*member, why(member))).collect()
}

/// The links that each group needs, lower port first, and its color.
fn trees(engine: &Mr4lms) -> BTreeMap<Mgid, (u16, BTreeSet<(PortId, PortId)>)> {
    let groups = engine.plan().groups().filter(|group| group.has_tree());
    let tree = |mgid: Mgid| engine.group_tree(mgid).expect("it has one").links.into_iter();
    let links = |mgid| tree(mgid).map(|(a, b)| (a.min(b), a.max(b))).collect();
    groups.map(|group| (group.mgid, (group.color, links(group.mgid)))).collect()
}

/// Whether a step may have left a group without some of its links: it changed who can be
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

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

    /// Whoever can be served is, and whoever cannot is named.
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
                let expected = servable(&engine, &members);
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
}
