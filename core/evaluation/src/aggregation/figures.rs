//! The tables and plots of the experiment on aggregation trees.

use fabricast_collectives::{ChoiceTable, CostParameters, Operation, Trade, TreeKind};

use super::parameters::{LIMITS, MOST};
use super::timing::{Kind, SIZES, Tree, WIDE, WIDTH, modelled_us, switch_tree_us};
use super::{claims, congestion, creations, entries, simulated, switches, timing};
use crate::claim::OF_THEIR_METHOD;
use crate::experiment::Run;
use crate::plot::{Axis, Figure, Plot, Series, Style};
use crate::report::{Cell, Report, Table};

/// Level of the leaf switches in the test fabric's groups.
const LEAF: usize = 1;

/// Everything that was found.
pub(super) struct Found {
    /// The cost model.
    pub(super) parameters: CostParameters,
    pub(super) idle: timing::Idle,
    pub(super) noisy: congestion::Noisy,
    pub(super) simulated: simulated::Simulated,
    /// Both kinds of trees on the simulator.
    pub(super) kinds: Vec<switches::Pair>,
    pub(super) outcomes: Vec<entries::Outcome>,
    /// On fabrics that the paper does not have.
    pub(super) others: Vec<entries::Outcome>,
}

/// Puts the report together.
pub(super) fn report(run: &Run<'_>, found: &Found) -> Report {
    let mut report = Report {
        claims: claims::claims(found),
        laws: claims::laws(found),
        not_compared: claims::NOT_COMPARED.to_vec(),
        notes: notes(run, found),
        ..Report::default()
    };
    let [small, large] = switches::BROADCASTS;
    let parts = [
        model_by_processes(found),
        model_by_size(found),
        width_curve(found),
        latency_by_processes(found),
        latency_by_size(found),
        noise(found),
        simulated(found),
        kinds(found, ["fig18-adapter-and-switch-trees", "8 bytes"], small),
        kinds(found, ["fig18-adapter-and-switch-trees-2-kib", "2 KiB"], large),
    ];
    for (table, plot) in parts {
        report.tables.push(table);
        report.plots.push(plot);
    }
    report.tables.extend([widths(found), choice(found), crossings(found), lower(found)]);
    let outcomes = &found.outcomes;
    report.tables.extend([
        creations::entries(outcomes),
        creations::fewer(outcomes),
        creations::on_others(&found.others),
    ]);
    report.plots.extend(creations::plots(outcomes));
    report.tables.push(run.hardware.table(&run.hardware.aggregation));
    report
}

fn notes(run: &Run<'_>, found: &Found) -> Vec<String> {
    let mut notes = vec![
        "Constants: δl = 1.12 us over 4 links and θ = 0.01 us are published; what a byte costs is ours, so that sizes \
         above 8 bytes show the course, not the paper's times."
            .to_owned(),
        "`complete` is equations (1) to (4) of a complete tree, `model` equations (1) and (2) with the height, radius \
         and most children of the real tree, `packets` follows every packet of the real tree through the test fabric \
         of figure 3 (512 ports, 16 on a leaf switch, two on a node). The paper's measured curves are pictures that \
         cannot be read."
            .to_owned(),
        format!(
            "Noise: what it leaves of the one link of a leaf switch. With packets followed in turn each holds the link \
             for {:.3} us, which is fitted to the published 32 % at 64 processes; 64 bytes in that time are {:.2} GB/s. \
             All else of figure 15 and table 4 comes out of it.",
            found.noisy.hold_us,
            0.064 / found.noisy.hold_us
        ),
        format!(
            "`simulated` is the packet-level simulator with the model's constants, every process on a port of its own, \
             the two of a node without the fabric between them, and packets of 64 bytes that share links and buffers. \
             Its noise leaves {:.2} GB/s of every leaf switch's one link, both ways, fitted to the same number: a fifth, as \
             published, of a link of {:.1} GB/s. Chance has no part in it.",
            found.simulated.left_gb_per_s,
            5.0 * found.simulated.left_gb_per_s
        ),
        "Switches of the simulator reduce in a unit, to which no wire leads; what it takes or sends crosses the switch, \
         so that a packet that is reduced crosses it twice. Packets of 2 048 bytes and their header are stored in each \
         unit on their way up."
            .to_owned(),
        "Of the five patterns the text names two; the cubes and the number of random groups are those of \
         MR4LMS for a fabric of this size."
            .to_owned(),
        "`bluelight` is a pruned fat tree of 34 midplanes below 8 directors (8 704 endpoints, MR4LMS's preset) with \
         MR4LMS's patterns for it, `dragonfly` one of 33 groups of 8 switches (1 056 endpoints). There a tree's root is a \
         switch of least largest hop count. No number of them is published."
            .to_owned(),
        "74.51 % of the 3 468 communicators of 34x34x34 are 2 584, a whole number; of the other patterns' \
         it is none."
            .to_owned(),
        OF_THEIR_METHOD.to_owned(),
    ];
    if run.quick {
        notes.push("Quick form: one of two fabrics, two of five patterns.".to_owned());
    }
    notes
}

fn line(label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series { label: label.into(), points: points.into_iter().collect(), style: Style::Line }
}

fn plot(name: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>) -> Plot {
    let figure = Figure::Lines { x, y, series };
    Plot { name: name.to_owned(), title: title.to_owned(), figure }
}

fn us(number: f64) -> Cell {
    Cell::Number(number, 3)
}

/// Lines over x, as table and plot: a column and a series each.
struct Lines<'a> {
    name: &'a str,
    title: &'a str,
    x: Axis,
    y: &'a str,
    columns: Vec<String>,
    /// A value of x, and one value for each column.
    rows: Vec<(u32, Vec<f64>)>,
}

impl Lines<'_> {
    fn draw(self) -> (Table, Plot) {
        let Self { name, title, x, y, columns, rows } = self;
        let heads: Vec<&str> =
            [x.label.as_str()].into_iter().chain(columns.iter().map(String::as_str)).collect();
        let mut table = Table::new(name, title, &heads);
        for (at, values) in &rows {
            let values = values.iter().map(|value| us(*value));
            table.push([Cell::count(*at)].into_iter().chain(values));
        }
        let series = columns.iter().enumerate().map(|(column, label)| {
            line(label, rows.iter().map(|(at, values)| (f64::from(*at), values[column])))
        });
        let series = series.collect();
        (table, plot(name, title, x, Axis::linear(y), series))
    }
}

fn processes() -> Axis {
    Axis::log("processes")
}

const LATENCY: &str = "latency in us";

/// Broadcast of 8 bytes over processes: the model and every packet (figure 4).
fn model_by_processes(found: &Found) -> (Table, Plot) {
    let row = |tree: &Tree| {
        let costs = &found.parameters;
        let complete = modelled_us(costs, TreeKind::Adapter, tree.processes, [WIDTH, 8]);
        let simulated = found.simulated.time(Kind::Ary, tree.processes);
        let simulated = simulated.expect("the same trees were simulated").idle_us;
        let (model, packets) = (tree.own_model_us(costs, 8), tree.broadcast_us(costs, 8));
        (tree.processes, vec![complete, model, packets, simulated])
    };
    Lines {
        name: "fig4-model-by-processes",
        title: "Broadcast of 8 bytes, 32-ary tree: model, packets and simulator (figure 4)",
        x: processes(),
        y: LATENCY,
        columns: ["complete", "model", "packets", "simulated"].map(str::to_owned).to_vec(),
        rows: found.idle.of(Kind::Ary).map(row).collect(),
    }
    .draw()
}

/// Broadcast over sizes: the model and every packet (figure 5).
fn model_by_size(found: &Found) -> (Table, Plot) {
    let tree = found.idle.whole(Kind::Ary);
    let row = |bytes: u32| {
        let costs = &found.parameters;
        (bytes, vec![tree.own_model_us(costs, bytes), tree.broadcast_us(costs, bytes)])
    };
    Lines {
        name: "fig5-model-by-size",
        title: "Broadcast over 512 processes, 32-ary tree: model and packets (figure 5)",
        x: Axis::log("bytes"),
        y: LATENCY,
        columns: vec!["model".to_owned(), "packets".to_owned()],
        rows: SIZES.map(row).to_vec(),
    }
    .draw()
}

/// F(k) over the width (figure 6).
fn width_curve(found: &Found) -> (Table, Plot) {
    let trade = Trade::new(&found.parameters, Operation::Barrier, 0);
    Lines {
        name: "fig6-width",
        title: "F(k) of barrier and broadcast over 512 processes (figure 6)",
        x: Axis::linear("width k"),
        y: "F(k) in us",
        columns: vec!["F(k)".to_owned()],
        rows: (2..=128).map(|width| (width, vec![trade.latency_us(width, MOST)])).collect(),
    }
    .draw()
}

fn columns_of_kinds(suffixes: &[&str]) -> Vec<String> {
    let names = |suffix: &&str| {
        let suffix = (*suffix).to_owned();
        Kind::ALL.map(move |kind| format!("{}{suffix}", kind.name()))
    };
    suffixes.iter().flat_map(names).collect()
}

/// Three adapter trees over processes (figure 12).
fn latency_by_processes(found: &Found) -> (Table, Plot) {
    let trees: Vec<Vec<&Tree>> = Kind::ALL.map(|kind| found.idle.of(kind).collect()).to_vec();
    let row = |at: usize| {
        let times = [8, 2_048].into_iter().flat_map(|bytes| {
            trees.iter().map(move |trees| trees[at].broadcast_us(&found.parameters, bytes))
        });
        (trees[0][at].processes, times.collect())
    };
    Lines {
        name: "fig12-adapter-trees-by-processes",
        title: "Broadcast on three adapter trees over processes (figure 12)",
        x: processes(),
        y: LATENCY,
        columns: columns_of_kinds(&[", 8 B", ", 2 KB"]),
        rows: (0..trees[0].len()).map(row).collect(),
    }
    .draw()
}

/// Three adapter trees over sizes (figure 13).
fn latency_by_size(found: &Found) -> (Table, Plot) {
    let row = |bytes: u32| {
        let time = |kind| found.idle.whole(kind).broadcast_us(&found.parameters, bytes);
        (bytes, Kind::ALL.map(time).to_vec())
    };
    Lines {
        name: "fig13-adapter-trees-by-size",
        title: "Broadcast on three adapter trees of 512 processes over sizes (figure 13)",
        x: Axis::log("bytes"),
        y: LATENCY,
        columns: columns_of_kinds(&[""]),
        rows: SIZES.map(row).to_vec(),
    }
    .draw()
}

/// Three adapter trees on shared links with noise, and idle ones (figure 15).
fn noise(found: &Found) -> (Table, Plot) {
    let times = &found.noisy.times;
    let rows = times.chunks(Kind::ALL.len()).map(|same| {
        let noisy = same.iter().map(|time| time.noisy_us);
        (same[0].processes, noisy.chain(same.iter().map(|time| time.idle_us)).collect())
    });
    Lines {
        name: "fig15-noise",
        title: "Broadcast of 8 bytes, pruned fat tree with noise, and idle (figure 15)",
        x: processes(),
        y: LATENCY,
        columns: columns_of_kinds(&[", noise", ", idle"]),
        rows: rows.collect(),
    }
    .draw()
}

/// The same on the packet-level simulator.
fn simulated(found: &Found) -> (Table, Plot) {
    let rows = found.simulated.times.chunks(Kind::ALL.len()).map(|same| {
        let noisy = same.iter().map(|time| time.noisy_us);
        (same[0].processes, noisy.chain(same.iter().map(|time| time.idle_us)).collect())
    });
    Lines {
        name: "fig15-simulated",
        title: "Broadcast of 8 bytes on the packet-level simulator, pruned with noise, and idle \
                (figures 12 and 15)",
        x: processes(),
        y: LATENCY,
        columns: columns_of_kinds(&[", noise", ", idle"]),
        rows: rows.collect(),
    }
    .draw()
}

/// Adapter against switch trees, one size (figure 18).
fn kinds(found: &Found, [name, size]: [&str; 2], bytes: u32) -> (Table, Plot) {
    let row = |tree: &Tree| {
        let (costs, processes) = (&found.parameters, tree.processes);
        let mut pairs = found.kinds.iter();
        let pair = pairs.find(|pair| (pair.processes, pair.bytes) == (processes, bytes));
        let pair = pair.expect("the same trees were simulated");
        let times = vec![
            modelled_us(costs, TreeKind::Adapter, processes, [WIDE, bytes]),
            tree.broadcast_us(costs, bytes),
            pair.adapter_us,
            modelled_us(costs, TreeKind::Switch, processes, [WIDE, bytes]),
            switch_tree_us(costs, processes, bytes),
            pair.switch_us,
        ];
        (processes, times)
    };
    let columns = ["adapter", "switch"].into_iter().flat_map(|kind| {
        ["complete", "packets", "simulated"].map(|measure| format!("{kind}, {measure}"))
    });
    Lines {
        name,
        title: &format!(
            "Broadcast of {size} on a 64-ary adapter tree and on a switch tree (figure 18)"
        ),
        x: processes(),
        y: LATENCY,
        columns: columns.collect(),
        rows: found.idle.wide.iter().map(row).collect(),
    }
    .draw()
}

/// Widths within 0.1 us of the best (table 2).
fn widths(found: &Found) -> Table {
    let title =
        "Widths of adapter trees by operation and size, within 0.1 us of the best (table 2)";
    let mut table =
        Table::new("table2-widths", title, &["operation", "bytes", "min", "best", "max"]);
    for operation in Operation::ALL {
        for bytes in [0, 8, 64, 256, 1_024, 4_096, 16_384] {
            let trade = Trade::new(&found.parameters, operation, bytes);
            let range = trade.width_range(MOST, MOST - 1, LIMITS.tolerance_us);
            table.push([
                Cell::text(operation.name()),
                Cell::count(bytes),
                Cell::count(range.min),
                Cell::count(range.best),
                Cell::count(range.max),
            ]);
        }
    }
    table
}

/// The kind of tree by operation and size (table 3).
fn choice(found: &Found) -> Table {
    let title = "Kind of tree by operation and size, 512 processes (table 3)";
    let columns = ["operation", "up to bytes", "tree", "adapter in us", "switch in us"];
    let mut table = Table::new("table3-choice", title, &columns);
    let choices = ChoiceTable::new(&found.parameters, MOST, &LIMITS);
    // Rows of one operation and kind differ in widths only.
    for same in choices.rows().chunk_by(|a, b| (a.operation, a.kind) == (b.operation, b.kind)) {
        let Some(last) = same.last() else { continue };
        let bytes = match last.up_to_bytes {
            u32::MAX => Cell::text("any"),
            bytes => Cell::count(bytes),
        };
        table.push([
            Cell::text(last.operation.name()),
            bytes,
            Cell::text(last.kind.to_string()),
            us(last.adapter_us),
            us(last.switch_us),
        ]);
    }
    table
}

/// Packets between leaf switches (figure 16).
fn crossings(found: &Found) -> Table {
    let title = "Packets between leaf switches of 512 processes (figure 16)";
    let columns = ["tree", "all", "most between two switches", "most on one link of a leaf switch"];
    let mut table = Table::new("fig16-crossings", title, &columns);
    for kind in Kind::ALL {
        let crossed = Crossed::of(found.idle.whole(kind));
        let counts = [crossed.all, crossed.pair, crossed.link].map(Cell::count);
        table.push([Cell::text(kind.name())].into_iter().chain(counts));
    }
    table
}

/// Packets between leaf switches.
pub(super) struct Crossed {
    all: u32,
    /// From one switch to another, at most.
    pub(super) pair: u32,
    /// On the one link of a leaf switch of the pruned fabric, in one direction, at most.
    pub(super) link: u32,
}

impl Crossed {
    pub(super) fn of(tree: &Tree) -> Self {
        let crossings = tree.tree.crossings(&tree.nesting, LEAF);
        let mut links = std::collections::BTreeMap::<(bool, u32), u32>::new();
        for crossing in &crossings {
            for link in [(true, crossing.from), (false, crossing.to)] {
                *links.entry(link).or_default() += crossing.packets;
            }
        }
        Self {
            all: crossings.iter().map(|crossing| crossing.packets).sum(),
            pair: crossings.iter().map(|crossing| crossing.packets).max().unwrap_or(0),
            link: links.into_values().max().unwrap_or(0),
        }
    }
}

/// Share by which the hierarchical tree's latency is lower (table 4).
fn lower(found: &Found) -> Table {
    let title = "Broadcast of 8 bytes with noise: how much lower the hierarchical tree's latency is \
                 than that of the others (table 4)";
    let others = [Kind::Ary, Kind::Nomial];
    let mut heads = vec!["processes".to_owned()];
    for suffix in ["", ", simulated"] {
        heads.extend(others.map(|kind| format!("than {}, in %{suffix}", kind.name())));
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("table4-noise", title, &heads);
    let percent =
        |lower: Option<f64>| lower.map_or(Cell::Empty, |lower| Cell::Number(100.0 * lower, 1));
    for time in found.noisy.times.iter().filter(|time| time.kind == Kind::Ary) {
        let processes = time.processes;
        let followed = others.map(|kind| percent(found.noisy.lower(kind, processes)));
        let simulated = others.map(|kind| percent(found.simulated.lower(kind, processes)));
        table.push([Cell::count(processes)].into_iter().chain(followed).chain(simulated));
    }
    table
}
