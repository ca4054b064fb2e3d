//! What the verbs that route without a running control plane have in common, and `plan`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, value_parser};
use fabricast_routing::{EngineKind, MAX_COLORS, RootPolicy};

use super::{ServerArgs, colors, engine_kind, root_policy};

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

/// MGID layers of a process grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layers {
    /// Few and even layers.
    Compact,
    /// The construction of the paper's proof.
    Wide,
}

/// The groups that are routed.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["groups", "pattern"]).requires("topology")))]
pub struct GroupArgs {
    /// Groups in JSON lines.
    #[arg(long, value_name = "FILE")]
    pub groups: Option<PathBuf>,
    /// Groups of a process grid instead: `64x32x16` (one group per line and dimension), or
    /// `random:N:SEED`.
    #[arg(long, value_name = "XxY|XxYxZ|random:N:SEED", allow_hyphen_values = true)]
    pub pattern: Option<String>,
    /// Processes per endpoint of a pattern.
    #[arg(long, default_value_t = 1, conflicts_with = "groups", requires = "what",
        value_parser = value_parser!(u32).range(1..))]
    pub processes: u32,
    /// MGID layers of a pattern.
    #[arg(long, value_enum, default_value_t = Layers::Compact, conflicts_with = "groups",
        requires = "what")]
    pub layers: Layers,
}

/// The engine that routes them.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// The engine.
    #[arg(long, default_value_t = EngineKind::CMr4lmsFixed, requires = "topology",
        value_parser = engine_kind())]
    pub engine: EngineKind,
    /// Where `c-mr4lms-dynamic` looks for roots; left out, `tn`.
    #[arg(long, value_enum, requires = "topology")]
    pub root_scope: Option<Scope>,
    /// How roots are chosen where several are equally good; left out, by the engine's own order. All but
    /// `cyclic` need `--loads`.
    #[arg(long, requires = "topology", value_parser = root_policy())]
    pub root_policy: Option<RootPolicy>,
    /// What ports have sent, for `--root-policy`: what `switch counters --format json` printed.
    #[arg(long, value_name = "FILE", requires = "root_policy")]
    pub loads: Option<PathBuf>,
    /// How tables are organised.
    #[arg(long, value_enum, default_value_t = Tables::PerPort, requires = "topology")]
    pub tables: Tables,
    /// Give every group two trees that share nothing above the leaf switches, so that packets arrive
    /// whichever link or switch there dies (`c-mr4lms-fixed`); half as many groups go without sharing.
    #[arg(long, requires = "topology")]
    pub fault_tolerant: bool,
}

/// Verbs of `plan`.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Find how many table entries avoid all merging, and what smaller tables cost; exit 1 if none
    /// up to the limit avoids it.
    Capacity(CapacityArgs),
}

/// Options of `plan capacity`.
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// presets`).
    #[arg(long, value_name = "FILE|PRESET", requires = "what")]
    pub topology: String,
    /// The groups. MGIDs that a file gives stay; those it leaves out, and those of patterns, are
    /// chosen anew for every table size.
    #[command(flatten)]
    pub groups: GroupArgs,
    /// The engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Table sizes whose cost is wanted; left out, powers of two up to the answer.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = colors())]
    pub sizes: Vec<u16>,
    /// Largest table to try; every size from below is tried until one avoids merging.
    #[arg(long, value_name = "N", default_value_t = MAX_COLORS, value_parser = colors())]
    pub limit: u16,
    /// Folder for `capacity.csv`, `efi.svg`, `tfi.svg` and `trees.svg`.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Options of `route explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Name of the group; with `--topology`, its MGID too.
    #[arg(long)]
    pub group: String,
    /// Explain what would be routed on this topology, with no control plane: file as `ibnetdiscover`
    /// prints it, spec in TOML, or preset. No server is asked then.
    #[arg(long, value_name = "FILE|PRESET", requires = "what")]
    pub topology: Option<String>,
    /// The groups.
    #[command(flatten)]
    pub groups: GroupArgs,
    /// The engine.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors(), requires = "topology")]
    pub colors: u16,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}
