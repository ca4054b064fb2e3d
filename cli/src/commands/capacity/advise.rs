//! `fabricast capacity advise`: the engine of least cost for a fabric and its groups.

use clap::Args;
use serde::Serialize;

use crate::args::{CompareArgs, Format, OfflineEngineArgs, OfflineGroupArgs, colors};
use crate::commands::route::advice::Advised;
use crate::failure::Failure;
use crate::output;
use crate::plan_input::PlanInput;
use crate::progress::Progress;

/// Options of `capacity advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    input: OfflineGroupArgs,
    #[command(flatten)]
    engine: OfflineEngineArgs,
    /// Entries of each multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    colors: u16,
    #[command(flatten)]
    compare: CompareArgs,
}

/// Result of `capacity advise`.
#[derive(Debug, Serialize)]
struct Answer {
    topology: String,
    entries: u16,
    /// Engine of least cost among those that were tried.
    engine: &'static str,
    advice: Vec<Advised>,
}

/// Runs `capacity advise`.
///
/// # Errors
///
/// See [`Failure`].
pub(super) fn run(args: &AdviseArgs, format: Format) -> Result<(), Failure> {
    let OfflineGroupArgs { topology, groups } = &args.input;
    let mut input = PlanInput::read_for_choice(topology, groups, &args.engine)?;
    let progress = Progress::of_time("comparing engines");
    let advice = input.choose_engine(args.colors, args.compare.budget())?;
    progress.finish();
    let answer = Answer {
        engine: input.scenario().kind.name(),
        topology: input.topology.title,
        entries: args.colors,
        advice: advice.iter().map(Advised::of).collect(),
    };
    output::print(format, &answer, text)
}

fn text(answer: &Answer) -> String {
    let first = format!("engine {} for tables of {} entries", answer.engine, answer.entries);
    let lines = answer.advice.iter().map(Advised::line);
    lines.fold(first, |text, line| format!("{text}\n{line}"))
}
