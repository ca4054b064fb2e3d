//! `run`: local processes with ranks, in a system of their own.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::Sandbox;

#[test]
fn every_process_has_its_rank_and_its_lines_say_so() {
    let script = "echo $FABRICAST_RANK of $FABRICAST_SIZE in $FABRICAST_GROUP on $FABRICAST_NODE";
    let arguments = ["run", "-n", "5", "--label", "--group", "rows", "--", "sh", "-c", script];
    let said = Sandbox::new().ok(&arguments);
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
    let run = Sandbox::new().run(&["run", "-n", "4", "--", "sh", "-c", script]);
    assert_eq!(run.code, 7, "{run:?}");
    assert_eq!(run.stderr, "fabricast: rank 2 ended with exit code 7\n");
    let run = Sandbox::new().run(&["run", "-n", "2", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(run.code, 137, "{run:?}");
}

#[test]
fn processes_are_placed_on_the_hosts_that_are_named() {
    let script = "echo $FABRICAST_RANK on $FABRICAST_NODE";
    let hosts = ["run", "-n", "4", "--hosts", "node[002-003]", "--", "sh", "-c", script];
    let said = Sandbox::new().ok(&hosts);
    let lines: BTreeSet<&str> = said.lines().collect();
    let wanted = ["0 on node002", "1 on node002", "2 on node003", "3 on node003"];
    assert_eq!(lines, BTreeSet::from(wanted));
    let refused = Sandbox::new().run(&["run", "-n", "1", "--hosts", "nowhere", "--", "true"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("does not serve node 'nowhere'"), "{refused:?}");
}

#[test]
fn the_others_go_on_when_one_fails_if_they_are_told_to() {
    let script = "if [ $FABRICAST_RANK = 2 ]; then exit 7; else sleep 1; echo done; fi";
    let run = Sandbox::new().run(&["run", "-n", "4", "--keep-going", "--", "sh", "-c", script]);
    assert_eq!(run.code, 7, "{run:?}");
    assert_eq!(run.stdout, "done\ndone\ndone\n");
    assert_eq!(run.stderr, "fabricast: rank 2 ended with exit code 7\n");
}

#[test]
fn an_interrupted_run_ends_its_processes() {
    let mut run = Sandbox::new()
        .command(&["run", "-n", "2", "--", "sh", "-c", "echo up; sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = run.stdout.take().unwrap();
    let mut up = [0; 6];
    said.read_exact(&mut up).unwrap();
    signal(&run, "INT");
    assert_eq!(run.wait().unwrap().code(), Some(130));
    // The pipe ends when nobody holds it any more, grandchildren included.
    assert_eq!(said.read_to_end(&mut Vec::new()).unwrap(), 0);
}

/// Starts two processes that run this script, and reads until both have said that they are up.
fn started(script: &str) -> (std::process::Child, std::process::ChildStdout) {
    let mut run = Sandbox::new()
        .command(&["run", "-n", "2", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut said = run.stdout.take().expect("piped above");
    let mut up = [0; 6];
    said.read_exact(&mut up).expect("both processes say so");
    assert_eq!(&up, b"up\nup\n");
    (run, said)
}

fn signal(run: &std::process::Child, name: &str) {
    // The shell's own kill, so that no further program is needed.
    let line = format!("kill -{name} {}", run.id());
    assert!(Command::new("sh").args(["-c", &line]).status().expect("a shell").success());
}

#[test]
fn a_killed_run_leaves_nobody_behind() {
    let (mut run, mut said) = started("sleep 1000 & echo up; wait");
    signal(&run, "KILL");
    run.wait().unwrap();
    // The pipe ends when nobody holds it any more, grandchildren included.
    assert_eq!(said.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn signals_are_passed_on() {
    let traps = "trap 'echo one' USR1; trap 'echo bye; exit 200' INT; echo up; ";
    let (mut run, mut said) = started(&format!("{traps} while :; do sleep 0.05; done"));
    signal(&run, "USR1");
    let mut ones = [0; 8];
    said.read_exact(&mut ones).unwrap();
    assert_eq!(&ones, b"one\none\n");
    signal(&run, "INT");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye\nbye\n");
    assert_eq!(run.wait().unwrap().code(), Some(200), "their own code, which is higher than 130");
}

#[test]
fn what_cannot_be_started_is_named() {
    let run = Sandbox::new().run(&["run", "-n", "2", "--", "/no/such/program"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("fabricast: start '/no/such/program': "), "{run:?}");
    let run = Sandbox::new().run(&["run", "-n", "2", "--socket", "/no/such.sock", "--", "true"]);
    assert_eq!(run.code, 3);
    assert!(run.stderr.contains("no operating agent can be reached at /no/such.sock"), "{run:?}");
    for wrong in
        [&["run", "--", "true"][..], &["run", "-n", "0", "--", "true"], &["run", "-n", "1"]]
    {
        assert_eq!(Sandbox::new().run(wrong).code, 2, "{wrong:?}");
    }
}

mod needs_python {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_python_example_talks_and_adds_up() {
        let python = fabricast_testing::python().get_program().to_owned();
        let package =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("clients/python");
        let example = package.join("examples/talk.py");
        let arguments = ["run", "-n", "4", "--label", "--"].map(str::to_owned).into_iter();
        let program = [Path::new(&python), &example].map(|path| path.display().to_string());
        let arguments: Vec<String> = arguments.chain(program).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let library = std::env::current_exe().unwrap().with_file_name("libfabricast.so");
        let sandbox = Sandbox::new();
        let mut run = sandbox.command(&arguments);
        run.env("PYTHONPATH", package).env("FABRICAST_LIBRARY", library);
        let run = run.output().unwrap();
        let (said, wrong) =
            (String::from_utf8(run.stdout).unwrap(), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{said}{wrong}");
        let lines: BTreeSet<&str> = said.lines().collect();
        for (rank, line) in lines.iter().enumerate() {
            let others: Vec<usize> = (0..4).filter(|other| *other != rank).collect();
            let begins = format!("[{rank}] I am {rank}, heard {others:?}, sums [6, 4], nodes ");
            assert!(line.starts_with(&begins), "{line}");
        }
        assert_eq!(lines.len(), 4, "{said}");
    }
}
