//! The tables and plots of the MR4LMS experiment.

use fabricast_routing::MR4LMS_FABRICS;

use super::claims;
use super::setup::{COUNTED, Measured, Outcome, Sweep, UNLIMITED};
use crate::experiment::Run;
use crate::plot::{Axis, Bars, Figure, Plot, Series, Style};
use crate::report::{Cell, Report, Table};

/// Puts the report together.
pub(super) fn report(run: &Run<'_>, outcomes: &[Outcome], sweeps: &[Sweep]) -> Report {
    let mut report = Report {
        tables: vec![colors_and_efi(outcomes), recommended(outcomes), run_times(outcomes)],
        plots: plots(outcomes),
        claims: claims::claims(outcomes),
        not_compared: claims::NOT_COMPARED.to_vec(),
        ..Report::default()
    };
    if !sweeps.is_empty() {
        report.tables.push(sweep_table(sweeps));
        report.plots.push(sweep_plot(sweeps));
    }
    let counted = outcomes
        .iter()
        .find(|one| (one.fabric.preset, one.pattern.shape) == (COUNTED.0, COUNTED.1));
    if let Some(counted) = counted {
        let (table, plot) = per_color(counted);
        report.tables.push(table);
        report.plots.push(plot);
    }
    report.notes = vec![
        "Without a limit there are 16 384 colors, InfiniBand's own; no pattern needed as many."
            .to_owned(),
        "Patterns that the text does not name are made by its rule (the column `named` says which); \
         figures that cannot be read are not compared."
            .to_owned(),
        "*By the paper's own rules*: what our MR4LMS gave on the same fabrics before its departures (lookahead, several \
         roots, merging where the fewest groups are in the way), with the first seed: measured with the version before \
         commit 2851d48a; no option brings it back."
            .to_owned(),
        format!(
            "Random groups, and all of the random network: mean of {} seeds from {} on, which also give its links; the \
             columns `seeds` have least and largest. Chance has no part in the others. Figures 8 and 11 are of the \
             first seed.",
            run.seeds, run.seed
        ),
        format!(
            "Run times: mean of {} runs of each pattern, by the clock of one thread. Rows with a run time have number, \
             least and largest of the runs.",
            run.seeds
        ),
    ];
    if run.quick {
        let all = MR4LMS_FABRICS.len();
        report.notes.push(format!("Quick form: 1 of {all} fabrics, without figures 8 and 11."));
    }
    report
}

fn plots(outcomes: &[Outcome]) -> Vec<Plot> {
    vec![
        bars(
            "fig6-colors",
            "Groups, and colors that no merging needs (figure 6)",
            outcomes,
            &[
                ("groups", |one| f64::from(one.unlimited[0].figures.groups)),
                ("colors", |one| f64::from(one.unlimited[0].colors_used)),
            ],
        ),
        bars(
            "fig7-max-efi",
            "Maximum EFI without a limit of colors (figure 7)",
            outcomes,
            &[
                ("mr4lms", |one| efi(one, 0)),
                ("minhop-mc", |one| efi(one, 1)),
                ("sssp-mc", |one| efi(one, 2)),
            ],
        ),
        bars(
            "fig9-recommended-efi",
            "Maximum EFI (figure 9)",
            outcomes,
            &[
                ("colors without limit", |one| efi(one, 0)),
                ("recommended colors", |one| one.recommended.max_efi()),
            ],
        ),
        bars(
            "fig10-recommended-tfi",
            "Maximum TFI, recommended colors (figure 10)",
            outcomes,
            &[("mr4lms", |one| f64::from(one.recommended.figures.max_tfi))],
        ),
        bars(
            "fig12-run-time",
            "Run time of MR4LMS in ms (figure 12)",
            outcomes,
            &[
                ("colors without limit", |one| one.unlimited[0].took_ms()),
                ("recommended colors", |one| one.recommended.took_ms()),
            ],
        ),
    ]
}

fn efi(one: &Measured, engine: usize) -> f64 {
    one.unlimited[engine].max_efi()
}

/// The columns that every table of patterns begins with.
const PATTERN: [&str; 4] = ["fabric", "pattern", "processes per endpoint", "named"];

fn pattern_cells(one: &Outcome) -> [Cell; 4] {
    [
        Cell::text(one.fabric.preset),
        Cell::text(one.pattern.name()),
        Cell::count(one.pattern.processes),
        Cell::text(if one.pattern.published { "yes" } else { "no" }),
    ]
}

fn table(name: &str, title: &str, columns: &[String]) -> Table {
    let columns: Vec<&str> =
        PATTERN.into_iter().chain(columns.iter().map(String::as_str)).collect();
    Table::new(name, title, &columns)
}

/// A column with its figure and decimals.
type Column = (&'static str, fn(&Measured) -> f64, usize);

/// Fills a table: means of the seeds, and the spread of the last column.
fn fill(mut table: Table, outcomes: &[Outcome], columns: &[Column]) -> Table {
    for one in outcomes {
        let means = columns.iter().map(|(_, figure, decimals)| {
            let sample = one.sample(*figure);
            let few = usize::from(sample.values().len() > 1 && *decimals == 0);
            Cell::Number(sample.mean(), decimals + few)
        });
        let spread = columns.last().map(|(_, figure, _)| {
            Cell::text(one.sample(*figure).spread(|value| value.to_string()))
        });
        table.push(pattern_cells(one).into_iter().chain(means).chain(spread));
    }
    table
}

fn heads(columns: &[Column]) -> Vec<String> {
    let last = columns.last().map(|(name, ..)| format!("seeds: {name}"));
    columns.iter().map(|(name, ..)| (*name).to_owned()).chain(last).collect()
}

fn colors_and_efi(outcomes: &[Outcome]) -> Table {
    let columns: [Column; 8] = [
        ("groups", |one| f64::from(one.unlimited[0].figures.groups), 0),
        ("colors needed", |one| f64::from(one.unlimited[0].colors_used), 0),
        ("mean EFI mr4lms", |one| one.unlimited[0].figures.switch_links.mean_efi, 2),
        ("max EFI minhop-mc", |one| one.unlimited[1].max_efi(), 0),
        ("mean EFI minhop-mc", |one| one.unlimited[1].figures.switch_links.mean_efi, 2),
        ("max EFI sssp-mc", |one| one.unlimited[2].max_efi(), 0),
        ("mean EFI sssp-mc", |one| one.unlimited[2].figures.switch_links.mean_efi, 2),
        ("max EFI mr4lms", |one| one.unlimited[0].max_efi(), 0),
    ];
    let title = "Without a limit of colors: colors needed, EFI (figures 6 and 7)";
    fill(table("unlimited", title, &heads(&columns)), outcomes, &columns)
}

fn recommended(outcomes: &[Outcome]) -> Table {
    let columns: [Column; 5] = [
        ("trees", |one| f64::from(one.recommended.figures.trees), 0),
        ("max TFI", |one| f64::from(one.recommended.figures.max_tfi), 0),
        ("mean TFI", |one| one.recommended.figures.mean_tfi, 2),
        ("mean EFI", |one| one.recommended.figures.switch_links.mean_efi, 2),
        ("max EFI", |one| one.recommended.max_efi(), 0),
    ];
    let title = "With the recommended colors, 128 on fat trees, 256 elsewhere (figures 9 and 10)";
    fill(table("recommended", title, &heads(&columns)), outcomes, &columns)
}

/// Run times with their spread over the runs.
fn run_times(outcomes: &[Outcome]) -> Table {
    let columns = UNLIMITED.map(|engine| format!("{engine}, no limit, in ms"));
    let columns: Vec<String> =
        columns.into_iter().chain(["mr4lms, recommended, in ms".to_owned()]).collect();
    let spreads = columns.iter().map(|column| format!("spread: {column}"));
    let columns: Vec<String> = columns.iter().cloned().chain(spreads).collect();
    let title = "Run time on this machine, one core (figure 12)";
    let mut table = table("run-time", title, &columns).measured();
    for one in outcomes {
        let times: [fn(&Measured) -> f64; 4] = [
            |one| one.unlimited[0].took_ms(),
            |one| one.unlimited[1].took_ms(),
            |one| one.unlimited[2].took_ms(),
            |one| one.recommended.took_ms(),
        ];
        let times = times.map(|time| one.times(time));
        let means = times.iter().map(|time| Cell::Number(time.mean(), 1));
        let spreads = times.iter().map(|time| Cell::text(time.spread(|ms| format!("{ms:.1}"))));
        table.push(pattern_cells(one).into_iter().chain(means).chain(spreads));
    }
    table
}

fn sweep_table(sweeps: &[Sweep]) -> Table {
    let title = "Maximum EFI over the number of colors (figure 8)";
    let columns = ["fabric", "pattern", "colors", "max EFI", "seeds: max EFI"];
    let mut table = Table::new("colors-sweep", title, &columns);
    for sweep in sweeps {
        for (colors, max_efi) in &sweep.max_efi {
            table.push([
                Cell::text(sweep.preset),
                Cell::text(sweep.pattern.name()),
                Cell::count(*colors),
                Cell::Number(max_efi.mean(), 0),
                Cell::text(max_efi.spread(|value| format!("{value:.0}"))),
            ]);
        }
    }
    table
}

fn sweep_plot(sweeps: &[Sweep]) -> Plot {
    let series = sweeps.iter().map(|sweep| Series {
        label: format!("{} {}", sweep.preset, sweep.pattern.name()),
        points: sweep
            .max_efi
            .iter()
            .map(|(colors, efi)| (f64::from(*colors), efi.mean()))
            .collect(),
        style: Style::Line,
    });
    let figure = Figure::Lines {
        x: Axis::log("colors"),
        y: Axis::log("maximum EFI"),
        series: series.collect(),
    };
    let title = "Maximum EFI over the number of colors (figure 8)";
    Plot { name: "fig8-colors-sweep".to_owned(), title: title.to_owned(), figure }
}

/// Trees and groups of every color (figure 11).
fn per_color(one: &Outcome) -> (Table, Plot) {
    let title = format!("Trees and groups of each color, {} (figure 11)", one.name());
    let mut table = Table::new("groups-per-color", &title, &["color", "trees", "groups"]);
    let (mut trees, mut groups) = (Vec::new(), Vec::new());
    for (color, of_color) in (0u32..).zip(&one.of_colors) {
        table.push([color, of_color.trees, of_color.groups].map(Cell::count));
        trees.push((f64::from(color), f64::from(of_color.trees)));
        groups.push((f64::from(color), f64::from(of_color.groups)));
    }
    let line = |label: &str, points| Series { label: label.to_owned(), points, style: Style::Line };
    let figure = Figure::Lines {
        x: Axis::linear("color"),
        y: Axis::linear("count"),
        series: vec![line("trees", trees), line("groups", groups)],
    };
    (table, Plot { name: "fig11-groups-per-color".to_owned(), title, figure })
}

type Value = fn(&Measured) -> f64;

/// Draws means over all runs; those of a value in which chance has no part are all the same.
fn bars(name: &str, title: &str, outcomes: &[Outcome], values: &[(&str, Value)]) -> Plot {
    let series = values.iter().map(|(label, value)| {
        ((*label).to_owned(), outcomes.iter().map(|one| Some(one.times(*value).mean())).collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::log(title),
        categories: outcomes.iter().map(Outcome::name).collect(),
        series: series.collect(),
    });
    Plot { name: name.to_owned(), title: title.to_owned(), figure }
}
