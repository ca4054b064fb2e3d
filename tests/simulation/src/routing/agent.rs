//! A simulated switch agent: the code of `agents/switch` over a driver whose hardware is part of
//! the simulation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_server::SwitchAgentService;
use fabricast_switch::{Driver, DriverError, DriverStream, SwitchAgent, Written};
use fabricast_topology::{Graph, SwitchId, TableKind};
use tokio_stream::StreamExt;
use tonic::Request;

use super::calls::{RouterReply, RouterRequest, RouterResult, SwitchReply, SwitchRequest};
use super::executor::{BoxFuture, ManualExecutor};
use crate::invariants::g4_routes::Terms;

/// The call that an answer belongs to; an answer to a killed caller is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// Index of the route service or switch agent that waits.
    pub(super) at: usize,
    /// Incarnation that made the call.
    pub(super) incarnation: u64,
    pub(super) call: u64,
}

/// The switches of one agent, as its driver knows them.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) graph: Arc<Graph>,
    pub(super) switches: Vec<SwitchId>,
    pub(super) tables: TableKind,
    pub(super) colors: u16,
}

/// One incarnation of an agent, with the calls that it serves.
#[derive(Debug)]
pub(super) struct SimAgent {
    pub(super) incarnation: u64,
    agent: SwitchAgent,
    pub(super) executor: ManualExecutor<SwitchRequest, SwitchReply>,
    tasks: BTreeMap<u64, Task>,
    started: u64,
}

struct Task {
    caller: Caller,
    future: BoxFuture<RouterResult>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl SimAgent {
    pub(super) fn new(now: Moment, incarnation: u64, shard: &Shard) -> Self {
        let executor = ManualExecutor::new(now);
        let terms = Terms::default();
        let driver = SimDriver { executor: executor.clone(), shard: shard.clone(), terms };
        let only = shard.switches.iter().map(|at| shard.graph.switch_name(*at).to_owned());
        let agent = SwitchAgent::new(Arc::new(driver), only.collect());
        Self { incarnation, agent, executor, tasks: BTreeMap::new(), started: 0 }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Starts to serve a call of a route service.
    pub(super) fn serve(&mut self, caller: Caller, request: RouterRequest) {
        let agent = self.agent.clone();
        let future: BoxFuture<RouterResult> = Box::pin(async move {
            match request {
                RouterRequest::ListSwitches(_) => {
                    let listed = agent.list_switches(Request::new(v1::ListSwitchesRequest {}));
                    Ok(RouterReply::Switches(listed.await?.into_inner().switches))
                }
                RouterRequest::ReadTables(_, switch_names) => {
                    let request = Request::new(v1::ReadTablesRequest { switch_names });
                    let mut parts = agent.read_tables(request).await?.into_inner();
                    let mut tables = Vec::new();
                    while let Some(part) = parts.next().await {
                        tables.extend(part?.table);
                    }
                    Ok(RouterReply::Tables(tables))
                }
                RouterRequest::WriteTables(_, write) => {
                    let written = agent.write_tables(Request::new(write)).await?;
                    Ok(RouterReply::Written(written.into_inner()))
                }
                other => panic!("a switch agent is not asked {other:?}"),
            }
        });
        self.started += 1;
        self.tasks.insert(self.started, Task { caller, future });
    }

    /// Polls all calls; returns the answers that are ready.
    pub(super) fn resume(&mut self, now: Moment) -> Vec<(Caller, RouterResult)> {
        let mut done = Vec::new();
        // A finished task may unblock another one that waited for the same lock.
        loop {
            let before = done.len();
            let executor = &self.executor;
            self.tasks.retain(|_, task| match executor.poll(now, &mut task.future) {
                Poll::Ready(answer) => {
                    done.push((task.caller, answer));
                    false
                }
                Poll::Pending => true,
            });
            if done.len() == before {
                return done;
            }
        }
    }
}

/// A driver whose hardware is reached by simulated messages.
#[derive(Debug)]
struct SimDriver {
    executor: ManualExecutor<SwitchRequest, SwitchReply>,
    shard: Shard,
    terms: Terms,
}

impl SimDriver {
    fn find(&self, name: &str) -> Result<SwitchId, DriverError> {
        let found = self.shard.graph.find_switch(name);
        found.ok_or_else(|| DriverError::UnknownSwitch { switch: name.to_owned() })
    }

    fn silent() -> DriverError {
        let (fabric, message) = ("simulated".to_owned(), "no answer".to_owned());
        DriverError::Unavailable { fabric, message }
    }
}

#[tonic::async_trait]
impl Driver for SimDriver {
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError> {
        let Shard { graph, switches, tables, colors } = &self.shard;
        let table_kind = match tables {
            TableKind::PerPort => v1::TableKind::PerPort,
            TableKind::PerSwitch => v1::TableKind::PerSwitch,
        };
        let switch = |at: &SwitchId| v1::Switch {
            name: graph.switch_name(*at).to_owned(),
            port_count: u32::try_from(graph.ports(*at).len()).expect("at most 255 ports"),
            table_kind: table_kind.into(),
            colors: (*colors).into(),
            ..v1::Switch::default()
        };
        Ok(switches.iter().map(switch).collect())
    }

    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError> {
        let mut calls = Vec::new();
        for name in &switches {
            calls.push(self.executor.call(SwitchRequest::Read(self.find(name)?)));
        }
        let mut tables = Vec::new();
        for call in calls {
            match call.await {
                SwitchReply::Table(Some(table)) => tables.extend(table.map(Ok)),
                SwitchReply::Table(None) => tables.push(Err(Self::silent())),
                SwitchReply::Written(_) => panic!("it was read"),
            }
        }
        Ok(Box::pin(tokio_stream::iter(tables)))
    }

    async fn write_tables(
        &self,
        fence: v1::Fence,
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<Written, DriverError> {
        self.terms.passed_on(fence.term);
        let (mut calls, mut written) = (Vec::new(), Written::default());
        for write in writes {
            let count = write.entries.len() as u64;
            let switch = self.find(&write.switch_name)?;
            calls.push((
                count,
                self.executor.call(SwitchRequest::Write(switch, fence, write.entries)),
            ));
        }
        let mut is_silent = false;
        for (entries, call) in calls {
            match call.await {
                SwitchReply::Written(Some(Ok(()))) => written.entries += entries,
                SwitchReply::Written(Some(Err(refusal))) => written.refusals.push(refusal),
                SwitchReply::Written(None) => is_silent = true,
                SwitchReply::Table(_) => panic!("it was written"),
            }
        }
        if is_silent { Err(Self::silent()) } else { Ok(written) }
    }

    async fn list_ports(&self, _switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        Err(Self::silent()) // never called: faults are reported by the world
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        Err(Self::silent())
    }
}
