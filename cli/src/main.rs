//! The one binary: every service, agent and verb.

use std::process::ExitCode;

use fabricast_cli::{Cli, notice, painted_failure, usage_json};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let is_json = cli.is_json();
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            notice(&match is_json {
                true => failure.json(),
                false => painted_failure(&format!("fabricast: {}", failure.message())),
            });
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
    let what = text.strip_prefix("error: ");
    notice(&match (asks_for_json(std::env::args()), what) {
        (true, _) => usage_json(what.unwrap_or(&text)),
        (false, Some(what)) => format!("fabricast: {}", what.trim_end()),
        (false, None) => text.trim_end().to_owned(),
    });
    ExitCode::from(2)
}

/// True if arguments that could not be read ask for JSON.
fn asks_for_json(arguments: impl Iterator<Item = String>) -> bool {
    let arguments: Vec<String> = arguments.collect();
    arguments.contains(&"--format=json".to_owned())
        || arguments.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json")
}
