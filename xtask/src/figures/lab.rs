//! Measures in labs of switches, and writes a page: goals, joins of programs, datagrams that are
//! lost and doubled while trees move and cables are cut, messages beside TCP, and bytes on links.
//! Another page has the times of collective operations of MPI.
//!
//! The scripts of `deploy/lab` measure. This starts labs, one after the other, and reads the
//! `figure` lines of the scripts.

mod goals;
mod programs;
mod times;
mod traffic;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Figures, build, compile_mpi, figures, list};
use crate::{install_openmpi, setup};

/// The page of the lab.
pub(super) const PAGE: Page = Page { title: "The lab of switches", folder: "lab" };
/// Time after which a script of the lab is given up.
const TIMEOUT_SECONDS: &str = "7200";
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
    let lab = Lab::build(root)?;
    let traffic = lab.traffic_program()?;
    let mut found = Figures::new();
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
    lab.runs("stop")?;
    match lab.start(&["--fault-tolerant"]) {
        Ok(()) => {
            let mut measure = lab.script("measure");
            measure.args(["--joins", "0", "--senders", "0", "--rate", RATE]);
            measure.args(["--changes", &(changes / FEWER).to_string()]);
            is_complete &= collect(&mut found, "two_trees/", &mut measure);
            lab.runs("stop")?;
        }
        Err(error) => {
            println!("{error:#}");
            is_complete = false;
        }
    }
    let text = page(&found, traffic.is_some());
    PAGE.write(root, &text)?;
    is_complete &= !text.contains("| - ");
    Ok((text, is_complete))
}

/// Measures the times of collective operations of MPI, and writes and lists the page. Returns it,
/// and `false` if figures are missing.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_times(root: &Path) -> Result<(String, bool)> {
    if let Some(missing) = ["ovs", "openmpi"].iter().find_map(|tool| setup::set_up_one(root, tool))
    {
        return Ok((
            format!("== left out: times of MPI in the lab of switches ({missing})\n"),
            true,
        ));
    }
    let lab = Lab::build(root)?;
    install_openmpi::run(root, &lab.prefix)?;
    lab.start(&[])?;
    let measured = times::measure(&lab);
    lab.runs("stop")?;
    let text = times::page(&measured?);
    times::PAGE.write(root, &text)?;
    let is_complete = !text.contains("| - ");
    Ok((text, is_complete))
}

/// A page of `docs/evaluation`.
#[derive(Clone, Copy)]
pub(super) struct Page {
    title: &'static str,
    folder: &'static str,
}

/// A lab below the folder of what was built.
struct Lab<'a> {
    root: &'a Path,
    /// Folder of the binaries.
    folder: PathBuf,
    /// Folder of the installed component, and of the lab's files.
    prefix: PathBuf,
}

impl<'a> Lab<'a> {
    fn build(root: &'a Path) -> Result<Self> {
        let folder = build(root, "release")?;
        let prefix = folder.join("figures-lab");
        fs::create_dir_all(&prefix)?;
        Ok(Self { root, folder, prefix })
    }

    /// A script of the lab, which ends after [`TIMEOUT_SECONDS`].
    fn script(&self, name: &str) -> Command {
        let components = self.prefix.join("lib/openmpi");
        let components = format!("{}:SYS_DEFAULT:USER_DEFAULT", components.display());
        let mut command = Command::new("timeout");
        command.arg(TIMEOUT_SECONDS).arg(self.root.join("deploy/lab").join(name));
        command.env("FABRICAST", self.folder.join("fabricast"));
        command.env("FABRICAST_LAB", self.prefix.join("lab"));
        command.env("OMPI_MCA_mca_base_component_path", components);
        command
    }

    /// Starts the lab; one of an earlier run that was killed is stopped.
    fn start(&self, words: &[&str]) -> Result<()> {
        self.runs("stop")?;
        ran(self.script("start").args(words))
    }

    /// Runs a script that has to succeed.
    fn runs(&self, name: &str) -> Result<()> {
        ran(&mut self.script(name))
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

/// Runs a script that has to succeed.
fn ran(script: &mut Command) -> Result<()> {
    let status = script.status().with_context(|| format!("start {script:?}"))?;
    ensure!(status.success(), "{script:?}: {status}");
    Ok(())
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

impl Page {
    /// Writes the page, and lists it if it is new.
    fn write(self, root: &Path, text: &str) -> Result<()> {
        let folder = root.join("docs/evaluation").join(self.folder);
        fs::create_dir_all(&folder)?;
        let path = folder.join("README.md");
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        list(root, &self.entry())
    }

    /// Its line in the table of contents.
    pub(super) fn entry(self) -> String {
        format!("  - [{}](evaluation/{}/README.md)\n", self.title, self.folder)
    }
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
    fn figures_of_a_script_that_fails_are_kept() {
        let mut found = Figures::new();
        let mut script = Command::new("sh");
        script.args(["-c", "echo figure drained/lost 3 datagrams; exit 1"]);
        assert!(!collect(&mut found, "one_tree/", &mut script));
        assert_eq!(found["one_tree/drained/lost"], "3 datagrams");
    }
}
