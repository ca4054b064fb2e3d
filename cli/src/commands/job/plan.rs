//! `fabricast job plan`: places jobs on a fabric in a file.

use fabricast_routing::jobs::{Job, JobAllocator, JobId, JobRefusal, Spread};
use serde::Serialize;

use super::Ground;
use super::text::{self, Fragments, Moving, Placed, Room};
use crate::args::{Format, JobPlanArgs};
use crate::failure::Failure;
use crate::output;
use crate::source::Topology;

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    placed: Vec<Placed>,
    refused: Vec<Refused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Fragments>,
}

/// A job that found no room.
#[derive(Debug, Serialize)]
struct Refused {
    size: u32,
    reason: String,
}

/// Runs `job plan`.
///
/// # Errors
///
/// [`Failure::No`] if a job finds no room, else what is wrong with which file.
pub(super) fn run(args: &JobPlanArgs, format: Format) -> Result<(), Failure> {
    let mut ground = match (&args.topology, &args.slurm) {
        (Some(topology), _) => {
            Ground::of_topology(&Topology::read(topology)?, args.down.as_deref())?
        }
        (None, Some(slurm)) => {
            if args.down.is_some() {
                return Err(Failure::input("--down needs --topology"));
            }
            Ground::of_slurm(slurm)?
        }
        (None, None) => return Err(Failure::input("give --topology or --slurm")),
    };
    ground.check_names()?;
    let mut allocator = ground.running(args.jobs.as_deref())?;
    let mut outcome = place(args, &mut ground, &mut allocator);
    if args.report {
        outcome.report = Some(report(&ground, &allocator));
    }
    if format == Format::Hostlist {
        let lines = outcome.placed.iter().map(|placed| format!("{}\n", placed.nodes));
        output::raw(&lines.collect::<String>())?;
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

fn place(args: &JobPlanArgs, ground: &mut Ground, allocator: &mut JobAllocator) -> Outcome {
    let spread = if args.spread { Spread::Yes } else { Spread::No };
    let mut outcome = Outcome { placed: Vec::new(), refused: Vec::new(), report: None };
    let first = ground.names.jobs.len();
    for (at, size) in args.sizes.iter().enumerate() {
        let id = JobId(u64::try_from(first + at).expect("jobs are counted"));
        let placed = allocator.allocate(id, *size, spread).cloned();
        match placed {
            Ok(job) => {
                ground.names.jobs.insert(id, format!("new{}", at + 1));
                outcome.placed.push(describe(ground, id, &job));
            }
            Err(refusal) => outcome.refused.push(refused(ground, *size, &refusal)),
        }
    }
    outcome
}

fn refused(ground: &Ground, size: u32, refusal: &JobRefusal) -> Refused {
    Refused { size, reason: refusal.in_words(&ground.names) }
}

fn describe(ground: &Ground, id: JobId, job: &Job) -> Placed {
    Placed {
        job: ground.names.jobs[&id].clone(),
        size: job.nodes.len(),
        class: job.class.to_string(),
        place: ground
            .ground
            .place_of(&job.nodes)
            .map_or_else(String::new, |(level, unit)| ground.names.unit(level, unit)),
        nodes: ground.hostlist(&job.nodes),
    }
}

fn report(ground: &Ground, allocator: &JobAllocator) -> Fragments {
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
                job: ground.names.jobs[&one.job].clone(),
                from: ground.hostlist(&one.from),
                to: ground.hostlist(&one.to),
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
