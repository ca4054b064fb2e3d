//! Route services and switch agents in one deterministic run: the real code of `services/router` and
//! `agents/switch` over an outside that is simulated, switches of `core/emulator`, and senders that hear late.
//!
//! Read [`run()`] first. A future is driven by hand (`desk.rs`): nothing waits for a clock or a socket.

mod agent;
mod calls;
mod desk;
mod scenario;
pub(crate) mod senders;
mod tic;
pub(crate) mod witness;
mod world;

use std::time::Duration;

use crate::run::{Summary, guarded};
use crate::scenario::{STORM_BEGINS, STORM_ENDS};
pub use scenario::{RouteDeed, RouteParty, RouteScenario};
use world::World;

/// After everything is healed, every retry, drain and reading back is over by then.
const SETTLE: Duration = Duration::from_secs(15);

/// Runs a scenario: a storm, then everything is healed, and then all rules are to hold.
///
/// # Errors
///
/// The rule that was broken, in words that begin with its name.
pub fn run(scenario: &RouteScenario) -> Result<Summary, String> {
    guarded(|| {
        let mut world = World::new(scenario);
        world.run_until(STORM_BEGINS);
        world.storm(scenario);
        for (at, deed) in &scenario.deeds {
            world.run_until(*at);
            world.do_deed(*deed);
        }
        world.run_until(STORM_ENDS);
        world.heal();
        world.run(SETTLE);
        world.is_settled(scenario.seed);
        Summary { delivered: world.delivered, decisions: world.tic.directory.revision().0 }
    })
}
