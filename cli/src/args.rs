//! The command line: every verb, flag and default, in one definition.

mod certs;
mod collectives;
mod debug;
mod demo;
mod jobs;
mod offline;
mod planning;
mod running;
mod store;
mod traces;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, value_parser};
use fabricast_routing::{EngineKind, MAX_COLORS, RootPolicy};
use fabricast_tic::StoreLocation;

pub use certs::{CertsCommand, IssueArgs};
pub use collectives::{
    CollectiveArgs, CollectiveCommand, CollectivePlanArgs, CostArgs, CreateCollectiveArgs, FitArgs,
    HolderArgs, ModelArgs, QuotaArgs, ReductionArg, ReserveArgs, RunCollectiveArgs, TreeArgs,
    TreeChoice, WorkArgs,
};
pub use debug::{BundleArgs, DebugCommand};
pub use demo::{DemoArgs, RunningClusterArgs};
pub use jobs::{JobAllocateArgs, JobCommand, JobPlanArgs};
pub use offline::{EvalArgs, PlanArgs, RouteCommand, TopologyCommand, VerifyArgs};
pub use planning::{
    CapacityArgs, EngineArgs, ExplainArgs, GroupArgs, Layers, PlanCommand, Scope, Tables,
};
pub use running::{
    ElementArgs, FabricCommand, FormArgs, GroupCommand, HealthArgs, MemberArgs, NewGroupArgs,
    NodeArgs, NodeCommand, NodeEndArgs, RunArgs, ServerArgs, SwitchArgs, SwitchCommand, TableArgs,
};
pub use store::StoreCommand;
pub use traces::TraceArgs;

/// Control plane for hardware multicast on fat-tree fabrics.
#[derive(Debug, Parser)]
#[command(name = "fabricast", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// How results are printed.
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Traces of it.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// The verb as it was written, such as `group join`.
    #[arg(skip)]
    pub verb: String,
}

impl Cli {
    /// Reads the arguments of this process.
    ///
    /// # Errors
    ///
    /// What is wrong with them, or that help was asked for.
    pub fn read() -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches()?;
        let mut words = Vec::new();
        let mut inner = matches.subcommand();
        while let Some((word, more)) = inner {
            words.push(word);
            inner = more.subcommand();
        }
        let verb = words.join(" ");
        Ok(Self { verb, ..Self::from_arg_matches(&matches)? })
    }
}

/// How results are printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Table,
    /// JSON for programs.
    Json,
    /// Nodes as Slurm writes them; verbs of `job`.
    #[value(hide = true)]
    Hostlist,
    /// Slurm's topology.conf; `topology export`.
    #[value(hide = true)]
    Slurm,
}

/// Numbers of colors that a fabric can have.
fn colors() -> clap::builder::RangedI64ValueParser<u16> {
    value_parser!(u16).range(1..=i64::from(MAX_COLORS))
}

/// The engines that can be asked for.
fn engine_kind() -> impl TypedValueParser<Value = EngineKind> {
    PossibleValuesParser::new(EngineKind::ALL.iter().map(|kind| kind.name()))
        .try_map(|name| name.parse::<EngineKind>())
}

/// The root policies that can be asked for.
fn root_policy() -> impl TypedValueParser<Value = RootPolicy> {
    PossibleValuesParser::new(RootPolicy::ALL.map(|policy| policy.name()))
        .try_map(|name| name.parse::<RootPolicy>())
}

/// Reads how many members of a group send: a check in which nobody sends checks nothing.
fn senders(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("with no sender nothing is checked, give 1 or more".to_owned()),
        Ok(senders) => Ok(senders),
        Err(error) => Err(format!("{error}")),
    }
}

/// The nouns.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the main job on the emulated fabric, start to finish; exit 0 only if every check held.
    Demo(DemoArgs),
    /// Run every part in one process and serve until interrupted.
    Up(UpArgs),
    /// Start local processes as one group, each with a rank; exit with the code of the worst of them.
    Run(RunArgs),
    /// Wait until a launcher is gone, and kill the processes that it has left; `run` starts this.
    #[command(hide = true)]
    RunKeeper,
    /// Run the topology information center alone.
    Tic(ServeArgs),
    /// Run the route service alone.
    Router(ServeArgs),
    /// Run the emulated fabric alone, or break, mend and probe a running one.
    Fabric(FabricArgs),
    /// Run operating agents (with the group agents they host) alone.
    OperatingAgent(ServeArgs),
    /// Run a switch agent alone.
    SwitchAgent(ServeArgs),
    /// Generate, read, check and show topologies.
    #[command(subcommand)]
    Topology(TopologyCommand),
    /// Plan, verify and explain routes.
    #[command(subcommand)]
    Route(RouteCommand),
    /// Say what a fabric and its groups need.
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Give nodes to jobs, so that no two jobs share a link.
    #[command(subcommand)]
    Job(JobCommand),
    /// Trees for collective operations in the network: planned, allocated, run.
    #[command(subcommand)]
    Collective(CollectiveCommand),
    /// Run the papers' experiments: CSV, SVG, and published numbers beside ours.
    Eval(EvalArgs),
    /// Create, join, leave and show groups of a running control plane.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Show, expel, stop and start nodes of a running control plane.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show switches, their tables and ports through the switch agent.
    #[command(subcommand)]
    Switch(SwitchCommand),
    /// Write the records of a store to a file, check it, and read it into another store.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Ask a server whether it serves; exit 1 if not. For probes of containers.
    Health(HealthArgs),
    /// Collect what is needed to look into a problem.
    #[command(subcommand)]
    Debug(DebugCommand),
    /// Make an authority and the certificates of a cluster that has nobody else to make them.
    #[command(subcommand)]
    Certs(CertsCommand),
}

/// Options of `up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// File as `ibnetdiscover` prints it, a topology spec in TOML, or a preset: `cluster` (real,
    /// 96 hosts; taken if left out), `demo` (2 048 endpoints) or `paper` (32 768 endpoints).
    #[arg(long, value_name = "FILE|PRESET")]
    pub topology: Option<String>,
    /// What computes the trees.
    #[arg(long, default_value_t = EngineKind::CMr4lmsFixed, value_parser = engine_kind())]
    pub engine: EngineKind,
    /// Give every group two trees that share nothing above the leaf switches, so that packets arrive
    /// whichever link or switch there dies (`c-mr4lms-fixed`).
    #[arg(long)]
    pub fault_tolerant: bool,
    /// How roots are chosen where several are equally good: by the load that port counters show, but for
    /// `cyclic`. Left out, by the engine's own order; not for `c-mr4lms-fixed` and `global-tree`.
    #[arg(long, value_parser = root_policy())]
    pub root_policy: Option<RootPolicy>,
    /// File for the records, `memory`, or etcd://host:port,.../prefix with ?certificates=FOLDER or,
    /// across machines, ?plaintext.
    #[arg(long, value_name = "FILE|memory|URL", default_value = "memory")]
    pub store: StoreLocation,
    /// Address at which all services answer; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7400")]
    pub listen: std::net::SocketAddr,
    /// Accept that nothing is encrypted, and everybody may call, if that can be reached from other machines.
    #[arg(long)]
    pub plaintext: bool,
    /// Unix domain socket at which processes of this machine attach, to any of the nodes; left out,
    /// none can.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    pub colors: u16,
}

/// Options of a part that runs alone.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Settings of the part, in TOML.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Check the settings and exit.
    #[arg(long)]
    pub check_config: bool,
    /// Address at which GET /metrics is answered, as Prometheus asks; left out, none.
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
}

/// `fabric`: run it, or break and mend a running one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct FabricArgs {
    /// Run the emulated fabric with these settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the settings and exit.
    #[arg(long, requires = "config")]
    pub check_config: bool,
    /// Address at which GET /metrics is answered, as Prometheus asks; left out, none.
    #[arg(long, requires = "config", value_name = "IP:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
    /// What to do to a running fabric.
    #[command(subcommand)]
    pub command: Option<FabricCommand>,
}
