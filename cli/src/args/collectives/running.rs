//! Verbs of `collective` on a running control plane.

use clap::{Args, ValueEnum, value_parser};
use fabricast_collectives::Operation;

use super::{ServerArgs, operation};

/// Options of `collective create`.
#[derive(Debug, Args)]
pub struct CreateCollectiveArgs {
    /// Name of the collective.
    pub collective: String,
    /// Group whose members take part.
    #[arg(long)]
    pub group: String,
    /// Tenant it belongs to.
    #[arg(long, default_value = "")]
    pub tenant: String,
    /// Job of the tenant it belongs to.
    #[arg(long, default_value = "")]
    pub job: String,
    /// What it will do.
    #[arg(long, value_delimiter = ',', value_parser = operation(),
        default_value = "barrier,broadcast,reduce,all-reduce")]
    pub operations: Vec<Operation>,
    /// Bytes of the smallest message.
    #[arg(long, default_value_t = 0)]
    pub min_bytes: u32,
    /// Bytes of the largest message.
    #[arg(long, default_value_t = 4096)]
    pub max_bytes: u32,
    /// Exit 1 if there is no switch tree, instead of running on adapters.
    #[arg(long)]
    pub require_switch_tree: bool,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// One collective.
#[derive(Debug, Args)]
pub struct CollectiveArgs {
    /// Name of the collective.
    pub collective: String,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options of `collective reserve`.
#[derive(Debug, Args)]
pub struct ReserveArgs {
    /// For whom.
    #[command(flatten)]
    pub holder: HolderArgs,
    /// Entries in each switch.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    pub entries: u16,
    /// In the switches on and above the leaf switches of these endpoints.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required = true)]
    pub endpoints: Vec<String>,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// A tenant, or one job of it.
#[derive(Debug, Args)]
pub struct HolderArgs {
    /// The tenant.
    #[arg(long)]
    pub tenant: String,
    /// One job of the tenant; left out, the tenant with all its jobs.
    #[arg(long)]
    pub job: Option<String>,
}

/// Options of `collective quota`.
#[derive(Debug, Args)]
pub struct QuotaArgs {
    /// Whose.
    #[command(flatten)]
    pub holder: HolderArgs,
    /// Most collectives; more are refused.
    #[arg(long, value_name = "N")]
    pub collectives: Option<u32>,
    /// Most entries of all switches together; collectives that would take more run on adapters.
    #[arg(long, value_name = "N")]
    pub entries: Option<u32>,
    /// Most entries of any one switch.
    #[arg(long, value_name = "N")]
    pub entries_per_switch: Option<u16>,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// How values are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReductionArg {
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Bits that all have.
    And,
    /// Bits that one has.
    Or,
}

/// Options of `collective run`.
#[derive(Debug, Args)]
pub struct RunCollectiveArgs {
    /// Name of the collective.
    pub collective: String,
    /// The operation.
    #[arg(long, default_value_t = Operation::AllReduce, value_parser = operation())]
    pub operation: Operation,
    /// How values are combined.
    #[arg(long, value_enum, default_value_t = ReductionArg::Sum)]
    pub reduction: ReductionArg,
    /// The process that sends (broadcast) or gets (reduce) the values.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub root: u32,
    /// What process N brings; given once for each process, in their order, or left out: process N then
    /// brings N+1.
    #[arg(long, value_name = "N", value_delimiter = ',', allow_hyphen_values = true)]
    pub values: Vec<i64>,
    /// How often to try again, after a switch died in the middle.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub retries: u32,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}
