//! The C library: programs in C, built against the header and `libfabricast.so`, at the socket of
//! an operating agent.

mod needs_valgrind;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use fabricast_client::{Client, Settings};
use fabricast_integration::{Cluster, Layout, soon};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The folder of the programs that only tests run.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/c");
/// The folder of the library.
const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/c");

/// Timeout for a program; under valgrind it is fifty times slower.
const PATIENCE: Duration = Duration::from_secs(200);

/// Time after which a line that may have come too early is typed again.
const RETRY: Duration = Duration::from_millis(200);

/// A program in C.
struct Program {
    path: PathBuf,
    /// Words before the program, such as a tool that watches it.
    prefix: &'static [&'static str],
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
        cc.arg("-L").arg(folder.path()).args(["-Wl,--as-needed", "-lfabricast"]);
        cc.arg(format!("-Wl,-rpath,{}", folder.path().display())).arg("-o").arg(&path);
        let output = cc.output().expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { path, prefix: &[], _folder: folder }
    }

    /// A process of it on a node that the first agent serves, or of the other node `n9`.
    fn on(&self, cluster: &Cluster, node: &str) -> Command {
        let words = self.prefix.iter().map(OsStr::new).chain([self.path.as_os_str()]);
        let words: Vec<&OsStr> = words.collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
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
    let output = spawn_blocking(move || child.wait_with_output());
    let output = timeout(PATIENCE, output).await.expect("ends in time").unwrap().unwrap();
    succeeded(&output)
}

fn succeeded(output: &Output) -> String {
    let (said, wrong) =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).into();
    assert!(output.status.success(), "{:?}: {said}{wrong}", output.status);
    said.into_owned()
}

/// Runs a process on each node, as members of one group, and waits until each has printed "ok".
async fn all_succeed(program: &Program, cluster: &Cluster, nodes: &[&str]) {
    let start = |node| started(program.on(cluster, node).env(Settings::GROUP, "g"));
    let running: Vec<Child> = nodes.iter().copied().map(start).collect();
    for child in running {
        assert_eq!(ended(child).await, "ok\n");
    }
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
async fn the_example_carries_lines_between_its_processes() {
    let program = Program::build(Path::new(LIBRARY).join("examples/chat.c"));
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let chat = |node| {
        let mut command = program.on(&cluster, node);
        command.arg("rows/3").stdin(Stdio::piped());
        let (mut child, said) = spoken(command);
        let typed = child.stdin.take().unwrap();
        (child, said, typed)
    };
    let (mut first, mut heard, mut typed) = chat("n0");
    assert_eq!(line(&mut heard).await, "here are: 0 on n0");
    let (mut second, mut heard_by_second, mut typed_by_second) = chat("n9");
    assert_eq!(line(&mut heard_by_second).await, "here are: 0 on n0 1 on n9");
    assert_eq!(line(&mut heard).await, "here are: 0 on n0 1 on n9");
    // The first gets what the second sends once the second has heard that it takes part.
    let hello = loop {
        typed_by_second.write_all(b"hello\n").await.unwrap();
        if let Ok(line) = timeout(RETRY, heard.next_line()).await {
            break line.unwrap().unwrap();
        }
    };
    assert_eq!(hello, "[1] hello");
    typed.write_all(b"hello yourself\n\n").await.unwrap();
    assert_eq!(line(&mut heard_by_second).await, "[0] hello yourself");
    assert_eq!(line(&mut heard_by_second).await, "[0] ");
    drop(typed_by_second); // it leaves
    assert!(soon(second.wait()).await.unwrap().success());
    let rest = loop {
        match line(&mut heard).await {
            again if again == hello => {}
            rest => break rest,
        }
    };
    assert_eq!(rest, "here are: 0 on n0");
    drop(typed);
    assert!(soon(first.wait()).await.unwrap().success());
}

#[tokio::test]
async fn the_library_stays_when_a_program_unloads_it_and_leaves_signals_alone() {
    let program = Program::of_tests("plugin");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    assert_eq!(ended(started(program.on(&cluster, "n0").arg(library()))).await, "ok\n");
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

#[tokio::test]
async fn three_processes_use_every_function_with_each_other() {
    let program = Program::of_tests("talk");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    all_succeed(&program, &cluster, &["n0", "n1", "n9"]).await;
}

#[tokio::test]
async fn threads_use_one_handle_at_once() {
    let program = Program::of_tests("threads");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    all_succeed(&program, &cluster, &["n0", "n9"]).await;
}

/// Reads the next line of a process.
async fn line(said: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = timeout(PATIENCE, said.next_line()).await.expect("goes on in time");
    line.unwrap().expect("the process goes on")
}

/// Starts a process whose lines the test reads one by one; its errors are shown.
fn spoken(mut command: Command) -> (tokio::process::Child, Lines<BufReader<ChildStdout>>) {
    command.stdout(Stdio::piped());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, said)
}

#[tokio::test]
async fn a_program_goes_on_with_codes_when_its_agent_is_killed() {
    let program = Program::of_tests("loss");
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    lose_the_agent(&program, &mut cluster).await;
}

/// Kills the agent of a program once it waits in every way.
async fn lose_the_agent(program: &Program, cluster: &mut Cluster) {
    let settings = Settings::at(cluster.socket(1)).node("n9").process("silent");
    let silent = Client::attach(settings).await.unwrap().join("g").await.unwrap();
    silent.take_part().await.unwrap();
    let (mut child, mut said) = spoken(program.on(cluster, "n0"));
    assert_eq!(line(&mut said).await, "waiting");
    cluster.operating[0].kill();
    assert_eq!(line(&mut said).await, "ok");
    assert!(soon(child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn a_member_that_dies_in_an_operation_is_named_or_left_out() {
    let program = Program::of_tests("failing");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let (mut child, mut said) = spoken(program.on(&cluster, "n0"));
    for name in ["first", "second", "third"] {
        assert_eq!(line(&mut said).await, "alone");
        let settings = Settings::at(cluster.socket(1)).node("n9").process(name);
        let mortal = soon(Client::attach(settings)).await.unwrap().join("g").await.unwrap();
        mortal.take_part().await.unwrap();
        assert_eq!(line(&mut said).await, "under way");
        drop(mortal);
    }
    assert_eq!(line(&mut said).await, "ok");
    assert!(soon(child.wait()).await.unwrap().success());
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

#[test]
fn programs_of_tests_call_every_function() {
    let sources = fs::read_dir(PROGRAMS).unwrap().map(|file| file.unwrap().path());
    let text: String = sources.map(|file| fs::read_to_string(file).unwrap()).collect();
    let is_called = |name: &String| text.contains(&format!("{name}("));
    let never: Vec<_> = declared().into_iter().filter(|name| !is_called(name)).collect();
    assert_eq!(never, Vec::<String>::new());
}
