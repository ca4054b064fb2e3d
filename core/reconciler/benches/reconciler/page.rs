//! Writes the costs of changes on fabrics of several sizes as a page with a plot.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fabricast_evaluation::{Axis, Cell, Figure, Plot, Report, Series, Style, Table};

use crate::Costs;

const TITLE: &str = "Joins on three sizes of fabric";
const COLUMNS: [&str; 10] = [
    "endpoints",
    "groups",
    "memberships",
    "join, median, us",
    "join, 99th percentile, us",
    "leave, median, us",
    "leave, 99th percentile, us",
    "turn that finds nothing, us",
    "cut link of a leaf, us",
    "memory, MiB",
];

/// Writes `README.md` and the plot into a folder.
#[expect(clippy::disallowed_methods, reason = "a bench writes its page where it is told to")]
pub(crate) fn write(folder: &Path, costs: &[Costs]) {
    fs::create_dir_all(folder).expect("a folder that can be made");
    for file in report(costs).files(TITLE) {
        let name = if file.name == "comparison.md" { "README.md" } else { file.name.as_str() };
        if Path::new(name).extension().is_some_and(|ending| ending != "csv") {
            fs::write(folder.join(name), &file.text).expect("a folder that can be written");
        }
    }
}

fn report(costs: &[Costs]) -> Report {
    let title = "Processor time of one change, and memory with all groups";
    let mut table = Table::new("joins", title, &COLUMNS).measured();
    for one in costs {
        let sizes = [one.endpoints, one.groups, one.memberships];
        let times =
            [one.join.median, one.join.high, one.leave.median, one.leave.high, one.idle, one.cut];
        let times = times.map(|time| Cell::Number(micros(time), 1));
        let cells = sizes.map(Cell::count).into_iter().chain(times);
        table.push(cells.chain([Cell::count(one.memory)]));
    }
    let series = |label: &str, time: fn(&Costs) -> Duration| Series {
        label: label.to_owned(),
        points: costs.iter().map(|one| (f64::from(one.endpoints), micros(time(one)))).collect(),
        style: Style::Line,
    };
    let plot = Plot {
        name: "joins".to_owned(),
        title: "Processor time of one join or leave in the route service".to_owned(),
        figure: Figure::Lines {
            x: Axis::log("endpoints"),
            y: Axis::linear("processor time, us"),
            series: vec![
                series("join, median", |one| one.join.median),
                series("join, 99th percentile", |one| one.join.high),
                series("leave, median", |one| one.leave.median),
                series("leave, 99th percentile", |one| one.leave.high),
            ],
        },
    };
    let notes = vec![
        "For readers who want to know what a change costs on a larger fabric: what it changes, and \
         not what is there. Written by `cargo xtask figures --joins`, by the clock, on one thread."
            .to_owned(),
        "Timed is the reconciler of the route service, from the event of the TIC's watch until all \
         entries are written and the route is reported. Its calls are answered at once, so that \
         the time is its own; other parts are not in it."
            .to_owned(),
        "Members join and leave random groups of a grid of processes, four on each endpoint, as \
         engine `c-mr4lms-fixed` plans them with 32 entries a port. Memory is the most that the \
         process has had, with the fabric itself and what draws members."
            .to_owned(),
    ];
    Report { tables: vec![table], plots: vec![plot], notes, ..Report::default() }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
