//! Broadcasts of 8 MB to 64 GPUs: our tables beside source routes, prefixes, rings and trees of
//! servers.
//!
//! The set-up is the sample of PEEL's published simulation (HotNets 2025,
//! `github.com/foundational-networks/PEEL`): 32 leaf and 16 spine switches, 16 ports of GPUs on a
//! leaf, 8 on a server, 100 Gbit/s. Elmo and PEEL are rebuilt from their descriptions, not from
//! their code; what is simplified the report says.

mod claims;
mod figures;
mod jobs;
mod scheme;
mod spread;

use fabricast_simulator::{MulticastPolicy, Network, Routes, RunError, Simulator};
use fabricast_topology::Peer;

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::report::Report;
use crate::routing::{Fabric, Refusal};
use crate::sample::Sample;
use jobs::{Jobs, Placement};
use scheme::Scheme;
use spread::Spread;

/// The experiment as the command line lists it.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "broadcast",
    title: "8 MB to 64 GPUs: tables of 32 entries beside source routes, prefixes, ring and tree",
    source: "PEEL, HotNets 2025, sample of its published simulation",
    length: Length::Fixed,
    run,
};

/// PEEL's `LSGPU100`.
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 32\nspines = 16\nendpoints_per_leaf = 16\n";
const LEAVES: u32 = 32;
const SPINES: u32 = 16;
/// Ports of a server, each of a GPU: a rail each.
const RAILS: u32 = 8;
const SERVERS: u32 = 64;
/// Servers of a job: 64 GPUs.
const OF_A_JOB: u32 = 8;
/// Bytes of a message.
const BYTES: u32 = 8_000_000;
/// Jobs that broadcast at once.
const AT_ONCE: [u32; 2] = [1, 8];
/// Jobs whose groups are in the tables: 2 048 groups and 4 096.
const PROGRAMMED: [u32; 2] = [256, 512];

/// One scheme with one placement and number of jobs.
#[derive(Clone, Debug)]
struct Outcome {
    scheme: Scheme,
    placement: Placement,
    at_once: u32,
    /// Seeds that ended in a deadlock; the samples are of the others.
    deadlocks: usize,
    /// Mean time of a job until all have all, in microseconds, of every seed.
    mean_us: Sample,
    /// Bytes on links between switches in parts of the message, of every seed.
    traffic: Sample,
    /// Header bytes of a packet beside those of every packet, of every seed.
    header_bytes: Sample,
    /// Most entries of a table, of every seed.
    entries: Sample,
}

/// Result of one seed.
struct Measured {
    mean_us: f64,
    traffic: f64,
    header_bytes: f64,
    entries: f64,
}

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let fabric = Fabric::described("32 leaf and 16 spine switches", FABRIC)?;
    let placements: &[Placement] = if run.quick { &Placement::ALL[..1] } else { &Placement::ALL };
    let at_once: &[u32] = if run.quick { &AT_ONCE[..1] } else { &AT_ONCE };
    let steps = placements.len() * at_once.len() * Scheme::ALL.len();
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(steps);
    for placement in placements {
        for at_once in at_once {
            for scheme in Scheme::ALL {
                let what = format!("{}, {}, {at_once} at once", scheme.name(), placement.name());
                run.step(outcomes.len(), steps, &what);
                let seeds = run.all_seeds();
                let measured = seeds.map(|seed| {
                    let jobs = Jobs::new(*placement, *at_once, scheme.programmed(), seed);
                    measure(run, &fabric, scheme, &jobs)
                });
                let measured = measured.collect::<Result<Vec<Option<Measured>>, Refusal>>();
                let measured = measured.map_err(|source| ExperimentError { step: what, source })?;
                let deadlocks = measured.iter().filter(|one| one.is_none()).count();
                let measured: Vec<Measured> = measured.into_iter().flatten().collect();
                let sample =
                    |value: fn(&Measured) -> f64| measured.iter().map(value).collect::<Sample>();
                outcomes.push(Outcome {
                    scheme,
                    placement: *placement,
                    at_once: *at_once,
                    deadlocks,
                    mean_us: sample(|one| one.mean_us),
                    traffic: sample(|one| one.traffic),
                    header_bytes: sample(|one| one.header_bytes),
                    entries: sample(|one| one.entries),
                });
            }
        }
    }
    Ok(figures::report(run, &outcomes))
}

/// Measures with one seed; nothing if packets wait for each other in a circle.
fn measure(
    run: &Run<'_>,
    fabric: &Fabric,
    scheme: Scheme,
    jobs: &Jobs,
) -> Result<Option<Measured>, Refusal> {
    let (link, adapter) = (run.hardware.broadcast.link, run.hardware.broadcast.adapter);
    let graph = &fabric.graph;
    let mut routes = Routes::new();
    let plan = scheme.plan(run, fabric, jobs, &mut routes)?;
    let packets = (BYTES / RAILS).div_ceil(adapter.payload_bytes);
    let header = adapter.header_bytes + plan.header_bytes;
    let load =
        Spread::new(plan.flows, packets, adapter.payload_bytes + header, graph.endpoint_count());
    let network = Network { graph, fat_tree: fabric.fat_tree()?, routes: &routes };
    let mut simulator = Simulator::new(network, link.model(MulticastPolicy::Bulletin), load)?;
    match simulator.run_until(u64::MAX) {
        Ok(_) => {}
        Err(RunError::Deadlock(_)) => return Ok(None),
        Err(error @ (RunError::NotASender { .. } | RunError::Length { .. })) => {
            return Err(error.into());
        }
    }
    let done = simulator.workload().done_ps().ok_or("some packets have not arrived")?;
    // The parts of the rails are exchanged inside every server once all have arrived.
    let inside_us = f64::from(BYTES) * 8.0 / (adapter.inside_gbit_per_s * 1e3);
    let of_jobs = done.chunks(RAILS as usize).map(|rails| rails.iter().copied().max().unwrap_or(0));
    let sum_us: f64 = of_jobs.map(|ps| ps as f64 / 1e6 + inside_us).sum();
    let ports = graph.switches().flat_map(|switch| graph.ports(switch));
    let between = ports.filter(|port| matches!(graph.peer(*port), Peer::Switch(_)));
    let sent: u64 = between.map(|port| simulator.port_statistics(port).sent_bytes).sum();
    let jobs_at_once = done.len() as f64 / f64::from(RAILS);
    Ok(Some(Measured {
        mean_us: sum_us / jobs_at_once,
        traffic: sent as f64 / jobs_at_once / f64::from(BYTES),
        header_bytes: plan.header_bytes.into(),
        entries: plan.entries.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    /// The time of one job with the hardware of a file, in microseconds.
    fn optimal_us(text: &str) -> f64 {
        let hardware = Hardware::parse(text).unwrap();
        let run = Run::quick(&hardware);
        let fabric = Fabric::described("the fabric", FABRIC).unwrap();
        let jobs = Jobs::new(Placement::Leaves, 1, 1, 1);
        measure(&run, &fabric, Scheme::Optimal, &jobs).unwrap().unwrap().mean_us
    }

    #[test]
    fn a_user_s_links_of_half_the_rate_take_twice_the_time() {
        let slow = "[broadcast.link]\ngbit_per_s = 50.0\nwire_ns = 100.0\nswitch_ns = 0.0\n\
                    buffer_bytes = 500000\n[broadcast.adapter]\npayload_bytes = 1452\n\
                    header_bytes = 78\ninside_gbit_per_s = 3600.0\n";
        let (ours, slow) = (optimal_us(""), optimal_us(slow));
        // All but the 0.4 us of wires.
        assert!((slow - 2.0 * ours).abs() < 0.5, "{slow} against {ours}");
    }
}
