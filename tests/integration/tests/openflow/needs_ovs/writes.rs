//! Writes of a whole table and of single entries, and their times beside those of `ovs-ofctl`.

use std::process::Command;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::Peer;

use super::lab::Lab;
use super::{layout, serves_all};
use crate::labs::NO_TIC;

const COLORS: u16 = 2048;
/// Writes of one entry each.
const SINGLE: usize = 100;
/// Switch without an agent, which `ovs-ofctl` writes.
const OTHER: &str = "other";

/// A table that the switch agent writes.
struct Table {
    agent: Peer,
    switch_name: String,
}

impl Table {
    /// Writes entries, all of which change the table; returns the time until that is confirmed.
    async fn write(&self, generation: u64, entries: &[v1::TableEntry]) -> Duration {
        let switch_name = self.switch_name.clone();
        let part = v1::SwitchWrite { switch_name, entries: entries.to_vec() };
        let fence = Some(v1::Fence { term: 1, generation });
        let request = v1::WriteTablesRequest { fence, writes: vec![part] };
        let mut calls = SwitchAgentServiceClient::new(self.agent.channel());
        let begun = Instant::now();
        let written = calls.write_tables(request).await.unwrap().into_inner();
        let time = begun.elapsed();
        let count = usize::try_from(written.written_entries).unwrap();
        assert_eq!((count, written.refusals), (entries.len(), vec![]));
        time
    }

    /// Reads the table, which has these entries and no others.
    async fn holds(&self, entries: &[v1::TableEntry]) {
        let request = v1::ReadTablesRequest { switch_names: vec![self.switch_name.clone()] };
        let mut calls = SwitchAgentServiceClient::new(self.agent.channel());
        let mut tables = calls.read_tables(request).await.unwrap().into_inner();
        let table = tables.message().await.unwrap().and_then(|part| part.table).unwrap();
        assert!(table.entries == entries, "{} entries", table.entries.len());
    }
}

/// An entry for every port and color of a switch, in the order of tables.
fn whole(out_ports: &[u32]) -> Vec<v1::TableEntry> {
    let keys =
        (1..=4).flat_map(|in_port| (0..u32::from(COLORS)).map(move |color| (in_port, color)));
    let entry = |(in_port, color)| v1::TableEntry { in_port, color, out_ports: out_ports.to_vec() };
    keys.map(entry).collect()
}

/// All groups and flows of a switch, as lines of a bundle that adds them to another one.
fn bundle_of(lab: &Lab, switch: &str) -> Vec<String> {
    let groups = lab.ovs.ofctl("dump-groups", switch, &[]);
    let groups = groups.lines().map(str::trim).filter(|line| line.starts_with("group_id="));
    let mut lines: Vec<_> = groups.map(|group| format!("group add {group}")).collect();
    let flows = lab.ovs.ofctl("dump-flows", switch, &["--no-stats"]);
    let flows = flows.lines().map(str::trim).filter(|line| line.contains("actions="));
    let mut flows: Vec<_> = flows.map(|flow| format!("flow add {flow}")).collect();
    lines.sort_unstable();
    flows.sort_unstable();
    lines.append(&mut flows);
    lines
}

/// Has `ovs-ofctl` add groups and flows in one bundle; returns the time until that is confirmed.
fn add_bundle(lab: &Lab, switch: &str, lines: &[String]) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let target = format!("unix:{}", lab.ovs.socket(switch).display());
    let mut command = Command::new("ovs-ofctl");
    command.args(["-O", "OpenFlow14", "bundle", &target]).arg(&file);
    let begun = Instant::now();
    let output = command.output().unwrap();
    let time = begun.elapsed();
    assert!(output.status.success(), "{output:?}");
    time
}

/// Writes the entries one by one, by the agent and by `ovs-ofctl`, which is started for each.
async fn write_singly(lab: &Lab, table: &Table, entries: &[v1::TableEntry]) {
    let (mut by_agent, mut by_ofctl) = (Vec::new(), Vec::new());
    for entry in entries {
        by_agent.push(table.write(1, std::slice::from_ref(entry)).await);
        let id = entry.in_port << 16 | (entry.color + 1);
        let outputs: Vec<_> =
            entry.out_ports.iter().map(|port| format!("bucket=actions=output:{port}")).collect();
        let group = format!("group_id={id},type=all,{}", outputs.join(","));
        let begun = Instant::now();
        let _ = lab.ovs.ofctl("mod-group", OTHER, &[&group]);
        by_ofctl.push(begun.elapsed());
    }
    tell_times("agent", by_agent);
    tell_times("ovs_ofctl", by_ofctl);
}

#[expect(clippy::print_stdout, reason = "figures are for readers")]
fn tell_rate(writer: &str, entries: usize, time: Duration) {
    let rate = f64::from(u32::try_from(entries).unwrap()) / time.as_secs_f64();
    println!("figure openflow_writes/whole_table/{writer} {rate:.0} item/s");
}

#[expect(clippy::print_stdout, reason = "figures are for readers")]
fn tell_times(writer: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    for (word, percent) in [("median", 50), ("99th_percentile", 99)] {
        let time = times[times.len() * percent / 100].as_micros();
        println!("figure openflow_writes/one_entry/{writer}/{word} {time} us");
    }
}

/// Every entry of a switch in one write, twice: 16 384 groups and flows, then as many changes; some
/// entries singly between. Another switch gets the same by `ovs-ofctl`, for figures to compare.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_table_is_written_at_once() {
    let layout = layout().with_colors(COLORS);
    let lab = Lab::start(&layout);
    let agent = lab.agent(&layout, NO_TIC.parse().unwrap()).await;
    serves_all(&agent, &layout).await;
    let switch_name = layout.graph.switch_name(layout.graph.switches().next().unwrap()).to_owned();
    let bridge = lab.bridge(&switch_name);
    let table = Table { agent: Peer::new(&agent.address().to_string()).unwrap(), switch_name };

    let mut entries = whole(&[1, 2, 3]);
    tell_rate("agent", entries.len(), table.write(1, &entries).await);
    table.holds(&entries).await;
    lab.ovs.add_switch(OTHER, 1);
    let lines = bundle_of(&lab, &bridge);
    assert!(lines.len() >= 2 * entries.len(), "{} groups and flows", lines.len());
    tell_rate("ovs_ofctl", entries.len(), add_bundle(&lab, OTHER, &lines));
    assert!(bundle_of(&lab, OTHER) == lines, "the switches differ");

    for entry in &mut entries[..SINGLE] {
        entry.out_ports = vec![2];
    }
    write_singly(&lab, &table, &entries[..SINGLE]).await;
    table.holds(&entries).await;
    assert!(bundle_of(&lab, OTHER) == bundle_of(&lab, &bridge), "the switches differ");

    let entries = whole(&[4]);
    let _ = table.write(2, &entries).await;
    table.holds(&entries).await;
}
