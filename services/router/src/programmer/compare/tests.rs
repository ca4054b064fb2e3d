//! Rounds against switch agents that record the calls they get.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_rpc::{Backoff, RpcError};
use fabricast_topology::Graph;
use fabricast_topology::spec::TopologySpec;
use parking_lot::{Mutex, MutexGuard};

use super::*;

/// State that agents and test share.
#[derive(Debug, Default)]
struct Hardware {
    /// Readings: index of the agent, names of the switches.
    readings: Vec<(usize, Vec<String>)>,
    /// Switches that hold an entry that was not written.
    altered: BTreeSet<String>,
    /// Switches that their agent leaves out.
    silent: BTreeSet<String>,
    /// Agents that do not answer.
    dead: BTreeSet<usize>,
}

/// Two agents, the second with every third switch.
#[derive(Clone, Debug)]
struct Agents {
    graph: Arc<Graph>,
    hardware: Arc<Mutex<Hardware>>,
}

impl Agents {
    fn hardware(&self) -> MutexGuard<'_, Hardware> {
        self.hardware.lock()
    }

    fn names(&self, agent: usize) -> Vec<String> {
        let ours = self.graph.switches().filter(|at| usize::from(at.0 % 3 == 0) == agent);
        ours.map(|at| self.graph.switch_name(at).to_owned()).collect()
    }

    /// Readings since the last call.
    fn readings(&self) -> Vec<(usize, Vec<String>)> {
        std::mem::take(&mut self.hardware().readings)
    }
}

fn unused<T>() -> Result<T, RpcError> {
    Err(tonic::Status::unimplemented("not used by these tests").into())
}

impl Environment for Agents {
    type Watch = ();

    fn now(&self) -> Moment {
        Moment(0)
    }

    async fn sleep_until(&self, _: Moment) {}

    fn pause(&self, _: &mut Backoff) -> Duration {
        Duration::ZERO
    }

    fn tic(&self) -> String {
        String::new()
    }

    fn agents(&self) -> Vec<String> {
        vec!["a".to_owned(), "b".to_owned()]
    }

    async fn acquire_term(
        &self,
        _: v1::AcquireRouteTermRequest,
    ) -> Result<v1::AcquireRouteTermResponse, RpcError> {
        unused()
    }

    async fn renew_term(
        &self,
        _: v1::RenewRouteTermRequest,
    ) -> Result<v1::RenewRouteTermResponse, RpcError> {
        unused()
    }

    async fn release_term(&self, _: u64) -> Result<(), RpcError> {
        unused()
    }

    async fn watch(&self) -> Result<(), RpcError> {
        unused()
    }

    async fn next_message(
        &self,
        _: &mut (),
    ) -> Result<Option<v1::WatchDirectoryResponse>, RpcError> {
        unused()
    }

    async fn list_choices(
        &self,
        _: v1::ListRouteChoicesRequest,
    ) -> Result<v1::ListRouteChoicesResponse, RpcError> {
        unused()
    }

    async fn record_choices(&self, _: Vec<v1::RecordRouteChoicesRequest>) -> Result<(), RpcError> {
        unused()
    }

    async fn report_routes(&self, _: v1::ReportRoutesRequest) -> Result<(), RpcError> {
        unused()
    }

    async fn list_switches(&self, agent: usize) -> Result<Vec<v1::Switch>, RpcError> {
        let switch = |name| v1::Switch { name, ..v1::Switch::default() };
        Ok(self.names(agent).into_iter().map(switch).collect())
    }

    async fn read_tables(
        &self,
        agent: usize,
        switch_names: Vec<String>,
        take: &mut (dyn FnMut(v1::SwitchTable) + Send),
    ) -> Result<(), RpcError> {
        let mut hardware = self.hardware();
        hardware.readings.push((agent, switch_names.clone()));
        if hardware.dead.contains(&agent) {
            return Err(tonic::Status::unavailable("no answer").into());
        }
        let all = switch_names.is_empty();
        let names = if all { self.names(agent) } else { switch_names };
        for switch_name in names.into_iter().filter(|name| !hardware.silent.contains(name)) {
            let is_altered = hardware.altered.contains(&switch_name);
            let entry = v1::TableEntry { in_port: 1, color: 1, out_ports: vec![2] };
            let entries = if is_altered { vec![entry] } else { Vec::new() };
            take(v1::SwitchTable { switch_name, entries, fence: None });
        }
        Ok(())
    }

    async fn write_tables(
        &self,
        _: usize,
        _: v1::WriteTablesRequest,
    ) -> Result<v1::WriteTablesResponse, RpcError> {
        Ok(v1::WriteTablesResponse::default())
    }
}

/// Agents whose eight switches have been read once.
async fn read() -> (Agents, Programmer<Agents>) {
    let spec = "kind = 'leaf-spine'\nleaves = 6\nspines = 2\nendpoints_per_leaf = 1\n";
    let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
    let agents = Agents { graph: Arc::clone(&graph), hardware: Arc::default() };
    let mut programmer = Programmer::new(graph, agents.clone());
    assert!(programmer.read_back(v1::Fence::default()).await.incomplete.is_none());
    assert_eq!(programmer.table_count(), 8);
    agents.readings();
    (agents, programmer)
}

#[tokio::test]
async fn a_round_compares_every_table_once_and_no_more_at_a_time_than_allowed() {
    let (agents, mut programmer) = read().await;
    for _ in 0..3 {
        let mut seen = Vec::new();
        for starts_round in [true, false, false] {
            assert_eq!(programmer.compare_some(3, &BTreeSet::new()).await, starts_round);
            let readings = agents.readings();
            let names: Vec<String> = readings.into_iter().flat_map(|(_, names)| names).collect();
            assert!((1..=3).contains(&names.len()), "{names:?}");
            seen.extend(names);
        }
        seen.sort_unstable();
        let mut all = [agents.names(0), agents.names(1)].concat();
        all.sort_unstable();
        assert_eq!(seen, all);
    }
    assert_eq!(programmer.drifts().drift_count, 0);
    assert_eq!(programmer.drifts().compared_tables, 3 * 8);
}

#[tokio::test]
async fn a_difference_is_counted_and_causes_a_turn_when_its_switch_is_compared() {
    let (agents, mut programmer) = read().await;
    programmer.compare_some(1, &BTreeSet::new()).await;
    let last = agents.names(1).pop().unwrap();
    agents.hardware().altered.insert(last);
    let mut turns = Vec::new();
    for _ in 0..7 {
        turns.push(programmer.compare_some(1, &BTreeSet::new()).await);
    }
    assert_eq!(turns, [false, false, false, false, false, false, true]);
    assert_eq!((programmer.drifts().drift_count, programmer.tables().held().len()), (1, 1));
}

#[tokio::test]
async fn an_agent_in_doubt_is_read_by_the_next_turn() {
    let (agents, mut programmer) = read().await;
    agents.hardware().dead.insert(0);
    assert!(programmer.compare_some(8, &BTreeSet::new()).await);
    assert_eq!(agents.readings().len(), 2);
    programmer.compare_some(8, &BTreeSet::new()).await;
    assert_eq!(agents.readings(), [(1, agents.names(1))]);
    agents.hardware().dead.clear();
    assert!(programmer.read_back(v1::Fence::default()).await.incomplete.is_none());
    assert_eq!(agents.readings(), [(0, Vec::new())]);
}

/// Once per round, and not with every step.
#[tokio::test]
async fn a_switch_that_was_left_out_is_read_again_when_the_next_round_starts() {
    let (agents, mut programmer) = read().await;
    let silent = agents.names(0).remove(0);
    agents.hardware().silent.insert(silent.clone());
    assert!(programmer.compare_some(8, &BTreeSet::new()).await);
    programmer.read_back(v1::Fence::default()).await;
    agents.readings();
    programmer.compare_some(8, &BTreeSet::new()).await;
    assert_eq!(agents.readings(), [], "all agents are in doubt, and the turn reads them");
    programmer.read_back(v1::Fence::default()).await;
    assert_eq!(agents.readings().len(), 2);
    // A switch that the TIC reports as dead is not missed.
    let dead: BTreeSet<SwitchId> = agents.graph.find_switch(&silent).into_iter().collect();
    assert!(programmer.compare_some(8, &dead).await);
    let readings = agents.readings();
    assert_eq!(readings.iter().map(|(_, names)| names.len()).sum::<usize>(), 7, "{readings:?}");
    assert_eq!(programmer.drifts().drift_count, 0);
}
