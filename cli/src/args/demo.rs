//! Flags of `demo`.

use std::path::PathBuf;

use clap::Args;
use fabricast_routing::EngineKind;

use super::{colors, engine_kind, senders};

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// File as `ibnetdiscover` prints it, a topology spec in TOML, or a preset: `cluster` (real,
    /// 96 hosts; taken if left out) or `paper` (the paper's kind of fat tree, 2 048 endpoints).
    #[arg(long, value_name = "FILE|PRESET")]
    pub topology: Option<String>,
    /// Groups in JSON lines; left out, rows and columns of a 2-D grid and one global group.
    #[arg(long, value_name = "FILE")]
    pub groups: Option<PathBuf>,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    pub colors: u16,
    /// What computes the trees.
    #[arg(long, default_value_t = EngineKind::CMr4lmsFixed, value_parser = engine_kind())]
    pub engine: EngineKind,
    /// Give every group two trees that share nothing above the leaf switches, so that packets arrive
    /// whichever link or switch there dies (`c-mr4lms-fixed`).
    #[arg(long)]
    pub fault_tolerant: bool,
    /// File for the records; left out, a new one in a temporary folder.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Members of every group that send in each check.
    #[arg(long, default_value_t = 3, value_parser = senders)]
    pub senders: usize,
    /// A cluster to tell the story on, instead of one that is started for it.
    #[command(flatten)]
    pub running: RunningClusterArgs,
}

/// Where the parts of a running cluster answer; each list with commas in between.
#[derive(Clone, Debug, Args)]
pub struct RunningClusterArgs {
    /// TICs of a running cluster, to tell the story on it instead of starting one. It must have no groups, and has none
    /// afterwards.
    #[arg(
        long,
        value_name = "HOST:PORT,...",
        requires_all = ["router", "fabric", "switch_agents", "operating_agents"],
        conflicts_with_all = ["topology", "store"],
    )]
    pub tic: Option<String>,
    /// Its route services.
    #[arg(long, value_name = "HOST:PORT,...", requires = "tic")]
    pub router: Option<String>,
    /// Its emulated fabric.
    #[arg(long, value_name = "HOST:PORT", requires = "tic")]
    pub fabric: Option<String>,
    /// Its switch agents, all of them.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "tic")]
    pub switch_agents: Vec<String>,
    /// Operating agents of the nodes that take part.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "tic")]
    pub operating_agents: Vec<String>,
    /// Folder with ca.crt, tls.crt and tls.key of an administrator, if it wants to know who calls.
    #[arg(long, env = "FABRICAST_CERTIFICATES", value_name = "DIR")]
    pub certificates: Option<PathBuf>,
    /// Accept that nothing is encrypted on the way to other machines.
    #[arg(long, env = "FABRICAST_PLAINTEXT", conflicts_with = "certificates")]
    pub plaintext: bool,
}
