//! The tables and plots of the experiments on the C-MR4LMS paper's fabric.

use fabricast_routing::Metrics;

use super::claims;
use super::setup::{Outcome, PATTERNS, QUICK, Variant};
use crate::experiment::Run;
use crate::pattern::Pattern;
use crate::plot::{Axis, Bars, Figure, Plot};
use crate::report::{Cell, Report, Table};

type Value = fn(&Metrics) -> f64;

/// File name, title, and the metric shown.
type MetricPlot = (&'static str, &'static str, Value);

const PLOTS: [MetricPlot; 5] = [
    ("max-tfi", "Maximum TFI", |one| f64::from(one.max_tfi)),
    ("mean-tfi", "Mean TFI", |one| one.mean_tfi),
    ("max-efi", "Maximum EFI of links between switches", |one| f64::from(one.switch_links.max_efi)),
    ("mean-efi", "Mean EFI of links between switches", |one| one.switch_links.mean_efi),
    ("trees", "Trees left after merging", |one| f64::from(one.trees)),
];

/// Puts the report together.
pub(super) fn report(
    run: &Run<'_>,
    patterns: &[Pattern],
    variants: &[Variant],
    outcomes: &[Outcome],
) -> Report {
    let plots = PLOTS.map(|plot| bars(plot, patterns, variants, outcomes));
    let mut notes = vec![
        "Fabric: 7 680 switches, 32 768 endpoints, 512 conflict-free spanning trees.".to_owned(),
        "Figures 9 and 10 are bar charts without numbers in the text; claims are those of the text."
            .to_owned(),
        "Of the random patterns and of the 2-D ones with 4 processes the text names no sizes but 1 000 \
         groups; the others are ours."
            .to_owned(),
    ];
    if run.quick {
        notes.push(format!("Quick form: {} of {} patterns.", QUICK.len(), PATTERNS.len()));
    }
    Report {
        tables: vec![figures(outcomes), times(outcomes)],
        plots: plots.to_vec(),
        claims: claims::claims(outcomes),
        notes,
    }
}

fn figures(outcomes: &[Outcome]) -> Table {
    let columns = [
        "pattern",
        "processes per endpoint",
        "engine",
        "groups",
        "trees after merging",
        "max TFI",
        "mean TFI",
        "max EFI",
        "mean EFI",
        "entries used",
    ];
    let title = "EFI and TFI (C-MR4LMS, figures 9 and 10, a to e)";
    let mut table = Table::new("efi-tfi", title, &columns);
    for Outcome { pattern, variant, routed } in outcomes {
        let figures = &routed.figures;
        table.push([
            Cell::text(pattern.name()),
            Cell::count(pattern.processes),
            Cell::text(variant.label()),
            Cell::count(figures.groups),
            Cell::count(figures.trees),
            Cell::count(figures.max_tfi),
            Cell::Number(figures.mean_tfi, 2),
            Cell::count(figures.switch_links.max_efi),
            Cell::Number(figures.switch_links.mean_efi, 2),
            Cell::count(figures.max_entries),
        ]);
    }
    table
}

fn times(outcomes: &[Outcome]) -> Table {
    let columns = ["pattern", "processes per endpoint", "engine", "trees and merging in ms"];
    let title = "Run time on this machine, one core (C-MR4LMS, figures 9 and 10, f)";
    let mut table = Table::new("run-time", title, &columns).measured();
    for Outcome { pattern, variant, routed } in outcomes {
        table.push([
            Cell::text(pattern.name()),
            Cell::count(pattern.processes),
            Cell::text(variant.label()),
            Cell::Number(routed.took.as_secs_f64() * 1e3, 1),
        ]);
    }
    table
}

fn bars(
    plot: MetricPlot,
    patterns: &[Pattern],
    variants: &[Variant],
    outcomes: &[Outcome],
) -> Plot {
    let (name, title, value) = plot;
    let series = variants.iter().map(|variant| {
        let values = patterns.iter().map(|pattern| {
            let same = |one: &&Outcome| one.pattern == *pattern && one.variant == *variant;
            outcomes.iter().find(same).map(|one| value(&one.routed.figures))
        });
        (variant.label(), values.collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::log(title),
        categories: patterns.iter().map(ToString::to_string).collect(),
        series: series.collect(),
    });
    Plot { name: name.to_owned(), title: title.to_owned(), figure }
}
