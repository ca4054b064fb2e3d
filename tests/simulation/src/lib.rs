//! The whole protocol of group management in one deterministic run: TICs with a leader, a store,
//! nodes with their agents, a network that loses, delays and cuts, and time that is a number. In runs of
//! their own: route services, switch agents and switches ([`routing`]).
//!
//! The state machines are the real ones of `fabricast-groups`; what is around them keeps the rules of the shells in
//! `services/tic` and `agents`. Read [`run()`] first. A scenario is drawn from a seed; the same scenario is the
//! same run, and one that breaks a rule is made short by [`shrink()`].

mod invariants;
mod message;
mod node;
pub mod routing;
mod run;
mod scenario;
mod settings;
mod shrink;
mod store;
mod sweep;
mod tic;
mod world;

pub use run::{Summary, run};
pub use scenario::{Deed, Mix, Network, Party, STORM_BEGINS, STORM_ENDS, Scenario, Strike};
pub use shrink::{Play, shrink};
pub use sweep::{Swept, sweep};
