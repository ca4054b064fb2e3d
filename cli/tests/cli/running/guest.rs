//! The demo on a cluster that runs already.

use super::Up;

/// The demo's arguments for a cluster whose parts are all at one address.
fn on(address: &str) -> [&str; 11] {
    [
        "demo",
        "--tic",
        address,
        "--router",
        address,
        "--fabric",
        address,
        "--switch-agents",
        address,
        "--operating-agents",
        address,
    ]
}

#[test]
fn the_demo_leaves_a_running_cluster_as_it_was_and_disturbs_nobody() {
    let up = Up::start();
    // Few members, on two leaf switches: the machine may have much else to do.
    let endpoints = ["node001 HCA-1", "node002 HCA-1", "gpu042 HCA-1", "gpu043 HCA-1"];
    let members = endpoints.map(|endpoint| format!("\"{endpoint}\"")).join(",");
    up.sandbox.write("groups", format!("{{\"name\":\"few\",\"members\":[{members}]}}\n"));
    let few = [&on(&up.address)[..], &["--groups", "groups"]].concat();
    let told = up.sandbox.json(&few);
    let steps = told["steps"].as_array().expect("steps");
    assert_eq!(steps.last().expect("a step")["title"], "all members of all groups leave");
    assert_eq!(up.json(&["group", "list"])["groups"].as_array().map(Vec::len), Some(0));

    up.ok(&["group", "join", "mine", "--node", "node001"]);
    up.sandbox.run(&on(&up.address)).refused(2, "the cluster has groups already");
    up.sandbox.run(&on(&up.address)[..3]).refused(2, "--operating-agents");
    let twofold = [&on(&up.address)[..], &["--topology", "cluster"]].concat();
    up.sandbox.run(&twofold).refused(2, "cannot be used with");
}
