//! The command line: reads arguments, does the work through the other crates, prints the results.
//!
//! Read [`Cli`] first, then `commands.rs`, the list of commands: each is one file that holds its
//! arguments, its help and its work.

mod args;
mod cli;
pub mod cluster;
mod color;
mod command;
mod commands;
mod contexts;
mod dry_run;
mod failure;
mod group_file;
mod job_input;
mod loads;
mod nodes;
mod output;
mod pattern;
mod plan_input;
mod progress;
mod remote;
mod secrets;
mod serve;
mod source;
mod telemetry;
mod verify_input;

pub use cli::Cli;
pub use color::painted_failure;
pub use failure::{Failure, usage_json};
pub use output::notice;
pub use source::Topology;

/// The services allocate and free many small values on all threads; with the allocator of the C
/// library that takes a fifth of their time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
