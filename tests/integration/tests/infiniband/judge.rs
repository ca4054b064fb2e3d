//! `dump_fts -M` of the InfiniBand diagnostics against the tables that the switch agent reads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use fabricast_proto::v1;
use fabricast_testing::{Ibsim, OpenSm};
use fabricast_topology::{EndpointId, Graph};

/// The multicast LID of color 0, as the driver has it by default.
const COLOR_0: u32 = 0xc001;
/// Column of port 0 in a row; every port takes two.
const PORT_0: usize = 12;

/// Output ports by switch and color.
type Entries = BTreeMap<(String, u32), Vec<u32>>;

/// The simulator and the diagnostics.
pub(crate) struct Judge {
    pub(crate) ibsim: Ibsim,
    agent_host: String,
    host: String,
    seen: usize,
}

impl Judge {
    pub(crate) fn new(ibsim: Ibsim, graph: &Graph) -> Self {
        let adapter = |endpoint| graph.adapter_name(graph.adapter_of(EndpointId(endpoint)));
        let last = u32::try_from(graph.endpoint_count()).expect("few") - 1;
        let (agent_host, host) = (adapter(0).to_owned(), adapter(last).to_owned());
        Self { ibsim, agent_host, host, seen: 0 }
    }

    /// The command of the switch agent, and the file with the fabric.
    pub(crate) fn agent(&self, fabric: &str) -> (Command, PathBuf) {
        let file = self.ibsim.folder().join("expected");
        std::fs::write(&file, fabric).expect("a folder of our own");
        let program = std::env::current_exe().expect("this program");
        (self.ibsim.command(program, &self.agent_host), file)
    }

    /// Starts a subnet manager on a host of its own.
    pub(crate) fn start_opensm(&self, graph: &Graph) -> OpenSm {
        self.ibsim.start_opensm(graph.adapter_name(graph.adapter_of(EndpointId(1))))
    }

    /// Number of packets that a port has received, as `perfquery` reports.
    pub(crate) fn received_packets(&self, switch: &str, port: u32) -> u64 {
        let guid = format!("0x{}", switch.trim_start_matches("S-"));
        let output = self
            .ibsim
            .command("perfquery", &self.host)
            .args(["-x", "-G", &guid, &port.to_string()])
            .output()
            .expect("perfquery runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let row = text.lines().find_map(|line| line.strip_prefix("PortRcvPkts:"));
        let number = row.map(|row| row.trim_start_matches('.'));
        number.unwrap_or_else(|| panic!("{output:?}")).parse().expect("a number")
    }

    /// Entries that the diagnostics saw last.
    pub(crate) fn entries_seen(&self) -> usize {
        self.seen
    }

    /// Says the first thing in which the diagnostics and the switch agent do not agree.
    pub(crate) fn compare(&mut self, ours: &[v1::SwitchTable]) -> Result<(), String> {
        let output = self
            .ibsim
            .command("dump_fts", &self.host)
            .arg("-M")
            .output()
            .map_err(|error| format!("dump_fts: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let theirs = read(&text)?;
        self.seen = theirs.len();
        let ours: Entries = ours
            .iter()
            .flat_map(|table| {
                table.entries.iter().map(|entry| {
                    ((table.switch_name.clone(), entry.color), entry.out_ports.clone())
                })
            })
            .collect();
        let keys = ours.keys().chain(theirs.keys());
        let differs = keys.into_iter().find(|key| ours.get(*key) != theirs.get(*key));
        match differs {
            None => Ok(()),
            Some(key) => {
                Err(format!("{key:?}: we read {:?}, dump_fts {:?}", ours.get(key), theirs.get(key)))
            }
        }
    }
}

/// Reads what `dump_fts -M` prints.
fn read(text: &str) -> Result<Entries, String> {
    let mut entries = Entries::new();
    let mut switch = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" guid 0x") {
            let guid = rest.split_whitespace().next().unwrap_or_default();
            switch = Some(format!("S-{guid:0>16}"));
        } else if let Some(row) = line.strip_prefix("0x") {
            let lid = row.split_whitespace().next().unwrap_or_default();
            let lid = u32::from_str_radix(lid, 16).map_err(|_| format!("no row: {line}"))?;
            let switch = switch.clone().ok_or("a row before its switch")?;
            let marks = line.char_indices().skip(PORT_0).filter(|(_, mark)| *mark == 'x');
            let port = |(at, _)| u32::try_from((at - PORT_0) / 2).expect("a line is short");
            let color = lid.checked_sub(COLOR_0).ok_or("an entry that is not ours")?;
            entries.insert((switch, color), marks.map(port).collect());
        }
    }
    if switch.is_none() {
        return Err(format!("dump_fts found no switch: {text}"));
    }
    Ok(entries)
}

#[test]
fn the_diagnostics_output_is_read_by_columns() {
    let text = "\
Multicast mlids [0xc000-0xc3ff] of switch DR path slid 0; dlid 0; 0,1 guid 0xec0d9a0300ec8240 (x):
            0                   1                   2
     Ports: 0 1 2 3 4 5 6 7 8 9 0 1 2
 MLid
0xc001        x x
0xc00d                              x x
2 valid mlids dumped
";
    let switch = "S-ec0d9a0300ec8240".to_owned();
    let expected = [((switch.clone(), 0), vec![1, 2]), ((switch, 12), vec![12, 13])];
    assert_eq!(read(text), Ok(expected.into()));
}
