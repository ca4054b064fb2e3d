//! Failed nodes: reported, silent, or cut off.

use std::time::Duration;

use fabricast_groups::detector::{DetectorConfig, Policy, Probing};
use fabricast_groups::watch::WatchConfig;
use fabricast_proto::v1;
use fabricast_telemetry::metrics;
use fabricast_tic::{Setup, StoreLocation};
use tonic::Streaming;
use v1::directory_change::Kind;

use crate::batches;
use crate::harness::{Tic, endpoint, join, link, reason, registration, setup, switch};
use crate::hosts::Host;

/// A setup with these timeouts for reports and for answers to probes.
pub(crate) fn patient(report_timeout: Duration, timeout: Duration) -> Setup {
    let detector = DetectorConfig::new(report_timeout, Probing { timeout, attempts: 1 });
    let mut setup = setup(StoreLocation::Memory);
    setup.config.watch = WatchConfig::new(detector);
    setup
}

pub(crate) const SOON: Duration = Duration::from_millis(50);
/// Long enough for any answer on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);
const NEVER: Duration = Duration::from_secs(3_600);
/// Number of leaf switches whose silent nodes are kept.
const HELD_BLOCKS: &str = "fabricast_tic_held_blocks";

/// Waits until the watch shows a node as failed.
pub(crate) async fn failed(watch: &mut Streaming<v1::WatchDirectoryResponse>) -> v1::Node {
    loop {
        for change in watch.message().await.unwrap().unwrap().changes {
            if let Some(Kind::Node(node)) = change.kind
                && node.state() == v1::NodeState::Failed
            {
                return node;
            }
        }
    }
}

async fn fail(tic: &Tic, node: &str, incarnation: u64) -> v1::ReportNodeFailureResponse {
    let (node, reporter) = (node.to_owned(), "test".to_owned());
    let request = v1::ReportNodeFailureRequest { node, incarnation, reporter, probe_first: false };
    tic.client.clone().report_node_failure(request).await.unwrap().into_inner()
}

fn status(node: &str, groups: &[v1::HostedGroup]) -> v1::GroupAgentStatus {
    let (node, groups) = (node.to_owned(), groups.to_vec());
    v1::GroupAgentStatus { node, incarnation: 1, groups, ..Default::default() }
}

pub(crate) async fn report_agents(
    tic: &Tic,
    statuses: Vec<v1::GroupAgentStatus>,
) -> Vec<v1::GroupAgentVerdict> {
    let request = v1::ReportGroupAgentsRequest { statuses };
    tic.client.clone().report_group_agents(request).await.unwrap().into_inner().verdicts
}

/// The writer serves others between the steps.
#[tokio::test]
async fn a_node_in_many_groups_is_expelled_and_registered_anew_step_by_step() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    tic.register(0).await;
    tic.register(1).await;
    let many = || (0..5_000).map(|n| batches::group(&format!("g{n}"), &[0, 1])).collect();
    let (_, formed) = batches::form(&tic, vec![batches::request("first", many())]).await;
    formed.unwrap();
    let before = tic.revision().await;
    let verdict = fail(&tic, "n0", 1).await;
    assert_eq!(verdict.ended_memberships, 5_000);
    assert!(verdict.revision >= before + 3, "one decision ended too many memberships");
    let node = &tic.nodes().await[0];
    assert_eq!(node.state(), v1::NodeState::Failed);

    let register = |start| registration(0, "127.0.0.1:1", start);
    tic.client.clone().register_node(register(2)).await.unwrap();
    let (_, formed) = batches::form(&tic, vec![batches::request("again", many())]).await;
    formed.unwrap();
    let before = tic.revision().await;
    let registered = tic.client.clone().register_node(register(3)).await.unwrap().into_inner();
    assert_eq!(registered.node.unwrap().incarnation, 3);
    assert!(tic.revision().await >= before + 3, "one decision ended too many memberships");
    assert_eq!(tic.group("g4999").await.unwrap().agent_node, "n1");
}

#[tokio::test]
async fn a_reported_failure_expels_at_once() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    let mut host = Host::start();
    tic.register(0).await;
    tic.register_at(1, &host.address).await;
    tic.join("g", 0, "p").await;
    tic.join("g", 0, "q").await;
    tic.join("g", 1, "p").await;
    tic.join("h", 0, "p").await;
    let gn = tic.group("g").await.unwrap().gn;
    let verdict = fail(&tic, "n0", 1).await;
    assert_eq!(verdict.ended_memberships, 3);
    let group = tic.group("g").await.unwrap();
    assert_eq!((group.agent_node.as_str(), group.epoch), ("n1", 2));
    assert_eq!(reason(&tic.group("h").await.unwrap_err()), "UNKNOWN_GROUP");
    let hint = host.hints.recv().await.unwrap();
    assert_eq!((hint.agent_node.as_str(), hint.gns.as_slice()), ("n1", [gn].as_slice()));

    let again = fail(&tic, "n0", 1).await;
    assert_eq!((again.ended_memberships, again.revision), (0, verdict.revision));
    let stale = tic.client.clone().join_group(join("g", 0, "r")).await.unwrap_err();
    assert_eq!(reason(&stale), "STALE_INCARNATION");
}

/// Reports a node as a group agent does that cannot reach it.
async fn unreachable(tic: &Tic, node: &str) -> v1::ReportNodeFailureResponse {
    let (node, reporter) = (node.to_owned(), "group agents on n9".to_owned());
    let request =
        v1::ReportNodeFailureRequest { node, incarnation: 1, reporter, probe_first: true };
    tic.client.clone().report_node_failure(request).await.unwrap().into_inner()
}

/// Invariant G5: only the connection between the agent and the node is cut.
#[tokio::test]
async fn an_unreachable_node_is_probed_and_stays_if_it_answers() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    let mut host = Host::start();
    tic.register_at(0, &host.address).await;
    tic.register_at(1, &host.address).await;
    tic.join("g", 0, "p").await;
    tic.join("g", 1, "p").await;
    for _ in 0..3 {
        let answer = unreachable(&tic, "n1").await;
        assert_eq!((answer.ended_memberships, answer.revision), (0, tic.revision().await));
        assert_eq!(host.probes.recv().await.as_deref(), Some("n1"));
    }
    assert_eq!(tic.group("g").await.unwrap().members.len(), 2);
    assert!(tic.nodes().await.iter().all(|node| node.state() == v1::NodeState::Up));
}

#[tokio::test]
async fn an_unreachable_node_that_does_not_answer_is_expelled() {
    let tic = Tic::start(patient(NEVER, SOON)).await;
    let mut host = Host::start();
    host.hang();
    tic.register_at(1, &host.address).await;
    let mut watch = tic.watch().await;
    unreachable(&tic, "n1").await;
    assert_eq!(failed(&mut watch).await.name, "n1");
    assert_eq!(host.probes.recv().await.as_deref(), Some("n1"));
    // Later reports of the agent are about an incarnation that has ended.
    assert_eq!(unreachable(&tic, "n1").await.ended_memberships, 0);
    let strange = v1::ReportNodeFailureRequest {
        node: "n7".to_owned(),
        incarnation: 1,
        reporter: "a".to_owned(),
        probe_first: true,
    };
    let refused = tic.client.clone().report_node_failure(strange.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "UNKNOWN_NODE");
    let later = v1::ReportNodeFailureRequest { node: "n1".to_owned(), incarnation: 9, ..strange };
    let refused = tic.client.clone().report_node_failure(later).await.unwrap_err();
    assert_eq!(reason(&refused), "STALE_INCARNATION");
}

#[tokio::test]
async fn a_reported_node_is_expelled_without_a_probe_if_that_is_the_policy() {
    let mut setup = patient(NEVER, LONG);
    setup.config.watch.on_report = Policy::ExpelAtOnce;
    let tic = Tic::start(setup).await;
    let mut host = Host::start();
    tic.register_at(1, &host.address).await;
    let mut watch = tic.watch().await;
    unreachable(&tic, "n1").await;
    assert_eq!(failed(&mut watch).await.name, "n1");
    assert!(host.probes.try_recv().is_err(), "it would have answered");
}

#[tokio::test]
async fn a_failure_of_an_earlier_incarnation_changes_nothing() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    tic.register(0).await;
    let request = registration(0, "127.0.0.1:1", 2);
    tic.client.clone().register_node(request).await.unwrap();
    let revision = tic.revision().await;
    assert_eq!(fail(&tic, "n0", 1).await.revision, revision);
    assert_eq!(tic.nodes().await[0].state(), v1::NodeState::Up);
}

#[tokio::test]
async fn a_silent_host_that_does_not_answer_the_probe_is_expelled() {
    let tic = Tic::start(patient(SOON, SOON)).await;
    let mut host = Host::start();
    host.hang();
    tic.register_at(0, &host.address).await;
    let mut watch = tic.watch().await;
    tic.join("g", 0, "p").await;
    assert_eq!(failed(&mut watch).await.name, "n0");
    assert_eq!(host.probes.recv().await.as_deref(), Some("n0"));
    assert!(tic.groups().await.is_empty());
    assert!(report_agents(&tic, vec![status("n0", &[])]).await[0].expelled);
}

#[tokio::test]
async fn a_silent_host_that_answers_every_probe_stays() {
    let tic = Tic::start(patient(SOON, LONG)).await;
    let mut host = Host::start();
    tic.register_at(0, &host.address).await;
    tic.join("g", 0, "p").await;
    for _ in 0..3 {
        assert_eq!(host.probes.recv().await.as_deref(), Some("n0"));
    }
    assert_eq!(tic.nodes().await[0].state(), v1::NodeState::Up);
}

#[tokio::test]
async fn a_host_is_watched_again_after_a_restart_of_the_tic() {
    let folder = tempfile::tempdir().unwrap();
    let store = StoreLocation::File(folder.path().join("tic.redb"));
    let mut setup = patient(NEVER, LONG);
    setup.config.store = store.clone();
    let tic = Tic::start(setup).await;
    tic.register(0).await;
    tic.join("g", 0, "p").await;
    tic.kill().await;
    let mut setup = patient(SOON, SOON);
    setup.config.store = store;
    let tic = Tic::start(setup).await;
    let mut watch = tic.watch().await;
    assert_eq!(failed(&mut watch).await.name, "n0");
}

#[tokio::test]
async fn a_node_with_a_failed_port_is_probed_before_it_is_expelled() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    let mut host = Host::start();
    for number in 0..3 {
        tic.register_at(number, &host.address).await;
    }
    tic.join("g", 1, "p").await; // n1 hosts an agent, the others host none
    let mut client = tic.client.clone();
    let mut report = async |elements| {
        let request = v1::ReportFailedElementsRequest { reporter: "a".to_owned(), elements };
        client.report_failed_elements(request).await.unwrap();
    };
    report(vec![endpoint("h0")]).await;
    assert_eq!(host.probes.recv().await.as_deref(), Some("n0"));
    report(vec![endpoint("h0"), link("S-0", 2)]).await;
    assert_eq!(host.probes.recv().await.as_deref(), Some("n1"), "n0 was asked before");
    report(vec![]).await;
    report(vec![switch("S-0")]).await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(host.probes.recv().await.unwrap());
    }
    asked.sort();
    assert_eq!(asked, ["n0", "n1", "n2"]);
    assert!(tic.nodes().await.iter().all(|node| node.state() == v1::NodeState::Up));
}

#[tokio::test]
async fn a_node_that_is_cut_off_and_does_not_answer_is_expelled() {
    let tic = Tic::start(patient(NEVER, SOON)).await;
    let host = Host::start();
    host.hang();
    tic.register_at(2, &host.address).await;
    let mut watch = tic.watch().await;
    let elements = vec![endpoint("h2")];
    let request = v1::ReportFailedElementsRequest { reporter: "a".to_owned(), elements };
    tic.client.clone().report_failed_elements(request).await.unwrap();
    assert_eq!(failed(&mut watch).await.name, "n2");
}

/// Failed ports expel a node at once if that is the policy, but only when all its ports are down.
#[tokio::test]
async fn a_node_with_all_ports_down_is_expelled_without_a_probe_if_that_is_the_policy() {
    let mut setup = patient(NEVER, LONG);
    setup.config.watch.on_ports_down = Policy::ExpelAtOnce;
    let tic = Tic::start(setup).await;
    let mut host = Host::start();
    let mut request = registration(0, &host.address, 1);
    if let Some(node) = &mut request.node {
        node.endpoints = vec!["h0".to_owned(), "h5".to_owned()];
    }
    tic.client.clone().register_node(request).await.unwrap();
    let mut watch = tic.watch().await;
    let report = async |reporter: &str, elements| {
        let request = v1::ReportFailedElementsRequest { reporter: reporter.to_owned(), elements };
        tic.client.clone().report_failed_elements(request).await.unwrap();
    };
    report("a", vec![endpoint("h0")]).await;
    assert_eq!(host.probes.recv().await.as_deref(), Some("n0"), "the other port is up");
    assert_eq!(tic.nodes().await[0].state(), v1::NodeState::Up);
    report("b", vec![switch("S-1")]).await;
    assert_eq!(failed(&mut watch).await.name, "n0");
    assert!(host.probes.try_recv().is_err(), "it would have answered");
    // It may come back; ports that were down before are not reported again.
    tic.client.clone().register_node(registration(0, &host.address, 2)).await.unwrap();
    report("b", vec![switch("S-1"), endpoint("h1")]).await;
    assert_eq!(tic.nodes().await[0].state(), v1::NodeState::Up);
}

#[tokio::test]
async fn hosts_are_told_which_groups_to_fetch_and_which_to_drop() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    tic.register(0).await;
    tic.register(1).await;
    tic.join("a", 0, "p").await;
    tic.join("b", 0, "p").await;
    let (a, b) = (tic.group("a").await.unwrap(), tic.group("b").await.unwrap());
    let known = |group: &v1::Group| v1::HostedGroup {
        gn: group.gn,
        epoch: group.epoch,
        known_revision: group.records_revision,
    };
    let gone = v1::HostedGroup { gn: 999, epoch: 1, known_revision: 1 };
    let statuses = vec![status("n0", &[known(&a), gone]), status("n1", &[known(&a)])];
    let verdicts = report_agents(&tic, statuses).await;
    assert_eq!(verdicts[0].node, "n0");
    assert_eq!((&verdicts[0].refresh_gns, &verdicts[0].drop_gns), (&vec![b.gn], &vec![999]));
    assert_eq!((&verdicts[1].refresh_gns, &verdicts[1].drop_gns), (&vec![], &vec![a.gn]));
    assert!(!verdicts[0].expelled && !verdicts[1].expelled);

    tic.join("a", 1, "p").await;
    let verdicts = report_agents(&tic, vec![status("n0", &[known(&a), known(&b)])]).await;
    assert_eq!(verdicts[0].refresh_gns, [a.gn]);
    let a = tic.group("a").await.unwrap();
    let verdicts = report_agents(&tic, vec![status("n0", &[known(&a), known(&b)])]).await;
    assert!(verdicts[0].refresh_gns.is_empty());
    let stranger = report_agents(&tic, vec![status("n7", &[])]).await;
    assert!(stranger[0].expelled);
}

#[tokio::test]
async fn a_long_report_of_several_nodes_is_answered_for_each_in_its_order() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    for node in 0..4 {
        tic.register(node).await;
    }
    tic.join("a", 2, "p").await;
    let gn = tic.group("a").await.unwrap().gn;
    // Numbers of groups that are compared in one piece, or just more.
    let gone = |count: u64| -> Vec<v1::HostedGroup> {
        (1..=count).map(|n| v1::HostedGroup { gn: gn + n, epoch: 1, known_revision: 1 }).collect()
    };
    let counts = [4_095, 4_096, 0, 5_000];
    let statuses = (0..).zip(counts).map(|(n, count)| status(&format!("n{n}"), &gone(count)));
    let verdicts = report_agents(&tic, statuses.collect()).await;
    for (n, count) in (0..).zip(counts) {
        let v1::GroupAgentVerdict { node, refresh_gns, drop_gns, .. } = &verdicts[n];
        assert_eq!((node, drop_gns.len() as u64), (&format!("n{n}"), count));
        assert_eq!(*refresh_gns == [gn], n == 2, "{node}: {refresh_gns:?}");
    }
    assert_eq!(verdicts.len(), counts.len());
}

/// Each status of a node costs all groups that it hosts.
#[tokio::test]
async fn a_node_that_is_reported_twice_is_refused() {
    let tic = Tic::start(patient(NEVER, LONG)).await;
    tic.register(0).await;
    tic.register(1).await;
    let many = (0..2_000).map(|n| batches::group(&format!("g{n}"), &[0])).collect();
    let (_, formed) = batches::form(&tic, vec![batches::request("first", many)]).await;
    formed.unwrap();
    for statuses in [
        vec![status("n0", &[]), status("n1", &[]), status("n0", &[])],
        vec![status("n0", &[]); 50_000],
    ] {
        let request = v1::ReportGroupAgentsRequest { statuses };
        let refused = tic.client.clone().report_group_agents(request).await.unwrap_err();
        assert_eq!(reason(&refused), "NAME_INVALID", "{refused}");
        assert!(refused.message().contains("'n0' is named twice"), "{refused}");
    }
    let verdicts = report_agents(&tic, vec![status("n1", &[]), status("n0", &[])]).await;
    assert_eq!(verdicts[1].refresh_gns.len(), 2_000);
}

#[tokio::test]
async fn hosts_that_report_are_not_probed() {
    let tic = Tic::start(patient(Duration::from_millis(1_500), LONG)).await;
    let mut host = Host::start();
    for number in 0..2 {
        tic.register_at(number, &host.address).await;
        tic.join(&format!("g{number}"), number, "p").await;
    }
    // n1 stays silent; n0 reports until n1 has been probed.
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    loop {
        tokio::select! {
            node = host.probes.recv() => {
                assert_eq!(node.as_deref(), Some("n1"));
                return;
            }
            _ = ticks.tick() => {
                report_agents(&tic, vec![status("n0", &[])]).await;
            }
        }
    }
}

/// The gauge is one of the process, and each test has a process of its own.
#[tokio::test]
async fn a_held_block_is_shown_until_its_nodes_report_again() {
    let mut setup = patient(Duration::from_millis(1_500), Duration::from_millis(200));
    setup.config.watch.max_silent_percent = 55;
    setup.config.watch.block_patience = LONG;
    let tic = Tic::start(setup).await;
    let (silent, host) = (Host::start(), Host::start());
    silent.hang();
    for number in 0..8 {
        // The first four are at one leaf switch, the others at another one.
        let address = if number < 4 { &silent.address } else { &host.address };
        tic.register_at(number, address).await;
        tic.join(&format!("g{number}"), number, "p").await;
    }
    let shows = |blocks: u32| metrics::text().contains(&format!("\n{HELD_BLOCKS} {blocks}\n"));
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for (reporting, blocks) in [(0..8, 0), (4..8, 1), (0..8, 0)] {
        loop {
            let statuses = reporting.clone().map(|number| status(&format!("n{number}"), &[]));
            report_agents(&tic, statuses.collect()).await;
            if shows(blocks) {
                break;
            }
            ticks.tick().await;
        }
        let listed = tic.client.clone().list_nodes(v1::ListNodesRequest::default()).await;
        assert_eq!(listed.unwrap().into_inner().held_block_count, blocks);
    }
    assert!(tic.nodes().await.iter().all(|node| node.state() != v1::NodeState::Failed));
}

#[tokio::test]
async fn a_switch_agent_that_is_gone_is_forgotten() {
    let tic = Tic::on_memory().await;
    let mut client = tic.client.clone();
    for (reporter, elements) in [("old", vec![switch("S-0"), switch("S-2")]), ("new", vec![])] {
        let reporter = reporter.to_owned();
        let report = v1::ReportFailedElementsRequest { reporter, elements };
        client.report_failed_elements(report).await.unwrap();
    }
    let report = v1::ReportFailedElementsRequest {
        reporter: "new".to_owned(),
        elements: vec![switch("S-2")],
    };
    assert_eq!(client.report_failed_elements(report).await.unwrap().into_inner().failed_count, 2);
    let listed = client.list_reporters(v1::ListReportersRequest {}).await.unwrap().into_inner();
    let listed: Vec<_> =
        listed.reporters.iter().map(|one| (one.name.as_str(), one.failed_count)).collect();
    assert_eq!(listed, [("new", 1), ("old", 2)]);
    let mut watch = tic.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    let remove = v1::RemoveReporterRequest { reporter: "old".to_owned() };
    let answer = client.remove_reporter(remove.clone()).await.unwrap().into_inner();
    assert_eq!(answer.failed_count, 1, "what another sees down stays");
    let news = watch.message().await.unwrap().unwrap().changes.pop().and_then(|news| news.kind);
    let elements = vec![switch("S-2")];
    let left = Kind::FailedElements(v1::FailedElements { elements });
    assert_eq!(news, Some(left));
    let again = client.remove_reporter(remove).await.unwrap_err();
    assert_eq!(reason(&again), "UNKNOWN_REPORTER");
}
