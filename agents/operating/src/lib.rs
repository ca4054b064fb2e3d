//! Operating agents: what the processes of a node talk to, many nodes behind one listener.
//!
//! Read [`App`] first, then `host.rs`: it owns one `Oa` and one `GaHost` of `core/groups` per node,
//! turns gRPC calls and timers into their inputs and their outputs into calls. All state is soft:
//! what counts lies with the TIC.

mod app;
mod calls;
mod collectives;
mod effects;
mod errands;
mod fabric;
mod host;
mod listeners;
mod members;
mod memory;
mod messages;
mod operations;
mod outbox;
mod parts;
mod peers;
mod processes;
mod questions;
mod reports;
mod requests;
mod service;
mod sessions;
mod settings;
mod tic_wire;

pub use app::{App, LocalSocket, Options, RunError, StartError};
pub use host::NodeSpec;
pub use messages::{Ended, Messages, Seat, SeatEvent, SeatEvents};
pub use settings::{LiveSettings, Pacing};
