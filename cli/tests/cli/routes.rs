//! `route plan` and `route verify`: they agree, and every hand edit is found.

use serde_json::{Value, json};

use crate::support::{Run, Sandbox};

pub(crate) const FABRICS: [(&str, &str); 8] = [
    ("two-levels", "kind=\"leaf-spine\"\nleaves=4\nspines=2\nendpoints_per_leaf=6\nlanes0=2\n"),
    (
        "missing-links",
        "kind=\"leaf-spine\"\nleaves=4\nspines=2\nendpoints_per_leaf=6\nlanes0=2\n[faults]\n\
         links=[{switch=\"leaf0\",to=\"spine1\",lane=1},{endpoint=\"h3\"}]\n",
    ),
    ("three-levels", "kind=\"k-ary-3-level\"\nk=4\n"),
    ("dead-core", "kind=\"k-ary-3-level\"\nk=6\n[faults]\nswitches=[\"core1\"]\n"),
    ("four-levels", "kind=\"cn-tn-fat-tree\"\nq=2\nm=2\np=2\nk=2\nw=2\nendpoints_per_leaf=3\n"),
    (
        "directors",
        "kind=\"pruned-fat-tree\"\nmidplanes=3\nleaves=2\nspines=2\nuplinks_per_spine=2\ncores=2\n\
         line_ports=2\ncore_spines=2\nendpoints_per_leaf=2\n",
    ),
    (
        "shared-core",
        "kind=\"pruned-fat-tree\"\nmidplanes=3\nleaves=2\nspines=2\nuplinks_per_spine=1\ncores=1\n\
         core_spines=0\nendpoints_per_leaf=2\n",
    ),
    ("one-level", "kind=\"leaf-spine\"\nleaves=1\nspines=0\nendpoints_per_leaf=12\n"),
];

pub(crate) const VERIFY: [&str; 10] = [
    "route",
    "verify",
    "--topology",
    "t.toml",
    "--groups",
    "groups",
    "--routes",
    "routes",
    "--tables",
    "tables",
];

/// Plans into `routes`, `tables` and `groups`; gives the figures.
pub(crate) fn plan(sandbox: &Sandbox, spec: &str, options: &[&str]) -> Value {
    sandbox.write("t.toml", spec);
    let files = ["--out", "routes", "--tables-out", "tables", "--groups-out", "groups"];
    sandbox.json(&[&["route", "plan", "--topology", "t.toml"], &files[..], options].concat())
}

#[test]
fn what_is_planned_is_verified_on_every_kind_of_fabric() {
    let sandbox = Sandbox::new();
    for (name, spec) in FABRICS {
        for kind in ["per-port", "per-switch"] {
            for pattern in [["--pattern", "4x3"], ["--pattern", "random:9:5"]] {
                let figures = plan(&sandbox, spec, &[&pattern[..], &["--tables", kind]].concat());
                assert!(figures["groups"].as_u64() > Some(0), "{name} {figures}");
                for all in [&[][..], &["--all-senders"]] {
                    let with = sandbox.json(&[&VERIFY[..], all].concat());
                    assert_eq!(with["violationCount"], 0, "{name} {kind} {with}");
                    assert_eq!(with["groups"], figures["groups"], "{name} {kind} {with}");
                    assert_eq!(with["entries"], figures["tableEntries"], "{name} {kind}");
                    let without = sandbox.json(&[&VERIFY[..8], all].concat());
                    assert_eq!(without["delivered"], with["delivered"], "{name} {kind}");
                }
                let stale = sandbox.json(&[&VERIFY[..], &["--all-senders"]].concat());
                assert_eq!(stale["unusedEntries"], 0, "{name} {kind} {stale}");
            }
        }
    }
}

/// Engines beside the usual one, with what they can be asked for.
const ENGINES: [&[&str]; 4] = [
    &["--engine", "c-mr4lms-dynamic"],
    &["--engine", "c-mr4lms-dynamic", "--tables", "per-switch"],
    &["--engine", "c-mr4lms-dynamic", "--root-scope", "tn"],
    &["--engine", "mr4lms", "--merge-policy", "rebuild", "--merge-partner", "rarest-color"],
];

#[test]
fn every_engine_passes_the_verifier() {
    let sandbox = Sandbox::new();
    for (name, spec) in FABRICS {
        for engine in ENGINES {
            let options = [&["--pattern", "4x3", "--colors", "8"], engine].concat();
            let figures = plan(&sandbox, spec, &options);
            assert_eq!(figures["engine"], engine[1], "{name} {figures}");
            let verdict = sandbox.json(&[&VERIFY[..], &["--all-senders"]].concat());
            assert_eq!(verdict["violationCount"], 0, "{name} {engine:?} {verdict}");
            assert_eq!(verdict["groups"], figures["groups"], "{name} {engine:?} {verdict}");
            assert_eq!(verdict["unusedEntries"], 0, "{name} {engine:?} {verdict}");
            assert_eq!(sandbox.json(&VERIFY[..8])["violationCount"], 0, "{name} {engine:?}");
        }
    }
}

/// A cycle of channels is a violation where links are lossless, as those of InfiniBand are.
#[test]
fn a_cycle_of_channels_is_a_finding_of_its_own() {
    let sandbox = Sandbox::new();
    let spec = "kind=\"leaf-spine\"\nleaves=8\nspines=4\nendpoints_per_leaf=4\n";
    let groups = ["--pattern", "random:40:1", "--processes", "8", "--colors", "6"];
    let with = |deadlock_free: &str| {
        let engine = ["--engine", "mr4lms", "--deadlock-free", deadlock_free];
        plan(&sandbox, spec, &[&groups[..], &engine].concat());
    };
    with("false");
    let verdict = sandbox.json(&VERIFY);
    assert_eq!(
        (&verdict["violationCount"], &verdict["deadlock"]["severity"]),
        (&json!(0), &json!("warning"))
    );
    let turns = verdict["deadlock"]["turns"].as_array().expect("a list");
    assert!(turns.len() >= 4, "{verdict}");
    assert!(turns.iter().all(|turn| turn["switch"].is_string() && turn["groups"][0].is_u64()));
    assert!(sandbox.ok(&VERIFY).contains("warning: on a lossless fabric packets could deadlock:"));

    let lossless = sandbox.run(&[&VERIFY[..], &["--lossless"]].concat());
    assert_eq!(lossless.code, 1, "{lossless:?}");
    assert!(lossless.stdout.contains("DEADLOCK: packets can wait for each other for ever:"));
    sandbox.write("t.txt", sandbox.ok(&["topology", "export", "t.toml"]));
    let infiniband = ["route", "verify", "--topology", "t.txt"];
    let as_discovered = sandbox.run(&[&infiniband[..], &VERIFY[4..]].concat());
    assert_eq!(as_discovered.code, 1, "{as_discovered:?}");
    assert_eq!(
        sandbox.run(&[&infiniband[..], &VERIFY[4..], &["--lossless", "false"]].concat()).code,
        0
    );

    with("true");
    let verdict = sandbox.json(&[&VERIFY[..], &["--lossless"]].concat());
    assert_eq!((&verdict["violationCount"], &verdict["deadlock"]), (&json!(0), &Value::Null));
}

#[test]
fn groups_without_numbers_get_the_same_ones_from_both() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", FABRICS[0].1);
    let line = |first: u32| format!("{{\"members\":[\"h{first}\",\"h{}\"]}}\n", first + 9);
    sandbox.write("groups", (0..12).map(line).collect::<String>());
    let plan = ["route", "plan", "--topology", "t.toml", "--groups", "groups"];
    sandbox.ok(&[&plan[..], &["--out", "routes", "--tables-out", "tables"]].concat());
    assert_eq!(sandbox.json(&VERIFY)["groups"], 12);
}

#[test]
fn the_files_have_exactly_the_agreed_form() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", "kind=\"leaf-spine\"\nleaves=2\nspines=1\nendpoints_per_leaf=2\n");
    sandbox.write("groups", "{\"mgid\":3,\"name\":\"rows/3\",\"members\":[\"h0\",\"h3\"]}\n");
    let digest = sandbox.json(&["topology", "detect", "t.toml"])["sha256"].clone();
    for (kind, row) in [("per-port", ",\"in_port\":1"), ("per-switch", "")] {
        let plan =
            ["route", "plan", "--topology", "t.toml", "--groups", "groups", "--tables", kind];
        let files = ["--out", "routes", "--tables-out", "tables", "--groups-out", "numbered"];
        sandbox.ok(&[&plan[..], &files].concat());
        let (leaf, other, spine) =
            ("S-02fab00000000000", "S-02fab00000000001", "S-02fab00000000002");
        let header = format!(
            "{{\"fabricast_routes\":1,\"engine\":\"c-mr4lms-fixed\",\"colors\":32,\
             \"tables\":\"{kind}\",\"topology\":{digest}}}\n"
        );
        let route = format!(
            "{{\"mgid\":3,\"virtual_group\":3,\"color\":3,\"trees\":[{{\"root\":\"{spine}\",\
             \"links\":[[\"{leaf}\",3,\"{spine}\",1],[\"{other}\",3,\"{spine}\",2]]}}]}}\n"
        );
        assert_eq!(sandbox.read("routes"), header + &route);
        let outs = if kind == "per-port" { "[3]" } else { "[1,3]" };
        let first = format!("{{\"switch\":\"{leaf}\"{row},\"color\":3,\"out_ports\":{outs}}}");
        assert_eq!(sandbox.read("tables").lines().next(), Some(first.as_str()));
        assert_eq!(sandbox.read("numbered"), sandbox.read("groups"));
    }
}

/// Groups of the two-level fabric that all span leaf switches.
const SPREAD: &str = "\
{\"mgid\":0,\"members\":[\"h0\",\"h7\",\"h14\"]}
{\"mgid\":1,\"members\":[\"h1\",\"h8\",\"h15\",\"h22\"]}
{\"mgid\":2,\"members\":[\"h2\",\"h9\"]}
{\"mgid\":3,\"members\":[\"h3\",\"h10\"]}
";

type Edit = fn(&mut Vec<Value>);

/// Edits of a table file, and the exit code that each must cause.
const TABLE_EDITS: [(&str, i32, Edit); 9] = [
    ("a row is gone", 1, |rows| drop(rows.remove(5))),
    ("a row is new", 1, |rows| {
        let mut row = rows[5].clone();
        row["color"] = json!(31);
        rows.push(row);
    }),
    ("a row is there twice", 2, |rows| rows.push(rows[5].clone())),
    ("a row has another color", 1, |rows| rows[5]["color"] = json!(31)),
    ("a color is beyond the table", 2, |rows| rows[5]["color"] = json!(32)),
    ("a row leads nowhere", 1, |rows| rows[5]["out_ports"] = json!([])),
    ("a row leads to a port too many", 1, |rows| {
        let mut ports = rows[5]["out_ports"].as_array().expect("a list").clone();
        let other = (1..8).map(|port| json!(port)).find(|port| !ports.contains(port));
        ports.extend(other);
        rows[5]["out_ports"] = json!(ports);
    }),
    ("a port is beyond the switch", 2, |rows| rows[5]["out_ports"] = json!([200])),
    ("a switch is unknown", 2, |rows| rows[5]["switch"] = json!("S-nowhere")),
];

/// The same for routes; line 0 is the header.
const ROUTE_EDITS: [(&str, i32, Edit); 18] = [
    ("a link is gone", 1, |lines| drop(links(&mut lines[1]).pop())),
    ("a link is there twice", 1, |lines| {
        let link = links(&mut lines[1])[0].clone();
        links(&mut lines[1]).push(link);
    }),
    ("a link is new", 1, |lines| {
        let other = links(&mut lines[1]).clone();
        let foreign: Vec<Value> =
            links(&mut lines[2]).iter().filter(|link| !other.contains(link)).cloned().collect();
        links(&mut lines[1]).extend(foreign);
    }),
    ("a link is not in the topology", 2, |lines| links(&mut lines[1])[0][1] = json!(1)),
    ("a port is beyond the switch", 2, |lines| links(&mut lines[1])[0][1] = json!(99)),
    ("a root is not in the tree", 1, |lines| {
        let in_tree =
            links(&mut lines[1]).iter().flat_map(|link| [link[0].clone(), link[2].clone()]);
        let in_tree: Vec<Value> = in_tree.collect();
        let mut switches = (0..6).map(|number| json!(format!("S-02fab0000000000{number}")));
        lines[1]["trees"][0]["root"] =
            switches.find(|switch| !in_tree.contains(switch)).expect("one is outside");
    }),
    ("a tree is gone", 1, |lines| lines[1]["trees"] = json!([])),
    ("a group is said to have no tree", 1, |lines| lines[1]["unrouted"] = json!("so")),
    ("a group is gone", 1, |lines| drop(lines.remove(1))),
    ("a group is there twice", 2, |lines| lines.push(lines[1].clone())),
    ("a group has another number", 1, |lines| lines[1]["mgid"] = json!(987_654)),
    ("a color is beyond the table", 2, |lines| lines[1]["color"] = json!(32)),
    ("a color is another one", 1, |lines| lines[1]["color"] = json!(31)),
    ("a member is cut off", 1, |lines| lines[1]["cut_off"] = json!(["h0"])),
    ("a stranger is cut off", 1, |lines| lines[1]["cut_off"] = json!(["h23"])),
    ("the routes are of another topology", 2, |lines| lines[0]["topology"] = json!("0")),
    ("the routes have another version", 2, |lines| lines[0]["fabricast_routes"] = json!(2)),
    ("the header is gone", 2, |lines| drop(lines.remove(0))),
];

fn links(line: &mut Value) -> &mut Vec<Value> {
    line["trees"][0]["links"].as_array_mut().expect("a list of links")
}

fn edited(sandbox: &Sandbox, file: &str, edit: Edit, arguments: &[&str]) -> Run {
    let text = sandbox.read(file);
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    edit(&mut lines);
    let edited: String = lines.iter().map(|line| format!("{line}\n")).collect();
    sandbox.write(file, edited);
    let run = sandbox.run(arguments);
    sandbox.write(file, text);
    run
}

#[test]
fn every_hand_edit_of_routes_and_tables_is_found() {
    let sandbox = Sandbox::new();
    for kind in ["per-port", "per-switch"] {
        sandbox.write("given", SPREAD);
        plan(&sandbox, FABRICS[0].1, &["--groups", "given", "--tables", kind]);
        sandbox.ok(&VERIFY);
        for (what, code, edit) in TABLE_EDITS {
            let run = edited(&sandbox, "tables", edit, &VERIFY);
            assert_eq!(run.code, code, "{kind}: {what}: {run:?}");
            assert!(run.stderr.starts_with("fabricast: "), "{kind}: {what}: {run:?}");
        }
        for (what, code, edit) in ROUTE_EDITS {
            let run = edited(&sandbox, "routes", edit, &VERIFY);
            assert_eq!(run.code, code, "{kind}: {what}: {run:?}");
            // Without tables another color may be as good; all else shows all the same.
            if !what.starts_with("a color is another") {
                let run = edited(&sandbox, "routes", edit, &VERIFY[..8]);
                assert_eq!(run.code, code, "{kind}, no tables: {what}: {run:?}");
            }
        }
        sandbox.ok(&VERIFY);
    }
}

#[test]
fn routes_of_another_topology_are_refused_with_a_hint() {
    let sandbox = Sandbox::new();
    plan(&sandbox, FABRICS[0].1, &["--pattern", "4x3"]);
    sandbox.write("other.toml", FABRICS[2].1);
    let mut arguments = VERIFY;
    arguments[3] = "other.toml";
    let run = sandbox.run(&arguments);
    run.refused(2, "'routes': line 1: topology: made for the one with SHA-256");
    assert!(run.stderr.contains("\nhint: give the topology"), "{run:?}");
    run.silent();
}

#[test]
fn findings_name_switches_and_endpoints() {
    let sandbox = Sandbox::new();
    plan(&sandbox, FABRICS[0].1, &["--pattern", "4x3"]);
    let run = edited(&sandbox, "tables", |rows| rows.clear(), &VERIFY);
    run.refused(1, " violations");
    assert!(run.stdout.contains("table of S-02fab00000000000 port 1 color"), "{run:?}");
    assert!(run.stdout.contains(": a packet from h0 does not reach h"), "{run:?}");
    assert!(run.stdout.contains("\nand "), "the rest is counted: {run:?}");
}

#[test]
fn json_lists_everything_and_a_table_the_first_twenty() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "t.toml",
        "kind=\"leaf-spine\"\nleaves=2\nspines=1\nendpoints_per_leaf=2\n[faults]\n\
         links=[{endpoint=\"h0\"}]\n",
    );
    let line = |mgid: u32| format!("{{\"mgid\":{mgid},\"members\":[\"h0\",\"h1\",\"h2\"]}}\n");
    sandbox.write("groups", (0..25).map(line).collect::<String>());
    let plan = ["route", "plan", "--topology", "t.toml", "--groups", "groups", "--out", "routes"];
    let figures = sandbox.json(&plan);
    assert_eq!(figures["leftOut"].as_array().map(Vec::len), Some(25), "{figures}");
    let table = sandbox.ok(&plan);
    assert_eq!(table.matches(" is cut off: ").count(), 20, "{table}");
    assert!(table.contains("\nand 5 more; `--format json` lists all"), "{table}");

    sandbox.write("tables", "");
    let run = sandbox.run(&VERIFY);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains(" more; `--format json` lists all"), "{run:?}");
    let run = sandbox.run(&[&VERIFY[..], &["--format", "json"]].concat());
    let verdict: Value = serde_json::from_str(&run.stdout).unwrap();
    let violations = verdict["violations"].as_array().unwrap().len() as u64;
    assert!(violations > 50, "{verdict}");
    assert_eq!(verdict["violationCount"], violations, "{verdict}");

    let run = sandbox.run(&["topology", "check", "torus", "--format", "json"]);
    assert_eq!(run.code, 1, "{run:?}");
    let summary: Value = serde_json::from_str(&run.stdout).unwrap();
    let contradictions = summary["contradictions"].as_array().unwrap();
    assert!(contradictions.len() > 8 && run.stderr.contains("; and "), "{}", run.stderr);
}
