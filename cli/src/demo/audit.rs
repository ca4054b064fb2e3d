//! Holds the tables that the switches really have against the groups that there really are.
//!
//! The verifier knows nothing of the engine: it walks a packet of every member through the entries
//! that were read back. An entry that no packet meets is stale.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_routing::Mgid;
use fabricast_routing::verify::{self, Senders};
use fabricast_topology::{EndpointId, Faults, Graph, PortSet, TableEntry, TableKind};

use super::control::routed_color;
use crate::failure::Failure;

/// Violations that are listed.
const LISTED: usize = 5;

/// What the audit found.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) entries: usize,
    pub(crate) complaints: Vec<String>,
}

/// Walks packets of all members of all routed groups through the tables.
///
/// - `trees`: how many each group has, and so how often a packet may arrive.
///
/// # Errors
///
/// A table or group that names something the topology does not have.
pub(crate) fn audit(
    graph: &Graph,
    (colors, trees): (u16, u8),
    groups: &[v1::Group],
    tables: &[v1::SwitchTable],
) -> Result<Findings, Failure> {
    let entries = entries(graph, tables)?;
    let groups = groups
        .iter()
        .filter_map(|group| Some((group, routed_color(group.route.as_ref())?)))
        .map(|(group, color)| Ok(verify::Group { copies: trees, ..walked(graph, group, color)? }))
        .collect::<Result<Vec<_>, Failure>>()?;
    let options =
        verify::Options { colors, tables: TableKind::PerPort, senders: Senders::All, list: LISTED };
    // What is broken is not told to the verifier: the routes must do without it.
    let report = verify::verify(graph, &Faults::new(), &groups, &entries, options);
    let mut complaints: Vec<String> =
        report.violations.iter().map(|violation| violation.to_string()).collect();
    if report.violation_count > complaints.len() as u64 {
        complaints.push(format!("{} violations in all", report.violation_count));
    }
    if report.unused_entries > 0 {
        complaints.push(format!("{} stale entries", report.unused_entries));
    }
    Ok(Findings { entries: entries.len(), complaints })
}

/// Whether two readings of all tables have the same entries.
pub(crate) fn same_entries(before: &[v1::SwitchTable], after: &[v1::SwitchTable]) -> bool {
    let by_switch = |tables: &[v1::SwitchTable]| -> BTreeMap<String, Vec<v1::TableEntry>> {
        let filled = tables.iter().filter(|table| !table.entries.is_empty());
        filled.map(|table| (table.switch_name.clone(), table.entries.clone())).collect()
    };
    by_switch(before) == by_switch(after)
}

fn entries(graph: &Graph, tables: &[v1::SwitchTable]) -> Result<Vec<TableEntry>, Failure> {
    let mut entries = Vec::new();
    for table in tables {
        let unknown = || Failure::input(format!("no switch '{}'", table.switch_name));
        let switch = graph.find_switch(&table.switch_name).ok_or_else(unknown)?;
        for entry in &table.entries {
            let out: Result<PortSet, _> =
                entry.out_ports.iter().map(|port| u8::try_from(*port)).collect();
            entries.push(TableEntry {
                switch,
                in_port: u8::try_from(entry.in_port)?,
                color: u16::try_from(entry.color)?,
                out: out?,
            });
        }
    }
    entries.sort_unstable();
    Ok(entries)
}

fn walked(graph: &Graph, group: &v1::Group, color: u32) -> Result<verify::Group, Failure> {
    let route = group.route.clone().unwrap_or_default();
    let mut members: Vec<EndpointId> = group
        .members
        .iter()
        .filter(|member| !route.cut_off_endpoints.contains(&member.endpoint))
        .map(|member| {
            let unknown = || Failure::input(format!("no endpoint '{}'", member.endpoint));
            graph.find_endpoint(&member.endpoint).ok_or_else(unknown)
        })
        .collect::<Result<_, _>>()?;
    members.sort_unstable();
    members.dedup();
    Ok(verify::Group {
        mgid: Mgid(group.mgid),
        colors: vec![u16::try_from(color)?],
        copies: 1,
        virtual_group: u32::try_from(route.virtual_group)?,
        members,
    })
}
