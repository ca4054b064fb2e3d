//! Small fabrics of every kind that can be generated, and histories of groups and faults on them.

#[path = "../support/histories.rs"]
mod histories;

use std::sync::Arc;

use fabricast_routing::{Baseline, BaselineRule, EngineOptions, RoutingEngine};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Graph, Mgid, TableKind};
use proptest::prelude::*;

use histories::{Step, faults, faults_of};

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

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(Step::any(0..16, [8, 3, 3, 2, 2]), 1..25)
}

/// Makes a step if it makes sense as the groups are now, and says what it was.
pub(crate) fn make(engine: &mut Baseline, step: &Step) -> Option<Made> {
    if let Step::Faults(picks) = step {
        engine.set_faults(faults_of(&engine.graph().clone(), picks));
        return Some(Made::Faults);
    }
    let change = step.change(engine)?;
    engine.apply(std::slice::from_ref(&change)).expect("a change that makes sense");
    Some(Made::Change(change.mgid()))
}

/// Effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Change(Mgid),
    Faults,
}
