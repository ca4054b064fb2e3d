//! Height and EFI: MR4LMS tables 1 and 2.

use fabricast_routing::{EngineKind, PatternGroup};
use fabricast_simulator::{Network, Simulator};
use fabricast_topology::{EndpointId, Mgid, TableKind};

use super::model::{COPY_PS, HEADER, MODEL, NOISE_PS, SMALL, SOFTWARE_PS, Summary};
use super::turns::{Turns, TurnsSpec};
use crate::experiment::{ExperimentError, Run};
use crate::network::trees;
use crate::routing::{Fabric, Refusal, Way, route};

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Bytes of a message.
    pub(super) bytes: u32,
    /// Height of the tree, or groups on it.
    pub(super) what: u32,
    /// Messages of every group.
    pub(super) messages: u32,
    /// Summary of the latencies.
    pub(super) time: Summary,
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
            let time = measure(run, &fabric, way, members, Traffic { bytes, messages });
            let time = time.map_err(|source| ExperimentError { step: what, source })?;
            found.push(Measured { bytes, what: height, messages, time });
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
            let time = measure(run, &fabric, way, groups, Traffic { bytes, messages });
            let time = time.map_err(|source| ExperimentError { step: what, source })?;
            found.push(Measured { bytes, what: *count, messages, time });
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

fn measure(
    run: &Run<'_>,
    fabric: &Fabric,
    way: Way,
    groups: Vec<Vec<EndpointId>>,
    traffic: Traffic,
) -> Result<Summary, Refusal> {
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
    let spec = TurnsSpec {
        packet_bytes: HEADER + bytes,
        host_ps: SOFTWARE_PS + if bytes > SMALL { u64::from(bytes) * COPY_PS } else { 0 },
        noise_ps: NOISE_PS,
        messages,
        seed: run.seed,
    };
    let groups = groups.into_iter().zip(trees.into_iter().flatten()).collect();
    let turns = Turns::new(spec, groups, fabric.graph.endpoint_count());
    let network = Network { graph: &fabric.graph, fat_tree: fabric.fat_tree()?, routes: &routes };
    let mut simulator = Simulator::new(network, MODEL, turns)?;
    simulator.run_until(u64::MAX)?;
    Ok(Summary::of(simulator.workload().latencies_ps()))
}
