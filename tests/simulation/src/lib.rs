//! Deterministic simulation of group management: TICs with a leader, a store, nodes with their
//! agents, and a network that loses, delays and cuts messages, in simulated time. Separate runs
//! simulate route services, switch agents and switches ([`routing`]).
//!
//! The state machines are those of `fabricast-groups`; the simulated shells keep the rules of
//! `services/tic` and `agents`. Read [`run()`] first. A scenario is drawn from a seed. The same
//! scenario gives the same run, and [`shrink()`] shortens a scenario that breaks a rule.

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
pub use scenario::{
    Action, AgentFault, FaultProfile, Network, Party, STORM_BEGINS, STORM_ENDS, Scenario,
};
pub use shrink::{Play, shrink};
pub use sweep::{Swept, sweep};
