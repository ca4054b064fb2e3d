//! Processes with the direct path on the hosts of the lab: what they send to all goes once through
//! the switches, and along the tree where the switches do not carry it.
//!
//! A process is this very test binary once more, in the network namespace of a host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use fabricast_client::Settings;
use fabricast_client::blocking::Client;

use super::*;

const SPEC: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
const HOSTS: usize = 4;
/// In the child: path of the agent's socket.
const TOLD: &str = "FABRICAST_TEST_MEMBER";
const MESSAGE: usize = 1 << 20;
/// Longest that the fabric's multicast takes to be noticed, or its end.
const PATIENCE: Duration = Duration::from_secs(40);

/// A running member.
struct Member {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Member {
    fn start(lab: &Lab, host: &str) -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/lab");
        let socket = lab.folder().join(format!("{host}.socket"));
        let mut command = Command::new(scripts.join("exec"));
        command.env("FABRICAST_LAB", lab.folder()).env(TOLD, socket).args([host, "--"]);
        command.arg(std::env::current_exe().expect("this binary"));
        command.args(["--ignored", "--exact", "needs_ovs::multicast::takes_part_until_its_end"]);
        command.arg("--nocapture").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().expect("it runs");
        let answers = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, answers }
    }

    fn begin(&mut self, word: &str) {
        let input = self.process.stdin.as_mut().expect("piped");
        writeln!(input, "{word}").expect("it listens");
    }

    /// The rest of the line that answers.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        while self.answers.read_line(&mut line).expect("text") > 0 {
            if let Some(answer) = line.trim().strip_prefix("answer ") {
                return answer.to_owned();
            }
            line.clear();
        }
        panic!("the member has ended");
    }

    fn ask(&mut self, word: &str) -> String {
        self.begin(word);
        self.answer()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "the process that the test of this file starts on hosts of the lab"]
#[expect(clippy::print_stdout, reason = "its output is what the test reads")]
fn takes_part_until_its_end() {
    let socket = std::env::var(TOLD).expect("started by a test");
    let client = Client::attach(Settings::at(socket).process("member")).expect("it attaches");
    let group = client.join("spread").expect("it joins");
    group.wait_for(HOSTS).expect("all take part");
    for line in std::io::stdin().lines() {
        let answer = match line.expect("text").as_str() {
            "path" => group.path().as_str().to_owned(),
            "send" => format!("{:?}", group.multicast(&vec![7; MESSAGE]).expect("it is sent")),
            "receive" => group.receive().expect("a message").payload.len().to_string(),
            "sum" => {
                let mine = vec![u64::from(group.rank()); 20_000];
                let sums = group.all_reduce(fabricast_client::Reduction::Sum, &mine);
                let sums = sums.expect("it ends");
                format!("{} {}", sums.len(), sums[19_999])
            }
            other => panic!("{other}"),
        };
        println!("answer {answer}");
    }
}

#[expect(clippy::disallowed_methods, reason = "no runtime waits in this thread")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until all members name these paths.
fn have_paths(members: &mut [Member], paths: &[&str]) {
    let begun = Instant::now();
    loop {
        let found: Vec<String> = members.iter_mut().map(|member| member.ask("path")).collect();
        if found == paths {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{found:?}");
        pause(Duration::from_millis(50));
    }
}

/// Packets that flows of Fabricast have taken so far, in all switches.
fn carried(lab: &Lab) -> usize {
    let sockets = std::fs::read_dir(lab.folder().join("ovs")).expect("a list").flatten();
    let sockets = sockets.map(|entry| entry.path().to_string_lossy().into_owned());
    let sum = |socket: String| {
        let target = format!("unix:{socket}");
        let words = ["--", "ovs-ofctl", "-O", "OpenFlow13", "dump-flows", &target];
        let flows = lab.succeeds("exec", &words);
        let led = flows.lines().filter(|line| line.contains("group:"));
        let count = |line: &str| {
            let count = line.split("n_packets=").nth(1)?;
            count.split(',').next()?.parse::<usize>().ok()
        };
        led.filter_map(count).sum::<usize>()
    };
    sockets.filter(|path| path.ends_with(".mgmt")).map(sum).sum()
}

/// Waits until the switches have counted so many packets since `before`, which takes them a second;
/// returns how many there are.
fn carries(lab: &Lab, before: usize, least: usize) -> usize {
    let begun = Instant::now();
    loop {
        let packets = carried(lab) - before;
        if packets >= least {
            return packets;
        }
        assert!(begun.elapsed() < PATIENCE, "{packets} packets of {least}");
        pause(Duration::from_millis(100));
    }
}

/// Has one member send a message that all others get.
fn exchange(members: &mut [Member], source: usize) {
    for (number, member) in members.iter_mut().enumerate() {
        member.begin(if number == source { "send" } else { "receive" });
    }
    for (number, member) in members.iter_mut().enumerate() {
        let expected = if number == source { "[]".to_owned() } else { MESSAGE.to_string() };
        assert_eq!(member.answer(), expected, "member {number} of {source}");
    }
}

fn sum(members: &mut [Member]) {
    members.iter_mut().for_each(|member| member.begin("sum"));
    for member in members {
        assert_eq!(member.answer(), "20000 6");
    }
}

#[test]
fn members_send_through_the_switches_and_along_the_tree_where_a_cable_is_cut() {
    const HEARS: &str = "direct with multicast";
    let lab = Lab(tempfile::tempdir().expect("a folder"));
    let spec = lab.0.path().join("spec.toml");
    std::fs::write(&spec, SPEC).expect("a file");
    lab.succeeds("start", &[&spec.to_string_lossy()]);
    let hosts: Vec<String> = (0..HOSTS).map(|number| format!("h{number}")).collect();
    let mut members: Vec<Member> = hosts.iter().map(|host| Member::start(&lab, host)).collect();
    have_paths(&mut members, &[HEARS; HOSTS]);

    // Each packet goes once over each cable: into three switches, whichever host sends. A message
    // takes 265 packets, and 3 fragments each.
    for source in 0..HOSTS {
        let before = carried(&lab);
        exchange(&mut members, source);
        let packets = carries(&lab, before, 3 * 265 * 2);
        assert!(packets < 3 * 265 * 5, "{packets} packets of {source}");
    }
    let before = carried(&lab);
    sum(&mut members);
    carries(&lab, before, 3 * 40); // 160 000 bytes

    // Losses of the switches are repaired, and then the host gets everything along the tree.
    let leaf = std::fs::read_to_string(lab.folder().join("wiring")).expect("a list");
    let leaf = leaf.lines().find(|line| line.starts_with("host\th2\t")).expect("the host");
    let port = leaf.split('\t').nth(3).expect("a port");
    let leaf = port.split('-').next().expect("a switch").to_owned();
    lab.succeeds("exec", &["--", "ip", "-netns", &leaf, "link", "set", port, "down"]);
    (0..HOSTS).for_each(|source| exchange(&mut members, source));
    sum(&mut members);
    have_paths(&mut members, &[HEARS, HEARS, "direct", HEARS]);
    (0..HOSTS).for_each(|source| exchange(&mut members, source));
    lab.succeeds("exec", &["--", "ip", "-netns", &leaf, "link", "set", port, "up"]);
    have_paths(&mut members, &[HEARS; HOSTS]);
    sum(&mut members);
}
