//! Files survive a round trip, and every kind of damage is named by line and field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_routing::formats::{
    FormatProblem, GroupRecord, RoutesFile, allot_mgids, read_groups, read_routes, read_tables,
    write_groups, write_routes, write_tables,
};
use fabricast_routing::{
    Change, EngineOptions, FixedRootEngine, MergePartner, Mr4lms, Mr4lmsOptions, RoutingEngine,
    table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid, PortId, SplitMix, TableKind};

fn fabric() -> Arc<Graph> {
    let text = "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2\nlanes0 = 2";
    Arc::new(TopologySpec::parse(text).expect("valid").generate().expect("valid"))
}

fn engine(graph: &Arc<Graph>, tables: TableKind) -> FixedRootEngine {
    let fat_tree = Arc::new(FatTree::detect(graph).expect("a fat tree"));
    let mut engine = FixedRootEngine::new(graph.clone(), fat_tree, EngineOptions::new(4, tables))
        .expect("colors in range");
    let puts: Vec<Change> = (0..12u32)
        .map(|mgid| Change::Put {
            mgid: Mgid(mgid),
            members: (0..6).filter(|at| (at * 5 + mgid) % 3 != 0).map(EndpointId).collect(),
        })
        .collect();
    engine.apply(&puts).expect("valid groups");
    let mut faults = Faults::new();
    let leaf = graph.find_switch("leaf0").expect("it is generated");
    faults.fail_link(graph, graph.port(leaf, 3).expect("a leaf has 6 ports"));
    faults.fail_endpoint(EndpointId(5));
    engine.set_faults(faults);
    engine
}

fn groups_problem(text: &str) -> (usize, FormatProblem) {
    let error = read_groups(text, &fabric()).expect_err("the text is wrong");
    (error.line, error.problem)
}

fn routes_problem(text: &str) -> (usize, FormatProblem) {
    let error = read_routes(text, &fabric()).expect_err("the text is wrong");
    (error.line, error.problem)
}

fn tables_problem(text: &str, tables: TableKind) -> (usize, String) {
    let error = read_tables(text, &fabric(), tables, 4).expect_err("the text is wrong");
    (error.line, error.problem.to_string())
}

fn field(name: &str) -> String {
    name.to_owned()
}

#[test]
fn groups_survive_a_round_trip() {
    let graph = fabric();
    let text = "{\"mgid\":17,\"name\":\"rows/17\",\"members\":[\"h1\",\"h0\"]}\n\
                {\"name\":\"rows/18\",\"members\":[\"h2\"]}\n{\"mgid\":3,\"members\":[]}\n";
    let records = read_groups(text, &graph).unwrap();
    assert_eq!(records[0].members, [EndpointId(1), EndpointId(0)]);
    assert_eq!(write_groups(&records, &graph), text);
    assert_eq!(read_groups(&format!("\r\n{}", text.replace('\n', "\r\n")), &graph), Ok(records));
}

#[test]
fn missing_mgids_are_allotted_beside_the_given_ones() {
    let graph = fabric();
    let space = *engine(&graph, TableKind::PerPort).layout().space();
    let record = |mgid: Option<u32>, members: &[u32]| GroupRecord {
        mgid: mgid.map(Mgid),
        name: None,
        members: members.iter().copied().map(EndpointId).collect(),
    };
    let records = [record(None, &[0, 1]), record(Some(0), &[0, 1]), record(None, &[0, 1])];
    let mgids = allot_mgids(&records, space);
    // Color 0 is taken at both members by MGID 0, so the others get colors 1 and 2.
    assert_eq!(mgids, [Mgid(4), Mgid(0), Mgid(8)]);
}

#[test]
fn a_wrong_group_is_named_by_line_and_field() {
    let good = "{\"mgid\":1,\"name\":\"a\",\"members\":[\"h0\"]}\n";
    let cases = [
        ("{\"mgid\":1,\"members\":[]}", FormatProblem::DuplicateMgid { mgid: 1, first: 1 }),
        (
            "{\"name\":\"a\",\"members\":[]}",
            FormatProblem::DuplicateName { name: field("a"), first: 1 },
        ),
        ("{\"mgid\":2,\"members\":[\"h0\"", FormatProblem::Truncated),
        ("[]", FormatProblem::NotObject),
        ("{\"mgid\":2}", FormatProblem::Missing { field: field("members") }),
        (
            "{\"mgid\":2,\"members\":[\"h0\",\"h99\"]}",
            FormatProblem::UnknownName {
                field: field("members"),
                what: "endpoint",
                name: field("h99"),
            },
        ),
        (
            "{\"mgid\":2,\"members\":[\"h0\",\"h0\"]}",
            FormatProblem::DuplicateMember { name: field("h0") },
        ),
        (
            "{\"mgid\":2,\"members\":[1,2,3,4,5,6,7]}",
            FormatProblem::TooManyMembers { members: 7, endpoints: 6 },
        ),
        (
            "{\"mgid\":4294967296,\"members\":[]}",
            FormatProblem::BadValue {
                field: field("mgid"),
                must_be: field("a whole number from 0 to 4294967295"),
                is: field("4294967296"),
            },
        ),
        (
            "{\"mgid\":2,\"memebrs\":[],\"members\":[]}",
            FormatProblem::UnknownField { field: field("memebrs") },
        ),
    ];
    for (line, problem) in cases {
        assert_eq!(groups_problem(&format!("{good}\n{line}\n")), (3, problem), "{line}");
    }
    assert!(matches!(groups_problem("{x}"), (1, FormatProblem::NotJson { column: 2, .. })));
}

#[test]
fn routes_survive_a_round_trip_and_imply_the_tables() {
    let graph = fabric();
    for tables in [TableKind::PerPort, TableKind::PerSwitch] {
        let engine = engine(&graph, tables);
        let file = RoutesFile::of(&engine, "00ff");
        let text = write_routes(&file, &graph);
        assert_eq!(read_routes(&text, &graph), Ok(file.clone()));
        let members: BTreeMap<_, _> =
            engine.groups().map(|mgid| (mgid, engine.members(mgid).unwrap())).collect();
        let entries = table_entries(&graph, engine.plan());
        assert!(!entries.is_empty());
        assert_eq!(file.table_entries(&graph, &members), entries);
    }
}

/// Trees that MR4LMS merges can be joined by links that no group needs by itself.
#[test]
fn links_that_only_join_trees_are_in_the_file() {
    let spec = "kind = 'k-ary-3-level'\nk = 6\n";
    let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
    let mut joins = 0;
    for (tables, seed) in [TableKind::PerPort, TableKind::PerSwitch]
        .into_iter()
        .flat_map(|kind| (0..8u64).map(move |seed| (kind, seed)))
    {
        let mut engine = Mr4lms::new(
            graph.clone(),
            Mr4lmsOptions { merge_partner: MergePartner::Nearest, ..Mr4lmsOptions::new(2, tables) },
        )
        .unwrap();
        let mut chance = SplitMix::new(seed);
        let mut members = || -> Vec<EndpointId> {
            let some: BTreeSet<u32> = (0..2).map(|_| chance.below(54)).collect();
            some.into_iter().map(EndpointId).collect()
        };
        let puts: Vec<Change> =
            (0..24).map(|mgid| Change::Put { mgid: Mgid(mgid), members: members() }).collect();
        engine.apply(&puts).unwrap();
        let file = RoutesFile::of(&engine, "00ff");
        let all = |engine: &Mr4lms| -> BTreeMap<Mgid, Vec<EndpointId>> {
            let groups = RoutingEngine::groups(engine).into_iter();
            groups.map(|mgid| (mgid, RoutingEngine::members(engine, mgid).unwrap())).collect()
        };
        let entries = table_entries(&graph, engine.plan());
        assert_eq!(file.table_entries(&graph, &all(&engine)), entries, "{tables:?}, {seed}");
        assert_eq!(read_routes(&write_routes(&file, &graph), &graph), Ok(file.clone()));
        joins += file
            .groups
            .iter()
            .flat_map(|group| &group.trees)
            .map(|tree| tree.joins.len())
            .sum::<usize>();
    }
    assert!(joins > 0, "no case has such a link");
}

#[test]
fn unrouted_groups_keep_their_reason_in_the_file() {
    let graph = fabric();
    let mut engine = engine(&graph, TableKind::PerPort);
    let mut faults = Faults::new();
    for spine in ["spine0", "spine1"] {
        let spine = graph.find_switch(spine).unwrap();
        // All that is left is a link from another leaf to another spine for every leaf.
        for port in graph.ports(spine).collect::<Vec<PortId>>() {
            let keep = graph.port_number(port) % 3 == u8::from(spine.0 % 2 == 0);
            if !keep {
                faults.fail_link(&graph, port);
            }
        }
    }
    engine.set_faults(faults);
    assert!(!engine.plan().unrouted().is_empty());
    let file = RoutesFile::of(&engine, "00ff");
    let read = read_routes(&write_routes(&file, &graph), &graph).unwrap();
    assert_eq!(
        read.groups.iter().filter(|group| group.unrouted.is_some()).count(),
        engine.plan().unrouted().len()
    );
}

#[test]
fn a_wrong_route_is_named_by_line_and_field() {
    let graph = fabric();
    let text = write_routes(&RoutesFile::of(&engine(&graph, TableKind::PerPort), "00ff"), &graph);
    let header = text.lines().next().unwrap();
    assert_eq!(routes_problem(""), (1, FormatProblem::NoHeader));
    assert_eq!(routes_problem(text.split_once('\n').unwrap().1), (1, FormatProblem::NoHeader));
    assert_eq!(
        routes_problem(&header.replace(":1,", ":2,")),
        (1, FormatProblem::Version { version: 2 })
    );
    assert_eq!(
        routes_problem(&header.replace("\"colors\":4", "\"colors\":0")).1.to_string(),
        "colors: must be a whole number from 1 to 16384, is 0"
    );
    let line = |body: &str| routes_problem(&format!("{header}\n{body}"));
    assert_eq!(
        line("{\"mgid\":1,\"virtual_group\":1,\"color\":4,\"trees\":[]}"),
        (2, FormatProblem::ColorOutOfRange { color: 4, colors: 4 })
    );
    let tree = |links: &str| {
        let leaf = graph.switch_name(graph.find_switch("leaf0").unwrap());
        let spine = graph.switch_name(graph.find_switch("spine1").unwrap());
        let links = links.replace("LEAF", leaf).replace("SPINE", spine);
        let (_, problem) = line(&format!(
            "{{\"mgid\":1,\"virtual_group\":1,\"color\":0,\
             \"trees\":[{{\"root\":\"{spine}\",\"links\":[{links}]}}]}}"
        ));
        problem
    };
    assert!(matches!(tree("[\"LEAF\",3,\"SPINE\",1]"), FormatProblem::UnknownLink { .. }));
    assert!(matches!(
        tree("[\"LEAF\",99,\"SPINE\",1]"),
        FormatProblem::BadValue { field, .. } if field == "links"
    ));
    assert!(matches!(
        tree("[\"LEAF\",3,\"S-none\",1]"),
        FormatProblem::UnknownName { what: "switch", .. }
    ));
    assert!(matches!(tree("[\"LEAF\",3]"), FormatProblem::BadValue { .. }));
    let cut = &text[..text.len() - 10];
    assert_eq!(routes_problem(cut), (cut.lines().count(), FormatProblem::Truncated));
}

#[test]
fn tables_survive_a_round_trip() {
    let graph = fabric();
    for tables in [TableKind::PerPort, TableKind::PerSwitch] {
        let entries = table_entries(&graph, engine(&graph, tables).plan());
        let text = write_tables(&entries, &graph, tables);
        assert_eq!(text.contains("in_port"), tables == TableKind::PerPort);
        assert_eq!(read_tables(&text, &graph, tables, 4), Ok(entries));
    }
}

#[test]
fn a_wrong_table_row_is_named_by_line_and_field() {
    let graph = fabric();
    let leaf = graph.switch_name(graph.find_switch("leaf0").unwrap());
    let row = |in_port: &str, color: u32, out: &str| {
        format!("{{\"switch\":\"{leaf}\",{in_port}\"color\":{color},\"out_ports\":{out}}}\n")
    };
    let good = row("\"in_port\":1,", 0, "[2]");
    for (text, message) in [
        (row("\"in_port\":1,", 4, "[2]"), "color: 4 is not less than the 4 colors there are"),
        (row("", 0, "[2]"), "in_port: missing"),
        (row("\"in_port\":2,", 0, "[7]"), "out_ports: must be a port of LEAF, 1 to 6, is 7"),
        (row("\"in_port\":0,", 0, "[2]"), "in_port: must be a port of LEAF, 1 to 6, is 0"),
        (good.clone(), "switch LEAF, in_port 1, color 0: the row is there already"),
    ] {
        let expected = (2, message.replace("LEAF", leaf));
        assert_eq!(tables_problem(&format!("{good}{text}"), TableKind::PerPort), expected);
    }
    assert_eq!(
        tables_problem(&good, TableKind::PerSwitch),
        (1, "in_port: unknown field".to_owned())
    );
}
