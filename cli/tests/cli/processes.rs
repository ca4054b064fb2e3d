//! `run`: local processes with ranks, in a system of their own.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::Bench;

#[test]
fn every_process_has_its_rank_and_its_lines_say_so() {
    let script = "echo $FABRICAST_RANK of $FABRICAST_SIZE in $FABRICAST_GROUP on $FABRICAST_NODE";
    let arguments = ["run", "-n", "5", "--label", "--group", "rows", "--", "sh", "-c", script];
    let said = Bench::new().ok(&arguments);
    let lines: BTreeSet<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    for (rank, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("[{rank}] {rank} of 5 in rows on ")), "{line}");
    }
    let nodes: BTreeSet<_> =
        lines.iter().map(|line| line.rsplit_once(' ').map(|it| it.1)).collect();
    assert_eq!(nodes.len(), 5, "each is on a node of its own: {said}");
}

#[test]
fn the_worst_exit_code_counts_and_nobody_is_left_running() {
    let script = "if [ $FABRICAST_RANK = 2 ]; then exit 7; else sleep 1000 & wait; fi";
    let run = Bench::new().run(&["run", "-n", "4", "--", "sh", "-c", script]);
    assert_eq!(run.code, 7, "{run:?}");
    assert_eq!(run.stderr, "fabricast: rank 2 ended with exit code 7\n");
    let run = Bench::new().run(&["run", "-n", "2", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(run.code, 137, "{run:?}");
}

#[test]
fn an_interrupted_run_ends_its_processes() {
    let mut run = Bench::new()
        .command(&["run", "-n", "2", "--", "sh", "-c", "echo up; sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = run.stdout.take().unwrap();
    let mut up = [0; 6];
    said.read_exact(&mut up).unwrap();
    let pid = run.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    // The pipe ends when nobody holds it any more, grandchildren included.
    assert_eq!(said.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn what_cannot_be_started_is_named() {
    let run = Bench::new().run(&["run", "-n", "2", "--", "/no/such/program"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("fabricast: start '/no/such/program': "), "{run:?}");
    let run = Bench::new().run(&["run", "-n", "2", "--socket", "/no/such.sock", "--", "true"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("no operating agent can be reached at /no/such.sock"), "{run:?}");
    for wrong in
        [&["run", "--", "true"][..], &["run", "-n", "0", "--", "true"], &["run", "-n", "1"]]
    {
        assert_eq!(Bench::new().run(wrong).code, 2, "{wrong:?}");
    }
}
