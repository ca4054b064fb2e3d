//! A lab whose topology no part is told: cables and hosts are found, and followed when cables are
//! cut and put into other ports.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fabricast_topology::ibnetdiscover;

use super::*;

/// Cables by their ends: node id and port, or the name of an endpoint.
type Cables = BTreeSet<[String; 2]>;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fabricast");
/// Address of the TIC in the lab.
const TIC: &str = "10.255.0.254:7401";
/// Longest that anything takes to be found and known to all parts, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// - `text`: a topology as `ibnetdiscover` prints it.
fn cables(text: &str) -> Cables {
    ibnetdiscover::read(text).expect("a topology").cables()
}

/// Output of a command; or why there is none, as with a TIC that begins a term.
fn said(output: Output) -> Result<String, String> {
    let texts = [&output.stdout, &output.stderr];
    let [said, why] = texts.map(|text| String::from_utf8_lossy(text).into_owned());
    if output.status.success() { Ok(said) } else { Err(why) }
}

/// Waits until something is as it ought to be.
#[expect(clippy::disallowed_methods, reason = "what it waits for needs the processors")]
fn eventually<T: PartialEq + std::fmt::Debug>(expected: &T, mut found: impl FnMut() -> T) {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = found();
        if now == *expected {
            return;
        }
        assert!(Instant::now() < end, "found {now:?}, not {expected:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

impl Lab {
    /// Waits until the TIC knows these cables.
    fn is_known(&self, expected: &Cables) {
        let words = ["topology", "download"];
        let known = || said(self.run("fabricast", &words)).map(|text| cables(&text));
        eventually(&Ok(expected.clone()), known);
    }

    /// Waits until the command line finds these cables, beside the agent.
    fn is_found(&self, expected: &Cables) {
        let settings = self.folder().join("settings/fabricast.toml").display().to_string();
        let words = ["--", PROGRAM, "topology", "discover", "--config", &settings];
        let found = || said(self.run("exec", &words)).map(|text| cables(&text));
        eventually(&Ok(expected.clone()), found);
    }

    /// Waits until so many parts of the fabric count as failed.
    fn has_failed(&self, parts: usize) {
        let words = ["switch", "list", "--reporters", "--format", "json", "--server", TIC];
        let count = |part: &str| {
            let digits = part.trim_start().split(|c: char| !c.is_ascii_digit()).next();
            digits.and_then(|digits| digits.parse::<usize>().ok()).unwrap_or(0)
        };
        let failed = || -> Result<usize, String> {
            let list = said(self.run("fabricast", &words))?;
            Ok(list.split("\"failedCount\":").skip(1).map(count).sum())
        };
        eventually(&Ok(parts), failed);
    }

    /// Lines of the list of parts that begin with a word, in columns.
    fn wiring(&self, kind: &str) -> Vec<Vec<String>> {
        let list = std::fs::read_to_string(self.folder().join("wiring")).expect("a list");
        let lines = list.lines().map(|line| line.split('\t').map(str::to_owned).collect());
        lines.filter(|columns: &Vec<String>| columns[0] == kind).collect()
    }

    /// Changes the settings of a switch, in the words of `ovs-vsctl`.
    fn configure(&self, bridge: &str, words: &[&str]) {
        let database = format!("--db=unix:{}/ovs/{bridge}.sock", self.folder().display());
        let command = ["--", "ovs-vsctl", &database, "--timeout=20"];
        self.succeeds("exec", &[&command[..], words].concat());
    }
}

#[test]
fn a_fabric_that_no_part_is_told_is_found_and_followed() {
    let lab = Lab(tempfile::tempdir().expect("a folder"));
    lab.succeeds("start", &["--discovered", &lab.small_fabric()]);
    let text = std::fs::read_to_string(lab.folder().join("topology")).expect("the fabric");
    let whole = cables(&text);
    assert_eq!(whole.len(), 8 + 8);
    lab.is_known(&whole);
    lab.is_found(&whole);
    let said = lab.succeeds("demo", &["--short"]);
    assert!(said.contains("7. all programs have ended"), "{said}");

    // A cut cable is not found, has failed, and stays in the topology.
    let links = lab.wiring("link");
    let [_, near, _, far, _] = &links[0][..] else { panic!("{links:?}") };
    lab.succeeds("cut", &[near, far]);
    lab.has_failed(1);
    let switches = lab.wiring("switch");
    let node = |name: &str| {
        let switch = switches.iter().find(|columns| columns[1] == name).expect("a switch");
        format!("S-{}", switch[3])
    };
    let is_cut = |[one, other]: &[String; 2]| {
        let ends = [near, far].map(|name| format!("{}:", node(name)));
        ends.iter().all(|end| one.starts_with(end) || other.starts_with(end))
    };
    let rest: Cables = whole.iter().filter(|cable| !is_cut(cable)).cloned().collect();
    assert_eq!(rest.len() + 1, whole.len());
    lab.is_found(&rest);
    lab.is_known(&whole);
    lab.succeeds("mend", &[near, far]);
    lab.has_failed(0);
    lab.is_found(&whole);

    // Two cables of one switch are put into each other's ports.
    let of_one: Vec<&Vec<String>> = links.iter().filter(|columns| columns[1] == *near).collect();
    let ports = [&of_one[0][2], &of_one[1][2]];
    let numbers = ports.map(|port| port.split('-').nth(1).expect("a number"));
    let bridge = ports[0].split('-').next().expect("a switch");
    lab.configure(bridge, &["del-port", ports[0], "--", "del-port", ports[1]]);
    for (port, number) in [(ports[0], numbers[1]), (ports[1], numbers[0])] {
        let number = format!("ofport_request={number}");
        let words = ["add-port", bridge, port, "--", "set", "interface", port, &number];
        lab.configure(bridge, &words);
    }
    let ends = numbers.map(|number| format!("{}:{number}", node(near)));
    let swapped = |end: &String| match ends.iter().position(|one| one == end) {
        Some(at) => ends[1 - at].clone(),
        None => end.clone(),
    };
    let moved: Cables = whole
        .iter()
        .map(|[one, other]| [swapped(one), swapped(other)])
        .map(|[one, other]| if other < one { [other, one] } else { [one, other] })
        .collect();
    assert_ne!(moved, whole);
    lab.is_known(&moved);
    lab.is_found(&moved);
    lab.has_failed(0);
}
