//! Every chore of the repository: `cargo xtask <verb>`. CI runs the same verbs.
//!
//! `check` never writes and `fix` does; the rest is one module each.
#![expect(clippy::print_stdout, reason = "a chore's findings are its output")]

mod proto;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

const USAGE: &str = "\
usage: cargo xtask <verb>

  proto [--check]   regenerate proto/src/generated from the .proto files (--check: only compare)
";

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = repository_root()?;
    let passed = match words.as_slice() {
        ["proto"] => report_rewritten(&proto::write(&root)?),
        ["proto", "--check"] => report_stale(&proto::check(&root)?),
        _ => {
            print!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report_rewritten(changed: &[String]) -> bool {
    for file in changed {
        println!("{file}, now rewritten");
    }
    true
}

fn report_stale(stale: &[String]) -> bool {
    for file in stale {
        println!("{file}: run `cargo xtask proto`");
    }
    stale.is_empty()
}

/// The folder that holds the workspace, wherever cargo was started.
fn repository_root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("start me as `cargo xtask`")?;
    Ok(Path::new(&manifest).parent().context("xtask lies inside the workspace")?.to_path_buf())
}
