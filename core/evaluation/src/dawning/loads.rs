//! The loads of §5, and what each gave.

use fabricast_routing::RootPolicy;
use fabricast_simulator::{
    Chance, LoadMeasure, Model, MulticastLoad, MulticastPolicy, Reading, StreamsSpec, UnicastLoad,
    UnicastPattern,
};
use fabricast_topology::EndpointId;

use super::fixture::{Fixture, Span, Window};
use super::model::{MODEL, MULTICAST_BYTES, SOURCE, UNICAST_BYTES};
use crate::experiment::{ExperimentError, Run};

/// Destinations of a multicast packet (figure 9), 128 is all-to-all broadcast.
pub(super) const FAN_OUTS: [u32; 4] = [32, 64, 96, 128];
/// Load offered to every endpoint's link, in parts of 100.
const OFFERED: [u64; 5] = [25, 50, 75, 90, 100];
/// Reading of the registers where it is not swept, every so often and known as long after it:
/// fitted to the 1.9x of the load-balanced policies over hot-region unicast (§5.1).
pub(super) const READING_PS: u64 = 200_000_000;
const READINGS_PS: [u64; 4] = [2_000_000, 20_000_000, 200_000_000, 2_000_000_000];
/// Groups that a source of many-to-many multicast draws from.
const GROUPS: usize = 4;
/// Output policies, and what to call them.
pub(super) const OUTPUTS: [(&str, MulticastPolicy); 5] = [
    ("RBB", MulticastPolicy::Bulletin),
    ("RBB, all idle at once", MulticastPolicy::BulletinIdle),
    ("fan-out splitting", MulticastPolicy::Splitting),
    ("fixed priority", MulticastPolicy::FixedPriority),
    ("no splitting, no RBB", MulticastPolicy::HoldAndWait),
];

type Step<'a> = &'a mut dyn FnMut(&mut Run<'_>, &str);

/// Numbers of packets and windows to simulate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) quick: bool,
    /// Broadcasts of each measurement, as in the paper, and picoseconds after which no more are
    /// waited for.
    pub(super) broadcasts: u64,
    pub(super) most_ps: u64,
    /// Picoseconds of a throughput measurement: warm-up and end.
    pub(super) span_ps: (u64, u64),
}

impl Plan {
    pub(super) const fn new(quick: bool) -> Self {
        match quick {
            true => Self {
                quick,
                broadcasts: 1_000,
                most_ps: 1_000_000_000,
                span_ps: (200_000_000, 400_000_000),
            },
            false => Self {
                quick,
                broadcasts: 1_000,
                most_ps: 5_000_000_000,
                span_ps: (1_000_000_000, 3_000_000_000),
            },
        }
    }

    /// From the start until all broadcasts have arrived.
    const fn finish(self) -> Span {
        Span { from_ps: 0, to_ps: self.most_ps, to_the_end: true, trails: false }
    }

    /// After a warm-up.
    const fn window(self) -> Span {
        let (from_ps, to_ps) = self.span_ps;
        Span { from_ps, to_ps, to_the_end: false, trails: false }
    }

    fn patterns(self) -> &'static [UnicastPattern] {
        if self.quick { &UnicastPattern::ALL[3..] } else { &UnicastPattern::ALL }
    }

    fn fan_outs(self) -> &'static [u32] {
        if self.quick { &FAN_OUTS[1..2] } else { &FAN_OUTS }
    }

    fn offered(self) -> &'static [u64] {
        if self.quick { &OFFERED[4..] } else { &OFFERED }
    }

    fn readings(self) -> &'static [u64] {
        if self.quick { &READINGS_PS[..1] } else { &READINGS_PS }
    }

    pub(super) fn steps(self) -> usize {
        let policies = RootPolicy::ALL.len();
        2 + policies * (self.patterns().len() + self.readings().len())
            + policies * self.fan_outs().len() * self.offered().len()
            + 2 * OUTPUTS.len()
    }
}

/// Mean time of a packet in every stage of its way, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    pub(super) load: &'static str,
    pub(super) stages_us: Vec<f64>,
}

/// Broadcasts over unicast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broadcasts {
    pub(super) pattern: UnicastPattern,
    pub(super) policy: RootPolicy,
    pub(super) reading_ps: u64,
    pub(super) count: usize,
    /// Mean from sending to the last arrival, and with the wait in the source, in microseconds.
    pub(super) mean_us: f64,
    pub(super) with_queue_us: f64,
}

/// Throughput of many-to-many multicast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Many {
    pub(super) fan_out: u32,
    pub(super) policy: RootPolicy,
    pub(super) offered: f64,
    pub(super) throughput: f64,
}

/// Result of one output policy.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) name: &'static str,
    pub(super) load: &'static str,
    pub(super) throughput: f64,
    pub(super) mean_us: f64,
    pub(super) deadlock: Option<String>,
}

fn reading(every_ps: u64) -> Reading {
    Reading { every_ps, delay_ps: every_ps, measure: LoadMeasure::Delay }
}

/// One endpoint broadcasts at full rate, all others send unicast at full rate.
fn one_to_all(
    fixture: &Fixture,
    pattern: UnicastPattern,
    policy: RootPolicy,
    packets: u64,
    seed: u64,
) -> StreamsSpec {
    let every_ps = MODEL.sending_ps(UNICAST_BYTES);
    let multicast = MulticastLoad {
        source: EndpointId(SOURCE),
        groups: vec![fixture.graph.endpoints().collect()],
        bytes: MULTICAST_BYTES,
        every_ps: MODEL.sending_ps(MULTICAST_BYTES),
        packets,
    };
    StreamsSpec {
        unicast: Some(UnicastLoad { pattern, bytes: UNICAST_BYTES, every_ps }),
        multicast: vec![multicast],
        policy,
        reading: reading(READING_PS),
        channels: [0, 0],
        seed,
    }
}

/// All endpoints multicast to others drawn by chance, as much as loads every link with `percent`.
pub(super) fn all_to_many(
    fixture: &Fixture,
    fan_out: u32,
    policy: RootPolicy,
    percent: u64,
    seed: u64,
) -> StreamsSpec {
    let endpoints: Vec<EndpointId> = fixture.graph.endpoints().collect();
    let every_ps = MODEL.sending_ps(MULTICAST_BYTES) * u64::from(fan_out) * 100 / percent;
    let stream = |source: EndpointId| {
        let mut chance = Chance::new(seed ^ 0x9E37, source.0.into());
        // Windows of one shuffled ring: a source sends to every endpoint as often.
        let mut ring = endpoints.clone();
        for last in (1..ring.len()).rev() {
            let count = u32::try_from(last + 1).expect("128 endpoints");
            ring.swap(last, chance.below(count) as usize);
        }
        let (all, width) = (ring.len(), fan_out as usize);
        let window = |start: usize| {
            let mut members: Vec<EndpointId> =
                ring.iter().cycle().skip(start).take(width).copied().collect();
            members.sort_unstable();
            members
        };
        let starts = if width < all { 0..GROUPS } else { 0..1 };
        let groups = starts.map(|group| window(group * all / GROUPS)).collect();
        let bytes = MULTICAST_BYTES;
        MulticastLoad { source, groups, bytes, every_ps, packets: u64::MAX }
    };
    StreamsSpec {
        unicast: None,
        multicast: endpoints.iter().copied().map(stream).collect(),
        policy,
        reading: reading(READING_PS),
        channels: [0, 0],
        seed,
    }
}

/// Figure 5: a broadcast over uniform unicast, and all-to-all broadcast.
pub(super) fn stages(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Stages>, ExperimentError> {
    let seed = run.seed;
    let (one, all) = ("one broadcast over uniform unicast", "all-to-all broadcast");
    let mut found = Vec::new();
    for load in [one, all] {
        step(run, load);
        let policy = RootPolicy::Cyclic;
        let window = if load == one {
            let spec = one_to_all(fixture, UnicastPattern::Uniform, policy, plan.broadcasts, seed);
            fixture.run(MODEL, spec, Span { trails: true, ..plan.finish() })
        } else {
            let spec = all_to_many(fixture, 128, policy, 100, seed);
            fixture.run(MODEL, spec, Span { trails: true, ..plan.window() })
        };
        let window = window.map_err(ExperimentError::at(load))?;
        found.push(Stages { load, stages_us: stage_means(&window) });
    }
    Ok(found)
}

/// Returns the mean wait and switching time of every stage of the last copies: adapter, then
/// switches.
fn stage_means(window: &Window) -> Vec<f64> {
    let mut sums = [0u64; 6];
    let trails = window.finished.iter().filter_map(|one| one.trail);
    let mut count = 0u64;
    // The last copy goes all the way up, unless it is for the source's own pod.
    for trail in trails.filter(|trail| trail.waits_ps().len() == 6) {
        count += 1;
        for (stage, (sum, wait_ps)) in sums.iter_mut().zip(trail.waits_ps()).enumerate() {
            *sum += wait_ps + if stage > 0 { MODEL.switch_ps } else { 0 };
        }
    }
    sums.into_iter().map(|sum| sum as f64 / count.max(1) as f64 / 1e6).collect()
}

fn means(window: &Window) -> (f64, f64) {
    let count = window.finished.len().max(1) as f64;
    let sum = |from: fn(&fabricast_simulator::Finished) -> u64| {
        window.finished.iter().map(|one| one.done_ps - from(one)).sum::<u64>() as f64 / count / 1e6
    };
    (sum(|one| one.sent_ps), sum(|one| one.born_ps))
}

/// A load, a policy, and the time between two readings of the port statistics that it sees.
#[derive(Clone, Copy)]
struct BroadcastCase {
    pattern: UnicastPattern,
    policy: RootPolicy,
    reading_ps: u64,
}

fn broadcast(
    run: &Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    case: BroadcastCase,
) -> Result<Broadcasts, ExperimentError> {
    let BroadcastCase { pattern, policy, reading_ps } = case;
    let spec = one_to_all(fixture, pattern, policy, plan.broadcasts, run.seed);
    let spec = StreamsSpec { reading: reading(reading_ps), ..spec };
    let window = fixture.run(MODEL, spec, plan.finish());
    let window = window.map_err(ExperimentError::at(pattern.name()))?;
    let (mean_us, with_queue_us) = means(&window);
    let count = window.finished.len();
    Ok(Broadcasts { pattern, policy, reading_ps, count, mean_us, with_queue_us })
}

/// Figure 8: every policy with every pattern of unicast.
pub(super) fn broadcasts(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Broadcasts>, ExperimentError> {
    let patterns = plan.patterns().iter();
    let loads = patterns.map(|one| (format!("broadcasts over {}", one.name()), *one, READING_PS));
    under_all_policies(run, fixture, plan, step, loads)
}

/// The same over hot-region unicast with registers that are read more often, or less.
pub(super) fn stale(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Broadcasts>, ExperimentError> {
    let loads = plan.readings().iter().map(|every_ps| {
        let what = format!("registers read every {} us", every_ps / 1_000_000);
        (what, UnicastPattern::HotRegion, *every_ps)
    });
    under_all_policies(run, fixture, plan, step, loads)
}

/// Times broadcasts under every policy and load: what it is called, unicast, time between two
/// readings.
fn under_all_policies(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
    loads: impl Iterator<Item = (String, UnicastPattern, u64)>,
) -> Result<Vec<Broadcasts>, ExperimentError> {
    let mut found = Vec::new();
    for (what, pattern, reading_ps) in loads {
        for policy in RootPolicy::ALL {
            step(run, &format!("{what}, {policy}"));
            found.push(broadcast(
                run,
                fixture,
                plan,
                BroadcastCase { pattern, policy, reading_ps },
            )?);
        }
    }
    Ok(found)
}

/// Figure 9: throughput over the load offered.
pub(super) fn many_to_many(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Many>, ExperimentError> {
    let mut found = Vec::new();
    for fan_out in plan.fan_outs() {
        for policy in RootPolicy::ALL {
            for percent in plan.offered() {
                let what = format!("fan-out {fan_out}, {policy}, {percent} %");
                step(run, &what);
                let spec = all_to_many(fixture, *fan_out, policy, *percent, run.seed);
                let window = fixture.run(MODEL, spec, plan.window());
                let throughput = window.map_err(ExperimentError::at(what))?.throughput;
                let offered = *percent as f64 / 100.0;
                found.push(Many { fan_out: *fan_out, policy, offered, throughput });
            }
        }
    }
    Ok(found)
}

/// §3.1: all output policies under a broadcast over unicast and under all-to-all broadcast.
pub(super) fn output_policies(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Output>, ExperimentError> {
    let mut found = Vec::new();
    for (name, multicast) in OUTPUTS {
        let model = Model { multicast, ..MODEL };
        let load = "one broadcast over uniform unicast";
        step(run, &format!("{load}, {name}"));
        let (policy, seed) = (RootPolicy::Hlse, run.seed);
        let spec = one_to_all(fixture, UnicastPattern::Uniform, policy, plan.broadcasts, seed);
        let window = fixture.run(model, spec, plan.finish());
        let window = window.map_err(ExperimentError::at(name))?;
        found.push(output(name, load, window));
        let load = "fan-out 64, all to many";
        step(run, &format!("{load}, {name}"));
        let spec = all_to_many(fixture, 64, RootPolicy::Cyclic, 100, seed);
        let window = fixture.run(model, spec, plan.window());
        found.push(output(name, load, window.map_err(ExperimentError::at(name))?));
    }
    Ok(found)
}

fn output(name: &'static str, load: &'static str, window: Window) -> Output {
    let (mean_us, _) = means(&window);
    Output { name, load, throughput: window.throughput, mean_us, deadlock: window.deadlock }
}
