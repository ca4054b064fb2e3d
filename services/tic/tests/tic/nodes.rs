//! Nodes in no group: watched all the same, shown with their last contact, removed.

use std::time::Duration;

use fabricast_proto::v1;
use tonic::Status;

use crate::harness::{Tic, reason, registration};
use crate::hosts::Host;
use crate::jobs::{create, created, named, nodes};
use crate::liveness::{LONG, SOON, failed, patient, report_agents};

/// A report of `n<number>`, whose next one comes within `next`.
async fn report(tic: &Tic, number: u32, next: Duration) {
    let next_report_in = prost_types::Duration::try_from(next).ok();
    let node = format!("n{number}");
    let status = v1::GroupAgentStatus { node, incarnation: 1, next_report_in, groups: vec![] };
    assert!(!report_agents(tic, vec![status]).await[0].expelled);
}

async fn get(tic: &Tic, node: &str) -> Result<v1::GetNodeResponse, Status> {
    let request = v1::GetNodeRequest { node: node.to_owned() };
    Ok(tic.client.clone().get_node(request).await?.into_inner())
}

async fn remove(tic: &Tic, node: &str) -> Result<v1::RemoveNodeResponse, Status> {
    let request = v1::RemoveNodeRequest { node: node.to_owned() };
    Ok(tic.client.clone().remove_node(request).await?.into_inner())
}

async fn drain(tic: &Tic, node: &str) -> Result<v1::DrainNodeResponse, Status> {
    let request = v1::DrainNodeRequest { node: node.to_owned() };
    Ok(tic.client.clone().drain_node(request).await?.into_inner())
}

/// Its job and its memberships stay, also those of its processes that come later.
#[tokio::test]
async fn a_drained_node_gets_no_job_until_it_is_resumed_also_after_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let tic = Tic::on_file(&folder.path().join("tic.redb")).await;
    tic.register(1).await;
    tic.register(2).await;
    created(&tic, named("j0", &["n1"])).await.unwrap();
    tic.join("g", 1, "p").await;
    tic.join("g", 2, "p").await;
    let left = drain(&tic, "n1").await.unwrap();
    assert!(left.node.unwrap().drained);
    assert_eq!((&*left.job, left.membership_count, left.hosted_group_count), ("j0", 1, 1));
    let revision = tic.revision().await;
    drain(&tic, "n1").await.unwrap();
    assert_eq!(tic.revision().await, revision, "nothing changes");
    tic.join("other", 1, "p").await;
    tic.join("other", 2, "p").await;
    assert_eq!(get(&tic, "n1").await.unwrap().membership_count, 2);
    tic.jobs().delete_job(crate::jobs::delete("j0")).await.unwrap();

    tic.stop().await;
    let tic = Tic::on_file(&folder.path().join("tic.redb")).await;
    let started = registration(1, "127.0.0.1:1", 2);
    tic.client.clone().register_node(started).await.unwrap();
    assert!(tic.nodes().await[0].drained, "it stays drained when its agent restarts");
    let refused = created(&tic, named("j1", &["n1"])).await.unwrap_err();
    assert_eq!(reason(&refused), "NODE_DOWN");
    assert_eq!(refused.message(), "nodes: node n1 cannot be had: it is drained");
    assert_eq!(nodes(&created(&tic, create("j1", 3)).await.unwrap()), ["h0", "n2", "h3"]);
    let resume = v1::ResumeNodeRequest { node: "n1".to_owned() };
    let resumed = tic.client.clone().resume_node(resume).await.unwrap().into_inner();
    assert!(!resumed.node.unwrap().drained);
    created(&tic, named("j2", &["n1"])).await.unwrap();
    assert_eq!(reason(&drain(&tic, "n9").await.unwrap_err()), "UNKNOWN_NODE");
}

/// Waits until a node has this state.
async fn has_state(tic: &Tic, node: &str, state: v1::NodeState) -> v1::Node {
    loop {
        let node = get(tic, node).await.unwrap().node.unwrap();
        if node.state() == state {
            return node;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_node_in_no_group_that_falls_silent_is_shown_so_and_no_job_gets_it() {
    let tic = Tic::start(patient(SOON, LONG)).await;
    let mut host = Host::start();
    host.hang();
    tic.register_at(1, &host.address).await;
    assert_eq!(nodes(&created(&tic, create("j0", 2)).await.unwrap()), ["h0", "n1"]);
    tic.jobs().delete_job(crate::jobs::delete("j0")).await.unwrap();
    report(&tic, 1, Duration::from_millis(1)).await;
    assert_eq!(host.probes.recv().await.as_deref(), Some("n1"));
    let node = has_state(&tic, "n1", v1::NodeState::Silent).await;
    assert!(node.last_contact_time.unwrap().seconds > 1_600_000_000);
    assert_eq!(tic.nodes().await[0].state(), v1::NodeState::Silent);
    assert_eq!(nodes(&created(&tic, create("j1", 3)).await.unwrap()), ["h0", "h2", "h3"]);
    let refused = created(&tic, named("j2", &["n1"])).await.unwrap_err();
    assert_eq!(reason(&refused), "NODE_DOWN");
}

#[tokio::test]
async fn a_node_in_no_group_that_answers_the_probe_stays_and_is_given_away() {
    let tic = Tic::start(patient(SOON, LONG)).await;
    let mut host = Host::start();
    tic.register_at(1, &host.address).await;
    report(&tic, 1, Duration::from_millis(1)).await;
    for _ in 0..3 {
        assert_eq!(host.probes.recv().await.as_deref(), Some("n1"));
    }
    has_state(&tic, "n1", v1::NodeState::Up).await;
    created(&tic, named("j", &["n1"])).await.unwrap();
}

#[tokio::test]
async fn a_dead_node_in_no_group_is_expelled_and_its_record_can_then_be_removed() {
    let tic = Tic::start(patient(SOON, SOON)).await;
    let host = Host::start();
    host.hang();
    tic.register_at(1, &host.address).await;
    let mut watch = tic.watch().await;
    assert_eq!(reason(&remove(&tic, "n1").await.unwrap_err()), "NODE_UP");
    report(&tic, 1, Duration::from_millis(1)).await;
    assert_eq!(failed(&mut watch).await.name, "n1");
    let removed = remove(&tic, "n1").await.unwrap();
    assert_eq!(removed.revision, tic.revision().await);
    assert!(tic.nodes().await.is_empty());
    assert_eq!(reason(&get(&tic, "n1").await.unwrap_err()), "UNKNOWN_NODE");
    assert_eq!(reason(&remove(&tic, "n1").await.unwrap_err()), "UNKNOWN_NODE");
    let told = watch.message().await.unwrap().unwrap().changes.remove(0).kind.unwrap();
    assert_eq!(told, v1::directory_change::Kind::RemovedNode("n1".to_owned()));
    // Its next incarnation is newer than all that others know of its first.
    let request = registration(1, "127.0.0.1:1", 7);
    let again = tic.client.clone().register_node(request).await.unwrap().into_inner();
    assert_eq!(again.node.unwrap().incarnation, 2);
}

#[tokio::test]
async fn a_node_is_answered_with_its_memberships_and_its_job() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    tic.register(1).await;
    tic.join("a", 0, "p").await;
    tic.join("b", 1, "p").await;
    tic.join("b", 0, "q").await;
    created(&tic, named("j", &["n0"])).await.unwrap();
    let found = get(&tic, "n0").await.unwrap();
    let node = found.node.unwrap();
    assert_eq!((node.name.as_str(), node.state()), ("n0", v1::NodeState::Up));
    assert!(node.last_contact_time.is_some(), "it has registered");
    let memberships = found.memberships.iter();
    let memberships: Vec<_> =
        memberships.map(|one| (&*one.group, one.pn, &*one.process, &*one.endpoint)).collect();
    assert_eq!(memberships, [("a", 0, "p", "h0"), ("b", 1, "q", "h0")]);
    assert_eq!((found.membership_count, found.hosted_group_count), (2, 1));
    assert_eq!((found.job.as_str(), found.revision), ("j", tic.revision().await));
    assert_eq!(reason(&get(&tic, "").await.unwrap_err()), "NAME_INVALID");
}
