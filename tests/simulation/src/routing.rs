//! Deterministic simulation of route services and switch agents: the code of `services/router` and
//! `agents/switch` in a simulated environment, with the switches of `core/emulator` and senders
//! that learn of routes late.
//!
//! Read [`run()`] first. Futures are polled by hand (`executor.rs`), so nothing waits for a clock
//! or a socket.

mod agent;
mod calls;
mod executor;
mod scenario;
pub(crate) mod senders;
mod tic;
pub(crate) mod witness;
mod world;

use std::time::Duration;

use crate::run::{Summary, guarded};
use crate::scenario::{STORM_BEGINS, STORM_ENDS};
pub use scenario::{RouteAction, RouteParty, RouteScenario};
use world::{RouteWorld, actions, checks};

/// Time after the healing within which every retry, drain and read-back is over.
const SETTLE: Duration = Duration::from_secs(15);

/// Runs a scenario: first the faults, then everything is healed, and all rules must hold.
///
/// # Errors
///
/// The broken rule, as a text that begins with its id.
pub fn run(scenario: &RouteScenario) -> Result<Summary, String> {
    guarded(|| {
        let mut world = RouteWorld::new(scenario);
        world.run_until(STORM_BEGINS);
        world.storm(scenario);
        for (at, action) in &scenario.actions {
            world.run_until(*at);
            actions::apply(&mut world, *action);
        }
        world.run_until(STORM_ENDS);
        actions::heal(&mut world);
        world.run(SETTLE);
        checks::check_settled(&world, scenario.seed);
        Summary { delivered: world.delivered, decisions: world.tic.directory.revision().0 }
    })
}
