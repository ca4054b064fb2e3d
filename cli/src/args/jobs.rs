//! Verbs of `job`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, value_parser};

use super::ServerArgs;

/// Verbs of `job`.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Place jobs without a running control plane; exit 1 if one finds no room.
    ///
    /// No two jobs share a link. With `--format hostlist` the nodes of each job are printed as
    /// Slurm writes them, one line for each size.
    Plan(JobPlanArgs),
    /// Give nodes to a job of a running control plane; exit 1 if it finds no room.
    Allocate(JobAllocateArgs),
    /// End a job; its nodes are free then.
    Release {
        /// Name of the job.
        job: String,
        /// Only say which nodes would be free; nothing changes.
        #[arg(long)]
        dry_run: bool,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show a job.
    Show {
        /// Name of the job.
        job: String,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List jobs.
    List {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Say how large a job of each class could be, and which jobs would have to move for more.
    Report {
        /// Also say which jobs would have to move so that one of this many nodes finds room; exit 1
        /// if none are known.
        #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
        nodes: Option<u32>,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Options of `job allocate`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["nodes", "hosts"])))]
pub struct JobAllocateArgs {
    /// Name of the job.
    pub job: String,
    /// How many nodes it needs.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Exactly these nodes.
    #[arg(long, value_name = "HOSTLIST")]
    pub hosts: Option<String>,
    /// Put the job into a larger unit if no unit of its class has room.
    #[arg(long, conflicts_with = "hosts")]
    pub spread: bool,
    /// Only say what it would get; nothing changes.
    #[arg(long)]
    pub dry_run: bool,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
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
