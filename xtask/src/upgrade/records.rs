//! Records that a version has made, for the tests of later ones: a store in a file, and a copy.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Where the tests have them, as `VERSION.redb.gz` and `VERSION.jsonl`.
pub(crate) const FOLDER: &str = "cli/tests/records";
/// Changes that they hold, in the words of the command line.
const CHANGES: [&str; 7] = [
    "group join rows/0 --node node001",
    "group join rows/0 --node gpu042",
    "group create standing --node gpu042 --persistent",
    "node drain gpu043",
    "link drain S-ec0d9a0300ec8240 S-ec0d9a0300ec8200 --port 19",
    "job allocate climate --nodes 2",
    "collective quota --tenant physics --entries 100",
];
/// Nodes of the topology that `fabricast up` has by default.
const NODES: usize = 96;
/// Longest time until all of them have registered.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Has the binary of a version make records. Writes those files that are not there, and returns
/// their paths.
///
/// # Errors
///
/// A command that failed, or a file that cannot be written.
pub(super) fn make(root: &Path, binary: &Path, version: &str) -> Result<Vec<PathBuf>> {
    let folder = tempfile::tempdir().context("a folder for the records")?;
    let maker = Maker { binary, folder: folder.path() };
    maker.change()?;
    maker.run("store export --store records.redb --out records.jsonl")?;
    let mut gzip = Command::new("gzip");
    gzip.args(["--best", "--no-name", "--stdout", "records.redb"]).current_dir(folder.path());
    let packed = gzip.output().context("start gzip")?;
    ensure!(packed.status.success(), "gzip: {}", String::from_utf8_lossy(&packed.stderr).trim());
    let copy = fs::read(folder.path().join("records.jsonl")).context("records.jsonl")?;
    let mut written = Vec::new();
    for (kind, content) in [("redb.gz", packed.stdout), ("jsonl", copy)] {
        let path = root.join(FOLDER).join(format!("{version}.{kind}"));
        if !path.exists() {
            fs::write(&path, content).with_context(|| path.display().to_string())?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Runs the binary in a folder.
struct Maker<'a> {
    binary: &'a Path,
    folder: &'a Path,
}

impl Maker<'_> {
    /// Starts a control plane over the file, makes the changes, and ends it.
    fn change(&self) -> Result<()> {
        let mut up = self.up()?;
        self.has_nodes(&up.address)?;
        for change in CHANGES {
            self.run(&format!("{change} --server {}", up.address))?;
        }
        let number = up.process.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &number]).status().context("start kill")?;
        ensure!(asked.success(), "`fabricast up` has ended by itself");
        let ended = up.process.wait().context("wait for `fabricast up`")?;
        ensure!(ended.success(), "`fabricast up` ended with {ended}");
        Ok(())
    }

    fn up(&self) -> Result<Up> {
        let mut process = self
            .command("up --listen 127.0.0.1:0 --store records.redb")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start `fabricast up`")?;
        let said = process.stderr.take().context("piped above")?;
        let mut up = Up { process, address: String::new() };
        let mut lines = BufReader::new(said).lines();
        while up.address.is_empty() {
            let line = lines.next().context("`fabricast up` ended before it served")??;
            if let Some((_, rest)) = line.split_once("all services at ") {
                rest.split(' ').next().unwrap_or_default().clone_into(&mut up.address);
            }
        }
        // A full pipe would block it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(up)
    }

    /// Waits until all nodes have registered.
    #[expect(clippy::disallowed_methods, reason = "no runtime waits in this thread")]
    fn has_nodes(&self, address: &str) -> Result<()> {
        let began = Instant::now();
        let list = format!("node list --format json --server {address}");
        while self.run(&list)?.matches("NODE_STATE_UP").count() < NODES {
            ensure!(began.elapsed() < PATIENCE, "not all {NODES} nodes have registered");
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Runs a command that has to succeed; returns its output.
    fn run(&self, words: &str) -> Result<String> {
        let output = self.command(words).output().with_context(|| format!("start {words}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "fabricast {words}: {}", said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(self.binary);
        command.args(words.split(' ')).current_dir(self.folder).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"FABRICAST_") {
                command.env_remove(name);
            }
        }
        command
    }
}

/// A running control plane; killed when dropped.
struct Up {
    process: Child,
    address: String,
}

impl Drop for Up {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
