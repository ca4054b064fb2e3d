//! `fabricast eval`: the papers' experiments as CSV, SVG and a comparison with published numbers.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use fabricast_evaluation::{
    self as evaluation, Claim, Experiment, Report, Step, experiments, find,
};
use serde::Serialize;

use crate::args::Format;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::progress::Progress;

/// One line of the list.
#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    shows: &'static str,
    source: &'static str,
}

/// Result of one experiment.
#[derive(Debug, Serialize)]
struct Found {
    experiment: &'static str,
    files: Vec<String>,
    claims: Vec<Claim>,
    notes: Vec<String>,
}

/// Run the papers' experiments; write CSV and SVG, and print published numbers next to ours.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Experiments to run; `all` runs all, `list` lists them.
    #[arg(required = true, value_name = "list|all|NAME")]
    names: Vec<String>,
    /// Output folder; each experiment gets a folder in it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run smaller variants, which take seconds.
    #[arg(long)]
    quick: bool,
    /// Rounds of every process in experiments that repeat collectives (`latency`); default: 200, or
    /// 12 with `--quick`. The paper uses 5000.
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroU32>,
    /// Seed of the random numbers; the same seed gives the same files, except for measured times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Run for EvalArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (args, format) = (&self, globals.format);
        if args.names.iter().any(|name| name == "list") {
            return match args.names.len() {
                1 => list(format),
                _ => Err(Failure::input("eval: 'list' stands alone")),
            };
        }
        let chosen = choose(&args.names)?;
        if args.rounds.is_some() && !chosen.iter().any(|one| one.repeats_rounds) {
            return Err(Failure::input(
                "--rounds: none of these experiments repeats anything in rounds",
            ));
        }
        let mut found = Vec::with_capacity(chosen.len());
        for experiment in chosen {
            let report = perform(experiment, args)?;
            let files = match &args.out {
                Some(out) => write(&out.join(experiment.name), experiment, &report)?,
                None => Vec::new(),
            };
            let Report { claims, notes, .. } = report;
            found.push(Found { experiment: experiment.name, files, claims, notes });
        }
        output::print(format, &found, |found| {
            found.iter().map(text).collect::<Vec<_>>().join("\n\n")
        })
    }
}

fn list(format: Format) -> Result<(), Failure> {
    let listed: Vec<Listed> = experiments()
        .iter()
        .map(|Experiment { name, title, source, .. }| Listed { name, shows: title, source })
        .collect();
    output::print(format, &listed, |listed| {
        let mut rows = Rows::new(&["EXPERIMENT", "SHOWS", "SOURCE"]);
        for one in listed {
            rows.push([one.name, one.shows, one.source].map(str::to_owned).to_vec());
        }
        rows.to_string()
    })
}

fn choose(names: &[String]) -> Result<Vec<&'static Experiment>, Failure> {
    if names.iter().any(|name| name == "all") {
        return match names.len() {
            1 => Ok(experiments().iter().collect()),
            _ => Err(Failure::input("eval: 'all' stands alone")),
        };
    }
    let chosen = names.iter().map(|name| {
        let unknown = || {
            let known: Vec<&str> = experiments().iter().map(|one| one.name).collect();
            Failure::input(format!("eval: no experiment '{name}'"))
                .hint(format!("one of {}, 'all' or 'list'", known.join(", ")))
        };
        find(name).ok_or_else(unknown)
    });
    chosen.collect()
}

fn perform(experiment: &Experiment, args: &EvalArgs) -> Result<Report, Failure> {
    let started = Instant::now();
    let mut bar: Option<Progress> = None;
    let report = (experiment.run)(&mut evaluation::Run {
        quick: args.quick,
        seed: args.seed,
        rounds: args.rounds,
        clock: &|| started.elapsed(),
        progress: &mut |Step { done, of, what }| {
            let bar = bar.get_or_insert_with(|| Progress::new(experiment.name, of));
            bar.at(done, what);
        },
    });
    if let Some(bar) = bar {
        bar.finish();
    }
    Ok(report.with_context(|| format!("eval {}", experiment.name))?)
}

fn write(folder: &Path, experiment: &Experiment, report: &Report) -> Result<Vec<String>, Failure> {
    std::fs::create_dir_all(folder).with_context(|| format!("make '{}'", folder.display()))?;
    let title = format!("{}: {} ({})", experiment.name, experiment.title, experiment.source);
    let files = report.files(&title);
    let places: Vec<_> = files.iter().map(|file| folder.join(&file.name)).collect();
    let pairs: Vec<(&Path, &str)> =
        places.iter().zip(&files).map(|(place, file)| (&**place, &*file.text)).collect();
    output::files(&pairs)?;
    Ok(places.iter().map(|place| place.display().to_string()).collect())
}

fn text(found: &Found) -> String {
    let mut rows = Rows::new(&["WHAT", "SOURCE", "PUBLISHED", "OURS", "VERDICT"]);
    for claim in &found.claims {
        let verdict = claim.verdict.to_string();
        let cells = [&claim.what, &claim.source, &claim.published, &claim.ours, &verdict];
        rows.push(cells.map(Clone::clone).to_vec());
    }
    let whys = found.claims.iter().filter(|claim| !claim.why.is_empty());
    let whys = whys.map(|claim| format!("{}: {}", claim.what, claim.why));
    let notes = found.notes.iter().map(|note| format!("note: {note}"));
    let files = found.files.iter().map(|file| format!("wrote {file}"));
    [rows.to_string()]
        .into_iter()
        .chain(whys)
        .chain(notes)
        .chain(files)
        .collect::<Vec<_>>()
        .join("\n")
}
