//! Verbs of `job`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, value_parser};

/// Verbs of `job`.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Place jobs without a running control plane; exit 1 if one finds no room.
    ///
    /// No two jobs share a link. With `--format hostlist` the nodes of each job are printed as
    /// Slurm writes them, one line for each size.
    Plan(JobPlanArgs),
}

/// Options of `job plan`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("fabric").required(true).args(["topology", "slurm"])))]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["sizes", "report"])))]
pub struct JobPlanArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (`cluster`, `demo`,
    /// `paper`).
    #[arg(long, value_name = "FILE|PRESET")]
    pub topology: Option<String>,
    /// The fabric as Slurm's topology.conf describes it, instead of a topology.
    #[arg(long, value_name = "FILE")]
    pub slurm: Option<PathBuf>,
    /// Nodes of each job, in the order in which they are placed.
    #[arg(long, value_name = "N,...", value_delimiter = ',',
        value_parser = value_parser!(u32).range(1..))]
    pub sizes: Vec<u32>,
    /// Jobs that run already: lines of a name and a list of nodes, as `j7 node[001-016]`.
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<PathBuf>,
    /// Nodes that no job may have.
    #[arg(long, value_name = "HOSTLIST")]
    pub down: Option<String>,
    /// Put a job into a larger unit if no unit of its class has room.
    #[arg(long)]
    pub spread: bool,
    /// Say how large a job of each class could still be, and which jobs would have to move for more.
    #[arg(long)]
    pub report: bool,
}
