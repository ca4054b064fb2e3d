//! Figures 8 and 9 over buffers and virtual channels, which the paper does not give.
//!
//! Endpoints are dealt over the channels in blocks of neighbors, as all packets of one have to stay
//! in order; unicast and multicast share all channels but in one case.

use std::ops::Range;

use fabricast_routing::RootPolicy;
use fabricast_simulator::{Model, MulticastPolicy};

use super::fixture::Fixture;
use super::loads::{
    Broadcasts, FAN_OUTS, Many, Plan, Step, all_to_many, broadcasts as of_all_patterns,
};
use crate::experiment::{ExperimentError, Run};
use crate::routing::Refusal;

/// Broadcasts of each measurement and seed.
pub(super) const BROADCASTS: u64 = 50;
const BUFFERS: [u32; 4] = [1_024, 1_280, 1_536, 4_096];
const CHANNELS: [u8; 2] = [1, 4];
/// Channels and buffers of figure 9's sweep, and the way in which multicast gets its outputs.
const ROOMS: [(u8, u32, MulticastPolicy); 9] = [
    (1, 1_024, MulticastPolicy::Bulletin),
    (1, 16_384, MulticastPolicy::Bulletin),
    (4, 4_096, MulticastPolicy::Bulletin),
    (8, 1_024, MulticastPolicy::Bulletin),
    (8, 4_096, MulticastPolicy::Bulletin),
    (8, 16_384, MulticastPolicy::Bulletin),
    (16, 1_024, MulticastPolicy::Bulletin),
    (16, 4_096, MulticastPolicy::Bulletin),
    (1, 1_024, MulticastPolicy::Splitting),
];
/// Fan-out at which the text gives a number for LLP.
const OF_LLP: u32 = 96;

/// Figure 8 with one size of buffers and a number of channels.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) buffer_bytes: u32,
    /// Of unicast and of multicast.
    pub(super) channels: [Range<u8>; 2],
    pub(super) broadcasts: Vec<Broadcasts>,
}

/// Figure 9 at full load with one size of buffers and a number of channels.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) channels: u8,
    pub(super) buffer_bytes: u32,
    pub(super) multicast: MulticastPolicy,
    pub(super) many: Vec<Many>,
}

/// Lists the fabrics of figure 8's sweep.
fn variants(fixture: &Fixture, plan: &Plan) -> Vec<Fixture> {
    if plan.quick {
        return vec![fixture.with(2_048, 2)];
    }
    let shared = CHANNELS.into_iter().flat_map(|channels| {
        BUFFERS.into_iter().map(move |buffer_bytes| fixture.with(buffer_bytes, channels))
    });
    let own = Fixture { channels: [0..1, 1..2], ..fixture.with(BUFFERS[1], 2) };
    shared.chain([own]).collect()
}

fn rooms(plan: &Plan) -> &'static [(u8, u32, MulticastPolicy)] {
    if plan.quick { &ROOMS[2..3] } else { &ROOMS }
}

fn fan_outs(plan: &Plan) -> &'static [u32] {
    if plan.quick { &FAN_OUTS[1..2] } else { &FAN_OUTS }
}

/// Counts the steps of both sweeps.
pub(super) fn steps(plan: &Plan) -> usize {
    let of_8 = if plan.quick { 1 } else { BUFFERS.len() * CHANNELS.len() + 1 };
    of_8 * plan.patterns().len() * RootPolicy::ALL.len() + rooms(plan).len()
}

/// Figure 8 with every size of buffers and number of channels.
pub(super) fn figure_8(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Fit>, ExperimentError> {
    let plan = Plan { broadcasts: plan.broadcasts.min(BROADCASTS), ..*plan };
    let each = variants(fixture, &plan).into_iter().map(|variant| {
        Ok(Fit {
            buffer_bytes: variant.model.buffer_bytes,
            channels: variant.channels.clone(),
            broadcasts: of_all_patterns(run, &variant, &plan, step)?,
        })
    });
    each.collect()
}

/// Figure 9 at full load with several sizes of buffers and numbers of channels.
pub(super) fn figure_9(
    run: &mut Run<'_>,
    fixture: &Fixture,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<Room>, ExperimentError> {
    let mut found = Vec::new();
    for (channels, buffer_bytes, multicast) in rooms(plan).iter().copied() {
        let what = format!("many-to-many with {channels} channels of {buffer_bytes} bytes");
        step(run, &what);
        let variant = fixture.with(buffer_bytes, channels);
        let model = Model { multicast, ..variant.model };
        let mut many = Vec::new();
        for fan_out in fan_outs(plan).iter().copied() {
            let llp = (fan_out == OF_LLP).then_some(RootPolicy::Llp);
            for policy in [RootPolicy::Cyclic].into_iter().chain(llp) {
                let of_seed = |seed| {
                    let spec = all_to_many(&variant, fan_out, policy, 100, seed);
                    Ok(variant.run(model, spec, plan.window())?.throughput)
                };
                let throughput = run.all_seeds().map(of_seed).collect::<Result<_, Refusal>>();
                let throughput = throughput.map_err(ExperimentError::at(&*what))?;
                many.push(Many { fan_out, policy, offered: 1.0, throughput });
            }
        }
        found.push(Room { channels, buffer_bytes, multicast, many });
    }
    Ok(found)
}
