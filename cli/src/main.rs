//! The one binary: every service, agent and verb.

use std::process::ExitCode;

use fabricast_cli::{Cli, notice};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            notice(&format!("fabricast: {}", failure.message()));
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints help where it was asked for, and says what is wrong with the arguments as everything
/// else is said.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is not an error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let text = match text.strip_prefix("error: ") {
        Some(what) => format!("fabricast: {what}"),
        None => text,
    };
    notice(text.trim_end());
    ExitCode::from(2)
}
