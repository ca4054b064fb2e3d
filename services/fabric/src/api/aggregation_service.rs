//! `FabricAggregationService`: entries of the aggregation engines, and operations on them.

use std::sync::Arc;
use std::time::Duration;

use fabricast_emulator::{Contribution, ContributionError, Failure, Fence};
use fabricast_proto::v1;
use fabricast_proto::v1::fabric_aggregation_service_server::FabricAggregationService;
use fabricast_rpc::{Caller, Reason};
use fabricast_topology::{AggregationNode, Graph};
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::aggregation;
use crate::fabric::{Fabric, NotAParticipant};
use crate::key::ManagementKey;
use crate::wire::Refusal;

/// Timeout of an operation if the request has none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest timeout: the deadline of the call is 10 s, and the reason must arrive before it.
const MAX_TIMEOUT: Duration = Duration::from_secs(9);

/// The service, and what its calls need.
#[derive(Clone, Debug)]
pub(crate) struct AggregationService {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) key: ManagementKey,
    /// Cancelled when waiting calls must end.
    pub(crate) stop: CancellationToken,
}

#[tonic::async_trait]
impl FabricAggregationService for AggregationService {
    type ReadFabricAggregationStream = BoxStream<v1::ReadFabricAggregationResponse>;

    async fn read_fabric_aggregation(
        &self,
        request: Request<v1::ReadFabricAggregationRequest>,
    ) -> Result<Response<Self::ReadFabricAggregationStream>, Status> {
        let request = request.into_inner();
        self.key.check(&request.management_key)?;
        let tables = aggregation::read(&self.fabric, &request.switch_names)?;
        let answers = tables
            .into_iter()
            .map(|table| Ok(v1::ReadFabricAggregationResponse { table: Some(table) }));
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }

    async fn write_fabric_aggregation(
        &self,
        request: Request<v1::WriteFabricAggregationRequest>,
    ) -> Result<Response<v1::WriteFabricAggregationResponse>, Status> {
        let request = request.into_inner();
        self.key.check(&request.management_key)?;
        let v1::Fence { term, generation } =
            request.fence.ok_or(Refusal::Missing { field: "fence" })?;
        let written = aggregation::write(&self.fabric, Fence { term, generation }, request.writes);
        Ok(Response::new(v1::WriteFabricAggregationResponse { refusals: written? }))
    }

    async fn contribute_values(
        &self,
        request: Request<v1::ContributeValuesRequest>,
    ) -> Result<Response<v1::ContributeValuesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let timeout = timeout(request.timeout)?;
        let (tree, sequence) = (request.tree, request.sequence);
        let graph = &self.fabric.graph;
        let contribution = aggregation::read_contribution(graph, request)?;
        let mut result = {
            let mut core = self.fabric.core();
            let checked = core.check_participant(&contribution, &caller);
            checked.map_err(|error| no_participant(graph, &contribution, &caller, error))?;
            core.contribute(contribution).map_err(|error| not_sent(graph, error))?
        };
        let running = RunningOperation { fabric: &self.fabric, tree, sequence };
        let ended = tokio::select! {
            ended = &mut result => ended,
            () = self.stop.cancelled() => {
                return Err(Reason::ShuttingDown.status("the fabric is stopping", &[]));
            }
            () = tokio::time::sleep(timeout) => {
                drop(running);
                result.await
            }
        };
        match ended {
            Ok(Ok(values)) => {
                let values = values.map(aggregation::values_to_wire);
                Ok(Response::new(v1::ContributeValuesResponse { values }))
            }
            Ok(Err(failure)) => Err(operation_failed(graph, failure)),
            Err(_gone) => Err(Reason::ShuttingDown.status("the fabric is stopping", &[])),
        }
    }
}

/// An operation that a process waits for. When the process goes away, the operation ends with an
/// error for all processes: they would wait for its next contribution for ever.
struct RunningOperation<'a> {
    fabric: &'a Fabric,
    tree: u32,
    sequence: u64,
}

impl Drop for RunningOperation<'_> {
    fn drop(&mut self) {
        self.fabric.core().abandon(self.tree, self.sequence);
    }
}

fn timeout(timeout: Option<prost_types::Duration>) -> Result<Duration, Status> {
    let Some(timeout) = timeout else { return Ok(DEFAULT_TIMEOUT) };
    // Read field by field, because the conversion of prost-types panics on some numbers.
    let seconds = u64::try_from(timeout.seconds).ok();
    let nanos = u32::try_from(timeout.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let timeout = seconds.zip(nanos).map(|(seconds, nanos)| Duration::new(seconds, nanos));
    match timeout {
        Some(timeout) if !timeout.is_zero() && timeout <= MAX_TIMEOUT => Ok(timeout),
        _ => {
            let text = "timeout: must be more than 0 and at most 9 s";
            Err(Reason::ContributionInvalid.status(text, &[("field", "timeout")]))
        }
    }
}

/// Status of a contribution that is kept from its run.
fn no_participant(
    graph: &Graph,
    contribution: &Contribution,
    caller: &Caller,
    error: NotAParticipant,
) -> Status {
    let Contribution { tree, process, endpoint, to, .. } = *contribution;
    let endpoint = graph.endpoint_name(endpoint);
    let why = match error {
        NotAParticipant::OfAnother => {
            format!("process.endpoint: another has attached '{endpoint}', not {caller}")
        }
        NotAParticipant::NotAttached => {
            let text = format!("process.endpoint: nobody has attached '{endpoint}'");
            return Reason::CollectiveFailed.status(text, &[]);
        }
        NotAParticipant::NotNamed => {
            format!("process: tree {tree} has no process {process} at '{endpoint}'")
        }
        // As when a tree was given up a moment ago.
        NotAParticipant::NoEntry => return operation_failed(graph, Failure::NoEntry { node: to }),
    };
    Reason::NotPermitted.status(why, &[("endpoint", endpoint)])
}

/// Status of a contribution that was not sent.
fn not_sent(graph: &Graph, error: ContributionError) -> Status {
    let invalid = |text: String| Reason::ContributionInvalid.status(text, &[]);
    match error {
        ContributionError::Unknown
        | ContributionError::Twice
        | ContributionError::Disagreement
        | ContributionError::Values => invalid(error.to_string()),
        ContributionError::Busy => Reason::LimitReached.status(error.to_string(), &[]),
        ContributionError::Ended | ContributionError::CutOff => {
            Reason::CollectiveFailed.status(error.to_string(), &[])
        }
        ContributionError::Failed(failure) => operation_failed(graph, failure),
    }
}

/// Status of an operation that failed, with the names of nodes.
fn operation_failed(graph: &Graph, failure: Failure) -> Status {
    let name = |node: AggregationNode| match node {
        AggregationNode::Switch(switch) => format!("switch {}", graph.switch_name(switch)),
        AggregationNode::Process { endpoint, .. } => {
            format!("adapter {}", graph.endpoint_name(endpoint))
        }
    };
    let text = match failure {
        Failure::NodeFailed { node } => format!("{} failed", name(node)),
        Failure::NoRoute { to } => format!("no route to {}", name(to)),
        Failure::NoEntry { node } => format!("{} has no entry for the tree", name(node)),
        Failure::Unexpected { node } => format!("{} got an unexpected packet", name(node)),
        Failure::EntryRemoved
        | Failure::Disagreement
        | Failure::Incomplete { .. }
        | Failure::Stuck
        | Failure::Abandoned
        | Failure::NotReached => failure.to_string(),
    };
    Reason::CollectiveFailed.status(text, &[])
}
