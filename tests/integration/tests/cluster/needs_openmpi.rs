//! The component of Open MPI: unchanged programs under `mpirun`, at the sockets of agents.

mod needs_python;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use fabricast_client::Settings;
use fabricast_integration::{Cluster, Layout, eventually};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The folder of the programs.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mpi");
/// The script that builds the component.
const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/openmpi/build");
/// The program that `deploy/lab/traffic` runs.
const TRAFFIC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/lab/traffic.c");

/// Timeout for a program: none of them may hang.
const PATIENCE: Duration = Duration::from_secs(100);

/// The component, and one program.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    /// Builds the component, and a program with all warnings.
    fn with(program: &str) -> Self {
        Self::with_source(&Path::new(PROGRAMS).join(program).with_extension("c"))
    }

    fn with_source(source: &Path) -> Self {
        let installed = Self::alone();
        let mut mpicc = Command::new("mpicc");
        mpicc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        mpicc.arg(installed.program()).arg(source);
        succeeded(&mpicc.output().unwrap());
        installed
    }

    /// Builds the component as `cargo xtask install-openmpi` does.
    fn alone() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = std::env::current_exe().unwrap().with_file_name("libfabricast.so");
        for name in ["libfabricast.so", "libfabricast.so.0"] {
            symlink(&library, folder.path().join(name)).unwrap();
        }
        let installed = Self { folder };
        fs::create_dir(installed.components()).unwrap();
        let component = installed.components().join("mca_coll_fabricast.so");
        succeeded(
            &Command::new(BUILD).arg(installed.folder.path()).arg(component).output().unwrap(),
        );
        installed
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn components(&self) -> PathBuf {
        self.folder.path().join("openmpi")
    }

    /// `mpirun`, without a socket. What follows are its arguments.
    fn mpirun(&self, mode: &str) -> Command {
        let mut mpirun = Command::new("mpirun");
        mpirun.arg("--oversubscribe").stdin(Stdio::null());
        mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // The kernels of containers refuse it, which Open MPI tells at length.
        mpirun.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
        let components = format!("{}:SYS_DEFAULT", self.components().display());
        mpirun.env("OMPI_MCA_mca_base_component_path", components);
        mpirun.env("OMPI_MCA_coll_fabricast_after", "1").env("FABRICAST_MPI", mode);
        mpirun.env("OMPI_MCA_coll_fabricast_verbose", "1");
        mpirun.env_remove(Settings::SOCKET).env_remove(Settings::NODE);
        mpirun
    }

    /// `mpirun` for so many ranks, on nodes of the first agent.
    fn at(&self, cluster: &Cluster, mode: &str, ranks: usize) -> Command {
        let mut mpirun = self.mpirun(mode);
        mpirun.env(Settings::SOCKET, cluster.socket(0)).env("FABRICAST_MPI_NODES", "n0,n1,n4");
        mpirun.args(["-n", &ranks.to_string()]);
        mpirun
    }
}

/// Output and errors of a process, after a success.
fn succeeded(output: &Output) -> (String, String) {
    let (said, wrong) =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).into();
    assert!(output.status.success(), "{:?}: {said}{wrong}", output.status);
    (said.into_owned(), wrong.into_owned())
}

fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn ended(child: Child) -> Output {
    let output = spawn_blocking(move || child.wait_with_output());
    timeout(PATIENCE, output).await.expect("ends in time").unwrap().unwrap()
}

/// Waits until no group of a communicator is left.
async fn no_group_is_left(cluster: &Cluster) {
    eventually("the groups have ended", async || match cluster.client.groups().await.first() {
        None => Ok(()),
        Some(group) => Err(format!("there is {}", group.name)),
    })
    .await;
}

#[tokio::test]
async fn operations_on_communicators_of_many_kinds_have_the_right_results() {
    let installed = Installed::with("collectives");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "require", 4);
    let running = started(mpirun.arg(installed.program()).arg("outlive"));
    let (said, told) = succeeded(&ended(running).await);
    assert_eq!(said, "ok\n", "{told}");
    assert!(told.contains("'MPI_COMM_WORLD', 4 ranks: 13 allgather"), "{told}");
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn ranks_of_one_node_share_memory_and_one_of_them_is_in_the_group() {
    let installed = Installed::with("collectives");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    // On three nodes, of which one has a single rank.
    let mut mpirun = installed.at(&cluster, "require", 5);
    mpirun.env("OMPI_MCA_coll_fabricast_verbose", "2");
    let running = started(mpirun.arg(installed.program()).arg("outlive"));
    let (said, told) = succeeded(&ended(running).await);
    assert_eq!(said, "ok\n", "{told}");
    assert!(told.contains("'MPI_COMM_WORLD' of 5 ranks on 3 hosts is the group mpi/"), "{told}");
    let done = told.lines().find(|it| it.contains("'MPI_COMM_WORLD', 5 ranks: 13 allgather"));
    assert!(done.unwrap().contains(" between 3 hosts"), "{told}");
    no_group_is_left(&cluster).await;
    // Memory of hosts has a name only until all have found it; other tests may have some.
    eventually("no memory has a name", async || {
        let names = fs::read_dir("/dev/shm").unwrap().map(|file| file.unwrap().file_name());
        let mut names = names.filter(|it| it.to_string_lossy().starts_with("fabricast_mpi-"));
        names.next().map_or(Ok(()), |name| Err(format!("there is {}", name.display())))
    })
    .await;
}

#[tokio::test]
async fn ranks_of_a_single_node_are_left_to_open_mpi() {
    let installed = Installed::with("many");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "require", 2);
    mpirun.env("FABRICAST_MPI_NODES", "n0");
    let running = started(mpirun.arg(installed.program()).args(["1", "1"]));
    let (said, told) = succeeded(&ended(running).await);
    assert_eq!(said, "ok\n", "{told}");
    assert!(told.contains("2 by the next module: all its ranks are on one host\n"), "{told}");
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn measured_times_choose_between_the_group_and_open_mpi() {
    let installed = Installed::with("measured");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "try", 4);
    mpirun.env("OMPI_MCA_coll_fabricast_verbose", "2");
    let running = started(mpirun.arg(installed.program()));
    let (said, told) = succeeded(&ended(running).await);
    assert_eq!(said, "ok\n", "{told}");
    let mut next_is_faster = false;
    for what in ["barrier", "allreduce of 8 to 15 bytes", "bcast of 512 to 1023 bytes"] {
        let why = format!("'MPI_COMM_WORLD': {what} takes ");
        let line = told.lines().find(|line| line.contains(&why)).expect(&told);
        let (_, rest) = line.split_once(&why).unwrap();
        let (by_group, rest) = rest.split_once(" us by the group and ").unwrap();
        let (by_next, rest) = rest.split_once(" us by the next module: ").unwrap();
        let times = [by_group, by_next].map(|time| time.parse::<f64>().unwrap());
        let chosen = if times[0] <= times[1] { "the group" } else { "the next module" };
        assert!(rest.starts_with(&format!("{chosen} does the next ")), "{line}");
        next_is_faster |= times[1] < times[0];
    }
    let of = |name: &str| told.lines().find(|line| line.contains(&format!("'{name}', 4 ranks: ")));
    let is_faster = of("MPI_COMM_WORLD").unwrap().contains(" because it is faster");
    assert!(is_faster || !next_is_faster, "{told}");
    assert!(of("always").unwrap().contains(" 119 allreduce, 60 barrier, 60 bcast, "), "{told}");
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn the_same_program_runs_without_fabricast() {
    let installed = Installed::with("collectives");
    for (mode, why) in [
        ("off", ""),
        ("on", "FABRICAST_MPI is 'on', and not off, try or require"),
        ("try", "FABRICAST_SOCKET is not set"),
    ] {
        let running = started(installed.mpirun(mode).args(["-n", "3"]).arg(installed.program()));
        let (said, told) = succeeded(&ended(running).await);
        assert_eq!(said, "ok\n");
        assert!(told.contains(why) && told.is_empty() == why.is_empty(), "{told}");
    }
    let running = started(installed.mpirun("require").args(["-n", "3"]).arg(installed.program()));
    let output = ended(running).await;
    let told = String::from_utf8_lossy(&output.stderr);
    let sentence = "communicator 'MPI_COMM_WORLD' of 3 ranks cannot use Fabricast, as \
                    FABRICAST_MPI=require demands: rank 0: FABRICAST_SOCKET is not set";
    assert!(!output.status.success() && told.contains(sentence), "{told}");
}

#[tokio::test]
async fn ranks_without_an_agent_keep_all_others_from_fabricast() {
    let installed = Installed::with("collectives");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "try", 2);
    mpirun.arg(installed.program()).args([":", "-n", "1", "-x", "FABRICAST_SOCKET=/nowhere"]);
    let (said, told) = succeeded(&ended(started(mpirun.arg(installed.program()))).await);
    assert_eq!(said, "ok\n");
    assert!(told.contains("by the next module: rank 2: "), "{told}");
    assert!(!told.contains("0 without Fabricast"), "{told}");
}

#[tokio::test]
async fn ranks_with_other_settings_keep_all_others_from_fabricast() {
    let installed = Installed::with("collectives");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    for (setting, why) in [
        ("OMPI_MCA_coll_fabricast_least_ranks=3", "rank 2 has other settings"),
        ("FABRICAST_MPI=off", "rank 2 lacks coll_fabricast, or has it off"),
    ] {
        let mut mpirun = installed.at(&cluster, "try", 2);
        mpirun.arg(installed.program()).args([":", "-n", "1", "env", setting]);
        let (said, told) = succeeded(&ended(started(mpirun.arg(installed.program()))).await);
        assert_eq!(said, "ok\n");
        assert!(told.contains(why), "{told}");
    }
}

#[tokio::test]
async fn the_example_measures_with_fabricast_and_without() {
    let source = Path::new(BUILD).with_file_name("examples/latency.c");
    let installed = Installed::with_source(&source);
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "try", 2);
    mpirun.env("OMPI_MCA_coll_fabricast_verbose", "2");
    let running = started(mpirun.arg(installed.program()).args(["1", "32"]));
    let (said, told) = succeeded(&ended(running).await);
    for operation in ["barrier", "bcast", "allreduce", "allreduce_double", "reduce", "allgather"] {
        let line = said.lines().find(|it| it.split(' ').next() == Some(operation)).expect(&said);
        // Two times of each of four, and the best algorithm, of which there is one.
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() == 11 && words[10] != "0/0", "{said}");
    }
    assert!(told.contains("it has the info coll_fabricast=off\n"), "{told}");
    assert!(told.contains("of 2 ranks on 2 hosts is the group mpi/"), "{told}");
}

#[tokio::test]
async fn the_program_of_the_lab_runs_what_it_is_told() {
    let installed = Installed::with_source(Path::new(TRAFFIC));
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "require", 3);
    let mut running = started(mpirun.arg(installed.program()).stdin(Stdio::piped()));
    let commands = "1 0 8 5\n1 1 65536 2\n1 2 65536 3\n0 0 8 1\n";
    running.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let (said, told) = succeeded(&ended(running).await);
    assert_eq!(said, "done\n".repeat(4), "{told}");
    // The first broadcast comes before the group.
    assert!(told.contains(" 2 allgather, 3 allreduce, 4 bcast, "), "{told}");
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn two_jobs_at_once_have_groups_of_their_own() {
    let installed = Installed::with("many");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    // The second has ranks at both agents.
    let mut spread = installed.at(&cluster, "require", 2);
    spread.arg(installed.program()).args(["40", "9", ":", "-n", "2"]);
    spread.args(["-x", &format!("{}={}", Settings::SOCKET, cluster.socket(1).display())]);
    spread.args(["-x", "FABRICAST_MPI_NODES=n9,n12"]).arg(installed.program()).args(["40", "9"]);
    let mut first = installed.at(&cluster, "require", 2);
    let first = started(first.arg(installed.program()).args(["40", "3"]));
    let second = started(&mut spread);
    for running in [first, second] {
        let (said, told) = succeeded(&ended(running).await);
        assert_eq!(said, "ok\n");
        assert!(
            told.contains("1 barrier, 0 bytes through the agent; 1 by the next module\n"),
            "{told}"
        );
    }
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn thousands_of_communicators_come_and_go_with_few_table_entries() {
    let installed = Installed::with("many");
    let cluster = Cluster::start(Layout { colors: 2, ..Layout::leaf_spine() }).await;
    let mut mpirun = installed.at(&cluster, "require", 2);
    let running = started(mpirun.arg(installed.program()).args(["2000", "200"]));
    let (said, told) = succeeded(&ended(running).await);
    assert_eq!(said, "ok\n", "{told}");
    assert!(told.contains("2001 communicators of rank 0, 1901 without Fabricast"), "{told}");
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn threads_use_communicators_at_once() {
    let installed = Installed::with("threads");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "require", 3);
    let running = started(mpirun.arg(installed.program()));
    let (said, told) = succeeded(&ended(running).await);
    assert_eq!(said, "ok\n", "{told}");
    assert_eq!(told.matches(" 78 allreduce, 39 bcast, ").count(), 3, "{told}");
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn a_rank_that_is_killed_is_an_error_of_the_others() {
    let installed = Installed::with("failing");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "require", 3);
    mpirun.arg("--enable-recovery").arg(installed.program()).args(["die", "1"]);
    let output = ended(started(&mut mpirun)).await;
    let said = String::from_utf8_lossy(&output.stdout);
    for rank in [0, 2] {
        assert!(said.contains(&format!("rank {rank} got an error\n")), "{output:?}");
    }
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("FABRICAST_MEMBERS_FAILED: rank 1 failed"), "{told}");
    no_group_is_left(&cluster).await;
}

#[tokio::test]
async fn a_killed_rank_that_shares_its_node_is_an_error_of_the_others() {
    let installed = Installed::with("failing");
    // Ranks 1 and 4 are on one node: the first is in the group, for both.
    for mortal in [1, 4] {
        let cluster = Cluster::start(Layout::leaf_spine()).await;
        let mut mpirun = installed.at(&cluster, "require", 5);
        mpirun.arg("--enable-recovery").arg(installed.program()).args(["die", &mortal.to_string()]);
        let output = ended(started(&mut mpirun)).await;
        let said = String::from_utf8_lossy(&output.stdout);
        for rank in (0..5).filter(|rank| *rank != mortal) {
            assert!(said.contains(&format!("rank {rank} got an error\n")), "{output:?}");
        }
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("of the host has ended"), "{told}");
        assert!(told.contains("FABRICAST_MEMBERS_FAILED: the host of rank 1 failed"), "{told}");
        no_group_is_left(&cluster).await;
    }
}

/// Starts a program at an agent, and kills the agent when it runs.
async fn lose_the_agent(arguments: &[&str]) -> (bool, String) {
    let installed = Installed::with("failing");
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "require", 3);
    mpirun.arg(installed.program()).args(arguments).stdout(Stdio::piped());
    let mut running = tokio::process::Command::from(mpirun).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let first = timeout(PATIENCE, lines.next_line()).await.expect("runs in time").unwrap();
    assert_eq!(first.as_deref(), Some("running"));
    cluster.operating[0].kill();
    let mut said = String::new();
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.expect("goes on").unwrap() {
        said.push_str(&line);
    }
    let status = timeout(PATIENCE, running.wait()).await.expect("ends in time").unwrap();
    (status.success(), said)
}

#[tokio::test]
async fn a_lost_agent_is_an_error_for_programs_that_take_errors() {
    let (succeeded, said) = lose_the_agent(&["expect"]).await;
    assert!(!succeeded, "they end without MPI_Finalize");
    for rank in 0..3 {
        assert!(said.contains(&format!("rank {rank} got an error")), "{said}");
    }
}

#[tokio::test]
async fn a_lost_agent_ends_other_programs() {
    let (succeeded, said) = lose_the_agent(&[]).await;
    assert!(!succeeded && said.is_empty(), "{said}");
}
