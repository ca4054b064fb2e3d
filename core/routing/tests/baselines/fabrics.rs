//! Small fabrics of every kind that can be generated, and histories of groups and faults on them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_routing::{Baseline, BaselineRule, Change, EngineOptions, RoutingEngine};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, PortId, SwitchId, TableKind};
use proptest::prelude::*;

/// Fabrics of all kinds, half of them without parts that a whole fabric would have.
pub(crate) fn fabric() -> impl Strategy<Value = Arc<Graph>> {
    let spec = prop_oneof![
        (1u32..5, 1u32..4, 1u32..3).prop_map(|(x, y, z)| format!(
            "kind = 'torus'\nx = {x}\ny = {y}\nz = {z}\nendpoints_per_switch = 2"
        )),
        (1u32..4, 1u32..3, 1u32..3)
            .prop_map(|(a, p, h)| format!("kind = 'dragonfly'\na = {a}\np = {p}\nh = {h}")),
        (1u32..9, 2u32..5, 0u64..99).prop_map(|(switches, links, seed)| format!(
            "kind = 'random-regular'\nswitches = {switches}\nswitch_ports = 8\nseed = {seed}\n\
             endpoints_per_switch = 2\nlinks_per_switch = {links}"
        )),
        (1u32..4, 1u32..3, 1u32..3, 1u32..3).prop_map(|(midplanes, spines, up, line_ports)| format!(
            "kind = 'pruned-fat-tree'\nmidplanes = {midplanes}\nleaves = 2\nspines = {spines}\n\
             uplinks_per_spine = {up}\ncores = {spines}\nline_ports = {line_ports}\n\
             core_spines = 2\nendpoints_per_leaf = 2"
        )),
        (1u32..4, 1u32..3, 1u32..3).prop_map(|(leaves, spines, lanes)| format!(
            "kind = 'leaf-spine'\nleaves = {leaves}\nspines = {spines}\nendpoints_per_leaf = 2\n\
             lanes0 = {lanes}"
        )),
        (2u32..4, 1u32..3, 1u32..3).prop_map(|(q, m, p)| format!(
            "kind = 'cn-tn-fat-tree'\nq = {q}\nm = {m}\np = {p}\nk = 2\nw = 2\nendpoints_per_leaf = 2"
        )),
    ];
    let absent = prop_oneof![Just(Vec::new()), faults()];
    (spec, absent).prop_filter_map("nothing is left", |(spec, absent)| {
        let spec = TopologySpec::parse(&spec).expect("a valid description");
        let whole = spec.generate().expect("a valid fabric");
        let rest = whole.without(&faults_of(&whole, &absent));
        let is_empty = rest.endpoint_count() == 0 || rest.switch_count() == 0;
        (!is_empty).then(|| Arc::new(rest))
    })
}

pub(crate) fn rule() -> impl Strategy<Value = BaselineRule> {
    prop_oneof![
        Just(BaselineRule::MinHop),
        Just(BaselineRule::LightestPath),
        Just(BaselineRule::GlobalTree)
    ]
}

pub(crate) fn options() -> impl Strategy<Value = EngineOptions> {
    let tables = prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)];
    (1u16..6, tables).prop_map(|(colors, tables)| EngineOptions::new(colors, tables))
}

/// One step of a history; numbers are taken modulo what the fabric has.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put(u32, Vec<u32>),
    Join(u32, u32),
    Leave(u32, usize),
    Delete(u32),
    Faults(Vec<(u8, u32)>),
}

fn faults() -> impl Strategy<Value = Vec<(u8, u32)>> {
    proptest::collection::vec((0u8..8, any::<u32>()), 0..5)
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let mgid = 0u32..16;
    let step = prop_oneof![
        8 => (mgid.clone(), proptest::collection::vec(any::<u32>(), 0..6))
            .prop_map(|(mgid, members)| Step::Put(mgid, members)),
        3 => (mgid.clone(), any::<u32>()).prop_map(|(mgid, at)| Step::Join(mgid, at)),
        3 => (mgid.clone(), any::<usize>()).prop_map(|(mgid, at)| Step::Leave(mgid, at)),
        2 => mgid.prop_map(Step::Delete),
        2 => faults().prop_map(Step::Faults),
    ];
    proptest::collection::vec(step, 1..25)
}

fn below(at: u32, count: usize) -> u32 {
    at % u32::try_from(count).expect("a small fabric")
}

/// Turns random numbers into faults of a fabric, links most often.
fn faults_of(graph: &Graph, picks: &[(u8, u32)]) -> Faults {
    let mut faults = Faults::new();
    for (kind, at) in picks {
        match kind {
            0 => drop(faults.fail_switch(SwitchId(below(*at, graph.switch_count())))),
            1 => drop(faults.fail_endpoint(EndpointId(below(*at, graph.endpoint_count())))),
            _ => drop(faults.fail_link(graph, PortId(below(*at, graph.port_count())))),
        }
    }
    faults
}

/// Makes a step if it makes sense as the groups are now, and says what it was.
pub(crate) fn make(engine: &mut Baseline, step: &Step) -> Option<Made> {
    let graph = engine.graph().clone();
    let endpoint = |at: u32| EndpointId(below(at, graph.endpoint_count()));
    let change = match step {
        Step::Faults(picks) => {
            engine.set_faults(faults_of(&graph, picks));
            return Some(Made::Faults);
        }
        Step::Put(mgid, members) => {
            let members: BTreeSet<_> = members.iter().map(|at| endpoint(*at)).collect();
            Change::Put { mgid: Mgid(*mgid), members: members.into_iter().collect() }
        }
        Step::Join(mgid, at) => {
            let (mgid, endpoint) = (Mgid(*mgid), endpoint(*at));
            let members = engine.members(mgid)?;
            (!members.contains(&endpoint)).then_some(Change::Join { mgid, endpoint })?
        }
        Step::Leave(mgid, at) => {
            let mgid = Mgid(*mgid);
            let members = engine.members(mgid).filter(|members| !members.is_empty())?;
            Change::Leave { mgid, endpoint: members[at % members.len()] }
        }
        Step::Delete(mgid) => {
            let mgid = Mgid(*mgid);
            engine.members(mgid).map(|_| Change::Delete { mgid })?
        }
    };
    engine.apply(std::slice::from_ref(&change)).expect("a change that makes sense");
    Some(Made::Change(change.mgid()))
}

/// Effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Change(Mgid),
    Faults,
}
