//! Several TIC processes on a real etcd, under load, while their leaders are killed, frozen and cut
//! off.
//!
//! A history is kept of what was acknowledged: no join or leave of it is lost, no number is given
//! to two members that live at the same time, and what a client reads never goes back.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Leader, LeaderChannel, Peer, reason_of};
use fabricast_testing::{Etcd, Proxy};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::support::{Sandbox, data, free_address};

/// A bound for whatever must come about.
const SOON: Duration = Duration::from_secs(60);
const WORKERS: u32 = 4;
/// The endpoint of the topology's only host.
const HOST: &str = "nsn33-43 HCA-1";

/// A TIC process and its own way to etcd; killed when dropped.
pub(crate) struct Process {
    config: String,
    pub(crate) address: String,
    pub(crate) metrics: String,
    proxies: Vec<Proxy>,
    child: Child,
}

impl Process {
    pub(crate) async fn start(sandbox: &Sandbox, etcd: &Etcd, number: u32) -> Self {
        let mut proxies = Vec::new();
        for endpoint in etcd.endpoints() {
            proxies.push(Proxy::start(&endpoint).await);
        }
        let members: Vec<String> = proxies.iter().map(Proxy::address).collect();
        let address = free_address();
        let config = format!("tic-{number}.toml");
        let topology = data("quirks/one-host.ibnetdiscover");
        let text = format!(
            "[tic]\nlisten = '{address}'\nstore = 'etcd://{}/test'\ntopology = '{topology}'\n\
             leader_lease = '2s'\nreport_timeout = '1h'\n",
            members.join(",")
        );
        sandbox.write(&config, text);
        let metrics = free_address();
        let child = launch(sandbox, &config, &metrics);
        Self { config, address, metrics, proxies, child }
    }

    /// As a crash and a restart would.
    fn restart(&mut self, sandbox: &Sandbox) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = launch(sandbox, &self.config, &self.metrics);
    }

    fn signal(&self, signal: &str) {
        let line = format!("kill -{signal} {}", self.child.id());
        let sent = std::process::Command::new("sh").args(["-c", &line]).status().unwrap();
        assert!(sent.success(), "{line}");
    }

    /// It answers no read, unless it was elected anew, after `term`.
    async fn is_deposed(&self, term: u64) {
        let mut client = TicServiceClient::new(Peer::new(&self.address).unwrap().channel());
        let read = client.list_groups(v1::ListGroupsRequest::default()).await;
        let refused = read.err().and_then(|status| reason_of(&status));
        let anew = || async { self.leadership().await.is_some_and(|now| now.term > term) };
        assert!(refused.as_deref() == Some("NOT_LEADER") || anew().await, "{refused:?}");
    }

    async fn leadership(&self) -> Option<v1::Leadership> {
        let channel = Peer::new(&self.address).unwrap().channel();
        let asking = async {
            let request = v1::GetServerInfoRequest {};
            AdministrationServiceClient::new(channel).get_server_info(request).await
        };
        let answer = tokio::time::timeout(Duration::from_secs(1), asking).await.ok()?.ok()?;
        answer.into_inner().leadership
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(sandbox: &Sandbox, config: &str, metrics: &str) -> Child {
    let mut command = sandbox.command(&["tic", "--config", config, "--metrics", metrics]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until one of them leads, elected after a term; answers which and its term.
pub(crate) async fn leading(processes: &[Process], after: u64) -> (usize, u64) {
    let started = Instant::now();
    loop {
        for (index, process) in processes.iter().enumerate() {
            if let Some(v1::Leadership { leads: true, term, .. }) = process.leadership().await
                && term > after
            {
                return (index, term);
            }
        }
        assert!(started.elapsed() < SOON, "nobody leads");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One membership, as it was acknowledged.
#[derive(Debug)]
struct Stay {
    process: String,
    pn: u32,
    joined: u64,
    left: Option<u64>,
}

pub(crate) type Client = TicServiceClient<LeaderChannel>;

pub(crate) fn join(process: &str) -> v1::JoinGroupRequest {
    v1::JoinGroupRequest {
        request_id: format!("join {process}"),
        group: "g".to_owned(),
        node: "n".to_owned(),
        incarnation: 1,
        endpoint: HOST.to_owned(),
        process: process.to_owned(),
        persistent: true,
        ..Default::default()
    }
}

fn leave(process: &str) -> v1::LeaveGroupRequest {
    v1::LeaveGroupRequest {
        request_id: format!("leave {process}"),
        group: "g".to_owned(),
        node: "n".to_owned(),
        incarnation: 1,
        process: process.to_owned(),
    }
}

/// Asks again, with the same id, until it is answered.
async fn persist<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
{
    loop {
        match call().await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => {
                use tonic::Code::{Cancelled, Internal, Unavailable};
                let again = [Unavailable, Internal, Cancelled].contains(&status.code());
                assert!(again, "{status:?}");
            }
        }
    }
}

async fn joined(client: &Client, process: &str) -> v1::JoinGroupResponse {
    persist(|| {
        let (mut client, request) = (client.clone(), join(process));
        async move { client.join_group(request).await }
    })
    .await
}

async fn left(client: &Client, process: &str) -> v1::LeaveGroupResponse {
    persist(|| {
        let (mut client, request) = (client.clone(), leave(process));
        async move { client.leave_group(request).await }
    })
    .await
}

async fn read(client: &Client) -> v1::GetGroupResponse {
    persist(|| {
        let mut client = client.clone();
        let request = v1::GetGroupRequest { group: "g".to_owned(), ..Default::default() };
        async move { client.get_group(request).await }
    })
    .await
}

pub(crate) async fn register(client: &Client) {
    persist(|| {
        let mut client = client.clone();
        let (name, address) = ("n".to_owned(), "127.0.0.1:1".to_owned());
        let node =
            v1::Node { name, address, endpoints: vec![HOST.to_owned()], ..Default::default() };
        let node = Some(node);
        let request = v1::RegisterNodeRequest { node, start_id: 1, ..Default::default() };
        async move { client.register_node(request).await }
    })
    .await;
}

/// Work of each worker until it is stopped.
#[derive(Default)]
pub(crate) struct Load {
    stop: AtomicBool,
    acknowledged: AtomicU32,
    workers: Mutex<JoinSet<Vec<Stay>>>,
}

impl Load {
    /// Sets workers to joining and leaving.
    pub(crate) async fn start(client: &Client) -> Arc<Self> {
        let load = Arc::<Self>::default();
        for worker in 0..WORKERS {
            let working = work(client.clone(), worker, Arc::clone(&load));
            load.workers.lock().await.spawn(working);
        }
        load
    }

    /// Waits until some more has been acknowledged.
    pub(crate) async fn goes_on(&self) {
        let (before, started) = (self.acknowledged(), Instant::now());
        while self.acknowledged() < before + 2 * WORKERS {
            assert!(started.elapsed() < SOON, "nothing is acknowledged any more");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Joins and leaves that have been acknowledged.
    pub(crate) fn acknowledged(&self) -> u32 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Stops the workers and checks their history against what the TICs have.
    pub(crate) async fn is_as_acknowledged(&self, client: &Client) {
        self.stop.store(true, Ordering::SeqCst);
        let workers = std::mem::take(&mut *self.workers.lock().await);
        let stays: Vec<Stay> = workers.join_all().await.into_iter().flatten().collect();
        check(&stays, &read(client).await.group.unwrap().members);
    }
}

/// Joins and leaves and reads, one after the other, until told to stop.
async fn work(client: Client, worker: u32, load: Arc<Load>) -> Vec<Stay> {
    let (mut stays, mut newest) = (Vec::new(), 0);
    for number in 0u32.. {
        if load.stop.load(Ordering::SeqCst) {
            break;
        }
        let process = format!("p{worker}.{number}");
        let answer = joined(&client, &process).await;
        load.acknowledged.fetch_add(1, Ordering::SeqCst);
        newest = newest.max(answer.revision);
        let pn = answer.member.unwrap().pn;
        let mut stay = Stay { process, pn, joined: answer.revision, left: None };
        if !number.is_multiple_of(3) {
            let revision = left(&client, &stay.process).await.revision;
            newest = newest.max(revision);
            stay.left = Some(revision);
            load.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        stays.push(stay);
        let seen = read(&client).await.revision;
        assert!(seen >= newest, "a read went back from {newest} to {seen}");
        newest = seen;
    }
    stays
}

/// No two members of one time had the same number, and the present members are those that should
/// be.
fn check(stays: &[Stay], members: &[v1::Member]) {
    let mut by_pn: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for stay in stays {
        by_pn.entry(stay.pn).or_default().push((stay.joined, stay.left.unwrap_or(u64::MAX)));
    }
    for (pn, mut times) in by_pn {
        times.sort_unstable();
        for pair in times.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{pn} was given twice: {pair:?}");
        }
    }
    let present = stays.iter().filter(|stay| stay.left.is_none());
    let mut present: Vec<(&str, u32)> = present.map(|stay| (&*stay.process, stay.pn)).collect();
    let mut found: Vec<(&str, u32)> = members.iter().map(|one| (&*one.process, one.pn)).collect();
    present.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, present, "what was acknowledged is what there is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_while_leaders_die_freeze_and_are_cut_off() {
    let etcd = Etcd::start(3).await;
    let sandbox = Sandbox::new();
    let mut processes = Vec::new();
    for number in 0..3 {
        processes.push(Process::start(&sandbox, &etcd, number).await);
    }
    let addresses: Vec<String> = processes.iter().map(|one| one.address.clone()).collect();
    let leader = Leader::new(&addresses).unwrap();
    let client = TicServiceClient::new(leader.channel());
    leading(&processes, 0).await;
    register(&client).await;
    let load = Load::start(&client).await;
    let (first, term) = leading(&processes, 0).await;
    // It is back before its lease is over, and may well be elected again.
    processes[first].restart(&sandbox);
    let (second, later) = leading(&processes, term).await;

    processes[second].signal("STOP");
    let (third, last) = leading(&processes, later).await;
    assert_ne!(third, second);
    processes[second].signal("CONT");
    // It wakes with calls in its hands and a term that is over: not one of them comes true.
    processes[second].is_deposed(last).await;

    processes[third].proxies.iter().for_each(Proxy::cut);
    let (fourth, newest) = leading(&processes, last).await;
    assert_ne!(fourth, third);
    // Cut off, it answers nobody.
    processes[third].is_deposed(newest).await;
    processes[third].proxies.iter().for_each(Proxy::mend);
    tokio::time::sleep(Duration::from_secs(1)).await;
    processes[third].is_deposed(newest).await;

    load.is_as_acknowledged(&client).await;
}
