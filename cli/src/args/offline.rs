//! Verbs that work on files, most without a running control plane.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{EngineArgs, ExplainArgs, GroupArgs, ServerArgs, colors};

/// Verbs of `topology`.
#[derive(Debug, Subcommand)]
pub enum TopologyCommand {
    /// Make a topology from a spec in TOML and write it as `ibnetdiscover` would print it.
    Generate {
        /// The spec; or a preset, such as `paper`, `torus` or `dragonfly` (see `topology presets`).
        #[arg(long, value_name = "FILE|PRESET")]
        spec: String,
        /// Output file; left out, standard output.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// List the topologies that have a name, each with the spec it stands for.
    Presets,
    /// Read what `ibnetdiscover` printed, say what was found, and write it back in normal form.
    Import {
        /// The file.
        file: PathBuf,
        /// Output file; left out, only the summary is printed.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Write a topology (file, spec or preset) as `ibnetdiscover` prints it, on standard output; with
    /// `--format slurm` as a topology.conf for Slurm.
    Export {
        /// The file, spec or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
    },
    /// Discover an InfiniBand subnet through a local port and print it as `ibnetdiscover` would.
    Discover {
        /// Adapter, such as `mlx5_0`; left out, the first with an active port.
        #[arg(long)]
        adapter: Option<String>,
        /// Port of the adapter; 0 takes the first active one.
        #[arg(long, default_value_t = 0)]
        port: u8,
        /// Output file; left out, standard output.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Print the topology that a running control plane works with.
    Download {
        /// Output file; left out, standard output.
        #[arg(long)]
        out: Option<PathBuf>,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Give a control plane whose topology is discovered another one, so that it forgets what is gone for good.
    Replace {
        /// The file, spec or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List switches and endpoints.
    Show {
        /// The file, spec or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
    },
    /// Exit 1 if anything breaks the regularity of the fat tree, or a scheduler's file is not its tree.
    Check {
        /// The file, spec or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
        /// Slurm's topology.conf to compare it with.
        #[arg(long, value_name = "FILE")]
        slurm: Option<PathBuf>,
    },
    /// Find out which fat tree a topology is.
    Detect {
        /// The file, spec or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
    },
}

/// Verbs of `route`.
#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// Compute trees for groups without a running control plane.
    Plan(PlanArgs),
    /// Walk packets through tables, of files or with `--live` of the running switches, and check that every
    /// member is reached exactly once.
    Verify(Box<VerifyArgs>),
    /// Explain the route of a group: of a running control plane, or with `--topology` of one that would be.
    Explain(ExplainArgs),
    /// Show how far the running route service has come.
    Status {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Options of `route plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// presets`).
    #[arg(long, value_name = "FILE|PRESET", requires = "what")]
    pub topology: String,
    /// The groups.
    #[command(flatten)]
    pub groups: GroupArgs,
    /// The engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    pub colors: u16,
    /// Compare with another engine however long that takes; else only where few groups on a small fabric
    /// are routed. With per-switch tables only, per-port tables need no advice.
    #[arg(long)]
    pub compare: bool,
    /// Output file for the routes.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Output file for the tables.
    #[arg(long, value_name = "FILE")]
    pub tables_out: Option<PathBuf>,
    /// Output file for the groups with their MGIDs.
    #[arg(long, value_name = "FILE")]
    pub groups_out: Option<PathBuf>,
}

/// Options of `eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Experiments to run, `all` of them, or `list` to see which there are.
    #[arg(required = true, value_name = "list|all|NAME")]
    pub names: Vec<String>,
    /// Folder for the files, one folder in it for each experiment.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run smaller forms that end in seconds.
    #[arg(long)]
    pub quick: bool,
    /// Rounds of every process in experiments that repeat collectives (`latency`); left out, 200, or 12
    /// with `--quick`. The paper has 5000.
    #[arg(long, value_name = "N")]
    pub rounds: Option<NonZeroU32>,
    /// The same seed gives the same files, but for measured times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Options of `route verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// presets`).
    #[arg(long, value_name = "FILE|PRESET", required_unless_present = "live")]
    pub topology: Option<String>,
    /// Groups in JSON lines.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    pub groups: Option<PathBuf>,
    /// Routes in JSON lines.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    pub routes: Option<PathBuf>,
    /// Tables in JSON lines; left out, they are made from the routes.
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    /// Send from every member, not only from one member per leaf switch and group. With `--live`, entries that no
    /// packet meets are violations only then.
    #[arg(long)]
    pub all_senders: bool,
    /// Read what the switches of a running control plane really hold, and compare it with the memberships.
    #[arg(long, conflicts_with_all = ["topology", "groups", "routes", "tables"])]
    pub live: bool,
    /// Switch agents that share the fabric between them; left out, the server is the only one.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "live")]
    pub switch_agents: Vec<String>,
    /// Route services, if the server is none.
    #[arg(long, value_name = "HOST:PORT,...", requires = "live")]
    pub router: Option<String>,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}
