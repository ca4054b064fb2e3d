//! Real and quirky outputs load, come out again as they went in, and no text makes the reader
//! panic.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use fabricast_topology::ibnetdiscover::{ReadError, ReadProblem, Reader, read, write};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, Graph, Irregularity, Peer, Reason, SwitchId};
use proptest::prelude::*;

const CLUSTER: &str = include_str!("../../../data/cluster-edr-96.ibnetdiscover");
const ISR9024: &str = include_str!("../../../data/quirks/isr9024-two-port-hcas.ibnetdiscover");
const LOOPBACK: &str = include_str!("../../../data/quirks/loopback-cables.ibnetdiscover");
const ONE_HOST: &str = include_str!("../../../data/quirks/one-host.ibnetdiscover");
const TIMEOUT: &str = include_str!("../../../data/quirks/timeout-lines.ibnetdiscover");
const FILES: [&str; 5] = [CLUSTER, ISR9024, LOOPBACK, ONE_HOST, TIMEOUT];

/// Switches, endpoints, connected endpoints, links between switches.
fn sizes(graph: &Graph) -> (usize, usize, usize, usize) {
    let ports = || graph.switches().flat_map(|switch| graph.ports(switch));
    let link = |port: &_| matches!(graph.peer(*port), Peer::Switch(other) if *port < other);
    let attached = graph.endpoints().filter(|id| graph.attachment(*id).is_some()).count();
    let links = ports().filter(link).count();
    (graph.switch_count(), graph.endpoint_count(), attached, links)
}

fn small(ports: &str) -> String {
    format!(
        "Switch 4 \"S-a1\" # \"left\" base port 0 lid 1 lmc 0\n{ports}\n\
         Switch 4 \"S-b2\" # \"right\" base port 0 lid 2 lmc 0\n\
         Ca 2 \"H-c3\" # \"host\"\n"
    )
}

fn problem(text: &str) -> (u32, ReadProblem) {
    let error = read(text).unwrap_err();
    (error.line, error.problem)
}

#[test]
fn all_real_files_load() {
    let found = FILES.map(|text| sizes(&read(text).unwrap()));
    assert_eq!(found, [(6, 96, 96, 48), (2, 5, 5, 2), (2, 6, 6, 4), (1, 1, 1, 0), (1, 2, 2, 0)]);
}

/// Reads a text in parts of a number of bytes.
fn read_parts(text: &[u8], size: usize) -> Result<Graph, ReadError> {
    let mut reader = Reader::default();
    text.chunks(size).try_for_each(|part| reader.push(part))?;
    reader.finish()
}

#[test]
fn a_text_in_parts_gives_the_same_graph() {
    for text in FILES {
        // A character of more than one byte, and lines that end as in Windows.
        let text = text.replacen("# \"", "# \"\u{e9}", 1).replace('\n', "\r\n");
        let text = format!("\u{feff}{}", text.trim_end());
        for size in [1, 2, 7, 100, 4096, text.len()] {
            assert_eq!(read_parts(text.as_bytes(), size).unwrap(), read(&text).unwrap(), "{size}");
        }
    }
}

#[test]
fn errors_of_a_text_in_parts_name_the_line() {
    let error = |text: &[u8], size| {
        let error = read_parts(text, size).unwrap_err();
        (error.line, error.problem)
    };
    let bad = small("[1] \"S-b2\"[9]");
    for size in [1, 50, 1000] {
        assert_eq!(error(bad.as_bytes(), size), problem(&bad));
        assert_eq!(error(b"#\n\xff\n", size), (2, ReadProblem::NotText));
        assert_eq!(error(b"# \xc3", size), (1, ReadProblem::NotText));
        assert_eq!(error(b"", size), (1, ReadProblem::NoNodes));
    }
}

#[test]
fn export_then_import_gives_an_equal_graph() {
    for text in FILES {
        let graph = read(text).unwrap();
        assert_eq!(read(&write(&graph)).unwrap(), graph);
    }
}

#[test]
fn generated_fabrics_survive_export_and_import_with_their_faults() {
    let text = "kind = 'k-ary-3-level'\nk = 4\n[faults]\nswitches = ['core1']\n\
                links = [{ endpoint = 'h3' }, { switch = 'cn0-leaf0', to = 'cn0-spine1' }]\n";
    for spec in [TopologySpec::demo(), TopologySpec::parse(text).unwrap()] {
        let graph = spec.generate().unwrap();
        assert_eq!(read(&write(&graph)).unwrap(), graph);
    }
}

#[test]
fn the_export_of_the_cluster_is_its_file_but_for_the_header() {
    let body = |text: &str| {
        let start = text.find("vendid").unwrap();
        text[start..].trim_end().to_owned()
    };
    assert_eq!(body(&write(&read(CLUSTER).unwrap())), body(CLUSTER));
}

#[test]
fn line_ends_and_byte_order_mark_do_not_matter() {
    for text in FILES {
        let graph = read(text).unwrap();
        assert_eq!(read(&text.replace('\n', "\r\n")).unwrap(), graph);
        assert_eq!(read(&format!("\u{feff}{text}")).unwrap(), graph);
    }
}

#[test]
fn the_cluster_is_four_leaves_under_two_spines_with_six_lanes() {
    let graph = read(CLUSTER).unwrap();
    let tree = FatTree::detect(&graph).unwrap();
    let params = tree.params();
    assert_eq!((params.levels, params.cns, params.leaves_per_cn), (2, 1, 4));
    assert_eq!((params.spines, params.lanes0, params.endpoints_per_leaf), (2, 6, 24));
    assert_eq!(tree.irregularities(), &[]);
    let node018 = graph.find_endpoint("node018 HCA-1").unwrap();
    assert_eq!(tree.leaf_of_endpoint(node018), Some(0));
    let slots: Vec<u8> =
        (0..12).map(|slot| graph.port_number(tree.leaf_up(0, slot).unwrap())).collect();
    // The spine listed first, S-ec0d9a0300ec8200, is at ports 19 to 24 of this leaf.
    assert_eq!(slots, [19, 20, 21, 22, 23, 24, 13, 14, 15, 16, 17, 18]);
}

#[test]
fn two_linked_switches_with_hosts_are_no_fat_tree() {
    for (text, a_hosts, b_hosts) in [(ISR9024, 3, 2), (LOOPBACK, 2, 4)] {
        let graph = read(text).unwrap();
        let refused = FatTree::detect(&graph).unwrap_err();
        let [Reason::LeavesLinked { a, a_endpoints, b, b_endpoints }] = &refused.reasons[..] else {
            panic!("{refused}");
        };
        assert_eq!((*a_endpoints, *b_endpoints), (a_hosts, b_hosts));
        assert_eq!(*a, graph.switch_label(SwitchId(0)));
        assert_eq!(*b, graph.switch_label(SwitchId(1)));
        assert!(refused.to_string().contains("neither is above the other"));
    }
}

#[test]
fn a_single_switch_is_a_tree_of_one_level() {
    for (text, hosts) in [(ONE_HOST, 1), (TIMEOUT, 2)] {
        let tree = FatTree::detect(&read(text).unwrap()).unwrap();
        assert_eq!((tree.params().levels, tree.params().endpoints_per_leaf), (1, hosts));
    }
}

#[test]
fn ports_of_one_adapter_are_endpoints_of_their_own() {
    let graph = read(ISR9024).unwrap();
    assert!(graph.find_endpoint("H-0008f10403960558/P1").is_some());
    let second = graph.find_endpoint("H-0008f10403960558/P2").unwrap();
    assert_eq!(graph.endpoint_facts(second).port_guid, 0x0008_f104_0396_055a);
    // Both ends report their own idea of the speed.
    let first = graph.find_endpoint("H-0008f10403960558/P1").unwrap();
    let port = graph.attachment(first).unwrap();
    assert_eq!((graph.endpoint_speed(first), graph.port_speed(port)), ("1xSDR", "4xSDR"));
}

#[test]
fn loopback_cables_stay_in_the_graph_and_out_of_the_tree() {
    let only = LOOPBACK.split("vendid").nth(1).unwrap();
    let only = only.replace("[3] \"S-f4521403005764b0\"[1]", "# [3]");
    let hosts = "Ca 1 \"H-e41d2d030061f957\" # \"a\"\nCa 2 \"H-0002c903003421b0\" # \"b\"\n";
    let graph = read(&format!("vendid{only}{hosts}")).unwrap();
    let tree = FatTree::detect(&graph).unwrap();
    assert_eq!(tree.params().levels, 1);
    assert_eq!(tree.irregularities().len(), 3);
    assert!(
        tree.irregularities()
            .iter()
            .all(|irregularity| matches!(irregularity, Irregularity::LoopbackCable { .. }))
    );
}

#[test]
fn guids_match_in_either_spelling() {
    let text = CLUSTER.replace("\"S-ec0d9a0300ec8240\"[", "\"S-0xec0d9a0300ec8240\"[");
    let text = text.replace("\"H-08c0eb0300ddc0f6\"[1]", "\"H-8c0eb0300ddc0f6\"[1]");
    assert_ne!(text, CLUSTER);
    assert_eq!(read(&text).unwrap(), read(CLUSTER).unwrap());
}

#[test]
fn a_cable_may_be_listed_from_either_side_alone() {
    let both = small("[1] \"S-b2\"[3]\n[2] \"H-c3\"[2]") + "[2] \"S-a1\"[2]\n";
    let left = small("[1] \"S-b2\"[3]\n[2] \"H-c3\"[2]");
    let right = small("").replace("Ca 2", "[3] \"S-a1\"[1]\nCa 2") + "[2] \"S-a1\"[2]\n";
    let graph = read(&both).unwrap();
    assert_eq!(sizes(&graph), (2, 1, 1, 1));
    assert_eq!(read(&left).unwrap(), graph);
    assert_eq!(read(&right).unwrap(), graph);
}

#[test]
fn a_missing_peer_port_is_port_one_as_for_ibsim() {
    let graph = read(&small("[2] \"H-c3\"")).unwrap();
    assert_eq!(graph.endpoint_facts(graph.find_endpoint("host").unwrap()).number, 1);
}

#[test]
fn what_only_the_switch_says_of_an_endpoint_is_kept() {
    let graph = read(&small("[2] \"H-c3\"[1](c4) # \"host\" lid 9 4xEDR")).unwrap();
    let host = graph.find_endpoint("host").unwrap();
    assert_eq!((graph.endpoint_facts(host).lid, graph.endpoint_facts(host).port_guid), (9, 0xc4));
}

#[test]
fn headings_external_ports_routers_and_old_adapters_are_understood() {
    let text = "Chassis 1 (guid 0x8f1)\n\nSpine Nodes\nSpine 1 Anafa 1\n\
        Switch 4 \"S-a1\" # \"spine \"A\" # 1\" enhanced port 0 lid 7 lmc 2\n\
        [1][ext 5] \"R-1\"[1][ext 2](11) # \"router\" lid 3 4xEDR\n\
        [2] \"H-2\"[1]\n\nNon-Chassis Nodes\n\
        rtguid=0x1\nRt 1 \"R-1\" # \"router\"\n\nhcaguid=0x2\nHca 1 \"H-2\" # old host lid 3\n";
    let graph = read(text).unwrap();
    assert_eq!(sizes(&graph), (1, 2, 2, 0));
    assert_eq!(graph.switch_description(SwitchId(0)), "spine \"A\" # 1");
    let facts = graph.switch_facts(SwitchId(0));
    assert_eq!((facts.enhanced_port0, facts.lid, facts.lmc), (true, 7, 2));
    assert!(graph.find_endpoint("router").is_some() && graph.find_endpoint("old host").is_some());
    assert_eq!(read(&write(&graph)).unwrap(), graph);
}

#[test]
fn a_listed_port_without_a_cable_is_an_endpoint() {
    for port in ["[2](c5)", "#[2](c5)", "#[2](c5) # lid 3 lmc 1", "[2](c5) # lid 3 lmc 1"] {
        let graph = read(&(small("") + port)).unwrap();
        assert_eq!(sizes(&graph), (2, 1, 0, 0));
        assert_eq!(read(&write(&graph)).unwrap(), graph);
    }
}

#[test]
fn contradictions_are_named_with_both_lines() {
    let text = small("[1] \"S-b2\"[3]").replace("Ca 2", "[3] \"S-a1\"[4]\nCa 2");
    let contradiction = ReadProblem::Contradiction {
        node: "S-b2".into(),
        port: 3,
        here: "S-a1[4]".into(),
        there: "S-a1[1]".into(),
        line: 2,
    };
    assert_eq!(problem(&text), (4, contradiction));
    let (line, twice) = problem(&small("[1] \"S-b2\"[3]\n[1] \"S-b2\"[4]"));
    assert!(line == 3 && matches!(twice, ReadProblem::Contradiction { line: 2, port: 1, .. }));
    let (line, shared) = problem(&small("[1] \"S-b2\"[3]\n[2] \"S-b2\"[3]"));
    assert!(line == 3 && matches!(shared, ReadProblem::Contradiction { line: 2, port: 3, .. }));
}

#[test]
fn bad_lines_are_named() {
    let text = |ports| problem(&small(ports));
    let node = |name: &str| name.to_owned();
    assert_eq!(
        text("[9] \"S-b2\"[3]"),
        (2, ReadProblem::NoSuchPort { node: node("S-a1"), port: 9, ports: 4 })
    );
    assert_eq!(
        text("[1] \"S-b2\"[5]"),
        (2, ReadProblem::NoSuchPort { node: node("S-b2"), port: 5, ports: 4 })
    );
    assert_eq!(
        text("[0] \"S-b2\"[1]"),
        (2, ReadProblem::NoSuchPort { node: node("S-a1"), port: 0, ports: 4 })
    );
    assert_eq!(text("[1] \"S-ff\"[1]"), (2, ReadProblem::UnknownPeer { node: node("S-ff") }));
    assert_eq!(
        text("Switch 4 \"S-00a1\""),
        (2, ReadProblem::DuplicateNode { node: node("S-00a1"), line: 1 })
    );
    assert_eq!(text("Tca 1 \"T-1\""), (2, ReadProblem::UnknownKind { kind: node("Tca") }));
    assert!(matches!(text("[1] \"S-b"), (2, ReadProblem::Malformed { .. })));
    assert!(matches!(text("vendid=0xzz"), (2, ReadProblem::Malformed { .. })));
    assert_eq!(problem("[1] \"S-b2\"[3]"), (1, ReadProblem::PortWithoutNode));
    assert_eq!(problem(""), (1, ReadProblem::NoNodes));
    assert_eq!(problem("no\ntopology"), (2, ReadProblem::NoNodes));
    let pair = "Ca 1 \"H-1\"\n[1] \"H-2\"[1]\nCa 1 \"H-2\"\n";
    assert!(matches!(problem(pair), (2, ReadProblem::AdapterToAdapter { .. })));
    let shown = read(&small("[9] \"S-b2\"[3]")).unwrap_err().to_string();
    assert_eq!(shown, "line 2: port 9 of S-a1, which has ports 1 to 4: \"[9] \\\"S-b2\\\"[3]\"");
}

#[test]
fn a_file_cut_off_inside_the_switches_is_refused() {
    // The first port line names an adapter, which comes last in the file.
    let (start, end) = (CLUSTER.find("[2]").unwrap(), CLUSTER.find("\nCa").unwrap());
    for cut in (start..end).step_by(7) {
        assert!(read(&CLUSTER[..cut]).is_err(), "cut at {cut}");
    }
}

/// A real file with some bytes replaced, removed or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..5u8), 1..12);
    (0..FILES.len(), edits).prop_map(|(file, edits)| {
        let mut bytes = FILES[file].as_bytes().to_vec();
        for (at, byte, edit) in edits {
            let at = at.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes[at] = b"[]()\"#0123456789x\n\t"[usize::from(byte) % 19],
                2 => bytes.truncate(at.max(1)),
                3 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len() - 1).max(at))),
                _ => {
                    let end = (at + usize::from(byte)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Lines as they occur in these files, in any order.
fn shuffled() -> impl Strategy<Value = String> {
    let lines: Vec<String> =
        FILES[1..].iter().flat_map(|text| text.lines()).map(Into::into).collect();
    prop::collection::vec(prop::sample::select(lines), 0..40).prop_map(|lines| lines.join("\n"))
}

fn check(text: &str) -> Result<(), TestCaseError> {
    match read(text) {
        Ok(graph) => {
            let again = write(&graph);
            prop_assert_eq!(read(&again), Ok(graph.clone()), "{}", again);
            // Any answer, no panic.
            FatTree::detect(&graph).map_or_else(|refused| drop(refused.to_string()), drop);
        }
        Err(error) => {
            let lines = u32::try_from(text.lines().count()).unwrap();
            prop_assert!((1..=lines.max(1)).contains(&error.line), "{}", error);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_a_graph_or_an_error(text in "\\PC*|[\\[\\]()\"#= 0-9a-fSHCa-z\n\r\t-]{0,300}") {
        check(&text)?;
    }

    /// `ibnetdiscover` lists nodes in no particular order.
    #[test]
    fn the_order_of_the_paragraphs_does_not_change_what_is_found(
        order in Just((0..1_000).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let spec = TopologySpec::parse(
            "kind = 'cn-tn-fat-tree'\nq = 3\nm = 2\np = 3\nk = 2\nw = 3\nendpoints_per_leaf = 2\n\
             lanes0 = 2\nlanes1 = 2\n[faults]\nswitches = ['cn0-spine1', 'tn4-upper0']\n",
        );
        let graph = spec.unwrap().generate().unwrap();
        let text = write(&graph);
        let mut nodes: Vec<&str> = text.split("\n\n").collect();
        prop_assert!(nodes.len() < order.len());
        let places = order.iter().filter(|place| **place < nodes.len());
        nodes = places.map(|place| nodes[*place]).collect();
        let tree = FatTree::detect(&read(&nodes.join("\n\n")).unwrap()).unwrap();
        let whole = FatTree::detect(&graph).unwrap();
        prop_assert_eq!(tree.params(), whole.params());
        let levels = |tree: &FatTree| -> Vec<u32> {
            let level = |irregularity: &Irregularity| match irregularity {
                Irregularity::MissingSwitch { level, .. } => *level,
                other => panic!("{other}"),
            };
            tree.irregularities().iter().map(level).collect()
        };
        prop_assert_eq!(levels(&tree), levels(&whole));
        prop_assert_eq!(levels(&whole), [1, 3]);
    }

    #[test]
    fn mutated_files_give_a_graph_that_survives_export_or_an_error(text in mutated()) {
        check(&text)?;
    }

    #[test]
    fn shuffled_lines_give_a_graph_that_survives_export_or_an_error(text in shuffled()) {
        check(&text)?;
    }
}

#[test]
fn every_endpoint_is_found_by_each_of_its_names() {
    for text in FILES {
        let graph = read(text).unwrap();
        for endpoint in graph.endpoints() {
            let (adapter, facts) = (graph.adapter_of(endpoint), *graph.endpoint_facts(endpoint));
            let guid = facts.port_guid;
            let mut names = vec![graph.endpoint_name(endpoint).to_owned()];
            if guid != 0 {
                names.extend([format!("{guid:x}"), format!("{guid:016X}"), format!("0x{guid:x}")]);
                names.push(format!("0X{guid:016x}"));
            }
            names.push(format!("{}/P{}", graph.adapter_name(adapter), facts.number));
            for name in names {
                assert_eq!(graph.resolve_endpoint(&name), Ok(endpoint), "{name}");
            }
            let id = graph.adapter_name(adapter);
            let only = graph.adapter_endpoints(adapter).len() == 1;
            for name in [id.to_owned(), format!("0x{:x}", graph.adapter_facts(adapter).guid)] {
                assert_eq!(graph.resolve_endpoint(&name).is_ok(), only, "{name}");
            }
        }
    }
}

#[test]
fn a_name_of_several_endpoints_is_refused_with_two_of_them() {
    let graph = read(ISR9024).unwrap();
    let refused = |name: &str| graph.resolve_endpoint(name).unwrap_err().to_string();
    assert_eq!(
        refused("0x8f10403960558"),
        "'0x8f10403960558' is a name of 'H-0008f10403960558/P1' and of 'H-0008f10403960558/P2'"
    );
    let shared = refused("MT23108 InfiniHost Mellanox Technologies");
    assert!(shared.contains("' is a name of 'H-"), "{shared}");
    for unknown in
        ["", "H-", "0x", "0x0", "/P1", "0008f1040396ffff", "S-0008f10400410015", "+8f10403960559"]
    {
        assert_eq!(refused(unknown), format!("no endpoint '{unknown}' in the topology"));
    }
}

#[test]
fn a_description_that_imitates_the_guid_of_another_adapter_is_no_way_to_take_its_place() {
    let text = small(
        "[1] \"H-c3\"[1](c30001) # \"host\" lid 3 4xEDR\n[2] \"H-d4\"[1](d40001) # \"0xc30001\" lid 4 4xEDR",
    ) + "Ca 1 \"H-d4\" # \"0xc30001\"\n";
    let graph = read(&text).unwrap();
    assert_eq!(
        graph.resolve_endpoint("0xc30001").unwrap_err().to_string(),
        "'0xc30001' is a name of 'host' and of '0xc30001'"
    );
    assert_eq!(graph.endpoint_name(graph.resolve_endpoint("C30001").unwrap()), "host");
    assert_eq!(graph.endpoint_name(graph.resolve_endpoint("H-d4").unwrap()), "0xc30001");
}
