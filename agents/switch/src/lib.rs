//! Switch agent: programs the tables of one or many switches through a driver, and reports failed
//! parts of the fabric to the TIC.
//!
//! Read [`Driver`] first: the trait between the agent and the hardware. `drivers.rs` lists the
//! drivers. [`App`] serves the switch agent API over one of them.
//!
//! Invariants
//! - G4 (agent's share): a write with an older term than the agent has seen, or a fence older
//!   than a switch has seen, changes nothing. The hardware keeps the fences for the agent.

mod api;
mod app;
mod discovery;
mod driver;
mod drivers;
mod failures;
mod inventory;
mod programs;
mod write_check;

pub use api::SwitchAgent;
pub use app::{App, LiveSettings, RunError, StartError};
pub use driver::{Driver, DriverError, DriverStream, Written};
pub use drivers::emulated::EmulatedDriver;
pub use drivers::infiniband::{InfinibandDriver, InfinibandError};
pub use drivers::openflow::OpenflowError;
pub use drivers::{DriverContext, OpenError, check_driver, open_driver};
