//! `fabricast eval`: the papers' experiments as CSV, SVG and a comparison with published numbers.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use fabricast_evaluation::{
    self as evaluation, Claim, Experiment, Hardware, Law, Length, NotCompared, Report, Step,
    experiments, find,
};
use serde::Serialize;

use crate::args::Format;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::progress::Progress;

/// Seeds of the full form.
const FIVE: NonZeroU32 = NonZeroU32::new(5).expect("5 is not 0");

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
    laws: Vec<Law>,
    not_compared: Vec<NotCompared>,
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
    /// Broadcasts of each measurement and seed in experiments that broadcast under load
    /// (`dawning`); default: 1000 of all seeds together, as in the paper, or what arrives in 1 ms
    /// with `--quick`.
    #[arg(long, value_name = "N")]
    broadcasts: Option<NonZeroU32>,
    /// First seed of the random numbers; the same seeds give the same files, except for measured
    /// times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds that everything with chance is repeated with; default: 5, or 1 with
    /// `--quick`.
    #[arg(long, value_name = "N")]
    seeds: Option<NonZeroU32>,
    /// Rates, delays, buffers and costs of adapters, TOML as `data/hardware.toml`; default: that
    /// file. Sections that FILE leaves out are as there.
    #[arg(long, value_name = "FILE")]
    hardware: Option<PathBuf>,
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
        let has = |length| chosen.iter().any(|one| one.length == length);
        if args.rounds.is_some() && !has(Length::Rounds) {
            return Err(Failure::input(
                "--rounds: none of these experiments repeats anything in rounds",
            ));
        }
        if args.broadcasts.is_some() && !has(Length::Broadcasts) {
            return Err(Failure::input(
                "--broadcasts: none of these experiments broadcasts under load",
            ));
        }
        let hardware = hardware(args.hardware.as_deref())?;
        let mut found = Vec::with_capacity(chosen.len());
        for experiment in chosen {
            let report = perform(experiment, args, &hardware)?;
            let files = match &args.out {
                Some(out) => write(&out.join(experiment.name), experiment, &report)?,
                None => Vec::new(),
            };
            let Report { claims, laws, not_compared, notes, .. } = report;
            let experiment = experiment.name;
            found.push(Found { experiment, files, claims, laws, not_compared, notes });
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

/// Reads the user's hardware, or gives ours.
fn hardware(path: Option<&Path>) -> Result<Hardware, Failure> {
    let Some(path) = path else { return Ok(Hardware::ours()) };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("read '{}'", path.display()))?;
    Hardware::parse(&text)
        .map_err(|error| Failure::input(format!("--hardware {}: {error}", path.display())))
}

fn perform(
    experiment: &Experiment,
    args: &EvalArgs,
    hardware: &Hardware,
) -> Result<Report, Failure> {
    let started = Instant::now();
    let mut bar: Option<Progress> = None;
    let report = (experiment.run)(&mut evaluation::Run {
        quick: args.quick,
        seed: args.seed,
        seeds: args.seeds.unwrap_or(if args.quick { NonZeroU32::MIN } else { FIVE }),
        hardware,
        rounds: args.rounds,
        broadcasts: args.broadcasts,
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
    let columns = ["WHAT", "SOURCE", "PUBLISHED", "OURS", "SEEDS: SPREAD", "TOLERANCE", "VERDICT"];
    let mut rows = Rows::new(&columns);
    for claim in &found.claims {
        let Claim { what, source, published, ours, spread, tolerance, .. } = claim;
        let verdict = claim.verdict.to_string();
        let cells = [what, source, published, ours, spread, tolerance, &verdict];
        rows.push(cells.map(Clone::clone).to_vec());
    }
    let whys = found.claims.iter().filter(|claim| !claim.why.is_empty());
    let whys = whys.map(|claim| format!("{}: {}", claim.what, claim.why));
    let laws = found.laws.iter().map(|law| {
        let holds = if law.holds { "holds" } else { "BROKEN" };
        let Law { what, source, demanded, found, .. } = law;
        format!("law {holds}: {what} ({source}): {demanded}; found: {found}")
    });
    let left_out = found.not_compared.iter().map(|NotCompared { what, source, why }| {
        format!("not compared: {what} ({source}), because {why}")
    });
    let notes = found.notes.iter().map(|note| format!("note: {note}"));
    let files = found.files.iter().map(|file| format!("wrote {file}"));
    [rows.to_string()]
        .into_iter()
        .chain(whys)
        .chain(laws)
        .chain(left_out)
        .chain(notes)
        .chain(files)
        .collect::<Vec<_>>()
        .join("\n")
}
