//! The contract between a command and the program around it.

use crate::args::{Format, TraceArgs};
use crate::failure::Failure;

/// A command: clap fills the value from the arguments, [`Run::run`] does the work.
///
/// Each command is one file in `commands/` that holds its arguments and its implementation of this
/// trait, and one line in [`crate::commands`].
pub(crate) trait Run {
    /// Does the work and prints the result.
    ///
    /// # Errors
    ///
    /// [`Failure`] with the exit code and the one message for standard error.
    fn run(self, globals: &Globals) -> Result<(), Failure>;

    /// True if the command prints its result in this format, beside table and JSON.
    fn has_format(&self, _format: Format) -> bool {
        false
    }

    /// True for a command that calls running parts and then ends: it begins a trace, if traces are
    /// configured.
    fn calls_running_parts(&self) -> bool {
        false
    }
}

/// Global options that a command may need.
#[derive(Debug)]
pub(crate) struct Globals {
    /// Output format of results.
    pub(crate) format: Format,
    /// Settings of traces, for parts that run until they are stopped.
    pub(crate) trace: TraceArgs,
}
