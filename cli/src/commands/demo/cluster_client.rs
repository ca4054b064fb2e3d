//! Calls of the demo to the running parts, all over gRPC.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Peer, RpcError, Security, request_id};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::remote::{Remote, answer};
use crate::source::Topology;

/// Most joins and leaves in flight.
const CALLS_AT_ONCE: usize = 64;
/// Interval between two checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Timeout after which a condition counts as failed.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Addresses of the parts of a cluster, each `host:port`, and credentials for them.
#[derive(Debug)]
pub(crate) struct ClusterAddresses {
    /// TICs, with commas in between.
    pub(crate) tic: String,
    /// Route services, likewise.
    pub(crate) router: String,
    pub(crate) fabric: String,
    pub(crate) switch_agents: Vec<String>,
    pub(crate) operating_agents: Vec<String>,
    pub(crate) security: Security,
}

/// Clients of all parts.
#[derive(Clone, Debug)]
pub(crate) struct ClusterClient {
    tic: Remote,
    router: Remote,
    fabric: Peer,
    pub(crate) switch_agents: Vec<Peer>,
    /// Clients of the operating agents.
    pub(crate) agents: Vec<Peer>,
    /// Operating agent of each node.
    pub(crate) agent_of_node: BTreeMap<String, Peer>,
    /// Node of each endpoint.
    pub(crate) owners: BTreeMap<String, String>,
}

impl ClusterClient {
    pub(crate) async fn connect(parts: &ClusterAddresses) -> Result<Self, Failure> {
        let peer = |address: &String| parts.security.peer(address);
        let agents: Vec<Peer> =
            parts.operating_agents.iter().map(peer).collect::<Result<_, _>>()?;
        let (mut agent_of_node, mut owners) = (BTreeMap::new(), BTreeMap::new());
        for agent in &agents {
            let mut client = OperatingAgentServiceClient::new(agent.channel());
            let hosted = answer(client.list_hosted_nodes(v1::ListHostedNodesRequest {})).await?;
            for node in hosted.nodes {
                let endpoints = node.endpoints.into_iter();
                owners.extend(endpoints.map(|endpoint| (endpoint, node.name.clone())));
                agent_of_node.insert(node.name, agent.clone());
            }
        }
        Ok(Self {
            tic: Remote::secured(&parts.tic, parts.security.clone())?,
            router: Remote::secured(&parts.router, parts.security.clone())?,
            fabric: peer(&parts.fabric)?,
            switch_agents: parts.switch_agents.iter().map(peer).collect::<Result<_, _>>()?,
            agents,
            agent_of_node,
            owners,
        })
    }

    /// The topology that the TIC serves.
    pub(crate) async fn topology(&self) -> Result<Topology, Failure> {
        Ok(Topology::of("the running cluster", self.tic.graph().await?))
    }

    /// Waits until the TIC has admitted `count` nodes.
    pub(crate) async fn wait_until_admitted(
        &self,
        count: usize,
    ) -> Result<Option<Duration>, Failure> {
        let started = Instant::now();
        while started.elapsed() < GIVE_UP {
            if self.tic.nodes().await?.len() >= count {
                return Ok(Some(started.elapsed()));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(None)
    }

    /// Lists all groups with their members.
    pub(crate) async fn groups(&self) -> Result<Vec<v1::Group>, Failure> {
        self.tic.groups(true).await
    }

    fn agent_client(
        &self,
        node: &str,
    ) -> Result<OperatingAgentServiceClient<fabricast_rpc::Channel>, Failure> {
        let peer = self.agent_of_node.get(node);
        let peer = peer.ok_or_else(|| Failure::input(format!("no agent hosts node '{node}'")))?;
        Ok(OperatingAgentServiceClient::new(peer.channel()))
    }

    /// Sends all joins through the operating agents of their nodes; returns the latency of each.
    pub(crate) async fn join(
        &self,
        requests: Vec<v1::OperatingAgentServiceJoinGroupRequest>,
    ) -> Result<Vec<Duration>, Failure> {
        let progress = Progress::new("joining", requests.len());
        let mut latencies = Vec::with_capacity(requests.len());
        let mut tasks = JoinSet::new();
        for request in requests {
            let mut client = self.agent_client(&request.node)?;
            tasks.spawn(async move {
                let started = Instant::now();
                answer(client.join_group(request)).await.map(|_| started.elapsed())
            });
            if tasks.len() >= CALLS_AT_ONCE
                && let Some(done) = tasks.join_next().await
            {
                latencies.push(done??);
                progress.step();
            }
        }
        while let Some(done) = tasks.join_next().await {
            latencies.push(done??);
            progress.step();
        }
        progress.finish();
        Ok(latencies)
    }

    /// Takes every member out of a group.
    pub(crate) async fn leave_all(&self, group: &v1::Group) -> Result<(), Failure> {
        for member in &group.members {
            let request = v1::OperatingAgentServiceLeaveGroupRequest {
                node: member.node.clone(),
                group: group.name.clone(),
                process: member.process.clone(),
                request_id: request_id(),
            };
            answer(self.agent_client(&member.node)?.leave_group(request)).await?;
        }
        Ok(())
    }

    pub(crate) async fn stop_node(&self, node: &str) -> Result<(), Failure> {
        let request = v1::StopNodeRequest { node: node.to_owned() };
        answer(self.agent_client(node)?.stop_node(request)).await?;
        Ok(())
    }

    pub(crate) async fn start_node(&self, node: &str) -> Result<(), Failure> {
        let request = v1::StartNodeRequest { node: node.to_owned() };
        answer(self.agent_client(node)?.start_node(request)).await?;
        Ok(())
    }

    pub(crate) async fn fail(&self, element: v1::Element) -> Result<(), Failure> {
        let request = v1::FailElementRequest { element: Some(element) };
        let mut fabric = FabricServiceClient::new(self.fabric.channel());
        answer(fabric.fail_element(request)).await?;
        Ok(())
    }

    pub(crate) async fn heal(&self, element: v1::Element) -> Result<(), Failure> {
        let request = v1::HealElementRequest { element: Some(element) };
        let mut fabric = FabricServiceClient::new(self.fabric.channel());
        answer(fabric.heal_element(request)).await?;
        Ok(())
    }

    /// Injects a packet at an endpoint; returns the endpoints it reached.
    pub(crate) async fn inject(
        &self,
        endpoint: &str,
        mgid: u32,
        color: u32,
    ) -> Result<v1::InjectPacketResponse, Failure> {
        let packet = v1::Packet { mgid, color, ..Default::default() };
        let request =
            v1::InjectPacketRequest { endpoint: endpoint.to_owned(), packet: Some(packet) };
        let mut fabric = FabricServiceClient::new(self.fabric.channel());
        Ok(answer(fabric.inject_packet(request)).await?)
    }

    pub(crate) async fn route_status(&self) -> Result<v1::GetRouteStatusResponse, Failure> {
        self.router.route_status().await
    }

    pub(crate) async fn explain(&self, group: &str) -> Result<v1::RouteExplanation, Failure> {
        let request = v1::ExplainRouteRequest { group: group.to_owned() };
        let explained = answer(self.router.router().await?.explain_route(request)).await?;
        Ok(explained.explanation.unwrap_or_default())
    }

    /// The tables of all switches, read back from the hardware.
    pub(crate) async fn tables(&self) -> Result<Vec<v1::SwitchTable>, Failure> {
        let mut tables = Vec::new();
        for agent in &self.switch_agents {
            let mut client = SwitchAgentServiceClient::new(agent.channel());
            let all = v1::ReadTablesRequest { switch_names: Vec::new() };
            let mut stream = answer(client.read_tables(all)).await?;
            while let Some(part) = stream.message().await.map_err(RpcError::from)? {
                tables.extend(part.table);
            }
        }
        Ok(tables)
    }

    /// The port counters of all switches.
    pub(crate) async fn counters(&self) -> Result<Vec<v1::SwitchCounters>, Failure> {
        let mut counters = Vec::new();
        for agent in &self.switch_agents {
            let mut client = SwitchAgentServiceClient::new(agent.channel());
            let mut stream =
                answer(client.read_counters(v1::ReadCountersRequest::default())).await?;
            while let Some(part) = stream.message().await.map_err(RpcError::from)? {
                counters.extend(part.counters);
            }
        }
        Ok(counters)
    }

    /// Lists the memberships that the operating agents have for their nodes.
    pub(crate) async fn memberships(&self) -> Result<Vec<v1::Membership>, Failure> {
        let mut memberships = Vec::new();
        for agent in &self.agents {
            let mut client = OperatingAgentServiceClient::new(agent.channel());
            let request = v1::ListMembershipsRequest { node: String::new() };
            memberships.extend(answer(client.list_memberships(request)).await?.memberships);
        }
        Ok(memberships)
    }

    /// Creates a collective on a switch tree for small operations of a group.
    pub(crate) async fn create_collective(&self, group: &str) -> Result<(), Failure> {
        let operations =
            [v1::CollectiveOperation::Barrier, v1::CollectiveOperation::AllReduce].map(i32::from);
        let request = v1::CreateCollectiveRequest {
            name: group.to_owned(),
            group: group.to_owned(),
            operations: operations.to_vec(),
            max_bytes: 64,
            switch_tree_required: true,
            ..Default::default()
        };
        answer(self.tic.collectives().create_collective(request)).await?;
        Ok(())
    }

    /// Waits until the node is out of every group.
    pub(crate) async fn wait_until_expelled(
        &self,
        node: &str,
    ) -> Result<Option<Duration>, Failure> {
        let started = Instant::now();
        while started.elapsed() < GIVE_UP {
            let nodes = self.tic.nodes().await?;
            let failed =
                nodes.iter().any(|one| one.name == node && one.state() == v1::NodeState::Failed);
            if failed && !in_any_group(&self.groups().await?, node) {
                return Ok(Some(started.elapsed()));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(None)
    }

    /// Waits until the tables are programmed for the present groups and all members know their
    /// color.
    pub(crate) async fn wait_until_routed(&self) -> Result<Option<Duration>, Failure> {
        let started = Instant::now();
        while started.elapsed() < GIVE_UP {
            let revision = self.tic.revision().await?;
            let groups = self.groups().await?;
            if groups.iter().all(is_routed)
                && self.router_is_idle(revision).await?
                && self.members_know(&groups).await?
            {
                return Ok(Some(started.elapsed()));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(None)
    }

    /// True if the route service has taken in a revision, and no entry is left to write or to
    /// remove.
    async fn router_is_idle(&self, revision: u64) -> Result<bool, Failure> {
        let status = self.route_status().await?;
        Ok(status.settled && status.seen_revision >= revision)
    }

    /// True if every operating agent sends with the color that the TIC has, for each of its
    /// members.
    async fn members_know(&self, groups: &[v1::Group]) -> Result<bool, Failure> {
        let mut wanted: BTreeMap<(u64, u32), (Option<u32>, bool)> = BTreeMap::new();
        for group in groups {
            let color = routed_color(group.route.as_ref());
            let route = group.route.clone().unwrap_or_default();
            for member in &group.members {
                let is_served =
                    color.is_some() && !route.cut_off_endpoints.contains(&member.endpoint);
                wanted.insert((group.gn, member.pn), (color, is_served));
            }
        }
        let mut known = BTreeSet::new();
        for membership in self.memberships().await? {
            let key = (membership.gn, membership.pn);
            let is_open = membership.multicast_open;
            let route = membership.position.and_then(|position| position.route);
            match wanted.get(&key) {
                Some(wanted) if *wanted == (routed_color(route.as_ref()), is_open) => {
                    known.insert(key);
                }
                // An agent that follows a group nobody else knows has not caught up.
                _ => return Ok(false),
            }
        }
        Ok(known.len() == wanted.len())
    }
}

/// Color of a group's packets, if it is routed.
pub(crate) fn routed_color(route: Option<&v1::Route>) -> Option<u32> {
    route.filter(|route| route.state() == v1::RouteState::Routed).map(|route| route.color)
}

/// True if the route service has processed the last change of the membership.
fn is_routed(group: &v1::Group) -> bool {
    group.route.as_ref().is_some_and(|route| route.routed_revision >= group.members_revision)
}

fn in_any_group(groups: &[v1::Group], node: &str) -> bool {
    groups.iter().any(|group| group.members.iter().any(|member| member.node == node))
}
