//! Generated fabrics have the degrees, distances and counts that their kinds promise.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;

use fabricast_topology::spec::{PRESETS, SpecError, TopologySpec};
use fabricast_topology::{FatTree, Graph, Peer, Reason, SwitchId, ibnetdiscover};
use proptest::prelude::*;

fn generate(text: &str) -> Graph {
    TopologySpec::parse(text).unwrap().generate().unwrap()
}

fn refusal(text: &str) -> String {
    TopologySpec::parse(text).unwrap().generate().unwrap_err().to_string()
}

/// The switches at the far ends of a switch's links, by port.
fn neighbours(graph: &Graph, switch: SwitchId) -> Vec<SwitchId> {
    let far = |port| match graph.peer(port) {
        Peer::Switch(peer) => Some(graph.switch_of(peer)),
        Peer::None | Peer::Endpoint(_) => None,
    };
    graph.ports(switch).filter_map(far).collect()
}

/// Links to other switches, by switch.
fn degrees(graph: &Graph) -> Vec<usize> {
    graph.switches().map(|switch| neighbours(graph, switch).len()).collect()
}

/// The most hops from a switch to any other; none if one is not reached.
fn eccentricity(graph: &Graph, from: SwitchId) -> Option<u32> {
    let mut hops = vec![None; graph.switch_count()];
    hops[from.index()] = Some(0);
    let mut queue = vec![from];
    let mut done = 0;
    while let Some(at) = queue.get(done).copied() {
        done += 1;
        for to in neighbours(graph, at) {
            if hops[to.index()].is_none() {
                hops[to.index()] = hops[at.index()].map(|hops: u32| hops + 1);
                queue.push(to);
            }
        }
    }
    hops.into_iter().collect::<Option<Vec<u32>>>()?.into_iter().max()
}

fn diameter(graph: &Graph) -> Option<u32> {
    let all: Option<Vec<u32>> =
        graph.switches().map(|switch| eccentricity(graph, switch)).collect();
    all?.into_iter().max()
}

fn is_simple(graph: &Graph) -> bool {
    graph.switches().all(|switch| {
        let all = neighbours(graph, switch);
        let different: BTreeSet<_> = all.iter().collect();
        different.len() == all.len() && !different.contains(&switch)
    })
}

/// MR4LMS §4.2: switches, endpoints and the diameter of every fabric it measures.
#[test]
fn the_papers_fabrics_have_the_published_sizes() {
    let sizes = |name| {
        let graph = TopologySpec::preset(name).unwrap().generate().unwrap();
        let hops = eccentricity(&graph, SwitchId(0));
        (graph.switch_count(), graph.endpoint_count(), hops.unwrap())
    };
    assert_eq!(sizes("fat-tree"), (2_000, 16_000, 4));
    assert_eq!(sizes("torus"), (12_000, 24_000, 15 + 10 + 10));
    assert_eq!(sizes("dragonfly"), (163 * 18, 26_406, 3));
    let (switches, endpoints, hops) = sizes("random");
    assert_eq!((switches, endpoints), (2_048, 40_960));
    assert!((3..=5).contains(&hops), "20 links: log20 of 2 048 is 2.5");
    // Leaf, level 1, line, spine, and down again; to a line as well if it serves another path.
    assert_eq!(sizes("bluelight"), (34 * 32 + 8 * (16 + 9), 8_704, 6));
    assert_eq!(sizes("taihulight"), (160 * 32 + 32 * (18 + 9), 40_960, 6));
}

/// MR4LMS §4.2: BlueLight has 8 paths from each leaf switch to a topmost switch, TaihuLight 2.
#[test]
fn every_midplane_has_the_published_paths_to_every_core() {
    for (name, midplanes, paths) in [("bluelight", 34, 8), ("taihulight", 160, 2)] {
        let graph = TopologySpec::preset(name).unwrap().generate().unwrap();
        let core = |switch| {
            let text = graph.switch_description(switch);
            text.strip_prefix("core").map(|rest| rest.split('-').next().unwrap().to_owned())
        };
        for midplane in 0..midplanes {
            let mut ways = Vec::new();
            for spine in 0..16 {
                let spine = graph.find_switch(&format!("cn{midplane}-spine{spine}")).unwrap();
                let cores: BTreeSet<_> =
                    neighbours(&graph, spine).into_iter().filter_map(core).collect();
                assert_eq!(cores.len(), 4, "different cores");
                ways.extend(cores);
            }
            ways.sort_unstable();
            assert!(ways.chunk_by(|a, b| a == b).all(|same| same.len() == paths), "{name}");
        }
    }
}

#[test]
fn every_preset_has_the_endpoints_its_text_says() {
    for preset in &PRESETS {
        let graph = TopologySpec::preset(preset.name).unwrap().generate().unwrap();
        let mut count = graph.endpoint_count().to_string();
        count.insert(count.len() - 3, ' ');
        assert!(preset.what.contains(&count), "{}: {count}", preset.name);
    }
    assert_eq!(TopologySpec::preset("nothing"), None);
}

#[test]
fn what_is_no_fat_tree_is_told_so_by_its_links() {
    for text in [
        "kind = 'torus'\nx = 4\ny = 3\nz = 1\nendpoints_per_switch = 1",
        "kind = 'dragonfly'\na = 3\np = 2\nh = 1",
        "kind = 'random-regular'\nswitches = 8\nswitch_ports = 5\nendpoints_per_switch = 2",
    ] {
        let refused = FatTree::detect(&generate(text)).unwrap_err();
        assert!(matches!(refused.reasons[0], Reason::LeavesLinked { .. }), "{refused}");
    }
}

#[test]
fn bad_numbers_are_refused_by_field() {
    let torus = "kind = 'torus'\nx = 4\ny = 3\nz = 2\n";
    for (text, message) in [
        (
            "kind = 'torus'\nx = 4\ny = 0\nz = 2\nendpoints_per_switch = 1".to_owned(),
            "y is 0, which must be at least 1",
        ),
        (
            format!("{torus}endpoints_per_switch = 4\nswitch_ports = 8"),
            "a torus switch needs 9 ports and has at most 8",
        ),
        (
            "kind = 'torus'\nx = 99999\ny = 99999\nz = 99999\nendpoints_per_switch = 1".to_owned(),
            "6999790002099993 switch ports are more than 2147483647",
        ),
        (
            "kind = 'dragonfly'\na = 2\np = 1\nh = 1\ngroups = 4".to_owned(),
            "groups is 4, which must be at most 3",
        ),
        (
            "kind = 'dragonfly'\na = 200\np = 50\nh = 9".to_owned(),
            "a dragonfly switch needs 258 ports and has at most 254",
        ),
        (
            "kind = 'random-regular'\nswitches = 9\nswitch_ports = 4\nendpoints_per_switch = 3"
                .to_owned(),
            "links_per_switch is 1, which must be at least 2 to connect 9 switches",
        ),
        (
            "kind = 'random-regular'\nswitches = 9\nswitch_ports = 4\nendpoints_per_switch = 1\n\
             links_per_switch = 4"
                .to_owned(),
            "a random switch needs 5 ports and has at most 4",
        ),
    ] {
        assert_eq!(refusal(&text), message);
    }
    let bluelight = PRESETS.iter().find(|preset| preset.name == "bluelight").unwrap().toml;
    assert_eq!(
        refusal(&bluelight.replace("cores = 8", "cores = 7")),
        "cores is 7, which must be a divisor of the 64 uplinks of a midplane"
    );
    assert_eq!(
        refusal(&bluelight.replace("core_lanes = 2", "core_lanes = 3")),
        "a core line switch needs 45 ports and has at most 36"
    );
    let unknown = TopologySpec::parse("kind = 'torus'\nx = 4\ny = 3\nz = 2\nw = 1\n");
    let Err(SpecError::Syntax(message)) = unknown else { panic!("{unknown:?}") };
    assert!(message.contains("unknown field `w`") && message.contains("line 5"), "{message}");
}

#[test]
fn faults_by_name_work_on_every_kind() {
    let text = "kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 1\n[faults]\n\
                switches = ['t0-0-0']\nlinks = [{ switch = 't1-1-0', to = 't2-1-0' }]\n";
    let graph = generate(text);
    assert_eq!((graph.switch_count(), graph.endpoint_count()), (8, 8));
    assert_eq!(degrees(&graph).iter().sum::<usize>(), 2 * (18 - 4 - 1));
}

/// The random network exists wherever a simple regular one does, and is one.
#[test]
fn small_random_networks_are_simple_regular_and_connected() {
    for (switches, degree, seed) in
        (3u32..11).flat_map(|n| (2..n).flat_map(move |d| (0..4u64).map(move |seed| (n, d, seed))))
    {
        let graph = generate(&format!(
            "kind = 'random-regular'\nswitches = {switches}\nswitch_ports = 40\nseed = {seed}\n\
             endpoints_per_switch = 1\nlinks_per_switch = {degree}"
        ));
        let what = format!("{switches} switches, {degree} links, seed {seed}");
        assert!(is_simple(&graph) && diameter(&graph).is_some(), "{what}");
        let mut expected = vec![degree as usize; switches as usize];
        expected[switches as usize - 1] -= (switches * degree % 2) as usize;
        assert_eq!(degrees(&graph), expected, "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_torus_has_its_degree_and_diameter(x in 1u32..7, y in 1u32..6, z in 1u32..5, e in 1u32..3) {
        let graph = generate(&format!(
            "kind = 'torus'\nx = {x}\ny = {y}\nz = {z}\nendpoints_per_switch = {e}"
        ));
        let degree: u32 = [x, y, z].iter().map(|size| size.min(&3) - 1).sum();
        prop_assert!(degrees(&graph).iter().all(|count| *count == degree as usize));
        prop_assert!(is_simple(&graph));
        prop_assert_eq!(diameter(&graph), Some(x / 2 + y / 2 + z / 2));
        prop_assert_eq!(graph.endpoint_count(), (x * y * z * e) as usize);
        prop_assert_eq!(ibnetdiscover::read(&ibnetdiscover::write(&graph)).unwrap(), graph);
    }

    #[test]
    fn a_dragonfly_has_its_degree_and_at_most_three_hops(a in 1u32..6, p in 1u32..3, h in 1u32..4) {
        let graph = generate(&format!("kind = 'dragonfly'\na = {a}\np = {p}\nh = {h}"));
        let groups = a * h + 1;
        prop_assert_eq!(graph.switch_count(), (groups * a) as usize);
        prop_assert_eq!(graph.endpoint_count(), (groups * a * p) as usize);
        prop_assert!(degrees(&graph).iter().all(|count| *count == (a - 1 + h) as usize));
        prop_assert!(is_simple(&graph));
        prop_assert!(diameter(&graph).is_some_and(|hops| hops <= 3));
        // Every two groups are linked once.
        let links = (0..groups).map(|group| {
            let own = (group * a..(group + 1) * a).map(SwitchId);
            let far: BTreeSet<u32> =
                own.flat_map(|switch| neighbours(&graph, switch)).map(|to| to.0 / a).collect();
            far.into_iter().filter(|other| *other != group).count()
        });
        prop_assert!(links.into_iter().all(|count| count == groups as usize - 1));
        prop_assert_eq!(ibnetdiscover::read(&ibnetdiscover::write(&graph)).unwrap(), graph);
    }

    #[test]
    fn a_partial_dragonfly_is_connected(a in 1u32..5, h in 1u32..4, part in 0u32..100) {
        let groups = 1 + part % (a * h + 1);
        let text = format!("kind = 'dragonfly'\na = {a}\np = 1\nh = {h}\ng = {groups}");
        prop_assert!(diameter(&generate(&text)).is_some_and(|hops| hops <= 3));
    }

    #[test]
    fn a_random_network_is_regular_connected_and_follows_its_seed(
        switches in 1u32..60, links in 2u32..30, seed: u64,
    ) {
        let text = |seed: u64| format!(
            "kind = 'random-regular'\nswitches = {switches}\nswitch_ports = 32\n\
             endpoints_per_switch = 2\nlinks_per_switch = {links}\nseed = {}", seed >> 1
        );
        let graph = generate(&text(seed));
        prop_assert!(diameter(&graph).is_some());
        prop_assert_eq!(is_simple(&graph), links < switches || switches == 1);
        let mut expected = vec![if switches == 1 { 0 } else { links as usize }; switches as usize];
        if switches > 1 {
            expected[switches as usize - 1] -= (switches * links % 2) as usize;
        }
        prop_assert_eq!(degrees(&graph), expected);
        prop_assert!(generate(&text(seed)) == graph);
        prop_assert_eq!(ibnetdiscover::read(&ibnetdiscover::write(&graph)).unwrap(), graph);
    }

    #[test]
    fn a_pruned_tree_has_its_links_and_six_hops(
        midplanes in 1u32..6, leaves in 1u32..4, spines in 1u32..4, up in 1u32..4, cores in 1u32..4,
        line_ports in 1u32..5,
    ) {
        let text = |cores: u32| format!(
            "kind = 'pruned-fat-tree'\nmidplanes = {midplanes}\nleaves = {leaves}\nspines = {spines}\n\
             uplinks_per_spine = {up}\ncores = {cores}\nline_ports = {line_ports}\ncore_spines = 2\n\
             endpoints_per_leaf = 2\ncore_lanes = 2"
        );
        prop_assume!((spines * up).is_multiple_of(cores));
        let graph = generate(&text(cores));
        let paths = spines * up / cores;
        let lines = paths * midplanes.div_ceil(line_ports);
        prop_assert_eq!(graph.endpoint_count(), (midplanes * leaves * 2) as usize);
        prop_assert_eq!(
            graph.switch_count(), (midplanes * (leaves + spines) + cores * (lines + 2)) as usize
        );
        let links = midplanes * spines * (leaves + up) + cores * lines * 2 * 2;
        prop_assert_eq!(graph.summary().switch_links, links as usize);
        prop_assert!(diameter(&graph).is_some());
        let leaf = |hops: u32| hops <= 8; // from a leaf to a line it has no uplink to
        prop_assert!(eccentricity(&graph, SwitchId(0)).is_some_and(leaf));
        prop_assert_eq!(ibnetdiscover::read(&ibnetdiscover::write(&graph)).unwrap(), graph);
    }
}
