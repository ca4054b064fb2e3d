//! The same programs under a tool that sees every access to memory that is not theirs any more, and
//! every block that nobody frees.

use super::*;

/// A program that valgrind watches; its exit code is 99 if it finds something.
fn watched(name: &str) -> Program {
    let prefix = &[
        "valgrind",
        "--quiet",
        "--fair-sched=yes",
        "--error-exitcode=99",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    Program { prefix, ..Program::of_tests(name) }
}

#[tokio::test]
async fn valgrind_finds_nothing_wrong_in_what_three_processes_do() {
    let program = watched("talk");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    all_succeed(&program, &cluster, &["n0", "n1", "n9"]).await;
}

#[tokio::test]
async fn valgrind_finds_nothing_wrong_in_what_threads_do() {
    let program = watched("threads");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    all_succeed(&program, &cluster, &["n0", "n9"]).await;
}

#[tokio::test]
async fn valgrind_finds_nothing_wrong_in_refusals() {
    let program = watched("refusals");
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    assert_eq!(ended(started(&mut program.on(&cluster, "n0"))).await, "ok\n");
}

#[tokio::test]
async fn valgrind_finds_nothing_wrong_when_the_agent_is_killed() {
    let program = watched("loss");
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    lose_the_agent(&program, &mut cluster).await;
}
