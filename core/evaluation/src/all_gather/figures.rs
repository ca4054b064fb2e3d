//! The table and plot of the all-gather.

use super::{Counted, PAYLOAD_BYTES, Size, claims};
use crate::claim::OF_THEIR_METHOD;
use crate::experiment::Run;
use crate::plot::{Axis, Bars, Figure, Plot};
use crate::report::{Cell, Report, Table};

/// Puts the report together.
pub(super) fn report(run: &Run<'_>, size: Size, outcomes: &[Counted]) -> Report {
    Report {
        tables: vec![table(size, outcomes)],
        plots: vec![bars(outcomes)],
        claims: claims::claims(size, outcomes),
        laws: claims::laws(size, outcomes),
        not_compared: claims::NOT_COMPARED.to_vec(),
        notes: notes(run, size),
    }
}

fn notes(run: &Run<'_>, size: Size) -> Vec<String> {
    let link = run.hardware.latency.link;
    vec![
        format!(
            "Set-up: {} nodes, spread evenly over 12 leaf switches of 18 ports, with 3 links to each of 6 spine \
             switches. The wiring is ours. A block is {} KiB in packets of {PAYLOAD_BYTES} bytes.",
            size.nodes,
            size.packets * PAYLOAD_BYTES / 1_024
        ),
        "Bytes are those that the simulator's switch ports counted as sent, and those that adapters sent; all in \
         blocks, so that n blocks are n times what a node has."
            .to_owned(),
        "Multicast: one tree of all nodes by way of each spine switch, which the nodes use in turn, all at once. Ring: a node \
         sends on what it has received, packet by packet. To each one by one: node i begins with node i + 1."
            .to_owned(),
        format!(
            "Times are of lossless links of {} Gbit/s whose switches take {} ns, as in `latency`; nothing is fitted. \
             A node cannot have all blocks sooner than its one link brings them.",
            link.gbit_per_s, link.switch_ns
        ),
        format!("Orders by chance: {} seeds from {} on.", run.seeds, run.seed),
        OF_THEIR_METHOD.to_owned(),
    ]
}

fn table(size: Size, outcomes: &[Counted]) -> Table {
    let columns = [
        "scheme",
        "blocks from nodes",
        "blocks between switches",
        "blocks to nodes",
        "blocks on all links",
        "seeds: blocks on all links",
        "time in us",
    ];
    let title = format!("All-gather of {} nodes: bytes over links", size.nodes);
    let mut table = Table::new("all-gather", &title, &columns);
    for one in outcomes {
        let (all, done) = (one.all(), one.sample(|one| one.done_us));
        let mean = |value: fn(&super::Blocks) -> f64| Cell::Number(one.sample(value).mean(), 0);
        table.push([
            Cell::text(one.scheme.name()),
            mean(|one| one.from_nodes),
            mean(|one| one.between_switches),
            mean(|one| one.to_nodes),
            Cell::Number(all.mean(), 0),
            Cell::text(all.spread(|value| format!("{value:.0}"))),
            Cell::Number(done.mean(), 1),
        ]);
    }
    table
}

fn bars(outcomes: &[Counted]) -> Plot {
    type Part = (&'static str, fn(&super::Blocks) -> f64);
    let parts: [Part; 3] = [
        ("from nodes", |one| one.from_nodes),
        ("between switches", |one| one.between_switches),
        ("to nodes", |one| one.to_nodes),
    ];
    let series = parts.map(|(label, value)| {
        let of_schemes = outcomes.iter().map(|one| Some(one.sample(value).mean()));
        (label.to_owned(), of_schemes.collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::linear("blocks"),
        categories: outcomes.iter().map(|one| one.scheme.name().to_owned()).collect(),
        series: series.into(),
    });
    let title = "Bytes of an all-gather over links, in blocks of a node".to_owned();
    Plot { name: "all-gather".to_owned(), title, figure }
}
