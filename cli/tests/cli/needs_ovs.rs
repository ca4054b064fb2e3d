//! The lab of `deploy/lab`: real switches, and ordinary programs on its hosts.

#[path = "needs_ovs/bridges.rs"]
mod bridges;
#[path = "needs_ovs/certificates.rs"]
mod certificates;
#[path = "needs_ovs/discovered.rs"]
mod discovered;
#[path = "needs_ovs/multicast.rs"]
mod multicast;
#[path = "needs_ovs/reports.rs"]
mod reports;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A lab in a folder of its own; it ends when it is dropped.
struct Lab(TempDir);

impl Lab {
    fn start() -> Self {
        let lab = Self(tempfile::tempdir().expect("a folder"));
        lab.succeeds("start", &[]);
        lab
    }

    /// Writes the spec of a fabric of 6 switches and 8 hosts; returns its file.
    fn small_fabric(&self) -> String {
        let file = self.0.path().join("small.toml");
        let spec = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 2\n";
        std::fs::write(&file, spec).expect("a file");
        file.display().to_string()
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn run(&self, script: &str, words: &[&str]) -> Output {
        run(&self.folder(), script, words)
    }

    fn succeeds(&self, script: &str, words: &[&str]) -> String {
        let output = self.run(script, words);
        assert!(output.status.success(), "{script} {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a script that refuses; returns what it says.
    fn refused(&self, script: &str, words: &[&str], code: i32) -> String {
        let output = self.run(script, words);
        assert_eq!(output.status.code(), Some(code), "{script} {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs a script until it says something, at most half a minute.
    #[expect(clippy::disallowed_methods, reason = "what it waits for needs the processors")]
    fn run_until(&self, script: &str, words: &[&str], text: &str) -> Output {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let output = self.run(script, words);
            let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
            if said.iter().any(|said| said.contains(text)) {
                return output;
            }
            assert!(Instant::now() < end, "{script} {words:?} never says {text}: {output:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Kills a process as a crash does.
    fn kill(&self, file: &str) {
        let number = std::fs::read_to_string(self.folder().join(file)).expect("a number");
        self.succeeds("exec", &["--", "kill", "-KILL", number.trim()]);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.run("stop", &[]);
    }
}

fn run(folder: &Path, script: &str, words: &[&str]) -> Output {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/lab");
    let mut command = Command::new(scripts.join(script));
    command.env("FABRICAST", env!("CARGO_BIN_EXE_fabricast")).env("FABRICAST_LAB", folder);
    command.args(words).output().expect("the script can be run")
}

/// Processes that have something to do with a folder.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").expect("a list").flatten();
    let line = |path: PathBuf| std::fs::read_to_string(path.join("cmdline")).ok();
    let lines = all.filter_map(|entry| line(entry.path()));
    lines.filter(|line| line.contains(&folder)).collect()
}

#[test]
fn the_lab_demo_counts_every_datagram() {
    let lab = Lab::start();
    let said = lab.refused("start", &[], 1);
    assert!(said.contains("a lab is running already"), "{said}");
    let said = lab.refused("exec", &["nowhere", "--", "true"], 2);
    assert!(said.contains("there is no host 'nowhere'; there are: h0 h1"), "{said}");
    let said = lab.refused("cut", &["h0", "core9"], 2);
    assert!(said.contains("there is no switch or host 'core9'"), "{said}");
    let said = lab.refused("cut", &["h0", "core1"], 2);
    assert!(said.contains("no cable connects h0 and core1"), "{said}");
    let output = lab.run("exec", &["h3", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");

    let said = lab.succeeds("demo", &["--short"]);
    assert!(said.contains("was drained and resumed"), "{said}");
    assert!(said.contains("7. all programs have ended"), "{said}");
    let said = lab.succeeds("status", &["--brief"]);
    assert_eq!(
        said.trim(),
        "20 of 20 switches connected, 16 of 16 hosts up, 32 cables between switches"
    );
    reports::stay_at_their_switch(&lab);

    // Nothing stays behind when a part is killed. What is killed ends a little later.
    lab.kill("pids/tic");
    let output = lab.run_until("status", &["--brief"], "ended: tic");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let first = std::fs::read_to_string(lab.folder().join("process")).expect("a number");
    let killed = Command::new("kill").args(["-KILL", first.trim()]).status().expect("kill runs");
    assert!(killed.success());
    let output = lab.run_until("status", &[], "no lab is running");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    lab.succeeds("stop", &[]);
    assert!(!lab.folder().exists());
    assert_eq!(processes(&lab.folder()), Vec::<String>::new());
}

/// The short form of the 1,000 changes that `cargo xtask figures --lab` makes. It fails if a
/// datagram comes twice, or if one is lost by another change than a cut. New senders come before,
/// which join or do not.
#[test]
fn the_lab_loses_and_doubles_nothing_while_trees_move() {
    let lab = Lab(tempfile::tempdir().expect("a folder"));
    lab.succeeds("start", &[&lab.small_fabric()]);
    let words = ["--joins", "3", "--senders", "2", "--changes", "8", "--seed", "23"];
    let said = lab.succeeds("measure", &words);
    for line in [
        "figure seed 23",
        "figure joins/n 3 times",
        "figure sender_that_joins/reached 2 of 2",
        "figure sender_that_joins_nothing/reached 2 of 2",
        "figure changes/rate 200 datagrams/s",
        "figure changes/made 8 changes",
        "figure mended/n 2 times",
        "figure drained/n 2 times",
        "figure resumed/n 2 times",
    ] {
        assert!(said.lines().any(|other| other == line), "no '{line}' in {said}");
    }
}

#[test]
fn a_lab_that_cannot_be_made_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let run_folder = folder.path().join("run");
    let refused = |words: &[&str]| {
        let output = run(&run_folder, "start", words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(!run_folder.exists());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["nowhere"]).contains("nowhere"));
    assert!(refused(&["demo"]).contains("demo has 2048 hosts; a lab has 2 to 64"));
    assert!(refused(&["--fast"]).contains("unknown argument '--fast'"));
    assert!(refused(&["one", "two"]).contains("usage"));
    assert!(refused(&["--driver"]).contains("usage"));
    assert!(refused(&["--driver", "none"]).contains("unknown driver 'none'"));
    assert!(refused(&["--driver", "bridge", "--discovered"]).contains("bridges do not"));
    assert!(refused(&["--driver", "bridge", "--fault-tolerant"]).contains("bridges do not"));
    let output = run(&run_folder, "stop", &[]);
    assert!(output.status.success(), "{output:?}");
}

mod needs_openmpi {
    use super::*;

    const SPEC: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
    const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/integration/mpi/many.c");

    #[test]
    fn mpi_programs_run_on_the_hosts_of_the_lab() {
        let lab = Lab(tempfile::tempdir().expect("a folder"));
        let file = |name| lab.0.path().join(name).to_string_lossy().into_owned();
        std::fs::write(file("spec.toml"), SPEC).expect("a file");
        let mut mpicc = Command::new("mpicc");
        let output = mpicc.args([PROGRAM, "-o", &file("many")]).output().expect("mpicc runs");
        assert!(output.status.success(), "{output:?}");
        lab.succeeds("start", &[&file("spec.toml")]);
        let said = lab.refused("mpirun", &["-n", "none", "true"], 2);
        assert!(said.contains("usage"), "{said}");
        let words = ["-n", "5", "sh", "-c", "echo $(hostname) at $FABRICAST_SOCKET"];
        let said = lab.succeeds("mpirun", &words);
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        let run = lab.folder().canonicalize().expect("a folder");
        let at = |host| format!("{host} at {}/{host}.socket", run.display());
        assert_eq!(lines, ["h0", "h0", "h1", "h2", "h3"].map(at));
        let many = file("many");
        assert_eq!(lab.succeeds("mpirun", &["-n", "3", &many, "5", "2"]), "ok\n");
        assert_eq!(lab.run("mpirun", &["-n", "2", "sh", "-c", "exit 7"]).status.code(), Some(7));
    }
}
