//! Laws of adapter trees, and the counts that were made for the rebuilt algorithms.

use std::sync::Arc;

use fabricast_topology::spec::TopologySpec;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::adapter_shape::AdapterCost;
use crate::fabric::Fabric;
use crate::nesting::{Division, NestingSizes};

/// Processes in leaf switches in midplanes, each by random keys.
fn nesting() -> impl Strategy<Value = Nesting> {
    vec((0..40_u32, 0..12_u32, 0..4_u32), 1..200).prop_map(|keys| {
        let level = |pick: fn(&(u32, u32, u32)) -> u32| keys.iter().map(pick).collect::<Vec<_>>();
        let (inner, middle, outer) = (level(|key| key.0), level(|key| key.1), level(|key| key.2));
        let divisions = [
            Division { links: 0, keys: &inner },
            Division { links: 2, keys: &middle },
            Division { links: 4, keys: &outer },
        ];
        Nesting::new(u32::try_from(keys.len()).unwrap(), &divisions, 6).unwrap()
    })
}

/// Checks that a tree is one, over all processes.
fn check(tree: &AdapterTree, processes: u32) {
    assert_eq!(tree.processes(), processes);
    let mut seen = vec![false; processes as usize];
    for process in tree.top_down() {
        let above = tree.parent(*process).map(|parent| seen[parent as usize]);
        assert_ne!(above, Some(false), "a parent comes first");
        assert_eq!(above.is_none(), *process == tree.root(), "one root");
        assert!(!std::mem::replace(&mut seen[*process as usize], true), "everybody once");
    }
    assert!(seen.iter().all(|seen| *seen));
    for process in 0..processes {
        let children = tree.children(process);
        assert!(children.iter().all(|child| tree.parent(*child) == Some(process)));
        assert!(children.len() <= tree.degree() as usize);
    }
    let listed: usize = (0..processes).map(|process| tree.children(process).len()).sum();
    assert_eq!(listed + 1, processes as usize);
}

proptest! {
    #[test]
    fn every_kind_of_tree_holds_everybody_once(nesting in nesting(), width in 2..40_u32) {
        let processes = nesting.processes();
        check(&AdapterTree::k_ary(processes, width).unwrap(), processes);
        check(&AdapterTree::k_nomial(processes, width).unwrap(), processes);
        check(&AdapterTree::hierarchical(&nesting, width).unwrap(), processes);
        check(&hierarchical::plain(&nesting, width).unwrap(), processes);
        check(&hierarchical::merged(&nesting, width).unwrap(), processes);
    }

    #[test]
    fn of_a_group_only_the_first_process_sends_out_of_it(nesting in nesting(), width in 2..40_u32) {
        for tree in [
            hierarchical::plain(&nesting, width).unwrap(),
            hierarchical::merged(&nesting, width).unwrap(),
        ] {
            for level in 0..nesting.levels() {
                let mut senders: Vec<u32> =
                    tree.crossings(&nesting, level).iter().map(|crossing| crossing.from).collect();
                senders.dedup();
                let packets: u32 =
                    tree.crossings(&nesting, level).iter().map(|crossing| crossing.packets).sum();
                let root = nesting.group_of(level, tree.root());
                let groups = (0..nesting.processes())
                    .map(|process| nesting.group_of(level, process))
                    .max()
                    .unwrap();
                prop_assert_eq!((senders.len(), packets), (groups as usize, groups));
                prop_assert!(!senders.contains(&root));
            }
        }
    }

    #[test]
    fn no_node_has_more_children_than_allowed(
        nesting in nesting(),
        width in 0..40_u32,
        most in 1..20_u32,
    ) {
        let tree = AdapterTree::within(&nesting, width, most).unwrap();
        check(&tree, nesting.processes());
        prop_assert!(tree.degree() <= most);
    }

    #[test]
    fn a_k_nomial_tree_has_no_more_children_than_its_digits_allow(
        processes in 1..3_000_u32,
        width in 2..40_u32,
    ) {
        let tree = AdapterTree::k_nomial(processes, width).unwrap();
        prop_assert_eq!(tree.degree(), hierarchical::nomial_degree(processes, width));
        let digits = (0..).find(|digits| u64::from(width).pow(*digits) >= processes.into()).unwrap();
        prop_assert!(tree.degree() <= (width - 1) * digits && tree.height() <= digits);
    }
}

#[test]
fn a_full_k_nomial_tree_has_the_stated_nodes_on_each_level() {
    for (width, digits) in [(2_u32, 10_u32), (3, 6), (4, 5), (5, 4), (32, 2)] {
        let processes = width.pow(digits);
        let tree = AdapterTree::k_nomial(processes, width).unwrap();
        assert_eq!(tree.height(), digits);
        let mut levels = vec![0_u64; digits as usize + 1];
        let mut depths = vec![0; processes as usize];
        for process in tree.top_down() {
            let depth = tree.parent(*process).map_or(0, |parent| depths[parent as usize] + 1);
            depths[*process as usize] = depth;
            levels[depth] += 1;
        }
        // (k-1)^t * C(n, t)
        let mut binomial = 1_u64;
        for (level, count) in (0_u64..).zip(levels) {
            let exponent = u32::try_from(level).unwrap();
            assert_eq!(count, u64::from(width - 1).pow(exponent) * binomial);
            binomial = binomial * (u64::from(digits) - level) / (level + 1);
        }
    }
}

#[test]
fn one_child_at_most_makes_a_chain_and_none_no_tree() {
    let keys = [0, 1, 0, 1];
    let nesting = Nesting::new(4, &[Division { links: 2, keys: &keys }], 4).unwrap();
    let chain = AdapterTree::within(&nesting, 5, 1).unwrap();
    assert_eq!((chain.height(), chain.degree()), (3, 1));
    assert_eq!(chain.crossings(&nesting, 0).len(), 1, "the chain keeps to the groups");
    assert_eq!(AdapterTree::within(&nesting, 5, 0), Err(TreeError::NoChildren));
    let alone = Nesting::new(1, &[], 4).unwrap();
    assert_eq!(AdapterTree::within(&alone, 5, 0).unwrap().height(), 0);
    assert_eq!(AdapterTree::k_ary(0, 2), Err(TreeError::Empty));
}

/// Ranks that a launcher deals in turn over four leaf switches, as many do.
#[test]
fn ranks_that_do_not_follow_one_another_are_grouped_as_well() {
    let dealt: Vec<u32> = (0..32).map(|rank| rank % 4).collect();
    let nesting = Nesting::new(32, &[Division { links: 2, keys: &dealt }], 4).unwrap();
    let tree = AdapterTree::hierarchical(&nesting, 4).unwrap();
    let packets: u32 = tree.crossings(&nesting, 0).iter().map(|one| one.packets).sum();
    assert_eq!(packets, 3, "one of each other leaf switch");
    let plain = AdapterTree::k_nomial(32, 4).unwrap();
    let packets: u32 = plain.crossings(&nesting, 0).iter().map(|one| one.packets).sum();
    assert_eq!(packets, 24, "three of four ranks are next to one of another switch");
}

#[test]
fn radius_counts_links_and_height_edges() {
    let keys = [0, 0, 0, 0, 1, 1, 1, 1];
    let nesting = Nesting::new(8, &[Division { links: 2, keys: &keys }], 4).unwrap();
    let tree = AdapterTree::hierarchical(&nesting, 2).unwrap();
    // 7 -> 6 -> 4 -> 0 in binary.
    assert_eq!((tree.height(), tree.radius(|a, b| nesting.links(a, b))), (3, 8));
    assert_eq!(tree.crossings(&nesting, 0), [Crossing { from: 1, to: 0, packets: 1 }]);
}

/// Figure 9 and the rebuilt Algorithm 2: see `tests/paper.rs`.
#[test]
fn of_286_ways_to_part_14_processes_89_gain_a_level_and_22_lose_one() {
    let (mut all, mut gained, mut lost) = (0, 0, 0);
    for a in 1..12_u32 {
        for b in 1..13 - a {
            for c in 1..14 - a - b {
                let sizes = [a, b, c, 14 - a - b - c];
                let keys: Vec<u32> = (0..)
                    .zip(sizes)
                    .flat_map(|(group, size)| (0..size).map(move |_| group))
                    .collect();
                let nesting = Nesting::new(14, &[Division { links: 2, keys: &keys }], 4).unwrap();
                let plain = hierarchical::plain(&nesting, 2).unwrap().height();
                let tree = hierarchical::merged(&nesting, 2).unwrap();
                let first_of = |group: u32| keys.iter().position(|key| *key == group);
                let below_another = (0..14_u32).any(|process| {
                    let Some(parent) = tree.parent(process) else { return false };
                    let groups = [process, parent].map(|process| keys[process as usize]);
                    groups[0] != groups[1] && first_of(groups[1]) != Some(parent as usize)
                });
                let merged = tree.height();
                let taken = AdapterTree::hierarchical(&nesting, 2).unwrap().height();
                assert_eq!(taken, plain.min(merged));
                all += 1;
                gained += u32::from((plain, merged, below_another) == (4, 3, true));
                lost += u32::from(merged > plain);
            }
        }
    }
    assert_eq!((all, gained, lost), (286, 89, 22));
}

/// 2 blocks of 2 midplanes of 2 leaf switches of 4 endpoints.
fn fat_tree() -> Fabric {
    let text = "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\n\
                endpoints_per_leaf = 4\n";
    Fabric::detect(Arc::new(TopologySpec::parse(text).unwrap().generate().unwrap()))
}

/// The times that a tree takes to reduce, packet by packet and as its shape says.
fn times_us(places: &[u32], shape: AdapterShape, bytes: u32) -> [f64; 2] {
    let (fabric, parameters) = (fat_tree(), CostParameters::DEFAULT);
    let places: Vec<EndpointId> = places.iter().copied().map(EndpointId).collect();
    let nesting = Nesting::of_fabric(&fabric, &places).unwrap();
    let sizes = NestingSizes::of_fabric(&fabric, &places).unwrap();
    let tree = AdapterTree::of_shape(&nesting, shape, u32::MAX).unwrap();
    check(&tree, nesting.processes());
    let links = |a, b| nesting.links(a, b);
    let gathered_us = tree.gather_us(&parameters, Operation::Reduce, bytes, links);
    let cost = AdapterCost::new(&parameters, &sizes, Operation::Reduce, bytes);
    [gathered_us, cost.gather_us(shape)]
}

#[test]
fn a_full_hierarchical_tree_gathers_as_its_levels_say() {
    let places: Vec<u32> = (0..32).collect();
    let [gathered_us, computed_us] = times_us(&places, AdapterShape::Hierarchical { width: 2 }, 99);
    assert!((gathered_us - computed_us).abs() < 1e-9, "{gathered_us} {computed_us}");
}

#[test]
fn full_trees_at_one_leaf_switch_gather_as_their_levels_say() {
    // Of 4 processes on 4 endpoints, and of 3.
    let shapes = [AdapterShape::KNomial { width: 2 }, AdapterShape::KAry { width: 2 }];
    for (shape, places) in shapes.into_iter().zip([&[0, 1, 2, 3][..], &[1, 2, 3][..]]) {
        let [gathered_us, computed_us] = times_us(places, shape, 99);
        assert!((gathered_us - computed_us).abs() < 1e-9, "{gathered_us} {computed_us}");
    }
}

proptest! {
    /// AGG-10: the cost of a shape bounds the time that its trees take.
    #[test]
    fn no_tree_gathers_longer_than_its_shape_says(
        places in vec(0..32_u32, 1..120),
        width in 1..40_u32,
        bytes in 0..100_000_u32,
    ) {
        for shape in [AdapterShape::KAry { width }, AdapterShape::KNomial { width }] {
            let [gathered_us, computed_us] = times_us(&places, shape, bytes);
            let most_us = computed_us * (1.0 + 1e-9);
            prop_assert!(gathered_us <= most_us, "{:?}: {} {}", shape, gathered_us, computed_us);
        }
    }

    #[test]
    fn trees_of_every_shape_keep_to_the_limit_on_children(
        nesting in nesting(),
        width in 1..40_u32,
        most in 1..20_u32,
    ) {
        for shape in [
            AdapterShape::KAry { width },
            AdapterShape::KNomial { width },
            AdapterShape::Hierarchical { width },
        ] {
            let tree = AdapterTree::of_shape(&nesting, shape, most).unwrap();
            check(&tree, nesting.processes());
            prop_assert!(tree.degree() <= most, "{:?}: {}", shape, tree.degree());
        }
    }
}
