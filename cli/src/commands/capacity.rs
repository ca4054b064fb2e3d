//! `fabricast capacity`: what a fabric and its groups need, with no control plane.

mod advise;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use fabricast_evaluation::capacity_report;
use fabricast_routing::MAX_COLORS;
use fabricast_routing::{Capacity, CapacityQuestion, CapacityStep, SizeCost, capacity};
use fabricast_topology::TableKind;
use serde::Serialize;

use crate::args::{Format, OfflineEngineArgs, OfflineGroupArgs, colors};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::plan_input::{PlanInput, table_kind};
use crate::progress::Progress;

/// Compute the table size and the engine that a fabric and its groups need.
#[derive(Debug, Subcommand)]
pub(crate) enum CapacityCommand {
    /// Find the smallest table that avoids all merging of groups, and the cost of smaller tables;
    /// exit 1 if none up to the limit avoids it.
    #[command(alias = "capacity")]
    Plan(PlanArgs),
    /// Name the routing engine of least cost, and say why: the fewest groups without a tree, then
    /// the fewest members cut off, then the least maximum EFI, then the least maximum TFI.
    Advise(advise::AdviseArgs),
}

/// Options of `capacity plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    input: OfflineGroupArgs,
    #[command(flatten)]
    engine: OfflineEngineArgs,
    /// Table sizes to report the cost of; default: powers of two up to the answer.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = colors())]
    sizes: Vec<u16>,
    /// Largest table to try; sizes are tried in ascending order until one avoids merging.
    #[arg(long, value_name = "N", default_value_t = MAX_COLORS, value_parser = colors())]
    limit: u16,
    /// Folder for `capacity.csv`, `efi.svg`, `tfi.svg` and `trees.svg`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Run for CapacityCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        match self {
            Self::Plan(args) => plan_capacity(&args, format),
            Self::Advise(args) => advise::run(&args, format),
        }
    }
}

/// Result of `capacity plan`.
#[derive(Debug, Serialize)]
struct Answer {
    topology: String,
    engine: &'static str,
    tables: &'static str,
    /// Entries of the smallest table that avoids all merging; none if there is none up to the
    /// limit.
    entries: Option<u16>,
    limit: u16,
    /// Entries below which no engine can avoid merging.
    lower_bound: u32,
    sizes_tried: u32,
    sizes: Vec<Size>,
    files: Vec<String>,
}

/// One size of table.
#[derive(Debug, Serialize)]
struct Size {
    entries: u16,
    /// False if there are fewer entries than layers of groups; then there are no figures.
    routed: bool,
    #[serde(flatten)]
    figures: Option<Figures>,
}

/// Cost of tables of one size.
#[derive(Debug, Serialize)]
struct Figures {
    merging: bool,
    groups: u32,
    trees: u32,
    unrouted: u32,
    cut_off: u32,
    max_tfi: u32,
    mean_tfi: f64,
    max_efi: u32,
    mean_efi: f64,
    entries_used: u32,
}

fn plan_capacity(args: &PlanArgs, format: Format) -> Result<(), Failure> {
    let input = PlanInput::read(&args.input.topology, &args.input.groups, &args.engine)?;
    let question = CapacityQuestion { limit: args.limit, sizes: args.sizes.clone() };
    let mut bar: Option<Progress> = None;
    let found = capacity(&input.scenario(), &question, &mut |step| show(&mut bar, step));
    if let Some(bar) = bar {
        bar.finish();
    }
    let found = found.map_err(|error| input.failure(error))?;
    let tables = match table_kind(args.engine.engine.tables) {
        TableKind::PerPort => "per-port",
        TableKind::PerSwitch => "per-switch",
    };
    let title = format!("{}, {}, {tables} tables", input.topology.title, args.engine.engine.kind);
    let files = match &args.out {
        Some(folder) => write(folder, &title, &found)?,
        None => Vec::new(),
    };
    let answer = Answer {
        topology: input.topology.title,
        engine: args.engine.engine.kind.name(),
        tables,
        entries: found.least,
        limit: found.limit,
        lower_bound: found.bound,
        sizes_tried: found.tried,
        sizes: found.sizes.iter().map(Size::of).collect(),
        files,
    };
    output::print(format, &answer, text)?;
    match answer.entries {
        Some(_) => Ok(()),
        None => Err(Failure::No(format!(
            "no table of up to {} entries avoids all merging with {}",
            answer.limit, answer.engine
        ))),
    }
}

fn show(bar: &mut Option<Progress>, step: CapacityStep) {
    match step {
        CapacityStep::Try { colors, done, of } => {
            let of = usize::try_from(of).unwrap_or(usize::MAX);
            let bar = bar.get_or_insert_with(|| Progress::new("capacity", of));
            bar.at(usize::try_from(done).unwrap_or(usize::MAX), &format!("{colors} entries"));
        }
        CapacityStep::Cost { colors } => {
            if let Some(bar) = bar {
                bar.say(&format!("cost of {colors}"));
            }
        }
    }
}

fn write(folder: &Path, title: &str, found: &Capacity) -> Result<Vec<String>, Failure> {
    std::fs::create_dir_all(folder).with_context(|| format!("make '{}'", folder.display()))?;
    let files = capacity_report(title, found).drawn();
    let places: Vec<_> = files.iter().map(|file| folder.join(&file.name)).collect();
    let pairs: Vec<(&Path, &str)> =
        places.iter().zip(&files).map(|(place, file)| (&**place, &*file.text)).collect();
    output::files(&pairs)?;
    Ok(places.iter().map(|place| place.display().to_string()).collect())
}

impl Size {
    fn of(one: &SizeCost) -> Self {
        let figures = one.cost.map(|cost| Figures {
            merging: !cost.avoids_merging(),
            groups: cost.metrics.groups,
            trees: cost.metrics.trees,
            unrouted: cost.unrouted,
            cut_off: cost.cut_off,
            max_tfi: cost.metrics.max_tfi,
            mean_tfi: cost.metrics.mean_tfi,
            max_efi: cost.metrics.switch_links.max_efi,
            mean_efi: cost.metrics.switch_links.mean_efi,
            entries_used: cost.metrics.max_entries,
        });
        Self { entries: one.colors, routed: figures.is_some(), figures }
    }

    fn merges(&self) -> bool {
        self.figures.as_ref().is_some_and(|figures| figures.merging)
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.entries.to_string()];
        if let Some(figures) = &self.figures {
            cells.extend([
                if figures.merging { "yes" } else { "no" }.to_owned(),
                figures.groups.to_string(),
                figures.trees.to_string(),
                figures.unrouted.to_string(),
                format!("{} / {:.2}", figures.max_tfi, figures.mean_tfi),
                format!("{} / {:.2}", figures.max_efi, figures.mean_efi),
                figures.entries_used.to_string(),
            ]);
        } else {
            cells.push("fewer than layers".to_owned());
            cells.resize(TITLES.len(), "-".to_owned());
        }
        cells
    }
}

const TITLES: [&str; 8] = [
    "ENTRIES",
    "MERGING",
    "GROUPS",
    "TREES",
    "UNROUTED",
    "TFI MAX / MEAN",
    "EFI MAX / MEAN",
    "USED",
];

fn text(answer: &Answer) -> String {
    let first = match answer.entries {
        Some(least) => format!("{least} entries avoid all merging, and no fewer do"),
        None => format!("no table of up to {} entries avoids all merging", answer.limit),
    };
    let bound = match answer.lower_bound {
        u32::MAX => "with this engine no number of entries can".to_owned(),
        bound => format!("fewer than {bound} cannot; {} sizes tried", answer.sizes_tried),
    };
    let mut rows = Rows::new(&TITLES);
    answer.sizes.iter().for_each(|size| rows.push(size.cells()));
    let larger = answer.sizes.iter().filter(|size| Some(size.entries) > answer.entries);
    let again = larger.filter(|size| size.merges());
    let again: Vec<String> = again.map(|size| size.entries.to_string()).collect();
    let mut text = format!("{first} ({bound})\n{rows}");
    if answer.entries.is_some() && !again.is_empty() {
        text += &format!(
            "\nlarger tables merge again, since MGIDs map to other trees: {}",
            again.join(", ")
        );
    }
    answer.files.iter().fold(text, |text, file| format!("{text}\nwrote {file}"))
}
