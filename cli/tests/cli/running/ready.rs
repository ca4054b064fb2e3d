//! Promises of `fabricast up` once it has printed its address.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;

use super::{LIMIT, Up, names};
use crate::certificates::issue;
use crate::support::Sandbox;

#[test]
fn up_is_ready_when_it_has_printed_its_address_and_says_no_more() {
    let sandbox = Sandbox::new();
    let members = r#"["node001 HCA-1", "node010 HCA-1", "gpu036 HCA-1", "gpu042 HCA-1"]"#;
    sandbox.write("groups", format!("{{\"name\": \"rows/0\", \"members\": {members}}}\n"));
    let mut up = Up::over(sandbox, "records.redb");
    // The first call of all: no node is missing.
    assert_eq!(up.json(&["group", "form", "--groups", "groups"])["joined"], 4);
    assert_eq!(names(&up.json(&["node", "list"])["nodes"], "name").len(), 96);
    a_watched_list_is_printed_again(&up);
    a_caller_with_a_certificate_is_told_of_plain_text(&up);
    up.child.kill().and_then(|()| up.child.wait()).expect("it still runs");
    let log = up.log.take().expect("taken once").join().expect("the reader ends");
    let (_, after) = log.split_once("fabricast: all services at ").expect("its address");
    assert!(!after.contains("\nfabricast:"), "{log}");
}

fn a_watched_list_is_printed_again(up: &Up) {
    let mut command = up.sandbox.command(&up.arguments(&["node", "list", "-w"]));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let (sender, titles) = mpsc::channel();
    std::thread::spawn(move || {
        let mut titles = lines.map_while(Result::ok).filter(|line| line.starts_with("NODE "));
        titles.try_for_each(|line| sender.send(line))
    });
    let prints = [titles.recv_timeout(LIMIT), titles.recv_timeout(LIMIT)];
    let ended = child.try_wait().expect("it was started");
    // It may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    assert!(prints.iter().all(Result::is_ok), "{prints:?}");
    assert_eq!(ended, None, "it goes on until it is interrupted");
}

fn a_caller_with_a_certificate_is_told_of_plain_text(up: &Up) {
    up.sandbox.ok(&["certs", "authority", "--out", "ca"]);
    issue(&up.sandbox, "admin", &["admin/ann"], &[]);
    let run = up.run(&["node", "list", "--certificates", "admin"]);
    run.refused(2, "it does not use TLS");
    run.refused(2, "hint: leave out --certificates");
}
