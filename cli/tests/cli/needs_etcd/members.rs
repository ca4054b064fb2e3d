//! Several TIC processes under load, while members of their etcd are killed, started again, and
//! frozen: as long as most of them are there the work goes on, without most of them nothing is
//! acknowledged, and when they are back it goes on by itself. What was acknowledged is never lost.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Leader, Peer, reason_of};
use fabricast_testing::Etcd;

use super::leaders::{Client, Load, Process, join, leading, register};
use crate::support::Sandbox;

/// A bound for whatever must come about.
const SOON: Duration = Duration::from_secs(60);

/// Two TICs that work, and a client that finds whichever leads.
async fn at_work(sandbox: &Sandbox, etcd: &Etcd) -> (Vec<Process>, Client) {
    let mut processes = Vec::new();
    for number in 0..2 {
        processes.push(Process::start(sandbox, etcd, number).await);
    }
    let addresses: Vec<String> = processes.iter().map(|one| one.address.clone()).collect();
    let client = TicServiceClient::new(Leader::new(&addresses).unwrap().channel());
    leading(&processes, 0).await;
    register(&client).await;
    (processes, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_goes_on_while_members_of_etcd_die_one_by_one_and_freeze() {
    let mut etcd = Etcd::start(3).await;
    let sandbox = Sandbox::new();
    let (_processes, client) = at_work(&sandbox, &etcd).await;
    let load = Load::start(&client).await;
    for member in 0..3 {
        etcd.kill(member).await;
        load.goes_on().await;
        etcd.restart(member).await;
        load.goes_on().await;
    }
    for member in 0..3 {
        etcd.pause(member);
        load.goes_on().await;
        etcd.resume(member);
        load.goes_on().await;
    }
    load.is_as_acknowledged(&client).await;
}

/// Sends a join to one TIC only; returns its answer.
async fn refused(process: &Process, name: &str) -> String {
    let mut client = TicServiceClient::new(Peer::new(&process.address).unwrap().channel());
    // Of what is refused like this nobody knows whether it comes true later; so it is another
    // group.
    let request = v1::JoinGroupRequest { group: "other".to_owned(), ..join(name) };
    let refused = client.join_group(request).await.unwrap_err();
    reason_of(&refused).unwrap_or_else(|| format!("{refused:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_most_of_etcd_writes_are_refused_and_with_them_it_goes_on_by_itself() {
    let mut etcd = Etcd::start(3).await;
    let sandbox = Sandbox::new();
    let (processes, client) = at_work(&sandbox, &etcd).await;
    let load = Load::start(&client).await;
    load.goes_on().await;
    etcd.kill(0).await;
    etcd.kill(1).await;
    // The former leader gives up when its lease is over, and says so at once from then on.
    for (number, process) in processes.iter().enumerate() {
        let started = Instant::now();
        while refused(process, &format!("late {number}")).await != "NOT_LEADER" {
            assert!(started.elapsed() < SOON, "it still takes itself for the leader");
        }
    }
    let before = load.acknowledged();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(load.acknowledged(), before, "nothing can be durable");
    etcd.restart(0).await;
    load.goes_on().await;
    etcd.restart(1).await;
    load.goes_on().await;
    load.is_as_acknowledged(&client).await;
}
