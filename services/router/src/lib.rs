//! Route service: watches the TIC's records, computes trees, programs switches, and reports to the
//! TIC which groups are routed.
//!
//! Read [`App`] first, then `control_loop.rs`. The service needs nothing that it stores itself: the
//! TIC keeps the choices that could not be computed again (`wire/choices.rs`), and files with its
//! inputs are for people (`recording_files.rs`). After a restart the service reads the switches
//! back and finds nothing to write. `core/reconciler` decides; this crate calls and keeps time,
//! through an [`Environment`], so that the simulation can run the same code.

mod aggregation;
mod api;
mod app;
mod better_homes;
mod control_loop;
mod counters;
mod default_engine;
mod environment;
mod faults;
mod gauges;
mod grpc;
mod recording_files;
mod run_error;
mod settings;
mod standby;
mod status;
mod terms;
mod traced_requests;
mod watch;
mod wire;

pub use app::{App, StartError};
pub use environment::Environment;
pub use fabricast_reconciler::PlanError;
pub use run_error::RunError;
pub use settings::{LiveSettings, RoutingSettings};
pub use terms::run_without_api;
pub use watch::TopologySnapshot;
