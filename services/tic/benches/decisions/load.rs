//! A caller of a TIC that plays all roles, and the fabric that it tells of.

use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_rpc::{Access, Reason, access_table};
use fabricast_topology::Graph;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use v1::collective_service_client::CollectiveServiceClient;
use v1::group_batch_service_client::GroupBatchServiceClient;
use v1::job_service_client::JobServiceClient;
use v1::route_choice_service_client::RouteChoiceServiceClient;
use v1::tic_service_client::TicServiceClient;
use v1::topology_service_client::TopologyServiceClient;

/// Bytes of the longest answer.
const LONGEST_ANSWER: usize = 64 << 20;
/// Longest time until the TIC takes a call.
const PATIENCE: Duration = Duration::from_secs(300);
/// Pause before a call is made again.
pub(super) const PAUSE: Duration = Duration::from_millis(5);
/// Services of a TIC.
const SERVICES: [&str; 6] = [
    "TicService",
    "TopologyService",
    "GroupBatchService",
    "RouteChoiceService",
    "JobService",
    "CollectiveService",
];
/// Beginnings of the names of their calls that change nothing.
const READING: [&str; 5] = ["Download", "Get", "List", "Plan", "Watch"];

/// Number of requests of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Groups of random nodes.
    pub(super) groups: usize,
    /// Joins in one call, and leaves.
    pub(super) joins: usize,
    /// Jobs that there are at a time.
    pub(super) jobs: usize,
    /// Collectives that there are at a time.
    pub(super) collectives: usize,
}

/// A caller that plays all roles.
pub(super) struct Load {
    pub(super) scale: Scale,
    pub(super) graph: Graph,
    /// Names of the endpoints; each has a node.
    pub(super) endpoints: Vec<String>,
    pub(super) tic: TicServiceClient<Channel>,
    pub(super) topologies: TopologyServiceClient<Channel>,
    pub(super) batches: GroupBatchServiceClient<Channel>,
    pub(super) choices: RouteChoiceServiceClient<Channel>,
    pub(super) jobs: JobServiceClient<Channel>,
    pub(super) collectives: CollectiveServiceClient<Channel>,
}

impl Load {
    pub(super) fn connect(address: &str, graph: Graph, scale: Scale) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let channel = endpoint.connect_lazy();
        let names = graph.endpoints().map(|endpoint| graph.endpoint_name(endpoint).to_owned());
        Self {
            scale,
            endpoints: names.collect(),
            graph,
            tic: TicServiceClient::new(channel.clone()),
            topologies: TopologyServiceClient::new(channel.clone()),
            batches: GroupBatchServiceClient::new(channel.clone())
                .max_decoding_message_size(LONGEST_ANSWER),
            choices: RouteChoiceServiceClient::new(channel.clone()),
            jobs: JobServiceClient::new(channel.clone()).max_decoding_message_size(LONGEST_ANSWER),
            collectives: CollectiveServiceClient::new(channel)
                .max_decoding_message_size(LONGEST_ANSWER),
        }
    }
}

/// Name of a node.
pub(super) fn node_name(node: usize) -> String {
    format!("n{node}")
}

/// True if a refused call is to be made again: another topology is taking effect, or the caller has
/// to wait for its share of the processors.
pub(super) fn comes_again(status: &Status) -> bool {
    status.code() == Code::Unavailable || Reason::RateLimited.is_of(status)
}

/// Makes a call until the TIC takes it, and returns its answer.
pub(super) async fn made<T>(mut call: impl AsyncFnMut() -> Result<Response<T>, Status>) -> T {
    let begun = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => {
                assert!(comes_again(&status) && begun.elapsed() < PATIENCE, "{status:?}");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// All calls of a TIC.
pub(super) fn calls() -> impl Iterator<Item = Access> {
    access_table().filter(|access| SERVICES.contains(&access.service))
}

/// Calls of a TIC that can change something, and that no TIC of this process has answered.
pub(super) fn calls_left_out() -> Vec<String> {
    let metrics = fabricast_telemetry::metrics::text();
    let changes =
        calls().filter(|access| !READING.iter().any(|verb| access.call.starts_with(verb)));
    let names = changes.map(|access| (access.service, access.call));
    let left_out = names.filter(|(service, call)| {
        let labels = format!("service=\"{service}\",call=\"{call}\",code=\"OK\"");
        !metrics.contains(&format!("fabricast_rpc_calls_total{{{labels}}}"))
    });
    left_out.map(|(service, call)| format!("{service}/{call}")).collect()
}
