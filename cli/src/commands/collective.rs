//! `fabricast collective`: trees for collective operations.

mod constants;
mod cost;
mod fit;
mod live;
mod model;
mod plan;
mod run;
mod running;
mod tree;

use clap::Subcommand;

use crate::args::{ServerArgs, WatchArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};

pub(super) use model::parameters;

/// Plan, allocate and run trees for collective operations in the network.
#[derive(Debug, Subcommand)]
pub(crate) enum CollectiveCommand {
    /// Estimate the cost of operations on both kinds of trees, and the best tree widths.
    #[command(alias = "cost")]
    Estimate(cost::CostArgs),
    /// Fit the constants of the cost model to measured times.
    Fit(fit::FitArgs),
    /// Show the constants that `fit --live` has measured, by which new groups get their trees.
    Constants(constants::ConstantsArgs),
    /// Build the tree of a collective over some endpoints, and print why it is of this kind.
    #[command(alias = "tree")]
    Explain(tree::TreeArgs),
    /// Allocate trees for all groups in turn, without a running control plane.
    Plan(plan::PlanArgs),
    /// Allocate a tree for a group of a running control plane.
    Create(running::CreateArgs),
    /// Delete a collective, and release its table entries.
    Delete(running::CollectiveArgs),
    /// Show a collective with its processes and trees.
    Show {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        collective: running::CollectiveArgs,
    },
    /// List all collectives with state and entries used.
    List {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show the switches with used or reserved entries, and the entries of each tenant and job.
    Usage(running::UsageArgs),
    /// Reserve entries for a tenant or job; exit 1 if a switch has too few.
    Reserve(running::ReserveArgs),
    /// Release reserved entries. A name that is no number is that of a collective to delete, as in
    /// older versions; a number that is both is refused.
    Release {
        /// Number of the reservation, as `collective usage` shows it.
        reservation: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Older name of `collective release`, for reservations alone.
    #[command(hide = true)]
    Cancel {
        /// Number of the reservation.
        reservation: u32,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Limit a tenant or job; without any limit option, remove its limits.
    #[command(alias = "quota")]
    Limit(running::QuotaArgs),
    /// Run an operation once with all processes of a collective on the emulated fabric, and check
    /// the results; exit 1 if no run succeeds.
    Run(run::RunArgs),
}

impl Run for CollectiveCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        match self {
            Self::Estimate(args) => cost::run(&args, format),
            Self::Fit(args) => fit::run(&args, format),
            Self::Constants(args) => block_on(constants::run(args, format)),
            Self::Explain(args) => tree::run(&args, format),
            Self::Plan(args) => plan::run(&args, format),
            Self::Create(args) => block_on(running::create(args, format)),
            Self::Delete(args) => block_on(running::delete(args, format)),
            Self::Show { watch, collective } => block_on(running::show(collective, watch, format)),
            Self::List { watch, server } => block_on(async {
                let remote = Remote::new(&server)?;
                output::watched(watch, format, async || running::list(&remote, format).await).await
            }),
            Self::Usage(args) => block_on(running::usage(args, format)),
            Self::Reserve(args) => block_on(running::reserve(args, format)),
            Self::Release { reservation, server } => {
                block_on(running::release(reservation, server, format))
            }
            Self::Cancel { reservation, server } => block_on(async {
                running::cancel(&Remote::new(&server)?, reservation, format).await
            }),
            Self::Limit(args) => block_on(running::quota(args, format)),
            Self::Run(args) => block_on(run::run(args, format)),
        }
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}
