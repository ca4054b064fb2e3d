//! Runs one scenario.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::invariants::{g2, g5};
use crate::scenario::{STORM_BEGINS, STORM_ENDS, Scenario};
use crate::world::World;

/// Time after the healing within which every retry, verdict and election is over.
const SETTLE: Duration = Duration::from_secs(30);

/// Counts of a run without violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Messages between parties that were delivered.
    pub delivered: u64,
    /// Decisions of the TIC that became durable.
    pub decisions: u64,
}

/// Runs a scenario: first the faults, then everything is healed, and all rules must hold.
///
/// # Errors
///
/// The broken rule, as a text that begins with its id.
pub fn run(scenario: &Scenario) -> Result<Summary, String> {
    guarded(|| run_unguarded(scenario))
}

/// Turns the panic of a broken rule into its text.
pub(crate) fn guarded(run: impl FnOnce() -> Summary) -> Result<Summary, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

fn run_unguarded(scenario: &Scenario) -> Summary {
    let mut world = World::new(scenario.seed, scenario.nodes, scenario.tics);
    world.run_until(STORM_BEGINS);
    world.network = scenario.network;
    for (at, action) in &scenario.actions {
        world.run_until(*at);
        world.apply_action(*action);
    }
    world.run_until(STORM_ENDS);
    world.heal();
    world.run(SETTLE);
    g2::agrees(&world);
    g5::a_fresh_join_succeeds_on_every_node(&mut world);
    g5::a_dead_node_is_out_in_time(&mut world);
    world.run(SETTLE);
    g2::agrees(&world);
    Summary { delivered: world.delivered, decisions: world.store.ranks.revision.0 }
}
