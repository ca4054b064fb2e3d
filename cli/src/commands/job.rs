//! `fabricast job`: nodes for jobs, so that no two jobs share a link.

mod ground;
mod plan;
mod running;
mod text;

use crate::args::{Format, JobCommand};
use crate::failure::Failure;

pub(super) use ground::Ground;

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: JobCommand, format: Format) -> Result<(), Failure> {
    match command {
        JobCommand::Plan(args) => plan::run(&args, format),
        running => running::run(running, format),
    }
}
