//! The Python package at the socket of an operating agent.

use std::path::{Path, PathBuf};
use std::process::Command;

use fabricast_client::{Client, Settings};
use fabricast_integration::{Cluster, Layout, soon};

/// The folder that Python finds the package in.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python");

/// A Python that finds the package, and the library as cargo has built it beside the test.
fn with_package() -> Command {
    let library = std::env::current_exe().unwrap().with_file_name("libfabricast.so");
    let mut command = fabricast_testing::python();
    command.env("PYTHONPATH", PACKAGE).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("FABRICAST_LIBRARY", library);
    command
}

#[tokio::test]
async fn the_python_package_joins_watches_leaves_and_names_its_errors() {
    run_script("members.py").await;
}

#[tokio::test]
async fn python_has_all_reductions_arrays_long_operations_and_tasks() {
    run_script("numbers_and_tasks.py").await;
}

#[test]
fn the_types_of_the_python_package_are_checked() {
    let mut python = with_package();
    let cache = tempfile::tempdir().unwrap();
    python.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(cache.path());
    let output = python.args(["-p", "fabricast"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(Path::new(PACKAGE).join("fabricast/py.typed").exists());
}

#[tokio::test]
async fn the_wheel_installs_into_a_new_environment_and_works_there() {
    let folder = tempfile::tempdir().unwrap();
    let (source, new) = (folder.path().join("source"), folder.path().join("new"));
    let library = std::env::current_exe().unwrap().with_file_name("libfabricast.so");
    // As `cargo xtask dist-clients` makes it, with the library that is not optimized.
    succeeds(Command::new("cp").args(["-r", PACKAGE]).arg(&source));
    std::fs::copy(library, source.join("fabricast/libfabricast.so.0")).unwrap();
    let pip = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w"];
    succeeds(fabricast_testing::python().args(pip).arg(folder.path()).arg(&source));
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let wheel = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
    let wheel = wheel.unwrap();
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.contains("-py3-none-manylinux_2_"), "{name}");
    succeeds(Command::new("python3").args(["-m", "venv"]).arg(&new));
    let python = new.join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--no-index"];
    succeeds(Command::new(&python).args(install).arg(&wheel));
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let program = "import fabricast\n\
        group = fabricast.Client.from_environment().join('g')\n\
        print(group.all_reduce([3], fabricast.PROD))";
    let mut run = Command::new(&python);
    run.args(["-c", program]).current_dir(&new).env_remove("PYTHONPATH");
    run.env(Settings::SOCKET, cluster.socket(0)).env(Settings::NODE, "n0");
    let said = tokio::task::spawn_blocking(move || succeeds(&mut run)).await.unwrap();
    assert_eq!(said, "[3]\n");
}

/// Runs a command that has to succeed; returns what it printed.
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {wrong}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a script of the tests at an agent with the nodes `n0` and `n1`.
async fn run_script(name: &str) {
    let mut python = with_package();
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name);
    python.arg(script).arg(cluster.socket(0)).args(["n0", "n1"]);
    let output = tokio::task::spawn_blocking(move || python.output().unwrap()).await.unwrap();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{wrong}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}

#[tokio::test]
async fn a_killed_python_process_is_out_of_its_group() {
    let mut python = with_package();
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let settings = Settings::at(cluster.socket(0)).node("n1").process("witness");
    let group = Client::attach(settings).await.unwrap().join("g").await.unwrap();
    let mut watch = group.watch_members().await.unwrap();
    assert_eq!(soon(watch.next()).await.unwrap().len(), 1);
    let program =
        "import fabricast, time\nfabricast.Client.from_environment().join('g')\ntime.sleep(600)";
    let mut child = python
        .args(["-c", program])
        .env(Settings::SOCKET, cluster.socket(0))
        .env(Settings::NODE, "n0")
        .spawn()
        .unwrap();
    assert_eq!(soon(watch.next()).await.unwrap().len(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(soon(watch.next()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_python_example_runs_under_the_launcher() {
    let python = with_package();
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let example = PathBuf::from(PACKAGE).join("examples/talk.py");
    // As `fabricast run` does for each of its processes.
    let settings = Settings::at(cluster.socket(0)).node("n0").process("launcher");
    let launcher = Client::attach(settings).await.unwrap();
    let places = ["n0", "n1", "n2"].map(|node| (format!("py-{node}"), node.to_owned()));
    let mut running = Vec::new();
    for place in launcher.reserve("py", &places).await.unwrap() {
        let mut command = Command::new(python.get_program());
        let variables = python.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(variables).arg(&example).stdout(std::process::Stdio::piped());
        command.env(Settings::SOCKET, cluster.socket(0)).env(Settings::NODE, &place.node);
        command.env(Settings::PROCESS, &place.process).env(Settings::GROUP, "py");
        command.env(Settings::SIZE, "3");
        running.push((place, command.spawn().unwrap()));
    }
    for (place, child) in running {
        let output =
            tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let others: Vec<u32> = (0..3).filter(|rank| *rank != place.rank).collect();
        let says = format!(
            "I am {}, heard {others:?}, sums [3, 3], nodes ['n0', 'n1', 'n2']\n",
            place.rank
        );
        assert_eq!(said, says);
    }
}
