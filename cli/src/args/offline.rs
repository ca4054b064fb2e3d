//! Verbs that work on files, most without a running control plane.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, value_parser};
use fabricast_routing::EngineKind;

use super::{ServerArgs, colors, engine_kind};

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
    /// Walk packets through tables and check that every member is reached exactly once.
    Verify(VerifyArgs),
    /// Explain the route of a group of a running control plane.
    Explain {
        /// Name of the group.
        #[arg(long)]
        group: String,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show how far the running route service has come.
    Status {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// How tables are organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tables {
    /// Every input port has a table of its own.
    PerPort,
    /// One table serves the whole switch.
    PerSwitch,
}

/// Where dynamic roots are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// In the top midplane of the spanning tree.
    Tn,
    /// In all top midplanes of its group; needs per-port tables.
    TnGroup,
}

/// Options of `route plan`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["groups", "pattern"])))]
pub struct PlanArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// presets`).
    #[arg(long, value_name = "FILE|PRESET")]
    pub topology: String,
    /// Groups in JSON lines.
    #[arg(long, value_name = "FILE")]
    pub groups: Option<PathBuf>,
    /// Groups of a process grid instead: `64x32x16` (one group per line and dimension), or
    /// `random:N:SEED`.
    #[arg(long, value_name = "XxY|XxYxZ|random:N:SEED", allow_hyphen_values = true)]
    pub pattern: Option<String>,
    /// Processes per endpoint of a pattern.
    #[arg(long, default_value_t = 1, conflicts_with = "groups",
        value_parser = value_parser!(u32).range(1..))]
    pub processes: u32,
    /// MGID layers of a pattern.
    #[arg(long, value_enum, default_value_t = Layers::Compact, conflicts_with = "groups")]
    pub layers: Layers,
    /// The engine.
    #[arg(long, default_value_t = EngineKind::CMr4lmsFixed, value_parser = engine_kind())]
    pub engine: EngineKind,
    /// Where `c-mr4lms-dynamic` looks for roots; left out, `tn`.
    #[arg(long, value_enum)]
    pub root_scope: Option<Scope>,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    pub colors: u16,
    /// How tables are organised.
    #[arg(long, value_enum, default_value_t = Tables::PerPort)]
    pub tables: Tables,
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
    /// The same seed gives the same files, but for measured times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// MGID layers of a process grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layers {
    /// Few and even layers.
    Compact,
    /// The construction of the paper's proof.
    Wide,
}

/// Options of `route verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// presets`).
    #[arg(long, value_name = "FILE|PRESET")]
    pub topology: String,
    /// Groups in JSON lines.
    #[arg(long, value_name = "FILE")]
    pub groups: PathBuf,
    /// Routes in JSON lines.
    #[arg(long, value_name = "FILE")]
    pub routes: PathBuf,
    /// Tables in JSON lines; left out, they are made from the routes.
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    /// Send from every member, not only from one member per leaf switch and group.
    #[arg(long)]
    pub all_senders: bool,
}
