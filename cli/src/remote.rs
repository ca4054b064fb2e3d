//! Calls to a running control plane, one short-lived runtime per command.

mod parts;

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use anyhow::{Context, anyhow};
use fabricast_proto::v1;
use fabricast_proto::v1::collective_agent_service_client::CollectiveAgentServiceClient;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::job_service_client::JobServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_proto::v1::topology_service_client::TopologyServiceClient;
use fabricast_rpc::{
    CertificateFiles, Channel, Leader, LeaderChannel, Peer, PeerError, RpcError, Security,
};
use fabricast_topology::{EndpointNameError, Graph, ibnetdiscover, is_guid};
use tokio::runtime::Runtime;
use tonic::{Code, Response};

use crate::args::ServerArgs;
use crate::contexts::{self, Contexts};
use crate::failure::Failure;

pub(crate) use parts::Role;

/// Address where `fabricast up` serves unless told otherwise.
pub(crate) const DEFAULT_SERVER: &str = "127.0.0.1:7400";

/// Groups per page of a list.
const PAGE: u32 = 1000;

/// A running control plane.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// The server named first.
    peer: Peer,
    /// All servers named, of which one leads.
    leader: Leader,
    /// Credentials for connections to them.
    security: Security,
    /// Addresses of further parts.
    context: contexts::Context,
}

/// Runs one command's calls to their end.
///
/// # Errors
///
/// Those of the calls, or that no runtime could be started.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    run_to_end(&runtime, work)
}

/// Blocks until a future has ended.
///
/// The runtime sees one type of future for all commands, because tokio's scheduler is compiled
/// again for each type.
pub(crate) fn run_to_end<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    runtime.block_on(work)
}

/// Awaits a call and returns its answer.
pub(crate) async fn answer<T, E: Into<RpcError>>(
    call: impl Future<Output = Result<Response<T>, E>>,
) -> Result<T, RpcError> {
    call.await.map(Response::into_inner).map_err(Into::into)
}

/// Makes credentials from the certificates in a folder, or plain text without one; plain text to
/// other machines only if `plaintext` is set.
///
/// # Errors
///
/// Certificates that cannot be used.
pub(crate) fn security(folder: Option<&Path>, plaintext: bool) -> Result<Security, Failure> {
    let Some(folder) = folder else {
        return Ok(if plaintext { Security::plaintext() } else { Security::local() });
    };
    Security::mutual(CertificateFiles::in_folder(folder))
        .map_err(|error| Failure::input(format!("--certificates: {error}")))
}

impl Remote {
    /// Prepares calls to the server that the arguments name, or to that of a context.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed, certificates that cannot be used, or an unknown context.
    pub(crate) fn new(args: &ServerArgs) -> Result<Self, Failure> {
        let context = Self::context(args)?;
        let security = security(context.certificates.as_deref(), context.plaintext)?;
        Self::of_context(&context, security)
    }

    /// The addresses and certificates that the arguments mean.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed, or an unknown context.
    pub(crate) fn context(args: &ServerArgs) -> Result<contexts::Context, Failure> {
        let mut context = match (&args.context, &args.server) {
            (Some(name), _) => Contexts::read()?.named(name)?.clone(),
            (None, None) => Contexts::read()?.current()?.cloned().unwrap_or_default(),
            (None, Some(_)) => contexts::Context::default(),
        };
        if let Some(server) = &args.server {
            // Another control plane, reached in the same way.
            let contexts::Context { certificates, plaintext, .. } = context;
            let server = server.split(',').map(|one| one.trim().to_owned()).collect();
            context = contexts::Context { server, certificates, plaintext, ..Default::default() };
        } else if context.server.is_empty() {
            context.server = vec![DEFAULT_SERVER.to_owned()];
        }
        if args.certificates.is_some() || args.plaintext {
            (context.certificates, context.plaintext) = (args.certificates.clone(), args.plaintext);
        }
        check_addresses("server", &context.server)?;
        Ok(context)
    }

    /// Prepares calls to the parts of a context.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed.
    pub(crate) fn of_context(
        context: &contexts::Context,
        security: Security,
    ) -> Result<Self, Failure> {
        let contexts::Context { router, switch_agent, operating_agent, fabric, .. } = context;
        for (flag, addresses) in [
            ("router", router),
            ("switch-agent", switch_agent),
            ("operating-agent", operating_agent),
            ("fabric", fabric),
        ] {
            check_addresses(flag, addresses)?;
        }
        let remote = Self::secured(&context.server.join(","), security)?;
        Ok(Self { context: context.clone(), ..remote })
    }

    /// Prepares calls to other servers, as the same caller.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed.
    pub(crate) fn elsewhere(&self, servers: &str) -> Result<Self, Failure> {
        Self::secured(servers, self.security.clone())
    }

    /// Prepares calls to the server at `host:port`, or to several with commas in between.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed.
    pub(crate) fn secured(servers: &str, security: Security) -> Result<Self, Failure> {
        let addresses: Vec<String> = servers.split(',').map(|one| one.trim().to_owned()).collect();
        check_addresses("server", &addresses)?;
        let refused = |error: PeerError| match error {
            PeerError::Plaintext { .. } => Failure::input(format!("--server: {error}"))
                .hint("give --certificates, or --plaintext to accept that"),
            PeerError::Address { .. } => Failure::from(anyhow!(error).context("--server")),
        };
        let leader = security.leader(&addresses).map_err(refused)?;
        let peer = security.peer(&addresses[0]).map_err(refused)?;
        Ok(Self { peer, leader, security, context: contexts::Context::default() })
    }

    /// Addresses of all servers named.
    pub(crate) fn addresses(&self) -> &[String] {
        self.leader.addresses()
    }

    /// The server named first.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Calls of the topology information center.
    #[must_use]
    pub(crate) fn tic(&self) -> TicServiceClient<LeaderChannel> {
        TicServiceClient::new(self.leader.channel())
    }

    /// Calls that change the topology, which the topology information center answers.
    #[must_use]
    pub(crate) fn topologies(&self) -> TopologyServiceClient<LeaderChannel> {
        TopologyServiceClient::new(self.leader.channel())
    }

    /// Calls for many groups at once, which the topology information center answers.
    #[must_use]
    pub(crate) fn batches(&self) -> GroupBatchServiceClient<LeaderChannel> {
        GroupBatchServiceClient::new(self.leader.channel())
    }

    /// Calls about jobs, which the topology information center answers.
    #[must_use]
    pub(crate) fn jobs(&self) -> JobServiceClient<LeaderChannel> {
        JobServiceClient::new(self.leader.channel())
    }

    /// Calls about collectives, which the topology information center answers.
    #[must_use]
    pub(crate) fn collectives(&self) -> CollectiveServiceClient<LeaderChannel> {
        CollectiveServiceClient::new(self.leader.channel())
    }

    /// Calls that run collectives, which the operating agents of this server answer.
    #[must_use]
    pub(crate) fn collective_agent(&self) -> CollectiveAgentServiceClient<Channel> {
        CollectiveAgentServiceClient::new(self.peer.channel())
    }

    /// Asks whether the server named first serves a service, or anything if the name is empty.
    ///
    /// # Errors
    ///
    /// That of the call.
    pub(crate) async fn is_serving(&self, service: &str) -> Result<bool, Failure> {
        self.peer.is_serving(service).await.map_err(|status| self.failed(status))
    }

    /// Fetches the state of the active route service, even if only the address of another one was
    /// given; that of a standby if no active one is known.
    ///
    /// # Errors
    ///
    /// That of the last call, if no route service answers.
    pub(crate) async fn route_status(&self) -> Result<v1::GetRouteStatusResponse, Failure> {
        let mut found = None;
        let mut open = self.parts(Role::Router).await?;
        let mut asked = BTreeSet::new();
        while let Some(address) = open.pop() {
            if !asked.insert(address.clone()) {
                continue;
            }
            let peer = self.security.peer(&address).context("--server")?;
            let mut client = RouteServiceClient::new(peer.channel());
            match client.get_route_status(v1::GetRouteStatusRequest {}).await {
                Ok(answer) if answer.get_ref().active => return Ok(answer.into_inner()),
                Ok(answer) => {
                    let waits = answer.into_inner();
                    if !waits.active_address.is_empty() {
                        open.push(waits.active_address.clone());
                    }
                    found = Some(Ok(waits));
                }
                Err(status) if found.is_none() => found = Some(Err(status)),
                Err(_one_of_several) => {}
            }
        }
        found.expect("there is an address").map_err(|status| self.failed(status))
    }

    /// Awaits a call and returns its answer; a failure names the server and says what to do next.
    pub(crate) async fn answer<T, E: Into<RpcError>>(
        &self,
        call: impl Future<Output = Result<Response<T>, E>>,
    ) -> Result<T, Failure> {
        answer(call).await.map_err(|error| self.failed(error))
    }

    /// Turns the error of a call into a failure that says which server it came from, and what to do
    /// next.
    pub(crate) fn failed(&self, error: impl Into<RpcError>) -> Failure {
        let (address, error) = (self.peer.address(), error.into());
        let Some(reason) = error.reason_text() else { return self.unanswered(&error) };
        let list = match reason.as_str() {
            "UNKNOWN_GROUP" => "group list",
            "UNKNOWN_JOB" => "job list",
            "UNKNOWN_COLLECTIVE" => "collective list",
            "UNKNOWN_NODE" => "node list",
            "UNKNOWN_ENDPOINT" => "node list",
            "UNKNOWN_SWITCH" => "switch list",
            "UNKNOWN_ELEMENT" => "switch show SWITCH --ports",
            _ => "",
        };
        let failure = Failure::from(anyhow!(error).context(format!("server {address}")));
        match list {
            "" => failure,
            verb => failure.hint(format!("`fabricast {verb}` shows what there is")),
        }
    }

    /// Makes a failure from an error that no part of Fabricast has made.
    fn unanswered(&self, error: &RpcError) -> Failure {
        let address = self.peer.address();
        let mut cause: &dyn Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let why = match error.source() {
            Some(_) => cause.to_string(),
            None => error.message().to_owned(),
        };
        if let Some((what, hint)) = tls_mismatch(self.security.is_mutual(), &why) {
            return Failure::input(format!("server {address}: {what}: {why}")).hint(hint);
        }
        match error.code() {
            Code::Cancelled | Code::DeadlineExceeded => Failure::unreachable(format!(
                "server {address}: no answer in time, so it is not known whether it was done: {why}"
            ))
            .hint("it may be waiting for another part: `fabricast health` asks each whether it serves"),
            Code::Unavailable => {
                let what = format!("no control plane answers at {address}: {why}");
                Failure::unreachable(what).hint(
                    "`fabricast up` starts one; --server or FABRICAST_SERVER names another one",
                )
            }
            Code::Unimplemented => {
                Failure::input(format!("server {address}: it does not offer this call"))
                    .hint("give the address of the part that does, or that of `fabricast up`")
            }
            code if why.is_empty() => Failure::input(format!("server {address}: {code:?}")),
            _ => Failure::input(format!("server {address}: {why}")),
        }
    }

    /// Forms groups, and shows each answer as it comes.
    ///
    /// # Errors
    ///
    /// A refusal, or an end before all of them are formed.
    pub(crate) async fn form_groups(
        &self,
        messages: Vec<v1::FormGroupsRequest>,
        mut show: impl FnMut(&v1::FormGroupsResponse),
    ) -> Result<(), Failure> {
        let failed = |status| self.failed(status);
        let stream = self.batches().form_groups(tokio_stream::iter(messages)).await;
        let mut answers = stream.map_err(failed)?.into_inner();
        let (mut formed, mut all) = (0, 0);
        while let Some(answer) = answers.message().await.map_err(failed)? {
            (formed, all) = (answer.formed_count, answer.group_count);
            show(&answer);
        }
        if formed == all {
            Ok(())
        } else {
            Err(Failure::input(format!("the server ended after {formed} of {all} groups")))
        }
    }

    /// All groups, page by page.
    ///
    /// # Errors
    ///
    /// That of the failed call.
    pub(crate) async fn groups(&self, with_members: bool) -> Result<Vec<v1::Group>, Failure> {
        let mut groups = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListGroupsRequest {
                page_size: PAGE,
                page_token,
                with_members,
                allow_stale: false,
            };
            let page = self.answer(self.tic().list_groups(request)).await?;
            groups.extend(page.groups);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(groups);
            }
        }
    }

    /// The revision of the records: all changes that were answered before are part of it.
    ///
    /// # Errors
    ///
    /// That of the failed call.
    pub(crate) async fn revision(&self) -> Result<u64, Failure> {
        let request = v1::ListGroupsRequest { page_size: 1, ..Default::default() };
        Ok(self.answer(self.tic().list_groups(request)).await?.revision)
    }

    /// All nodes, page by page.
    ///
    /// # Errors
    ///
    /// That of the failed call.
    pub(crate) async fn nodes(&self) -> Result<Vec<v1::Node>, Failure> {
        Ok(self.node_list().await?.nodes)
    }

    /// All nodes, with what the TIC says about them together.
    ///
    /// # Errors
    ///
    /// That of the failed call.
    pub(crate) async fn node_list(&self) -> Result<v1::ListNodesResponse, Failure> {
        let mut nodes = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListNodesRequest { page_size: PAGE, page_token, allow_stale: false };
            let mut page = self.answer(self.tic().list_nodes(request)).await?;
            nodes.append(&mut page.nodes);
            if page.next_page_token.is_empty() {
                return Ok(v1::ListNodesResponse { nodes, ..page });
            }
            page_token = page.next_page_token;
        }
    }

    /// The topology that the TIC serves.
    ///
    /// # Errors
    ///
    /// That of the failed call, or that what came is no topology.
    pub(crate) async fn graph(&self) -> Result<Graph, Failure> {
        let text = self.topology().await?;
        Ok(ibnetdiscover::read(&text).context("topology of the TIC")?)
    }

    /// Returns the name that records have for an endpoint, given by any of its names; one that the
    /// topology lacks is left for the server to refuse.
    ///
    /// # Errors
    ///
    /// Several endpoints have the name, or that of the failed call.
    pub(crate) async fn endpoint_name(&self, text: &str) -> Result<String, Failure> {
        let graph = self.graph().await?;
        match graph.resolve_endpoint(text) {
            Ok(endpoint) => Ok(graph.endpoint_name(endpoint).to_owned()),
            Err(EndpointNameError::Unknown { .. }) => Ok(text.to_owned()),
            Err(error @ EndpointNameError::Ambiguous { .. }) => {
                Err(Failure::input(format!("endpoint: {error}")))
            }
        }
    }

    /// Returns the name of a node, given by its name or the GUID of one of its endpoints.
    ///
    /// # Errors
    ///
    /// A GUID that no endpoint or several endpoints have, or that of the failed call.
    pub(crate) async fn node_name(&self, text: String) -> Result<String, Failure> {
        if !is_guid(&text) {
            return Ok(text);
        }
        let nodes = self.nodes().await?;
        if nodes.iter().any(|node| node.name == text) {
            return Ok(text);
        }
        let graph = self.graph().await?;
        let found = graph.resolve_endpoint(&text);
        let endpoint = found.map_err(|error| Failure::input(format!("node: {error}")))?;
        let name = graph.endpoint_name(endpoint);
        let owner = nodes.into_iter().find(|node| node.endpoints.iter().any(|own| own == name));
        let alone = || Failure::input(format!("node: '{text}' is '{name}', which no node has"));
        Ok(owner.ok_or_else(alone)?.name)
    }

    /// Downloads the topology of the TIC as text.
    ///
    /// # Errors
    ///
    /// That of the failed call.
    pub(crate) async fn topology(&self) -> Result<String, Failure> {
        self.leader.download_topology().await.map_err(|status| self.failed(status))
    }
}

/// Reason why two ends cannot talk of which one uses TLS, or another authority, and what to do.
///
/// - `why`: innermost error of the connection.
fn tls_mismatch(is_mutual: bool, why: &str) -> Option<(&'static str, &'static str)> {
    let has = |part| why.contains(part);
    if !is_mutual {
        let ends = ["broken pipe", "reset by peer", "frame with invalid size", "connection closed"];
        let is_ended = ends.into_iter().any(has);
        return is_ended.then_some((
            "it ended the unencrypted connection",
            "if it uses TLS, give --certificates with the folder of your certificate",
        ));
    }
    if has("InvalidContentType") {
        Some(("it does not use TLS", "leave out --certificates; --plaintext allows other machines"))
    } else if has("invalid peer certificate") {
        Some((
            "its certificate is not accepted",
            "ca.crt in the folder of --certificates must be of the authority that signed it",
        ))
    } else if has("received fatal alert") {
        Some((
            "it refuses the certificate",
            "tls.crt in the folder of --certificates must be valid and of the cluster's authority",
        ))
    } else {
        None
    }
}

fn check_addresses(flag: &str, addresses: &[String]) -> Result<(), Failure> {
    match addresses.iter().find(|address| !is_address(address)) {
        Some(address) => {
            let failure = Failure::input(format!("--{flag}: '{address}' is not HOST:PORT"));
            Err(failure.hint(format!("give one such as {DEFAULT_SERVER}")))
        }
        None => Ok(()),
    }
}

/// True if a text has the form `host:port`.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let plain = |host: &str| {
        !host.is_empty()
            && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => plain(host),
    };
    host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tls_mismatch_is_told_from_other_failures() {
        let told = |is_mutual, why| tls_mismatch(is_mutual, why).map(|(what, _)| what);
        let ended = "stream closed because of a broken pipe";
        assert_eq!(told(false, ended), Some("it ended the unencrypted connection"));
        assert_eq!(told(true, ended), None);
        let no_tls = "received corrupt message of type InvalidContentType";
        assert_eq!(told(true, no_tls), Some("it does not use TLS"));
        assert!(told(true, "invalid peer certificate: BadSignature").is_some());
        assert!(told(true, "received fatal alert: CertificateRevoked").is_some());
        assert_eq!(told(false, "Connection refused (os error 111)"), None);
    }

    #[test]
    fn only_host_and_port_make_an_address() {
        for good in ["127.0.0.1:7400", "localhost:1", "[::1]:7400", "a-b.c_d:65535"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", ":", "a", "a:", ":1", "a:0", "a:65536", "::1:7400", "http://a:1", "a b:1"] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
