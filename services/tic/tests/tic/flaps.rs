//! Flapping nodes: shown, suppressed, and readmitted by an administrator.

use std::time::Duration;

use fabricast_groups::flaps::{FlapDamping, FlapPolicy};
use fabricast_proto::v1;
use fabricast_tic::{Setup, StoreLocation};

use crate::harness::{Tic, reason, registration, setup};

/// The second flap suppresses a node for longer than any test takes.
fn damped(policy: FlapPolicy, store: StoreLocation) -> Setup {
    let mut setup = setup(store);
    setup.config.damping = FlapDamping { policy, limit: 1, half_life: Duration::from_secs(3_600) };
    setup
}

async fn start_anew(tic: &Tic, start_id: u64) -> Result<v1::Node, tonic::Status> {
    let request = registration(0, "127.0.0.1:1", start_id);
    Ok(tic.client.clone().register_node(request).await?.into_inner().node.unwrap())
}

async fn readmit(tic: &Tic, node: &str) -> Result<v1::Node, tonic::Status> {
    let request = v1::ReadmitNodeRequest { node: node.to_owned() };
    Ok(tic.client.clone().readmit_node(request).await?.into_inner().node.unwrap())
}

#[tokio::test]
async fn a_flapping_node_is_shown_as_suppressed_until_it_is_readmitted() {
    let tic = Tic::start(damped(FlapPolicy::NoHost, StoreLocation::Memory)).await;
    tic.register(0).await;
    assert_eq!(start_anew(&tic, 2).await.unwrap().suppressed_until, None, "once is no habit");
    let node = start_anew(&tic, 3).await.unwrap();
    assert_eq!(node.state(), v1::NodeState::Up, "its processes may work");
    assert!(node.suppressed_until.is_some());
    let listed = tic.nodes().await.remove(0);
    assert_eq!(listed, node);
    assert!(listed.suppressed_reason.starts_with("recent flaps count "), "{listed:?}");
    let clear = readmit(&tic, "n0").await.unwrap();
    assert_eq!((clear.suppressed_until, clear.suppressed_reason.as_str()), (None, ""));
    assert_eq!(tic.nodes().await, [clear]);
    assert_eq!(reason(&readmit(&tic, "n9").await.unwrap_err()), "UNKNOWN_NODE");
}

#[tokio::test]
async fn a_suppressed_node_is_refused_also_after_a_restart_of_the_tic() {
    let folder = tempfile::tempdir().unwrap();
    let store = StoreLocation::File(folder.path().join("tic.redb"));
    let tic = Tic::start(damped(FlapPolicy::Refuse, store.clone())).await;
    tic.register(0).await;
    start_anew(&tic, 2).await.unwrap();
    assert_eq!(reason(&start_anew(&tic, 3).await.unwrap_err()), "NODE_SUPPRESSED");
    assert_eq!(tic.nodes().await[0].state(), v1::NodeState::Failed, "the former one has ended");
    tic.kill().await;
    let tic = Tic::start(damped(FlapPolicy::Refuse, store)).await;
    let refused = start_anew(&tic, 3).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused)),
        (tonic::Code::Unavailable, "NODE_SUPPRESSED".into())
    );
    assert!(refused.message().contains("is not readmitted until "), "{}", refused.message());
    readmit(&tic, "n0").await.unwrap();
    assert_eq!(start_anew(&tic, 3).await.unwrap().state(), v1::NodeState::Up);
}
