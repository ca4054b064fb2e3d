//! Measures in labs of switches, and writes one page: goals, joins of programs, datagrams that are
//! lost and doubled while trees move and cables are cut, messages beside TCP, and bytes on links.
//!
//! The scripts of `deploy/lab` measure. This starts two labs, one after the other, and reads the
//! `figure` lines of the scripts.

mod goals;
mod programs;
mod traffic;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Figures, build, compile_mpi, figures};
use crate::{install_openmpi, setup};

/// File of the page.
const PAGE: &str = "docs/evaluation/lab/README.md";
/// The table of contents, the entry of the page, and the one that it stands before.
const SUMMARY: &str = "docs/SUMMARY.md";
const ENTRY: &str = "  - [The lab of switches](evaluation/lab/README.md)\n";
const NEXT: &str = "  - [latency](evaluation/latency/comparison.md)\n";
/// Seconds after which a script of the lab is given up.
const PATIENCE: &str = "7200";
/// Changes of cables in the lab of one tree for each one in the lab of two trees.
const FEWER: u32 = 5;
/// Datagrams a second in the lab of two trees, so that losses of 2 ms are seen.
const RATE: &str = "1000";

/// Measures, and writes and lists the page. Returns it, and `false` if a script failed or figures
/// are missing.
///
/// - `changes`: changes of cables in the lab of one tree.
///
/// # Errors
///
/// A program that does not build, a lab that does not start, or a file that cannot be written.
pub(crate) fn run(root: &Path, changes: u32) -> Result<(String, bool)> {
    if let Some(missing) = setup::set_up_one(root, "ovs") {
        return Ok((format!("== left out: figures of the lab of switches ({missing})\n"), true));
    }
    let folder = build(root, "release")?;
    let lab = Lab { root, prefix: folder.join("figures-lab"), folder };
    let traffic = lab.traffic_program()?;
    let mut found = Figures::new();
    lab.stop()?; // one of an earlier run that was killed
    lab.start(&[])?;
    let mut measure = lab.script("measure");
    measure.args(["--senders", "50", "--changes", &changes.to_string()]);
    let mut is_complete = collect(&mut found, "one_tree/", &mut measure);
    let mut messages = lab.script("messages");
    messages.arg(lab.folder.join("examples/spread"));
    is_complete &= collect(&mut found, "", &mut messages);
    if let Some(program) = &traffic {
        is_complete &= collect(&mut found, "", lab.script("traffic").arg(program));
    }
    lab.stop()?;
    match lab.start(&["--fault-tolerant"]) {
        Ok(()) => {
            let mut measure = lab.script("measure");
            measure.args(["--joins", "0", "--senders", "0", "--rate", RATE]);
            measure.args(["--changes", &(changes / FEWER).to_string()]);
            is_complete &= collect(&mut found, "two_trees/", &mut measure);
            lab.stop()?;
        }
        Err(error) => {
            println!("{error:#}");
            is_complete = false;
        }
    }
    let text = page(&found, traffic.is_some());
    write(root, &text)?;
    is_complete &= !text.contains("| - ");
    Ok((text, is_complete))
}

/// A lab below the folder of what was built.
struct Lab<'a> {
    root: &'a Path,
    folder: PathBuf,
    prefix: PathBuf,
}

impl Lab<'_> {
    /// A script of the lab, which ends after [`PATIENCE`].
    fn script(&self, name: &str) -> Command {
        let components = self.prefix.join("lib/openmpi");
        let components = format!("{}:SYS_DEFAULT:USER_DEFAULT", components.display());
        let mut command = Command::new("timeout");
        command.arg(PATIENCE).arg(self.root.join("deploy/lab").join(name));
        command.env("FABRICAST", self.folder.join("fabricast"));
        command.env("FABRICAST_LAB", self.prefix.join("lab"));
        command.env("OMPI_MCA_mca_base_component_path", components);
        command
    }

    fn start(&self, words: &[&str]) -> Result<()> {
        fs::create_dir_all(&self.prefix)?;
        let started = self.script("start").args(words).status();
        let started = started.context("start deploy/lab/start")?;
        ensure!(started.success(), "deploy/lab/start {words:?}: {started}");
        Ok(())
    }

    fn stop(&self) -> Result<()> {
        let stopped = self.script("stop").status().context("start deploy/lab/stop")?;
        ensure!(stopped.success(), "deploy/lab/stop: {stopped}");
        Ok(())
    }

    /// Builds the program whose bytes are counted, and the component that it uses; `None`, said
    /// aloud, where there is no Open MPI.
    fn traffic_program(&self) -> Result<Option<PathBuf>> {
        if let Some(missing) = setup::set_up_one(self.root, "openmpi") {
            println!("== left out: bytes on the links of the lab ({missing})");
            return Ok(None);
        }
        install_openmpi::run(self.root, &self.prefix)?;
        compile_mpi(self.root, "deploy/lab/traffic.c", self.prefix.join("traffic"))
    }
}

/// Runs a script to its end, and adds its figures with a prefix, also if it fails: some of them say
/// why. `false`, said aloud, if it failed.
fn collect(found: &mut Figures, prefix: &str, script: &mut Command) -> bool {
    match script.stderr(Stdio::inherit()).output() {
        Ok(output) => {
            let figures = figures(&String::from_utf8_lossy(&output.stdout)).into_iter();
            found.extend(figures.map(|(name, figure)| (format!("{prefix}{name}"), figure)));
            if !output.status.success() {
                println!("{script:?}: {}", output.status);
            }
            output.status.success()
        }
        Err(error) => {
            println!("{script:?}: {error}");
            false
        }
    }
}

fn page(found: &Figures, has_traffic: bool) -> String {
    let traffic = if has_traffic { traffic::section(found) } else { NO_TRAFFIC.to_owned() };
    format!("{HEAD}{}{}{traffic}", goals::table(found), programs::sections(found))
}

/// Writes the page, and lists it if it is new.
fn write(root: &Path, text: &str) -> Result<()> {
    let path = root.join(PAGE);
    fs::create_dir_all(path.parent().context("a file in a folder")?)?;
    fs::write(&path, text).with_context(|| format!("write {PAGE}"))?;
    let summary =
        fs::read_to_string(root.join(SUMMARY)).with_context(|| format!("read {SUMMARY}"))?;
    let listed = listed(&summary);
    ensure!(listed.contains(ENTRY), "{SUMMARY} has no line '{}'", NEXT.trim());
    fs::write(root.join(SUMMARY), listed).with_context(|| format!("write {SUMMARY}"))
}

/// The table of contents with the entry of the page.
fn listed(summary: &str) -> String {
    if summary.contains(ENTRY) {
        return summary.to_owned();
    }
    summary.replacen(NEXT, &format!("{ENTRY}{NEXT}"), 1)
}

const HEAD: &str = "\
# The lab of switches

For readers who want to know what real switches and ordinary programs gain. Written by `cargo xtask figures --lab`: 20
switches of Open vSwitch in user space and 16 hosts, in network namespaces of one machine with 2 cores, and an optimized
build ([deploy.md](../../deploy.md), A lab of real switches on one machine). The switches are programs that wait for these
cores, so hardware is faster in all of it. The 99th percentile (p99) of fewer than 100 is the largest one.
";

const NO_TRAFFIC: &str = "
There was no Open MPI when this was written: the bytes on the links were left out.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_listed_once_before_its_neighbour() {
        let summary = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/SUMMARY.md");
        let summary = fs::read_to_string(summary).expect("the table of contents");
        let once = listed(&summary);
        assert!(once.contains(&format!("{ENTRY}{NEXT}")), "{once}");
        assert_eq!(once.matches(ENTRY).count(), 1);
        assert_eq!(listed(&once), once);
    }

    #[test]
    fn figures_of_a_script_that_fails_are_kept() {
        let mut found = Figures::new();
        let mut script = Command::new("sh");
        script.args(["-c", "echo figure drained/lost 3 datagrams; exit 1"]);
        assert!(!collect(&mut found, "one_tree/", &mut script));
        assert_eq!(found["one_tree/drained/lost"], "3 datagrams");
    }
}
