//! Runs the simulation over many seeds: `cargo xtask sim`.
#![expect(clippy::print_stdout, reason = "what was found is its output")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fabricast_simulation::routing::RouteScenario;
use fabricast_simulation::{Mix, Play, Scenario, shrink, sweep};

/// Simulates group management, and programming switches, under faults; checks rules G1 to G5 and R1 to R5 at every
/// step.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Args {
    /// How many seeds to run, each with every mix.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stop after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Run this mix of faults only; may be given several times.
    #[arg(long = "mix")]
    mixes: Vec<Mix>,
    /// Only say whether a rule was broken and with which seed.
    #[arg(long)]
    brief: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mixes = if args.mixes.is_empty() { Mix::ALL.to_vec() } else { args.mixes };
    let names: Vec<&str> = mixes.iter().map(|mix| mix.name()).collect();
    println!("{} seeds from {} with {}", args.seeds, args.seed, names.join(", "));
    let swept = sweep(args.seed, args.seeds, &mixes, args.minutes.map(Duration::from_mins));
    println!(
        "{} runs without violation; {} messages delivered, {} decisions",
        swept.runs, swept.total.delivered, swept.total.decisions
    );
    let Some((seed, mix, broken)) = swept.broken else { return ExitCode::SUCCESS };
    println!("\nVIOLATION with --seed {seed} --seeds 1 --mix {}\n  {broken}", mix.name());
    if args.brief {
        return ExitCode::FAILURE;
    }
    // The text of a panic tells more than once; while it is looked for again and again, less is more.
    std::panic::set_hook(Box::new(|_| {}));
    match mix.is_of_routes() {
        true => tell_short(RouteScenario::draw(seed, mix), &broken),
        false => tell_short(Scenario::draw(seed, mix), &broken),
    }
    ExitCode::FAILURE
}

/// Prints what is left of a scenario.
fn tell_short<P: Play + std::fmt::Debug>(mut scenario: P, broken: &str) {
    let mut short = shrink(&scenario, broken);
    let all = scenario.deeds().len();
    println!("\n{} of {all} deeds break the same rule:", short.deeds().len());
    for (at, deed) in short.deeds().iter() {
        println!("  {:>9.3} s  {deed:?}", Duration::from_nanos(at.0).as_secs_f64());
    }
    println!("  {}", short.play().err().unwrap_or_default());
    short.deeds().clear();
    println!("  in {short:?}");
}
