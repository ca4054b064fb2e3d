//! Channels to other processes, made when first needed, and the typed clients over them.

use std::sync::Arc;
use std::time::Duration;

use fabricast_group::MESSAGE_LIMIT;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_proto::v1::fabric_aggregation_service_client::FabricAggregationServiceClient;
use fabricast_proto::v1::group_agent_service_client::GroupAgentServiceClient;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{
    Channel, Leader, LeaderChannel, Peer, PeerError, Peers, Reason, RpcError, Security,
};
use tonic::Response;

/// Makes clients; clones share the channels.
#[derive(Clone, Debug)]
pub(crate) struct Channels(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tic: Leader,
    /// The emulated fabric; `None` if endpoints are real adapters.
    fabric: Option<Peer>,
    peers: Peers,
}

impl Channels {
    pub(crate) fn new(security: Security, tic: Leader, fabric: Option<Peer>) -> Self {
        Self(Arc::new(Inner { tic, fabric, peers: Peers::new(security) }))
    }

    pub(crate) fn tic(&self) -> TicServiceClient<LeaderChannel> {
        TicServiceClient::new(self.0.tic.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    pub(crate) fn tic_batches(&self) -> GroupBatchServiceClient<LeaderChannel> {
        GroupBatchServiceClient::new(self.0.tic.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    pub(crate) fn collectives(&self) -> CollectiveServiceClient<LeaderChannel> {
        CollectiveServiceClient::new(self.0.tic.channel()).max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// The emulated fabric, if there is one.
    pub(crate) fn fabric(&self) -> Option<&Peer> {
        self.0.fabric.as_ref()
    }

    /// The aggregation engines of the emulated fabric, if there is one.
    pub(crate) fn aggregation(&self) -> Option<FabricAggregationServiceClient<Channel>> {
        Some(FabricAggregationServiceClient::new(self.fabric()?.channel()))
    }

    /// A client of the group agents at `host:port`.
    pub(crate) fn group_agents_at(
        &self,
        address: &str,
    ) -> Result<GroupAgentServiceClient<Channel>, PeerError> {
        let client = GroupAgentServiceClient::new(self.0.peers.get(address)?.channel());
        Ok(client.max_decoding_message_size(MESSAGE_LIMIT))
    }

    /// A client of the operating agents at `host:port`.
    pub(crate) fn operating_agents_at(
        &self,
        address: &str,
    ) -> Result<OperatingAgentServiceClient<Channel>, PeerError> {
        let client = OperatingAgentServiceClient::new(self.0.peers.get(address)?.channel());
        Ok(client.max_decoding_message_size(MESSAGE_LIMIT))
    }
}

/// Gives a call up after a deadline.
pub(crate) async fn within<T, E: Into<RpcError>>(
    deadline: Duration,
    call: impl Future<Output = Result<Response<T>, E>>,
) -> Result<T, RpcError> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer.map(Response::into_inner).map_err(Into::into),
        Err(_elapsed) => Err(unavailable(format!("no answer within {deadline:?}"))),
    }
}

/// The error of a call without a usable answer, which may succeed later.
pub(crate) fn unavailable(message: impl Into<String>) -> RpcError {
    Reason::PeerUnavailable.status(message, &[]).into()
}

/// The answers of a batch one by one. An error of the call is the answer to each request, and a
/// request that is not answered failed.
pub(crate) fn one_by_one<T>(
    answers: Result<Vec<Result<T, RpcError>>, RpcError>,
) -> impl Iterator<Item = Result<T, RpcError>> {
    let (answers, missing) = match answers {
        Ok(answers) => (answers, unavailable("no answer to this request of the batch")),
        Err(error) => (Vec::new(), error),
    };
    answers.into_iter().chain(std::iter::repeat_with(move || Err(missing.clone())))
}
