//! Measures how many groups are created a second while no route service works, at first and after
//! a million have ended: a choice of an MGID must not cost more for each that was ended before.
//!
//! Each group is created by the join of its only member and ends with its leave.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_config::{RawTicConfig, checked};
use fabricast_proto::v1;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Channel, Peer};
use fabricast_tic::{App, Setup, TopologySource};
use fabricast_topology::spec::TopologySpec;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const NODES: u32 = 64;
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 16\n";
/// Groups that are created in one call, and then ended in another.
const GROUPS: u32 = 500;
const CALLERS: u32 = 8;
/// Groups of one measurement: as many whole batches for each caller.
const MEASURED: u32 = 60_000;
const ENDED: u32 = 1_000_000;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let graph = TopologySpec::parse(FABRIC).expect("a spec").generate().expect("a fabric");
        let config = checked(RawTicConfig {
            listen: "127.0.0.1:0".parse().expect("an address"),
            store: Some(folder.path().join("tic.redb").display().to_string()),
            topology: Some("made here".into()),
            report_timeout: Duration::from_secs(3_600),
            ..RawTicConfig::default()
        })
        .expect("the settings are good");
        let setup = Setup::new(config, TopologySource::File("none\n".into(), Arc::new(graph)));
        let app = App::bind(setup).await.expect("the TIC starts");
        let peer = Peer::new(&app.address().to_string()).expect("an address");
        tokio::spawn(app.run(CancellationToken::new()));
        register(&peer).await;
        create_and_end(&peer, 0, MEASURED / 4).await;
        let first = create_and_end(&peer, MEASURED, MEASURED).await;
        create_and_end(&peer, 2 * MEASURED, ENDED).await;
        let last = create_and_end(&peer, 2 * MEASURED + ENDED, MEASURED).await;
        println!("figure churn/groups_created/at_first {first:.0} item/s");
        println!("figure churn/groups_created/after_a_million_ends {last:.0} item/s");
        println!("figure churn/groups_created/share_that_is_left {:.0} %", 100.0 * last / first);
    });
}

async fn register(peer: &Peer) {
    for number in 0..NODES {
        let node = v1::Node {
            name: format!("n{number}"),
            address: "127.0.0.1:1".to_owned(),
            endpoints: vec![format!("h{number}")],
            ..Default::default()
        };
        let node = Some(node);
        let request = v1::RegisterNodeRequest { node, start_id: 1, ..Default::default() };
        TicServiceClient::new(peer.channel()).register_node(request).await.expect("it is taken");
    }
}

/// Creates and ends groups; returns how many were created a second of creating.
async fn create_and_end(peer: &Peer, first: u32, count: u32) -> f64 {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let groups = GroupBatchServiceClient::new(peer.channel());
        callers.spawn(async move {
            let mut creating = Duration::ZERO;
            for batch in (0..count / GROUPS).filter(|batch| batch % CALLERS == caller) {
                creating += create_and_end_batch(groups.clone(), first + batch * GROUPS).await;
            }
            creating
        });
    }
    let times = callers.join_all().await;
    let mean = times.iter().sum::<Duration>() / CALLERS;
    f64::from(count) / mean.as_secs_f64()
}

/// Returns the time until all groups of a batch were created.
async fn create_and_end_batch(
    mut groups: GroupBatchServiceClient<Channel>,
    first: u32,
) -> Duration {
    let numbers = first..first + GROUPS;
    let join = |number: u32| v1::JoinGroupRequest {
        request_id: format!("join {number}"),
        group: format!("g{number}"),
        node: format!("n{}", number % NODES),
        incarnation: 1,
        endpoint: format!("h{}", number % NODES),
        process: "p".to_owned(),
        ..Default::default()
    };
    let leave = |number: u32| v1::LeaveGroupRequest {
        request_id: format!("leave {number}"),
        group: format!("g{number}"),
        node: format!("n{}", number % NODES),
        incarnation: 1,
        process: "p".to_owned(),
    };
    let began = Instant::now();
    let joins = v1::JoinManyRequest { joins: numbers.clone().map(join).collect() };
    let joined = groups.join_many(joins).await.expect("joins").into_inner();
    let time = began.elapsed();
    assert!(
        joined
            .answers
            .iter()
            .all(|join| matches!(join.answer, Some(v1::join_answer::Answer::Joined(_))))
    );
    let leaves = v1::LeaveManyRequest { leaves: numbers.map(leave).collect() };
    let left = groups.leave_many(leaves).await.expect("leaves").into_inner();
    assert!(
        left.answers
            .iter()
            .all(|leave| matches!(leave.answer, Some(v1::leave_answer::Answer::Left(_))))
    );
    time
}
