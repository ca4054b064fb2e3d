//! `fabricast manual`: manual pages of all commands.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;

/// Write the manual pages of all commands, such as fabricast-group-join.1.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Folder to write to; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Run for ManualArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let named = || format!("write manual pages to '{}'", self.out.display());
        std::fs::create_dir_all(&self.out).with_context(named)?;
        let command = Cli::command().disable_help_subcommand(true);
        clap_mangen::generate_to(command, &self.out).with_context(named)?;
        let value = serde_json::json!({ "folder": self.out });
        output::print(globals.format, &value, |_| {
            format!("manual pages written to {}", self.out.display())
        })
    }
}
