//! The C library: programs in C, built against the header and `libfabricast.so`, at the socket of
//! an operating agent.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fabricast_client::Settings;
use fabricast_integration::{Cluster, Layout, soon};
use tokio::task::spawn_blocking;

/// The folder of the programs that only tests run.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/c");
/// The folder of the library.
const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/c");

/// A program in C.
struct Program {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// The library as cargo has built it for this test, which depends on it: beside the test itself.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libfabricast.so")
}

impl Program {
    /// Builds a program of the tests.
    fn of_tests(name: &str) -> Self {
        Self::build(Path::new(PROGRAMS).join(name).with_extension("c"))
    }

    /// Builds a program with the C compiler, with all warnings.
    fn build(source: impl AsRef<Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libfabricast.so", "libfabricast.so.0"] {
            symlink(library(), folder.path().join(name)).unwrap();
        }
        let path = folder.path().join("program");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]);
        cc.arg(source.as_ref()).arg("-I").arg(Path::new(LIBRARY).join("include"));
        cc.arg("-L").arg(folder.path()).arg("-lfabricast");
        cc.arg(format!("-Wl,-rpath,{}", folder.path().display())).arg("-o").arg(&path);
        let output = cc.output().expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { path, _folder: folder }
    }

    /// A process of it on a node that the first agent serves, or of the other node `n9`.
    fn on(&self, cluster: &Cluster, node: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.env(Settings::SOCKET, cluster.socket(usize::from(node == "n9")));
        command.env(Settings::NODE, node).env_remove(Settings::PROCESS);
        command
    }
}

/// Starts a process whose output is read by [`ended`].
fn started(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end of a process. Returns what it printed, after a success.
async fn ended(child: Child) -> String {
    let output = soon(spawn_blocking(move || child.wait_with_output())).await.unwrap().unwrap();
    succeeded(&output)
}

fn succeeded(output: &Output) -> String {
    let (said, wrong) =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).into();
    assert!(output.status.success(), "{:?}: {said}{wrong}", output.status);
    said.into_owned()
}

#[tokio::test]
async fn the_example_adds_up_the_ranks_of_its_processes() {
    let program = Program::build(Path::new(LIBRARY).join("examples/all_reduce.c"));
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let nodes = ["n0", "n1", "n9"];
    let running = nodes.map(|node| {
        let mut command = program.on(&cluster, node);
        started(command.env(Settings::GROUP, "sums").env(Settings::SIZE, "3"))
    });
    let mut lines = Vec::new();
    for (child, node) in running.into_iter().zip(nodes) {
        let said = ended(child).await;
        let end = format!(" on {node}, the sum is 3\n");
        lines.push(said.strip_suffix(&end).unwrap_or_else(|| panic!("{said}")).to_owned());
    }
    lines.sort();
    assert_eq!(lines, ["I am 0", "I am 1", "I am 2"]);
}

#[tokio::test]
async fn wrong_arguments_are_refused_and_change_nothing() {
    let program = Program::of_tests("refusals");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    assert_eq!(ended(started(&mut program.on(&cluster, "n0"))).await, "ok\n");
    let mut nowhere = program.on(&cluster, "n0");
    let output = nowhere.env_remove(Settings::SOCKET).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("FABRICAST_NO_SOCKET: FABRICAST_SOCKET is not set"), "{said}");
}

/// Names that the header declares as functions.
fn declared() -> Vec<String> {
    let header = fs::read_to_string(Path::new(LIBRARY).join("include/fabricast.h")).unwrap();
    let mut names = Vec::new();
    // A declaration begins in the first column, and neither comments nor structs do.
    for line in header.lines().filter(|line| line.starts_with(|c: char| c.is_alphabetic())) {
        let before = line.split_once('(').map(|(before, _)| before);
        let name = before.and_then(|before| before.rsplit([' ', '*']).next());
        names.extend(name.filter(|name| name.starts_with("fabricast_")).map(str::to_owned));
    }
    names.sort();
    names
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let mut exported: Vec<_> = succeeded(&output)
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .map(str::to_owned)
        .collect();
    exported.sort();
    assert_eq!(exported, declared());
}
