//! The command line: global options, one command, and its dispatch.

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::args::{Format, TraceArgs};
use crate::command::{Globals, Run};
use crate::commands::Command;
use crate::failure::Failure;
use crate::telemetry::CommandTrace;

/// Control plane for hardware multicast on fat-tree fabrics.
#[derive(Debug, Parser)]
#[command(name = "fabricast", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// Output format of results on standard output.
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(subcommand)]
    command: Command,
    /// Names of the subcommands as they were given, such as `group join`.
    #[arg(skip)]
    verb: String,
}

impl Cli {
    /// Reads the arguments of this process.
    ///
    /// # Errors
    ///
    /// The arguments are wrong, or ask for help; the error holds the text to print.
    pub fn read() -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches()?;
        let mut words = Vec::new();
        let mut inner = matches.subcommand();
        while let Some((word, more)) = inner {
            words.push(word);
            inner = more.subcommand();
        }
        let verb = words.join(" ");
        Ok(Self { verb, ..Self::from_arg_matches(&matches)? })
    }

    /// True if results and errors are for programs.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// [`Failure`] with the exit code and the one message for standard error.
    pub fn run(self) -> Result<(), Failure> {
        let Self { format, trace, command, verb } = self;
        check_format(format, &command)?;
        let _traced =
            if command.calls_running_parts() { CommandTrace::begin(&trace, &verb)? } else { None };
        command.run(&Globals { format, trace })
    }
}

/// Refuses an output format that the command does not have.
fn check_format(format: Format, command: &Command) -> Result<(), Failure> {
    let name = match format {
        Format::Table | Format::Json => return Ok(()),
        Format::Hostlist => "hostlist",
        Format::Slurm => "slurm",
    };
    if command.has_format(format) {
        return Ok(());
    }
    Err(Failure::input(format!("--format {name}: this command does not have it")).hint(
        "table and json are for every command, hostlist for `job`, slurm for `topology export`",
    ))
}
