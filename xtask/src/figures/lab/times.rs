//! Times of operations in the lab, as the example of the component prints them.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::{Lab, Page};
use crate::figures::{compile_mpi, time};

/// The page of times.
pub(super) const PAGE: Page = Page { title: "Times of MPI in the lab of switches", folder: "mpi" };
/// The program that measures.
const PROGRAM: &str = "clients/openmpi/examples/latency.c";
/// Numbers of ranks.
const RANKS: [u32; 6] = [2, 4, 8, 16, 32, 64];
/// Ranks of the goals, one on each host.
const RANKS_OF_GOALS: u32 = 16;
/// The most iterations, and the most bytes.
const ARGUMENTS: [&str; 2] = ["30", "8388608"];
/// The goals, as factors.
const LEAST_GAIN: f64 = 2.5;
const MOST_LOSS: f64 = 1.3;
const MOST_BEHIND: f64 = 1.1;
/// Bytes from which on broadcasts have a goal.
const LONG: u64 = 1 << 16;

/// Rows of one number of ranks.
pub(super) struct Measured {
    ranks: u32,
    rows: Vec<Row>,
}

/// Times of one operation of one size.
#[derive(Debug, PartialEq)]
struct Row {
    operation: String,
    /// Bytes of a broadcast, or of what each rank gives.
    bytes: u64,
    own: Time,
    forced: Time,
    fabricast: Time,
    choice: Time,
    /// The algorithm that Open MPI was forced to, and the bytes of its segments.
    algorithm: String,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    median: f64,
    /// The 99th percentile.
    late: f64,
}

impl Row {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [operation, bytes, times @ .., algorithm] = words.as_slice() else { return None };
        let numbers: Option<Vec<f64>> = times.iter().map(|word| word.parse().ok()).collect();
        let numbers: [f64; 8] = numbers?.try_into().ok()?;
        let at =
            |system: usize| Time { median: numbers[2 * system], late: numbers[2 * system + 1] };
        Some(Self {
            operation: (*operation).to_owned(),
            bytes: bytes.parse().ok()?,
            own: at(0),
            forced: at(1),
            fabricast: at(2),
            choice: at(3),
            algorithm: (*algorithm).to_owned(),
        })
    }

    /// The factor by which Fabricast is faster than the better of Open MPI's two.
    fn gain(&self) -> f64 {
        self.own.median.min(self.forced.median) / self.fabricast.median
    }

    /// The time of the choice over that of the better of the two that it chooses from.
    fn behind(&self) -> f64 {
        self.choice.median / self.own.median.min(self.fabricast.median)
    }
}

/// Runs the program with each number of ranks. Rows are missing where it does not end.
pub(super) fn measure(lab: &Lab<'_>) -> Result<Vec<Measured>> {
    let program = compile_mpi(lab.root, PROGRAM, lab.prefix.join("latency"))?;
    let program = program.with_context(|| format!("{PROGRAM} needs mpicc"))?;
    lab.runs("unicast")?;
    let mut measured = Vec::new();
    for ranks in RANKS {
        let mut mpirun = lab.script("mpirun");
        mpirun.args(["-n", &ranks.to_string()]).arg(&program).args(ARGUMENTS);
        mpirun.env("FABRICAST_MPI", "try").env("FABRICAST_LAB_NETWORK", "eth0");
        let output = mpirun.output().context("start deploy/lab/mpirun")?;
        let rows: Vec<Row> =
            String::from_utf8_lossy(&output.stdout).lines().filter_map(Row::read).collect();
        println!("{ranks} ranks: {} rows, {}", rows.len(), output.status);
        if !output.status.success() {
            print!("{}", String::from_utf8_lossy(&output.stderr));
        }
        measured.push(Measured { ranks, rows });
    }
    Ok(measured)
}

/// The page. A number of ranks without rows has a dash.
pub(super) fn page(measured: &[Measured]) -> String {
    let mut text = format!("{HEAD}{}", goals(measured));
    for Measured { ranks, rows } in measured {
        let _ = write!(text, "\n## {ranks} ranks\n\n{COLUMNS}");
        if rows.is_empty() {
            text += "| - | - | - | - | - | - | - | - |\n";
        }
        for row in rows {
            let cell = |of: Time| format!("{} ({})", micros(of.median), micros(of.late));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {}, {} | {} | {} | {:.2}x | {:.2} |",
                row.operation,
                row.bytes,
                cell(row.own),
                cell(row.forced),
                row.algorithm,
                cell(row.fabricast),
                cell(row.choice),
                row.gain(),
                row.behind()
            );
        }
    }
    text
}

fn micros(number: f64) -> String {
    time(&format!("{number:.1} us"))
}

/// The rows of the goals: what is demanded, and the row that is farthest from it.
fn goals(measured: &[Measured]) -> String {
    let of_goals = measured.iter().filter(|one| one.ranks == RANKS_OF_GOALS);
    let of_goals: Vec<&Row> = of_goals.flat_map(|one| &one.rows).collect();
    let long = |row: &&Row| row.operation == "bcast" && row.bytes >= LONG;
    let short =
        |row: &&Row| row.operation == "barrier" || (row.operation == "allreduce" && row.bytes == 8);
    let all = measured.iter().flat_map(|one| &one.rows);
    let least_gain = of_goals.iter().copied().filter(long).map(Row::gain).reduce(f64::min);
    let most_loss =
        of_goals.iter().copied().filter(short).map(|row| 1.0 / row.gain()).reduce(f64::max);
    let most_behind = all.map(Row::behind).reduce(f64::max);
    let mut text = String::from(GOALS);
    for (goal, found, is_met) in [
        (
            format!("16 hosts, broadcast of 64 KiB and more: at least {LEAST_GAIN}x faster"),
            least_gain,
            least_gain.is_some_and(|gain| gain >= LEAST_GAIN),
        ),
        (
            format!("16 hosts, barrier and all-reduce of 8 bytes: at most {MOST_LOSS} of the time"),
            most_loss,
            most_loss.is_some_and(|loss| loss <= MOST_LOSS),
        ),
        (
            format!("the choice: at most {MOST_BEHIND} of the better of the two"),
            most_behind,
            most_behind.is_some_and(|behind| behind <= MOST_BEHIND),
        ),
    ] {
        let found = found.map_or("-".to_owned(), |found| format!("{found:.2}"));
        let verdict = if is_met { "met" } else { "missed" };
        let _ = writeln!(text, "| {goal} | {found} | {verdict} |");
    }
    text
}

const HEAD: &str = "\
# Times of collective operations of MPI in the lab

For readers who want to know when multicast pays. Written by `cargo xtask figures --lab times`: ranks on the 16 hosts of
`deploy/lab`, 20 switches (MTU 1500) in user space, in one run for each number of ranks. More than 16 ranks share hosts.

- *Open MPI*: 4.1, by its own choice of algorithms, over TCP through the same switches.
- *Its best*: the algorithm that is fastest when Open MPI is forced to it, by number, with the bytes of its segments.
- *Fabricast*: `coll/fabricast` for every operation. *Choice*: as the component chooses by itself.
- Times are medians, and 99th percentiles in brackets, of up to 30 iterations, of long operations of 3 and more. An
  iteration begins after a barrier and lasts until the last rank has returned. The four take turns.
- *Gain*: the better of Open MPI's two over Fabricast. *Behind*: the choice over the better of Open MPI and Fabricast.
- The bytes are those of a broadcast, or what each rank gives. The result of an all-gather has 16 MiB at most.
- Two processor cores run all ranks and all switches, and decide most of these times.
  [broadcast](../broadcast/comparison.md) and [all-gather](../all-gather/comparison.md) have multicast beside trees and
  rings on the packet simulator, where links decide. `cargo xtask figures --lab` counts the bytes on links, which depend
  on no processor.

";

const GOALS: &str = "\
## Goals

What was found is the row that is farthest from the goal.

| goal | found | verdict |
| --- | ---: | --- |
";

const COLUMNS: &str = "\
| operation | bytes | Open MPI | its best | Fabricast | choice | gain | behind |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

#[cfg(test)]
mod tests {
    use super::*;

    const BARRIER: &str = "barrier 0 130 900 100 400 120 300 125 310 3/0";

    fn measured(lines: &[&str]) -> Vec<Measured> {
        let rows = lines.iter().filter_map(|line| Row::read(line)).collect();
        vec![Measured { ranks: 16, rows }]
    }

    #[test]
    fn lines_of_the_program_are_rows_and_its_headings_are_none() {
        assert_eq!(Row::read("16 ranks, microseconds: median and 99th percentile"), None);
        assert_eq!(Row::read("operation bytes Open MPI Open MPI's best Fabricast choice"), None);
        let text = page(&measured(&[BARRIER]));
        let row = "| barrier | 0 | 130.0 us (900.0 us) | 100.0 us (400.0 us), 3/0 | \
                   120.0 us (300.0 us) | 125.0 us (310.0 us) | 0.83x | 1.04 |\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn a_goal_is_judged_by_the_row_that_is_farthest_from_it() {
        let near = "bcast 65536 300 300 200 200 100 100 100 100 6/0";
        let far = "bcast 1048576 300 300 260 260 100 100 120 120 6/0";
        let short = "bcast 8 1 1 1 1 9 9 1 1 6/0";
        let text = goals(&measured(&[BARRIER, near, far, short]));
        assert!(text.contains("at least 2.5x faster | 2.00 | missed |"), "{text}");
        assert!(text.contains("at most 1.3 of the time | 1.20 | met |"), "{text}");
        assert!(text.contains("better of the two | 1.20 | missed |"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let text = page(&measured(&[]));
        assert!(text.contains("| - | - | - |") && text.contains(" | - | missed |"), "{text}");
    }
}
