//! Reads port counters periodically and turns them into the loads by which roots are chosen.
//!
//! A reading starts an interval after the last one has ended, agent by agent, so that slow agents
//! are called less often. The loads are therefore late by an interval and a reading, which a root
//! policy tolerates. Every reading counts as much as all readings before it together, so that a
//! short pause in traffic does not make a port look idle. Nothing waits for loads: without them all
//! ports count as idle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_routing::RootPolicy;
use fabricast_topology::{Graph, SwitchId};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::environment::Environment;
use crate::settings::{LiveSettings, RoutingSettings};

/// Timeout for reading all counters of one agent.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The newest loads, as the control loop sees them.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    newest: watch::Receiver<Reading>,
}

/// Result of the last round of readings.
#[derive(Clone, Debug, Default)]
struct Reading {
    loads: Option<Vec<u64>>,
    /// Reason why loads of an agent are missing or old; empty if none are.
    problem: String,
    /// Number of readings so far.
    count: u64,
}

impl Loads {
    /// Returns the loads if there are newer ones than at the last call.
    pub(crate) fn take_newer(&mut self) -> Option<Vec<u64>> {
        let is_new = self.newest.has_changed().unwrap_or(false);
        let reading = self.newest.borrow_and_update();
        reading.loads.clone().filter(|_| is_new)
    }

    /// Fills in the root policy, the number of readings, and why loads are missing or old.
    pub(crate) fn describe(
        &self,
        policy: Option<RootPolicy>,
        status: &mut v1::GetRouteStatusResponse,
    ) {
        status.root_policy = policy.map_or_else(String::new, |policy| policy.to_string());
        let reading = self.newest.borrow();
        status.load_readings = reading.count;
        status.load_problem.clone_from(&reading.problem);
    }
}

/// Reads counters for as long as it is polled.
#[derive(Debug)]
pub(crate) struct LoadReader<O> {
    environment: O,
    meter: LoadMeter,
    /// `None` if no root policy looks at loads.
    live: Option<LiveSettings>,
    sender: watch::Sender<Reading>,
}

impl<O: Environment> LoadReader<O> {
    /// Creates a reader, which reads nothing unless a root policy looks at loads.
    pub(crate) fn new(
        environment: O,
        graph: &Arc<Graph>,
        policy: &RoutingSettings,
    ) -> (Self, Loads) {
        let (sender, newest) = watch::channel(Reading::default());
        let root_policy = policy.engine_options.root_policy;
        let wanted = root_policy.is_some_and(|one| one.looks_at_load());
        let live = wanted.then(|| policy.live.clone());
        (
            Self { environment, meter: LoadMeter::new(Arc::clone(graph)), live, sender },
            Loads { newest },
        )
    }

    /// Reads until dropped.
    pub(crate) async fn run(mut self) {
        let Some(live) = self.live.clone() else { return std::future::pending().await };
        loop {
            let problem = self.read_all().await;
            let before = self.sender.borrow().clone();
            if problem != before.problem {
                match &*problem {
                    "" => info!("port counters read again"),
                    reason => warn!(reason, "port counters not read"),
                }
            }
            let loads = Some(self.meter.loads.clone());
            let count = before.count + 1;
            self.sender.send_replace(Reading { loads, problem, count });
            let interval = live.config().counter_interval;
            self.environment.sleep_until(self.environment.now().after(interval)).await;
        }
    }

    /// Reads the counters of every agent. Returns the last problem; empty if there was none.
    async fn read_all(&mut self) -> String {
        let mut problem = String::new();
        for (index, agent) in self.environment.agents().into_iter().enumerate() {
            let Self { environment, meter, .. } = self;
            let mut take = |counters| meter.take(&counters, environment.now());
            let failed = tokio::select! {
                biased;
                read = environment.read_counters(index, &mut take) => match read {
                    Ok(()) => continue,
                    Err(error) => error.message().to_owned(),
                },
                () = environment.sleep_until(environment.now().after(READ_TIMEOUT)) => "too slow".to_owned(),
            };
            problem = format!("switch agent {agent}: {failed}");
        }
        problem
    }
}

/// Turns counters, which only grow, into loads.
#[derive(Debug)]
struct LoadMeter {
    graph: Arc<Graph>,
    /// Time of the last reading, by switch.
    read_at: BTreeMap<SwitchId, Moment>,
    /// Bytes sent at the last reading, by port.
    sent: Vec<u64>,
    /// Load in bytes per second, by port: the mean of the last interval and the load before.
    loads: Vec<u64>,
}

impl LoadMeter {
    fn new(graph: Arc<Graph>) -> Self {
        let ports = graph.port_count();
        Self { graph, read_at: BTreeMap::new(), sent: vec![0; ports], loads: vec![0; ports] }
    }

    /// Adds a reading of one switch; the first one only gives the start values of its counters.
    fn take(&mut self, counters: &v1::SwitchCounters, now: Moment) {
        let Some(switch) = self.graph.find_switch(&counters.switch_name) else { return };
        let before = self.read_at.insert(switch, now);
        for counter in &counters.ports {
            let number = u8::try_from(counter.port).ok();
            let Some(port) = number.and_then(|number| self.graph.port(switch, number)) else {
                continue;
            };
            let sent = std::mem::replace(&mut self.sent[port.index()], counter.sent_bytes);
            let Some(before) = before else { continue };
            // A counter that is lower than before has started again.
            let bytes = counter.sent_bytes.checked_sub(sent).unwrap_or(counter.sent_bytes);
            let now = rate(bytes, now.since(before));
            let load = &mut self.loads[port.index()];
            *load = load.midpoint(now);
        }
    }

    #[cfg(test)]
    fn load(&self, port: fabricast_topology::PortId) -> u64 {
        self.loads[port.index()]
    }
}

/// Bytes per second.
fn rate(bytes: u64, time: Duration) -> u64 {
    let micros = time.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_topology::spec::TopologySpec;

    fn counters(sent: &[u64]) -> v1::SwitchCounters {
        let ports = (1..).zip(sent).map(|(port, sent_bytes)| v1::PortCounters {
            port,
            sent_bytes: *sent_bytes,
            ..v1::PortCounters::default()
        });
        v1::SwitchCounters { switch_name: String::new(), ports: ports.collect() }
    }

    #[test]
    fn a_load_is_the_growth_of_a_counter_per_second() {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
        let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
        let mut meter = LoadMeter::new(Arc::clone(&graph));
        let named = |sent: &[u64]| v1::SwitchCounters {
            switch_name: graph.switch_name(SwitchId(0)).to_owned(),
            ..counters(sent)
        };
        let port = |number| graph.port(SwitchId(0), number).unwrap();
        let start = Moment(7);
        meter.take(&named(&[1_000_000, 7]), start);
        assert_eq!(meter.load(port(1)), 0, "the first reading gives no rate");
        meter.take(&named(&[1_000_500, 7]), start.after(Duration::from_millis(500)));
        assert_eq!((meter.load(port(1)), meter.load(port(2))), (500, 0), "half of 1000 bytes/s");
        // The switch lost power and has sent 40 bytes since.
        meter.take(&named(&[40, 0]), start.after(Duration::from_millis(1_500)));
        assert_eq!((meter.load(port(1)), meter.load(port(2))), (270, 0));
        // A port that the graph does not have, and a switch that it does not have.
        meter.take(&named(&[70; 200]), start.after(Duration::from_millis(2_500)));
        meter.take(&counters(&[9]), start.after(Duration::from_millis(2_500)));
        assert_eq!(meter.load(port(1)), 150);
    }
}
