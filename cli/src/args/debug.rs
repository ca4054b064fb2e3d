//! Verbs that help to look into a problem.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ServerArgs;

/// Verbs of `debug`.
#[derive(Debug, Subcommand)]
pub enum DebugCommand {
    /// Ask a control plane's parts for all they know, and write it into a folder: the servers named, and
    /// those that they name. No keys and no payloads are in it; names of groups, nodes and processes are.
    Bundle(BundleArgs),
}

/// Flags of `debug bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// Folder to write, which must not be there yet.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Ask the operating agents of all nodes, too.
    #[arg(long)]
    pub nodes: bool,
    /// Read the tables of all switches, too.
    #[arg(long)]
    pub tables: bool,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}
