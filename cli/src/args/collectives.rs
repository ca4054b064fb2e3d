//! Verbs of `collective`.

mod running;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand, ValueEnum, value_parser};
use fabricast_collectives::{Operation, Term};

use super::{GroupArgs, ServerArgs};

pub use running::{
    CollectiveArgs, CreateCollectiveArgs, HolderArgs, QuotaArgs, ReductionArg, ReserveArgs,
    RunCollectiveArgs,
};

/// Verbs of `collective`.
#[derive(Debug, Subcommand)]
pub enum CollectiveCommand {
    /// Say what operations cost on both kinds of trees, and how wide trees should be.
    Cost(CostArgs),
    /// Find the constants of the cost model from measured times.
    Fit(FitArgs),
    /// Build the tree of a collective over some endpoints, and say why this kind.
    Tree(TreeArgs),
    /// Give all groups their trees, one after the other, without a running control plane.
    Plan(CollectivePlanArgs),
    /// Give a group of a running control plane a tree for collectives.
    Create(CreateCollectiveArgs),
    /// Release a collective; its entries are free then.
    Release(CollectiveArgs),
    /// Show a collective with its processes and trees.
    Show(CollectiveArgs),
    /// List collectives.
    List {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Say who holds and keeps the entries of which switches.
    Usage {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Keep entries for a tenant or job; exit 1 if a switch has too few.
    Reserve(ReserveArgs),
    /// End a reservation.
    Cancel {
        /// Its number.
        reservation: u32,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Limit a tenant or job; without any limit, take the limits away.
    Quota(QuotaArgs),
    /// Let all processes of a collective take part in one run over the emulated fabric, and check what they
    /// get; exit 1 if no run ends well.
    Run(RunCollectiveArgs),
}

/// What trees cost and how wide they may be.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Constants of the cost model in TOML, as `collective fit --out` writes them; left out, those that
    /// the paper publishes (its times per byte are unknown, and 0).
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// Most children of an adapter.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    pub adapter_children: u32,
    /// Most children of a switch.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(2..))]
    pub switch_children: u32,
}

/// What a collective does.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// The operation.
    #[arg(long, default_value_t = Operation::AllReduce, value_parser = operation())]
    pub operation: Operation,
    /// Bytes of a message.
    #[arg(long, default_value_t = 8)]
    pub bytes: u32,
}

/// Options of `collective cost`.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// Processes.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub processes: u32,
    /// The operation; left out, all.
    #[arg(long, value_parser = operation())]
    pub operation: Option<Operation>,
    /// Bytes of messages.
    #[arg(long, value_delimiter = ',', default_value = "8,64,512,2048,16384,131072")]
    pub sizes: Vec<u32>,
    /// How much slower than the best width another may be, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 0.1, value_parser = not_negative)]
    pub tolerance: f64,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// Options of `collective fit`.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// Measured times: CSV if the name ends in `.csv`, else JSON lines; fields `operation`, `bytes`,
    /// `processes`, `width`, `tree` (adapter or switch) and `seconds`.
    #[arg(long, value_name = "FILE")]
    pub measurements: PathBuf,
    /// Links of the path between two processes of the fabric that was measured.
    #[arg(long, value_name = "N", default_value_t = 4.0, value_parser = not_negative)]
    pub path_links: f64,
    /// A constant that is known, such as `matching_us=0.01`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = given)]
    pub given: Vec<(Term, f64)>,
    /// Output file for the constants, to be given as `--parameters`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The kind of tree asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TreeChoice {
    /// Whichever is faster.
    Best,
    /// Processes' adapters reduce (type I).
    Adapter,
    /// Switches reduce (type II).
    Switch,
}

/// Options of `collective tree`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("who").required(true).args(["endpoints", "first"])))]
pub struct TreeArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// presets`).
    #[arg(long, value_name = "FILE|PRESET")]
    pub topology: String,
    /// The endpoint of each process, in their order.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub endpoints: Vec<String>,
    /// Instead, the first so many endpoints of the topology.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub first: Option<u32>,
    /// The kind of tree.
    #[arg(long, value_enum, default_value_t = TreeChoice::Best)]
    pub kind: TreeChoice,
    /// Width of an adapter tree; left out, the one that costs least.
    #[arg(long, value_name = "K", value_parser = value_parser!(u32).range(2..))]
    pub width: Option<u32>,
    /// What the collective does.
    #[command(flatten)]
    pub work: WorkArgs,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// Options of `collective plan`.
#[derive(Debug, Args)]
pub struct CollectivePlanArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// presets`).
    #[arg(long, value_name = "FILE|PRESET", requires = "what")]
    pub topology: String,
    /// The groups.
    #[command(flatten)]
    pub groups: GroupArgs,
    /// Entries of a switch's aggregation engine.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub entries: u16,
    /// What the collectives do.
    #[command(flatten)]
    pub work: WorkArgs,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// The operations that can be asked for.
pub(super) fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(Operation::ALL.map(Operation::name)).map(|name| {
        let is_it = |one: &Operation| one.name() == name;
        Operation::ALL.into_iter().find(is_it).expect("only names of operations are possible")
    })
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let right = number.is_finite() && number >= 0.0;
    if right { Ok(number) } else { Err("must be a number of at least 0".to_owned()) }
}

fn given(text: &str) -> Result<(Term, f64), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    let term = Term::ALL.into_iter().find(|term| term.field() == name).ok_or_else(|| {
        let names = Term::ALL.map(Term::field).join(", ");
        format!("no constant '{name}', there are {names}")
    })?;
    Ok((term, not_negative(value).map_err(|problem| format!("{name}: {problem}"))?))
}
