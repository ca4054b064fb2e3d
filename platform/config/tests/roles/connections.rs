//! Settings of connections, shared memory and aggregation engines.

use fabricast_config::{FabricConfig, OperatingAgentConfig, RouterConfig};

use crate::{complaints, load_text};

#[test]
fn aggregation_engines_can_do_something() {
    let fabric = "[fabric]\ntopology='t'\nmanagement_key='k'\n";
    let bad = format!("{fabric}aggregation_entries=0\naggregation_children=2\n");
    assert_eq!(
        complaints::<FabricConfig>(&bad, &[]),
        [
            "F:4: fabric.aggregation_entries: at least 1; without collectives in the network nobody asks for them",
            "F:5: fabric.aggregation_children: 2 are too few for a tree: its own process and two others are 3",
        ]
    );
    let fabric = load_text::<FabricConfig>(fabric, &[]).unwrap();
    assert_eq!((fabric.aggregation_entries, fabric.aggregation_children), (16, 64));
}

#[test]
fn certificates_and_plain_text_exclude_each_other() {
    let open = "[router]\nlisten='0.0.0.0:1'\nswitch_agents=['a:1']\n";
    let with = |more: &str| format!("{open}{more}");
    let accepted = load_text::<RouterConfig>(&with("certificates='/etc/c'\n"), &[]).unwrap();
    assert_eq!(accepted.certificates.unwrap().to_str(), Some("/etc/c"));
    assert_eq!(
        complaints::<RouterConfig>(&with("certificates=''\n"), &[]),
        ["F:4: router.certificates: empty"]
    );
    assert_eq!(
        complaints::<RouterConfig>(&with("certificates='c'\nallow_plaintext=true\n"), &[]),
        [
            "F:5: router.allow_plaintext: contradicts certificates: with them nothing is in plain text"
        ]
    );
}

#[test]
fn an_agent_listens_where_others_can_be_told_to_reach_it() {
    let file = "[operating_agent]\nlisten='0.0.0.0:7404'\nallow_plaintext=true\n[[operating_agent.nodes]]\nname='a'";
    assert_eq!(
        complaints::<OperatingAgentConfig>(file, &[]),
        [
            "operating_agent.advertise: missing; nobody can call an agent at an address of all interfaces"
        ]
    );
    let file = file.replace("0.0.0.0", "10.0.0.7");
    assert_eq!(load_text::<OperatingAgentConfig>(&file, &[]).unwrap().listen.port(), 7404);
}

#[test]
fn memory_is_shared_in_a_folder_that_processes_can_be_told_or_not_at_all() {
    let with =
        |line: &str| format!("[operating_agent]\n{line}\n[[operating_agent.nodes]]\nname='a'");
    let folder = |line: &str| {
        let config = load_text::<OperatingAgentConfig>(&with(line), &[]).unwrap();
        config.shared_memory.map(|path| path.display().to_string())
    };
    assert_eq!(folder("").as_deref(), Some("/dev/shm"));
    assert_eq!(folder("shared_memory='/run/fabricast'").as_deref(), Some("/run/fabricast"));
    assert_eq!(folder("shared_memory=''"), None);
    assert_eq!(
        complaints::<OperatingAgentConfig>(&with("shared_memory='shm'"), &[]),
        ["F:2: operating_agent.shared_memory: 'shm' is not absolute: processes are told it"]
    );
}
