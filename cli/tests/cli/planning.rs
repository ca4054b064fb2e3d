//! `capacity plan` and the offline `route explain`: what they find, and what they refuse.

use serde_json::{Value, json};

use crate::support::Sandbox;

const SPEC: &str = "kind=\"leaf-spine\"\nleaves=3\nspines=2\nendpoints_per_leaf=3\n";
/// On trees 0 and 2 of four, but both on tree 0 of two and of six; both leave leaf 0.
const GROUPS: &str = "{\"mgid\":0,\"name\":\"a\",\"members\":[\"h0\",\"h3\"]}\n\
                      {\"mgid\":6,\"name\":\"b\",\"members\":[\"h1\",\"h4\"]}\n";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", SPEC);
    sandbox.write("groups", GROUPS);
    sandbox
}

const CAPACITY: [&str; 6] = ["capacity", "plan", "--topology", "t.toml", "--groups", "groups"];

#[test]
fn the_size_named_avoids_merging_and_the_one_before_does_not() {
    let sandbox = sandbox();
    let found = sandbox.json(&[&CAPACITY[..], &["--sizes", "3,1,2"]].concat());
    assert_eq!((&found["entries"], &found["lowerBound"]), (&2.into(), &1.into()), "{found}");
    let merging: Vec<(u64, bool)> = found["sizes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|size| (size["entries"].as_u64().unwrap(), size["merging"].as_bool().unwrap()))
        .collect();
    assert_eq!(merging, [(1, true), (2, false), (3, true)]);
    // `route plan` says the same of every size.
    for (colors, merges) in merging {
        let colors = colors.to_string();
        let plan = ["route", "plan", "--topology", "t.toml", "--groups", "groups", "--colors"];
        let figures = sandbox.json(&[&plan[..], &[&colors]].concat());
        assert_eq!(figures["maxTfi"].as_u64() > Some(1), merges, "{figures}");
    }
}

#[test]
fn figures_go_to_a_folder_that_is_made() {
    let sandbox = sandbox();
    let arguments = ["capacity", "plan", "--topology", "t.toml", "--pattern", "3x3"];
    let found = sandbox.json(&[&arguments[..], &["--out", "new/folder"]].concat());
    let files: Vec<&str> =
        found["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(files.len(), 4);
    let rows = sandbox.read("new/folder/capacity.csv").lines().count();
    assert_eq!(rows, found["sizes"].as_array().unwrap().len() + 1);
    for name in ["efi", "tfi", "trees"] {
        assert!(sandbox.read(&format!("new/folder/{name}.svg")).contains("entries of a table"));
    }
    let first = &found["sizes"][0];
    assert_eq!((&first["routed"], &first["merging"]), (&false.into(), &Value::Null), "{first}");
    let least = found["entries"].as_u64().unwrap();
    let below = (least - 1).to_string();
    let run = sandbox.run(&[&arguments[..], &["--limit", &below]].concat());
    run.refused(1, &format!("no table of up to {below} entries avoids all merging"));
    assert!(run.stdout.contains("yes"), "{run:?}");
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let sandbox = sandbox();
    sandbox.write("stranger", "{\"members\":[\"h0\",\"h99\"]}\n");
    sandbox.write("torus.toml", "kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 2\n");
    let cases: [(&[&str], &str); 9] = [
        (&["--topology", "t.toml"], "--groups <FILE>|--pattern"),
        (&["--pattern", "3x3"], "--topology"),
        (&["--topology", "t.toml", "--pattern", "9x9"], "--pattern '9x9': the pattern needs 81"),
        (&["--topology", "t.toml", "--groups", "stranger"], "'stranger': line 1: members: "),
        (&["--topology", "t.toml", "--groups", "none"], "read 'none'"),
        (&["--topology", "t.toml", "--pattern", "3x3", "--sizes", "8,0"], "--sizes"),
        (&["--topology", "t.toml", "--pattern", "3x3", "--limit", "16385"], "--limit"),
        (&["--topology", "torus.toml", "--pattern", "3x3"], "not a fat tree"),
        (
            &["--topology", "t.toml", "--pattern", "3x3", "--root-scope", "tn"],
            "--root-scope: c-mr4lms-fixed has no choice",
        ),
    ];
    for (options, needle) in cases {
        let run = sandbox.run(&[&["capacity", "plan"], options].concat());
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains(needle), "'{needle}' is not in {run:?}");
        run.silent();
    }
    sandbox.write("file", "");
    let run = sandbox.run(&[&CAPACITY[..], &["--out", "file/in"]].concat());
    run.refused(2, "make 'file/in'");
}

const EXPLAIN: [&str; 8] =
    ["route", "explain", "--topology", "t.toml", "--groups", "groups", "--colors", "1"];

#[test]
fn an_offline_explanation_says_with_whom_why_and_what_one_entry_more_changes() {
    let sandbox = sandbox();
    for group in ["b", "6"] {
        let found = sandbox.json(&[&EXPLAIN[..], &["--group", group]].concat());
        assert_eq!((&found["group"], &found["mgid"]), (&"b".into(), &6.into()), "{found}");
        let (route, tree) = (&found["route"], &found["route"]["trees"][0]);
        assert_eq!((&tree["color"], &route["spanningTree"]), (&0.into(), &0.into()), "{found}");
        assert_eq!((&tree["level"], &tree["tnGroup"]), (&1.into(), &0.into()), "{found}");
        assert_eq!(tree["links"].as_array().map(Vec::len), Some(4), "{found}");
        assert_eq!(tree["linksCrossed"], 6, "{found}");
        let sharer = &route["sharesWith"][0];
        let expected = json!({"group": "a", "mgid": 0, "steps": 1, "through": "b",
            "at": sharer["at"]});
        assert_eq!(sharer, &expected);
        let leaf0 = sandbox.json(&["topology", "show", "t.toml"]);
        let leaf0 = leaf0["switches"][0]["name"].as_str().unwrap().to_owned();
        assert!(sharer["at"].as_str().unwrap().starts_with(&format!("{leaf0}:4 to ")), "{sharer}");
        let more = &found["withOneEntryMore"];
        assert_eq!((&more["mgidGiven"], &more["entries"]), (&true.into(), &2.into()), "{more}");
        assert_eq!(more["mapping"], "6 mod 4 is spanning tree 2");
        assert_eq!(more["noLongerWith"], json!(["a"]));
    }
    // With fault tolerance there are two trees, over half of the spines each.
    let found = sandbox.json(&[&EXPLAIN[..], &["--group", "b", "--fault-tolerant"]].concat());
    let trees = found["route"]["trees"].as_array().unwrap();
    let midplanes: Vec<&Value> = trees.iter().map(|tree| &tree["tnGroup"]).collect();
    assert_eq!(midplanes, [&json!(0), &json!(1)], "{found}");
    // A pattern's groups have names, and MGIDs that are chosen anew.
    let pattern = ["route", "explain", "--topology", "t.toml", "--pattern", "3x3"];
    let found = sandbox.json(&[&pattern[..], &["--group", "x/0/0"]].concat());
    assert_eq!(found["withOneEntryMore"]["mgidGiven"], false, "{found}");
    assert_eq!(found["members"], 3);
}

#[test]
fn every_engine_explains_every_group() {
    let sandbox = sandbox();
    let version = sandbox.json(&["version", "--client"]);
    let engines = version["client"]["features"].as_array().expect("a list");
    assert!(engines.len() >= 7, "{version}");
    for engine in engines.iter().map(|engine| engine.as_str().expect("a name")) {
        for tables in ["per-port", "per-switch"] {
            let options = ["--engine", engine, "--tables", tables, "--group", "a"];
            let found = sandbox.json(&[&EXPLAIN[..], &options].concat());
            let route = &found["route"];
            assert_eq!(route["spanningTree"].is_null(), !engine.starts_with('c'), "{found}");
            assert!(sandbox.ok(&[&EXPLAIN[..], &options].concat()).contains("color 0"), "{found}");
        }
    }
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let sandbox = sandbox();
    let cases: [(&[&str], &str); 8] = [
        (&["--topology", "t.toml"], "--groups <FILE>|--pattern"),
        (
            &[
                "--topology",
                "t.toml",
                "--groups",
                "groups",
                "--fault-tolerant",
                "--engine",
                "mr4lms",
            ],
            "--fault-tolerant: mr4lms has no fault tolerance",
        ),
        (&["--fault-tolerant"], "--topology"),
        (&["--groups", "groups"], "--topology"),
        (&["--colors", "8"], "--topology"),
        (&["--engine", "mr4lms"], "--topology"),
        (&["--topology", "t.toml", "--groups", "none"], "read 'none'"),
        (&["--topology", "t.toml", "--groups", "groups", "--colors", "0"], "--colors"),
    ];
    for (options, needle) in cases {
        let run = sandbox.run(&[&["route", "explain", "--group", "a"], options].concat());
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains(needle), "'{needle}' is not in {run:?}");
        run.silent();
    }
}

#[test]
fn the_best_engine_is_the_one_of_least_cost() {
    let sandbox = Sandbox::new();
    sandbox.write("torus.toml", "kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 2\n");
    let plan = |topology: &str, pattern: &str, options: &[&str]| {
        let usual = ["route", "plan", "--topology", topology, "--pattern", pattern];
        sandbox.json(&[&usual[..], options].concat())
    };
    assert_eq!(plan("torus.toml", "3x3", &["--best-engine"])["engine"], "mr4lms");
    let tables = ["--tables", "per-switch", "--colors", "16"];
    let usual = plan("demo", "64x32", &tables);
    let files = ["--best-engine", "--groups-out", "g", "--out", "r", "--tables-out", "t"];
    let found = plan("demo", "64x32", &[&tables[..], &files].concat());
    let best = found["advice"].as_array().expect("a list").last().expect("there is a choice");
    assert_eq!((&best["kind"], &best["engine"]), (&json!("best"), &found["engine"]), "{found}");
    for figure in ["maxEfi", "maxTfi", "unrouted"] {
        assert!(best[figure].is_u64(), "{figure}: {found}");
        assert_eq!(best[figure], found[figure], "{figure}: {found}");
    }
    assert!(found["maxEfi"].as_u64() < usual["maxEfi"].as_u64(), "{usual} {found}");
    let verify = "route verify --topology demo --groups g --routes r --tables t";
    let arguments: Vec<&str> = verify.split(' ').collect();
    assert_eq!(sandbox.json(&arguments)["violationCount"], 0);
    let both = ["route", "plan", "--topology", "demo", "--pattern", "64x32", "--best-engine"];
    let run = sandbox.run(&[&both[..], &["--engine", "mr4lms"]].concat());
    run.refused(2, "--engine");
}

#[test]
fn the_engine_of_least_cost_is_named_with_the_reason() {
    let sandbox = Sandbox::new();
    sandbox.write("torus.toml", "kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 2\n");
    for (tables, colors) in [("per-switch", "16"), ("per-port", "4")] {
        let what = ["--topology", "demo", "--pattern", "64x32", "--tables", tables];
        let what = [&what[..], &["--colors", colors]].concat();
        let found = sandbox.json(&[&["capacity", "advise"], &what[..]].concat());
        let advice = found["advice"].as_array().expect("a list");
        let best = advice.last().expect("there is a choice");
        assert_eq!((&best["kind"], &best["engine"]), (&json!("best"), &found["engine"]), "{found}");
        // An explanation is of that engine's plan, and says why.
        let explain = [&["route", "explain", "x/0/0", "--best-engine"], &what[..]].concat();
        let explained = sandbox.json(&explain);
        assert_eq!(explained["engine"], found["engine"], "{explained}");
        let reasons = explained["engineReasons"].as_array().expect("a list");
        assert_eq!(reasons.last(), Some(&best["text"]), "{explained}");
        assert!(sandbox.ok(&explain).contains("has the least cost of"), "{explained}");
        // Without time for others it is the engine that was asked for.
        let found = sandbox.json(&[&["capacity", "advise", "--within", "0s"], &what[..]].concat());
        let tried = |one: &Value| one["kind"] == "measured" || one["kind"] == "best";
        assert!(!found["advice"].as_array().expect("a list").iter().any(tried), "{found}");
        assert_eq!(found["engine"], "c-mr4lms-fixed", "{found}");
    }
    // The cost of each is what `route plan` gives with it.
    let usual = ["--topology", "demo", "--pattern", "64x32", "--tables", "per-switch"];
    let found = sandbox.json(&[&["capacity", "advise"], &usual[..]].concat());
    let engine = found["engine"].as_str().expect("a name");
    let plan = ["route", "plan", "--groups-out", "g", "--out", "r", "--tables-out", "t"];
    let plan = sandbox.json(&[&plan[..], &["--engine", engine], &usual[..]].concat());
    let best = found["advice"].as_array().expect("a list").last().expect("there is a choice");
    for figure in ["maxEfi", "maxTfi", "unrouted"] {
        assert!(best[figure].is_u64(), "{figure}: {found}");
        assert_eq!(best[figure], plan[figure], "{figure}: {found} {plan}");
    }
    let torus = ["capacity", "advise", "--topology", "torus.toml", "--pattern", "3x3"];
    assert_eq!(sandbox.json(&torus)["engine"], "mr4lms");
    let dynamic = ["--engine", "c-mr4lms-dynamic", "--root-scope", "tn"];
    assert_eq!(sandbox.json(&[&torus[..], &dynamic].concat())["engine"], "mr4lms");
    sandbox
        .run(&["capacity", "advise", "--topology", "demo"])
        .refused(2, "--groups <FILE>|--pattern");
    sandbox.run(&[&torus[..], &["--within", "soon"]].concat()).refused(2, "--within");
    sandbox.run(&["route", "explain", "a", "--best-engine"]).refused(2, "--topology");
    let explain = ["route", "explain", "x/0/0", "--topology", "demo", "--pattern", "64x32"];
    for limit in [&["--within", "1s"][..], &["--compare"]] {
        sandbox.run(&[&explain[..], limit].concat()).refused(2, "--best-engine");
    }
    // One entry is too few for the two layers of the pattern, unless the engine has none.
    let one = ["--topology", "demo", "--pattern", "64x32", "--colors", "1"];
    let found = sandbox.json(&[&["capacity", "advise"], &one[..]].concat());
    assert_eq!(found["engine"], "mr4lms", "{found}");
    let impossible = &found["advice"][0];
    assert_eq!(impossible["kind"], "impossible", "{found}");
    assert_eq!(impossible["engine"], "c-mr4lms-fixed", "{found}");
}

#[test]
fn plans_come_with_advice_and_measured_comparisons() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", SPEC);
    let plan = ["route", "plan", "--topology", "t.toml", "--pattern", "3x3", "--colors", "4"];
    let run = |options: &[&str]| sandbox.json(&[&plan[..], options].concat());
    let kinds = |figures: &Value| -> Vec<Value> {
        let advice = figures["advice"].as_array().expect("a list");
        advice.iter().map(|one| json!([one["kind"], one["engine"]])).collect()
    };
    let [hybrid, free] = ["c-mr4lms-hybrid", "mr4lms"].map(|name| json!(["measured", name]));
    let per_port = run(&[]);
    assert_eq!(kinds(&per_port)[..2], [hybrid.clone(), free.clone()]);
    assert_eq!(per_port["advice"][2]["kind"], "best");
    let fixed = run(&["--tables", "per-switch"]);
    assert_eq!(kinds(&fixed)[..3], [json!(["per-switch", null]), hybrid, free]);
    let measured = &fixed["advice"][2];
    // The other engine's own plan has the same figures.
    let other = run(&["--tables", "per-switch", "--engine", "mr4lms"]);
    for figure in ["maxEfi", "meanEfi", "maxTfi", "meanTfi", "virtualGroups"] {
        assert!(measured[figure].is_number(), "{figure}: {fixed}");
        assert_eq!(measured[figure], other[figure], "{figure}: {fixed} {other}");
        assert_eq!(other["advice"][0][figure], fixed[figure], "{figure}: {fixed} {other}");
    }
    let text = sandbox.ok(&[&plan[..], &["--tables", "per-switch", "--compare"]].concat());
    assert!(
        text.contains("\nadvice: per-switch tables of 4 entries are 4 spanning trees"),
        "{text}"
    );
    assert!(text.lines().last().unwrap().contains("mr4lms"), "{text}");
}
