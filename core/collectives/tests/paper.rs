//! The numbers that the paper states: Chen et al., Journal of Computer Research and Development
//! 61(2), 2024, with the equations as rebuilt.

use std::sync::Arc;

use fabricast_collectives::{
    AdapterTree, Comparison, CostParameters, Division, Fabric, Method, Nesting, Operation, Survey,
    Trade,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, SplitMix};

/// §3.1: "k = 41 makes F(k) least" for barrier and broadcast, a = 1.12 us, b = 0.01 us.
#[test]
fn barrier_and_broadcast_are_fastest_with_41_children() {
    for operation in [Operation::Barrier, Operation::Broadcast] {
        let trade = Trade::new(&CostParameters::PAPER, operation, 2_048);
        assert!((trade.per_level_us - 1.12).abs() < 1e-12);
        assert_eq!(trade.best_width(512), 41);
        assert!((trade.stationary_width().unwrap() - 41.200).abs() < 5e-4);
        assert!((trade.latency_us(41, 512) - 2.5702).abs() < 5e-5);
    }
}

/// §3.1 and figure 6: for 512 processes F(k) differs by no more than 0.1 us for 24 <= k <= 64. The
/// lower end is exact; the upper end is really 69, and 64 is 0.0698 us above the best.
#[test]
fn widths_of_24_to_64_are_within_a_tenth_of_a_microsecond() {
    let trade = Trade::new(&CostParameters::PAPER, Operation::Barrier, 0);
    let range = trade.width_range(512, 511, 0.1);
    assert_eq!((range.min, range.best, range.max), (24, 41, 69));
    let above = |width| trade.latency_us(width, 512) - trade.latency_us(41, 512);
    assert!((above(23) - 0.1157).abs() < 1e-4 && (above(24) - 0.0994).abs() < 1e-4);
    assert!((above(64) - 0.0698).abs() < 1e-4);
}

/// §3.1: "k_min and k_max fall as the packet grows".
#[test]
fn the_range_of_widths_falls_with_the_time_per_child() {
    let range = |per_child_us| {
        let range = Trade { per_level_us: 1.12, per_child_us }.width_range(512, 511, 0.1);
        (range.min, range.max)
    };
    assert_eq!((range(0.02), range(0.1)), ((17, 39), (7, 12)));
}

/// §6.2.1: switch trees are "about 1 us lower" than 64-ary adapter trees.
#[test]
fn a_switch_tree_is_about_a_microsecond_faster() {
    for (processes, expected) in [(64, 0.56), (512, 1.12)] {
        // 64 children for both: the difference is the way alone.
        let compared = Comparison { adapter_width: 64, switch_width: 64, processes, bytes: 8 };
        let faster = compared.advantage_us(&CostParameters::PAPER);
        assert!((faster - expected).abs() < 1e-9, "{processes}: {faster}");
    }
}

/// Groups of these sizes, one after the other.
fn groups(sizes: &[u32]) -> Nesting {
    let keys: Vec<u32> =
        (0..).zip(sizes).flat_map(|(group, size)| (0..*size).map(move |_| group)).collect();
    let processes = sizes.iter().sum();
    Nesting::new(processes, &[Division { links: 2, keys: &keys }], 4).expect("processes")
}

/// Figure 7: of 16 processes on two leaf switches a 4-ary tree sends 8 packets over the top, a
/// hand-made grouped one of the same height 2. Ours sends 1.
#[test]
fn of_sixteen_processes_one_packet_crosses_the_top_instead_of_eight() {
    let nesting = groups(&[8, 8]);
    let packets = |tree: &AdapterTree| -> u32 {
        tree.crossings(&nesting, 0).iter().map(|crossing| crossing.packets).sum()
    };
    assert_eq!(packets(&AdapterTree::k_ary(16, 4).unwrap()), 8);
    let ours = AdapterTree::hierarchical(&nesting, 4).unwrap();
    assert_eq!((packets(&ours), ours.height()), (1, 3));
}

/// Figure 9: 14 processes in 4 groups, k = 2: the plain hierarchical tree is 4 high, the paper's 3.
/// Its group sizes are not told. Of all 286 ways to part 14 processes into 4 groups, 89 give 4 and
/// 3; in 22 others the paper's construction is the higher one, and we take the plain one.
#[test]
fn the_lower_of_two_constructions_is_taken() {
    assert_eq!(AdapterTree::hierarchical(&groups(&[2, 2, 4, 6]), 2).unwrap().height(), 3);
    assert_eq!(AdapterTree::hierarchical(&groups(&[2, 2, 7, 3]), 2).unwrap().height(), 3);
}

/// Figure 16 and §6.1.2: 512 processes, 16 on a leaf switch, 2 on a node. Into the root's switch go
/// 496 packets of a 32-ary tree and 31 of a hierarchical 32-nomial one; between two switches go up
/// to 16 of a 32-nomial tree, and 1 of the hierarchical one.
#[test]
fn a_hierarchical_tree_sends_few_packets_between_leaf_switches() {
    let nodes: Vec<u32> = (0..512).map(|process| process / 2).collect();
    let leaves: Vec<u32> = (0..512).map(|process| process / 16).collect();
    let divisions = [Division { links: 0, keys: &nodes }, Division { links: 2, keys: &leaves }];
    let nesting = Nesting::new(512, &divisions, 4).unwrap();
    let figures = |tree: &AdapterTree| {
        let crossings = tree.crossings(&nesting, 1);
        let root = nesting.group_of(1, tree.root());
        let into_root: u32 =
            crossings.iter().filter(|one| one.to == root).map(|one| one.packets).sum();
        (into_root, crossings.iter().map(|one| one.packets).max().unwrap())
    };
    assert_eq!(figures(&AdapterTree::k_ary(512, 32).unwrap()), (496, 16));
    assert_eq!(figures(&AdapterTree::k_nomial(512, 32).unwrap()), (31, 16));
    assert_eq!(figures(&AdapterTree::hierarchical(&nesting, 32).unwrap()), (31, 1));
}

/// §6.1.1: on an idle two-level fat tree the hierarchical 32-nomial tree is "about 0.6 us" faster
/// than the two others. That holds against the 32-nomial tree. Our 32-ary tree is as fast as the
/// hierarchical one when nothing else is on the links: its inner nodes are the first 16 processes,
/// which all stand on the root's leaf switch. Published is that it is as slow as the 32-nomial
/// tree.
#[test]
fn a_hierarchical_tree_is_faster_than_a_k_nomial_one_by_half_a_microsecond() {
    let nodes: Vec<u32> = (0..512).map(|process| process / 2).collect();
    let leaves: Vec<u32> = (0..512).map(|process| process / 16).collect();
    let divisions = [Division { links: 0, keys: &nodes }, Division { links: 2, keys: &leaves }];
    let nesting = Nesting::new(512, &divisions, 4).unwrap();
    let time = |tree: AdapterTree| {
        let links = |a, b| nesting.links(a, b);
        tree.gather_us(&CostParameters::PAPER, Operation::Broadcast, 8, links)
    };
    let ours = time(AdapterTree::hierarchical(&nesting, 32).unwrap());
    let nomial = time(AdapterTree::k_nomial(512, 32).unwrap());
    assert!((0.4..0.8).contains(&(nomial - ours)), "{nomial} {ours}");
    let ary = time(AdapterTree::k_ary(512, 32).unwrap());
    assert!((0.0..0.1).contains(&(ary - ours)), "{ary} {ours}");
}

/// §6.2.2: 16 entries a switch and 40 960 processes, one on each of 160 x 256 nodes. Every
/// communicator gets a tree of fewest switches; the plain method fails for up to 74.51 %, and takes
/// more than ten times as many entries. The paper does not give the number of random communicators:
/// 1 024 are chosen here, of which three quarters fail below a pruned top.
#[test]
fn with_the_fewest_entries_no_communicator_goes_without() {
    let text = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 1\nk = 10\nw = 16\n\
                endpoints_per_leaf = 8\n";
    let graph = TopologySpec::parse(text).unwrap().generate().unwrap();
    let fabric = Fabric::detect(Arc::new(graph));
    let mut chance = SplitMix::new(1);
    let mut random = vec![Vec::new(); 1_024];
    for endpoint in (0..40_960).map(EndpointId) {
        random[chance.below(1_024) as usize].push(endpoint);
    }
    let survey = |method| {
        fabricast_collectives::survey(&fabric, random.iter().map(Vec::as_slice), method, 16)
    };
    let (plain, ours) = (survey(Method::Plain), survey(Method::Minimum { children: 64 }));
    assert_eq!((plain.groups, plain.failures, ours.failures), (1_024, 768, 0));
    let per_tree = |one: &Survey| one.entries / u64::from(one.groups - one.failures);
    assert!(10 * per_tree(&ours) < per_tree(&plain));
    assert!(ours.entries < 1_030, "nearly every communicator takes one entry");
}
