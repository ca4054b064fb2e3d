//! Real fabrics are never quite regular: what is odd is named, the rest is used.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    AdapterFacts, EndpointFacts, FatTree, Faults, Graph, GraphBuilder, Irregularity, Peer, PortId,
    Reason, SplitMix, SwitchFacts, SwitchId,
};

/// A fabric that is wired cable by cable: next free port on both sides.
#[derive(Default)]
struct Fabric {
    builder: GraphBuilder,
    used: Vec<u8>,
    hosts: u32,
}

impl Fabric {
    fn switches(&mut self, count: usize) -> Vec<SwitchId> {
        (0..count)
            .map(|_| {
                let name = format!("S-{}", self.used.len());
                self.used.push(0);
                self.builder.add_switch(&name, "", 64, SwitchFacts::default())
            })
            .collect()
    }

    fn hosts(&mut self, switch: SwitchId, count: u32) {
        for _ in 0..count {
            let name = format!("H-{}", self.hosts);
            self.hosts += 1;
            self.builder.add_adapter(&name, "", AdapterFacts { ports: 1, ..Default::default() });
            let endpoint =
                self.builder.add_endpoint(EndpointFacts { number: 1, ..Default::default() });
            let port = self.free(switch);
            self.builder.attach(endpoint, self.builder.port(switch, port).unwrap()).unwrap();
        }
    }

    fn cable(&mut self, a: SwitchId, b: SwitchId) {
        let (a, b) = ((a, self.free(a)), (b, self.free(b)));
        let [a, b] = [a, b].map(|(switch, port)| self.builder.port(switch, port).unwrap());
        self.builder.link(a, b).unwrap();
    }

    fn free(&mut self, switch: SwitchId) -> u8 {
        self.used[switch.index()] += 1;
        self.used[switch.index()]
    }

    fn detect(self) -> Result<FatTree, fabricast_topology::NotFatTree> {
        FatTree::detect(&self.builder.build().unwrap())
    }
}

/// Leaves with hosts, spines, and a cable from each to each.
fn two_levels(hosts: &[u32], spines: usize) -> (Fabric, Vec<SwitchId>, Vec<SwitchId>) {
    let mut fabric = Fabric::default();
    let leaves = fabric.switches(hosts.len());
    let spines = fabric.switches(spines);
    for (leaf, hosts) in leaves.iter().zip(hosts) {
        fabric.hosts(*leaf, *hosts);
        spines.iter().for_each(|spine| fabric.cable(*leaf, *spine));
    }
    (fabric, leaves, spines)
}

/// Two pods of two leaves and two level-1 switches: fabric, leaves, level-1 switches by pod.
fn two_pods(hosts: u32) -> (Fabric, Vec<SwitchId>, Vec<Vec<SwitchId>>) {
    let mut fabric = Fabric::default();
    let mut leaves = Vec::new();
    let pods: Vec<Vec<SwitchId>> = (0..2)
        .map(|_| {
            let (low, high) = (fabric.switches(2), fabric.switches(2));
            for leaf in &low {
                fabric.hosts(*leaf, hosts);
                high.iter().for_each(|spine| fabric.cable(*leaf, *spine));
            }
            leaves.extend(low);
            high
        })
        .collect();
    (fabric, leaves, pods)
}

/// Two pods under four core switches.
fn three_levels(hosts: u32) -> (Fabric, Vec<SwitchId>, Vec<SwitchId>) {
    let (mut fabric, leaves, pods) = two_pods(hosts);
    let cores = fabric.switches(4);
    for pod in &pods {
        for (core, index) in cores.iter().zip(0..) {
            fabric.cable(pod[index / 2], *core);
        }
    }
    (fabric, leaves, cores)
}

fn named(tree: &FatTree) -> Vec<String> {
    tree.irregularities().iter().map(ToString::to_string).collect()
}

#[test]
fn a_host_on_a_spine_is_named_and_the_spine_stays_one() {
    let (mut fabric, _, spines) = two_levels(&[4, 4, 4, 4], 2);
    fabric.hosts(spines[0], 1);
    let tree = fabric.detect().unwrap();
    assert_eq!((tree.params().levels, tree.params().spines), (2, 2));
    assert_eq!(named(&tree), ["endpoint H-16 on S-4, which is not a leaf switch"]);
}

#[test]
fn hosts_on_every_spine_are_named() {
    let (mut fabric, _, spines) = two_levels(&[4, 4, 4], 2);
    spines.iter().for_each(|spine| fabric.hosts(*spine, 2));
    let tree = fabric.detect().unwrap();
    assert_eq!((tree.params().leaves_per_cn, tree.irregularities().len()), (3, 4));
}

#[test]
fn a_host_on_a_core_switch_is_named_and_the_levels_stay() {
    let (mut fabric, _, cores) = three_levels(4);
    fabric.hosts(cores[2], 1);
    let tree = fabric.detect().unwrap();
    assert_eq!((tree.params().levels, tree.params().cns, tree.params().tns), (3, 2, 4));
    assert_eq!(named(&tree), ["endpoint H-16 on S-10, which is not a leaf switch"]);
}

#[test]
fn a_cable_to_the_core_switch_of_another_group_is_stray() {
    let (mut fabric, _, cores) = three_levels(4);
    fabric.cable(SwitchId(2), cores[3]);
    let tree = fabric.detect().unwrap();
    assert_eq!((tree.params().tns_per_group, tree.params().tns), (2, 4));
    assert_eq!(named(&tree), ["stray link between S-2[5] and S-11[3]"]);
}

#[test]
fn core_switches_above_all_level_1_switches_are_shared() {
    let (mut fabric, _, pods) = two_pods(4);
    let cores = fabric.switches(2);
    for spine in pods.iter().flatten() {
        cores.iter().for_each(|core| fabric.cable(*spine, *core));
    }
    let tree = fabric.detect().unwrap();
    assert_eq!((tree.params().levels, tree.params().tns_per_group, tree.params().tns), (3, 2, 4));
    assert_eq!(named(&tree), [""; 0]);
    // Trees at one position in both groups meet in no switch.
    let tops = [0, 1, 2, 3].map(|tn| tree.l2_switch(tn, 0).unwrap());
    assert_eq!(tops, [cores[0], cores[1], cores[1], cores[0]]);
}

#[test]
fn a_line_switch_that_serves_a_whole_pod_divides_the_spines_of_its_director() {
    let (mut fabric, _, pods) = two_pods(4);
    let (lines, spines) = (fabric.switches(2), fabric.switches(2));
    for (line, pod) in lines.iter().zip(&pods) {
        pod.iter().for_each(|spine| fabric.cable(*spine, *line));
        spines.iter().for_each(|spine| fabric.cable(*line, *spine));
    }
    let tree = fabric.detect().unwrap();
    assert_eq!((tree.params().levels, tree.params().blocks, tree.params().l3_per_tn), (4, 2, 1));
    assert_eq!(named(&tree), [""; 0]);
    for (tn, spine) in (0..2).zip(spines) {
        assert_eq!([0, 1].map(|block| tree.l2_switch(tn, block)), [Some(lines[0]), Some(lines[1])]);
        assert_eq!(tree.l3_switch(tn, 0), Some(spine));
    }
}

#[test]
fn a_leaf_with_few_or_no_hosts_is_still_a_leaf() {
    let (fabric, leaves, _) = two_levels(&[8, 8, 1, 0], 2);
    let graph = fabric.builder.build().unwrap();
    let tree = FatTree::detect(&graph).unwrap();
    assert_eq!((tree.params().levels, tree.params().leaves_per_cn), (2, 4));
    assert_eq!(tree.leaf_switch(3), leaves[3]);
    assert_eq!(tree.irregularities(), &[]);
}

#[test]
fn a_cable_between_two_leaves_under_spines_is_stray() {
    let (mut fabric, leaves, _) = two_levels(&[4, 4, 4], 2);
    fabric.cable(leaves[0], leaves[1]);
    let tree = fabric.detect().unwrap();
    assert_eq!(tree.params().leaves_per_cn, 3);
    assert_eq!(named(&tree), ["stray link between S-0[7] and S-1[7]"]);
}

#[test]
fn uneven_parallel_links_are_counted() {
    let (mut fabric, leaves, spines) = two_levels(&[4, 4], 2);
    fabric.cable(leaves[0], spines[1]);
    let tree = fabric.detect().unwrap();
    assert_eq!(tree.params().lanes0, 2);
    assert_eq!(
        named(&tree),
        [
            "1 instead of 2 links between S-0 and S-2",
            "1 instead of 2 links between S-1 and S-2",
            "1 instead of 2 links between S-1 and S-3",
        ]
    );
    assert!(tree.leaf_up(0, 3).is_some() && tree.leaf_up(0, 1).is_none());
}

#[test]
fn a_switch_without_links_is_unused() {
    let (mut fabric, ..) = two_levels(&[4, 4], 2);
    fabric.switches(1);
    assert_eq!(named(&fabric.detect().unwrap()), ["switch S-4 is unused"]);
}

#[test]
fn a_leaf_that_lost_all_links_keeps_its_place() {
    let (mut fabric, ..) = two_levels(&[4, 4], 2);
    let lost = fabric.switches(1)[0];
    fabric.hosts(lost, 4);
    let tree = fabric.detect().unwrap();
    assert_eq!(named(&tree), ["leaf switch S-4 has no link upwards"]);
    assert_eq!((tree.params().leaves_per_cn, tree.leaf_up(2, 0)), (3, None));
}

#[test]
fn meshes_and_separate_fabrics_are_refused_by_name() {
    let mut ring = Fabric::default();
    let switches = ring.switches(5);
    for at in 0..5 {
        ring.hosts(switches[at], 2);
        ring.cable(switches[at], switches[(at + 1) % 5]);
    }
    let refused = ring.detect().unwrap_err();
    assert_eq!(refused.reasons.len(), 5);
    let (mut parts, ..) = two_levels(&[4, 4], 2);
    let (leaves, spine) = (parts.switches(2), parts.switches(1)[0]);
    for leaf in leaves {
        parts.hosts(leaf, 4);
        parts.cable(leaf, spine);
    }
    let expected = Reason::NotConnected { a: "S-0".into(), b: "S-4".into() };
    assert_eq!(parts.detect().unwrap_err().reasons, [expected]);
    assert_eq!(Fabric::default().detect().unwrap_err().reasons, [Reason::NoEndpoints]);
}

/// Top midplanes of a fabric of which one block of four is populated.
#[test]
fn a_top_switch_that_leads_to_unpopulated_blocks_only_keeps_its_place() {
    let text = "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 4\nspines_per_cn = 2\n\
                tns_per_group = 2\nblocks = 4\ncns_per_block = 2\ncns = 2\n\
                endpoints_per_leaf = 2\nswitch_ports = 16\n";
    let graph = TopologySpec::parse(text).unwrap().generate().unwrap();
    let whole = FatTree::detect(&graph).unwrap();
    let (lower, upper) = (whole.l2_switch(1, 0).unwrap(), whole.l3_switch(1, 0).unwrap());
    let mut faults = Faults::new();
    for port in graph.ports(lower) {
        if matches!(graph.peer(port), Peer::Switch(far) if graph.switch_of(far) == upper) {
            faults.fail_link(&graph, port);
        }
    }
    let tree = FatTree::detect(&graph.without(&faults)).unwrap();
    assert_eq!(tree.params(), whole.params());
    assert_eq!(tree.place(upper), whole.place(upper));
    let [lower, upper] = [lower, upper].map(|switch| graph.switch_label(switch));
    assert_eq!(named(&tree), [format!("no link between {lower} and {upper}")]);
}

#[test]
fn the_papers_fabric_is_a_fat_tree_without_any_twentieth_of_its_links() {
    let whole = TopologySpec::paper().generate().unwrap();
    let between = |port: &PortId| matches!(whole.peer(*port), Peer::Switch(far) if *port < far);
    let ports = whole.switches().flat_map(|switch| whole.ports(switch));
    let links: Vec<PortId> = ports.filter(between).collect();
    for seed in 1..=10 {
        let (mut links, mut faults) = (links.clone(), Faults::new());
        SplitMix::new(seed).shuffle(&mut links);
        for port in &links[..links.len() / 20] {
            faults.fail_link(&whole, *port);
        }
        if let Err(refused) = FatTree::detect(&whole.without(&faults)) {
            panic!("seed {seed}: {refused}");
        }
    }
}

/// Six levels, each switch with two below and two above.
#[test]
fn a_tree_of_six_levels_is_refused() {
    let mut fabric = Fabric::default();
    let levels: Vec<Vec<SwitchId>> = (0..6).map(|_| fabric.switches(32)).collect();
    levels[0].iter().for_each(|leaf| fabric.hosts(*leaf, 2));
    for (level, pair) in levels.windows(2).enumerate() {
        for (at, low) in pair[0].iter().enumerate() {
            fabric.cable(*low, pair[1][at]);
            fabric.cable(*low, pair[1][at ^ (1 << level)]);
        }
    }
    let refused = fabric.detect().unwrap_err().to_string();
    assert!(refused.contains("is 5 links above the nearest leaf switch"), "{refused}");
}

#[test]
fn a_long_chain_of_switches_is_refused_quickly() {
    let mut chain = Fabric::default();
    let switches = chain.switches(20_000);
    for (at, pair) in switches.windows(2).enumerate() {
        if at % 2 == 0 {
            chain.hosts(pair[0], 1);
        }
        chain.cable(pair[0], pair[1]);
    }
    let refused = chain.detect().unwrap_err();
    assert!(matches!(refused.reasons[..], [Reason::TooSparse { .. }]), "{refused}");
}

#[test]
fn specs_with_bad_numbers_or_names_are_refused_by_field() {
    let error = |text: &str| {
        let spec = TopologySpec::parse(text);
        spec.and_then(|spec| spec.generate()).unwrap_err().to_string()
    };
    let leaf_spine = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 8\n";
    assert!(error("kind = 'torus'").contains("line 1"));
    assert!(error(&format!("{leaf_spine}leafs = 3")).contains("unknown field `leafs`"));
    assert_eq!(
        error("kind = 'leaf-spine'\nleaves = 0\nspines = 2\nendpoints_per_leaf = 8\n"),
        "leaves is 0, which must be at least 1"
    );
    assert_eq!(
        error(&format!("{leaf_spine}switch_ports = 9")),
        "a leaf switch needs 10 ports and has at most 9"
    );
    assert_eq!(error("kind = 'k-ary-3-level'\nk = 5"), "k is 5, which must be even and at least 2");
    assert_eq!(
        error("kind = 'k-ary-3-level'\nk = 8\nlanes0 = 3"),
        "k / 2 is 4, which must be a multiple of the 3 parallel links"
    );
    assert_eq!(
        error(
            "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\nendpoints_per_leaf = 1\ncns = 5"
        ),
        "cns is 5, which must be at most 4"
    );
    let faults = |faults: &str| error(&format!("{leaf_spine}[faults]\n{faults}"));
    assert_eq!(faults("switches = ['x']"), "faults.switches: no switch is called \"x\"");
    assert_eq!(faults("endpoints = ['x']"), "faults.endpoints: no endpoint 'x' in the topology");
    assert_eq!(
        faults("links = [{ switch = 'leaf0', to = 'leaf1' }]"),
        "faults.links[0]: there is no such link"
    );
    assert!(
        faults("links = [{ to = 'leaf1' }]").starts_with("faults.links[0]: give {switch, port}")
    );
}

#[test]
fn lines_and_spines_of_a_core_go_together() {
    let error = |line_ports: u32, core_spines: u32| {
        let text = format!(
            "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nendpoints_per_leaf = 2\n\
             spines = 2\nuplinks_per_spine = 1\ncores = 2\nline_ports = {line_ports}\n\
             core_spines = {core_spines}\n"
        );
        TopologySpec::parse(&text).unwrap().generate().map_err(|error| error.to_string())
    };
    assert_eq!(error(0, 2).unwrap_err(), "line_ports is 0, which must be at least 1");
    assert_eq!(
        error(4, 0).unwrap_err(),
        "line_ports is 4, which must be 0 where a core is a single switch"
    );
    let graph = error(0, 0).unwrap();
    assert_eq!(graph.switch_count(), 3 * 4 + 2);
    assert!(graph.find_switch("core1").is_some());
}

#[test]
fn faults_of_a_spec_are_left_out_of_the_graph() {
    let text = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 8\nlanes0 = 3\n\
        [faults]\nswitches = ['leaf3']\nendpoints = ['h1']\n\
        links = [{ switch = 'leaf0', port = 9 }, { switch = 'spine1', to = 'leaf1', lane = 1 }]\n";
    let graph: Graph = TopologySpec::parse(text).unwrap().generate().unwrap();
    assert_eq!((graph.switch_count(), graph.endpoint_count()), (5, 23));
    assert!(graph.find_endpoint("h1").is_none() && graph.find_endpoint("h24").is_none());
    let leaf0 = graph.find_switch("leaf0").unwrap();
    assert_eq!(graph.peer(graph.port(leaf0, 9).unwrap()), Peer::None);
    let tree = FatTree::detect(&graph).unwrap();
    let fewer = |irregularity: &Irregularity| match irregularity {
        Irregularity::FewerLinks { has, of, .. } => (*has, *of) == (2, 3),
        _ => false,
    };
    assert_eq!(tree.irregularities().len(), 2);
    assert!(tree.irregularities().iter().all(fewer));
}
