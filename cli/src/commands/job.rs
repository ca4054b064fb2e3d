//! `fabricast job`: nodes for jobs, so that no two jobs share a link, and groups for jobs.

mod plan;
mod reserve;
pub(crate) mod running;
mod text;

use clap::{Subcommand, value_parser};

use crate::args::{Format, ServerArgs, WatchArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};

/// Give nodes to jobs, so that no two jobs share a link, and reserve groups for them.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Place jobs without a running control plane; exit 1 if a job finds no room.
    ///
    /// No two jobs share a link. With `--format hostlist` the nodes of each job are printed as
    /// Slurm writes them, one line for each size.
    Plan(plan::PlanArgs),
    /// Allocate nodes to a job on a running control plane; exit 1 if it finds no room.
    Allocate(running::AllocateArgs),
    /// Reserve groups for a job on a running control plane; exit 1 if it may not have them.
    ///
    /// Prints the variables that the job's processes need. The same command with the same token
    /// extends the reservation.
    Reserve(reserve::ReserveArgs),
    /// End a job and free its nodes, and all groups that were reserved for it.
    Release {
        /// Name of the job.
        job: String,
        /// Only print which nodes would be free; change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show a job with its class, its groups and its nodes.
    Show {
        /// Name of the job.
        job: String,
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List all jobs with class, groups and nodes.
    List {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show the largest possible job of each class, and which jobs would have to move for a larger
    /// one.
    Report {
        /// Also print which jobs would have to move to make room for a job of N nodes; exit 1 if no
        /// moves are known.
        #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
        nodes: Option<u32>,
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
}

impl Run for JobCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        match self {
            Self::Plan(args) => plan::run(&args, format),
            Self::Allocate(args) => block_on(running::allocate(args, format)),
            Self::Reserve(args) => block_on(reserve::reserve(args, format)),
            Self::Release { job, dry_run, server } => {
                block_on(running::release(job, dry_run, &server, format))
            }
            Self::Show { job, watch, server } => {
                block_on(running::show(job, watch, &server, format))
            }
            Self::List { watch, server } => block_on(async {
                let remote = Remote::new(&server)?;
                output::watched(watch, format, async || running::list(&remote, format).await).await
            }),
            Self::Report { nodes, watch, server } => {
                block_on(running::report(nodes, watch, &server, format))
            }
        }
    }

    fn calls_running_parts(&self) -> bool {
        true
    }

    fn has_format(&self, format: Format) -> bool {
        let lists_nodes = matches!(self, Self::Plan(_) | Self::Allocate(_) | Self::Show { .. });
        format == Format::Hostlist && lists_nodes
    }
}
