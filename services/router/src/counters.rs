//! Reads port counters again and again, and turns them into the loads that roots are chosen by.
//!
//! One reading begins an interval after the last one has ended, agent by agent, so that slow agents are
//! asked less often and not more. What is known is therefore stale by an interval and a reading; a root
//! policy lives with that. Every reading counts as much as all before it together, so that a moment of
//! silence is not taken for an idle port. Nobody waits for loads: without them all ports count as idle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_routing::{PortLoads, RootPolicy};
use fabricast_topology::{Graph, SwitchId};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::outside::Outside;
use crate::terms::{LiveSettings, Policy};

/// How long one agent may take to tell all its counters.
const READING_TIME: Duration = Duration::from_secs(10);

/// The newest loads, as the control loop sees them.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    newest: watch::Receiver<Reading>,
}

/// What the last round of readings has found.
#[derive(Clone, Debug, Default)]
struct Reading {
    loads: Option<Arc<PortLoads>>,
    /// Why those of some agent are missing or old; empty if they are not.
    problem: String,
    /// Readings so far.
    count: u64,
}

impl Loads {
    /// Gives the loads if there are newer ones than at the last call.
    pub(crate) fn take_newer(&mut self) -> Option<Arc<PortLoads>> {
        let is_new = self.newest.has_changed().unwrap_or(false);
        let reading = self.newest.borrow_and_update();
        reading.loads.clone().filter(|_| is_new)
    }

    /// Fills in the policy, how often loads were read for it, and why they are missing or old.
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
    outside: O,
    meter: Meter,
    /// None: nobody wants to know.
    live: Option<LiveSettings>,
    telling: watch::Sender<Reading>,
}

impl<O: Outside> LoadReader<O> {
    /// Prepares a reader; it reads nothing if the root policy does not look at loads, or there is none.
    pub(crate) fn new(outside: O, graph: &Arc<Graph>, policy: &Policy) -> (Self, Loads) {
        let (telling, newest) = watch::channel(Reading::default());
        let root_policy = policy.engine_options.root_policy;
        let wanted = root_policy.is_some_and(|one| one.looks_at_load());
        let live = wanted.then(|| policy.live.clone());
        (Self { outside, meter: Meter::new(Arc::clone(graph)), live, telling }, Loads { newest })
    }

    /// Reads for ever.
    pub(crate) async fn run(mut self) {
        let Some(live) = self.live.clone() else { return std::future::pending().await };
        loop {
            let problem = self.read_all().await;
            let before = self.telling.borrow().clone();
            if problem != before.problem {
                match &*problem {
                    "" => info!("port counters are read again"),
                    reason => warn!(reason, "port counters not read"),
                }
            }
            let loads = Some(Arc::new(self.meter.loads()));
            let count = before.count + 1;
            self.telling.send_replace(Reading { loads, problem, count });
            let interval = live.pacing().counter_interval;
            self.outside.sleep_until(self.outside.now().after(interval)).await;
        }
    }

    /// Reads the counters of every agent; says what is missing.
    async fn read_all(&mut self) -> String {
        let mut problem = String::new();
        for (index, agent) in self.outside.agents().into_iter().enumerate() {
            let Self { outside, meter, .. } = self;
            let mut take = |counters| meter.take(&counters, outside.now());
            let failed = tokio::select! {
                biased;
                read = outside.read_counters(index, &mut take) => match read {
                    Ok(()) => continue,
                    Err(status) => status.message().to_owned(),
                },
                () = outside.sleep_until(outside.now().after(READING_TIME)) => "too slow".to_owned(),
            };
            problem = format!("switch agent {agent}: {failed}");
        }
        problem
    }
}

/// Turns counters, which only grow, into loads.
#[derive(Debug)]
struct Meter {
    graph: Arc<Graph>,
    /// By switch: when it was read last.
    read_at: BTreeMap<SwitchId, Moment>,
    /// By port: bytes sent at the last reading.
    sent: Vec<u64>,
    /// By port: bytes per second, half of it from between the last two readings.
    loads: Vec<u64>,
}

impl Meter {
    fn new(graph: Arc<Graph>) -> Self {
        let ports = graph.port_count();
        Self { graph, read_at: BTreeMap::new(), sent: vec![0; ports], loads: vec![0; ports] }
    }

    /// Takes in a reading of one switch; the first one only says where its counters begin.
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
            // A counter that went back began anew.
            let bytes = counter.sent_bytes.checked_sub(sent).unwrap_or(counter.sent_bytes);
            let now = rate(bytes, now.since(before));
            let load = &mut self.loads[port.index()];
            *load = load.midpoint(now);
        }
    }

    fn loads(&self) -> PortLoads {
        PortLoads::new(&self.graph, self.loads.clone())
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
    fn loads_are_what_counters_gained_in_a_second() {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
        let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
        let mut meter = Meter::new(Arc::clone(&graph));
        let named = |sent: &[u64]| v1::SwitchCounters {
            switch_name: graph.switch_name(SwitchId(0)).to_owned(),
            ..counters(sent)
        };
        let port = |number| graph.port(SwitchId(0), number).unwrap();
        let start = Moment(7);
        meter.take(&named(&[1_000_000, 7]), start);
        assert_eq!(meter.load(port(1)), 0, "nobody knows when the first megabyte was sent");
        meter.take(&named(&[1_000_500, 7]), start.after(Duration::from_millis(500)));
        assert_eq!((meter.load(port(1)), meter.load(port(2))), (500, 0), "half of 1000 bytes/s");
        // The switch lost its power: 40 bytes since.
        meter.take(&named(&[40, 0]), start.after(Duration::from_millis(1_500)));
        assert_eq!((meter.load(port(1)), meter.load(port(2))), (270, 0));
        // A port that the graph does not have, and a switch that it does not have.
        meter.take(&named(&[70; 200]), start.after(Duration::from_millis(2_500)));
        meter.take(&counters(&[9]), start.after(Duration::from_millis(2_500)));
        assert_eq!(meter.load(port(1)), 150);
    }
}
