//! Replies of commands that change something.

use super::Up;

/// Commands in an order in which each succeeds, and the subject that the reply has to name.
const CHANGES: [(&[&str], &str); 24] = [
    (&["group", "create", "a/1", "--node", "node001", "--persistent"], "a/1"),
    (&["group", "join", "a/1", "--node", "node002", "--job", "j"], "a/1"),
    (&["group", "send", "a/1", "--node", "node001"], "a/1"),
    (&["collective", "create", "sum", "--group", "a/1", "--tenant", "t"], "sum"),
    (&["collective", "limit", "--tenant", "t", "--collectives", "9"], "t"),
    (&["collective", "delete", "sum"], "sum"),
    (&["group", "leave", "a/1", "--node", "node002"], "a/1"),
    (&["group", "delete", "a/1"], "a/1"),
    (&["group", "form", "--groups", "formed", "--job", "night"], "night"),
    (&["group", "delete", "--job", "night"], "night"),
    (&["fabric", "send", "--endpoint", "node001 HCA-1", "--mgid", "1", "--color", "0"], "node001"),
    (&["job", "allocate", "j1", "--nodes", "2"], "j1"),
    (&["job", "release", "j1", "--dry-run"], "j1"),
    (&["job", "release", "j1"], "j1"),
    (&["node", "drain", "node003"], "node003"),
    (&["node", "resume", "node003"], "node003"),
    (&["node", "readmit", "node003"], "node003"),
    (&["node", "fail", "node003"], "node003"),
    (&["node", "stop", "node004"], "node004"),
    (&["node", "start", "node004"], "node004"),
    (&["fabric", "disturb", "S-ec0d9a0300ec8240", "--delay-ms", "1"], "S-ec0d9a0300ec8240"),
    (&["fabric", "wipe", "S-ec0d9a0300ec8240"], "S-ec0d9a0300ec8240"),
    (&["fabric", "fail", "--switch", "S-ec0d9a0300ec8240"], "S-ec0d9a0300ec8240"),
    (&["fabric", "heal", "--switch", "S-ec0d9a0300ec8240"], "S-ec0d9a0300ec8240"),
];

#[test]
fn replies_name_their_subject_in_tables_and_in_json() {
    let (tables, programs) = (Up::start(), Up::start());
    for up in [&tables, &programs] {
        let members = r#"["node001 HCA-1", "node002 HCA-1"]"#;
        up.sandbox.write("formed", format!("{{\"name\": \"n/1\", \"members\": {members}}}\n"));
    }
    for (change, subject) in CHANGES {
        let reply = tables.ok(change);
        assert!(reply.contains(subject), "{change:?}: {reply}");
        let reply = programs.json(change);
        let names = |value: &serde_json::Value| {
            value.as_str().is_some_and(|text| text.split(' ').any(|word| word == subject))
        };
        let fields = reply.as_object().expect("an object");
        assert!(fields.values().any(names), "{change:?}: {reply}");
    }
    // Unknown names are refused alike.
    for (change, code) in [
        (&["collective", "delete", "none"][..], 2),
        (&["collective", "release", "77"], 2),
        (&["group", "delete", "none"], 2),
        (&["job", "release", "none"], 2),
    ] {
        tables.run(change).refused(code, "");
    }
}

/// Commands that show a state, as people see them on a terminal of 80 columns.
const STATES: [&[&str]; 8] = [
    &["node", "list"],
    &["group", "list"],
    &["group", "show", "rows/0"],
    &["switch", "list"],
    &["job", "list"],
    &["route", "explain", "--group", "rows/0"],
    &["route", "status"],
    &["status"],
];

#[test]
fn states_fit_a_terminal_of_80_columns() {
    let up = Up::start();
    for node in ["node001", "node030", "gpu042"] {
        up.ok(&["group", "join", "rows/0", "--node", node]);
    }
    up.routed("rows/0", 3);
    up.ok(&["job", "allocate", "climate/ensemble-2026", "--nodes", "30"]);
    up.ok(&["node", "drain", "node003"]);
    let shown = |words: &[&str], columns: &str| {
        let mut command = up.sandbox.command(&up.arguments(words));
        let output = command.env("COLUMNS", columns).output().expect("the binary starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    for words in STATES {
        let text = shown(words, "80");
        assert!(longest(&text).is_some_and(|length| length <= 80), "{words:?}: {text}");
    }
    let wide = shown(STATES[0], "400");
    assert!(longest(&wide) > Some(80), "it would not fit by itself: {wide}");
}

#[test]
fn ports_without_a_packet_or_a_cable_are_listed_if_asked_for() {
    let up = Up::start();
    let rows = |arguments: &[&str]| {
        let text = up.ok(arguments);
        let of_port = |line: &&str| {
            line.split_once(' ')
                .is_some_and(|(port, rest)| port.parse::<u8>().is_ok() && rest.starts_with(' '))
        };
        (text.lines().filter(of_port).count(), text)
    };
    let switch = "S-ec0d9a0300ec8240";
    let all =
        up.json(&["switch", "show", switch, "--ports"])["ports"].as_array().map_or(0, Vec::len);
    let counters = ["switch", "show", switch, "--counters"];
    let (none, text) = rows(&counters);
    assert_eq!(none, 0, "{text}");
    assert!(
        text.ends_with(&format!("{all} ports without a packet, which --all lists\n")),
        "{text}"
    );
    assert_eq!(rows(&[&counters[..], &["--all"]].concat()).0, all);
    assert_eq!(rows(&["switch", "show", switch, "--ports", "--all"]).0, all);
}

#[test]
fn all_holders_and_switch_agents_are_listed_if_asked_for() {
    let up = Up::start();
    for node in ["node001", "node002"] {
        up.ok(&["group", "join", "g", "--node", node]);
    }
    up.ok(&["collective", "create", "sum", "--group", "g", "--tenant", "physics"]);
    assert!(up.ok(&["collective", "usage", "--all"]).contains("\nphysics  (all)  1"));
    let agents = up.ok(&["switch", "list", "--reporters", "--all"]);
    assert!(agents.starts_with("SWITCH AGENT"), "{agents}");
    up.run(&["switch", "list", "--all"]).refused(2, "--reporters");
}

#[test]
fn documents_of_a_control_plane_are_json_for_programs_that_ask_for_it() {
    let up = Up::start();
    let text = up.ok(&["topology", "download"]);
    up.sandbox.write("downloaded", &text);
    let downloaded = up.json(&["topology", "download", "--out", "file"]);
    assert_eq!(up.sandbox.read("file"), text);
    assert_eq!(downloaded, up.sandbox.json(&["topology", "show", "downloaded"]));
    let tree = up.json(&["slurm", "topology"]);
    let switches = tree["switches"].as_array().expect("a list");
    let leaf = &switches[0];
    let conf = up.ok(&["slurm", "topology"]);
    assert_eq!(conf.lines().filter(|line| line.starts_with("SwitchName=")).count(), switches.len());
    let name = leaf["name"].as_str().expect("a name");
    assert!(conf.contains(&format!("SwitchName={name} Nodes=")), "{leaf}");
    assert!(leaf["nodes"].as_array().is_some_and(|nodes| nodes.len() > 1), "{leaf}");
    assert!(switches.iter().any(|switch| switch["switches"].is_array()), "{tree}");
    for node in ["node001", "gpu042"] {
        up.ok(&["group", "join", "g", "--node", node]);
    }
    up.routed("g", 2);
    let drawn = up.json(&["route", "draw", "g"]);
    assert!(drawn["svg"].as_str().is_some_and(|svg| svg.contains("<svg")), "{drawn}");
}

#[test]
fn older_names_of_commands_do_the_same() {
    let up = Up::start();
    let switch = "S-ec0d9a0300ec8240";
    up.wait(&["switch", "show", switch, "--entries"], |table| table["fence"]["term"] != "0");
    for (older, name) in [
        (&["switch", "table", switch][..], &["switch", "show", switch, "--entries"][..]),
        (&["switch", "ports", switch], &["switch", "show", switch, "--ports"]),
        (&["switch", "counters", switch], &["switch", "show", switch, "--counters"]),
        (&["switch", "counters"], &["switch", "show", "--counters"]),
        (&["switch", "reporters"], &["switch", "list", "--reporters"]),
        (&["node", "memberships", "node001"], &["node", "show", "node001", "--memberships"]),
    ] {
        assert_eq!(up.ok(older), up.ok(name), "{older:?}");
    }
    let shown = up.json(&["switch", "show", switch]);
    let listed = up.json(&["switch", "list"]);
    assert!(listed["switches"].as_array().is_some_and(|all| all.contains(&shown)), "{shown}");
    up.run(&["switch", "show", "nowhere"]).refused(2, "no switch 'nowhere'");
    up.run(&["switch", "show", switch, "--ports", "--entries"]).refused(2, "cannot be used with");
    up.run(&["switch", "show", "--ports"]).refused(2, "give the name of a switch");
}

#[test]
fn release_ends_a_reservation_by_number_and_a_collective_by_name_as_older_versions_do() {
    let up = Up::start();
    for node in ["node001", "gpu042"] {
        up.ok(&["group", "join", "g", "--node", node]);
    }
    let create = |name| {
        up.ok(&["collective", "create", name, "--group", "g", "--tenant", "t"]);
    };
    let entries = ["--entries", "1", "--endpoints", "node001 HCA-1,gpu042 HCA-1"];
    let reserve = [&["collective", "reserve", "--tenant", "t"][..], &entries].concat();
    let reserve = || up.json(&reserve)["reservation"]["id"].to_string();
    for release in ["release", "cancel"] {
        let number = reserve();
        let last = up.ok(&["collective", release, &number]);
        assert_eq!(last, format!("reservation {number} released\n"));
        up.run(&["collective", release, &number]).refused(2, "no reservation");
    }
    create("sum");
    assert!(up.ok(&["collective", "release", "sum"]).starts_with("collective sum deleted"));
    up.run(&["collective", "show", "sum"]).refused(2, "no collective 'sum'");
    // With both, the older meaning and today's differ.
    let number = reserve();
    create(&number);
    up.run(&["collective", "release", &number]).refused(2, "a collective or a reservation");
    up.ok(&["collective", "show", &number]);
    up.ok(&["collective", "cancel", &number]);
    up.run(&["collective", "release", &number]).refused(2, "a collective or a reservation");
    up.ok(&["collective", "delete", &number]);
}
