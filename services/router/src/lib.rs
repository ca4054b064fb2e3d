//! The route service: watches the TIC, computes trees, programs switches, reports what is routed.
//!
//! Read [`App`] first, then `control.rs`, the loop that everything turns around. The service keeps
//! nothing: what it could not compute again it gives to the TIC (`choices.rs`). After a restart it reads
//! the switches back and finds that there is nothing to write.

mod aggregation;
mod app;
mod choices;
mod control;
mod image;
mod mirror;
mod planner;
mod programmer;
mod service;
mod standby;
mod watch;

pub use app::{App, Options, RunError, StartError};
pub use planner::PlanError;
