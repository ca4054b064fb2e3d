//! `fabricast completions`: lets a shell complete commands and flags.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;

/// Print the completions of commands and flags for a shell, such as
/// `source <(fabricast completions bash)`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that they are for.
    #[arg(value_enum)]
    shell: Shell,
}

impl Run for CompletionsArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let mut script = Vec::new();
        let mut command = Cli::command();
        clap_complete::generate(self.shell, &mut command, "fabricast", &mut script);
        let script = String::from_utf8(script)?;
        let value = || serde_json::json!({ "shell": self.shell.to_string(), "script": script });
        output::document(globals.format, None, &script, value)
    }
}
