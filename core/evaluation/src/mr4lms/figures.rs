//! The tables and plots of the MR4LMS experiment.

use fabricast_routing::MR4LMS_FABRICS;

use super::claims;
use super::setup::{COUNTED, Outcome, Sweep, UNLIMITED};
use crate::experiment::Run;
use crate::plot::{Axis, Bars, Figure, Plot, Series, Style};
use crate::report::{Cell, Report, Table};

/// Puts the report together.
pub(super) fn report(run: &Run<'_>, outcomes: &[Outcome], sweeps: &[Sweep]) -> Report {
    let mut report = Report {
        tables: vec![colors_and_efi(outcomes), recommended(outcomes), run_times(outcomes)],
        plots: plots(outcomes),
        claims: claims::claims(outcomes),
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
                ("recommended colors", |one| {
                    f64::from(one.recommended.figures.switch_links.max_efi)
                }),
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
                ("colors without limit", |one| one.unlimited[0].took.as_secs_f64() * 1e3),
                ("recommended colors", |one| one.recommended.took.as_secs_f64() * 1e3),
            ],
        ),
    ]
}

fn efi(one: &Outcome, engine: usize) -> f64 {
    f64::from(one.unlimited[engine].figures.switch_links.max_efi)
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

fn colors_and_efi(outcomes: &[Outcome]) -> Table {
    let mut columns = vec!["groups".to_owned(), "colors needed".to_owned()];
    for engine in UNLIMITED {
        columns.extend([format!("max EFI {engine}"), format!("mean EFI {engine}")]);
    }
    let title = "Without a limit of colors: colors needed, EFI (figures 6 and 7)";
    let mut table = table("unlimited", title, &columns);
    for one in outcomes {
        let counts = [
            Cell::count(one.unlimited[0].figures.groups),
            Cell::count(one.unlimited[0].colors_used),
        ];
        let loads = one.unlimited.iter().flat_map(|routed| {
            let links = routed.figures.switch_links;
            [Cell::count(links.max_efi), Cell::Number(links.mean_efi, 2)]
        });
        table.push(pattern_cells(one).into_iter().chain(counts).chain(loads));
    }
    table
}

fn recommended(outcomes: &[Outcome]) -> Table {
    let columns = ["colors", "trees", "max TFI", "mean TFI", "max EFI", "mean EFI"];
    let title = "With the recommended colors (figures 9 and 10)";
    let mut table = table("recommended", title, &columns.map(str::to_owned));
    for one in outcomes {
        let figures = &one.recommended.figures;
        table.push(pattern_cells(one).into_iter().chain([
            Cell::count(one.fabric.colors),
            Cell::count(figures.trees),
            Cell::count(figures.max_tfi),
            Cell::Number(figures.mean_tfi, 2),
            Cell::count(figures.switch_links.max_efi),
            Cell::Number(figures.switch_links.mean_efi, 2),
        ]));
    }
    table
}

fn run_times(outcomes: &[Outcome]) -> Table {
    let columns = UNLIMITED.map(|engine| format!("{engine}, no limit, in ms"));
    let columns: Vec<String> =
        columns.into_iter().chain(["mr4lms, recommended, in ms".to_owned()]).collect();
    let title = "Run time on this machine, one core (figure 12)";
    let mut table = table("run-time", title, &columns).measured();
    for one in outcomes {
        let all = one.unlimited.iter().chain([&one.recommended]);
        let times = all.map(|routed| Cell::Number(routed.took.as_secs_f64() * 1e3, 1));
        table.push(pattern_cells(one).into_iter().chain(times));
    }
    table
}

fn sweep_table(sweeps: &[Sweep]) -> Table {
    let title = "Maximum EFI over the number of colors (figure 8)";
    let mut table = Table::new("colors-sweep", title, &["fabric", "pattern", "colors", "max EFI"]);
    for sweep in sweeps {
        for (colors, max_efi) in &sweep.max_efi {
            table.push([
                Cell::text(sweep.preset),
                Cell::text(sweep.pattern.name()),
                Cell::count(*colors),
                Cell::count(*max_efi),
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
            .map(|(colors, efi)| (f64::from(*colors), f64::from(*efi)))
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
    let mut counts = vec![(0u32, 0u32); usize::from(one.fabric.colors)];
    let plan = &one.recommended.plan;
    for group in plan.virtual_groups().filter(|group| !group.ports.is_empty()) {
        let (trees, groups) = &mut counts[usize::from(group.color)];
        *trees += 1;
        *groups += u32::try_from(group.groups.len()).expect("groups have 32-bit MGIDs");
    }
    let title = format!(
        "Trees and groups of each color, {} {} (figure 11)",
        one.fabric.preset,
        one.pattern.name()
    );
    let mut table = Table::new("groups-per-color", &title, &["color", "trees", "groups"]);
    let (mut trees, mut groups) = (Vec::new(), Vec::new());
    for (color, (of_trees, of_groups)) in (0u32..).zip(counts) {
        table.push([Cell::count(color), Cell::count(of_trees), Cell::count(of_groups)]);
        trees.push((f64::from(color), f64::from(of_trees)));
        groups.push((f64::from(color), f64::from(of_groups)));
    }
    let line = |label: &str, points| Series { label: label.to_owned(), points, style: Style::Line };
    let figure = Figure::Lines {
        x: Axis::linear("color"),
        y: Axis::linear("count"),
        series: vec![line("trees", trees), line("groups", groups)],
    };
    (table, Plot { name: "fig11-groups-per-color".to_owned(), title, figure })
}

type Value = fn(&Outcome) -> f64;

fn bars(name: &str, title: &str, outcomes: &[Outcome], values: &[(&str, Value)]) -> Plot {
    let category = |one: &Outcome| format!("{} {}", one.fabric.preset, one.pattern.name());
    let series = values.iter().map(|(label, value)| {
        ((*label).to_owned(), outcomes.iter().map(|one| Some(value(one))).collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::log(title),
        categories: outcomes.iter().map(category).collect(),
        series: series.collect(),
    });
    Plot { name: name.to_owned(), title: title.to_owned(), figure }
}
