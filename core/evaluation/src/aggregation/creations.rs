//! The tables and plots of entries taken and creations failed.

use fabricast_collectives::Survey;

use super::entries::{Both, ENTRIES, FEWER, Outcome};
use crate::plot::{Axis, Bars, Figure, Plot};
use crate::report::{Cell, Table};

fn percent(part: f64) -> Cell {
    Cell::Number(100.0 * part, 2)
}

const COLUMNS: [&str; 11] = [
    "fabric",
    "pattern",
    "communicators",
    "entries, plain",
    "entries, minimum",
    "saved in %",
    "failed in %, plain",
    "failed in %, minimum",
    "fullest switch, minimum",
    "seeds: failed in %, plain",
    "orders by chance: failed in %, plain",
];

/// Entries and failures over the patterns (figures 19 and 20).
pub(super) fn entries(outcomes: &[Outcome]) -> Table {
    let title = "Entries taken without a limit, and creations failed with 16 entries in a switch \
                 (figures 19 and 20)";
    table_of(Table::new("fig19-20-entries", title, &COLUMNS), outcomes)
}

/// The same on fabrics of no paper.
pub(super) fn on_others(outcomes: &[Outcome]) -> Table {
    let title = "Entries taken without a limit, and creations failed with 16 entries in a switch, \
                 on a pruned fat tree below directors and on a dragonfly";
    table_of(Table::new("other-fabrics", title, &COLUMNS), outcomes)
}

fn table_of(mut table: Table, outcomes: &[Outcome]) -> Table {
    for one in outcomes {
        let mean =
            |both: &[Both], value: fn(&Both) -> f64| one.sample(both.iter().map(value)).mean();
        let failed = one.sample(one.limited.iter().map(|both| 100.0 * both.plain.failure_rate()));
        table.push([
            Cell::text(one.fabric),
            Cell::text(one.pattern.clone()),
            Cell::Number(mean(&one.endless, |both| f64::from(both.plain.groups)), 0),
            Cell::Number(mean(&one.endless, |both| both.plain.entries as f64), 0),
            Cell::Number(mean(&one.endless, |both| both.minimum.entries as f64), 0),
            percent(one.saved().mean()),
            percent(mean(&one.limited, |both| both.plain.failure_rate())),
            percent(mean(&one.limited, |both| both.minimum.failure_rate())),
            Cell::Number(mean(&one.limited, |both| f64::from(both.minimum.fullest)), 0),
            Cell::text(failed.spread(|value| format!("{value:.2}"))),
            Cell::text(one.failed_by_chance().spread(|value| format!("{value:.2}"))),
        ]);
    }
    table
}

/// Failures with fewer entries.
pub(super) fn fewer(outcomes: &[Outcome]) -> Table {
    let title = "Creations failed with fewer entries in a switch (§6.2.2 at its end)";
    let columns = ["fabric", "pattern", "entries", "failed in %, plain", "failed in %, minimum"];
    let mut table = Table::new("fewer-entries", title, &columns);
    for one in outcomes {
        for (at, entries) in FEWER.iter().enumerate() {
            let mean = |value: fn(&Both) -> f64| {
                one.sample(one.fewer.iter().map(|fewer| value(&fewer[at]))).mean()
            };
            table.push([
                Cell::text(one.fabric),
                Cell::text(one.pattern.clone()),
                Cell::count(*entries),
                percent(mean(|both| both.plain.failure_rate())),
                percent(mean(|both| both.minimum.failure_rate())),
            ]);
        }
    }
    table
}

pub(super) fn plots(outcomes: &[Outcome]) -> [Plot; 2] {
    let bars = |name: &str, title: &str, y: Axis, value: &dyn Fn(&Outcome) -> [f64; 2]| {
        let series = ["plain", "minimum"].into_iter().enumerate().map(|(at, label)| {
            let values = outcomes.iter().map(|one| Some(value(one)[at]));
            (label.to_owned(), values.collect())
        });
        let categories = outcomes.iter().map(|one| format!("{} {}", one.fabric, one.pattern));
        let figure =
            Figure::Bars(Bars { y, categories: categories.collect(), series: series.collect() });
        Plot { name: name.to_owned(), title: title.to_owned(), figure }
    };
    let mean = |one: &Outcome, both: &[Both], value: fn(&Survey) -> f64| {
        [
            one.sample(both.iter().map(|both| value(&both.plain))).mean(),
            one.sample(both.iter().map(|both| value(&both.minimum))).mean(),
        ]
    };
    [
        bars(
            "fig19-entries",
            "Entries taken by all communicators (figure 19)",
            Axis::log("entries"),
            &|one| mean(one, &one.endless, |survey| survey.entries as f64),
        ),
        bars(
            "fig20-failures",
            &format!("Creations failed, {ENTRIES} entries in a switch (figure 20)"),
            Axis::linear("failed in %"),
            &|one| mean(one, &one.limited, |survey| 100.0 * survey.failure_rate()),
        ),
    ]
}
