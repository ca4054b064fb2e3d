//! Properties that every answer of detection must have.

use std::collections::BTreeSet;

use fabricast_topology::{
    FatTree, FatTreeParams, Faults, Graph, Irregularity, Peer, Place, PortId, SwitchId,
};
use proptest::prelude::*;

use crate::fabrics::Numbers;

pub(crate) fn switch_links(graph: &Graph) -> Vec<PortId> {
    let all = graph.switches().flat_map(|switch| graph.ports(switch));
    all.filter(|port| matches!(graph.peer(*port), Peer::Switch(other) if *port < other)).collect()
}

/// Takes a link or switch out and gives what detection says then.
pub(crate) fn after(graph: &Graph, fail: impl FnOnce(&mut Faults)) -> FatTree {
    let mut faults = Faults::new();
    fail(&mut faults);
    FatTree::detect(&graph.without(&faults)).unwrap()
}

pub(crate) fn same_but_endpoints(a: &FatTreeParams, b: &FatTreeParams) -> bool {
    FatTreeParams { endpoints_per_leaf: 0, ..*a } == FatTreeParams { endpoints_per_leaf: 0, ..*b }
}

fn level(tree: &FatTree, switch: SwitchId) -> u32 {
    match tree.place(switch) {
        Place::Leaf { .. } => 0,
        Place::L1 { .. } => 1,
        Place::L2 { .. } => 2,
        Place::L3 { .. } => 3,
        Place::Outside => panic!("every generated switch has a place"),
    }
}

/// Tells whether the upper switch of a link has no other one downwards.
pub(crate) fn is_only_link_down(graph: &Graph, tree: &FatTree, port: PortId) -> bool {
    let switch_at = |port| match graph.peer(port) {
        Peer::Switch(other) => Some(graph.switch_of(other)),
        Peer::None | Peer::Endpoint(_) => None,
    };
    let ends = [Some(graph.switch_of(port)), switch_at(port)];
    let upper = ends.into_iter().flatten().max_by_key(|end| level(tree, *end)).unwrap();
    let below = graph.ports(upper).filter_map(switch_at);
    below.filter(|other| level(tree, *other) < level(tree, upper)).count() == 1
}

/// Checks the answer to one cut link between switches.
pub(crate) fn check_cut(graph: &Graph, port: PortId) -> Result<(), TestCaseError> {
    let whole = FatTree::detect(graph).unwrap();
    let Peer::Switch(other) = graph.peer(port) else { panic!("a link between switches") };
    let (a, b) = (graph.switch_of(port), graph.switch_of(other));
    let level = |switch| match whole.place(switch) {
        Place::Leaf { .. } => (0, whole.params().lanes0),
        Place::L1 { .. } => (1, whole.params().lanes1),
        Place::L2 { .. } => (2, whole.params().lanes2),
        Place::L3 { .. } => (3, 0),
        Place::Outside => panic!("every generated switch has a place"),
    };
    let (low, high) = if level(a) < level(b) { (a, b) } else { (b, a) };
    let (lower, upper) = (graph.switch_label(low), graph.switch_label(high));
    let expected = match level(low).1 {
        1 => Irregularity::MissingLink { lower, upper },
        of => Irregularity::FewerLinks { lower, upper, has: of - 1, of },
    };
    let cut = after(graph, |faults| {
        faults.fail_link(graph, port);
    });
    prop_assert_eq!(cut.irregularities(), &[expected]);
    prop_assert_eq!(cut.params(), whole.params());
    Ok(())
}

/// Checks the answer to one removed switch.
pub(crate) fn check_removed(graph: &Graph, switch: SwitchId) -> Result<(), TestCaseError> {
    let whole = FatTree::detect(graph).unwrap();
    let rest = after(graph, |faults| {
        faults.fail_switch(switch);
    });
    prop_assert!(same_but_endpoints(rest.params(), whole.params()), "{:?}", rest.params());
    let [found] = rest.irregularities() else {
        return Err(TestCaseError::fail(format!("{:?}", rest.irregularities())));
    };
    let expected = match (whole.place(switch), found) {
        (Place::Leaf { leaf }, Irregularity::MissingLeaves { cn, has, of, .. }) => {
            *cn == whole.cn_of_leaf(leaf) && has + 1 == *of
        }
        (Place::L1 { cn, g }, Irregularity::MissingSwitch { level: 1, place }) => {
            place.starts_with(&format!("number {g} of midplane {cn} "))
        }
        (Place::L2 { tn, .. }, Irregularity::MissingSwitch { level: 2, place })
            if whole.params().levels == 3 =>
        {
            // One cannot see which of the core switches of a group is gone.
            let p = whole.params().tns_per_group;
            place.starts_with(&format!("top midplane {} ", tn / p * p + p - 1))
        }
        (Place::L2 { tn, block }, Irregularity::MissingSwitch { level: 2, place }) => {
            let populated = whole.params().cns.div_ceil(whole.params().cns_per_block);
            let of_tn = place.contains(&format!(" of top midplane {tn} "));
            of_tn && (block >= populated || place.starts_with(&format!("number {block} ")))
        }
        (Place::L3 { tn, .. }, Irregularity::MissingSwitch { level: 3, place }) => {
            place.contains(&format!(" of top midplane {tn} "))
        }
        _ => false,
    };
    prop_assert!(expected, "{:?} for {:?}", found, whole.place(switch));
    Ok(())
}

/// Checks that every up-port leads where its slot says.
pub(crate) fn check_consistent(graph: &Graph, tree: &FatTree) {
    let params = *tree.params();
    let above = |port: Option<PortId>| {
        port.map(|port| match graph.peer(port) {
            Peer::Switch(other) => graph.switch_of(other),
            Peer::None | Peer::Endpoint(_) => panic!("an up-port leads to a switch"),
        })
    };
    for leaf in 0..u32::try_from(tree.leaf_count()).unwrap() {
        assert_eq!(tree.place(tree.leaf_switch(leaf)), Place::Leaf { leaf });
        for slot in 0..params.leaf_up_ports() {
            if let Some(switch) = above(tree.leaf_up(leaf, slot)) {
                let expected = tree.l1_switch(tree.cn_of_leaf(leaf), slot / params.lanes0);
                assert_eq!(Some(switch), expected);
            }
        }
    }
    for (cn, g) in (0..params.cns).flat_map(|cn| (0..params.spines).map(move |g| (cn, g))) {
        for u in 0..params.l1_up_ports() {
            if let Some(switch) = above(tree.l1_up(cn, g, u)) {
                let tn = g * params.tns_per_group + u % params.tns_per_group;
                assert_eq!(Some(switch), tree.l2_switch(tn, tree.block_of_cn(cn)));
            }
        }
    }
    for (tn, block) in (0..params.tns).flat_map(|tn| (0..params.blocks).map(move |b| (tn, b))) {
        for v in 0..params.l2_up_ports() {
            if let Some(switch) = above(tree.l2_up(tn, block, v)) {
                assert_eq!(Some(switch), tree.l3_switch(tn, v % params.l3_per_tn));
            }
        }
    }
    check_own_links(tree);
    for endpoint in graph.endpoints() {
        if let Some(leaf) = tree.leaf_of_endpoint(endpoint) {
            let port = graph.attachment(endpoint).unwrap();
            assert_eq!(graph.switch_of(port), tree.leaf_switch(leaf));
        }
    }
}

/// Checks that no link has two positions.
fn check_own_links(tree: &FatTree) {
    let params = *tree.params();
    let leaves = 0..u32::try_from(tree.leaf_count()).unwrap();
    let low = leaves.flat_map(|leaf| (0..params.leaf_up_ports()).map(move |up| (leaf, up)));
    let cns = (0..params.cns).flat_map(|cn| (0..params.spines).map(move |g| (cn, g)));
    let middle = cns.flat_map(|(cn, g)| (0..params.l1_up_ports()).map(move |u| (cn, g, u)));
    let tns = (0..params.tns).flat_map(|tn| (0..params.blocks).map(move |block| (tn, block)));
    let high = tns.flat_map(|(tn, block)| (0..params.l2_up_ports()).map(move |v| (tn, block, v)));
    let ups = low.map(|(leaf, up)| tree.leaf_up(leaf, up));
    let ups = ups.chain(middle.map(|(cn, g, u)| tree.l1_up(cn, g, u)));
    let ups = ups.chain(high.map(|(tn, block, v)| tree.l2_up(tn, block, v)));
    let mut seen = BTreeSet::new();
    for port in ups.flatten() {
        assert!(seen.insert(port), "{port:?} has two positions");
    }
}

/// Checks that two trees that take the same positions in both halves of the level-1 switches, as
/// those of a pair do, have no switch above level 1 in common.
pub(crate) fn check_halves(tree: &FatTree) {
    let params = *tree.params();
    let half = params.spines / 2;
    let per_group = params.tns_per_group;
    for (low, high) in (0..half).flat_map(|low| (half..2 * half).map(move |high| (low, high))) {
        for (low, high) in (0..per_group).map(|at| (low * per_group + at, high * per_group + at)) {
            for block in 0..params.blocks {
                let (low, high) = (tree.l2_switch(low, block), tree.l2_switch(high, block));
                assert!(low.is_none() || low != high, "{low:?}");
            }
            for x in 0..params.l3_per_tn {
                let (low, high) = (tree.l3_switch(low, x), tree.l3_switch(high, x));
                assert!(low.is_none() || low != high, "{low:?}");
            }
        }
    }
}

/// Checks every number against the generator's order of switches and ports.
pub(crate) fn check_numbers(graph: &Graph, tree: &FatTree, n: &Numbers) {
    check_consistent(graph, tree);
    assert_eq!(n.levels, tree.params().levels);
    let per_cn = n.q + n.m;
    for leaf in 0..n.cns * n.q {
        assert_eq!(tree.leaf_switch(leaf), SwitchId(leaf / n.q * per_cn + leaf % n.q));
        for slot in 0..n.m * n.lanes[0] {
            let port = tree.leaf_up(leaf, slot).unwrap();
            assert_eq!(u32::from(graph.port_number(port)), n.e + slot + 1);
        }
    }
    for (cn, g) in (0..n.cns).flat_map(|cn| (0..n.m).map(move |g| (cn, g))) {
        assert_eq!(tree.block_of_cn(cn), cn / n.w);
        assert_eq!(tree.l1_switch(cn, g), Some(SwitchId(cn * per_cn + n.q + g)));
        for u in 0..n.p * n.lanes[1] {
            let port = tree.l1_up(cn, g, u).unwrap();
            assert_eq!(u32::from(graph.port_number(port)), n.q * n.lanes[0] + u + 1);
        }
    }
    for tn in 0..n.m * n.p {
        let first = n.cns * per_cn + tn * (n.k + n.l3);
        for block in 0..n.k {
            assert_eq!(tree.l2_switch(tn, block), Some(SwitchId(first + block)));
            for v in 0..n.l3 * n.lanes[2] {
                let port = tree.l2_up(tn, block, v).unwrap();
                assert_eq!(u32::from(graph.port_number(port)), n.w * n.lanes[1] + v + 1);
            }
        }
        for x in 0..n.l3 {
            assert_eq!(tree.l3_switch(tn, x), Some(SwitchId(first + n.k + x)));
        }
    }
}
