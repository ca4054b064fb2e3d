//! Detection gives back what was generated, and names exactly what was taken away.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, FatTreeParams, Faults, Irregularity, SwitchId};
use proptest::prelude::*;

mod checks;
mod fabrics;

use checks::{
    after, check_consistent, check_cut, check_halves, check_numbers, check_removed,
    is_only_link_down, same_but_endpoints, switch_links,
};
use fabrics::{
    Numbers, four_levels, generate, pruned, pruned_to_single_cores, random_graph, three_levels,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn four_levels_are_found_with_the_generators_numbers(numbers in four_levels()) {
        let graph = generate(&numbers.toml());
        let tree = FatTree::detect(&graph).unwrap();
        prop_assert_eq!(tree.params(), &numbers.params());
        prop_assert_eq!(tree.irregularities(), &[]);
        check_numbers(&graph, &tree, &numbers);
    }

    #[test]
    fn any_one_cut_link_is_named(numbers in four_levels(), pick: prop::sample::Index) {
        let graph = generate(&numbers.toml());
        check_cut(&graph, *pick.get(&switch_links(&graph)))?;
    }

    #[test]
    fn any_one_removed_switch_is_named(numbers in four_levels(), pick: prop::sample::Index) {
        let graph = generate(&numbers.toml());
        check_removed(&graph, SwitchId(u32::try_from(pick.index(graph.switch_count())).unwrap()))?;
    }

    #[test]
    fn any_one_cut_link_or_removed_switch_of_three_levels_is_named(
        text in three_levels(),
        pick: prop::sample::Index,
    ) {
        let graph = generate(&text);
        let tree = FatTree::detect(&graph).unwrap();
        prop_assert_eq!(tree.irregularities(), &[]);
        check_cut(&graph, *pick.get(&switch_links(&graph)))?;
        check_removed(&graph, SwitchId(u32::try_from(pick.index(graph.switch_count())).unwrap()))?;
    }

    #[test]
    fn any_one_cut_link_of_two_levels_is_named(
        leaves in 2..6u32, spines in 2..5u32, lanes in 1..4u32, pick: prop::sample::Index,
    ) {
        let graph = generate(&format!(
            "kind = 'leaf-spine'\nleaves = {leaves}\nspines = {spines}\nendpoints_per_leaf = 2\nlanes0 = {lanes}"
        ));
        check_cut(&graph, *pick.get(&switch_links(&graph)))?;
    }

    #[test]
    fn any_one_cut_endpoint_is_named(numbers in four_levels(), pick: prop::sample::Index) {
        let graph = generate(&numbers.toml());
        let endpoint = pick.index(graph.endpoint_count());
        let endpoint = graph.endpoints().nth(endpoint).unwrap();
        let tree = after(&graph, |faults| {
            faults.fail_link(&graph, graph.attachment(endpoint).unwrap());
        });
        let name = graph.endpoint_name(endpoint).to_owned();
        prop_assert_eq!(
            tree.irregularities(),
            &[Irregularity::UnconnectedEndpoint { endpoint: name }]
        );
        prop_assert!(same_but_endpoints(tree.params(), &numbers.params()));
    }

    #[test]
    fn any_damage_gives_an_answer(
        numbers in four_levels(),
        switches in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        links in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let graph = generate(&numbers.toml());
        let all = switch_links(&graph);
        let mut faults = Faults::new();
        for pick in switches {
            faults.fail_switch(SwitchId(u32::try_from(pick.index(graph.switch_count())).unwrap()));
        }
        for pick in links {
            faults.fail_link(&graph, *pick.get(&all));
        }
        let rest = graph.without(&faults);
        if let Ok(tree) = FatTree::detect(&rest) {
            check_consistent(&rest, &tree);
        }
    }

    #[test]
    fn directors_that_midplanes_share_are_found(sizes in pruned(), pick: prop::sample::Index) {
        let graph = generate(&sizes.toml());
        let tree = FatTree::detect(&graph).unwrap();
        check_consistent(&graph, &tree);
        let params = tree.params();
        let blocks = sizes.midplanes.div_ceil(sizes.line_ports);
        prop_assert_eq!((params.levels, params.cns, params.blocks), (4, sizes.midplanes, blocks));
        prop_assert_eq!(params.spines, sizes.spines);
        prop_assert_eq!(params.l1_up_ports(), sizes.uplinks);
        prop_assert_eq!((params.l3_per_tn, params.lanes2), (sizes.core_spines, sizes.core_lanes));
        prop_assert_eq!(tree.irregularities(), &[]);
        check_halves(&tree);
        // A switch that loses its only link downwards is unused.
        let mut links = switch_links(&graph);
        links.retain(|port| !is_only_link_down(&graph, &tree, *port));
        check_cut(&graph, *pick.get(&links))?;
    }

    #[test]
    fn core_switches_that_midplanes_share_are_found(sizes in pruned_to_single_cores()) {
        let graph = generate(&sizes.toml());
        let tree = FatTree::detect(&graph).unwrap();
        check_consistent(&graph, &tree);
        let params = tree.params();
        prop_assert_eq!((params.levels, params.cns), (3, sizes.midplanes));
        prop_assert_eq!(params.spines, sizes.spines);
        let is_even = sizes.uplinks <= sizes.cores || sizes.uplinks.is_multiple_of(sizes.cores);
        prop_assert_eq!(params.l1_up_ports() == sizes.uplinks, is_even);
        prop_assert_eq!(tree.irregularities().is_empty(), is_even);
        if params.tns_per_group == sizes.cores && sizes.cores > 1 {
            check_halves(&tree);
        }
    }

    #[test]
    fn random_cables_give_an_answer(
        hosts in prop::collection::vec(0..3u8, 1..12),
        cables in prop::collection::vec((0..12usize, 0..12usize), 0..40),
    ) {
        let graph = random_graph(&hosts, &cables);
        if let Ok(tree) = FatTree::detect(&graph) {
            check_consistent(&graph, &tree);
        }
    }
}

/// C-MR4LMS §4: the fabric of the measurements.
#[test]
fn the_papers_fabric_has_its_sizes() {
    let graph = TopologySpec::paper().generate().unwrap();
    assert_eq!((graph.switch_count(), graph.endpoint_count()), (7_680, 32_768));
    let tree = FatTree::detect(&graph).unwrap();
    let paper = Numbers {
        levels: 4,
        q: 32,
        m: 16,
        p: 6,
        k: 32,
        w: 16,
        l3: 16,
        cns: 64,
        e: 16,
        lanes: [1; 3],
    };
    assert_eq!(tree.params(), &paper.params());
    assert_eq!(tree.irregularities(), &[]);
    check_numbers(&graph, &tree, &paper);
}

/// MR4LMS §4.2: 8 and 2 paths from a leaf switch to each core.
#[test]
fn the_sunway_fabrics_are_trees_of_shared_directors() {
    for (name, cns, blocks) in [("bluelight", 34, 2), ("taihulight", 160, 9)] {
        let graph = TopologySpec::preset(name).unwrap().generate().unwrap();
        let tree = FatTree::detect(&graph).unwrap();
        let expected = FatTreeParams {
            levels: 4,
            cns,
            leaves_per_cn: 16,
            spines: 16,
            lanes0: 1,
            tns_per_group: 4,
            lanes1: 1,
            tns: 64,
            blocks,
            cns_per_block: 18,
            l3_per_tn: 9,
            lanes2: 2,
            endpoints_per_leaf: 16,
        };
        assert_eq!(tree.params(), &expected);
        assert_eq!(tree.irregularities(), &[]);
        check_consistent(&graph, &tree);
        check_halves(&tree);
        assert!(tree.shares_tops(), "{name}");
    }
}

/// Every top midplane of the C-MR4LMS paper, and every core switch or spine, is of one TN group.
#[test]
fn trees_without_directors_share_no_tops() {
    for text in [
        "kind = 'cn-tn-fat-tree'\nq = 4\nm = 4\np = 2\nk = 4\nw = 2\nl3_per_tn = 2\n\
         endpoints_per_leaf = 4",
        "kind = 'k-ary-3-level'\nk = 6",
        "kind = 'leaf-spine'\nleaves = 4\nspines = 3\nendpoints_per_leaf = 3",
    ] {
        assert!(!FatTree::detect(&generate(text)).unwrap().shares_tops(), "{text}");
    }
}

#[test]
fn the_demo_fabric_is_a_whole_four_level_tree() {
    let graph = TopologySpec::demo().generate().unwrap();
    let tree = FatTree::detect(&graph).unwrap();
    assert_eq!(graph.endpoint_count(), 2_048);
    assert_eq!((tree.params().levels, tree.params().tns, tree.params().cns), (4, 8, 16));
    assert_eq!(tree.irregularities(), &[]);
}

#[test]
fn one_switch_is_a_tree_of_one_level() {
    let graph = generate("kind = 'leaf-spine'\nleaves = 1\nspines = 0\nendpoints_per_leaf = 3\n");
    let tree = FatTree::detect(&graph).unwrap();
    let expected = FatTreeParams {
        levels: 1,
        cns: 1,
        leaves_per_cn: 1,
        cns_per_block: 1,
        endpoints_per_leaf: 3,
        ..FatTreeParams::default()
    };
    assert_eq!(tree.params(), &expected);
}

#[test]
fn a_million_endpoints_are_generated_and_found() {
    let text =
        "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 2\nk = 64\nw = 16\nendpoints_per_leaf = 32\n";
    let graph = generate(text);
    assert_eq!(graph.endpoint_count(), 1 << 20);
    let tree = FatTree::detect(&graph).unwrap();
    assert_eq!((tree.params().cns, tree.params().blocks), (1024, 64));
    assert_eq!(tree.irregularities(), &[]);
}
