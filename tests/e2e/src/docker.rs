//! Runs docker and the scripts of `deploy/compose`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use tokio::process::Command;

/// The name that `deploy/compose` gives its containers and networks.
const PROJECT: &str = "label=com.docker.compose.project=fabricast";

/// Number of attempts before a command counts as failed.
const ATTEMPTS: u32 = 5;

/// Value of `COMPOSE_FILE` for calls of `deploy/compose/compose` while the tests' cluster runs.
#[must_use]
pub fn compose_files() -> String {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("compose.yml");
    format!("docker-compose.yml:{}", ours.display())
}

/// Folder of the cluster.
pub(crate) fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("deploy/compose").canonicalize().expect("the repository has the folder")
}

/// Runs a program in the folder of the cluster.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> Output {
    run_in("+0", program, arguments).await
}

/// Runs a program in the folder of the cluster.
///
/// - `skew`: offset of the clock of containers that are created now, if their image supports it.
pub(crate) async fn run_in(skew: &str, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder()).kill_on_drop(true);
    command.env("COMPOSE_FILE", compose_files());
    command.env("FABRICAST_SKEW", skew);
    command.output().await.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Runs a program that must succeed. Returns its standard output.
pub(crate) async fn ok(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments).await;
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program that must succeed and may be run again; the engine may refuse at first on a busy
/// machine.
#[expect(clippy::print_stdout, reason = "refusals are for people")]
pub(crate) async fn order(program: &str, arguments: &[&str]) {
    for _ in 1..ATTEMPTS {
        let output = run(program, arguments).await;
        if output.status.success() {
            return;
        }
        println!("e2e: {program} {arguments:?} is run again: {output:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    ok(program, arguments).await;
}

/// The containers of the cluster by service.
pub(crate) async fn containers() -> BTreeMap<String, String> {
    let format = "{{.Label \"com.docker.compose.service\"}} {{.ID}}";
    pairs(&ok("docker", &["ps", "--all", "--filter", PROJECT, "--format", format]).await)
}

/// The networks of the cluster by the name they have in docker-compose.yml.
pub(crate) async fn networks() -> BTreeMap<String, String> {
    let format = "{{.Label \"com.docker.compose.network\"}} {{.ID}}";
    pairs(&ok("docker", &["network", "ls", "--filter", PROJECT, "--format", format]).await)
}

fn pairs(lines: &str) -> BTreeMap<String, String> {
    let pairs = lines.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, id)| (name.to_owned(), id.to_owned())).collect()
}
