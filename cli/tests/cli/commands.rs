//! Every command of the command line: exit codes, and errors for programs.

use std::collections::BTreeSet;

use clap::{Arg, Command, CommandFactory};
use fabricast_cli::Cli;
use serde_json::Value;

use crate::support::Sandbox;

/// An address at which nobody answers.
const NOBODY: &str = "127.0.0.1:1";

/// A command without verbs of its own, and the words that name it.
struct Leaf {
    words: Vec<String>,
    command: Command,
}

/// All commands that help names.
fn leaves() -> Vec<Leaf> {
    let mut root = Cli::command();
    root.build();
    let mut open = vec![Leaf { words: Vec::new(), command: root }];
    let mut found = Vec::new();
    while let Some(Leaf { words, command }) = open.pop() {
        let verbs: Vec<&Command> = command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
            .collect();
        if verbs.is_empty() {
            found.push(Leaf { words, command });
            continue;
        }
        for verb in verbs {
            let words = [&words[..], &[verb.get_name().to_owned()]].concat();
            open.push(Leaf { words, command: verb.clone() });
        }
    }
    found
}

/// A value that an argument accepts, although there may be no such thing.
fn value(arg: &Arg) -> String {
    if let Some(possible) = arg.get_possible_values().first() {
        return possible.get_name().to_owned();
    }
    let name = arg.get_value_names().and_then(|names| names.first().map(ToString::to_string));
    match name.as_deref().unwrap_or_default() {
        "N" | "MS" | "PID" => "1",
        "SWITCH:PORT" => "s:1",
        "TIME" => "1s",
        "FILE" => "groups",
        "FILE|PRESET" => "t.toml",
        "MGID" | "COLOR" | "RESERVATION" => "1",
        _ => "x",
    }
    .to_owned()
}

/// The arguments that a command requires, by their definition.
fn required(command: &Command) -> Vec<String> {
    let in_groups: BTreeSet<&str> = command
        .get_groups()
        .filter(|group| group.is_required_set())
        .filter_map(|group| group.get_args().next().map(|id| id.as_str()))
        .collect();
    let wanted = |arg: &&Arg| arg.is_required_set() || in_groups.contains(arg.get_id().as_str());
    let mut words = Vec::new();
    for arg in command.get_arguments().filter(wanted) {
        words.extend(arg.get_long().map(|long| format!("--{long}")));
        if arg.get_action().takes_values() {
            words.push(value(arg));
        }
    }
    words
}

#[test]
fn every_command_refuses_wrong_arguments_with_2_and_json() {
    let sandbox = Sandbox::new();
    let leaves = leaves();
    assert!(leaves.len() > 70, "{} commands", leaves.len());
    for Leaf { words, .. } in leaves {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = sandbox.run(&[&words[..], &["--no-such-flag", "--format", "json"]].concat());
        run.refused(2, "--no-such-flag");
        run.silent();
    }
}

/// Commands with `--server` that end otherwise where nobody answers: a context is only written
/// down, the console says on its pages who does not answer, and outside of a job of Slurm its hooks
/// have nothing to do.
const OTHERS: [&str; 4] = ["console", "context add", "slurm epilog", "slurm prolog"];

/// Arguments that a command needs for its first call, although its definition does not say so.
fn more(words: &[String]) -> &'static [&'static str] {
    match words.join(" ").as_str() {
        "collective fit" | "route verify" => &["--live"],
        "store export" => &["--out", "copy"],
        "group delete" | "route draw" | "route explain" => &["rows/1"],
        "switch show" => &["S-1"],
        "fabric corrupt" | "fabric disturb" | "fabric wipe" => &["S-1"],
        _ => &[],
    }
}

#[test]
fn every_command_that_reaches_nobody_ends_with_3_and_json() {
    let sandbox = Sandbox::new();
    sandbox.write("groups", "{\"name\":\"g\",\"members\":[\"h0\"]}\n");
    sandbox.write("t.toml", "kind='leaf-spine'\nleaves=2\nspines=2\nendpoints_per_leaf=2\n");
    let calls = |leaf: &Leaf| leaf.command.get_arguments().any(|arg| arg.get_id() == "server");
    let mut wrong = Vec::new();
    let mut count = 0;
    for Leaf { words, command } in leaves().into_iter().filter(calls) {
        if OTHERS.contains(&words.join(" ").as_str()) {
            continue;
        }
        count += 1;
        let required = required(&command);
        let all = words.iter().chain(&required).map(String::as_str);
        let mut arguments: Vec<&str> = all.collect();
        arguments.extend(more(&words));
        arguments.extend(["--server", NOBODY, "--format", "json"]);
        let run = sandbox.run(&arguments);
        let line = run.stderr.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(line).unwrap_or_default();
        let message = error["error"]["message"].as_str().unwrap_or_default();
        if run.code != 3 || error["error"]["exitCode"] != 3 || !message.contains(NOBODY) {
            wrong.push(format!("{run:?}"));
        }
    }
    assert!(count > 50, "{count} commands call running parts");
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}

/// Last words of the commands that show a state of a control plane.
const STATES: [&str; 9] =
    ["audit", "constants", "explain", "health", "list", "report", "show", "status", "usage"];

#[test]
fn every_state_of_a_control_plane_can_be_watched() {
    let has = |leaf: &Leaf, id: &str| leaf.command.get_arguments().any(|arg| arg.get_id() == id);
    let shows = |leaf: &Leaf| {
        let last = leaf.words.last().map_or("", String::as_str);
        STATES.contains(&last) && has(leaf, "server")
    };
    let leaves: Vec<Leaf> = leaves().into_iter().filter(shows).collect();
    assert!(leaves.len() > 18, "{} commands show a state", leaves.len());
    for Leaf { words, command } in leaves {
        let watch = command.get_arguments().find(|arg| arg.get_id() == "watch");
        assert_eq!(watch.and_then(|arg| arg.get_short()), Some('w'), "{words:?}");
    }
}

#[test]
fn tables_of_figures_list_all_rows_if_asked_for() {
    let leaves = leaves();
    for words in ["collective usage", "switch list", "switch show"] {
        let leaf = leaves.iter().find(|leaf| leaf.words.join(" ") == words);
        let mut arguments = leaf.expect("there is such a command").command.get_arguments();
        assert!(arguments.any(|arg| arg.get_long() == Some("all")), "{words}");
    }
}

#[test]
fn older_words_of_commands_are_taken_and_not_shown() {
    let (sandbox, leaves) = (Sandbox::new(), leaves());
    for (older, words) in [
        ("plan capacity", "capacity plan"),
        ("collective cost", "collective estimate"),
        ("collective tree", "collective explain"),
        ("collective quota", "collective limit"),
        ("topology presets", "topology list"),
        ("fabric programming", "fabric disturb"),
        ("node remove", "node delete"),
        ("context remove", "context delete"),
    ] {
        let about = |words: &str| {
            let arguments: Vec<&str> = words.split(' ').chain(["--help"]).collect();
            let help = sandbox.ok(&arguments);
            help.lines().next().expect("help says what it does").to_owned()
        };
        assert_eq!(about(older), about(words), "{older}");
        let is_shown = |words: &str| leaves.iter().any(|leaf| leaf.words.join(" ") == words);
        assert!(is_shown(words) && !is_shown(older), "{older}");
    }
}

/// Paths of the keys of a value that have a `_`.
fn snake_keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key.contains('_') {
                    found.insert(key.clone());
                }
                snake_keys(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| snake_keys(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn results_for_programs_have_keys_in_camel_case() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", "kind='leaf-spine'\nleaves=2\nspines=2\nendpoints_per_leaf=2\n");
    sandbox.write("groups", "{\"name\":\"g\",\"members\":[\"h0\",\"h2\"]}\n");
    let plan = ["--topology", "t.toml", "--groups", "groups"];
    for words in [
        &["topology", "show", "t.toml"][..],
        &["topology", "detect", "t.toml"],
        &["topology", "list"],
        &["topology", "generate", "--spec", "t.toml"],
        &["topology", "generate", "--spec", "t.toml", "--out", "made"],
        &["topology", "export", "t.toml"],
        &["topology", "draw", "t.toml"],
        &["completions", "bash"],
        &["route", "plan"],
        &["route", "explain", "--group", "g"],
        &["capacity", "plan"],
        &["collective", "estimate", "--processes", "4"],
        &["version", "--client"],
    ] {
        let takes_groups = ["route", "capacity"].contains(&words[0]);
        let arguments = if takes_groups { [words, &plan].concat() } else { words.to_vec() };
        let mut found = BTreeSet::new();
        snake_keys(&sandbox.json(&arguments), &mut found);
        assert!(found.is_empty(), "{words:?}: {found:?}");
    }
}

#[test]
fn documents_are_json_for_programs_that_ask_for_it() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", "kind='leaf-spine'\nleaves=2\nspines=1\nendpoints_per_leaf=1\n");
    let shown = sandbox.json(&["topology", "show", "t.toml"]);
    let links = |switch: usize| shown["switches"][switch]["links"].as_array().expect("a list");
    assert_eq!(links(0).len(), 2, "{shown}");
    let peers: Vec<&Value> = links(0).iter().map(|link| &link["peer"]).collect();
    let (host, spine) = (&shown["endpoints"][0]["name"], &shown["switches"][2]["name"]);
    assert_eq!(peers, [host, spine], "{shown}");
    assert_eq!(links(0)[0].get("peerPort"), None);
    let leaf = &shown["switches"][0]["name"];
    assert!(links(2).iter().any(|link| link["peer"] == *leaf
        && link["port"] == links(0)[1]["peerPort"]
        && link["peerPort"] == links(0)[1]["port"]));
    let with_file = ["topology", "generate", "--spec", "t.toml", "--out", "made"];
    for words in [&["topology", "export", "t.toml"][..], &with_file[..4], &with_file[..]] {
        assert_eq!(sandbox.json(words), shown, "{words:?}");
    }
    assert_eq!(sandbox.read("made"), sandbox.ok(&["topology", "export", "t.toml"]));
    let drawn = sandbox.json(&["topology", "draw", "t.toml"]);
    assert_eq!(drawn["svg"], sandbox.ok(&["topology", "draw", "t.toml"]).as_str());
    let script = sandbox.json(&["completions", "zsh"]);
    assert_eq!(script["script"], sandbox.ok(&["completions", "zsh"]).as_str());
}

#[test]
fn the_version_of_the_client_needs_no_control_plane() {
    let sandbox = Sandbox::new();
    let found = sandbox.json(&["version", "--client"]);
    let client = &found["client"];
    assert_eq!(client["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(client["protocols"], serde_json::json!(["fabricast.v1"]));
    let features = client["features"].as_array().expect("a list");
    assert!(features.contains(&"c-mr4lms-fixed".into()), "{found}");
    assert_eq!(found["parts"], serde_json::json!([]));
}

#[test]
fn a_table_fits_the_columns_that_it_is_given() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", "kind='leaf-spine'\nleaves=2\nspines=2\nendpoints_per_leaf=2\n");
    sandbox.write("groups", "{\"name\":\"g\",\"members\":[\"h0\",\"h2\"]}\n");
    let longest = |columns: &str| {
        let plan = ["capacity", "plan", "--topology", "t.toml", "--groups", "groups"];
        let mut command = sandbox.command(&plan);
        let output = command.env("COLUMNS", columns).output().expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The first line is a sentence.
        text.lines().skip(1).map(|line| line.chars().count()).max().expect("there is a table")
    };
    assert!(longest("200") > 70, "it is wide");
    assert!(longest("60") <= 60);
}

/// Output of a command on a terminal of its own, which script(1) makes.
fn on_terminal(sandbox: &Sandbox, words: &str, no_color: &str) -> String {
    let command = format!("{} {words}", env!("CARGO_BIN_EXE_fabricast"));
    let mut script = std::process::Command::new("script");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
    script.current_dir(sandbox.path(""));
    script.env("FABRICAST_CONTEXTS", sandbox.path("contexts.toml"));
    script.env("TERM", "xterm").env("NO_COLOR", no_color).env_remove("COLUMNS");
    let output = script.output().expect("script is part of every Debian");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn long_work_shows_its_progress_on_terminals_only() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", "kind='leaf-spine'\nleaves=2\nspines=2\nendpoints_per_leaf=2\n");
    sandbox.write("groups", "{\"name\":\"g\",\"members\":[\"h0\",\"h2\"]}\n");
    for (words, title) in [
        ("collective plan --topology t.toml --groups groups", "planning"),
        ("route plan --topology t.toml --groups groups", "planning"),
        ("route explain g --topology t.toml --groups groups", "planning"),
        ("store check groups", "reading"),
        ("store export --store missing.redb --out copy", "copying"),
    ] {
        let shown = on_terminal(&sandbox, words, "");
        assert!(shown.contains(title), "{words}: {shown:?}");
        let run = sandbox.run(&words.split(' ').collect::<Vec<_>>());
        assert!(!run.stderr.contains(title), "{run:?}");
    }
}

#[test]
fn a_terminal_shows_colors_and_a_pipe_or_one_that_refuses_them_none() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["context", "add", "a", "--server", "127.0.0.1:1"]);
    let on_terminal = |words: &str, no_color: &str| on_terminal(&sandbox, words, no_color);
    let list = on_terminal("context list", "");
    assert!(list.starts_with("\x1b[1mCURRENT"), "{list:?}");
    let refused = on_terminal("context use b", "");
    assert!(refused.starts_with("\x1b[31mfabricast:\x1b[0m no context"), "{refused:?}");
    for words in ["context list", "context use b"] {
        let plain = on_terminal(words, "1");
        assert!(!plain.is_empty() && !plain.contains('\x1b'), "{plain:?}");
    }
    assert!(!sandbox.ok(&["context", "list"]).contains('\x1b'));
}
