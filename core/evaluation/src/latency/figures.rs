//! Tables and plots of the latency experiment.

use super::claims;
use super::collectives::{Cut, OPERATIONS, TWO_TREES, Timed, WAYS, rounds};
use super::trees::Measured;
use crate::experiment::Run;
use crate::plot::{Axis, Bars, Boxes, Figure, Plot, Quartiles, Series, Style};
use crate::report::{Cell, Report, Table};
use crate::routing::Way;

/// All measurements that the tables and plots show.
pub(super) struct Found {
    pub(super) heights: Vec<Measured>,
    pub(super) shared: Vec<Measured>,
    pub(super) timed: Vec<Timed>,
    pub(super) cut: Vec<Cut>,
}

/// Puts the report together.
pub(super) fn report(run: &Run<'_>, found: &Found) -> Report {
    let engines: Vec<Way> = WAYS.into_iter().filter(|way| *way != TWO_TREES).collect();
    let fixed: Vec<Way> = WAYS.into_iter().filter(|way| way.engine == TWO_TREES.engine).collect();
    Report {
        tables: vec![
            messages("height", "Message latency by tree height (MR4LMS table 1)", &found.heights),
            messages(
                "efi",
                "Message latency by groups on one tree (MR4LMS table 2)",
                &found.shared,
            ),
            collectives(&found.timed),
            cut_link(&found.cut),
            run.hardware.table(&run.hardware.latency),
        ],
        plots: vec![
            height_bars(&found.heights),
            efi_lines(&found.shared),
            boxes("fig11-collectives", ["by routing", "figure 11"], &engines, found),
            boxes("fig12-two-trees", ["two trees or one", "figure 12"], &fixed, found),
        ],
        claims: claims::claims(found, run.hardware.is_ours),
        laws: claims::laws(found),
        not_compared: claims::NOT_COMPARED.to_vec(),
        notes: notes(run),
    }
}

fn notes(run: &Run<'_>) -> Vec<String> {
    let mut notes = vec![
        "Model: virtual cut-through, multicast by bulletin board; links, switches and adapters as in the table of \
         hardware. The papers give none of these. With our hardware four of its values are fitted: the host time of a \
         message (table 1: +20 % for 8 bytes) and of a byte (table 1: +15 % for 2 KiB), the time of an adapter to \
         match a packet or find that it is for another group (barrier: -10 %), and the time of a process between two \
         collectives (2 KiB: -40 %). Everything else is predicted with them."
            .to_owned(),
        format!(
            "{} seeds from {} on, each with its own noise; the column `seeds` has number, least and largest.",
            run.seeds, run.seed
        ),
        "Table 2: the members of every group are on four leaves; figure 4 of the paper, which shows where they \
         are, cannot be read. Rounds are fewer the more groups there are (column messages)."
            .to_owned(),
        format!(
            "Collectives: 600 endpoints of 4 CNs, 6 processes each, {} rounds of each seed (the paper: 5 000; `--rounds N`); boxes \
             reach from the least to the largest value. The text names the pattern 60x60 only, the others are \
             ours. Dynamic roots are those of a whole TN group.",
            rounds(run)
        ),
        "Table 1, figures 11 and 12 cannot be read; claims are those of the text.".to_owned(),
    ];
    if run.quick {
        notes.push("Quick form: one pattern, few rounds, at most 16 groups on a tree.".to_owned());
    }
    notes
}

/// Finds the measurement of the same message at the first height or with one group.
pub(super) fn base<'a>(all: &'a [Measured], one: &Measured) -> Option<&'a Measured> {
    all.iter().find(|other| other.bytes == one.bytes && other.what == 1)
}

fn messages(name: &str, title: &str, all: &[Measured]) -> Table {
    let columns = [
        "bytes",
        if name == "height" { "height" } else { "groups (EFI)" },
        "messages of a group",
        "mean in us",
        "99 % in us",
        "mean, growth in %",
        "99 %, growth in %",
        "seeds: mean in us",
    ];
    let mut table = Table::new(name, title, &columns);
    for one in all {
        let growth = |ours: f64, base: f64| Cell::Number((ours / base - 1.0) * 100.0, 1);
        let base = base(all, one).unwrap_or(one);
        let (mean_us, tail_us) = (one.mean_us.mean(), one.tail_us.mean());
        table.push([
            Cell::count(one.bytes),
            Cell::count(one.what),
            Cell::count(one.messages),
            Cell::Number(mean_us, 3),
            Cell::Number(tail_us, 3),
            growth(mean_us, base.mean_us.mean()),
            growth(tail_us, base.tail_us.mean()),
            Cell::text(one.mean_us.spread(|value| format!("{value:.3}"))),
        ]);
    }
    table
}

fn collectives(all: &[Timed]) -> Table {
    let columns = [
        "pattern",
        "operation",
        "routing",
        "rounds",
        "median in us",
        "mean in us",
        "lower quartile in us",
        "upper quartile in us",
        "99 % in us",
        "seeds: mean in us",
    ];
    let title = "A row's and a column's collective, all at once (C-MR4LMS table 1; colors of layers \
                 calibrated)";
    let mut table = Table::new("collectives", title, &columns);
    for one in all {
        let quartiles = Quartiles::of(&one.rounds_us);
        let quartile = |pick: fn(Quartiles) -> f64| {
            quartiles.map_or(Cell::Empty, |all| Cell::Number(pick(all), 3))
        };
        table.push([
            Cell::text(format!("{}x{}", one.pattern[0], one.pattern[1])),
            Cell::text(OPERATIONS[one.operation].0),
            Cell::text(one.way.label()),
            Cell::Count(one.time.count as u64),
            Cell::Number(one.time.median_us, 3),
            Cell::Number(one.time.mean_us, 3),
            quartile(|all| all.lower),
            quartile(|all| all.upper),
            Cell::Number(one.time.tail_us, 3),
            Cell::text(one.mean_us.spread(|value| format!("{value:.3}"))),
        ]);
    }
    table
}

fn cut_link(all: &[Cut]) -> Table {
    let columns = ["routing", "processes that ended", "processes", "copies lost"];
    let title = "8-byte broadcasts with a link of the first column's tree cut (C-MR4LMS §4.4)";
    let mut table = Table::new("cut-link", title, &columns);
    for one in all {
        let [done, of] = one.done.map(|count| Cell::Count(count as u64));
        table.push([Cell::text(one.way.label()), done, of, Cell::count(one.lost)]);
    }
    table
}

fn height_bars(all: &[Measured]) -> Plot {
    let of = |height| {
        let values = all.iter().filter(|one| one.what == height);
        values.map(|one| Some(one.mean_us.mean())).collect::<Vec<_>>()
    };
    let firsts = all.iter().filter(|one| one.what == 1);
    let figure = Figure::Bars(Bars {
        y: Axis::linear("mean latency in us"),
        categories: firsts.map(|one| format!("{} bytes", one.bytes)).collect(),
        series: vec![("height 1".to_owned(), of(1)), ("height 2".to_owned(), of(2))],
    });
    let title = "A message by tree height (MR4LMS table 1)".to_owned();
    Plot { name: "table1-height".to_owned(), title, figure }
}

fn efi_lines(all: &[Measured]) -> Plot {
    let series = super::trees::SIZES.map(|bytes| {
        let points = all.iter().filter(|one| one.bytes == bytes);
        Series {
            label: format!("{bytes} bytes"),
            points: points.map(|one| (f64::from(one.what), one.mean_us.mean())).collect(),
            style: Style::Line,
        }
    });
    let figure = Figure::Lines {
        x: Axis::log("groups on the tree (EFI)"),
        y: Axis::log("mean latency in us"),
        series: series.into(),
    };
    let title = "A message by groups on one tree (MR4LMS table 2)".to_owned();
    Plot { name: "table2-efi".to_owned(), title, figure }
}

fn boxes(name: &str, [title, source]: [&str; 2], ways: &[Way], found: &Found) -> Plot {
    let first = found.timed.first().map(|one| one.pattern);
    let of = |way: &Way, operation: usize| {
        let is_it = |one: &&Timed| {
            one.way == *way && one.operation == operation && Some(one.pattern) == first
        };
        found.timed.iter().find(is_it).and_then(|one| Quartiles::of(&one.rounds_us))
    };
    let series = ways.iter().map(|way| {
        let boxes = (0..OPERATIONS.len()).map(|operation| of(way, operation)).collect();
        (way.label(), boxes)
    });
    let figure = Figure::Boxes(Boxes {
        y: Axis::log("a row's and a column's collective in us"),
        categories: OPERATIONS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        series: series.collect(),
    });
    let title = format!("60x60, {title} (C-MR4LMS {source}; colors of layers calibrated)");
    Plot { name: name.to_owned(), title, figure }
}
