//! `fabricast job plan`: places jobs on a fabric in a file.

use std::path::PathBuf;

use clap::{ArgGroup, Args, value_parser};
use fabricast_placement::{Job, JobAllocator, JobId, JobRefusal, Spread};
use serde::Serialize;

use super::text::{self, Fragments, Moving, Placed, Room};
use crate::args::Format;
use crate::failure::Failure;
use crate::job_input::JobInput;
use crate::output;
use crate::source::Topology;

/// Result of the command.
#[derive(Debug, Serialize)]
struct Outcome {
    placed: Vec<Placed>,
    refused: Vec<Refused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Fragments>,
}

/// A job for which there is no room.
#[derive(Debug, Serialize)]
struct Refused {
    size: u32,
    reason: String,
}

/// Options of `job plan`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("fabric").required(true).args(["topology", "slurm"])))]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["sizes", "report"])))]
pub(crate) struct PlanArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (`cluster`, `demo`,
    /// `paper`).
    #[arg(long, value_name = "FILE|PRESET")]
    topology: Option<String>,
    /// The fabric as Slurm's topology.conf describes it, instead of a topology.
    #[arg(long, value_name = "FILE")]
    slurm: Option<PathBuf>,
    /// Number of nodes of each job, in the order of placement.
    #[arg(long, value_name = "N,...", value_delimiter = ',',
        value_parser = value_parser!(u32).range(1..))]
    sizes: Vec<u32>,
    /// Running jobs: lines of a name and a list of nodes, such as `j7 node[001-016]`.
    #[arg(long, value_name = "FILE")]
    jobs: Option<PathBuf>,
    /// Nodes that no job may use.
    #[arg(long, value_name = "HOSTLIST")]
    down: Option<String>,
    /// Use a larger unit for a job if no unit of its class has room.
    #[arg(long)]
    spread: bool,
    /// Show the largest job of each class that still fits, and which jobs would have to move for a
    /// larger one.
    #[arg(long)]
    report: bool,
}

/// Runs `job plan`.
///
/// # Errors
///
/// [`Failure::No`] if a job finds no room, else what is wrong with which file.
pub(super) fn run(args: &PlanArgs, format: Format) -> Result<(), Failure> {
    let mut input = match (&args.topology, &args.slurm) {
        (Some(topology), _) => {
            JobInput::of_topology(&Topology::read(topology)?, args.down.as_deref())?
        }
        (None, Some(slurm)) => {
            if args.down.is_some() {
                return Err(Failure::input("--down needs --topology"));
            }
            JobInput::of_slurm(slurm)?
        }
        (None, None) => return Err(Failure::input("give --topology or --slurm")),
    };
    input.check_names()?;
    let mut allocator = input.running(args.jobs.as_deref())?;
    let mut outcome = place(args, &mut input, &mut allocator);
    if args.report {
        outcome.report = Some(report(&input, &allocator));
    }
    if format == Format::Hostlist {
        let lines = outcome.placed.iter().map(|placed| format!("{}\n", placed.nodes));
        output::print_text(&lines.collect::<String>())?;
    } else {
        output::print(format, &outcome, outcome_text)?;
    }
    match outcome.refused.as_slice() {
        [] => Ok(()),
        [refused] => Err(Failure::No(format!("no room: {}", refused.reason))),
        [first, more @ ..] => {
            let (count, reason) = (more.len() + 1, &first.reason);
            Err(Failure::No(format!("{count} jobs find no room, the first: {reason}")))
        }
    }
}

fn place(args: &PlanArgs, input: &mut JobInput, allocator: &mut JobAllocator) -> Outcome {
    let spread = if args.spread { Spread::Yes } else { Spread::No };
    let mut outcome = Outcome { placed: Vec::new(), refused: Vec::new(), report: None };
    let first = input.names.jobs.len();
    for (at, size) in args.sizes.iter().enumerate() {
        let id = JobId(u64::try_from(first + at).expect("jobs are counted"));
        let placed = allocator.allocate(id, *size, spread).cloned();
        match placed {
            Ok(job) => {
                input.names.jobs.insert(id, format!("new{}", at + 1));
                outcome.placed.push(describe(input, id, &job));
            }
            Err(refusal) => outcome.refused.push(refused(input, *size, &refusal)),
        }
    }
    outcome
}

fn refused(input: &JobInput, size: u32, refusal: &JobRefusal) -> Refused {
    Refused { size, reason: refusal.in_words(&input.names) }
}

fn describe(input: &JobInput, id: JobId, job: &Job) -> Placed {
    Placed {
        job: input.names.jobs[&id].clone(),
        size: job.nodes.len(),
        class: job.class.to_string(),
        place: input
            .positions
            .place_of(&job.nodes)
            .map_or_else(String::new, |(level, unit)| input.names.unit(level, unit)),
        nodes: input.hostlist(&job.nodes),
    }
}

fn report(input: &JobInput, allocator: &JobAllocator) -> Fragments {
    let found = allocator.report();
    let classes = found.classes.into_iter().map(|class| Room {
        class: class.class.to_string(),
        least: class.least,
        most: class.most,
        fits: class.fits,
        after_moves: class.after,
        moves: class
            .moves
            .iter()
            .map(|one| Moving {
                job: input.names.jobs[&one.job].clone(),
                from: input.hostlist(&one.from),
                to: input.hostlist(&one.to),
            })
            .collect(),
    });
    Fragments { live: found.live, free: found.free, classes: classes.collect() }
}

fn outcome_text(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    if !outcome.placed.is_empty() {
        parts.push(text::jobs(&outcome.placed));
    }
    parts.extend(outcome.report.as_ref().map(text::report));
    if parts.is_empty() { "no job was placed".to_owned() } else { parts.join("\n\n") }
}
