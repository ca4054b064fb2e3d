//! Calls of the console to the control plane that only read.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_proto::v1::job_service_client::JobServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Leader, LeaderChannel, PeerError, RpcError, Security};
use tonic::Streaming;

/// Most servers that are asked who they are.
const MAX_SERVERS: usize = 64;
/// Most jobs that are listed.
const MAX_JOBS: u32 = 2_000;
/// Largest message of a switch agent or route service, in bytes.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// The control plane, as it is called.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    tics: Leader,
    routers: Leader,
    security: Security,
}

/// A server of the control plane, and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Its address, `host:port`.
    pub(crate) address: String,
    /// Its answer, or why there is none.
    pub(crate) info: Result<v1::GetServerInfoResponse, String>,
}

impl Server {
    /// True if a part of this role answers there.
    pub(crate) fn is(&self, role: &str) -> bool {
        self.info.as_ref().is_ok_and(|info| info.roles.iter().any(|own| own == role))
    }
}

impl Calls {
    /// Prepares calls to servers; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed.
    pub(crate) fn new(
        tics: &[String],
        routers: &[String],
        security: Security,
    ) -> Result<Self, PeerError> {
        Ok(Self { tics: security.leader(tics)?, routers: security.leader(routers)?, security })
    }

    fn tic(&self) -> TicServiceClient<LeaderChannel> {
        TicServiceClient::new(self.tics.channel())
    }

    fn router(&self) -> RouteServiceClient<LeaderChannel> {
        RouteServiceClient::new(self.routers.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    pub(crate) async fn watch(&self) -> Result<Streaming<v1::WatchDirectoryResponse>, RpcError> {
        Ok(self.tic().watch_directory(v1::WatchDirectoryRequest {}).await?.into_inner())
    }

    /// The topology, part by part.
    pub(crate) async fn topology(
        &self,
    ) -> Result<Streaming<v1::DownloadTopologyResponse>, RpcError> {
        Ok(self.tics.topology_parts().await?)
    }

    /// State of the active route service; that of a standby if no active one is known.
    pub(crate) async fn route_status(&self) -> Result<v1::GetRouteStatusResponse, RpcError> {
        let request = v1::GetRouteStatusRequest {};
        let mut found = None;
        let mut open = self.routers.addresses().to_vec();
        let mut asked = BTreeSet::new();
        while let Some(address) = open.pop() {
            if !asked.insert(address.clone()) || asked.len() > MAX_SERVERS {
                continue;
            }
            let Ok(peer) = self.security.peer(&address) else { continue };
            match RouteServiceClient::new(peer.channel()).get_route_status(request).await {
                Ok(answer) if answer.get_ref().active => return Ok(answer.into_inner()),
                Ok(answer) => {
                    let waits = answer.into_inner();
                    open.extend(Some(waits.active_address.clone()).filter(|one| !one.is_empty()));
                    found = Some(Ok(waits));
                }
                Err(status) if found.is_none() => found = Some(Err(status)),
                Err(_one_of_several) => {}
            }
        }
        Ok(found.expect("there is an address")?)
    }

    /// Plans the routes with other faults.
    pub(crate) async fn plan_faults(
        &self,
        request: v1::PlanFaultsRequest,
    ) -> Result<v1::PlanFaultsResponse, RpcError> {
        Ok(self.router().plan_faults(request).await?.into_inner())
    }

    /// Counts the groups of each link.
    pub(crate) async fn link_loads(&self) -> Result<v1::ListLinkLoadsResponse, RpcError> {
        Ok(self.router().list_link_loads(v1::ListLinkLoadsRequest {}).await?.into_inner())
    }

    /// The recording of the route service's latest inputs, in parts.
    pub(crate) async fn recording(
        &self,
    ) -> Result<Streaming<v1::DownloadRecordingResponse>, RpcError> {
        let request = v1::DownloadRecordingRequest { files: false };
        Ok(self.router().download_recording(request).await?.into_inner())
    }

    pub(crate) async fn drifts(&self) -> Result<v1::ListTableDriftsResponse, RpcError> {
        Ok(self.router().list_table_drifts(v1::ListTableDriftsRequest {}).await?.into_inner())
    }

    /// Asks the servers that were given, and those that they name, who they are.
    pub(crate) async fn servers(&self) -> Vec<Server> {
        let named = self.tics.addresses().iter().chain(self.routers.addresses());
        let mut open: Vec<String> = named.rev().cloned().collect();
        let mut asked = BTreeSet::new();
        let mut servers = Vec::new();
        while let Some(address) = open.pop() {
            if !asked.insert(address.clone()) || servers.len() >= MAX_SERVERS {
                continue;
            }
            let info = self.server_info(&address).await.map_err(|error| text(&error));
            if let Ok(info) = &info {
                open.extend(info.peers.iter().rev().map(|peer| peer.address.clone()));
            }
            servers.push(Server { address, info });
        }
        servers
    }

    fn administration(
        &self,
        address: &str,
    ) -> Result<AdministrationServiceClient<fabricast_rpc::Channel>, RpcError> {
        let peer = self.security.peer(address).map_err(|error| {
            RpcError::with_reason(tonic::Code::InvalidArgument, "", &error.to_string())
        })?;
        Ok(AdministrationServiceClient::new(peer.channel()))
    }

    async fn server_info(&self, address: &str) -> Result<v1::GetServerInfoResponse, RpcError> {
        let mut server = self.administration(address)?;
        Ok(server.get_server_info(v1::GetServerInfoRequest {}).await?.into_inner())
    }

    /// The metrics of a server's process, as text.
    pub(crate) async fn metrics(&self, address: &str) -> Result<String, RpcError> {
        let mut server = self.administration(address)?;
        Ok(server.get_metrics(v1::GetMetricsRequest {}).await?.into_inner().text)
    }

    /// The latest lines of the audit of a server's process.
    pub(crate) async fn audit(&self, address: &str) -> Result<Vec<v1::AuditLine>, RpcError> {
        let mut server = self.administration(address)?;
        Ok(server.list_audit(v1::ListAuditRequest {}).await?.into_inner().lines)
    }

    fn switch_agent(
        &self,
        address: &str,
    ) -> Option<SwitchAgentServiceClient<fabricast_rpc::Channel>> {
        let peer = self.security.peer(address).ok()?;
        Some(SwitchAgentServiceClient::new(peer.channel()).max_decoding_message_size(MESSAGE_LIMIT))
    }

    /// Lists the switches of several agents, each once.
    pub(crate) async fn switches(&self, agents: &[String]) -> Result<Vec<v1::Switch>, RpcError> {
        let mut switches = BTreeMap::new();
        for mut agent in agents.iter().filter_map(|address| self.switch_agent(address)) {
            let answer = agent.list_switches(v1::ListSwitchesRequest {}).await?.into_inner();
            switches.extend(answer.switches.into_iter().map(|one| (one.name.clone(), one)));
        }
        Ok(switches.into_values().collect())
    }

    /// Reads the tables of some switches from the agents that have them, each once.
    pub(crate) async fn tables(
        &self,
        agents: &[String],
        names: &[String],
    ) -> Result<Vec<v1::SwitchTable>, RpcError> {
        let mut tables: BTreeMap<String, v1::SwitchTable> = BTreeMap::new();
        let mut refused = None;
        for mut agent in agents.iter().filter_map(|address| self.switch_agent(address)) {
            let missing = names.iter().filter(|name| !tables.contains_key(*name));
            let request = v1::ReadTablesRequest { switch_names: missing.cloned().collect() };
            if request.switch_names.is_empty() {
                break;
            }
            match read_tables(&mut agent, request).await {
                Ok(read) => tables.extend(read.into_iter().map(|t| (t.switch_name.clone(), t))),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) if tables.is_empty() => Err(error),
            Some(_) | None => Ok(tables.into_values().collect()),
        }
    }

    /// Reads the port counters of some switches, each once.
    pub(crate) async fn counters(
        &self,
        agents: &[String],
        names: &[String],
    ) -> Result<Vec<v1::SwitchCounters>, RpcError> {
        let mut counters = BTreeMap::new();
        let take = |one: v1::SwitchCounters| {
            counters.insert(one.switch_name.clone(), one);
        };
        self.take_counters(agents, names, take).await?;
        Ok(counters.into_values().collect())
    }

    /// Reads the port counters of some switches, of all if none is named. A switch that several
    /// agents have comes several times.
    ///
    /// # Errors
    ///
    /// That of an agent if nothing was read from any.
    pub(crate) async fn take_counters(
        &self,
        agents: &[String],
        names: &[String],
        mut take: impl FnMut(v1::SwitchCounters),
    ) -> Result<(), RpcError> {
        let (mut is_empty, mut refused) = (true, None);
        for mut agent in agents.iter().filter_map(|address| self.switch_agent(address)) {
            let request = v1::ReadCountersRequest { switch_names: names.to_vec() };
            let read = read_counters(&mut agent, request, |one| {
                is_empty = false;
                take(one);
            });
            refused = read.await.err().or(refused);
        }
        refused.filter(|_| is_empty).map_or(Ok(()), Err)
    }

    /// Lists the ports of a switch.
    pub(crate) async fn ports(
        &self,
        agents: &[String],
        switch: &str,
    ) -> Result<Vec<v1::PortStatus>, RpcError> {
        let mut refused = None;
        for mut agent in agents.iter().filter_map(|address| self.switch_agent(address)) {
            let request = v1::ListPortsRequest { switch_name: switch.to_owned() };
            match agent.list_ports(request).await {
                Ok(answer) => return Ok(answer.into_inner().ports),
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(Vec::new()), |error| Err(error.into()))
    }

    /// Lists the groups with their members.
    pub(crate) async fn groups(&self) -> Result<Vec<v1::Group>, RpcError> {
        let (mut groups, mut page_token) = (Vec::new(), String::new());
        loop {
            let request =
                v1::ListGroupsRequest { page_token, with_members: true, ..Default::default() };
            let page = self.tic().list_groups(request).await?.into_inner();
            groups.extend(page.groups);
            page_token = page.next_page_token;
            if page_token.is_empty() || groups.len() > crate::capacity::MAX_GROUPS {
                return Ok(groups);
            }
        }
    }

    pub(crate) async fn group(&self, name: &str) -> Result<v1::Group, RpcError> {
        let request = v1::GetGroupRequest { group: name.to_owned(), ..Default::default() };
        Ok(self.tic().get_group(request).await?.into_inner().group.unwrap_or_default())
    }

    pub(crate) async fn route(&self, group: &str) -> Result<v1::RouteExplanation, RpcError> {
        let request = v1::ExplainRouteRequest { group: group.to_owned() };
        let answer = self.router().explain_route(request).await?.into_inner();
        Ok(answer.explanation.unwrap_or_default())
    }

    /// Lists the jobs; says whether there are more.
    pub(crate) async fn jobs(&self) -> Result<(Vec<v1::Job>, bool), RpcError> {
        let request = v1::ListJobsRequest { page_size: MAX_JOBS, page_token: String::new() };
        let mut tic = JobServiceClient::new(self.tics.channel());
        let answer = tic.list_jobs(request).await?.into_inner();
        Ok((answer.jobs, !answer.next_page_token.is_empty()))
    }

    pub(crate) async fn job(&self, name: &str) -> Result<v1::Job, RpcError> {
        let request = v1::GetJobRequest { job: name.to_owned() };
        let mut tic = JobServiceClient::new(self.tics.channel());
        Ok(tic.get_job(request).await?.into_inner().job.unwrap_or_default())
    }

    pub(crate) async fn job_report(&self) -> Result<v1::GetJobReportResponse, RpcError> {
        let mut tic = JobServiceClient::new(self.tics.channel());
        Ok(tic.get_job_report(v1::GetJobReportRequest { node_count: 0 }).await?.into_inner())
    }

    pub(crate) async fn entry_usage(&self) -> Result<v1::GetEntryUsageResponse, RpcError> {
        let mut tic = CollectiveServiceClient::new(self.tics.channel());
        Ok(tic.get_entry_usage(v1::GetEntryUsageRequest {}).await?.into_inner())
    }

    pub(crate) async fn node(&self, name: &str) -> Result<v1::GetNodeResponse, RpcError> {
        let request = v1::GetNodeRequest { node: name.to_owned() };
        Ok(self.tic().get_node(request).await?.into_inner())
    }
}

async fn read_tables(
    agent: &mut SwitchAgentServiceClient<fabricast_rpc::Channel>,
    request: v1::ReadTablesRequest,
) -> Result<Vec<v1::SwitchTable>, RpcError> {
    let mut stream = agent.read_tables(request).await?.into_inner();
    let mut tables = Vec::new();
    while let Some(part) = stream.message().await? {
        tables.extend(part.table);
    }
    Ok(tables)
}

async fn read_counters(
    agent: &mut SwitchAgentServiceClient<fabricast_rpc::Channel>,
    request: v1::ReadCountersRequest,
    mut take: impl FnMut(v1::SwitchCounters),
) -> Result<(), RpcError> {
    let mut stream = agent.read_counters(request).await?.into_inner();
    while let Some(part) = stream.message().await? {
        part.counters.into_iter().for_each(&mut take);
    }
    Ok(())
}

/// Error of a call, for people.
pub(crate) fn text(error: &RpcError) -> String {
    match error.message() {
        "" => format!("{:?}", error.code()),
        message => message.to_owned(),
    }
}
