//! Nodes register, report, are drained, fail, return, and are removed.

use fabricast_proto::v1;
use tokio::task::JoinSet;

use super::groups::join_all;
use super::load::{Load, PAUSE, comes_again, made, node_name};

/// Nodes that register at the same time.
const AT_ONCE: usize = 64;
/// Reports in one call.
const REPORTS: usize = 4_096;
/// Time until the next reports.
const NEXT_REPORT: prost_types::Duration = prost_types::Duration { seconds: 3_600, nanos: 0 };
/// Nodes that are drained at a time.
const DRAINED: usize = 100;
/// A node that fails, and returns.
const FAILED: usize = 1;
/// A node that starts again without having failed.
const RESTARTED: usize = 2;
/// A node that fails, and is removed.
pub(super) const REMOVED: usize = 3;

fn registration(load: &Load, node: usize, start_id: u64) -> v1::RegisterNodeRequest {
    let node = v1::Node {
        name: node_name(node),
        address: "127.0.0.1:1".to_owned(),
        endpoints: vec![load.endpoints[node].clone()],
        ..Default::default()
    };
    v1::RegisterNodeRequest { node: Some(node), start_id, ..Default::default() }
}

/// Registers all nodes.
pub(super) async fn register(load: &Load) {
    let count = load.endpoints.len();
    let mut registered = JoinSet::new();
    for first in 0..AT_ONCE {
        let own = (first..count).step_by(AT_ONCE).map(|node| registration(load, node, 1));
        let (own, mut tic): (Vec<_>, _) = (own.collect(), load.tic.clone());
        registered.spawn(async move {
            for request in own {
                while let Err(status) = tic.register_node(request.clone()).await {
                    assert!(comes_again(&status), "{status:?}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
    while let Some(ended) = registered.join_next().await {
        ended.expect("they are registered");
    }
}

/// Reports for all nodes, so that nobody looks for them.
pub(super) async fn report(load: &Load) {
    let nodes: Vec<usize> = (0..load.endpoints.len()).collect();
    for some in nodes.chunks(REPORTS) {
        let status = |node: &usize| v1::GroupAgentStatus {
            node: node_name(*node),
            incarnation: 1,
            groups: Vec::new(),
            next_report_in: Some(NEXT_REPORT),
        };
        let statuses = some.iter().map(status).collect();
        let request = v1::ReportGroupAgentsRequest { statuses };
        made(async || load.tic.clone().report_group_agents(request.clone()).await).await;
    }
}

/// Drains nodes, then resumes them.
pub(super) async fn drain(load: &Load) {
    for node in (0..DRAINED).map(node_name) {
        let request = v1::DrainNodeRequest { node };
        made(async || load.tic.clone().drain_node(request.clone()).await).await;
    }
    for node in (0..DRAINED).map(node_name) {
        let request = v1::ResumeNodeRequest { node };
        made(async || load.tic.clone().resume_node(request.clone()).await).await;
    }
}

async fn fail(load: &Load, node: usize) {
    let request = v1::ReportNodeFailureRequest {
        node: node_name(node),
        incarnation: 0,
        reporter: "load".to_owned(),
        probe_first: false,
    };
    made(async || load.tic.clone().report_node_failure(request.clone()).await).await;
}

/// Members of all groups fail and start again.
pub(super) async fn fail_and_return(load: &Load, groups: &[v1::FormedGroup]) {
    join_all(load, FAILED, groups).await;
    fail(load, FAILED).await;
    let request = v1::ReadmitNodeRequest { node: node_name(FAILED) };
    made(async || load.tic.clone().readmit_node(request.clone()).await).await;
    join_all(load, RESTARTED, groups).await;
    for node in [FAILED, RESTARTED] {
        let request = registration(load, node, 2);
        made(async || load.tic.clone().register_node(request.clone()).await).await;
    }
    fail(load, REMOVED).await;
    let request = v1::RemoveNodeRequest { node: node_name(REMOVED) };
    made(async || load.tic.clone().remove_node(request.clone()).await).await;
}
