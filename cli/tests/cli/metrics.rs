//! Metrics of a part, over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::{Sandbox, data, free_address};

/// Timeout of a condition; a test that waits longer fails.
const LIMIT: Duration = Duration::from_secs(60);

/// Fetches the metrics; `None` if nothing answers.
pub(crate) fn get(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_bundle_holds_what_the_servers_know_and_says_who_did_not_answer() {
    let sandbox = Sandbox::new();
    let (address, nobody) = (free_address(), free_address());
    let net = data("cluster-edr-96.ibnetdiscover");
    sandbox.write(
        "f.toml",
        format!("[tic]\nlisten = '{address}'\ntopology = '{net}'\nstore = 'memory'\n"),
    );
    let mut command = sandbox.command(&["tic", "--config", "f.toml"]);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let servers = format!("{address},{nobody}");
    let collect = ["debug", "bundle", "--out", "found", "--server", &servers, "--format", "json"];
    let started = Instant::now();
    let said = loop {
        let run = sandbox.run(&collect);
        if run.code == 0 || started.elapsed() > LIMIT {
            break run;
        }
    };
    sandbox.run(&collect).refused(2, "'found' is there already");
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(said["servers"], 1);
    assert!(said["problems"][0].as_str().is_some_and(|line| line.starts_with(&nobody)), "{said}");
    let last = said["problems"].as_array().and_then(|all| all.last()?.as_str());
    let no_router = "route services: none answers, so the tables were compared by none";
    assert!(last.is_some_and(|line| line.ends_with(no_router)), "{said}");
    let folder = format!("found/{}", address.replace(':', "_"));
    let topology = sandbox.read(&format!("{folder}/topology.ibnetdiscover"));
    assert!(topology.contains("Switch"), "{topology}");
    for name in ["server-info", "groups", "nodes", "jobs", "collectives"] {
        let text = sandbox.read(&format!("{folder}/{name}.json"));
        let _json: serde_json::Value = serde_json::from_str(&text).expect(name);
    }
    // Nobody there at all: nothing is written.
    let collect = ["debug", "bundle", "--out", "none", "--server", &nobody];
    assert_eq!(sandbox.run(&collect).code, 3);
    assert!(!sandbox.path("none").exists());
}

#[test]
fn a_part_counts_its_calls_and_says_so() {
    let sandbox = Sandbox::new();
    let (address, metrics) = (free_address(), free_address());
    let net = data("cluster-edr-96.ibnetdiscover");
    sandbox.write(
        "f.toml",
        format!("[tic]\nlisten = '{address}'\ntopology = '{net}'\nstore = 'memory'\n"),
    );
    let mut command = sandbox.command(&["tic", "--config", "f.toml", "--metrics", &metrics]);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let wanted = [
        "\nfabricast_tic_leads 1\n",
        "fabricast_build_info{service=\"tic\",",
        "{service=\"TicService\",call=\"ListGroups\",code=\"OK\"} ",
        "{service=\"TicService\",call=\"GetGroup\",code=\"NOT_FOUND\"} ",
    ];
    let started = Instant::now();
    let found = loop {
        sandbox.run(&["group", "list", "--server", &address]);
        sandbox.run(&["group", "show", "none", "--server", &address]);
        let answer = get(&metrics).unwrap_or_default();
        if wanted.iter().all(|line| answer.contains(line)) {
            break Ok(());
        }
        if started.elapsed() > LIMIT {
            break Err(answer);
        }
    };
    // One that has ended already is as good.
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(found, Ok(()));
}

#[test]
fn one_reading_of_up_has_the_metrics_of_all_parts_and_a_copy_tells_its_time() {
    let sandbox = Sandbox::new();
    let (address, metrics) = (free_address(), free_address());
    let up = ["up", "--listen", &address, "--metrics", &metrics, "--store", "records.redb"];
    let mut command = sandbox.command(&up);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let wanted = [
        "fabricast_build_info{service=\"up\",",
        "\nfabricast_tic_leads 1\n",
        "\nfabricast_tic_nodes{state=\"up\"} 95\n",
        "\nfabricast_tic_nodes{state=\"failed\"} 1\n",
        "\nfabricast_tic_drained_nodes 1\n",
        "\nfabricast_tic_groups 1\n",
        "\nfabricast_tic_members 2\n",
        "\nfabricast_tic_records_copy_timestamp_seconds 0\n",
        "\nfabricast_tic_commit_seconds_bucket{le=\"+Inf\"} ",
        "\nfabricast_router_active 1\n",
        "\nfabricast_router_routed_groups 1\n",
        "\nfabricast_router_last_compute_seconds 0.",
        "\nfabricast_switch_agent_failed_elements 1\n",
        "\nfabricast_operating_agent_admissions_total 9",
        "\nprocess_resident_memory_bytes ",
        "\nprocess_open_fds ",
        "\nprocess_cpu_seconds_total ",
        "\nprocess_start_time_seconds 1",
    ];
    let started = Instant::now();
    let found = loop {
        for change in [
            &["group", "join", "g/0", "--node", "node001"][..],
            &["group", "join", "g/0", "--node", "node002"],
            &["node", "drain", "node003"],
            &["fabric", "fail", "--endpoint", "node004 HCA-1"],
            &["node", "stop", "node005"],
        ] {
            sandbox.run(&[change, &["--server", &address]].concat());
        }
        let answer = get(&metrics).unwrap_or_default();
        let missing: Vec<&str> = wanted.into_iter().filter(|line| !answer.contains(line)).collect();
        if missing.is_empty() {
            break Ok(());
        }
        if started.elapsed() > LIMIT {
            break Err(missing);
        }
    };
    let copied = sandbox.run(&["store", "export", "--server", &address, "--out", "live"]);
    let after = get(&metrics).unwrap_or_default();
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(found, Ok(()));
    assert!(copied.code == 0 && copied.stderr.is_empty(), "{copied:?}");
    // The present time begins with 1.
    assert!(after.contains("\nfabricast_tic_records_copy_timestamp_seconds 1"), "{after}");
    let export = ["store", "export", "--store", "records.redb", "--out", "copy"];
    sandbox.ok(&[&export[..], &["--metrics-file", "copy.prom"]].concat());
    let text = sandbox.read("copy.prom");
    let line = text.lines().last().expect("a sample");
    let (name, seconds) = line.split_once(' ').expect("a value");
    assert_eq!(name, "fabricast_store_export_timestamp_seconds");
    let age = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
        - seconds.parse::<u64>().expect("seconds");
    assert!(age < 600, "{text}");
    let refused = sandbox.run(&[&export[..], &["--metrics-file", "none/copy.prom"]].concat());
    refused.refused(2, "none/copy.prom");
}
