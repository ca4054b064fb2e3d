//! Route service: watches the TIC's records, computes trees, programs switches, and reports to the
//! TIC which groups are routed.
//!
//! Read [`App`] first, then `control_loop.rs`. The service stores nothing itself: the TIC keeps the
//! choices that could not be computed again (`choices.rs`). After a restart the service reads the
//! switches back and finds nothing to write. It reaches the rest of the system through an
//! [`Environment`], so that the simulation can run the same code.

mod aggregation;
mod api;
mod app;
mod choices;
mod control_loop;
mod counters;
mod debounce;
mod default_engine;
mod directory_cache;
mod drift;
mod environment;
mod gauges;
mod grpc;
mod planner;
mod programmer;
mod run_error;
mod settings;
mod standby;
mod table_state;
mod terms;
mod traced_requests;
mod watch;

pub use app::{App, StartError};
pub use environment::Environment;
pub use planner::PlanError;
pub use run_error::RunError;
pub use settings::{LiveSettings, RoutingSettings};
pub use terms::run_without_api;
pub use watch::TopologySnapshot;
