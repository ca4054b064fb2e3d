//! Settings of plain text, certificates and limits.

use std::fmt::Debug;

use fabricast_config::{
    FabricConfig, OperatingAgentConfig, Role, RouterConfig, Sources, SwitchAgentConfig, TicConfig,
};

fn load_text<R: Role>(text: &str, variables: &[(&str, &str)]) -> Result<R, Vec<String>> {
    let variables = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let sources = Sources { file: Some("F".into()), variables, flags: Vec::new() };
    let loaded = fabricast_config::load_text(text, &sources);
    loaded.map_err(|errors| errors.to_string().lines().map(str::to_owned).collect())
}

fn complaints<R: Role + Debug>(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load_text::<R>(text, variables).expect_err("the settings are bad")
}

#[test]
fn other_machines_are_called_in_plain_text_only_where_that_was_asked_for() {
    let names = "name = 'a'\nmanagement_key = 'k'\n";
    let nodes = "nodes = [{ name = 'n', endpoints = ['h'] }]\n";
    let told = |field: &str| {
        format!(
            "F:2: {field}: far:1 is on another machine, and connections are not encrypted: give certificates, or set allow_plaintext = true to accept that"
        )
    };
    let one = |key: &str, rest: &str| format!("\n{key} = 'far:1'\n{rest}");
    for (key, section) in [
        ("tic", "router"),
        ("tic", "operating_agent"),
        ("fabric", "operating_agent"),
        ("tic", "switch_agent"),
        ("fabric", "switch_agent"),
    ] {
        let rest = match section {
            "operating_agent" => nodes,
            "switch_agent" => names,
            _ => "",
        };
        let text = format!("[{section}]{}", one(key, rest));
        let found = |text: &str| match section {
            "router" => load_text::<RouterConfig>(text, &[]).map(drop),
            "operating_agent" => load_text::<OperatingAgentConfig>(text, &[]).map(drop),
            _ => load_text::<SwitchAgentConfig>(text, &[]).map(drop),
        };
        assert_eq!(found(&text).unwrap_err(), [told(&format!("{section}.{key}"))]);
        assert_eq!(found(&format!("{text}allow_plaintext = true\n")), Ok(()), "{text}");
        assert_eq!(found(&format!("{text}certificates = 'c'\n")), Ok(()), "{text}");
    }
    let agents = "[router]\nswitch_agents = ['127.0.0.1:1', 'far:1']\n";
    assert_eq!(complaints::<RouterConfig>(agents, &[]), [told("router.switch_agents")]);
    let store = "[tic]\nstore = 'etcd://far:1/x'\ntopology = 'f'\n";
    let found = complaints::<TicConfig>(store, &[]);
    assert!(found[0].contains("add ?certificates=FOLDER, or ?plaintext"), "{found:?}");
}

#[test]
fn limits_are_those_that_were_set_and_bad_ones_are_named() {
    let text = "[fabric]\ntopology = 'f'\nmanagement_key = 'k'\n[fabric.limits]\nburst = 7\n";
    let fabric: FabricConfig =
        load_text(text, &[("FABRICAST_FABRIC__LIMITS__OPEN_CALLS", "9")]).unwrap();
    assert_eq!((fabric.limits.burst, fabric.limits.open_calls), (7, 9));
    assert_eq!(fabric.limits.calls_per_second, 20_000);
    let bad = "[fabric]\ntopology = 'f'\nmanagement_key = 'k'\n[fabric.limits]\ncalls_per_second = 0\nconnections = 5\nburst = 1000001\nopen_calls = 0\nclient_request_bytes = 9\nrequest_bytes = 8\n";
    assert_eq!(
        complaints::<FabricConfig>(bad, &[]),
        [
            "F:5: fabric.limits.calls_per_second: 0 is not from 1 to 1000000",
            "F:7: fabric.limits.burst: 1000001 is not from 1 to 1000000",
            "F:8: fabric.limits.open_calls: must be at least 1: nobody could call",
            "fabric.limits.client_connections: 4096 are more than connections, 5",
            "F:9: fabric.limits.client_request_bytes: 9 is less than a message, 67108864",
            "F:10: fabric.limits.request_bytes: 8 is less than that of one, 9",
        ]
    );
}
