//! Height and EFI: MR4LMS tables 1 and 2.

use fabricast_routing::{EngineKind, PatternGroup};
use fabricast_simulator::{Network, Simulator, TreeId};
use fabricast_topology::{EndpointId, Mgid, TableKind};

use super::model::{SMALL, Summary, model};
use super::turns::{Turns, TurnsSpec};
use crate::experiment::{ExperimentError, Run};
use crate::hardware::ps;
use crate::network::trees;
use crate::routing::{Fabric, Refusal, Way, route};
use crate::sample::Sample;

/// 512 endpoints on 32 leaves.
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 32\nspines = 4\nendpoints_per_leaf = 16\n";
/// Bytes of a message.
pub(super) const SIZES: [u32; 2] = [SMALL, 2_048];
/// Numbers of groups on one tree.
const GROUPS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Messages of every group in the paper.
const MESSAGES: u32 = 5_000;
/// Copies that one measurement may come to.
const COPIES: u32 = 2_000_000;

/// One measurement: a size of message on one kind of tree.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Bytes of a message.
    pub(super) bytes: u32,
    /// Height of the tree, or groups on it.
    pub(super) what: u32,
    /// Messages of every group and seed.
    pub(super) messages: u32,
    /// Mean latency of every seed.
    pub(super) mean_us: Sample,
    /// Latency that 99 % are not above, of every seed.
    pub(super) tail_us: Sample,
}

impl Measured {
    fn new([bytes, what, messages]: [u32; 3], times: &[Summary]) -> Self {
        let mean_us = times.iter().map(|time| time.mean_us).collect();
        let tail_us = times.iter().map(|time| time.tail_us).collect();
        Self { bytes, what, messages, mean_us, tail_us }
    }
}

/// Number of measurements.
pub(super) fn steps(quick: bool) -> usize {
    SIZES.len() * (2 + groups(quick).len())
}

fn groups(quick: bool) -> &'static [u32] {
    if quick { &GROUPS[..5] } else { &GROUPS }
}

/// Four members on one leaf, and on four.
pub(super) fn heights(
    run: &mut Run<'_>,
    step: &mut dyn FnMut(&mut Run<'_>, &str),
) -> Result<Vec<Measured>, ExperimentError> {
    let fabric = Fabric::described("512 endpoints on 32 leaves", FABRIC)?;
    let messages = if run.quick { 500 } else { MESSAGES };
    let mut found = Vec::new();
    for bytes in SIZES {
        for (height, apart) in [(1, 1), (2, 16)] {
            let what = format!("height {height}, {bytes} bytes");
            step(run, &what);
            let members = vec![(0..4).map(|slot| EndpointId(slot * apart)).collect()];
            let way = Way::new(EngineKind::CMr4lmsFixed, 32, TableKind::PerPort);
            let times = measure(run, &fabric, way, members, Traffic { bytes, messages });
            let times = times.map_err(|source| ExperimentError { step: what, source })?;
            found.push(Measured::new([bytes, height, messages], &times));
        }
    }
    Ok(found)
}

/// More and more groups of four on one tree, the members of each on four leaves.
pub(super) fn shared(
    run: &mut Run<'_>,
    step: &mut dyn FnMut(&mut Run<'_>, &str),
) -> Result<Vec<Measured>, ExperimentError> {
    let fabric = Fabric::described("512 endpoints on 32 leaves", FABRIC)?;
    let most = if run.quick { COPIES / 20 } else { COPIES };
    let mut found = Vec::new();
    for bytes in SIZES {
        for count in groups(run.quick) {
            let what = format!("{count} groups on a tree, {bytes} bytes");
            step(run, &what);
            let messages = MESSAGES.min(most / (4 * count * count));
            // Group g has its members at one place of four leaves that stand side by side.
            let member = |group: u32, slot: u32| (group % 8 * 4 + slot) * 16 + group / 8;
            let members =
                |group| (0..4).map(|slot| EndpointId(member(group, slot))).collect::<Vec<_>>();
            let way = Way::new(EngineKind::GlobalTree, 32, TableKind::PerPort);
            let groups = (0..*count).map(members).collect();
            let times = measure(run, &fabric, way, groups, Traffic { bytes, messages });
            let times = times.map_err(|source| ExperimentError { step: what, source })?;
            found.push(Measured::new([bytes, *count, messages], &times));
        }
    }
    Ok(found)
}

/// Payload of a message in bytes, and messages that each group sends.
#[derive(Clone, Copy)]
struct Traffic {
    bytes: u32,
    messages: u32,
}

/// Measures with every seed.
fn measure(
    run: &Run<'_>,
    fabric: &Fabric,
    way: Way,
    groups: Vec<Vec<EndpointId>>,
    traffic: Traffic,
) -> Result<Vec<Summary>, Refusal> {
    let Traffic { bytes, messages } = traffic;
    let named = (0..).zip(&groups).map(|(number, members)| PatternGroup {
        mgid: Mgid(number),
        name: number.to_string(),
        members: members.clone(),
    });
    let named: Vec<PatternGroup> = named.collect();
    let mgids: Vec<Mgid> = named.iter().map(|group| group.mgid).collect();
    let routed = route(run, fabric, way, |_| Ok(named))?;
    let (routes, trees) = trees(&fabric.graph, &routed.plan, &mgids)?;
    let trees: Vec<TreeId> = trees.into_iter().flatten().collect();
    let adapter = run.hardware.latency.adapter;
    let copied = if bytes > SMALL { f64::from(bytes) * adapter.copy_ns_per_byte } else { 0.0 };
    let of_seed = |seed| {
        let spec = TurnsSpec {
            packet_bytes: adapter.header_bytes + bytes,
            host_ps: ps(adapter.message_ns + copied),
            noise_ps: ps(adapter.message_noise_ns),
            messages,
            seed,
        };
        let groups = groups.iter().cloned().zip(trees.iter().copied()).collect();
        let turns = Turns::new(spec, groups, fabric.graph.endpoint_count());
        let network =
            Network { graph: &fabric.graph, fat_tree: fabric.fat_tree()?, routes: &routes };
        let mut simulator = Simulator::new(network, model(&run.hardware.latency), turns)?;
        simulator.run_until(u64::MAX)?;
        Ok(Summary::of(simulator.workload().latencies_ps()))
    };
    run.all_seeds().map(of_seed).collect()
}
