//! What lies outside of the route service: the TIC, the switch agents, a clock and chance.
//!
//! Everything that the service decides follows from what comes in by [`Outside`]. With sockets it is
//! [`Grpc`](crate::grpc::Grpc); the simulation (`tests/simulation`) runs the same code with an outside of
//! its own, in which time is a number and calls are lost, late or answered twice.

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason};
use tonic::Status;

/// The world as a route service sees it; a clone is another handle of the same.
///
/// An error of a call says nothing of whether it was carried out, unless its reason does.
pub trait Outside: Clone + Debug + Send + Sync + 'static {
    /// An open watch of the TIC's records.
    type Watch: Send;

    /// Tells the time.
    fn now(&self) -> Moment;

    /// Waits until a moment, not at all if it has passed.
    fn sleep_until(&self, at: Moment) -> impl Future<Output = ()> + Send;

    /// Draws how long to wait before the next attempt.
    fn pause(&self, backoff: &mut Backoff) -> Duration;

    /// Names the TIC, for logs.
    fn tic(&self) -> String;

    /// Names the switch agents, for logs; calls mean them by their place in this list.
    fn agents(&self) -> Vec<String>;

    /// Asks the TIC for the next term.
    fn acquire_term(
        &self,
        request: v1::AcquireRouteTermRequest,
    ) -> impl Future<Output = Result<v1::AcquireRouteTermResponse, Status>> + Send;

    /// Renews a term.
    fn renew_term(
        &self,
        request: v1::RenewRouteTermRequest,
    ) -> impl Future<Output = Result<v1::RenewRouteTermResponse, Status>> + Send;

    /// Gives a term back.
    fn release_term(&self, term: u64) -> impl Future<Output = Result<(), Status>> + Send;

    /// Opens a watch of the TIC's records, which begins with a snapshot.
    fn watch(&self) -> impl Future<Output = Result<Self::Watch, Status>> + Send;

    /// Waits for the next message of a watch; none when it has ended.
    fn next_message(
        &self,
        watch: &mut Self::Watch,
    ) -> impl Future<Output = Result<Option<v1::WatchDirectoryResponse>, Status>> + Send;

    /// Reads a page of the recorded choices.
    fn list_choices(
        &self,
        request: v1::ListRouteChoicesRequest,
    ) -> impl Future<Output = Result<v1::ListRouteChoicesResponse, Status>> + Send;

    /// Makes choices durable, all messages as one report.
    fn record_choices(
        &self,
        messages: Vec<v1::RecordRouteChoicesRequest>,
    ) -> impl Future<Output = Result<(), Status>> + Send;

    /// Tells the TIC which routes are programmed.
    fn report_routes(
        &self,
        request: v1::ReportRoutesRequest,
    ) -> impl Future<Output = Result<(), Status>> + Send;

    /// Asks a switch agent for its switches.
    fn list_switches(
        &self,
        agent: usize,
    ) -> impl Future<Output = Result<Vec<v1::Switch>, Status>> + Send;

    /// Reads the tables of an agent's switches, one by one into `take`; of all if none is named.
    fn read_tables(
        &self,
        agent: usize,
        switch_names: Vec<String>,
        take: &mut (dyn FnMut(v1::SwitchTable) + Send),
    ) -> impl Future<Output = Result<(), Status>> + Send;

    /// Reads the port counters of all switches of an agent, one by one into `take`. An outside without counters
    /// need not say more.
    fn read_counters(
        &self,
        _agent: usize,
        _take: &mut (dyn FnMut(v1::SwitchCounters) + Send),
    ) -> impl Future<Output = Result<(), Status>> + Send {
        ready(Err(Reason::NoCounters.status("nothing is counted here", &[])))
    }

    /// Lets an agent write to its switches.
    fn write_tables(
        &self,
        agent: usize,
        request: v1::WriteTablesRequest,
    ) -> impl Future<Output = Result<v1::WriteTablesResponse, Status>> + Send;
}
