//! Measures messages and operations of groups side by side with Open MPI and with plain gRPC calls,
//! all on this machine, and writes the table of `docs/evaluation/messages/README.md`.
//!
//! The processes run `clients/rust/examples/figures`, started by `fabricast run`,
//! and `figures/mpi.c`, started by `mpirun`. Where there is no `mpicc` that column says so.

pub(crate) mod joins;
pub(crate) mod lab;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::outside;

/// Page of the table.
const TABLE: &str = "docs/evaluation/messages/README.md";
/// The table of contents, and the line that those of new pages stand before.
const SUMMARY: &str = "docs/SUMMARY.md";
const NEXT: &str = "  - [latency](evaluation/latency/comparison.md)\n";
/// Numbers of processes.
const SIZES: [u32; 8] = [2, 4, 8, 16, 32, 64, 128, 256];
/// Nothing more is begun after this.
const TIME: Duration = Duration::from_mins(8);
/// One number of processes that takes longer is given up.
const TIMEOUT_SECONDS: &str = "180";
/// The systems that are compared, and the prefix of each one's figures.
const SYSTEMS: [(&str, &str); 3] =
    [("Fabricast", "fabricast/"), ("gRPC loop", "grpc/"), ("Open MPI", "openmpi/")];
/// The measurements: the end of the figure's name, and its title.
const MEASUREMENTS: [(&str, &str); 7] = [
    ("multicast_8_bytes", "One message of 8 bytes to all, until its source knows that all have it"),
    (
        "throughput_2_KiB",
        "Time for each of many messages of 2 KiB of one source, some on their way at once",
    ),
    ("multicast_1_MiB", "One message of 1 MiB to all, until its source knows that all have it"),
    ("barrier", "Barrier"),
    ("all_reduce_8_bytes", "Sum of one 64-bit number of each"),
    ("all_reduce_2_KiB", "Sum of 256 64-bit numbers of each"),
    ("all_reduce_1_MiB", "Sum of 131 072 64-bit numbers of each"),
];

/// The figures of one number of processes, by name.
type Figures = BTreeMap<String, String>;

/// Measures and writes the table. Returns the table, and `false` if something could not be run.
///
/// - `trial`: with what `cargo build` makes without optimization, for up to 16 processes, and
///   without writing.
///
/// # Errors
///
/// A program that does not build, or a file that cannot be written.
pub(crate) fn run(root: &Path, trial: bool) -> Result<(String, bool)> {
    let folder = build(root, if trial { "dev" } else { "release" })?;
    let mpi = compile_mpi(root, "xtask/src/figures/mpi.c", folder.join("figures-mpi"))?;
    let begun = Instant::now();
    let (mut rows, mut complete) = (Vec::new(), mpi.is_some());
    for size in SIZES.into_iter().filter(|size| !trial || *size <= 16) {
        let mut found = Figures::new();
        for command in [Some(fabricast(&folder, size)), mpi.as_deref().map(|it| mpirun(it, size))] {
            let Some(mut command) = command.filter(|_| begun.elapsed() < TIME) else {
                complete = false;
                continue;
            };
            match measure(&mut command) {
                Ok(figures) => found.extend(figures),
                Err(error) => {
                    println!("{size} processes: {error:#}");
                    complete = false;
                }
            }
        }
        println!("{size} processes: {} figures after {:?}", found.len(), begun.elapsed());
        rows.push((size, found));
    }
    let text = table(&rows, mpi.is_some());
    if !trial {
        let path = root.join(TABLE);
        fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        fs::write(&path, &text).with_context(|| format!("write {TABLE}"))?;
    }
    Ok((text, complete))
}

/// Lists a page in the table of contents, unless it is there.
///
/// - `entry`: its line.
fn list(root: &Path, entry: &str) -> Result<()> {
    let summary =
        fs::read_to_string(root.join(SUMMARY)).with_context(|| format!("read {SUMMARY}"))?;
    let listed = listed(&summary, entry);
    ensure!(listed.contains(entry), "{SUMMARY} has no line '{}'", NEXT.trim());
    fs::write(root.join(SUMMARY), listed).with_context(|| format!("write {SUMMARY}"))
}

/// The table of contents with a line.
fn listed(summary: &str, entry: &str) -> String {
    if summary.contains(entry) {
        return summary.to_owned();
    }
    summary.replacen(NEXT, &format!("{entry}{NEXT}"), 1)
}

/// Builds what runs; answers the folder that it is in.
fn build(root: &Path, profile: &str) -> Result<PathBuf> {
    let what = "--workspace --bin fabricast --example figures --example spread";
    let mut cargo = outside("cargo", root);
    cargo.args(["build", "--profile", profile]).args(what.split(' '));
    let built = cargo.status().context("start cargo")?;
    ensure!(built.success(), "cargo build --profile {profile} {what}");
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let folder = folder.join(if profile == "dev" { "debug" } else { profile });
    ensure!(folder.join("fabricast").is_file(), "no fabricast in {}", folder.display());
    Ok(folder)
}

/// Compiles a program for Open MPI; `None`, said aloud, where there is no compiler for it.
fn compile_mpi(root: &Path, source: &str, program: PathBuf) -> Result<Option<PathBuf>> {
    let source = root.join(source);
    match Command::new("mpicc").args(["-O2", "-o"]).arg(&program).arg(source).status() {
        Ok(status) if status.success() => Ok(Some(program)),
        Ok(status) => bail!("mpicc: {status}"),
        Err(_) => {
            println!(
                "there is no mpicc: Open MPI is left out (packages openmpi-bin, libopenmpi-dev)"
            );
            Ok(None)
        }
    }
}

fn fabricast(folder: &Path, size: u32) -> Command {
    let mut command = Command::new("timeout");
    command.arg(TIMEOUT_SECONDS).arg(folder.join("fabricast"));
    command.args(["run", "-n", &size.to_string(), "--"]).arg(folder.join("examples/figures"));
    command
}

fn mpirun(program: &Path, size: u32) -> Command {
    let mut command = Command::new("timeout");
    command
        .args([TIMEOUT_SECONDS, "mpirun", "--oversubscribe", "-n", &size.to_string()])
        .arg(program);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn measure(command: &mut Command) -> Result<Figures> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    let figures = figures(&String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", output.status, said.lines().last().unwrap_or("without a word"));
    }
    Ok(figures)
}

/// The lines `figure <name> <number> <unit>` of an output.
fn figures(output: &str) -> Figures {
    let lines = output.lines().filter_map(|line| line.strip_prefix("figure ")?.split_once(' '));
    lines.map(|(name, figure)| (name.to_owned(), figure.to_owned())).collect()
}

/// Microseconds as people write times.
fn time(figure: &str) -> String {
    match figure.strip_suffix(" us").and_then(|number| number.parse::<f64>().ok()) {
        Some(micros) if micros >= 1e6 => format!("{:.1} s", micros / 1e6),
        Some(micros) if micros >= 1e3 => format!("{:.1} ms", micros / 1e3),
        _ => figure.to_owned(),
    }
}

fn table(rows: &[(u32, Figures)], has_mpi: bool) -> String {
    let mut text = String::from(HEAD);
    if !has_mpi {
        text += "\nThere was no `mpicc` when this was written: Open MPI was left out.\n";
    }
    for (what, title) in MEASUREMENTS {
        let _ = writeln!(text, "\n## {title}\n");
        let names = SYSTEMS.map(|(who, _)| who).join(" | ");
        let _ = writeln!(text, "| processes | {names} |\n| ---: | ---: | ---: | ---: |");
        for (size, found) in rows {
            let cell = |(_, prefix): (&str, &str)| {
                found.get(&format!("{prefix}{what}")).map_or("-".to_owned(), |one| time(one))
            };
            let _ = writeln!(text, "| {size} | {} |", SYSTEMS.map(cell).join(" | "));
        }
    }
    text + &others(rows)
}

/// Figures that only one has.
fn others(rows: &[(u32, Figures)]) -> String {
    let mut text = String::from(AGENTS);
    for (size, found) in rows {
        let formed = found.get("all_take_part").map_or("-".to_owned(), |one| time(one));
        let each = found.get("fabricast/throughput_2_KiB").and_then(|one| micros(one));
        let handed = each.map(|each| f64::from(size - 1) * 1e6 / each);
        let nodes = found.get("fabricast/nodes").and_then(|one| one.parse::<f64>().ok());
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |one| format!("{one:.0}"));
        let by_each = handed.zip(nodes).map(|(handed, nodes)| handed / nodes);
        let memory = found.get("fabricast/memory_of_a_group").map_or("-", String::as_str);
        let (nodes, handed, by_each) = (number(nodes), number(handed), number(by_each));
        let _ = writeln!(text, "| {size} | {nodes} | {formed} | {handed} | {by_each} | {memory} |");
    }
    text + &ways(rows)
}

/// The table of payloads through the socket and through shared memory.
fn ways(rows: &[(u32, Figures)]) -> String {
    let mut text = String::from(WAYS);
    for (size, found) in rows {
        for (what, title) in [
            ("there_and_back", "to the agent and back"),
            ("multicast", "to all, until acknowledged"),
        ] {
            for length in ["4_KiB", "16_KiB", "32_KiB", "64_KiB", "256_KiB", "1_MiB"] {
                let of = |way: &str| found.get(&format!("{way}/{what}_{length}"));
                let (Some(socket), Some(memory)) = (of("socket"), of("memory")) else { continue };
                let gain = micros(socket).zip(micros(memory));
                let gain =
                    gain.map_or("-".to_owned(), |(one, other)| format!("{:.2}", one / other));
                let (socket, memory) = (time(socket), time(memory));
                let length = length.replace('_', " ");
                let _ = writeln!(
                    text,
                    "| {size} | {title} | {length} | {socket} | {memory} | {gain} |"
                );
            }
        }
    }
    text
}

fn micros(figure: &str) -> Option<f64> {
    figure.strip_suffix(" us")?.parse().ok()
}

const AGENTS: &str = "
## The agents

Handed are the messages of the row \"many messages of 2 KiB\" above: those that agents hand to processes in a second, all
of them together (they are one operating-system process here), and each, which has one node. What a group costs is what the whole system
(control plane, emulated fabric and the agents of all nodes) grows by for each group of so many members that all take part.

| processes | nodes | until each knows that all take part | messages handed per second | by each agent | memory of a group |
| ---: | ---: | ---: | ---: | ---: | ---: |
";

const WAYS: &str = "
## Long messages through the socket and through shared memory

Between a process and its agent payloads go through the socket, or through a file in memory that the two share
(`docs/messages.md`). \"To the agent and back\" is a broadcast in a group of one. Medians; the two ways took turns.

| processes | what | length | socket | memory | socket / memory |
| ---: | --- | ---: | ---: | ---: | ---: |
";

const HEAD: &str = "\
# Messages and operations on one machine

Written by `cargo xtask figures`, on one machine with 2 cores; other work may have run beside it. Means of many
rounds. A dash is something that was not run, or not to its end.

- *Fabricast*: `fabricast run -n N`, with a whole system of its own in one process: control plane, emulated fabric, and
  an operating agent for every node. Every call is a gRPC call of a process to that agent at a Unix socket, and the
  switches are emulated: this compares what the programs cost, not what hardware multicast gains.
- *gRPC loop*: the same processes without Fabricast. A source calls all others one after the other; for a barrier or a
  sum all call the first process, which answers when all have called.
- *Open MPI*: `mpirun --oversubscribe -n N`. Its processes share memory and poll, in user space: no system call and no other
  process is between them. A message to all is a broadcast and a barrier, after which the source knows that all have it.

Fabricast is slower than Open MPI by orders of magnitude while every process has a core of its own. It does something else:
members join, leave and die at any time, messages are acknowledged and repeated, and processes need not be started
together.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_rows_and_what_is_missing_a_dash() {
        let found =
            figures("noise\nfigure fabricast/barrier 1234.5 us\nfigure openmpi/barrier 3.1 us\n");
        let text = table(&[(4, found)], false);
        assert!(text.contains("| 4 | 1.2 ms | - | 3.1 us |"), "{text}");
        assert!(text.contains("Open MPI was left out"));
    }

    #[test]
    fn a_page_is_listed_once_before_its_neighbour() {
        let summary = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/SUMMARY.md");
        let summary = fs::read_to_string(summary).expect("the table of contents");
        for entry in [&lab::PAGE.entry(), joins::ENTRY] {
            let once = listed(&summary, entry);
            assert_eq!(once.matches(entry).count(), 1, "{once}");
            assert_eq!(listed(&once, entry), once);
        }
    }

    #[test]
    fn messages_per_second_count_every_process_that_gets_one() {
        let text = others(&[(3, figures("figure fabricast/throughput_2_KiB 100.0 us\n"))]);
        assert!(text.contains("| 3 | - | - | 20000 | - | - |"), "{text}");
        let text = others(&[(
            5,
            figures(
                "figure fabricast/throughput_2_KiB 100.0 us\nfigure fabricast/nodes 4\n\
                 figure fabricast/memory_of_a_group 70 KiB\n",
            ),
        )]);
        assert!(text.contains("| 5 | 4 | - | 40000 | 10000 | 70 KiB |"), "{text}");
    }

    #[test]
    fn ways_are_compared_where_both_were_measured() {
        let text = ways(&[(
            2,
            figures(
                "figure socket/multicast_1_MiB 3000.0 us\nfigure memory/multicast_1_MiB 2000.0 us\n\
                 figure socket/multicast_4_KiB 1.0 us\n",
            ),
        )]);
        let row = "| 2 | to all, until acknowledged | 1 MiB | 3.0 ms | 2.0 ms | 1.50 |";
        assert!(text.contains(row), "{text}");
        assert!(!text.contains("4 KiB"), "{text}");
    }
}
