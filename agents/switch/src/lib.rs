//! The switch agent: programs one or many switches through a driver.
//!
//! Read [`Driver`] first: it is the seam between the agent and the hardware, and the emulated
//! fabric ([`EmulatedDriver`]) is the first kind of hardware. [`App`] serves the switch agent
//! API over a driver and reports failed parts of the fabric to the TIC.
//!
//! Invariants
//! - G4 (agent's share): a write with an older term than the agent has seen, or a fence older
//!   than a switch has seen, changes nothing. The hardware remembers for the agent.

mod aggregation;
mod app;
mod check;
mod driver;
mod emulated;
mod failures;
mod infiniband;
mod inventory;
mod service;
mod topology;

pub use app::{App, LiveSettings, Options, RunError, StartError};
pub use driver::{Driver, DriverError, DriverStream, Written};
pub use emulated::EmulatedDriver;
pub use infiniband::{InfinibandDriver, InfinibandError, InfinibandOptions, Routing};
pub use service::SwitchAgent;
