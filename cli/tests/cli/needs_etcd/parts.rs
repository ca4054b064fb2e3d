//! All parts as processes of their own, on a real etcd, under a load of joins and leaves through an
//! operating agent, while one after the other is killed, frozen or cut off: nothing acknowledged is
//! lost, no number is given twice, no read goes back, and each time the work goes on by itself.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Channel, Leader, LeaderChannel, Peer, reason_of};
use fabricast_testing::{Etcd, Proxy};
use tokio::task::JoinSet;
use tonic::{Code, Response, Status};

use crate::support::{Sandbox, data, free_address};

/// A bound for whatever must come about.
const SOON: Duration = Duration::from_secs(90);
const WORKERS: u32 = 3;

/// One process; killed when dropped.
struct Part {
    role: &'static str,
    config: String,
    listen: Option<&'static str>,
    address: String,
    child: Option<Child>,
}

impl Part {
    /// - `listen`: the variable that says where to listen, if the file does not.
    fn start(
        sandbox: &Sandbox,
        role: &'static str,
        config: &str,
        listen: Option<&'static str>,
        address: &str,
    ) -> Self {
        let (config, address) = (config.to_owned(), address.to_owned());
        let mut part = Self { role, config, listen, address, child: None };
        part.launch(sandbox);
        part
    }

    fn launch(&mut self, sandbox: &Sandbox) {
        let mut command = sandbox.command(&[self.role, "--config", &self.config]);
        command.envs(self.listen.map(|variable| (variable, &self.address)));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn signal(&self, signal: &str) {
        let line = format!("kill -{signal} {}", self.child.as_ref().unwrap().id());
        assert!(std::process::Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }

    async fn leads(&self) -> bool {
        let channel = Peer::new(&self.address).unwrap().channel();
        let mut client = AdministrationServiceClient::new(channel);
        let asking = client.get_server_info(v1::GetServerInfoRequest {});
        let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(1), asking).await else {
            return false;
        };
        answer.into_inner().leadership.is_some_and(|known| known.leads)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns which of two leads, by its index.
async fn leading(parts: &[Part]) -> usize {
    let started = Instant::now();
    loop {
        for (number, part) in parts.iter().enumerate() {
            if part.leads().await {
                return number;
            }
        }
        assert!(started.elapsed() < SOON, "nobody leads");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Two of what may stand in for each other, and the ways from the loaded agent to the TICs.
struct World {
    sandbox: Sandbox,
    _fixed: Vec<Part>,
    tics: Vec<Part>,
    routers: Vec<Part>,
    /// Hosts `node001`, whose process founds the group, and so its agent.
    host: Part,
    /// Hosts `gpu042`, whose processes come and go.
    _loaded: Part,
    ways: Vec<Proxy>,
    client: TicServiceClient<LeaderChannel>,
    founder: OperatingAgentServiceClient<Channel>,
    members: OperatingAgentServiceClient<Channel>,
    _etcd: Etcd,
}

impl World {
    async fn start() -> Self {
        let etcd = Etcd::start(1).await;
        let (sandbox, net) = (Sandbox::new(), data("cluster-edr-96.ibnetdiscover"));
        let [fabric, switches, host, loaded, t0, t1, r0, r1] =
            std::array::from_fn(|_| free_address());
        let text = format!(
            "[fabric]\nlisten = '{fabric}'\ntopology = '{net}'\nmanagement_key = 'k'\n\
             [tic]\ntopology = '{net}'\nstore = '{}'\nleader_lease = '2s'\nroute_lease = '1s'\n\
             report_timeout = '1h'\n\
             [switch_agent]\nlisten = '{switches}'\nname = 'a'\nmanagement_key = 'k'\n\
             tic = ['{t0}', '{t1}']\nfabric = '{fabric}'\n\
             [router]\ntic = ['{t0}', '{t1}']\nswitch_agents = ['{switches}']\n\
             [operating_agent]\nfabric = '{fabric}'\nreport_timeout = '1h'\n",
            etcd.url("processes")
        );
        sandbox.write("f.toml", text);
        let start =
            |role, variable, at: &String| Part::start(&sandbox, role, "f.toml", variable, at);
        let fixed = vec![start("fabric", None, &fabric), start("switch-agent", None, &switches)];
        let tics = [&t0, &t1].map(|at| start("tic", Some("FABRICAST_TIC__LISTEN"), at)).into();
        let variable = Some("FABRICAST_ROUTER__LISTEN");
        let routers = [&r0, &r1].map(|at| start("router", variable, at)).into();
        let ways = vec![Proxy::start(&t0).await, Proxy::start(&t1).await];
        let agent = |at: &String, node: &str, [one, two]: [&str; 2]| {
            let config = format!("{node}.toml");
            let text = sandbox.read("f.toml").replace(
                "[operating_agent]\n",
                &format!(
                    "[operating_agent]\nlisten = '{at}'\ntic = ['{one}', '{two}']\n\
                     nodes = [{{ name = '{node}', endpoints = ['{node} HCA-1'] }}]\n",
                ),
            );
            sandbox.write(&config, text);
            Part::start(&sandbox, "operating-agent", &config, None, at)
        };
        let host_part = agent(&host, "node001", [&t0, &t1]);
        let loaded_part = agent(&loaded, "gpu042", [&ways[0].address(), &ways[1].address()]);
        let channel = |address: &str| Peer::new(address).unwrap().channel();
        let at = |address: &str| OperatingAgentServiceClient::new(channel(address));
        let client = TicServiceClient::new(Leader::new(&[t0, t1]).unwrap().channel());
        let (founder, members) = (at(&host), at(&loaded));
        Self {
            sandbox,
            _fixed: fixed,
            tics,
            routers,
            host: host_part,
            _loaded: loaded_part,
            ways,
            client,
            founder,
            members,
            _etcd: etcd,
        }
    }

    /// Waits until a new group of both nodes is in the switches.
    async fn routes(&self, group: &str) {
        persist(|| join(self.founder.clone(), group, "node001", "p".to_owned())).await;
        persist(|| join(self.members.clone(), group, "gpu042", "p".to_owned())).await;
        let started = Instant::now();
        while read(&self.client, group).await.group.unwrap().route.unwrap_or_default().state()
            != v1::RouteState::Routed
        {
            assert!(started.elapsed() < SOON, "'{group}' gets no route");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn join(
    mut agent: OperatingAgentServiceClient<Channel>,
    group: &str,
    node: &str,
    process: String,
) -> Result<Response<v1::OperatingAgentServiceJoinGroupResponse>, Status> {
    let request = v1::OperatingAgentServiceJoinGroupRequest {
        group: group.to_owned(),
        node: node.to_owned(),
        request_id: format!("join {group} {node} {process}"),
        process,
        persistent: true,
        ..Default::default()
    };
    agent.join_group(request).await
}

async fn leave(
    mut agent: OperatingAgentServiceClient<Channel>,
    process: &str,
) -> Result<Response<v1::OperatingAgentServiceLeaveGroupResponse>, Status> {
    let request = v1::OperatingAgentServiceLeaveGroupRequest {
        group: "g".to_owned(),
        node: "gpu042".to_owned(),
        process: process.to_owned(),
        request_id: format!("leave {process}"),
    };
    agent.leave_group(request).await
}

/// Asks again, with the same id, until it is answered.
async fn persist<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    loop {
        match call().await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => {
                use Code::{Cancelled, DeadlineExceeded, Internal, Unavailable};
                let again = [Unavailable, Internal, Cancelled, DeadlineExceeded];
                assert!(again.contains(&status.code()), "{:?} {status:?}", reason_of(&status));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn read(client: &TicServiceClient<LeaderChannel>, group: &str) -> v1::GetGroupResponse {
    persist(|| {
        let mut client = client.clone();
        let request = v1::GetGroupRequest { group: group.to_owned(), ..Default::default() };
        async move { client.get_group(request).await }
    })
    .await
}

/// The load: who has joined, and with what number if it has not left.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    acknowledged: AtomicU32,
}

impl Load {
    async fn goes_on(&self) {
        let count = || self.acknowledged.load(Ordering::SeqCst);
        let (before, started) = (count(), Instant::now());
        while count() < before + 3 * WORKERS {
            assert!(started.elapsed() < SOON, "nothing is acknowledged any more");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Joins, leaves and reads until told to stop; answers who is a member at the end.
    async fn work(
        self: Arc<Self>,
        worker: u32,
        agent: OperatingAgentServiceClient<Channel>,
        client: TicServiceClient<LeaderChannel>,
    ) -> BTreeMap<String, u32> {
        let (mut members, mut newest) = (BTreeMap::new(), 0);
        for number in 0u32.. {
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let process = format!("p{worker}.{number}");
            let join = || join(agent.clone(), "g", "gpu042", process.clone());
            let joined = persist(join).await.membership.unwrap();
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            if number.is_multiple_of(4) {
                members.insert(process, joined.pn);
            } else {
                persist(|| leave(agent.clone(), &process)).await;
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            let seen = read(&client, "g").await;
            assert!(seen.revision >= newest, "a read went back from {newest}");
            newest = seen.revision;
            let found = seen.group.unwrap().members;
            for (process, pn) in &members {
                let there = found.iter().any(|one| one.process == *process && one.pn == *pn);
                assert!(there, "{process} was acknowledged with number {pn}, and is gone");
            }
        }
        members
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_goes_on_whoever_dies_freezes_or_is_cut_off() {
    let mut world = World::start().await;
    // The founder's node hosts the group's agent.
    persist(|| join(world.founder.clone(), "g", "node001", "p".to_owned())).await;
    let (load, mut workers) = (Arc::new(Load::default()), JoinSet::new());
    for worker in 0..WORKERS {
        let (agent, client) = (world.members.clone(), world.client.clone());
        workers.spawn(Arc::clone(&load).work(worker, agent, client));
    }
    load.goes_on().await;

    let first = leading(&world.tics).await;
    world.tics[first].kill();
    load.goes_on().await;
    world.tics[first].launch(&world.sandbox);
    let second = leading(&world.tics).await;
    world.tics[second].signal("STOP");
    load.goes_on().await;
    world.tics[second].signal("CONT");

    world.routes("before").await;
    let active = leading(&world.routers).await;
    world.routers[active].signal("STOP");
    world.routes("while one is frozen").await;
    world.routers[active].signal("CONT");
    let active = leading(&world.routers).await;
    world.routers[active].kill();
    world.routes("while one is dead").await;
    world.routers[active].launch(&world.sandbox);

    // Nobody but its agent can find a new member its place.
    world.host.signal("STOP");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.host.signal("CONT");
    load.goes_on().await;
    world.host.kill();
    world.host.launch(&world.sandbox);
    load.goes_on().await;

    // By now the agent of the group is where the load is.
    world.ways.iter().for_each(Proxy::cut);
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.ways.iter().for_each(Proxy::mend);
    load.goes_on().await;

    load.stop.store(true, Ordering::SeqCst);
    let members: BTreeMap<String, u32> = workers.join_all().await.into_iter().flatten().collect();
    let found = read(&world.client, "g").await.group.unwrap().members;
    let found: BTreeMap<String, u32> = found
        .into_iter()
        .filter(|one| one.node == "gpu042")
        .map(|one| (one.process, one.pn))
        .collect();
    assert_eq!(found, members, "what was acknowledged is what there is");
}
