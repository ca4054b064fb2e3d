//! Simulation of whole clusters: the shipped services, over a simulated network and in simulated
//! time, under faults.
//!
//! TICs, route services, operating agents with group agents, the switch agent and the emulated
//! fabric run as [`turmoil`] hosts, each in a runtime of its own; nothing of them is a model. Only
//! the store that the TICs share ([`SharedStore`]) and the network are. Read [`run()`] first.
//!
//! A seed decides the faults, the delays and what the programs do, but not the order of tasks that
//! are ready at the same time, so a run may differ from the last one with its seed.

mod checks;
mod network;
mod packets;
mod parts;
mod programs;
mod restore;
mod run;
mod scenario;
mod store;

pub use parts::{AGENTS, Host, SimulatedClock};
pub use restore::{Copied, restore};
pub use run::{Summary, run};
pub use scenario::{Cut, Fault, FaultProfile, Scenario, TimedFault};
pub use store::{LinkFaults, SharedStore, StoreLink};
