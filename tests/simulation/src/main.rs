//! Runs the simulation over many seeds: `cargo xtask sim`.
#![expect(clippy::print_stdout, reason = "the findings are its output")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fabricast_simulation::routing::RouteScenario;
use fabricast_simulation::{FaultProfile, Play, Scenario, shrink, sweep};

/// Simulates group management and the programming of switches under faults; checks rules G1 to G5
/// and R1 to R5 at every step.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Args {
    /// Number of seeds to run, each with every profile.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stop after this time, in minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Run this fault profile only; may be repeated.
    #[arg(long = "profile")]
    profiles: Vec<FaultProfile>,
    /// Print only whether a rule was broken and with which seed.
    #[arg(long)]
    brief: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let profiles =
        if args.profiles.is_empty() { FaultProfile::ALL.to_vec() } else { args.profiles };
    let names: Vec<&str> = profiles.iter().map(|profile| profile.name()).collect();
    println!("{} seeds from {} with {}", args.seeds, args.seed, names.join(", "));
    let swept = sweep(args.seed, args.seeds, &profiles, args.minutes.map(Duration::from_mins));
    println!(
        "{} runs without violation; {} messages delivered, {} decisions",
        swept.runs, swept.total.delivered, swept.total.decisions
    );
    let Some((seed, profile, broken)) = swept.broken else { return ExitCode::SUCCESS };
    println!("\nVIOLATION with --seed {seed} --seeds 1 --profile {}\n  {broken}", profile.name());
    if args.brief {
        return ExitCode::FAILURE;
    }
    // The panic message was printed once; the runs of the search stay silent.
    std::panic::set_hook(Box::new(|_| {}));
    match profile.is_routing() {
        true => print_shortened(RouteScenario::draw(seed, profile), &broken),
        false => print_shortened(Scenario::draw(seed, profile), &broken),
    }
    ExitCode::FAILURE
}

/// Prints the shortened scenario.
fn print_shortened<P: Play + std::fmt::Debug>(mut scenario: P, broken: &str) {
    let mut short = shrink(&scenario, broken);
    let all = scenario.actions().len();
    println!("\n{} of {all} actions break the same rule:", short.actions().len());
    for (at, action) in short.actions().iter() {
        println!("  {:>9.3} s  {action:?}", Duration::from_nanos(at.0).as_secs_f64());
    }
    println!("  {}", short.play().err().unwrap_or_default());
    short.actions().clear();
    println!("  in {short:?}");
}
