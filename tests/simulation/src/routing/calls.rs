//! What route services, TIC, switch agents and switches say to each other, as values; and the outside of a
//! route service that is made of them.

use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_router::Outside;
use fabricast_rpc::Backoff;
use fabricast_topology::SwitchId;
use tonic::Status;

use super::desk::Desk;

/// What a route service asks.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Acquire,
    Renew(v1::RenewRouteTermRequest),
    Release(u64),
    Watch,
    /// The next message of a watch, by its number; waits in its own process.
    Next(u64),
    ListChoices,
    Record,
    Report(v1::ReportRoutesRequest),
    ListSwitches(usize),
    ReadTables(usize, Vec<String>),
    WriteTables(usize, v1::WriteTablesRequest),
}

impl Ask {
    /// The switch agent that is asked; none if it is the TIC.
    pub(super) const fn agent(&self) -> Option<usize> {
        match self {
            Self::ListSwitches(agent)
            | Self::ReadTables(agent, _)
            | Self::WriteTables(agent, _) => Some(*agent),
            _ => None,
        }
    }
}

/// What it is answered.
#[derive(Clone, Debug)]
pub(super) enum Reply {
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

/// An answer, or why there is none.
pub(super) type Answer = Result<Reply, Status>;

/// What a switch agent does at one switch.
#[derive(Clone, Debug)]
pub(super) enum Touch {
    Write(SwitchId, v1::Fence, Vec<v1::TableEntry>),
    Read(SwitchId),
}

/// What comes of it; `None` if the switch has not been heard of.
#[derive(Clone, Debug)]
pub(super) enum Felt {
    Written(Option<Result<(), v1::SwitchRefusal>>),
    /// A switch that is down has no table.
    Table(Option<Option<v1::SwitchTable>>),
}

/// The world as a simulated route service sees it.
#[derive(Clone, Debug)]
pub(super) struct SimOutside {
    pub(super) desk: Desk<Ask, Answer>,
    pub(super) agents: usize,
}

/// Takes the answer of one kind; another one is a mistake of the simulation.
macro_rules! expect {
    ($answer:expr, $kind:pat => $value:expr) => {
        match $answer? {
            $kind => Ok($value),
            other => panic!("{other:?} answers something else"),
        }
    };
}

impl Outside for SimOutside {
    /// Its number.
    type Watch = u64;

    fn now(&self) -> Moment {
        self.desk.now()
    }

    fn sleep_until(&self, at: Moment) -> impl Future<Output = ()> + Send {
        self.desk.sleep_until(at)
    }

    /// Three quarters of the longest: the jitter is for crowds.
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
    ) -> Result<v1::AcquireRouteTermResponse, Status> {
        expect!(self.desk.call(Ask::Acquire).await, Reply::Acquired(term) => term)
    }

    async fn renew_term(
        &self,
        request: v1::RenewRouteTermRequest,
    ) -> Result<v1::RenewRouteTermResponse, Status> {
        expect!(self.desk.call(Ask::Renew(request)).await, Reply::Renewed(term) => term)
    }

    async fn release_term(&self, term: u64) -> Result<(), Status> {
        expect!(self.desk.call(Ask::Release(term)).await, Reply::Done => ())
    }

    async fn watch(&self) -> Result<u64, Status> {
        expect!(self.desk.call(Ask::Watch).await, Reply::Watching(number) => number)
    }

    async fn next_message(
        &self,
        watch: &mut u64,
    ) -> Result<Option<v1::WatchDirectoryResponse>, Status> {
        let next = self.desk.call(Ask::Next(*watch)).await;
        expect!(next, Reply::Message(message) => message.map(|message| *message))
    }

    async fn list_choices(
        &self,
        _page: v1::ListRouteChoicesRequest,
    ) -> Result<v1::ListRouteChoicesResponse, Status> {
        expect!(self.desk.call(Ask::ListChoices).await, Reply::Choices(page) => page)
    }

    async fn record_choices(
        &self,
        _messages: Vec<v1::RecordRouteChoicesRequest>,
    ) -> Result<(), Status> {
        expect!(self.desk.call(Ask::Record).await, Reply::Done => ())
    }

    async fn report_routes(&self, request: v1::ReportRoutesRequest) -> Result<(), Status> {
        expect!(self.desk.call(Ask::Report(request)).await, Reply::Done => ())
    }

    async fn list_switches(&self, agent: usize) -> Result<Vec<v1::Switch>, Status> {
        let listed = self.desk.call(Ask::ListSwitches(agent)).await;
        expect!(listed, Reply::Switches(switches) => switches)
    }

    async fn read_tables(
        &self,
        agent: usize,
        switch_names: Vec<String>,
        take: &mut (dyn FnMut(v1::SwitchTable) + Send),
    ) -> Result<(), Status> {
        let read = self.desk.call(Ask::ReadTables(agent, switch_names)).await;
        expect!(read, Reply::Tables(tables) => tables.into_iter().for_each(take))
    }

    async fn write_tables(
        &self,
        agent: usize,
        request: v1::WriteTablesRequest,
    ) -> Result<v1::WriteTablesResponse, Status> {
        let written = self.desk.call(Ask::WriteTables(agent, request)).await;
        expect!(written, Reply::Written(answer) => answer)
    }
}
