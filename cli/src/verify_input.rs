//! Converts groups, tables and faults of a running control plane for the verifier.

use std::collections::BTreeSet;

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_routing::verify;
use fabricast_topology::{Faults, Graph, Mgid, PortSet, TableEntry};

use crate::failure::Failure;

/// Converts the entries that were read back, in order.
///
/// # Errors
///
/// A table that names something the topology does not have.
pub(crate) fn entries(
    graph: &Graph,
    tables: &[v1::SwitchTable],
) -> Result<Vec<TableEntry>, Failure> {
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

/// Converts the groups that have a route, with the members it serves.
///
/// - `trees`: how many each group has, and so how often a packet may arrive.
///
/// # Errors
///
/// A group that names something the topology does not have.
pub(crate) fn delivery_groups(
    graph: &Graph,
    groups: &[v1::Group],
    trees: u8,
) -> Result<Vec<verify::Group>, Failure> {
    let routed = groups.iter().filter_map(|group| {
        let route = group.route.as_ref()?;
        (route.state() == v1::RouteState::Routed).then_some((group, route))
    });
    routed.map(|(group, route)| walked(graph, group, route, trees)).collect()
}

fn walked(
    graph: &Graph,
    group: &v1::Group,
    route: &v1::Route,
    copies: u8,
) -> Result<verify::Group, Failure> {
    let (mut members, mut only_senders) = (BTreeSet::new(), BTreeSet::new());
    let is_served = |member: &&v1::Member| !route.cut_off_endpoints.contains(&member.endpoint);
    for member in group.members.iter().filter(is_served) {
        let unknown = || Failure::input(format!("no endpoint '{}'", member.endpoint));
        let endpoint = graph.find_endpoint(&member.endpoint).ok_or_else(unknown)?;
        let list = if member.sends_only { &mut only_senders } else { &mut members };
        list.insert(endpoint);
    }
    Ok(verify::Group {
        mgid: Mgid(group.mgid),
        colors: vec![u16::try_from(route.color)?],
        copies,
        virtual_group: u32::try_from(route.virtual_group)?,
        only_senders: only_senders.difference(&members).copied().collect(),
        members: members.into_iter().collect(),
    })
}

/// Converts the failed parts; those that the topology does not have are left out.
pub(crate) fn faults(graph: &Graph, failed: &[v1::Element]) -> Faults {
    let mut faults = Faults::new();
    for element in failed.iter().filter_map(|element| element.kind.as_ref()) {
        match element {
            Kind::Link(end) => {
                let switch = graph.find_switch(&end.switch_name);
                let number = u8::try_from(end.port).ok();
                let port = switch.zip(number).and_then(|(switch, port)| graph.port(switch, port));
                port.map(|port| faults.fail_link(graph, port));
            }
            Kind::SwitchName(name) => {
                graph.find_switch(name).map(|switch| faults.fail_switch(switch));
            }
            Kind::Endpoint(name) => {
                graph.find_endpoint(name).map(|endpoint| faults.fail_endpoint(endpoint));
            }
        }
    }
    faults
}
