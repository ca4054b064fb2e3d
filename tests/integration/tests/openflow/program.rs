//! Programs that know nothing of Fabricast: they send and receive datagrams of IP multicast.
//!
//! A program is this very test binary once more, in the network namespace of a host.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// In the child: own address, address of the group, number of datagrams.
const TOLD: &str = "FABRICAST_TEST_PROGRAM";
const PORT: u16 = 5_000;
/// The listener prints it once it has joined.
const READY: &str = "listens";
/// Text before what the listener has received.
const RECEIVED: &str = "received ";
/// Time between two datagrams: the fabric carries far more than that.
const PAUSE: Duration = Duration::from_millis(1);
/// A listener that is told to end waits so long for what is still on its way.
const QUIET: Duration = Duration::from_millis(500);

pub(crate) fn binary() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// A running listener.
pub(crate) struct Listener {
    process: Child,
    said: BufReader<ChildStdout>,
}

/// Prepares a program of this file.
fn run(mut command: Command, test: &str, told: &str) -> Command {
    command.args(["--ignored", "--exact", &format!("program::{test}"), "--nocapture"]);
    command.env(TOLD, told).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

impl Listener {
    /// Starts it, and waits until it has joined.
    ///
    /// - `command`: runs [`binary`] on a host.
    pub(crate) fn start(command: Command, own: Ipv4Addr, group: Ipv4Addr) -> Self {
        let told = format!("{own} {group} 0");
        let mut process = run(command, "listens_until_its_input_ends", &told).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        line_with(&mut said, READY);
        Self { process, said }
    }

    /// Ends it. Returns how many datagrams it received, and how many of them once more.
    pub(crate) fn end(mut self) -> (usize, usize) {
        drop(self.process.stdin.take());
        let counts = line_with(&mut self.said, RECEIVED);
        self.process.wait().unwrap();
        let (received, again) = counts.split_once(' ').unwrap();
        (received.parse().unwrap(), again.trim().parse().unwrap())
    }
}

/// Sends datagrams from a host to a group; returns when all are sent.
pub(crate) fn send(command: Command, own: Ipv4Addr, group: Ipv4Addr, count: u32) {
    let told = format!("{own} {group} {count}");
    let status = run(command, "sends_what_it_is_told_to", &told).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Reads lines up to one with a text; returns what follows the text.
fn line_with(said: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the program ended before '{text}'");
        if let Some((_, rest)) = line.split_once(text) {
            return rest.to_owned();
        }
    }
}

/// Own address, that of the group, and the number of datagrams.
fn told() -> (Ipv4Addr, Ipv4Addr, u32) {
    let told = std::env::var(TOLD).expect("started by another test");
    let [own, group, count] = told.split(' ').collect::<Vec<_>>().try_into().unwrap();
    (own.parse().unwrap(), group.parse().unwrap(), count.parse().unwrap())
}

#[test]
#[ignore = "a program that other tests start"]
fn sends_what_it_is_told_to() {
    let (own, group, count) = told();
    let socket = UdpSocket::bind((own, 0)).unwrap();
    socket.set_multicast_ttl_v4(8).unwrap();
    for number in 0..count {
        socket.send_to(&number.to_be_bytes(), (group, PORT)).unwrap();
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the program has no runtime")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[test]
#[ignore = "a program that other tests start"]
fn listens_until_its_input_ends() {
    static ENDS: AtomicBool = AtomicBool::new(false);
    let (own, group, _) = told();
    let socket = UdpSocket::bind((group, PORT)).unwrap();
    socket.join_multicast_v4(&group, &own).unwrap();
    socket.set_read_timeout(Some(QUIET)).unwrap();
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ENDS.store(true, Ordering::Release);
    });
    say(READY);
    let (mut numbers, mut again, mut bytes) = (BTreeSet::new(), 0, [0; 64]);
    loop {
        let ends = ENDS.load(Ordering::Acquire);
        match socket.recv(&mut bytes) {
            Ok(count) => {
                let is_new = numbers.insert(bytes[..count].to_vec());
                again += usize::from(!is_new);
            }
            Err(_quiet) if ends => break,
            Err(_quiet) => {}
        }
    }
    say(&format!("{RECEIVED}{} {again}", numbers.len()));
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(text: &str) {
    println!("{text}");
}
