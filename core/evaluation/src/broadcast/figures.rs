//! The table and plots of the broadcasts.

use super::jobs::Placement;
use super::scheme::Scheme;
use super::{AT_ONCE, Outcome, claims};
use crate::experiment::Run;
use crate::plot::{Axis, Bars, Figure, Plot};
use crate::report::{Cell, Report, Table};
use crate::sample::Sample;

/// Puts the report together.
pub(super) fn report(run: &Run<'_>, outcomes: &[Outcome]) -> Report {
    Report {
        tables: vec![table(outcomes), run.hardware.table(&run.hardware.broadcast)],
        plots: vec![bars(outcomes)],
        claims: claims::claims(outcomes),
        laws: Vec::new(),
        not_compared: claims::NOT_COMPARED.to_vec(),
        notes: notes(run),
    }
}

fn notes(run: &Run<'_>) -> Vec<String> {
    let mut notes = vec![
        "Set-up: 32 leaf and 16 spine switches, 2 servers of 8 GPUs on a leaf switch, a port of 100 Gbit/s for each GPU; \
         a job has 8 servers, and each rail carries an eighth of the 8 MB from the first server to the others. In the end \
         the parts are exchanged inside each server (8.9 us at 7.2 Tbit/s, for all schemes alike)."
            .to_owned(),
        "Ours: tables of 32 entries for each port; a group for each rail of each job, those of all jobs in the tables \
         at once, with MGIDs chosen as the TIC does. Eight jobs that broadcast at once have all 64 servers; the other jobs' servers are drawn \
         anew for each."
            .to_owned(),
        "Optimal: a tree to the members alone by way of every spine switch, packets in turn. As PEEL: a copy for each \
         power-of-two prefix of leaf switches, either exact ones or one for all; a leaf switch that it has besides hands \
         the copy to one adapter, which drops it. Its own choice of prefixes lies between the two. As Elmo: one spine \
         switch for a flow, drawn by chance; its header is counted for every link, though switches take parts of it \
         off."
            .to_owned(),
        "A deadlock is a circle of packets that wait for room in each other's buffers. Trees through one root, up and \
         then down, cannot make one. MR4LMS as published merges groups to trees that may go down and up again; ours \
         keeps merged trees to the levels of the fabric (`--deadlock-free`)."
            .to_owned(),
        "In rows of rivals *better* means that the rival does better here than published."
            .to_owned(),
        "Reasons of our own rows of single servers set the bytes between switches, over those of the optimal scheme, \
         beside what is left of the factor, and name the larger one first."
            .to_owned(),
        "Lossless by credit, no rate control: what congestion control costs is in the published times, not in ours."
            .to_owned(),
        format!("Servers and spine switches by chance: {} seeds from {} on.", run.seeds, run.seed),
    ];
    if run.quick {
        notes.push("Quick form: one placement, one job alone.".to_owned());
    }
    notes
}

fn table(outcomes: &[Outcome]) -> Table {
    let columns = [
        "servers of a job",
        "jobs at once",
        "scheme",
        "mean in us",
        "seeds: mean in us",
        "over optimal",
        "bytes between switches, in messages",
        "header bytes",
        "entries of a table",
        "seeds with a deadlock",
    ];
    let title = "Broadcast of 8 MB to 64 GPUs";
    let mut table = Table::new("broadcast", title, &columns);
    for one in outcomes {
        let is_optimal = |other: &&Outcome| {
            (other.scheme, other.placement, other.at_once)
                == (Scheme::Optimal, one.placement, one.at_once)
        };
        let optimal = outcomes.iter().find(is_optimal).unwrap_or(one);
        let mean = |sample: &Sample, decimals| match sample.values() {
            [] => Cell::Empty,
            _ => Cell::Number(sample.mean(), decimals),
        };
        let factor = match one.deadlocks {
            0 => one.mean_us.with(&optimal.mean_us, |ours, optimal| ours / optimal),
            _ => Vec::new().into(),
        };
        table.push([
            Cell::text(one.placement.name()),
            Cell::count(one.at_once),
            Cell::text(one.scheme.name()),
            mean(&one.mean_us, 1),
            Cell::text(one.mean_us.spread(|value| format!("{value:.1}"))),
            mean(&factor, 2),
            mean(&one.traffic, 1),
            mean(&one.header_bytes, 0),
            mean(&one.entries, 0),
            Cell::Count(one.deadlocks as u64),
        ]);
    }
    table
}

fn bars(outcomes: &[Outcome]) -> Plot {
    let cases = Placement::ALL.into_iter().flat_map(|place| AT_ONCE.map(|count| (place, count)));
    let cases: Vec<(Placement, u32)> = cases
        .filter(|case| outcomes.iter().any(|one| (one.placement, one.at_once) == *case))
        .collect();
    let series = Scheme::ALL.map(|scheme| {
        let of = |case: &(Placement, u32)| {
            let is_it =
                |one: &&Outcome| one.scheme == scheme && (one.placement, one.at_once) == *case;
            outcomes
                .iter()
                .find(is_it)
                .filter(|one| one.deadlocks == 0)
                .map(|one| one.mean_us.mean())
        };
        (scheme.name(), cases.iter().map(of).collect())
    });
    let label = |(place, count): &(Placement, u32)| format!("{}, {count} at once", place.name());
    let figure = Figure::Bars(Bars {
        y: Axis::log("mean time in us"),
        categories: cases.iter().map(label).collect(),
        series: series.into(),
    });
    let title = "Broadcast of 8 MB to 64 GPUs".to_owned();
    Plot { name: "broadcast".to_owned(), title, figure }
}
