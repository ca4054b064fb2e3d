//! The cluster: what can be done to its containers, and what it says of itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{CertificateFiles, Channel, Leader, LeaderChannel, Security};

use crate::docker::{containers, folder, networks, ok, order, run, run_in};
use crate::load::{delete, persist, route};

/// Filter of the cluster's containers and volumes.
const COMPOSE_PROJECT: &str = "label=com.docker.compose.project=fabricast";
/// Timeout of every wait.
pub(crate) const SOON: Duration = Duration::from_secs(240);
const TICS: [&str; 3] = ["127.0.0.1:7411", "127.0.0.1:7412", "127.0.0.1:7413"];
const ROUTERS: [&str; 2] = ["127.0.0.1:7421", "127.0.0.1:7422"];
const SWITCH_AGENTS: &str = "127.0.0.1:7451,127.0.0.1:7452,127.0.0.1:7453";
/// A part that does not answer within this time does not lead.
const ANSWER: Duration = Duration::from_secs(1);
/// The container that holds the disk of `etcd-2`, as `compose.yml` beside this package says.
const HOLDER: &str = "node-3";
/// More bytes than that disk has.
const DISK: u64 = 256 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Client of an operating agent.
pub(crate) type Agent = OperatingAgentServiceClient<Channel>;

/// The running cluster, as an administrator sees it.
#[derive(Debug)]
pub struct Cluster {
    security: Security,
    containers: BTreeMap<String, String>,
    networks: BTreeMap<String, String>,
}

impl Cluster {
    /// Starts the cluster without records; ends one that runs already.
    pub async fn start() -> Self {
        // Before its first start the settings that docker-compose.yml names are not there.
        if folder().join("run/secret.env").exists() {
            Self::end().await;
        }
        order("./start", &[]).await;
        let files = CertificateFiles::in_folder(&folder().join("run/certificates/admin"));
        let security = Security::mutual(files).expect("`start` makes certificates");
        Self { security, containers: containers().await, networks: networks().await }
    }

    /// Ends the cluster and deletes its records.
    pub async fn end() {
        let ended = run("./compose", &["down", "--volumes", "--timeout", "1"]).await;
        if ended.status.success() {
            return;
        }
        // The engine may go on counting an endpoint of a container that was cut off and killed, and
        // then keeps the network until it is started again; the next cluster uses that network.
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(text.contains("has active endpoints"), "{text}");
        let left = ok("docker", &["ps", "--all", "--quiet", "--filter", COMPOSE_PROJECT]).await;
        assert_eq!(left, "", "containers are left");
        for volume in
            ok("docker", &["volume", "ls", "--quiet", "--filter", COMPOSE_PROJECT]).await.lines()
        {
            ok("docker", &["volume", "rm", volume]).await;
        }
    }

    /// Kills a container as a crash does: no signal can be caught.
    pub async fn kill(&self, service: &str) {
        ok("docker", &["kill", self.container(service)]).await;
    }

    /// Starts a container again.
    pub async fn restart(&self, service: &str) {
        order("docker", &["restart", "--time", "0", self.container(service)]).await;
    }

    /// Stops a container gracefully and creates it again, as an upgrade does.
    pub async fn roll(&mut self, service: &str) {
        let arguments = ["up", "--detach", "--no-deps", "--force-recreate", service];
        ok("./compose", &arguments).await;
        self.containers = containers().await;
    }

    /// Freezes a container: its connections stay open and it sends nothing.
    pub async fn pause(&self, service: &str) {
        order("docker", &["pause", self.container(service)]).await;
    }

    /// Resumes a frozen container.
    pub async fn unpause(&self, service: &str) {
        order("docker", &["unpause", self.container(service)]).await;
    }

    /// Disconnects a container from a network.
    pub async fn cut(&self, service: &str, network: &str) {
        let (network, container) = (&self.networks[network], self.container(service));
        ok("docker", &["network", "disconnect", network, container]).await;
    }

    /// Connects it to the network again.
    pub async fn mend(&self, service: &str, network: &str) {
        let (network, container) = (&self.networks[network], self.container(service));
        ok("docker", &["network", "connect", "--alias", service, network, container]).await;
    }

    /// Creates a container again with a wrong clock; only the image of `tic-1` supports that.
    ///
    /// - `skew`: offset of the clock in seconds.
    pub async fn skew(&mut self, service: &str, skew: i32) {
        let arguments = ["up", "--detach", "--no-deps", "--force-recreate", service];
        let made = run_in(&format!("{skew:+}"), "./compose", &arguments).await;
        assert!(made.status.success(), "{made:?}");
        self.containers = containers().await;
    }

    /// Fills the disk of `etcd-2` completely.
    pub async fn fill(&self) {
        let filler = folder().join("run/filler");
        let file = std::fs::File::create(&filler).expect("a file can be made");
        file.set_len(DISK).expect("a file has holes");
        let to = format!("{}:/held/filler", self.container(HOLDER));
        let output = run("docker", &["cp", &filler.to_string_lossy(), &to]).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("no space left on device"), "{output:?}");
    }

    /// Frees the space again.
    pub async fn empty(&self) {
        let filler = folder().join("run/filler");
        std::fs::write(&filler, []).expect("a file can be made");
        let to = format!("{}:/held/filler", self.container(HOLDER));
        ok("docker", &["cp", &filler.to_string_lossy(), &to]).await;
    }

    /// Waits until the health check of a container succeeds. Returns the time that this took.
    pub async fn is_well(&self, service: &str) -> Duration {
        let started = Instant::now();
        let format = "{{.State.Health.Status}}";
        while ok("docker", &["inspect", "--format", format, self.container(service)]).await.trim()
            != "healthy"
        {
            assert!(started.elapsed() < SOON, "{service} is not well");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        started.elapsed()
    }

    fn container(&self, service: &str) -> &str {
        let id = self.containers.get(service);
        id.unwrap_or_else(|| panic!("there is no container of '{service}'"))
    }

    /// Client of the TIC that leads.
    #[must_use]
    pub fn tic(&self) -> TicServiceClient<LeaderChannel> {
        let addresses = TICS.map(str::to_owned);
        let leader: Leader = self.security.leader(&addresses).expect("addresses");
        TicServiceClient::new(leader.channel())
    }

    /// Client of the operating agent of a node, by the number of the node.
    #[must_use]
    pub fn agent(&self, node: usize) -> Agent {
        let peer = self.security.peer(&format!("127.0.0.1:{}", 7440 + node));
        OperatingAgentServiceClient::new(peer.expect("an address").channel())
    }

    /// Compose service of the TIC that leads.
    pub async fn leading_tic(&self) -> String {
        format!("tic-{}", self.leading(&TICS).await)
    }

    /// Compose service of the active route service.
    pub async fn leading_router(&self) -> String {
        format!("router-{}", self.leading(&ROUTERS).await)
    }

    async fn leading(&self, addresses: &[&str]) -> usize {
        let started = Instant::now();
        loop {
            for (number, address) in addresses.iter().enumerate() {
                if self.leads(address).await {
                    return number;
                }
            }
            assert!(started.elapsed() < SOON, "none of {addresses:?} leads");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn leads(&self, address: &str) -> bool {
        let channel = self.security.peer(address).expect("an address").channel();
        let mut client = AdministrationServiceClient::new(channel);
        let asking = client.get_server_info(v1::GetServerInfoRequest {});
        let Ok(Ok(answer)) = tokio::time::timeout(ANSWER, asking).await else { return false };
        answer.into_inner().leadership.is_some_and(|known| known.leads)
    }

    /// Waits until a node is in a state.
    pub async fn node_is(&self, node: &str, state: v1::NodeState) {
        let started = Instant::now();
        loop {
            let nodes = persist(|| {
                let mut client = self.tic();
                async move { client.list_nodes(v1::ListNodesRequest::default()).await }
            });
            let nodes = nodes.await.nodes;
            if nodes.iter().any(|one| one.name == node && one.state() == state) {
                return;
            }
            assert!(started.elapsed() < SOON, "{node} does not become {state:?}: {nodes:?}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until packets that are walked through the tables of the switches reach exactly the
    /// members of every group, and no entry is stale.
    pub async fn delivers(&self) {
        let (tics, routers) = (TICS.join(","), ROUTERS.join(","));
        let mut arguments = vec!["route", "verify", "--live", "--all-senders", "--server", &tics];
        arguments.extend(["--router", &routers, "--switch-agents", SWITCH_AGENTS]);
        arguments.extend(["--certificates", "run/certificates/admin"]);
        let started = Instant::now();
        loop {
            let output = run("run/fabricast", &arguments).await;
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.success() && !said.contains("at work") {
                return;
            }
            assert!(started.elapsed() < SOON, "packets do not arrive: {output:?}");
        }
    }

    /// Forms a group, waits until it is routed, and deletes it again. Returns the time until it was
    /// routed.
    pub async fn routes(&self, group: &str) -> Duration {
        let elapsed = route(self, group).await;
        delete(&self.tic(), group).await;
        elapsed
    }

    /// Runs the demo on the cluster, which must have no groups. Returns its output.
    pub async fn demo(&self) -> String {
        ok("./demo", &[]).await
    }
}
