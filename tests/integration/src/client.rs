//! Calls to all parts of a cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fabricast_config::NodeConfig;
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_proto::v1::group_agent_service_client::GroupAgentServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::route_choice_service_client::RouteChoiceServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Channel, Leader, LeaderChannel, Peer, request_id};
use tonic::Status;

use crate::wait::eventually;

/// Clients of all parts; cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    fabric: Peer,
    pub(crate) tic: Leader,
    router: Leader,
    switch_agents: Vec<Peer>,
    pub(crate) hosts: Vec<Peer>,
    pub(crate) homes: BTreeMap<String, usize>,
}

/// The color that packets of a group carry, if there is a hardware route.
#[must_use]
pub fn color_of(route: Option<&v1::Route>) -> Option<u32> {
    route.filter(|route| route.state() == v1::RouteState::Routed).map(|route| route.color)
}

fn peer(address: SocketAddr) -> Peer {
    Peer::new(&address.to_string()).expect("an address")
}

fn leader(addresses: &[SocketAddr]) -> Leader {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    Leader::new(&addresses).expect("addresses")
}

/// A refusal in one line.
pub(crate) fn named(status: &Status) -> String {
    format!("{:?} {}", status.code(), status.message())
}

impl Client {
    /// Prepares channels.
    ///
    /// - `parts`: fabric, TIC and route service.
    /// - `hosts`: nodes and address of each operating agent process.
    #[must_use]
    pub fn new(
        parts: [SocketAddr; 3],
        switch_agents: &[SocketAddr],
        hosts: &[(Vec<NodeConfig>, SocketAddr)],
    ) -> Self {
        let [fabric, tic, router] = parts;
        let homes = hosts.iter().enumerate().flat_map(|(index, (nodes, _))| {
            nodes.iter().map(move |node| (node.name.clone(), index))
        });
        Self {
            fabric: peer(fabric),
            tic: leader(&[tic]),
            router: leader(&[router]),
            switch_agents: switch_agents.iter().copied().map(peer).collect(),
            homes: homes.collect(),
            hosts: hosts.iter().map(|(_, address)| peer(*address)).collect(),
        }
    }

    /// The same with several TICs and route services, of which one each is active.
    #[must_use]
    pub fn with_standbys(self, tics: &[SocketAddr], routers: &[SocketAddr]) -> Self {
        Self { tic: leader(tics), router: leader(routers), ..self }
    }

    /// Client of the emulated fabric.
    #[must_use]
    pub fn fabric(&self) -> FabricServiceClient<Channel> {
        FabricServiceClient::new(self.fabric.channel())
    }

    /// Client of the TIC that leads.
    #[must_use]
    pub fn tic(&self) -> TicServiceClient<LeaderChannel> {
        TicServiceClient::new(self.tic.channel())
    }

    /// Client of the recorded choices, which the TIC keeps for the route service.
    #[must_use]
    pub fn choices(&self) -> RouteChoiceServiceClient<LeaderChannel> {
        RouteChoiceServiceClient::new(self.tic.channel())
    }

    /// Client of the active route service.
    #[must_use]
    pub fn router(&self) -> RouteServiceClient<LeaderChannel> {
        RouteServiceClient::new(self.router.channel())
    }

    /// Clients of the switch agents.
    pub fn switch_agents(&self) -> impl Iterator<Item = SwitchAgentServiceClient<Channel>> {
        self.switch_agents.iter().map(|peer| SwitchAgentServiceClient::new(peer.channel()))
    }

    /// Clients of the operating agent processes.
    pub fn hosts(&self) -> impl Iterator<Item = OperatingAgentServiceClient<Channel>> {
        self.hosts.iter().map(|peer| OperatingAgentServiceClient::new(peer.channel()))
    }

    /// Client of the process that hosts a node.
    ///
    /// # Panics
    ///
    /// If no process does.
    #[must_use]
    pub fn home(&self, node: &str) -> OperatingAgentServiceClient<Channel> {
        OperatingAgentServiceClient::new(self.hosts[self.homes[node]].channel())
    }

    /// Client of the group agents at an address.
    ///
    /// # Panics
    ///
    /// If it is no address.
    #[must_use]
    pub fn group_agents(&self, address: &str) -> GroupAgentServiceClient<Channel> {
        GroupAgentServiceClient::new(Peer::new(address).expect("an address").channel())
    }

    /// Joins process `p0` of a node.
    ///
    /// # Errors
    ///
    /// The agent's refusal.
    pub async fn join(&self, group: &str, node: &str) -> Result<v1::Membership, Status> {
        self.join_as(group, node, "p0").await
    }

    /// Joins a process of a node.
    ///
    /// # Errors
    ///
    /// The agent's refusal.
    pub async fn join_as(
        &self,
        group: &str,
        node: &str,
        process: &str,
    ) -> Result<v1::Membership, Status> {
        self.join_with(v1::OperatingAgentServiceJoinGroupRequest {
            node: node.to_owned(),
            group: group.to_owned(),
            process: process.to_owned(),
            ..Default::default()
        })
        .await
    }

    /// Joins a group with a request of its own.
    ///
    /// # Errors
    ///
    /// The agent's refusal.
    pub async fn join_with(
        &self,
        mut request: v1::OperatingAgentServiceJoinGroupRequest,
    ) -> Result<v1::Membership, Status> {
        if request.request_id.is_empty() {
            request.request_id = request_id();
        }
        let answer = self.home(&request.node).join_group(request).await?.into_inner();
        Ok(answer.membership.expect("a join is answered with the membership"))
    }

    /// Joins process `p0` of several nodes to a group with a fixed MGID.
    ///
    /// # Panics
    ///
    /// If one is refused.
    pub async fn join_fixed(&self, group: &str, mgid: u32, nodes: &[&str]) {
        for node in nodes {
            let request = v1::OperatingAgentServiceJoinGroupRequest {
                node: (*node).to_owned(),
                group: group.to_owned(),
                process: "p0".to_owned(),
                mgid: Some(mgid),
                ..Default::default()
            };
            self.join_with(request).await.unwrap_or_else(|status| {
                panic!("{node} cannot join {group}: {}", named(&status));
            });
        }
    }

    /// Joins process `p0` of several nodes, one after the other.
    ///
    /// # Panics
    ///
    /// If one is refused.
    pub async fn join_all(&self, group: &str, nodes: &[&str]) {
        for node in nodes {
            self.join(group, node).await.unwrap_or_else(|status| {
                panic!("{node} cannot join {group}: {}", named(&status));
            });
        }
    }

    /// Leaves with process `p0` of a node.
    ///
    /// # Errors
    ///
    /// The agent's refusal.
    pub async fn leave(&self, group: &str, node: &str) -> Result<(), Status> {
        self.leave_as(group, node, "p0").await
    }

    /// Leaves with a process of a node.
    ///
    /// # Errors
    ///
    /// The agent's refusal.
    pub async fn leave_as(&self, group: &str, node: &str, process: &str) -> Result<(), Status> {
        let request = v1::OperatingAgentServiceLeaveGroupRequest {
            node: node.to_owned(),
            group: group.to_owned(),
            process: process.to_owned(),
            request_id: request_id(),
        };
        self.home(node).leave_group(request).await.map(|_| ())
    }

    /// Stops a node as a power failure does.
    ///
    /// # Panics
    ///
    /// If its process does not answer.
    pub async fn stop_node(&self, node: &str) {
        let request = v1::StopNodeRequest { node: node.to_owned() };
        self.home(node).stop_node(request).await.expect("the process answers");
    }

    /// Starts a stopped node and waits until it is up.
    ///
    /// # Panics
    ///
    /// If its process does not answer.
    pub async fn start_node(&self, node: &str) -> v1::Node {
        let request = v1::StartNodeRequest { node: node.to_owned() };
        self.home(node).start_node(request).await.expect("the process answers");
        eventually(&format!("{node} is up"), async || {
            let record = self.node(node).await?;
            let up = record.state() == v1::NodeState::Up;
            up.then_some(record).ok_or_else(|| "it is not".to_owned())
        })
        .await
    }

    /// The TIC's record of a node.
    ///
    /// # Errors
    ///
    /// A text with what is missing.
    pub async fn node(&self, name: &str) -> Result<v1::Node, String> {
        let nodes = self.nodes().await.map_err(|status| named(&status))?;
        nodes.into_iter().find(|node| node.name == name).ok_or_else(|| "no such node".to_owned())
    }

    /// All nodes as the TIC records them.
    ///
    /// # Errors
    ///
    /// The TIC's refusal.
    pub async fn nodes(&self) -> Result<Vec<v1::Node>, Status> {
        let request = v1::ListNodesRequest { page_size: 10_000, ..Default::default() };
        let nodes = self.tic().list_nodes(request).await?.into_inner().nodes;
        Ok(nodes.into_iter().map(|node| v1::Node { last_contact_time: None, ..node }).collect())
    }

    /// All groups with members, as the TIC records them, and its revision.
    ///
    /// # Errors
    ///
    /// The TIC's refusal.
    pub async fn records(&self) -> Result<(Vec<v1::Group>, u64), Status> {
        let request =
            v1::ListGroupsRequest { page_size: 10_000, with_members: true, ..Default::default() };
        let answer = self.tic().list_groups(request).await?.into_inner();
        Ok((answer.groups, answer.revision))
    }

    /// All groups with members.
    ///
    /// # Panics
    ///
    /// If the TIC does not answer.
    pub async fn groups(&self) -> Vec<v1::Group> {
        self.records().await.expect("the TIC answers").0
    }

    /// One group with members.
    ///
    /// # Panics
    ///
    /// If there is no such group.
    pub async fn group(&self, name: &str) -> v1::Group {
        let request = v1::GetGroupRequest { group: name.to_owned(), gn: 0, ..Default::default() };
        let answer = self.tic().get_group(request).await.expect("the group is there");
        answer.into_inner().group.expect("the answer has the group")
    }

    /// The TIC's revision.
    ///
    /// # Panics
    ///
    /// If the TIC does not answer.
    pub async fn revision(&self) -> u64 {
        self.records().await.expect("the TIC answers").1
    }

    /// Breaks a part of the fabric.
    ///
    /// # Panics
    ///
    /// If there is no such part.
    pub async fn fail(&self, kind: Kind) {
        let request = v1::FailElementRequest { element: Some(v1::Element { kind: Some(kind) }) };
        let answer = self.fabric().fail_element(request).await.expect("a part of the fabric");
        assert!(answer.into_inner().changed, "it was live");
    }

    /// Repairs a part of the fabric.
    ///
    /// # Panics
    ///
    /// If there is no such part.
    pub async fn heal(&self, kind: Kind) {
        let request = v1::HealElementRequest { element: Some(v1::Element { kind: Some(kind) }) };
        let answer = self.fabric().heal_element(request).await.expect("a part of the fabric");
        assert!(answer.into_inner().changed, "it was broken");
    }

    /// Status of the active route service; of a standby if none is active.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub async fn route_status(&self) -> Result<v1::GetRouteStatusResponse, String> {
        let mut last = Err("no route service".to_owned());
        for address in self.router.addresses() {
            let peer = Peer::new(address).expect("an address");
            let mut client = RouteServiceClient::new(peer.channel());
            let answer = client.get_route_status(v1::GetRouteStatusRequest {}).await;
            last = answer.map(tonic::Response::into_inner).map_err(|status| named(&status));
            if last.as_ref().is_ok_and(|status| status.active) {
                break;
            }
        }
        last
    }

    /// Explanation of the route of a group.
    ///
    /// # Errors
    ///
    /// If the route service does not know the group.
    pub async fn explain(&self, group: &str) -> Result<v1::RouteExplanation, String> {
        let request = v1::ExplainRouteRequest { group: group.to_owned() };
        let answer = self.router().explain_route(request).await;
        let answer = answer.map_err(|status| named(&status))?.into_inner();
        answer.explanation.ok_or_else(|| "no explanation".to_owned())
    }

    /// A link between switches that carries a group.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub async fn tree_link(&self, group: &str) -> Kind {
        let links = self.explain(group).await.expect("the group is known").links;
        let link = links.into_iter().find(|link| link.peer_port > 0).expect("over switches");
        Kind::Link(v1::PortName { switch_name: link.switch_name, port: link.port })
    }

    /// The tables of all live switches, read back through the switch agents.
    ///
    /// # Errors
    ///
    /// If an agent does not answer.
    pub async fn read_tables(&self) -> Result<Vec<v1::SwitchTable>, String> {
        let mut tables = Vec::new();
        for mut agent in self.switch_agents() {
            let answer = agent.read_tables(v1::ReadTablesRequest::default()).await;
            let mut stream = answer.map_err(|status| named(&status))?.into_inner();
            while let Some(part) = stream.message().await.map_err(|status| named(&status))? {
                tables.extend(part.table);
            }
        }
        tables.sort_by(|one, other| one.switch_name.cmp(&other.switch_name));
        Ok(tables)
    }

    /// The tables of all live switches.
    ///
    /// # Panics
    ///
    /// If an agent does not answer.
    pub async fn tables(&self) -> Vec<v1::SwitchTable> {
        self.read_tables().await.expect("the switch agents answer")
    }
}
