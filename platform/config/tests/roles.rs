//! Every part's settings as an operator meets them: defaults, the order of sources, and the
//! message for every mistake.

#[path = "roles/connections.rs"]
mod connections;
#[path = "roles/engines.rs"]
mod engines;
#[path = "roles/infiniband.rs"]
mod infiniband;
#[path = "roles/process_rules.rs"]
mod process_rules;

use std::fs;
use std::time::Duration;

use fabricast_config::{
    FabricConfig, Hardware, OperatingAgentConfig, Role, RouterConfig, Sources, StoreLocation,
    SwitchAgentConfig, TicConfig, load,
};
use fabricast_groups::programs::SenderLimits;
use fabricast_groups::watch::WatchConfig;
use fabricast_routing::EngineKind;

/// Loads from a file with this text and these variables; the messages name the file `F`.
fn load_text<R: Role>(text: &str, variables: &[(&str, &str)]) -> Result<R, Vec<String>> {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("fabricast.toml");
    fs::write(&path, text).expect("a scratch file");
    let variables = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let sources = Sources { file: Some(path.clone()), variables, flags: Vec::new() };
    load::<R>(&sources).map_err(|errors| {
        let text = errors.to_string().replace(&*path.to_string_lossy(), "F");
        text.lines().map(str::to_owned).collect()
    })
}

fn complaints<R: Role + std::fmt::Debug>(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load_text::<R>(text, variables).expect_err("the settings are bad")
}

#[test]
fn what_has_no_sensible_default_is_asked_for_and_the_rest_is_not() {
    assert_eq!(
        complaints::<TicConfig>("", &[]),
        ["tic.store: missing; it has no default", "tic.topology: missing; it has no default"]
    );
    assert!(load_text::<RouterConfig>("", &[]).is_ok());
    assert_eq!(
        complaints::<FabricConfig>("", &[]),
        [
            "fabric.topology: missing; it has no default",
            "fabric.management_key: missing; it has no default",
        ]
    );
    assert_eq!(
        complaints::<SwitchAgentConfig>("", &[]),
        [
            "switch_agent.name: missing; it has no default",
            "switch_agent.management_key: missing; it has no default",
        ]
    );
    assert_eq!(
        complaints::<OperatingAgentConfig>("", &[]),
        ["operating_agent.nodes: empty; an operating agent serves at least one node"]
    );
}

#[test]
fn the_defaults_of_all_parts_fit_together_on_one_machine() {
    let file = "
        [tic]
        store = 'memory'
        topology = 'net.ibnetdiscover'
        [fabric]
        topology = 'net.ibnetdiscover'
        management_key = 'k'
        [switch_agent]
        name = 'a'
        management_key = 'k'
        [[operating_agent.nodes]]
        name = 'h0'
    ";
    let tic: TicConfig = load_text(file, &[]).unwrap();
    let router: RouterConfig = load_text(file, &[]).unwrap();
    let fabric: FabricConfig = load_text(file, &[]).unwrap();
    let switch_agent: SwitchAgentConfig = load_text(file, &[]).unwrap();
    let operating_agent: OperatingAgentConfig = load_text(file, &[]).unwrap();
    assert_eq!(tic.store, StoreLocation::Memory);
    assert_eq!(router.tic[0].as_str(), tic.listen.to_string());
    assert_eq!(router.switch_agents[0].as_str(), switch_agent.listen.to_string());
    assert_eq!(switch_agent.tic[0].as_str(), tic.listen.to_string());
    assert_eq!(tic.topology, Some(fabric.topology));
    assert_eq!((tic.colors, tic.tables), (fabric.colors, fabric.tables));
    let Hardware::Emulated { fabric: emulated, management_key } = switch_agent.hardware else {
        panic!("the default needs nothing")
    };
    assert_eq!(emulated.as_str(), fabric.listen.to_string());
    assert_eq!(operating_agent.fabric.unwrap().as_str(), fabric.listen.to_string());
    assert_eq!(operating_agent.nodes[0].endpoints, ["h0"]);
    // Group agents and the TIC judge a silent node alike, and nobody is expelled unasked.
    assert!(tic.watch.detector.report_timeout > operating_agent.report_interval);
    let watch = WatchConfig::new(operating_agent.detector);
    assert_eq!(
        tic.watch,
        WatchConfig { max_silent_percent: 55, block_patience: Duration::from_secs(10), ..watch }
    );
    assert_eq!(tic.watch.detector.adaptive, None);
    // A sender that missed the hint hears of its new color before the old entries go.
    let hint_pause = Duration::from_millis(20);
    assert!(router.drain > operating_agent.report_interval + hint_pause);
    assert_eq!((router.colors, router.tables), (fabric.colors, fabric.tables));
    assert_eq!(router.engine, None, "what fits the topology");
    assert_eq!(fabric.management_key, management_key);
}

#[test]
fn flag_beats_variable_beats_file_beats_default() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.toml");
    fs::write(
        &path,
        "[router]\nread_back = '3s'\nallow_plaintext = true\ntic = 'file:1'\ncolors = 8\ndrain = '2s'\n[tic]\nstore = 'x'",
    )
    .unwrap();
    let mut sources = Sources { file: Some(path), ..Sources::default() };
    for (name, value) in [
        ("FABRICAST_ROUTER__TIC", "variable:1"),
        ("FABRICAST_ROUTER__COLORS", "16"),
        ("FABRICAST_ROUTER__SWITCH_AGENTS", "['a:1', 'b:2']"),
        ("FABRICAST_TIC__LISTEN", "of no concern to the router"),
        ("FABRICAST_LOG", "debug"),
        ("PATH", "x__y"),
    ] {
        sources.variables.push((name.to_owned(), value.to_owned()));
    }
    let router: RouterConfig =
        load(&sources.flag("colors", "24", "--colors").flag("tic", "flag:1", "--tic")).unwrap();
    assert_eq!(router.colors, 24);
    assert_eq!(router.tic[0].as_str(), "flag:1");
    assert_eq!(router.switch_agents.len(), 2);
    assert_eq!(router.switch_agents[1].as_str(), "b:2");
    assert_eq!(router.read_back, Duration::from_secs(3));
    assert_eq!(router.drain, Duration::from_secs(2));
    assert_eq!(router.listen.port(), 7402);
}

#[test]
fn a_variable_for_a_text_is_never_taken_for_a_number() {
    let variables = [("FABRICAST_SWITCH_AGENT__MANAGEMENT_KEY", "1234")];
    let key: SwitchAgentConfig = load_text("[switch_agent]\nname = 'a'", &variables).unwrap();
    let Hardware::Emulated { management_key, .. } = key.hardware else { panic!("the default") };
    assert_eq!(management_key.reveal(), "1234");
}

#[test]
fn every_mistake_in_a_file_is_reported_in_one_run_with_its_line() {
    let file = "\
[router]
listen = '127.0.0.1'
tic = 7
switch_agents = ['a:1', 'b', 'a:1']
trees = 3
engine = 'c-mr4lms'
colors = 70000
tables = 'per-switch'
drain = '50'
allow_plaintext = 'yes'

[roter]
";
    let engines: Vec<String> = EngineKind::ALL.iter().map(|kind| format!("`{kind}`")).collect();
    let engines = format!("`auto`, {}", engines.join(", "));
    let policy = "[router]\nroot_policy = 'hlse'\ncounter_interval = '99ms'\nread_back_rate = 0\nengine = 'c-mr4lms-fixed'\n";
    assert_eq!(
        complaints::<RouterConfig>(policy, &[]),
        [
            "F:2: router.root_policy: c-mr4lms-fixed has no roots to choose from",
            "F:3: router.counter_interval: less than 100ms",
            "F:4: router.read_back_rate: at least 1; what is never compared is never repaired",
        ]
    );
    let unknown = complaints::<RouterConfig>("[router]\nroot_policy = 'best'\n", &[]);
    assert!(unknown[0].starts_with("F:2: router.root_policy: no root policy is called"));
    assert_eq!(
        complaints::<RouterConfig>(file, &[]),
        [
            "F:12: roter: unknown section, expected one of tic, router, fabric, operating_agent, switch_agent, telemetry",
            "F:10: router.allow_plaintext: invalid type: string \"yes\", expected a boolean",
            "F:7: router.colors: invalid value: integer `70000`, expected u16",
            "F:9: router.drain: invalid value: string \"50\", expected a duration such as 250ms",
            &format!("F:6: router.engine: unknown engine `c-mr4lms`, expected one of {engines}"),
            "F:2: router.listen: invalid socket address syntax, expected one such as 127.0.0.1:7401",
            "F:3: router.tic: invalid type: integer `7`, expected an address of the form host:port, or a list of them",
            "F:5: router.trees: unknown field `trees`, expected one of `listen`, `allow_plaintext`, `advertise`, `certificates`, `limits`, `tic`, `switch_agents`, `engine`, `root_scope`, `fault_tolerant`, `stay_after_healing`, `root_policy`, `merge_policy`, `merge_partner`, `deadlock_free`, `counter_interval`, `colors`, `tables`, `drain`, `read_back`, `read_back_rate`, `recording_bytes`, `recording_folder`, `recording_folder_bytes`",
            "F:4: router.switch_agents[1]: 'b' is not of the form host:port",
            "F:4: router.switch_agents[2]: listed twice",
        ]
    );
}

#[test]
fn mistakes_in_variables_and_flags_name_them() {
    let variables = [
        ("FABRICAST_TIC__STORE", "memory"),
        ("FABRICAST_TIC__TOPOLOGY", "f"),
        ("FABRICAST_TIC__PROBE_ATTEMPTS", "0"),
        ("FABRICAST_TIC__LISTEN", "nowhere"),
        ("FABRICAST_TIC__PROBE_TIMEOUT", "0s"),
        ("FABRICAST_TIC__LISTN", "127.0.0.1:1"),
        ("FABRICAST_TCI__LISTEN", "127.0.0.1:1"),
    ];
    let found = complaints::<TicConfig>("", &variables).join("\n");
    for expected in [
        "FABRICAST_TCI__LISTEN: unknown section 'tci', expected one of tic,",
        "FABRICAST_TIC__LISTEN: tic.listen: invalid socket address syntax, expected one such as 127.0.0.1:7401",
        "FABRICAST_TIC__LISTN: tic.listn: unknown field `listn`",
        "FABRICAST_TIC__PROBE_TIMEOUT: tic.probe_timeout: must be longer than 0s",
        "FABRICAST_TIC__PROBE_ATTEMPTS: tic.probe_attempts: must be at least 1",
    ] {
        assert!(found.contains(expected), "{expected} is not in\n{found}");
    }
    let flags = Sources::default()
        .flag("topology", "f", "--topology")
        .flag("store", "", "--store")
        .flag("listen", "8080", "--listen");
    assert_eq!(
        load::<TicConfig>(&flags).unwrap_err().to_string(),
        "--listen: tic.listen: invalid type: integer `8080`, expected socket address such as 127.0.0.1:7401\n\
         --store: tic.store: empty; expected 'memory', the path of a file, \
         or etcd://host:port,.../prefix"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_one_problem() {
    let sources = Sources { file: Some("no/such.toml".into()), ..Sources::default() };
    let message = load::<TicConfig>(&sources).unwrap_err().to_string();
    assert!(message.starts_with("no/such.toml: cannot be read: "), "{message}");
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_line_and_nothing_else() {
    let found = complaints::<TicConfig>("[tic]\nstore = \nlisten = '1'\n", &[]);
    assert!(found.iter().all(|line| line.starts_with("F:2: ")), "{found:?}");
    assert_eq!(complaints::<TicConfig>("tic = 3", &[]), ["F:1: tic: expected a table: [tic]"]);
}

#[test]
fn plain_text_beyond_this_machine_must_be_asked_for() {
    let open = "[tic]\nstore = 'memory'\ntopology = 'f'\nlisten = '0.0.0.0:7401'\n";
    let found = complaints::<TicConfig>(open, &[]);
    assert!(found[0].starts_with("F:4: tic.listen: 0.0.0.0:7401 can be reached"), "{found:?}");
    let accepted = format!("{open}allow_plaintext = true\n");
    assert_eq!(load_text::<TicConfig>(&accepted, &[]).unwrap().listen.port(), 7401);
}

#[test]
fn colors_zero_empty_keys_and_empty_paths_are_refused() {
    assert_eq!(
        complaints::<FabricConfig>("[fabric]\ncolors = 0\ntopology = ''\nmanagement_key = ''", &[]),
        [
            "F:2: fabric.colors: a switch has at least 1 table entry",
            "F:3: fabric.topology: empty; expected the path of a file",
            "F:4: fabric.management_key: empty",
        ]
    );
    assert_eq!(
        complaints::<RouterConfig>("[router]\nswitch_agents = []", &[]),
        ["F:2: router.switch_agents: empty; without an agent no switch can be programmed"]
    );
}

#[test]
fn a_folder_for_recordings_can_hold_some() {
    let config: RouterConfig = load_text("[router]\nrecording_folder = 'r'\n", &[]).unwrap();
    assert_eq!(config.recording_folder.unwrap().to_str(), Some("r"));
    assert_eq!(config.recording_folder_bytes, 1 << 30);
    let none: RouterConfig =
        load_text("[router]\nrecording_bytes = 0\nrecording_folder_bytes = 0\n", &[]).unwrap();
    assert_eq!(none.recording_folder, None);
    assert_eq!(
        complaints::<RouterConfig>(
            "[router]\nrecording_folder = 'r'\nrecording_bytes = 100\nrecording_folder_bytes = 199",
            &[]
        ),
        ["F:4: router.recording_folder_bytes: less than 200, twice recording_bytes"]
    );
    assert_eq!(
        complaints::<RouterConfig>("[router]\nrecording_folder = 'r'\nrecording_bytes = 0", &[]),
        ["F:2: router.recording_folder: nothing is recorded, as recording_bytes is 0"]
    );
    assert_eq!(
        complaints::<RouterConfig>("[router]\nrecording_folder = ''", &[]),
        ["F:2: router.recording_folder: empty; expected the path of a folder"]
    );
}

#[test]
fn nodes_with_trouble_are_named_one_by_one() {
    let file = "\
[operating_agent]
report_interval = '3s'
[[operating_agent.nodes]]
name = 'a'
endpoints = ['e0', 'e1']
[[operating_agent.nodes]]
name = 'a'
[[operating_agent.nodes]]
endpoints = ['e2']
[[operating_agent.nodes]]
name = 'c'
endpoints = ['e3', 'e1']
[[operating_agent.nodes]]
name = 'd'
endpoints = []
[[operating_agent.nodes]]
name = 'e'
endpoints = 'e4'
";
    assert_eq!(
        complaints::<OperatingAgentConfig>(file, &[]),
        [
            "F:18: operating_agent.nodes[5].endpoints: invalid type: string \"e4\", expected a sequence",
            "operating_agent.report_timeout: 2s is not longer than report_interval, 3s",
            "F:7: operating_agent.nodes[1].name: 'a' is also the name of nodes[0]",
            "operating_agent.nodes[2].name: missing; it has no default",
            "F:12: operating_agent.nodes[3].endpoints[1]: 'e1' already belongs to node 'a'",
            "F:15: operating_agent.nodes[4].endpoints: empty; a node without an endpoint cannot join a group",
        ]
    );
}

#[test]
fn the_addresses_that_programs_send_to_are_limited() {
    let with = |more: &str| format!("[operating_agent]\nnodes = [{{ name = 'a' }}]\n{more}");
    let config: OperatingAgentConfig = load_text(&with("program_senders = 0"), &[]).unwrap();
    let timeout = Duration::from_secs(60);
    assert_eq!(config.program_senders, SenderLimits { addresses: 0, timeout });
    let wrong = with("program_senders = 1001\nprogram_sender_timeout = '999ms'");
    assert_eq!(
        complaints::<OperatingAgentConfig>(&wrong, &[]),
        [
            "F:3: operating_agent.program_senders: 1001 is more than 1000",
            "F:4: operating_agent.program_sender_timeout: less than 1s",
        ]
    );
}

#[test]
fn a_filter_of_switches_is_a_set_with_something_in_it() {
    let with = |switches: &str| {
        format!("[switch_agent]\nname='a'\nmanagement_key='k'\nswitches={switches}")
    };
    let config: SwitchAgentConfig = load_text(&with("['S-b', 'S-a']"), &[]).unwrap();
    assert_eq!(config.switches.unwrap().into_iter().collect::<Vec<_>>(), ["S-a", "S-b"]);
    let everything: SwitchAgentConfig =
        load_text("[switch_agent]\nname='a'\nmanagement_key='k'", &[]).unwrap();
    assert_eq!(everything.switches, None);
    assert_eq!(
        complaints::<SwitchAgentConfig>(&with("[]"), &[]),
        ["F:4: switch_agent.switches: empty; leave it out to mean all switches"]
    );
    assert_eq!(
        complaints::<SwitchAgentConfig>(&with("['', 'S-a', 'S-a']"), &[]),
        [
            "F:4: switch_agent.switches[0]: empty; expected a node id such as S-ec0d9a0300ec8240",
            "F:4: switch_agent.switches[2]: listed twice",
        ]
    );
}

#[test]
fn the_tics_are_one_address_or_a_list_in_a_file_or_a_variable() {
    let tics = |config: &RouterConfig| {
        let addresses = config.tic.iter().map(ToString::to_string);
        addresses.collect::<Vec<_>>().join(" ")
    };
    for (text, variables) in [
        ("[router]\nallow_plaintext = true\ntic = ['a:1', 'b:2']", [].as_slice()),
        ("[router]\nallow_plaintext = true\ntic = 'a:1, b:2'", &[]),
        ("[router]\nallow_plaintext = true", &[("FABRICAST_ROUTER__TIC", "a:1,b:2")]),
    ] {
        let config: RouterConfig = load_text(text, variables).unwrap();
        assert_eq!(tics(&config), "a:1 b:2", "{text}");
    }
    assert_eq!(
        complaints::<RouterConfig>("[router]\ntic = ['a:1', 'b', 'a:1']", &[]),
        [
            "F:2: router.tic[1]: 'b' is not of the form host:port",
            "F:2: router.tic[2]: listed twice"
        ]
    );
    assert_eq!(
        complaints::<RouterConfig>("[router]\ntic = []", &[]),
        ["F:2: router.tic: empty; expected at least one address of the form host:port"]
    );
}

#[test]
fn a_store_that_is_shared_asks_for_an_address_that_can_be_called_and_a_lease_that_etcd_grants() {
    let shared = "[tic]\ntopology = 'net'\nstore = 'etcd://a:1,b:2/x?certificates=/c'\n";
    let config: TicConfig = load_text(shared, &[]).unwrap();
    assert_eq!(config.store.to_string(), "etcd://a:1,b:2/x?certificates=/c");
    let everywhere = format!("{shared}listen = '0.0.0.0:7401'\nallow_plaintext = true\n");
    assert_eq!(
        complaints::<TicConfig>(&everywhere, &[]),
        ["tic.advertise: missing; nobody can call a TIC at an address of all interfaces"]
    );
    let named: TicConfig =
        load_text(&format!("{everywhere}advertise = 'tic-1:7401'"), &[]).unwrap();
    assert_eq!(named.advertise.unwrap().as_str(), "tic-1:7401");
    for lease in ["1s", "2500ms"] {
        let found = complaints::<TicConfig>(&format!("{shared}leader_lease = '{lease}'"), &[]);
        assert!(found[0].contains("is not whole seconds, at least 2s"), "{found:?}");
    }
    let found = complaints::<TicConfig>("[tic]\ntopology = 'net'\nstore = 'etcd://a'", &[]);
    assert!(found[0].starts_with("F:3: tic.store: 'a' is not a member"), "{found:?}");
}
