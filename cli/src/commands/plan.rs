//! `fabricast plan`: what a fabric and its groups need, with no control plane.

use std::path::Path;

use anyhow::Context;
use fabricast_evaluation::capacity_report;
use fabricast_routing::{Capacity, CapacityQuestion, CapacityStep, SizeCost, capacity};
use fabricast_topology::TableKind;
use serde::Serialize;

use crate::args::{CapacityArgs, Format, PlanCommand};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::progress::Progress;
use crate::scene::{Scene, table_kind};

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`]; [`Failure::No`] where no table is large enough.
pub(crate) fn run(command: PlanCommand, format: Format) -> Result<(), Failure> {
    match command {
        PlanCommand::Capacity(args) => plan_capacity(&args, format),
    }
}

/// What `plan capacity` prints.
#[derive(Debug, Serialize)]
struct Answer {
    topology: String,
    engine: &'static str,
    tables: &'static str,
    /// The smallest table that avoids all merging; none if it was not found.
    entries: Option<u16>,
    limit: u16,
    /// No engine can do with fewer.
    lower_bound: u32,
    sizes_tried: u32,
    sizes: Vec<Size>,
    files: Vec<String>,
}

/// One size of table.
#[derive(Debug, Serialize)]
struct Size {
    entries: u16,
    /// False where there are fewer entries than layers of groups; then nothing else is known.
    routed: bool,
    #[serde(flatten)]
    figures: Option<Figures>,
}

/// What tables of one size cost.
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

fn plan_capacity(args: &CapacityArgs, format: Format) -> Result<(), Failure> {
    let scene = Scene::read(&args.topology, &args.groups, &args.engine)?;
    let question = CapacityQuestion { limit: args.limit, sizes: args.sizes.clone() };
    let mut bar: Option<Progress> = None;
    let found = capacity(&scene.scenario(), &question, &mut |step| show(&mut bar, step));
    if let Some(bar) = bar {
        bar.finish();
    }
    let found = found.map_err(|error| scene.failure(error))?;
    let tables = match table_kind(args.engine.tables) {
        TableKind::PerPort => "per-port",
        TableKind::PerSwitch => "per-switch",
    };
    let title = format!("{}, {}, {tables} tables", scene.topology.title, args.engine.engine);
    let files = match &args.out {
        Some(folder) => write(folder, &title, &found)?,
        None => Vec::new(),
    };
    let answer = Answer {
        topology: scene.topology.title,
        engine: args.engine.engine.name(),
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
