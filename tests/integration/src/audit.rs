//! Checks the tables of the switches against the groups in the records.

use std::collections::BTreeSet;

use fabricast_proto::v1;
use fabricast_routing::verify::{Group, Options, Senders, verify};
use fabricast_topology::{Faults, Mgid, TableEntry};

use crate::client::{Client, color_of};
use crate::layout::Layout;

/// Checks rules R1, R2 and R4 on the tables as read back, and that no entry is stale.
///
/// Broken parts are excluded by the walk itself: the tables must not need them.
///
/// # Errors
///
/// The first violations.
pub async fn audit(client: &Client, layout: &Layout, faults: &Faults) -> Result<(), String> {
    let entries = table_entries(layout, &client.read_tables().await?);
    let groups: Vec<Group> = client
        .groups()
        .await
        .iter()
        .filter_map(|group| Some(walked(layout, group, color_of(group.route.as_ref())?)))
        .collect();
    let options =
        Options { colors: layout.colors, tables: layout.tables, senders: Senders::All, list: 5 };
    let report = verify(&layout.graph, faults, &groups, &entries, options);
    if !report.is_clean() {
        let texts: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        return Err(format!("{} violations: {}", report.violation_count, texts.join("; ")));
    }
    // Trees with fault tolerance keep dead parts, so that nothing has to be written.
    let may_be_idle = layout.fault_tolerant && *faults != Faults::new();
    if report.unused_entries > 0 && !may_be_idle {
        return Err(format!("{} stale entries", report.unused_entries));
    }
    Ok(())
}

/// Tables as the verifier reads them.
///
/// # Panics
///
/// If an entry names a part that the fabric does not have.
#[must_use]
pub fn table_entries(layout: &Layout, tables: &[v1::SwitchTable]) -> Vec<TableEntry> {
    let mut entries = Vec::new();
    for table in tables {
        let switch = layout.graph.find_switch(&table.switch_name).expect("a switch of the fabric");
        entries.extend(table.entries.iter().map(|entry| {
            TableEntry {
                switch,
                in_port: u8::try_from(entry.in_port).expect("a port number"),
                color: u16::try_from(entry.color).expect("a color"),
                out: entry
                    .out_ports
                    .iter()
                    .map(|port| u8::try_from(*port).expect("a port number"))
                    .collect(),
            }
        }));
    }
    entries.sort_unstable();
    entries
}

/// Tables without their fences: what forwarding depends on.
#[must_use]
pub fn copied(tables: &[v1::SwitchTable]) -> Vec<(String, Vec<v1::TableEntry>)> {
    tables
        .iter()
        .filter(|table| !table.entries.is_empty())
        .map(|table| (table.switch_name.clone(), table.entries.clone()))
        .collect()
}

fn walked(layout: &Layout, group: &v1::Group, color: u32) -> Group {
    let route = group.route.clone().unwrap_or_default();
    let served =
        group.members.iter().filter(|member| !route.cut_off_endpoints.contains(&member.endpoint));
    let (mut members, mut only_senders) = (BTreeSet::new(), BTreeSet::new());
    for member in served {
        let list = if member.sends_only { &mut only_senders } else { &mut members };
        list.insert(layout.graph.find_endpoint(&member.endpoint).expect("an endpoint"));
    }
    Group {
        mgid: Mgid(group.mgid),
        colors: [Some(color), route.second_color]
            .into_iter()
            .flatten()
            .map(|color| u16::try_from(color).expect("a color"))
            .collect(),
        copies: if layout.fault_tolerant { 2 } else { 1 },
        virtual_group: u32::try_from(route.virtual_group).expect("a number"),
        only_senders: only_senders.difference(&members).copied().collect(),
        members: members.into_iter().collect(),
    }
}
