//! The tables and plots of entries taken and creations failed.

use fabricast_collectives::Survey;

use super::entries::{ENTRIES, FEWER, Outcome};
use crate::plot::{Axis, Bars, Figure, Plot};
use crate::report::{Cell, Table};

fn percent(part: f64) -> Cell {
    Cell::Number(100.0 * part, 2)
}

/// Entries and failures over the patterns (figures 19 and 20).
pub(super) fn entries(outcomes: &[Outcome]) -> Table {
    let title = "Entries taken without a limit, and creations failed with 16 entries in a switch \
                 (figures 19 and 20)";
    let columns = [
        "fabric",
        "pattern",
        "communicators",
        "entries, plain",
        "entries, minimum",
        "saved in %",
        "failed in %, plain",
        "failed in %, minimum",
        "fullest switch, minimum",
    ];
    let mut table = Table::new("fig19-20-entries", title, &columns);
    for one in outcomes {
        table.push([
            Cell::text(one.fabric),
            Cell::text(one.pattern.clone()),
            Cell::count(one.endless.plain.groups),
            Cell::count(one.endless.plain.entries),
            Cell::count(one.endless.minimum.entries),
            percent(one.saved()),
            percent(one.limited.plain.failure_rate()),
            percent(one.limited.minimum.failure_rate()),
            Cell::count(one.limited.minimum.fullest),
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
        for (entries, both) in FEWER.iter().zip(&one.fewer) {
            table.push([
                Cell::text(one.fabric),
                Cell::text(one.pattern.clone()),
                Cell::count(*entries),
                percent(both.plain.failure_rate()),
                percent(both.minimum.failure_rate()),
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
    let taken = |survey: Survey| {
        f64::from(u32::try_from(survey.entries).expect("entries are counted in 32 bits"))
    };
    [
        bars(
            "fig19-entries",
            "Entries taken by all communicators (figure 19)",
            Axis::log("entries"),
            &|one| [taken(one.endless.plain), taken(one.endless.minimum)],
        ),
        bars(
            "fig20-failures",
            &format!("Creations failed, {ENTRIES} entries in a switch (figure 20)"),
            Axis::linear("failed in %"),
            &|one| {
                [one.limited.plain, one.limited.minimum].map(|survey| 100.0 * survey.failure_rate())
            },
        ),
    ]
}
