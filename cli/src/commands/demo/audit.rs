//! Compares the tables read back from the switches with the present groups.
//!
//! The verifier knows nothing of the engine: it walks a packet of every member through the entries
//! that were read back. An entry that no packet meets is stale.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_routing::verify::{self, Senders};
use fabricast_topology::{Faults, Graph, TableKind};

use crate::failure::Failure;
use crate::verify_input::{delivery_groups, entries};

/// Violations that are listed.
const LISTED: usize = 5;

/// Result of an audit.
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
    colors: u16,
    trees: u8,
    groups: &[v1::Group],
    tables: &[v1::SwitchTable],
) -> Result<Findings, Failure> {
    let entries = entries(graph, tables)?;
    let groups = delivery_groups(graph, groups, trees)?;
    let options =
        verify::Options { colors, tables: TableKind::PerPort, senders: Senders::All, list: LISTED };
    // The verifier is told of no faults: the routes must do without the failed parts.
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

/// True if two readings of all tables have the same entries.
pub(crate) fn same_entries(before: &[v1::SwitchTable], after: &[v1::SwitchTable]) -> bool {
    let by_switch = |tables: &[v1::SwitchTable]| -> BTreeMap<String, Vec<v1::TableEntry>> {
        let filled = tables.iter().filter(|table| !table.entries.is_empty());
        filled.map(|table| (table.switch_name.clone(), table.entries.clone())).collect()
    };
    by_switch(before) == by_switch(after)
}
