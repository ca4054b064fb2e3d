//! Processes that join and leave all the time, and the history of what they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Channel, LeaderChannel, reason_of};
use tokio::sync::{Mutex, RwLock, RwLockWriteGuard};
use tokio::task::JoinSet;
use tonic::{Code, Response, Status};

use crate::cluster::{Cluster, SOON};

/// Group that all processes join.
const GROUP: &str = "load";
/// Numbers of the nodes whose processes join and leave, one worker each; tests do not break them.
const WORKERS: [usize; 3] = [0, 1, 2];
/// Numbers of the nodes that tests break. They are members of the group, and the first one hosts
/// its group agent.
const GUESTS: [usize; 3] = [7, 6, 5];
/// Name of the processes on these nodes.
const GUEST: &str = "guest";
/// Numbers of the nodes that form further groups; tests do not break them.
const ROUTED: [usize; 2] = [3, 4];
/// Number of joins and leaves of every worker that show that the load goes on.
const ROUNDS: u32 = 2;

/// Joins and leaves and reads under way.
#[derive(Debug)]
pub struct Load {
    stop: AtomicBool,
    acknowledged: AtomicU32,
    /// Shared by the workers; a task that wants no work meanwhile takes it for itself.
    peace: RwLock<()>,
    workers: Mutex<JoinSet<BTreeMap<(String, String), u32>>>,
    tic: TicServiceClient<LeaderChannel>,
}

impl Load {
    /// Has the guests form the group, and sets the workers to work.
    pub async fn start(cluster: &Cluster) -> Arc<Self> {
        for node in GUESTS {
            join(&cluster.agent(node), GROUP, node, GUEST).await;
        }
        let load = Arc::new(Self {
            stop: AtomicBool::new(false),
            acknowledged: AtomicU32::new(0),
            peace: RwLock::new(()),
            workers: Mutex::default(),
            tic: cluster.tic(),
        });
        for worker in WORKERS {
            let working = Arc::clone(&load).work(worker, cluster.agent(worker));
            load.workers.lock().await.spawn(working);
        }
        load
    }

    /// Waits until more has been acknowledged; how long that took.
    pub async fn goes_on(&self) -> Duration {
        let wanted = ROUNDS * u32::try_from(WORKERS.len()).expect("a few");
        let count = || self.acknowledged.load(Ordering::SeqCst);
        let (before, started) = (count(), Instant::now());
        while count() < before + wanted {
            assert!(started.elapsed() < SOON, "nothing is acknowledged any more");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        started.elapsed()
    }

    /// Lets the workers end what they do and wait while the guard is held.
    pub async fn rests(&self) -> RwLockWriteGuard<'_, ()> {
        self.peace.write().await
    }

    /// Joins and leaves that have been acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Ends the work: who was told to be a member and did not leave is one, with the number that it
    /// was told, and nobody else is. Then the group is deleted.
    pub async fn ends_as_acknowledged(&self) {
        self.stop.store(true, Ordering::SeqCst);
        let workers = std::mem::take(&mut *self.workers.lock().await);
        let told: BTreeMap<_, _> = workers.join_all().await.into_iter().flatten().collect();
        let found: BTreeMap<(String, String), u32> = read(&self.tic)
            .await
            .1
            .into_iter()
            .filter(|member| member.process != GUEST)
            .map(|member| ((member.node, member.process), member.pn))
            .collect();
        assert_eq!(found, told, "what was acknowledged is what there is");
        delete(&self.tic, GROUP).await;
    }

    /// Joins, leaves and reads until told to stop; who is a member at the end.
    async fn work(
        self: Arc<Self>,
        worker: usize,
        agent: OperatingAgentServiceClient<Channel>,
    ) -> BTreeMap<(String, String), u32> {
        let node = format!("node-{worker}");
        let (mut members, mut newest) = (BTreeMap::new(), 0);
        for number in 0u32.. {
            let _working = self.peace.read().await;
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let process = format!("p{number}");
            let pn = join(&agent, GROUP, worker, &process).await;
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            if number.is_multiple_of(8) {
                members.insert((node.clone(), process), pn);
            } else {
                leave(&agent, worker, &process).await;
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            let (revision, found) = read(&self.tic).await;
            assert!(revision >= newest, "a read went back from {newest} to {revision}");
            newest = revision;
            let numbers: BTreeSet<u32> = found.iter().map(|member| member.pn).collect();
            assert_eq!(numbers.len(), found.len(), "a number was given twice: {found:?}");
            for ((node, process), pn) in &members {
                let is_it = |one: &v1::Member| one.node == *node && one.process == *process;
                let there = found.iter().any(|one| is_it(one) && one.pn == *pn);
                assert!(there, "{node}/{process} was acknowledged with number {pn}, and is gone");
            }
        }
        members
    }
}

/// Has a process of a node join a group through its agent; the number it is told.
pub(crate) async fn join(
    agent: &OperatingAgentServiceClient<Channel>,
    group: &str,
    node: usize,
    process: &str,
) -> u32 {
    let request = v1::OperatingAgentServiceJoinGroupRequest {
        group: group.to_owned(),
        node: format!("node-{node}"),
        request_id: format!("join {group} {node} {process}"),
        process: process.to_owned(),
        persistent: true,
        ..Default::default()
    };
    let answer = persist(|| {
        let (mut agent, request) = (agent.clone(), request.clone());
        async move { agent.join_group(request).await }
    });
    answer.await.membership.expect("a membership").pn
}

async fn leave(agent: &OperatingAgentServiceClient<Channel>, node: usize, process: &str) {
    let request = v1::OperatingAgentServiceLeaveGroupRequest {
        group: GROUP.to_owned(),
        node: format!("node-{node}"),
        process: process.to_owned(),
        request_id: format!("leave {node} {process}"),
    };
    let leaving = persist(|| {
        let (mut agent, request) = (agent.clone(), request.clone());
        async move { agent.leave_group(request).await }
    });
    leaving.await;
}

/// Forms a group of two nodes under different leaf switches and waits until the switches have it;
/// how long that took.
pub(crate) async fn route(cluster: &Cluster, group: &str) -> Duration {
    let (tic, started) = (cluster.tic(), Instant::now());
    for node in ROUTED {
        join(&cluster.agent(node), group, node, "p").await;
    }
    loop {
        let read = persist(|| {
            let mut tic = tic.clone();
            let request = v1::GetGroupRequest { group: group.to_owned(), ..Default::default() };
            async move { tic.get_group(request).await }
        });
        let route = read.await.group.and_then(|group| group.route).unwrap_or_default();
        if route.state() == v1::RouteState::Routed {
            return started.elapsed();
        }
        assert!(started.elapsed() < SOON, "'{group}' gets no route: {route:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The members of the load's group, and the revision they are of.
async fn read(tic: &TicServiceClient<LeaderChannel>) -> (u64, Vec<v1::Member>) {
    let answer = persist(|| {
        let mut tic = tic.clone();
        let request = v1::GetGroupRequest { group: GROUP.to_owned(), ..Default::default() };
        async move { tic.get_group(request).await }
    });
    let answer = answer.await;
    (answer.revision, answer.group.unwrap_or_default().members)
}

/// Deletes a group with all its members.
pub(crate) async fn delete(tic: &TicServiceClient<LeaderChannel>, group: &str) {
    let deleting = persist(|| {
        let mut tic = tic.clone();
        let (request_id, group) = (format!("delete {group}"), group.to_owned());
        let request = v1::DeleteGroupRequest { request_id, group };
        async move { tic.delete_group(request).await }
    });
    deleting.await;
}

/// Asks again, with the same id, until it is answered.
pub(crate) async fn persist<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let started = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => {
                use Code::{Cancelled, DeadlineExceeded, Internal, Unavailable, Unknown};
                // A connection that ends while it is being made is told as `Unknown`.
                let again = [Unavailable, Internal, Cancelled, DeadlineExceeded, Unknown];
                let again = again.contains(&status.code()) && started.elapsed() < SOON;
                assert!(again, "{:?} {status:?}", reason_of(&status));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
