//! Several TICs on one store: one leads, the others name it, and a change of leader loses nothing.
//!
//! The store is an embedded one in this process, and each TIC has a connection of its own to it,
//! which can be cut. The same with a real etcd and real processes:
//! `cli/tests/cli/needs_etcd/leaders.rs`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fabricast_groups::detector::{DetectorConfig, Probing};
use fabricast_groups::watch::WatchConfig;
use fabricast_proto::v1;
use fabricast_rpc::{Leader, fact_of};
use fabricast_store::{
    EmbeddedStore, KeyValue, LeaseId, Limits, Snapshot, Store, StoreError, Txn, TxnOutcome, Watch,
};
use fabricast_tic::{App, StoreLocation};
use tokio::sync::watch;
use v1::tic_service_client::TicServiceClient;

use crate::durability::{Failing, STANDS_STILL, WORKS};
use crate::harness::{Tic, client, join, leave, reason, setup};
use crate::hosts::Host;

/// Longer than a busy machine delays a leader. A test that kills a leader ends its lease.
const LONG: Duration = Duration::from_secs(60);
/// For the test that waits for the lease to expire.
const SHORT: Duration = Duration::from_secs(3);

/// Kills the leader, and ends its lease.
async fn kill(leader: Tic, store: &EmbeddedStore) {
    let lease = store.get(b"election/tic").await.unwrap().unwrap().lease.unwrap();
    leader.kill().await;
    store.revoke(lease).await.unwrap();
}

/// The connection of one TIC to the store.
struct StoreLink {
    store: Arc<EmbeddedStore>,
    open: watch::Sender<bool>,
}

impl StoreLink {
    fn to(store: &Arc<EmbeddedStore>) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), open: watch::Sender::new(true) })
    }

    /// Waits while the connection is cut.
    async fn pass(&self) -> &EmbeddedStore {
        let opened = self.open.subscribe().wait_for(|open| *open).await.is_ok();
        assert!(opened, "the sender is held here");
        &self.store
    }
}

#[async_trait]
impl Store for StoreLink {
    fn limits(&self) -> Limits {
        // As few operations in a transaction as etcd allows.
        Limits { txn_ops: 12, txn_bytes: 1 << 20 }
    }
    async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, StoreError> {
        self.pass().await.get(key).await
    }
    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError> {
        self.pass().await.range(prefix).await
    }
    async fn revision(&self) -> Result<u64, StoreError> {
        self.pass().await.revision().await
    }
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        self.limits().check(&txn)?;
        self.pass().await.txn(txn).await
    }
    async fn watch(&self, prefix: &[u8], from: u64) -> Result<Watch, StoreError> {
        self.pass().await.watch(prefix, from).await
    }
    async fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        self.pass().await.grant_lease(ttl).await
    }
    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.pass().await.keep_alive(lease).await
    }
    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.pass().await.revoke(lease).await
    }
    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.pass().await.compact(revision).await
    }
}

/// Two TICs, of which the first leads, and a client that finds the leader.
struct Pair {
    store: Arc<EmbeddedStore>,
    first: Tic,
    links: [Arc<StoreLink>; 2],
    second: Tic,
    leader: Leader,
}

fn tic(link: &Arc<StoreLink>, lease: Duration, report_timeout: Option<Duration>) -> Tic {
    let mut setup = setup(StoreLocation::Memory);
    setup.config.leader_lease = lease;
    if let Some(report_timeout) = report_timeout {
        let probing = Probing { timeout: LONG, attempts: 1 };
        setup.config.watch = WatchConfig::new(DetectorConfig::new(report_timeout, probing));
    }
    let link: Arc<dyn Store> = Arc::<StoreLink>::clone(link);
    Tic::run(App::bind_sharing(setup, link).unwrap())
}

impl Pair {
    async fn start(lease: Duration, report_timeout: Option<Duration>) -> Self {
        let store = Arc::new(EmbeddedStore::in_memory().unwrap());
        let links = [StoreLink::to(&store), StoreLink::to(&store)];
        let first = tic(&links[0], lease, report_timeout);
        until_leading(&first).await;
        let second = tic(&links[1], lease, report_timeout);
        let leader = Leader::new(&[second.address.clone(), first.address.clone()]).unwrap();
        Self { store, first, links, second, leader }
    }

    fn client(&self) -> TicServiceClient<fabricast_rpc::LeaderChannel> {
        TicServiceClient::new(self.leader.channel())
    }

    async fn join(&self, group: &str, process: &str) -> v1::Member {
        let answer = self.client().join_group(join(group, 0, process)).await;
        answer.unwrap().into_inner().member.unwrap()
    }
}

async fn until_leading(tic: &Tic) {
    while tic.group("none").await.map_err(|status| reason(&status)) != Err("UNKNOWN_GROUP".into()) {
        tokio::task::yield_now().await;
    }
}

/// Waits until the health of a TIC is this.
async fn until_serving(tic: &Tic, serving: bool) {
    let peer = fabricast_rpc::Peer::new(&tic.address).unwrap();
    while peer.is_serving("fabricast.v1.TicService").await.unwrap() != serving {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(peer.is_serving("").await.unwrap(), "its process runs all the same");
}

#[tokio::test]
async fn health_tells_if_the_store_answers_and_a_leader_is_known() {
    let pair = Pair::start(LONG, None).await;
    until_serving(&pair.first, true).await;
    until_serving(&pair.second, true).await;
    for link in &pair.links {
        link.open.send_replace(false);
    }
    until_serving(&pair.first, false).await;
    until_serving(&pair.second, false).await;
    for link in &pair.links {
        link.open.send_replace(true);
    }
    until_serving(&pair.first, true).await;
    until_serving(&pair.second, true).await;
}

/// Joins a process, however often the TIC refuses it.
async fn join_in_the_end(mut client: crate::harness::Client, process: String) {
    while let Err(refused) = client.join_group(join("g", 0, &process)).await {
        assert_eq!(reason(&refused), "LIMIT_REACHED");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_tic_whose_queue_is_full_is_not_ready() {
    let store = Failing::new();
    let mut setup = setup(StoreLocation::Memory);
    setup.order_queue = 4;
    let bound = App::bind_with_store(setup, Arc::<Failing>::clone(&store)).await;
    let tic = Tic::run(bound.unwrap());
    tic.register(0).await;
    until_serving(&tic, true).await;
    store.set(STANDS_STILL);
    // Each connection is a client, and one client fills half of the queue only.
    let clients: Vec<_> = (0..4).map(|_| client(&tic.address)).collect();
    let joins: Vec<_> = (0..16)
        .map(|number| join_in_the_end(clients[number % 4].clone(), format!("p{number}")))
        .map(tokio::spawn)
        .collect();
    until_serving(&tic, false).await;
    store.set(WORKS);
    until_serving(&tic, true).await;
    for join in joins {
        join.await.unwrap();
    }
    assert_eq!(tic.group("g").await.unwrap().member_count, 16);
}

#[tokio::test]
async fn a_follower_names_the_leader_and_answers_stale_reads() {
    let pair = Pair::start(LONG, None).await;
    pair.first.register(0).await;
    let member = pair.first.join("g", 0, "p").await;
    let mut second = pair.second.client.clone();
    loop {
        let refused = second.join_group(join("g", 0, "q")).await.unwrap_err();
        assert_eq!(reason(&refused), "NOT_LEADER");
        // It may have to read the store first.
        if fact_of(&refused, "leader").as_deref() == Some(pair.first.address.as_str()) {
            break;
        }
    }
    let get = v1::GetGroupRequest { group: "g".to_owned(), ..Default::default() };
    let refused = second.get_group(get.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_LEADER");
    let refused = second.watch_directory(v1::WatchDirectoryRequest {}).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_LEADER");

    let stale = v1::GetGroupRequest { allow_stale: true, ..get };
    let copy = second.get_group(stale).await.unwrap().into_inner();
    assert_eq!(copy.group.unwrap().members, [member]);
    assert_eq!(copy.revision, pair.first.revision().await);
    let list = v1::ListNodesRequest { allow_stale: true, ..Default::default() };
    let nodes = second.list_nodes(list).await.unwrap().into_inner();
    assert_eq!((nodes.nodes.len(), nodes.revision), (1, copy.revision));
    let topology = second.download_topology(v1::DownloadTopologyRequest {}).await.unwrap();
    assert!(topology.into_inner().message().await.unwrap().is_some());
}

#[tokio::test]
async fn the_next_leader_gives_a_repeated_request_the_same_answer() {
    let pair = Pair::start(LONG, None).await;
    pair.first.register(0).await;
    let one = pair.join("g", "p").await;
    pair.join("g", "q").await;
    let mut client = pair.client();
    let left = client.leave_group(leave("g", 0, "q")).await.unwrap().into_inner();
    let Pair { first, second: _second, leader, store, .. } = pair;
    kill(first, &store).await;
    let mut client = TicServiceClient::new(leader.channel());
    let again = client.join_group(join("g", 0, "p")).await.unwrap().into_inner();
    assert_eq!(again.member.unwrap(), one);
    let again = client.leave_group(leave("g", 0, "q")).await.unwrap().into_inner();
    assert_eq!(again, left);
    let third = client.join_group(join("g", 0, "r")).await.unwrap().into_inner().member.unwrap();
    assert!(third.pn != one.pn && third.joined_revision > left.revision);
}

#[tokio::test]
async fn a_leader_cut_off_from_the_store_answers_nobody_and_changes_nothing() {
    let pair = Pair::start(SHORT, None).await;
    pair.first.register(0).await;
    pair.join("g", "p").await;
    let mut watch = pair.first.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    pair.links[0].open.send_replace(false);
    // This write was in flight when the connection was cut, and goes on when it is restored.
    let (mut stuck, request) = (pair.first.client.clone(), join("g", 0, "stuck"));
    let stuck = tokio::spawn(async move { stuck.join_group(request).await });
    let next = pair.join("g", "q").await;
    assert_eq!(pair.leader.address(), pair.second.address);
    assert_eq!(reason(&pair.first.group("g").await.unwrap_err()), "NOT_LEADER");
    let end = loop {
        if let Err(end) = watch.message().await {
            break end;
        }
    };
    assert_eq!(reason(&end), "NOT_LEADER");
    pair.links[0].open.send_replace(true);
    let stuck = stuck.await.unwrap().unwrap_err();
    assert_eq!(reason(&stuck), "NOT_LEADER");
    let group = pair.second.group("g").await.unwrap();
    let members: Vec<&str> = group.members.iter().map(|one| one.process.as_str()).collect();
    assert_eq!(members, ["p", "q"]);
    // It campaigns again, and has all records when it leads.
    let Pair { first, second, leader, store: _store, .. } = pair;
    second.stop().await;
    let mut client = TicServiceClient::new(leader.channel());
    let again = client.join_group(join("g", 0, "q")).await.unwrap().into_inner();
    assert_eq!(again.member.unwrap(), next);
    assert_eq!(leader.address(), first.address);
}

#[tokio::test]
async fn the_end_of_a_large_group_is_one_change_on_a_store_with_small_transactions() {
    let pair = Pair::start(LONG, None).await;
    pair.first.register(0).await;
    for number in 0..40 {
        pair.join("g", &format!("p{number}")).await;
    }
    let mut watch = pair.first.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    let request = v1::DeleteGroupRequest { request_id: "end".to_owned(), group: "g".to_owned() };
    let ended = pair.client().delete_group(request).await.unwrap().into_inner();
    let delta = watch.message().await.unwrap().unwrap();
    assert_eq!((delta.revision, delta.changes.len()), (ended.revision, 41));
    let Pair { first, second: _second, leader, store, .. } = pair;
    kill(first, &store).await;
    let list = v1::ListGroupsRequest::default();
    let groups = TicServiceClient::new(leader.channel()).list_groups(list).await.unwrap();
    assert_eq!((groups.get_ref().groups.len(), groups.get_ref().revision), (0, ended.revision));
    // The second has carried out what was left of the log when the first died.
    let left = store.range(b"tic/redo").await.unwrap().entries;
    assert!(left.is_empty(), "{} keys of the log are left", left.len());
    let members = store.range(b"tic/records/member").await.unwrap().entries;
    assert!(members.is_empty(), "{} members are left", members.len());
}

#[tokio::test]
async fn a_new_leader_expels_no_node_only_because_it_has_not_reported_yet() {
    let pair = Pair::start(LONG, Some(Duration::from_millis(50))).await;
    let mut host = Host::start();
    pair.first.register_at(0, &host.address).await;
    pair.join("g", "p").await;
    assert_eq!(host.probes.recv().await.as_deref(), Some("n0"), "it does not report");
    let Pair { first, second, store, .. } = pair;
    kill(first, &store).await;
    until_leading(&second).await;
    while host.probes.try_recv().is_ok() {}
    for _ in 0..3 {
        assert_eq!(host.probes.recv().await.as_deref(), Some("n0"), "it is asked");
    }
    assert_eq!(second.nodes().await[0].state(), v1::NodeState::Up);
    assert_eq!(second.group("g").await.unwrap().member_count, 1);
}
