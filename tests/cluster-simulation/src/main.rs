//! Runs the simulation of clusters over many seeds: `cargo xtask cluster-sim`.
#![expect(clippy::print_stdout, reason = "the findings are its output")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Parser;
use fabricast_cluster_simulation::{FaultProfile, Scenario, run};
use parking_lot::Mutex;
use tracing::Level;

/// Simulates clusters of the shipped services under faults, and checks that they agree afterwards,
/// that nothing acknowledged is lost, and that packets arrive.
#[derive(Debug, Parser)]
#[command(name = "cluster-sim")]
struct Args {
    /// Number of seeds to run, each with every profile.
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run this fault profile only; may be repeated.
    #[arg(long = "profile")]
    profiles: Vec<FaultProfile>,
    /// Print what the services log at this level, such as `info`; one run at a time then.
    #[arg(long)]
    log: Option<Level>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let profiles =
        if args.profiles.is_empty() { FaultProfile::ALL.to_vec() } else { args.profiles };
    if let Some(level) = args.log {
        tracing_subscriber::fmt().with_max_level(level).without_time().init();
    }
    let names: Vec<&str> = profiles.iter().map(|profile| profile.name()).collect();
    println!("{} seeds from {} with {}", args.seeds, args.seed, names.join(", "));
    let seeds = args.seed..args.seed.saturating_add(args.seeds);
    let runs = seeds.flat_map(|seed| profiles.iter().map(move |profile| (seed, *profile)));
    let (next, broken) = (Mutex::new(runs), AtomicBool::new(false));
    let sums = Mutex::new((0_u64, 0_u64, 0_u64));
    let work = || {
        while !broken.load(Ordering::Relaxed) {
            let Some((seed, profile)) = next.lock().next() else { return };
            let scenario = Scenario::draw(seed, profile);
            match run(&scenario) {
                Ok(summary) => {
                    let mut sums = sums.lock();
                    sums.0 += 1;
                    sums.1 += summary.acknowledged;
                    sums.2 += summary.faults;
                }
                Err(error) => {
                    broken.store(true, Ordering::Relaxed);
                    print_violation(seed, profile, &scenario, &error);
                }
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..if args.log.is_some() { 1 } else { workers } {
            scope.spawn(work);
        }
    });
    let (runs, acknowledged, faults) = sums.into_inner();
    println!(
        "{runs} runs without violation; {acknowledged} joins and leaves acknowledged, {faults} faults"
    );
    if broken.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print_violation(seed: u64, profile: FaultProfile, scenario: &Scenario, error: &str) {
    println!("\nVIOLATION with --seed {seed} --seeds 1 --profile {}\n  {error}", profile.name());
    for fault in &scenario.faults {
        println!("  {fault}");
    }
}
