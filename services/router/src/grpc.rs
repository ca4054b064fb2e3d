//! The [`Environment`] of a real route service: gRPC, and the clock of the machine.

use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_proto::v1::route_choice_service_client::RouteChoiceServiceClient;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Backoff, Channel, Leader, LeaderChannel, Peer, Reason, RpcError};
use tokio::time::Instant;
use tonic::Streaming;

use crate::environment::Environment;

/// Channels to the TIC and the switch agents; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct GrpcEnvironment {
    pub(crate) tic: Leader,
    pub(crate) agents: Vec<Peer>,
    /// Moment 0 of the clock.
    start: Instant,
}

impl GrpcEnvironment {
    pub(crate) fn new(tic: Leader, agents: Vec<Peer>) -> Self {
        Self { tic, agents, start: Instant::now() }
    }

    fn client(&self) -> TicServiceClient<LeaderChannel> {
        TicServiceClient::new(self.tic.channel())
    }

    fn agent(&self, agent: usize) -> SwitchAgentServiceClient<Channel> {
        SwitchAgentServiceClient::new(self.agents[agent].channel())
    }
}

/// A watch stream, and the address of the TIC that leads when it was opened.
#[derive(Debug)]
pub(crate) struct GrpcWatch {
    leader: String,
    stream: Streaming<v1::WatchDirectoryResponse>,
}

impl Environment for GrpcEnvironment {
    type Watch = GrpcWatch;

    fn now(&self) -> Moment {
        Moment(0).after(self.start.elapsed())
    }

    async fn sleep_until(&self, at: Moment) {
        tokio::time::sleep(at.since(self.now())).await;
    }

    fn pause(&self, backoff: &mut Backoff) -> Duration {
        backoff.next_delay()
    }

    fn tic(&self) -> String {
        self.tic.address()
    }

    fn agents(&self) -> Vec<String> {
        self.agents.iter().map(|agent| agent.address().to_owned()).collect()
    }

    async fn acquire_term(
        &self,
        request: v1::AcquireRouteTermRequest,
    ) -> Result<v1::AcquireRouteTermResponse, RpcError> {
        Ok(self.client().acquire_route_term(request).await?.into_inner())
    }

    async fn renew_term(
        &self,
        request: v1::RenewRouteTermRequest,
    ) -> Result<v1::RenewRouteTermResponse, RpcError> {
        Ok(self.client().renew_route_term(request).await?.into_inner())
    }

    async fn release_term(&self, term: u64) -> Result<(), RpcError> {
        self.client().release_route_term(v1::ReleaseRouteTermRequest { term }).await?;
        Ok(())
    }

    async fn watch(&self) -> Result<GrpcWatch, RpcError> {
        let leader = self.tic.address();
        let stream = self.client().watch_directory(v1::WatchDirectoryRequest {}).await?;
        Ok(GrpcWatch { leader, stream: stream.into_inner() })
    }

    async fn next_message(
        &self,
        watch: &mut GrpcWatch,
    ) -> Result<Option<v1::WatchDirectoryResponse>, RpcError> {
        tokio::select! {
            message = watch.stream.message() => Ok(message?),
            // A frozen leader's stream stays open, but misses the changes of the new leader.
            () = self.tic.left(&watch.leader) => {
                Err(Reason::NotLeader.status("another TIC leads", &[]).into())
            }
        }
    }

    async fn list_choices(
        &self,
        request: v1::ListRouteChoicesRequest,
    ) -> Result<v1::ListRouteChoicesResponse, RpcError> {
        let mut client = RouteChoiceServiceClient::new(self.tic.channel());
        Ok(client.list_route_choices(request).await?.into_inner())
    }

    async fn record_choices(
        &self,
        messages: Vec<v1::RecordRouteChoicesRequest>,
    ) -> Result<(), RpcError> {
        let mut client = RouteChoiceServiceClient::new(self.tic.channel());
        client.record_route_choices(tokio_stream::iter(messages)).await?;
        Ok(())
    }

    async fn report_routes(&self, request: v1::ReportRoutesRequest) -> Result<(), RpcError> {
        self.client().report_routes(request).await?;
        Ok(())
    }

    async fn list_switches(&self, agent: usize) -> Result<Vec<v1::Switch>, RpcError> {
        let listed = self.agent(agent).list_switches(v1::ListSwitchesRequest {}).await?;
        Ok(listed.into_inner().switches)
    }

    async fn read_tables(
        &self,
        agent: usize,
        switch_names: Vec<String>,
        take: &mut (dyn FnMut(v1::SwitchTable) + Send),
    ) -> Result<(), RpcError> {
        let request = v1::ReadTablesRequest { switch_names };
        let mut tables = self.agent(agent).read_tables(request).await?.into_inner();
        while let Some(part) = tables.message().await? {
            take(part.table.unwrap_or_default());
        }
        Ok(())
    }

    async fn read_counters(
        &self,
        agent: usize,
        take: &mut (dyn FnMut(v1::SwitchCounters) + Send),
    ) -> Result<(), RpcError> {
        let all = v1::ReadCountersRequest { switch_names: Vec::new() };
        let mut counters = self.agent(agent).read_counters(all).await?.into_inner();
        while let Some(part) = counters.message().await? {
            take(part.counters.unwrap_or_default());
        }
        Ok(())
    }

    async fn write_tables(
        &self,
        agent: usize,
        request: v1::WriteTablesRequest,
    ) -> Result<v1::WriteTablesResponse, RpcError> {
        Ok(self.agent(agent).write_tables(request).await?.into_inner())
    }
}
