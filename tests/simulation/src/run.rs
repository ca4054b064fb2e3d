//! One run of a scenario, and what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::invariants::{g2, g5};
use crate::scenario::{STORM_BEGINS, STORM_ENDS, Scenario};
use crate::world::World;

/// After everything is healed, every retry, verdict and new office is over by then.
const SETTLE: Duration = Duration::from_secs(30);

/// What a run without violation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Messages that arrived.
    pub delivered: u64,
    /// Decisions that are durable.
    pub decisions: u64,
}

/// Runs a scenario: a storm, then everything is healed, and then all rules are to hold.
///
/// # Errors
///
/// The rule that was broken, in words that begin with its name.
pub fn run(scenario: &Scenario) -> Result<Summary, String> {
    guarded(|| run_unguarded(scenario))
}

/// Turns the panic of a broken rule into what it says.
pub(crate) fn guarded(run: impl FnOnce() -> Summary) -> Result<Summary, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a panic without words".to_owned())
    })
}

fn run_unguarded(scenario: &Scenario) -> Summary {
    let mut world = World::new(scenario.seed, scenario.nodes, scenario.tics);
    world.run_until(STORM_BEGINS);
    world.network = scenario.network;
    for (at, deed) in &scenario.deeds {
        world.run_until(*at);
        world.do_deed(*deed);
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
