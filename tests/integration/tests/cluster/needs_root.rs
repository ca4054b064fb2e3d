//! Processes of several users at one socket; only root starts them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use fabricast_client::{Client, Settings};
use fabricast_integration::{Cluster, Layout, soon};

use crate::tenants::{own_user, recorded, rule};

/// Numbers of users that no account has.
const RIVAL: u32 = 61_001;
const STRANGER: u32 = 61_002;

/// Runs the test process as a user; it joins the group and ends.
async fn run(cluster: &Cluster, user: u32, process: &str, group: &str) -> Output {
    let socket = cluster.socket(0);
    // Other users may not enter the folder of this program, nor, unless told, that of the socket.
    let folder = socket.parent().unwrap();
    let program = folder.join("program");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_process"), &program).unwrap();
    }
    let permit = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    permit(folder, 0o711);
    permit(&program, 0o755);
    permit(&socket, 0o666);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--clear-groups"]);
    command.arg(program).arg(group).stdin(Stdio::null());
    command.env(Settings::SOCKET, &socket).env(Settings::NODE, "n0");
    command.env(Settings::PROCESS, process);
    soon(tokio::task::spawn_blocking(move || command.output().unwrap())).await.unwrap()
}

fn refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(why), "{output:?}");
}

#[tokio::test]
async fn users_of_one_socket_have_the_groups_of_their_tenants() {
    let rules = vec![rule(own_user(), Some("acme")), rule(RIVAL, Some("rival"))];
    let layout = Layout { process_rules: rules, ..Layout::leaf_spine() };
    let cluster = Cluster::start(layout).await;
    let settings = Settings::at(cluster.socket(0)).node("n0").process("ours");
    let ours = soon(Client::attach(settings)).await.unwrap().join("acme/g").await.unwrap();
    let joined = run(&cluster, RIVAL, "theirs", "rival/g").await;
    assert!(joined.status.success(), "{joined:?}");
    refused(&run(&cluster, RIVAL, "theirs", "acme/g").await, "tenant/rival may use groups");
    refused(&run(&cluster, RIVAL, "ours", "rival/g").await, "is attached on node");
    let stranger = run(&cluster, STRANGER, "p", "acme/g").await;
    refused(
        &stranger,
        &format!("no rule of operating_agent.process_rules is for a process of user {STRANGER}"),
    );
    assert_eq!(recorded(&cluster, "acme/g").await, ["ours"]);
    assert_eq!(ours.size().await.unwrap(), 1);
}

#[tokio::test]
async fn without_rules_every_user_may_use_all_groups() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    for user in [RIVAL, STRANGER] {
        let joined = run(&cluster, user, "p", "acme/g").await;
        assert!(joined.status.success(), "{joined:?}");
    }
}

#[tokio::test]
async fn a_reserved_name_is_the_users_that_a_launcher_of_root_names_until_the_agent_starts_again() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let settings = Settings::at(cluster.socket(0)).node("n0").process("launcher");
    let launcher = soon(Client::attach(settings)).await.unwrap();
    let named = |name: &str| [(name.to_owned(), "n0".to_owned())];
    let theirs = soon(launcher.reserve_for(RIVAL, "g", &named("theirs"))).await.unwrap();
    soon(launcher.reserve("g", &named("ours"))).await.unwrap();
    for (process, holder) in [("theirs", RIVAL), ("ours", own_user())] {
        let output = run(&cluster, STRANGER, process, "g").await;
        let why = format!("process: '{process}' on node 'n0' is reserved for user {holder}");
        refused(&output, &why);
    }
    assert_eq!(recorded(&cluster, "g").await, ["theirs", "ours"], "the refused changed nothing");
    let joined = run(&cluster, RIVAL, "theirs", "g").await;
    assert!(joined.status.success(), "{joined:?}");
    assert_eq!(String::from_utf8_lossy(&joined.stdout).trim(), theirs[0].rank.to_string());

    // With the agent, the memberships end as well as what is reserved.
    cluster.operating[0].kill();
    cluster.operating[0].restart().await;
    let joined = run(&cluster, STRANGER, "ours", "h").await;
    assert!(joined.status.success(), "{joined:?}");
    assert!(!recorded(&cluster, "g").await.contains(&"ours".to_owned()));
}
