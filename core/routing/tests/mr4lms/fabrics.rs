//! Random small fabrics of all shapes, and histories of groups and faults on them.

#[path = "../support/histories.rs"]
mod histories;

use std::sync::Arc;

use fabricast_routing::{Change, MergePartner, MergePolicy, Mr4lms, Mr4lmsOptions, RoutingEngine};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    AdapterFacts, EndpointFacts, Faults, Graph, GraphBuilder, SwitchFacts, SwitchId, TableKind,
};
use proptest::prelude::*;

pub(crate) use histories::{Step, endpoints_of, faults, faults_of, members};

/// Cables between switches and the switch of each endpoint, all by number.
type Wiring = (u32, Vec<(u32, u32)>, Vec<u32>);

/// Builds a fabric; the last endpoint is listed without a cable.
pub(crate) fn wire((switches, cables, endpoints): Wiring) -> Arc<Graph> {
    let mut builder = GraphBuilder::new();
    let mut used = vec![0u8; switches as usize];
    for switch in 0..switches {
        builder.add_switch(&format!("S-{switch:x}"), "", 60, SwitchFacts::default());
    }
    let mut port = |builder: &GraphBuilder, switch: u32| {
        used[switch as usize] += 1;
        builder.port(SwitchId(switch), used[switch as usize]).expect("60 are enough")
    };
    for (a, b) in cables {
        let (a, b) = (port(&builder, a), port(&builder, b));
        builder.link(a, b).expect("each port is used once");
    }
    for (at, switch) in endpoints.iter().chain([&u32::MAX]).enumerate() {
        let facts = AdapterFacts { ports: 1, ..AdapterFacts::default() };
        builder.add_adapter(&format!("H-{at:x}"), &format!("h{at}"), facts);
        let endpoint =
            builder.add_endpoint(EndpointFacts { number: 1, ..EndpointFacts::default() });
        if *switch != u32::MAX {
            let port = port(&builder, *switch);
            builder.attach(endpoint, port).expect("each port is used once");
        }
    }
    Arc::new(builder.build().expect("a valid graph"))
}

/// Connected or not, with parallel cables and switches without endpoints.
fn irregular() -> impl Strategy<Value = Wiring> {
    (2u32..9).prop_flat_map(|switches| {
        let cables = proptest::collection::vec((0..switches, 0..switches), 1..20);
        let endpoints = proptest::collection::vec(0..switches, 1..12);
        (Just(switches), cables, endpoints)
    })
}

fn torus() -> impl Strategy<Value = Wiring> {
    (1u32..4, 1u32..4, 1u32..4, 1u32..3).prop_map(|(x, y, z, hosts)| {
        let at = |a: u32, b: u32, c: u32| (a % x) + (b % y) * x + (c % z) * x * y;
        let mut cables = Vec::new();
        for (a, b, c) in (0..x)
            .flat_map(|a| (0..y).map(move |b| (a, b)))
            .flat_map(|(a, b)| (0..z).map(move |c| (a, b, c)))
        {
            let next = [at(a + 1, b, c), at(a, b + 1, c), at(a, b, c + 1)];
            cables.extend(next.map(|next| (at(a, b, c), next)));
        }
        cables.retain(|(a, b)| a != b);
        let endpoints = (0..x * y * z).flat_map(|switch| vec![switch; hosts as usize]);
        (x * y * z, cables, endpoints.collect())
    })
}

fn dragonflies() -> impl Strategy<Value = Wiring> {
    (1u32..4, 1u32..3, 1u32..3).prop_map(|(a, h, hosts)| dragonfly(a, h, hosts))
}

/// Groups of `a` switches, each with `h` cables to other groups, in turn.
pub(crate) fn dragonfly(a: u32, h: u32, hosts: u32) -> Wiring {
    let groups = a * h + 1;
    let mut cables = Vec::new();
    for group in 0..groups {
        for one in 0..a {
            cables.extend((one + 1..a).map(|other| (group * a + one, group * a + other)));
        }
        for channel in 0..a * h {
            let to = (group + channel + 1) % groups;
            let back = a * h - 1 - channel;
            if group < to {
                cables.push((group * a + channel / h, to * a + back / h));
            }
        }
    }
    let endpoints = (0..groups * a).flat_map(|switch| vec![switch; hosts as usize]);
    (groups * a, cables, endpoints.collect())
}

pub(crate) fn fat_tree() -> impl Strategy<Value = Arc<Graph>> {
    let spec = prop_oneof![
        (1u32..5, 1u32..4, 1u32..4, 1u32..3).prop_map(|(leaves, spines, hosts, lanes)| format!(
            "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
             endpoints_per_leaf = {hosts}\nlanes0 = {lanes}"
        )),
        (1u32..3, 2u32..4, 1u32..3).prop_map(|(half, pods, hosts)| format!(
            "kind = \"k-ary-3-level\"\nk = {}\npods = {pods}\nendpoints_per_leaf = {hosts}",
            half * 2
        )),
        (2u32..4, 1u32..3, 1u32..3, 1u32..3).prop_map(|(q, m, p, k)| format!(
            "kind = \"cn-tn-fat-tree\"\nq = {q}\nm = {m}\np = {p}\nk = {k}\nw = 2\n\
             endpoints_per_leaf = 2"
        )),
    ];
    spec.prop_filter_map("not a valid fabric", |spec| {
        TopologySpec::parse(&spec).ok()?.generate().ok().map(Arc::new)
    })
}

/// Fabrics of all shapes, half of them without parts that a whole fabric would have.
pub(crate) fn fabric() -> impl Strategy<Value = Arc<Graph>> {
    let whole = prop_oneof![
        2 => irregular().prop_map(wire),
        1 => torus().prop_map(wire),
        1 => dragonflies().prop_map(wire),
        2 => fat_tree(),
    ];
    let absent = prop_oneof![Just(Vec::new()), faults()];
    (whole, absent).prop_filter_map("nothing is left", |(whole, absent)| {
        let rest = whole.without(&faults_of(&whole, &absent));
        let is_empty = rest.endpoint_count() == 0 || rest.switch_count() == 0;
        (!is_empty).then(|| Arc::new(rest))
    })
}

/// Options of all kinds, for few colors.
pub(crate) fn options() -> impl Strategy<Value = Mr4lmsOptions> {
    let tables = prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)];
    let policy = prop_oneof![Just(MergePolicy::Keep), Just(MergePolicy::Rebuild)];
    let partner = prop_oneof![
        2 => Just(MergePartner::FewestGroups),
        1 => Just(MergePartner::Nearest),
        1 => Just(MergePartner::RarestColor),
    ];
    (1u16..5, tables, policy, partner, 1u32..5).prop_map(
        |(colors, tables, merge_policy, merge_partner, successes_in_a_row)| Mr4lmsOptions {
            merge_policy,
            merge_partner,
            successes_in_a_row,
            ..Mr4lmsOptions::new(colors, tables)
        },
    )
}

/// The same, half of them with trees that keep to an order.
pub(crate) fn all_options() -> impl Strategy<Value = Mr4lmsOptions> {
    (options(), any::<bool>())
        .prop_map(|(options, deadlock_free)| Mr4lmsOptions { deadlock_free, ..options })
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(Step::any(0..30, [8, 4, 3, 2, 2]), 1..most)
}

/// Changes that a step makes on an engine as it is now.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Change(Change),
    Faults(Faults),
}

impl Act {
    pub(crate) fn make(&self, engine: &mut Mr4lms) {
        match self {
            Self::Change(change) => {
                engine.apply(std::slice::from_ref(change)).expect("a change that makes sense");
            }
            Self::Faults(faults) => engine.set_faults(faults.clone()),
        }
    }
}

/// Gives what a step comes to; none if it makes no sense as the groups are now.
pub(crate) fn act(engine: &Mr4lms, step: &Step) -> Option<Act> {
    match step {
        Step::Faults(picks) => Some(Act::Faults(faults_of(engine.graph(), picks))),
        _ => step.change(engine).map(Act::Change),
    }
}
