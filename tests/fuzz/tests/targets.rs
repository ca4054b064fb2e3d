//! Runs every target on its corpus and on a fixed number of mutations of it.
//!
//! `FABRICAST_FUZZ_SEED` selects other mutations, and `FABRICAST_FUZZ_ROUNDS` multiplies their
//! number. For targets that call services this tries more inputs in less time than libFuzzer, which
//! is slow with many threads.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fabricast_fuzz::{Mutator, TARGETS, corpus, seeds};

/// Seed of the mutations.
const SEED: u64 = 0x6661_6272;

/// Returns a number from an environment variable.
fn number(variable: &str, usual: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return usual };
    text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number"))
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let seeds = seeds(name);
    let mut mutator = Mutator::new(number("FABRICAST_FUZZ_SEED", SEED));
    let count = u64::from(target.mutations) * number("FABRICAST_FUZZ_ROUNDS", 1);
    let mutations = (0..count).map(|_| mutator.next_input(&seeds));
    for input in seeds.iter().cloned().chain(mutations) {
        let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        let text = String::from_utf8_lossy(&input);
        assert!(ended.is_ok(), "{name} fails with {input:?}, as text:\n{text}");
    }
}

macro_rules! targets {
    ($($test:ident: $name:literal;)*) => {
        const TESTED: &[&str] = &[$($name),*];

        $(
            #[test]
            fn $test() {
                run($name);
            }
        )*
    };
}

targets! {
    any_text_is_a_topology_or_refused: "ibnetdiscover";
    any_text_describes_a_topology_or_is_refused: "topology-toml";
    any_text_is_groups_or_refused: "groups";
    any_text_is_routes_or_refused: "routes";
    any_text_is_tables_or_refused: "tables";
    any_text_is_a_list_of_nodes_or_refused: "hostlist";
    any_text_is_a_topology_of_slurm_or_refused: "slurm";
    any_text_is_measurements_or_refused: "measurements";
    any_text_is_settings_or_refused: "settings";
    any_text_is_a_value_or_refused: "values";
    any_text_is_an_identity_or_refused: "identity";
    any_bytes_are_a_certificate_or_refused: "certificate";
    any_bytes_are_a_frame_or_refused: "frame";
    any_bytes_are_a_packet_or_refused: "packet";
    any_bytes_are_an_answer_of_a_switch_or_refused: "smp";
    switches_that_answer_anything_are_discovered_or_not: "discovery";
    any_bytes_are_a_message_of_openflow_or_refused: "openflow";
    a_switch_that_tells_any_groups_and_flows_is_read: "openflow-table";
    any_bytes_are_a_frame_of_a_neighbor_or_none: "heard-frame";
    lists_of_joined_addresses: "programs";
    any_text_says_where_a_store_is_or_is_refused: "store-location";
    any_bytes_are_a_record_or_refused: "record";
    any_text_is_all_records_or_refused: "records-file";
    any_bytes_are_a_store_or_refused: "store-file";
    any_request_is_answered_or_refused_by_the_tic: "tic";
    any_request_is_answered_or_refused_by_the_route_service: "router";
    any_request_is_answered_or_refused_by_the_switch_agent: "switch-agent";
    any_request_is_answered_or_refused_by_operating_agents: "operating-agent";
    any_request_is_answered_or_refused_by_the_fabric: "fabric";
}

#[test]
fn every_target_is_tested_and_every_folder_is_of_a_target() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(TESTED, names);
    let folders = std::fs::read_dir(corpus(".")).expect("the corpus").flatten();
    for folder in folders {
        let name = folder.file_name().into_string().expect("a plain name");
        assert!(names.contains(&name.as_str()), "{name} is no target");
    }
}
