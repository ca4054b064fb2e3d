//! The route service: watches the TIC, computes trees, programs switches, reports what is routed.
//!
//! Read [`App`] first, then `control.rs`, the loop that everything turns around. The service keeps
//! nothing: what it could not compute again it gives to the TIC (`choices.rs`). After a restart it reads
//! the switches back and finds that there is nothing to write. What lies outside of it is an
//! [`Outside`], so that the simulation runs the same code.

mod aggregation;
mod app;
mod audit;
mod causes;
mod choices;
mod control;
mod counters;
mod fitting;
mod gathering;
mod gauges;
mod grpc;
mod image;
mod mirror;
mod outside;
mod pace;
mod planner;
mod programmer;
mod service;
mod standby;
mod terms;
mod watch;

pub use app::{App, Options, RunError, StartError};
pub use outside::Outside;
pub use planner::PlanError;
pub use terms::{LiveSettings, Pacing, Policy, route_unasked};
pub use watch::Map;
