//! The one binary: every service, agent and verb.

use std::process::ExitCode;

use clap::Parser;
use fabricast_cli::args::Cli;
use fabricast_cli::{output, run};

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::say(&format!("fabricast: {}", failure.message()));
            ExitCode::from(failure.exit_code())
        }
    }
}
