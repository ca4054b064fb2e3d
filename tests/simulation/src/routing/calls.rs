//! Calls and answers between route services, TIC, switch agents and switches, and the simulated
//! environment of a route service.

use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_router::Environment;
use fabricast_rpc::{Backoff, RpcError};
use fabricast_topology::SwitchId;
use tonic::Status;

use super::executor::ManualExecutor;

/// A call of a route service.
#[derive(Clone, Debug)]
pub(super) enum RouterRequest {
    Acquire,
    Renew(v1::RenewRouteTermRequest),
    Release(u64),
    Watch,
    /// Waits for the next message of a watch, by its number; served inside the caller's process.
    Next(u64),
    ListChoices,
    Record,
    Report(v1::ReportRoutesRequest),
    ListSwitches(usize),
    ReadTables(usize, Vec<String>),
    WriteTables(usize, v1::WriteTablesRequest),
}

impl RouterRequest {
    /// Returns the switch agent that the call is for; `None` for the TIC.
    pub(super) const fn agent(&self) -> Option<usize> {
        match self {
            Self::ListSwitches(agent)
            | Self::ReadTables(agent, _)
            | Self::WriteTables(agent, _) => Some(*agent),
            _ => None,
        }
    }
}

/// Answer to a call.
#[derive(Clone, Debug)]
pub(super) enum RouterReply {
    Acquired(v1::AcquireRouteTermResponse),
    Renewed(v1::RenewRouteTermResponse),
    Done,
    Watching(u64),
    Message(Option<Box<v1::WatchDirectoryResponse>>),
    Choices(v1::ListRouteChoicesResponse),
    Switches(Vec<v1::Switch>),
    Tables(Vec<v1::SwitchTable>),
    Written(v1::WriteTablesResponse),
}

/// Answer to a call, or its failure.
pub(super) type RouterResult = Result<RouterReply, Status>;

/// Request of a switch agent to one switch.
#[derive(Clone, Debug)]
pub(super) enum SwitchRequest {
    Write(SwitchId, v1::Fence, Vec<v1::TableEntry>),
    Read(SwitchId),
}

/// Reply of a switch; `None` if the switch did not answer.
#[derive(Clone, Debug)]
pub(super) enum SwitchReply {
    Written(Option<Result<(), v1::SwitchRefusal>>),
    /// The inner `None`: the switch is down and has no table.
    Table(Option<Option<v1::SwitchTable>>),
}

/// Environment of a simulated route service.
#[derive(Clone, Debug)]
pub(super) struct SimEnvironment {
    pub(super) executor: ManualExecutor<RouterRequest, RouterResult>,
    pub(super) agents: usize,
}

/// Unwraps an answer of the expected kind; any other is a bug of the simulation.
macro_rules! expect {
    ($answer:expr, $kind:pat => $value:expr) => {
        match $answer? {
            $kind => Ok($value),
            other => panic!("{other:?} answers something else"),
        }
    };
}

impl Environment for SimEnvironment {
    /// Number of the watch.
    type Watch = u64;

    fn now(&self) -> Moment {
        self.executor.now()
    }

    fn sleep_until(&self, at: Moment) -> impl Future<Output = ()> + Send {
        self.executor.sleep_until(at)
    }

    /// Three quarters of the backoff: no jitter is needed, as runs must be deterministic.
    fn pause(&self, backoff: &mut Backoff) -> Duration {
        let delay = backoff.first;
        backoff.first = (delay * 2).min(backoff.most);
        delay * 3 / 4
    }

    fn tic(&self) -> String {
        "TIC".to_owned()
    }

    fn agents(&self) -> Vec<String> {
        (0..self.agents).map(|at| format!("agent {at}")).collect()
    }

    async fn acquire_term(
        &self,
        _router: v1::AcquireRouteTermRequest,
    ) -> Result<v1::AcquireRouteTermResponse, RpcError> {
        expect!(self.executor.call(RouterRequest::Acquire).await, RouterReply::Acquired(term) => term)
    }

    async fn renew_term(
        &self,
        request: v1::RenewRouteTermRequest,
    ) -> Result<v1::RenewRouteTermResponse, RpcError> {
        expect!(self.executor.call(RouterRequest::Renew(request)).await, RouterReply::Renewed(term) => term)
    }

    async fn release_term(&self, term: u64) -> Result<(), RpcError> {
        expect!(self.executor.call(RouterRequest::Release(term)).await, RouterReply::Done => ())
    }

    async fn watch(&self) -> Result<u64, RpcError> {
        expect!(self.executor.call(RouterRequest::Watch).await, RouterReply::Watching(number) => number)
    }

    async fn next_message(
        &self,
        watch: &mut u64,
    ) -> Result<Option<v1::WatchDirectoryResponse>, RpcError> {
        let next = self.executor.call(RouterRequest::Next(*watch)).await;
        expect!(next, RouterReply::Message(message) => message.map(|message| *message))
    }

    async fn list_choices(
        &self,
        _page: v1::ListRouteChoicesRequest,
    ) -> Result<v1::ListRouteChoicesResponse, RpcError> {
        expect!(self.executor.call(RouterRequest::ListChoices).await, RouterReply::Choices(page) => page)
    }

    async fn record_choices(
        &self,
        _messages: Vec<v1::RecordRouteChoicesRequest>,
    ) -> Result<(), RpcError> {
        expect!(self.executor.call(RouterRequest::Record).await, RouterReply::Done => ())
    }

    async fn report_routes(&self, request: v1::ReportRoutesRequest) -> Result<(), RpcError> {
        expect!(self.executor.call(RouterRequest::Report(request)).await, RouterReply::Done => ())
    }

    async fn list_switches(&self, agent: usize) -> Result<Vec<v1::Switch>, RpcError> {
        let listed = self.executor.call(RouterRequest::ListSwitches(agent)).await;
        expect!(listed, RouterReply::Switches(switches) => switches)
    }

    async fn read_tables(
        &self,
        agent: usize,
        switch_names: Vec<String>,
        take: &mut (dyn FnMut(v1::SwitchTable) + Send),
    ) -> Result<(), RpcError> {
        let read = self.executor.call(RouterRequest::ReadTables(agent, switch_names)).await;
        expect!(read, RouterReply::Tables(tables) => tables.into_iter().for_each(take))
    }

    async fn write_tables(
        &self,
        agent: usize,
        request: v1::WriteTablesRequest,
    ) -> Result<v1::WriteTablesResponse, RpcError> {
        let written = self.executor.call(RouterRequest::WriteTables(agent, request)).await;
        expect!(written, RouterReply::Written(answer) => answer)
    }
}
