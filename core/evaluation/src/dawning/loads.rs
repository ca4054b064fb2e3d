//! The loads of §5, and what each gave.

use fabricast_routing::RootPolicy;
use fabricast_simulator::{
    Chance, LoadMeasure, Model, MulticastLoad, MulticastPolicy, Reading, StreamsSpec, UnicastLoad,
    UnicastPattern,
};
use fabricast_topology::EndpointId;

use super::fixture::{Fixture, Span, Window};
use super::model::{MULTICAST_BYTES, SOURCE, UNICAST_BYTES};
use super::sweep;
use crate::experiment::{ExperimentError, Run};
use crate::routing::Refusal;
use crate::sample::Sample;

/// Destinations of a multicast packet (figure 9), 128 is all-to-all broadcast.
pub(super) const FAN_OUTS: [u32; 4] = [32, 64, 96, 128];
/// Load offered to every endpoint's link, in parts of 100.
const OFFERED: [u64; 5] = [25, 50, 75, 90, 100];
const READINGS_PS: [u64; 4] = [3_000_000, 30_000_000, 300_000_000, 3_000_000_000];
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

/// Loads of figure 5: of all-to-all broadcast in parts of 100 of what the endpoints' links take. At
/// full rate each of the 128 sources sends as fast as its own link does.
const STAGE_LOADS: [(&str, Option<u64>); 3] = [
    ("one broadcast over uniform unicast", None),
    (ALL_AT_FULL_RATE, Some(128 * 100)),
    (AS_MUCH_AS_LINKS_TAKE, Some(100)),
];
pub(super) const ALL_AT_FULL_RATE: &str = "all-to-all broadcast, every source at full rate";
/// Load of the output policies beside one broadcast.
pub(super) const ALL_TO_MANY: &str = "fan-out 64, all to many";
pub(super) const AS_MUCH_AS_LINKS_TAKE: &str =
    "all-to-all broadcast, as much as the endpoints' links take";

pub(super) type Step<'a> = &'a mut dyn FnMut(&mut Run<'_>, &str);

/// Picoseconds after which a measurement of broadcasts ends in any case.
const LONGEST_PS: u64 = 2_000_000_000_000;

/// Numbers of packets and windows to simulate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) quick: bool,
    pub(super) seeds: u32,
    /// Broadcasts of each measurement and seed, and picoseconds after which no more are waited for.
    pub(super) broadcasts: u64,
    pub(super) most_ps: u64,
    /// Picoseconds of a throughput measurement: warm-up and end.
    pub(super) span_ps: (u64, u64),
}

impl Plan {
    /// In all 1 000 broadcasts of each measurement, as in the paper, unless the user asks for
    /// others; the quick form ends after 1 ms.
    pub(super) fn new(run: &Run<'_>) -> Self {
        let seeds = run.seeds.get();
        let broadcasts =
            run.broadcasts.map_or(1_000 / u64::from(seeds), |count| count.get().into());
        let most_ps = match (run.quick, run.broadcasts) {
            (true, None) => 1_000_000_000,
            (true, Some(_)) | (false, _) => LONGEST_PS,
        };
        let span_ps = match run.quick {
            true => (200_000_000, 400_000_000),
            false => (1_000_000_000, 3_000_000_000),
        };
        Self { quick: run.quick, seeds, broadcasts: broadcasts.max(1), most_ps, span_ps }
    }

    /// From the start until all broadcasts have arrived.
    const fn finish(self) -> Span {
        Span { from_ps: 0, to_ps: self.most_ps, to_the_end: true, trails: false }
    }

    /// The same, for 5 ms or 1 ms only: the output policies are compared in it.
    const fn short(self) -> Span {
        let to_ps = if self.quick { 1_000_000_000 } else { 5_000_000_000 };
        Span { to_ps, ..self.finish() }
    }

    /// After a warm-up.
    pub(super) const fn window(self) -> Span {
        let (from_ps, to_ps) = self.span_ps;
        Span { from_ps, to_ps, to_the_end: false, trails: false }
    }

    pub(super) fn patterns(self) -> &'static [UnicastPattern] {
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
        STAGE_LOADS.len()
            + policies * (self.patterns().len() + self.readings().len())
            + policies * self.fan_outs().len() * self.offered().len()
            + 2 * OUTPUTS.len()
            + sweep::steps(&self)
    }
}

/// Mean time of a packet in every stage of its way, in microseconds, of every seed.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    pub(super) load: &'static str,
    pub(super) stages_us: Vec<Sample>,
}

/// Broadcasts over unicast.
#[derive(Clone, Debug)]
pub(super) struct Broadcasts {
    pub(super) pattern: UnicastPattern,
    pub(super) policy: RootPolicy,
    pub(super) reading_ps: u64,
    /// Of all seeds.
    pub(super) count: usize,
    /// Mean from sending to the last arrival, and with the wait in the source, in microseconds, of
    /// every seed.
    pub(super) mean_us: Sample,
    pub(super) with_queue_us: Sample,
}

/// Throughput of many-to-many multicast, of every seed.
#[derive(Clone, Debug)]
pub(super) struct Many {
    pub(super) fan_out: u32,
    pub(super) policy: RootPolicy,
    pub(super) offered: f64,
    pub(super) throughput: Sample,
}

/// Result of one output policy, of every seed.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) name: &'static str,
    pub(super) load: &'static str,
    pub(super) throughput: Sample,
    pub(super) mean_us: Sample,
    /// The first deadlock that ended a seed's run.
    pub(super) deadlock: Option<String>,
    /// Seeds whose run a deadlock ended.
    pub(super) deadlocked: usize,
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
    let model = fixture.model;
    let every_ps = model.sending_ps(UNICAST_BYTES);
    let multicast = MulticastLoad {
        source: EndpointId(SOURCE),
        groups: vec![fixture.graph.endpoints().collect()],
        bytes: MULTICAST_BYTES,
        every_ps: model.sending_ps(MULTICAST_BYTES),
        packets,
    };
    StreamsSpec {
        unicast: Some(UnicastLoad { pattern, bytes: UNICAST_BYTES, every_ps }),
        multicast: vec![multicast],
        policy,
        reading: reading(fixture.reading_ps),
        channels: fixture.channels.clone(),
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
    let every_ps = fixture.model.sending_ps(MULTICAST_BYTES) * u64::from(fan_out) * 100 / percent;
    let stream = |source: EndpointId| {
        let mut chance = Chance::new(seed ^ 0x9E37, source.0.into());
        // Windows of one shuffled ring: a source sends to every endpoint as often.
        let mut ring = endpoints.clone();
        chance.shuffle(&mut ring);
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
        reading: reading(fixture.reading_ps),
        channels: fixture.channels.clone(),
        seed,
    }
}

/// Figure 5: a broadcast over uniform unicast, and all-to-all broadcast by all sources.
pub(super) fn stages(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Stages>, ExperimentError> {
    let mut found = Vec::new();
    for (load, percent) in STAGE_LOADS {
        step(run, load);
        let policy = RootPolicy::Cyclic;
        let of_seed = |seed| {
            let (spec, span) = match percent {
                None => {
                    let (unicast, packets) = (UnicastPattern::Uniform, plan.broadcasts);
                    (one_to_all(fixture, unicast, policy, packets, seed), plan.short())
                }
                Some(percent) => (all_to_many(fixture, 128, policy, percent, seed), plan.window()),
            };
            let window = fixture.run(fixture.model, spec, Span { trails: true, ..span });
            let window = window.map_err(ExperimentError::at(load))?;
            Ok(stage_means(&window, fixture.model.switch_ps))
        };
        let seeds = run.all_seeds().map(of_seed).collect::<Result<Vec<_>, ExperimentError>>()?;
        let stages_us = (0..6).map(|stage| seeds.iter().map(|means| means[stage]).collect());
        found.push(Stages { load, stages_us: stages_us.collect() });
    }
    Ok(found)
}

/// Returns the mean wait and switching time of every stage of the last copies: adapter, then
/// switches.
fn stage_means(window: &Window, switch_ps: u64) -> [f64; 6] {
    let mut sums = [0u64; 6];
    let trails = window.finished.iter().filter_map(|one| one.trail);
    let mut count = 0u64;
    // The last copy goes all the way up, unless it is for the source's own pod.
    for trail in trails.filter(|trail| trail.waits_ps().len() == 6) {
        count += 1;
        for (stage, (sum, wait_ps)) in sums.iter_mut().zip(trail.waits_ps()).enumerate() {
            *sum += wait_ps + if stage > 0 { switch_ps } else { 0 };
        }
    }
    sums.map(|sum| sum as f64 / count.max(1) as f64 / 1e6)
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
    let (mut count, mut means_us, mut queue_us) = (0, Vec::new(), Vec::new());
    for seed in run.all_seeds() {
        let spec = one_to_all(fixture, pattern, policy, plan.broadcasts, seed);
        let spec = StreamsSpec { reading: reading(reading_ps), ..spec };
        let window = fixture.run(fixture.model, spec, plan.finish());
        let window = window.map_err(ExperimentError::at(pattern.name()))?;
        let (mean_us, with_queue_us) = means(&window);
        count += window.finished.len();
        means_us.push(mean_us);
        queue_us.push(with_queue_us);
    }
    let (mean_us, with_queue_us) = (means_us.into(), queue_us.into());
    Ok(Broadcasts { pattern, policy, reading_ps, count, mean_us, with_queue_us })
}

/// Figure 8: every policy with every pattern of unicast.
pub(super) fn broadcasts(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Broadcasts>, ExperimentError> {
    let reading_ps = fixture.reading_ps;
    let mut found = Vec::new();
    for pattern in plan.patterns().iter().copied() {
        for policy in RootPolicy::ALL {
            step(run, &format!("broadcasts over {}, {policy}", pattern.name()));
            let case = BroadcastCase { pattern, policy, reading_ps };
            found.push(broadcast(run, fixture, plan, case)?);
        }
    }
    Ok(found)
}

/// The same over hot-region unicast with registers that are read more often, or less. What does not
/// depend on that is taken from figure 8.
pub(super) fn stale(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
    figure_8: &[Broadcasts],
) -> Result<Vec<Broadcasts>, ExperimentError> {
    let pattern = UnicastPattern::HotRegion;
    let mut found = Vec::new();
    for reading_ps in plan.readings().iter().copied() {
        for policy in RootPolicy::ALL {
            step(run, &format!("registers read every {} us, {policy}", reading_ps / 1_000_000));
            let known = figure_8.iter().find(|one| (one.pattern, one.policy) == (pattern, policy));
            let known = known
                .filter(|one| !policy.looks_at_load() || one.reading_ps == reading_ps)
                .map(|one| Broadcasts { reading_ps, ..one.clone() });
            found.push(match known {
                Some(known) => known,
                None => {
                    let case = BroadcastCase { pattern, policy, reading_ps };
                    broadcast(run, fixture, plan, case)?
                }
            });
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
                let of_seed = |seed| {
                    let spec = all_to_many(fixture, *fan_out, policy, *percent, seed);
                    Ok(fixture.run(fixture.model, spec, plan.window())?.throughput)
                };
                let seeds = run.all_seeds().map(of_seed);
                let throughput = seeds.collect::<Result<_, Refusal>>();
                let throughput = throughput.map_err(ExperimentError::at(what))?;
                let offered = *percent as f64 / 100.0;
                found.push(Many { fan_out: *fan_out, policy, offered, throughput });
            }
        }
    }
    Ok(found)
}

/// §3.1: all output policies under a broadcast over unicast and under many-to-many multicast.
pub(super) fn output_policies(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Output>, ExperimentError> {
    let mut found = Vec::new();
    for (name, multicast) in OUTPUTS {
        let model = Model { multicast, ..fixture.model };
        for (load, is_one_to_all) in [(STAGE_LOADS[0].0, true), (ALL_TO_MANY, false)] {
            step(run, &format!("{load}, {name}"));
            let of_seed = |seed| {
                let (spec, span) = if is_one_to_all {
                    let (unicast, packets) = (UnicastPattern::Uniform, plan.broadcasts);
                    let spec = one_to_all(fixture, unicast, RootPolicy::Hlse, packets, seed);
                    (spec, plan.short())
                } else {
                    let spec = all_to_many(fixture, 64, RootPolicy::Cyclic, 100, seed);
                    (spec, plan.window())
                };
                fixture.run(model, spec, span)
            };
            let windows = run.all_seeds().map(of_seed).collect::<Result<Vec<Window>, Refusal>>();
            let windows = windows.map_err(ExperimentError::at(name))?;
            found.push(Output::new(name, load, &windows));
        }
    }
    Ok(found)
}

impl Output {
    fn new(name: &'static str, load: &'static str, windows: &[Window]) -> Self {
        let mut deadlocks = windows.iter().filter_map(|window| window.deadlock.clone());
        Self {
            name,
            load,
            throughput: windows.iter().map(|window| window.throughput).collect(),
            mean_us: windows.iter().map(|window| means(window).0).collect(),
            deadlock: deadlocks.next(),
            deadlocked: windows.iter().filter(|window| window.deadlock.is_some()).count(),
        }
    }
}
