//! The environment of a route service: TIC, switch agents, clock and random delays.
//!
//! All that the service decides follows from its input through [`Environment`].
//! [`GrpcEnvironment`](crate::grpc::GrpcEnvironment) implements it with sockets. The simulation
//! (`tests/simulation`) runs the same code in an environment of its own, where time is a number
//! and calls are lost, late or answered twice.

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason, RpcError};

/// Calls of a route service to the rest of the system; clones share connections and clock.
///
/// A call that failed may have been carried out, unless the reason of the error rules it out.
pub trait Environment: Clone + Debug + Send + Sync + 'static {
    /// An open watch of the TIC's records.
    type Watch: Send;

    /// Current time of the environment, from an arbitrary start.
    fn now(&self) -> Moment;

    /// Sleeps until a moment; returns at once if it has passed.
    fn sleep_until(&self, at: Moment) -> impl Future<Output = ()> + Send;

    /// Delay before the next attempt, with jitter.
    fn pause(&self, backoff: &mut Backoff) -> Duration;

    /// Name of the TIC, for logs.
    fn tic(&self) -> String;

    /// Names of the switch agents, for logs. Calls name an agent by its index in this list.
    fn agents(&self) -> Vec<String>;

    /// Requests the next term from the TIC.
    fn acquire_term(
        &self,
        request: v1::AcquireRouteTermRequest,
    ) -> impl Future<Output = Result<v1::AcquireRouteTermResponse, RpcError>> + Send;

    /// Extends the lease of a term.
    fn renew_term(
        &self,
        request: v1::RenewRouteTermRequest,
    ) -> impl Future<Output = Result<v1::RenewRouteTermResponse, RpcError>> + Send;

    /// Gives a term back before its lease ends.
    fn release_term(&self, term: u64) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// Opens a watch of the TIC's records, which starts with a snapshot.
    fn watch(&self) -> impl Future<Output = Result<Self::Watch, RpcError>> + Send;

    /// Waits for the next message of a watch; `None` when the stream has ended.
    fn next_message(
        &self,
        watch: &mut Self::Watch,
    ) -> impl Future<Output = Result<Option<v1::WatchDirectoryResponse>, RpcError>> + Send;

    /// Reads one page of the recorded choices.
    fn list_choices(
        &self,
        request: v1::ListRouteChoicesRequest,
    ) -> impl Future<Output = Result<v1::ListRouteChoicesResponse, RpcError>> + Send;

    /// Makes choices durable at the TIC; all messages are one report.
    fn record_choices(
        &self,
        messages: Vec<v1::RecordRouteChoicesRequest>,
    ) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// Reports to the TIC which routes are programmed.
    fn report_routes(
        &self,
        request: v1::ReportRoutesRequest,
    ) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// Lists the switches of a switch agent.
    fn list_switches(
        &self,
        agent: usize,
    ) -> impl Future<Output = Result<Vec<v1::Switch>, RpcError>> + Send;

    /// Reads the tables of an agent's switches, of all if none is named. Calls `take` for each
    /// table.
    fn read_tables(
        &self,
        agent: usize,
        switch_names: Vec<String>,
        take: &mut (dyn FnMut(v1::SwitchTable) + Send),
    ) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// Reads the port counters of all switches of an agent. Calls `take` for each switch. The
    /// default is an environment without counters.
    fn read_counters(
        &self,
        _agent: usize,
        _take: &mut (dyn FnMut(v1::SwitchCounters) + Send),
    ) -> impl Future<Output = Result<(), RpcError>> + Send {
        let error = Reason::NoCounters.status("the environment has no port counters", &[]);
        ready(Err(error.into()))
    }

    /// Writes to the switches of an agent.
    fn write_tables(
        &self,
        agent: usize,
        request: v1::WriteTablesRequest,
    ) -> impl Future<Output = Result<v1::WriteTablesResponse, RpcError>> + Send;
}
