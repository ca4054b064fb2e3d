//! Finds the parts of a control plane from the address of any of them.
//!
//! TICs name the active route service, which names its switch agents, and have the address of each
//! node's operating agent. A context may name parts itself, such as where these addresses hold in
//! another network only.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Channel, LeaderChannel};
use tokio::time::timeout;

use super::Remote;
use crate::failure::Failure;

/// Most parts that are asked for others.
const MOST_ASKED: usize = 64;
/// Timeout of one question.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// A kind of part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Topology information centers.
    Tic,
    Router,
    SwitchAgent,
    OperatingAgent,
    /// The emulated fabric.
    Fabric,
}

impl Role {
    /// The name in the administration service.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tic => "tic",
            Self::Router => "router",
            Self::SwitchAgent => "switch-agent",
            Self::OperatingAgent => "operating-agent",
            Self::Fabric => "fabric",
        }
    }

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Tic => "TIC",
            Self::Router => "route service",
            Self::SwitchAgent => "switch agent",
            Self::OperatingAgent => "operating agent",
            Self::Fabric => "emulated fabric",
        }
    }
}

impl Remote {
    /// Asks the part at an address what it is.
    ///
    /// # Errors
    ///
    /// It does not answer, or the address cannot be parsed.
    pub(crate) async fn info(&self, address: &str) -> Result<v1::GetServerInfoResponse, Failure> {
        let server = self.elsewhere(address)?;
        let mut client = AdministrationServiceClient::new(server.peer().channel());
        let request = v1::GetServerInfoRequest {};
        match timeout(ASK_TIMEOUT, client.get_server_info(request)).await {
            Ok(answer) => {
                answer.map_err(|status| server.failed(status)).map(|one| one.into_inner())
            }
            Err(_) => Err(Failure::unreachable(format!("server {address}: no answer"))),
        }
    }

    /// Addresses of the parts of a kind: those of the context, or else those among the servers that
    /// were named, or else those that other parts name.
    ///
    /// # Errors
    ///
    /// None is known, or that of the first server which does not answer.
    pub(crate) async fn parts(&self, role: Role) -> Result<Vec<String>, Failure> {
        let named = match role {
            Role::Tic => &[],
            Role::Router => &self.context.router[..],
            Role::SwitchAgent => &self.context.switch_agent,
            Role::OperatingAgent => &self.context.operating_agent,
            Role::Fabric => &self.context.fabric,
        };
        if !named.is_empty() {
            return Ok(named.to_vec());
        }
        let (mut found, mut failed) = (Vec::new(), None);
        let mut open: VecDeque<v1::PeerAddress> = VecDeque::new();
        let mut asked: BTreeSet<String> = BTreeSet::new();
        for address in self.leader.addresses() {
            asked.insert(address.clone());
            match self.info(address).await {
                Ok(info) => {
                    if info.roles.iter().any(|one| one == role.name()) {
                        found.push(address.clone());
                    }
                    open.extend(named_by(info));
                }
                Err(failure) => drop(failed.get_or_insert(failure)),
            }
        }
        while let Some(v1::PeerAddress { role: kind, address }) = open.pop_front() {
            // The servers that were named are meant, if they are of the kind.
            let is_known = !found.is_empty() && self.leader.addresses().contains(&found[0]);
            if is_known || asked.len() > MOST_ASKED || !asked.insert(address.clone()) {
                continue;
            }
            if kind == role.name() {
                found.push(address);
            } else if kind != Role::OperatingAgent.name()
                && let Ok(info) = self.info(&address).await
            {
                open.extend(named_by(info));
            }
        }
        match failed {
            _ if !found.is_empty() => Ok(found),
            Some(failure) => Err(failure),
            None => Err(self.no_part(role)),
        }
    }

    fn no_part(&self, role: Role) -> Failure {
        let (servers, what) = (self.leader.addresses().join(","), role.in_words());
        let failure =
            Failure::input(format!("server {servers}: no {what} there, and none is named"));
        failure.hint(format!(
            "give its address with --server, or add it to a context (`fabricast context add \
             --{}`)",
            role.name()
        ))
    }

    /// Calls of the route services, of which one is active.
    ///
    /// # Errors
    ///
    /// No route service is known.
    pub(crate) async fn router(&self) -> Result<RouteServiceClient<LeaderChannel>, Failure> {
        let routers = self.elsewhere(&self.parts(Role::Router).await?.join(","))?;
        Ok(RouteServiceClient::new(routers.leader.channel()))
    }

    /// Calls of each switch agent, with its address.
    ///
    /// # Errors
    ///
    /// No switch agent is known.
    pub(crate) async fn switch_agents(
        &self,
    ) -> Result<Vec<(Self, SwitchAgentServiceClient<Channel>)>, Failure> {
        self.switch_agents_at(&self.parts(Role::SwitchAgent).await?)
    }

    /// Calls of the switch agents at some addresses.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed.
    pub(crate) fn switch_agents_at(
        &self,
        addresses: &[String],
    ) -> Result<Vec<(Self, SwitchAgentServiceClient<Channel>)>, Failure> {
        let agent = |address: &String| {
            let agent = self.elsewhere(address)?;
            let client = SwitchAgentServiceClient::new(agent.peer().channel());
            Ok((agent, client))
        };
        addresses.iter().map(agent).collect()
    }

    /// Calls of the emulated fabric.
    ///
    /// # Errors
    ///
    /// No fabric is known.
    pub(crate) async fn fabric(&self) -> Result<FabricServiceClient<Channel>, Failure> {
        let fabric = self.elsewhere(&self.parts(Role::Fabric).await?[0])?;
        Ok(FabricServiceClient::new(fabric.peer().channel()))
    }

    /// The server that hosts a node: the first of those named that has operating agents, or else
    /// the one of the context, or that of the node's record.
    ///
    /// # Errors
    ///
    /// An unknown node, or that of a failed call.
    pub(crate) async fn host_of(&self, node: &str) -> Result<Self, Failure> {
        for address in self.leader.addresses() {
            if let Ok(info) = self.info(address).await
                && info.roles.iter().any(|role| role == Role::OperatingAgent.name())
            {
                return self.elsewhere(address);
            }
        }
        if let [only] = &self.context.operating_agent[..] {
            return self.elsewhere(only);
        }
        let request = v1::GetNodeRequest { node: node.to_owned() };
        let node = self.answer(self.tic().get_node(request)).await?.node.unwrap_or_default();
        self.elsewhere(&node.address)
    }

    /// Calls of the operating agents of this server.
    #[must_use]
    pub(crate) fn agent(&self) -> OperatingAgentServiceClient<Channel> {
        OperatingAgentServiceClient::new(self.peer.channel())
    }
}

/// Parts that a part names.
fn named_by(info: v1::GetServerInfoResponse) -> Vec<v1::PeerAddress> {
    let v1::GetServerInfoResponse { roles, mut peers, leadership, .. } = info;
    if let (Some(leadership), [role]) = (leadership, &roles[..])
        && !leadership.address.is_empty()
    {
        peers.push(v1::PeerAddress { role: role.clone(), address: leadership.address });
    }
    peers
}
