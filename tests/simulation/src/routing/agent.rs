//! A switch agent: the real one of `agents/switch` over a driver whose hardware is part of the simulation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_server::SwitchAgentService;
use fabricast_switch::{Driver, DriverError, DriverStream, SwitchAgent, Written};
use fabricast_topology::{Graph, SwitchId, TableKind};
use tokio_stream::StreamExt;
use tonic::{Request, Status};

use super::calls::{Answer, Ask, Felt, Reply, Touch};
use super::desk::{Desk, Work};
use crate::invariants::g4_routes::Terms;

/// Whom an answer is for: route service, its life, its call.
pub(super) type Caller = (usize, u64, u64);

/// The switches of one agent, as its driver knows them.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) graph: Arc<Graph>,
    pub(super) switches: Vec<SwitchId>,
    pub(super) tables: TableKind,
    pub(super) colors: u16,
}

/// One life of an agent, with what it is doing.
#[derive(Debug)]
pub(super) struct SimAgent {
    pub(super) life: u64,
    agent: SwitchAgent,
    pub(super) desk: Desk<Touch, Felt>,
    tasks: BTreeMap<u64, Task>,
    started: u64,
}

struct Task {
    caller: Caller,
    work: Work<Answer>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl SimAgent {
    pub(super) fn new(now: Moment, life: u64, shard: &Shard) -> Self {
        let desk = Desk::new(now);
        let terms = Terms::default();
        let driver = SimDriver { desk: desk.clone(), shard: shard.clone(), terms };
        let only = shard.switches.iter().map(|at| shard.graph.switch_name(*at).to_owned());
        let agent = SwitchAgent::new(Arc::new(driver), only.collect());
        Self { life, agent, desk, tasks: BTreeMap::new(), started: 0 }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Begins to do what a route service asks.
    pub(super) fn serve(&mut self, caller: Caller, ask: Ask) {
        let agent = self.agent.clone();
        let work: Work<Answer> = Box::pin(async move {
            match ask {
                Ask::ListSwitches(_) => {
                    let listed = agent.list_switches(Request::new(v1::ListSwitchesRequest {}));
                    Ok(Reply::Switches(listed.await?.into_inner().switches))
                }
                Ask::ReadTables(_, switch_names) => {
                    let request = Request::new(v1::ReadTablesRequest { switch_names });
                    let mut parts = agent.read_tables(request).await?.into_inner();
                    let mut tables = Vec::new();
                    while let Some(part) = parts.next().await {
                        tables.extend(part?.table);
                    }
                    Ok(Reply::Tables(tables))
                }
                Ask::WriteTables(_, request) => {
                    let written = agent.write_tables(Request::new(request)).await?;
                    Ok(Reply::Written(written.into_inner()))
                }
                other => panic!("a switch agent is not asked {other:?}"),
            }
        });
        self.started += 1;
        self.tasks.insert(self.started, Task { caller, work });
    }

    /// Goes on with everything; gives the answers that are ready.
    pub(super) fn go_on(&mut self, now: Moment) -> Vec<(Caller, Answer)> {
        let mut done = Vec::new();
        // A task that ends may let another one go on, which waited for the same.
        loop {
            let before = done.len();
            let desk = &self.desk;
            self.tasks.retain(|_, task| match desk.poll(now, &mut task.work) {
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

/// Hardware that is reached by messages.
#[derive(Debug)]
struct SimDriver {
    desk: Desk<Touch, Felt>,
    shard: Shard,
    terms: Terms,
}

impl SimDriver {
    fn find(&self, name: &str) -> Result<SwitchId, DriverError> {
        let found = self.shard.graph.find_switch(name);
        found.ok_or_else(|| DriverError::UnknownSwitch { switch: name.to_owned() })
    }

    fn silent() -> DriverError {
        let source = Status::unavailable("no answer");
        DriverError::Unavailable { fabric: "simulated".to_owned(), source }
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
            calls.push(self.desk.call(Touch::Read(self.find(name)?)));
        }
        let mut tables = Vec::new();
        for call in calls {
            match call.await {
                Felt::Table(Some(table)) => tables.extend(table.map(Ok)),
                Felt::Table(None) => tables.push(Err(Self::silent())),
                Felt::Written(_) => panic!("it was read"),
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
            calls.push((count, self.desk.call(Touch::Write(switch, fence, write.entries))));
        }
        let mut is_silent = false;
        for (entries, call) in calls {
            match call.await {
                Felt::Written(Some(Ok(()))) => written.entries += entries,
                Felt::Written(Some(Err(refusal))) => written.refusals.push(refusal),
                Felt::Written(None) => is_silent = true,
                Felt::Table(_) => panic!("it was written"),
            }
        }
        if is_silent { Err(Self::silent()) } else { Ok(written) }
    }

    async fn list_ports(&self, _switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        Err(Self::silent()) // nobody asks: see `World::look`
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        Err(Self::silent())
    }
}
