//! A run: the hosts of a cluster under the faults of a scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::sleep;
use turmoil::Sim;

use crate::checks::Checker;
use crate::parts::{AGENTS, Cluster, Host};
use crate::programs::{self, History};
use crate::scenario::{Cut, Fault, Scenario};

/// Step of the simulated clocks.
pub(crate) const TICK: Duration = Duration::from_millis(5);
/// No run takes longer.
const END: Duration = Duration::from_secs(180);
/// Host of the programs and of the checks.
pub(crate) const PROGRAMS: &str = "programs";

/// Figures of a run without violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Joins and leaves that were acknowledged.
    pub acknowledged: u64,
    /// Faults that occurred.
    pub faults: u64,
    /// Simulated time that has passed.
    pub time: Duration,
}

/// Host that the client wants dead, at the end of a run.
type Killed = Arc<Mutex<Option<Host>>>;

/// Runs a scenario.
///
/// # Errors
///
/// The broken rule.
pub fn run(scenario: &Scenario) -> Result<Summary, String> {
    let cluster = Cluster::new();
    let mut sim = simulation(&cluster, scenario.seed);
    let (killed, acknowledged) = (Killed::default(), Arc::<Mutex<u64>>::default());
    let (own, kill, count) = (scenario.clone(), Arc::clone(&killed), Arc::clone(&acknowledged));
    sim.client(PROGRAMS, async move {
        *count.lock() = check(own, kill).await?;
        Ok(())
    });
    let mut storm = Storm { cluster, cuts: BTreeMap::new(), crashes: BTreeSet::new() };
    loop {
        storm.cluster.clock.set(sim.elapsed());
        storm.cluster.store.expire();
        storm.apply(&mut sim, scenario);
        if let Some(host) = killed.lock().take() {
            sim.crash(host.to_string());
        }
        if sim.step().map_err(|error| error.to_string())? {
            break;
        }
    }
    let acknowledged = *acknowledged.lock();
    Ok(Summary { acknowledged, faults: scenario.faults.len() as u64, time: sim.elapsed() })
}

/// The hosts of a cluster, with their services.
pub(crate) fn simulation(cluster: &Cluster, seed: u64) -> Sim<'static> {
    let mut sim = turmoil::Builder::new()
        .epoch(SystemTime::UNIX_EPOCH)
        .rng_seed(seed)
        .tick_duration(TICK)
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(8))
        .simulation_duration(END)
        .tcp_capacity(1 << 16)
        .enable_random_order()
        .build();
    for host in Host::all() {
        let cluster = cluster.clone();
        sim.host(host.to_string(), move || cluster.clone().run(host));
    }
    sim
}

/// Joins and leaves under the faults, and checks what is left.
async fn check(scenario: Scenario, killed: Killed) -> Result<u64, String> {
    let (checker, history) = (Checker::new(), History::default());
    let nodes = checker.started().await.map_err(|error| format!("at the start: {error}"))?;
    let acknowledged = programs::run(scenario.seed, scenario.ends(), &history).await;
    let left = scenario.ends().saturating_sub(turmoil::sim_elapsed().unwrap_or_default());
    sleep(left).await;
    let agreed = checker.agreed(&nodes, &scenario, &history).await;
    agreed.map_err(|error| format!("after healing: {error}"))?;
    let dead = usize::try_from(scenario.seed).unwrap_or_default() % AGENTS;
    *killed.lock() = Some(Host::Agent(dead));
    checker.expelled(dead).await.map_err(|error| format!("after the death of {dead}: {error}"))?;
    Ok(acknowledged)
}

/// The faults that are there now.
struct Storm {
    cluster: Cluster,
    cuts: BTreeMap<(Host, Host), Cut>,
    crashes: BTreeSet<Host>,
}

impl Storm {
    /// Makes the faults of this moment, and mends those that are over.
    fn apply(&mut self, sim: &mut Sim<'_>, scenario: &Scenario) {
        let now = sim.elapsed();
        let mut cuts = BTreeMap::new();
        let mut crashes = BTreeSet::new();
        let due = |at: Duration| at <= now && now < at + TICK;
        for timed in &scenario.faults {
            let is_on = timed.begins <= now && now < timed.ends;
            match timed.fault {
                Fault::Crash(host) if is_on => drop(crashes.insert(host)),
                Fault::Cut(one, other, cut) if is_on => add(&mut cuts, one, other, cut),
                Fault::Isolation(host, cut) if is_on => {
                    for other in Host::all().filter(|other| *other != host) {
                        add(&mut cuts, host, other, cut);
                    }
                }
                Fault::StoreCut(tic) if due(timed.begins) || due(timed.ends) => {
                    self.cluster.links[tic].set(|faults| faults.cut = is_on);
                }
                Fault::StoreDelay(tic, delay) if due(timed.begins) || due(timed.ends) => {
                    let delay = if is_on {
                        Duration::from_millis(u64::from(delay))
                    } else {
                        Duration::ZERO
                    };
                    self.cluster.links[tic].set(|faults| faults.delay = delay);
                }
                Fault::StoreLoss(tic, calls, lose_answers) if due(timed.begins) => {
                    self.cluster.links[tic].set(|faults| {
                        (faults.failing, faults.lose_answers) = (calls, lose_answers);
                    });
                }
                _ => {}
            }
        }
        self.change_cuts(sim, cuts);
        self.change_crashes(sim, crashes);
    }

    fn change_cuts(&mut self, sim: &mut Sim<'_>, cuts: BTreeMap<(Host, Host), Cut>) {
        let name = |pair: &(Host, Host)| (pair.0.to_string(), pair.1.to_string());
        for (pair, cut) in &self.cuts {
            if cuts.get(pair) != Some(cut) {
                let (one, other) = name(pair);
                match cut {
                    Cut::Held => sim.release(one, other),
                    Cut::Lost => sim.repair(one, other),
                }
            }
        }
        for (pair, cut) in &cuts {
            if self.cuts.get(pair) != Some(cut) {
                let (one, other) = name(pair);
                match cut {
                    Cut::Held => sim.hold(one, other),
                    Cut::Lost => sim.partition(one, other),
                }
            }
        }
        self.cuts = cuts;
    }

    fn change_crashes(&mut self, sim: &mut Sim<'_>, crashes: BTreeSet<Host>) {
        for host in self.crashes.difference(&crashes) {
            sim.bounce(host.to_string());
        }
        for host in crashes.difference(&self.crashes) {
            sim.crash(host.to_string());
        }
        self.crashes = crashes;
    }
}

/// Adds a cut; where two meet, messages are lost.
fn add(cuts: &mut BTreeMap<(Host, Host), Cut>, one: Host, other: Host, cut: Cut) {
    let at = cuts.entry((one.min(other), one.max(other))).or_insert(cut);
    *at = (*at).max(cut);
}
