//! Bad input: one clear message, the right exit code, nothing changed.

use std::net::TcpListener;

use crate::support::{Sandbox, data};

/// A sandbox with some good and many bad files.
pub(crate) fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", "kind=\"leaf-spine\"\nleaves=2\nspines=1\nendpoints_per_leaf=2\n");
    sandbox.write("empty", "");
    sandbox.write("binary", [0x80, 0xff, 0, 1, 2, 0x0a, 0x93]);
    std::fs::create_dir(sandbox.path("folder")).expect("the folder can be written");
    let groups = [
        ("twice", "{\"mgid\":1,\"members\":[\"h0\",\"h1\"]}\n{\"mgid\":1,\"members\":[\"h2\"]}\n"),
        ("same-name", "{\"name\":\"a\",\"members\":[]}\n{\"name\":\"a\",\"members\":[]}\n"),
        ("duplicate", "{\"mgid\":1,\"members\":[\"h0\",\"h0\"]}\n"),
        ("unknown", "\n{\"mgid\":1,\"members\":[\"h0\",\"nobody\"]}\n"),
        ("crowd", "{\"members\":[\"h0\",\"h1\",\"h2\",\"h3\",\"h4\"]}\n"),
        ("negative", "{\"mgid\":-1,\"members\":[]}\n"),
        ("huge", "{\"mgid\":4294967296,\"members\":[]}\n"),
        ("no-members", "{\"mgid\":1}\n"),
        ("extra", "{\"members\":[],\"colour\":1}\n"),
        ("cut", "{\"members\":[]}\n{\"members\":[\"h0\""),
        ("prose", "these are not groups\n"),
    ];
    for (name, text) in groups {
        sandbox.write(name, text);
    }
    sandbox
}

/// Arguments in one text, exit code, and what the message must contain.
type Case = (&'static str, i32, &'static str);

pub(crate) fn refuse(sandbox: &Sandbox, cases: &[Case]) {
    let before = sandbox.listing();
    for (arguments, code, needle) in cases {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let run = sandbox.run(&arguments);
        run.refused(*code, needle);
        run.silent();
    }
    assert_eq!(sandbox.listing(), before, "a refused command changed a file");
}

#[test]
fn topologies_that_cannot_be_read_are_refused() {
    refuse(
        &sandbox(),
        &[
            ("topology import missing", 2, "read 'missing': No such file"),
            ("topology detect missing", 2, "hint: the presets are cluster, demo, paper, fat-tree,"),
            ("topology import empty", 2, "'empty': line 1: no switch or adapter"),
            ("topology discover --config missing", 78, "cannot be read: No such file"),
            ("topology import folder", 2, "read 'folder': Is a directory"),
            ("topology import binary", 2, "read 'binary': line 1: not UTF-8 text"),
            ("topology show prose", 2, "'prose': line 1: "),
            ("topology generate --spec prose", 2, "'prose': line 1: "),
            ("topology import demo", 2, "read 'demo': No such file"),
            ("topology generate --spec demo --out folder", 2, "write 'folder': "),
            ("topology generate --spec demo --out no/where", 2, "write 'no/where': No such file"),
            ("topology import small.toml --out no/where", 2, "write 'no/where': "),
        ],
    );
}

#[test]
fn specs_that_make_no_fabric_are_refused() {
    let sandbox = sandbox();
    let cases = [
        ("kind = \"ring\"\n", "line 1, column 8: unknown variant"),
        ("kind = \"leaf-spine\"\nleaves = -1\n", "line 2, column 10: "),
        ("kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nendpoints_per_leaf = 0\n", "must be"),
        ("kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nendpoints_per_leaf = 300\n", "301 ports"),
        ("kind = \"k-ary-3-level\"\nk = 5\n", "k is 5"),
        ("kind = \"k-ary-3-level\"\nk = 4\nextra = 1\n", "line 3, column 1: unknown field"),
        ("kind = \"k-ary-3-level\"\nk = 4\n[faults]\nswitches = [\"x\"]\n", "\"x\""),
        ("kind = [", "line 1, column 9: "),
    ];
    for (spec, needle) in cases {
        sandbox.write("spec.toml", spec);
        let run = sandbox.run(&["topology", "detect", "spec.toml"]);
        run.refused(2, needle);
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    }
}

#[test]
fn groups_that_cannot_be_read_are_refused_with_line_and_field() {
    let sandbox = sandbox();
    let cases = [
        ("twice", "'twice': line 2: mgid: 1 is that of the group on line 1 too"),
        ("same-name", "'same-name': line 2: name: \"a\" is that of the group on line 1 too"),
        ("duplicate", "'duplicate': line 1: members: endpoint \"h0\" is listed twice"),
        ("unknown", "'unknown': line 2: members: the topology has no endpoint \"nobody\""),
        ("crowd", "'crowd': line 1: members: 5 are listed, the topology has 4 endpoints"),
        ("negative", "'negative': line 1: mgid: must be a whole number"),
        ("huge", "'huge': line 1: mgid: must be a whole number from 0 to 4294967295"),
        ("no-members", "'no-members': line 1: members: missing"),
        ("extra", "'extra': line 1: colour: unknown field"),
        ("cut", "'cut': line 2: the line is truncated"),
        ("prose", "'prose': line 1: not JSON at column "),
        ("binary", "read 'binary': line 1: not UTF-8 text"),
        ("folder", "read 'folder': Is a directory"),
        ("missing", "read 'missing': No such file"),
    ];
    let before = sandbox.listing();
    for (file, needle) in cases {
        for command in ["route plan --out made", "demo", "route verify --routes r"] {
            let mut arguments: Vec<&str> = command.split(' ').collect();
            arguments.extend(["--topology", "small.toml", "--groups", file]);
            let run = sandbox.run(&arguments);
            run.refused(2, needle);
            run.silent();
        }
    }
    assert_eq!(sandbox.listing(), before);
}

#[test]
fn groups_that_the_protocol_cannot_name_are_refused_before_anything_starts() {
    let sandbox = sandbox();
    for (text, needle) in [
        (
            "{\"name\":\"\",\"members\":[\"h0\",\"h2\"]}\n",
            "'g': group \"\": name: group name is empty",
        ),
        ("{\"members\":[\"h0\"]}\n{\"name\":\"group/1\",\"members\":[]}\n", "two groups have it"),
    ] {
        sandbox.write("g", text);
        let run = sandbox.run(&["demo", "--topology", "small.toml", "--groups", "g"]);
        run.refused(2, needle);
        run.silent();
    }
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    refuse(
        &sandbox(),
        &[
            ("route plan --topology cluster", 2, "--groups <FILE>|--pattern"),
            ("route plan --topology cluster --groups g --pattern 2x2", 2, "cannot be used with"),
            ("route plan --topology cluster --groups g --processes 2", 2, "cannot be used with"),
            ("route plan --topology cluster --pattern 8x12 --colors 0", 2, "not in 1..=16384"),
            ("route plan --topology cluster --pattern 8x12 --colors 16385", 2, "not in 1..=16384"),
            ("route plan --topology cluster --pattern 8x12 --engine best", 2, "c-mr4lms-dynamic"),
            (
                "route plan --topology cluster --pattern 8x12 --root-scope tn",
                2,
                "--root-scope: c-mr4lms-fixed has no choice",
            ),
            (
                "route plan --topology cluster --pattern 8x12 --engine c-mr4lms-dynamic \
                 --root-scope tn-group --tables per-switch",
                2,
                "need per-port tables",
            ),
            ("route plan --topology cluster --pattern 8x12 --colors 65535", 2, "not in 1..=16384"),
            ("route plan --topology cluster --pattern 8x12 --colors 1", 2, "2 layers need as many"),
            ("route plan --topology cluster --pattern 0x0", 2, "--pattern '0x0': x is 0"),
            ("route plan --topology cluster --pattern 1x", 2, "'1x': neither XxY"),
            ("route plan --topology cluster --pattern 64x", 2, "'64x': neither XxY"),
            ("route plan --topology cluster --pattern -1x3", 2, "'-1x3': neither XxY"),
            ("route plan --topology cluster --pattern 8", 2, "1 dimensions, must be 2 or 3"),
            ("route plan --topology cluster --pattern 999999x999999", 2, "2^32 processes"),
            (
                "route plan --topology cluster --pattern 12x12",
                2,
                "144 endpoints, the fabric has 96",
            ),
            ("route plan --topology cluster --pattern random:0:1", 2, "0 groups"),
            ("route plan --topology cluster --pattern random:9", 2, "not random:N:SEED"),
            ("route plan --topology cluster --pattern random:4000000000:1", 2, "at most one each"),
            ("route plan --topology cluster --pattern 8x12 --processes 0", 2, "--processes"),
            ("route plan --topology cluster --pattern 8x12 --processes 8", 2, "fewer than x = 8"),
            ("route plan --topology cluster --pattern 8x12 --engine best", 2, "--engine"),
            ("route plan --topology cluster --pattern 8x12 --out no/where", 2, "write 'no/where'"),
            (
                "route plan --topology cluster --pattern 8x12 --out f --tables-out f",
                2,
                "two outputs",
            ),
            (
                "route plan --topology cluster --pattern 8x12 --out f --tables-out folder",
                2,
                "folder",
            ),
            ("demo --colors 0", 2, "not in 1..=16384"),
            ("demo --senders 0", 2, "without a sender nothing is checked"),
            ("demo --topology missing", 2, "read 'missing'"),
            ("up --colors 0", 2, "not in 1..=16384"),
            ("up --listen 127.0.0.1", 2, "--listen"),
        ],
    );
    let sandbox = sandbox();
    let tangle = data("quirks/loopback-cables.ibnetdiscover");
    for command in ["route plan --pattern 1x1", "demo", "up --listen 127.0.0.1:0"] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.extend(["--topology", &tangle]);
        let run = sandbox.run(&arguments);
        run.refused(2, "not a fat tree");
        assert!(run.stderr.contains("\nhint: "), "{run:?}");
    }
}

#[test]
fn options_that_the_engine_does_not_have_are_refused_alike_by_every_command_and_start_nothing() {
    let sandbox = sandbox();
    let cases = [
        ("", "--root-scope tn", "--root-scope: c-mr4lms-fixed has no choice of root scopes"),
        (
            "c-mr4lms-dynamic",
            "--root-scope tn-group --tables per-switch",
            "--root-scope: roots in a whole TN group need per-port tables",
        ),
        ("mr4lms", "--fault-tolerant", "--fault-tolerant: mr4lms has no fault tolerance"),
        (
            "c-mr4lms-dynamic",
            "--stay-after-healing",
            "--stay-after-healing: c-mr4lms-dynamic decides by itself where groups stay",
        ),
        ("", "--root-policy cyclic", "--root-policy: c-mr4lms-fixed has no roots to choose from"),
        (
            "",
            "--merge-policy rebuild",
            "--merge-policy: c-mr4lms-fixed has no choice in the treatment of merged trees",
        ),
        (
            "sssp-mc",
            "--merge-partner rarest-color",
            "--merge-partner: sssp-mc has no choice of the tree that a group is merged with",
        ),
    ];
    let before = sandbox.listing();
    for (engine, options, needle) in cases {
        let engine = if engine.is_empty() { "c-mr4lms-fixed" } else { engine };
        for command in
            ["route plan --pattern 8x12 --out made", "up --store made --listen 127.0.0.1:0"]
        {
            let line = format!("{command} --topology cluster --engine {engine} {options}");
            let run = sandbox.run(&line.split(' ').collect::<Vec<_>>());
            run.refused(2, needle);
            run.silent();
        }
    }
    assert_eq!(sandbox.listing(), before);
    sandbox
        .run(&["route", "explain", "--group", "g", "--merge-policy", "keep"])
        .refused(2, "--topology");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let sandbox = sandbox();
    // Bound, never answered by a control plane, and free again: nobody listens there.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let verbs = [
        "group list",
        "group show g",
        "group create g --node n",
        "group join g --node n",
        "group leave g --node n",
        "group send g --node n",
        "group delete g",
        "group delete g --dry-run",
        "group form --groups twice",
        "node list",
        "node fail n",
        "node stop n",
        "node start n",
        "node show n --memberships",
        "node stop n --dry-run",
        "switch list",
        "switch show s --entries",
        "switch show s --ports",
        "fabric fail --switch s",
        "fabric heal --link s:1",
        "fabric fail --switch s --dry-run",
        "fabric send --endpoint e --mgid 1 --color 1",
        "route status",
        "route explain --group g",
    ];
    for verb in verbs {
        let arguments: Vec<&str> = verb.split(' ').chain(["--server", &nobody]).collect();
        let run = sandbox.run(&arguments);
        run.refused(3, &format!("no control plane answers at {nobody}: Connection refused"));
        assert!(run.stderr.contains("\nhint: `fabricast up`"), "{run:?}");
        run.silent();
    }
    for nonsense in ["", ":", "nonsense", "a b:1", "http://a:1", "127.0.0.1:0", "127.0.0.1:99999"] {
        let run = sandbox.run(&["group", "list", "--server", nonsense]);
        run.refused(2, &format!("--server: '{nonsense}' is not HOST:PORT"));
    }
    let output = sandbox.command(&["group", "list"]).env("FABRICAST_SERVER", &nobody).output();
    assert_eq!(output.unwrap().status.code(), Some(3));
}

#[test]
fn parts_of_the_fabric_are_named_in_one_way_only() {
    refuse(
        &sandbox(),
        &[
            ("fabric fail", 2, "--link <SWITCH:PORT>|--switch"),
            ("fabric fail --link a:1 --switch b", 2, "cannot be used with"),
            ("fabric fail --link a", 2, "--link: 'a' is not SWITCH:PORT"),
            ("fabric heal --link a:x", 2, "--link: 'a:x' is not SWITCH:PORT"),
            ("fabric fail --link a:-1", 2, "--link: 'a:-1' is not SWITCH:PORT"),
            ("fabric --format json", 2, "give --config or a verb"),
            ("group rename g", 2, "unrecognized subcommand 'rename'"),
        ],
    );
}

#[test]
fn bad_settings_are_all_reported_and_end_with_78() {
    let sandbox = sandbox();
    let topology = data("cluster-edr-96.ibnetdiscover");
    let cases = [
        ("tic", "", vec!["tic.store: missing", "tic.topology: missing"]),
        ("tic", "no toml", vec!["c.toml:1: "]),
        (
            "tic",
            "[tic]\nlisten = \"x\"\ncolors = 0\nbogus = 1\nreport_timeout = \"5\"\n[nope]\n",
            vec![
                "c.toml:2: tic.listen",
                "c.toml:3: tic.colors",
                "c.toml:4: tic.bogus",
                "c.toml:5: tic.report_timeout",
                "c.toml:6: nope: unknown section",
            ],
        ),
        (
            "tic",
            "[tic]\nstore = \"memory\"\ntopology = \"none\"\n",
            vec!["tic.topology: read 'none'"],
        ),
        ("tic", "[tic]\nlisten = \"0.0.0.0:1\"\n", vec!["allow_plaintext"]),
        (
            "router",
            "[router]\ncolors = 99999\nswitch_agents = [\"a\"]\n",
            vec!["router.colors", "router.switch_agents[0]"],
        ),
        ("fabric", "", vec!["fabric.topology: missing", "fabric.management_key: missing"]),
        ("operating-agent", "", vec!["operating_agent.nodes: empty"]),
        ("switch-agent", "", vec!["switch_agent.name: missing", "switch_agent.management_key"]),
    ];
    for (part, text, needles) in cases {
        sandbox.write("c.toml", text);
        for extra in [vec!["--check-config"], vec![]] {
            let run = sandbox.run(&[vec![part, "--config", "c.toml"], extra].concat());
            for needle in &needles {
                run.refused(78, needle);
            }
            run.silent();
        }
    }
    let free = "path_links = 4.0\nlink_us = 0.28\nmatching_us = 0.01\nstore_us_per_byte = 0.001\n\
                reduce_us_per_byte = 0.0\nsoftware_us = 0.0\n";
    sandbox.write("free.toml", free);
    let named = format!(
        "[tic]\nstore = \"memory\"\ntopology = \"{topology}\"\n\
         aggregation_parameters = \"free.toml\"\n"
    );
    sandbox.write("c.toml", named);
    let needle = "tic.aggregation_parameters: 'free.toml': reduce_us_per_byte is 0";
    sandbox.run(&["tic", "--config", "c.toml", "--check-config"]).refused(78, needle);
    for file in ["missing", "folder", "binary"] {
        sandbox.run(&["tic", "--config", file, "--check-config"]).refused(78, "cannot be read");
    }
    sandbox.write("c.toml", format!("[tic]\nstore = \"memory\"\ntopology = \"{topology}\"\n"));
    assert_eq!(sandbox.ok(&["tic", "--config", "c.toml", "--check-config"]), "");
    let mut command = sandbox.command(&["tic", "--config", "c.toml", "--check-config"]);
    let output = command.env("FABRICAST_TIC__COLORS", "0").output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("FABRICAST_TIC__COLORS: tic.colors"));
}

#[test]
fn a_port_in_use_stops_every_service_before_it_begins() {
    let sandbox = sandbox();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let topology = data("cluster-edr-96.ibnetdiscover");
    let key = "management_key = \"0123456789abcdef\"";
    let parts = [
        (
            "tic",
            format!(
                "[tic]\nlisten = \"{listen}\"\nstore = \"memory\"\ntopology = \"{topology}\"\n"
            ),
        ),
        ("router", format!("[router]\nlisten = \"{listen}\"\nswitch_agents = [\"127.0.0.1:1\"]\n")),
        ("fabric", format!("[fabric]\nlisten = \"{listen}\"\ntopology = \"{topology}\"\n{key}\n")),
        ("switch-agent", format!("[switch_agent]\nname = \"s\"\nlisten = \"{listen}\"\n{key}\n")),
        (
            "operating-agent",
            format!(
                "[operating_agent]\nlisten = \"{listen}\"\n\
             [[operating_agent.nodes]]\nname = \"a\"\nendpoints = [\"a\"]\n"
            ),
        ),
    ];
    let expected = format!("cannot listen on {listen}: Address already in use");
    for (part, text) in parts {
        sandbox.write("c.toml", text);
        let run = sandbox.run(&[part, "--config", "c.toml"]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.stderr
                .lines()
                .any(|line| line.starts_with("fabricast: ") && line.contains(&expected)),
            "{run:?}"
        );
    }
    let run = sandbox.run(&["up", "--listen", &listen, "--store", "records.redb"]);
    run.refused(2, &expected);
    assert!(!sandbox.path("records.redb").exists(), "nothing was begun");
}

#[test]
fn a_store_that_is_none_is_refused_and_left_alone() {
    let sandbox = sandbox();
    refuse(
        &sandbox,
        &[
            ("up --listen 127.0.0.1:0 --store prose", 2, "prose is not a fabricast store"),
            ("up --listen 127.0.0.1:0 --store binary", 2, "binary is not a fabricast store"),
            (
                "up --listen 127.0.0.1:0 --store folder",
                2,
                "cannot open store folder: Is a directory",
            ),
            ("up --listen 127.0.0.1:0 --store no/where", 2, "cannot open store no/where: No such"),
            (
                "store export --store missing.redb --out copy.jsonl",
                2,
                "there is no store at missing.redb",
            ),
            ("store export --store memory --out copy.jsonl", 2, "there is no store at memory"),
        ],
    );
}

#[test]
fn the_example_settings_are_right_for_every_part() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for part in ["fabric", "tic", "switch-agent", "router", "operating-agent"] {
        let check = std::process::Command::new(env!("CARGO_BIN_EXE_fabricast"))
            .args([part, "--config", "data/fabricast.toml", "--check-config"])
            .current_dir(root)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success() && said.is_empty(), "{part}: {said}");
    }
}
