//! Detection gives back what was generated, and names exactly what was taken away.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    FatTree, FatTreeParams, Faults, Graph, Irregularity, Peer, Place, PortId, SwitchId,
};
use proptest::prelude::*;

fn generate(text: &str) -> Graph {
    TopologySpec::parse(text).unwrap().generate().unwrap()
}

/// The numbers of a generated fabric and its TOML.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    levels: u32,
    q: u32,
    m: u32,
    p: u32,
    k: u32,
    w: u32,
    l3: u32,
    cns: u32,
    e: u32,
    lanes: [u32; 3],
}

impl Numbers {
    fn toml(&self) -> String {
        let Self { q, m, p, k, w, l3, cns, e, lanes: [r0, r1, r2], .. } = self;
        format!(
            "kind = 'cn-tn-fat-tree'\nq = {q}\nm = {m}\np = {p}\nk = {k}\nw = {w}\nl3_per_tn = {l3}\n\
             cns = {cns}\nendpoints_per_leaf = {e}\nlanes0 = {r0}\nlanes1 = {r1}\nlanes2 = {r2}\n"
        )
    }

    fn params(&self) -> FatTreeParams {
        FatTreeParams {
            levels: 4,
            cns: self.cns,
            leaves_per_cn: self.q,
            spines: self.m,
            lanes0: self.lanes[0],
            tns_per_group: self.p,
            lanes1: self.lanes[1],
            tns: self.m * self.p,
            blocks: self.k,
            cns_per_block: self.w.min(self.cns),
            l3_per_tn: self.l3,
            lanes2: self.lanes[2],
            endpoints_per_leaf: self.e,
        }
    }
}

/// Four-level fabrics in which no single part is the only one of its kind.
fn four_levels() -> impl Strategy<Value = Numbers> {
    let sizes = (2..4u32, 2..4u32, 1..4u32, 2..4u32, 1..4u32, 2..4u32, 1..4u32);
    (sizes, prop::array::uniform3(1..3u32), 0..100u32).prop_map(
        |((q, m, p, k, w, l3, e), lanes, part)| {
            let cns = w + 1 + part % (k * w - w);
            Numbers { levels: 4, q, m, p, k, w, l3, cns, e, lanes }
        },
    )
}

/// Three-level fabrics of `k`-port switches: graph, pods.
fn three_levels() -> impl Strategy<Value = String> {
    (2..5u32, 1..3u32, 2..5u32, 1..5u32).prop_map(|(half, lanes1, leaf_uplinks, spine_uplinks)| {
        let k = half * 2;
        let leaf_uplinks = leaf_uplinks.min(half);
        let spine_uplinks = spine_uplinks.min(half) / lanes1 * lanes1;
        let spine_uplinks = spine_uplinks.max(lanes1);
        format!(
            "kind = 'k-ary-3-level'\nk = {k}\nlanes1 = {lanes1}\n\
             leaf_uplinks = {leaf_uplinks}\nspine_uplinks = {spine_uplinks}\n"
        )
    })
}

fn switch_links(graph: &Graph) -> Vec<PortId> {
    let all = graph.switches().flat_map(|switch| graph.ports(switch));
    all.filter(|port| matches!(graph.peer(*port), Peer::Switch(other) if *port < other)).collect()
}

/// Takes a link or switch out and gives what detection says then.
fn after(graph: &Graph, fail: impl FnOnce(&mut Faults)) -> FatTree {
    let mut faults = Faults::new();
    fail(&mut faults);
    FatTree::detect(&graph.without(&faults)).unwrap()
}

fn same_but_endpoints(a: &FatTreeParams, b: &FatTreeParams) -> bool {
    FatTreeParams { endpoints_per_leaf: 0, ..*a } == FatTreeParams { endpoints_per_leaf: 0, ..*b }
}

/// Checks the answer to one cut link between switches.
fn check_cut(graph: &Graph, port: PortId) -> Result<(), TestCaseError> {
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
fn check_removed(graph: &Graph, switch: SwitchId) -> Result<(), TestCaseError> {
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
            // Which of the core switches of a group is gone cannot be seen.
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

fn random_graph(hosts: &[u8], cables: &[(usize, usize)]) -> Graph {
    use fabricast_topology::{AdapterFacts, EndpointFacts, GraphBuilder, SwitchFacts};
    let mut builder = GraphBuilder::new();
    let mut used: Vec<u8> = hosts.to_vec();
    for (index, count) in hosts.iter().enumerate() {
        let switch = builder.add_switch(&format!("S-{index}"), "", 90, SwitchFacts::default());
        for number in 1..=*count {
            builder.add_adapter(&format!("H-{index}-{number}"), "", AdapterFacts::default());
            let endpoint = builder.add_endpoint(EndpointFacts { number: 1, ..Default::default() });
            builder.attach(endpoint, builder.port(switch, number).unwrap()).unwrap();
        }
    }
    for (a, b) in cables {
        let [a, b] = [a, b].map(|index| {
            let index = index % hosts.len();
            used[index] += 1;
            builder.port(SwitchId(u32::try_from(index).unwrap()), used[index]).unwrap()
        });
        builder.link(a, b).unwrap();
    }
    builder.build().unwrap()
}

/// Checks that every up-port leads where its slot says.
fn check_consistent(graph: &Graph, tree: &FatTree) {
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
    for endpoint in graph.endpoints() {
        if let Some(leaf) = tree.leaf_of_endpoint(endpoint) {
            let port = graph.attachment(endpoint).unwrap();
            assert_eq!(graph.switch_of(port), tree.leaf_switch(leaf));
        }
    }
}

/// Checks every number against the generator's order of switches and ports.
fn check_numbers(graph: &Graph, tree: &FatTree, n: &Numbers) {
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
