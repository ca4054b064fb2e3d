//! Compares routes with the groups they are for, and tables with the routes they are for.
//!
//! Walking packets tells whether tables deliver; it does not see a line that nobody's packet
//! needs. What a hand, a crash or an old version left in one of the files shows up here.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::Mgid;
use fabricast_routing::formats::{RouteRecord, RoutesFile, TreeRecord};
use fabricast_topology::{EndpointId, Graph, PortId, PortSet, SwitchId, TableEntry, TableKind};

/// Members of groups.
pub(super) type Members = BTreeMap<Mgid, Vec<EndpointId>>;

/// Says where routes and groups do not fit together.
pub(super) fn routes(graph: &Graph, file: &RoutesFile, members: &Members) -> Vec<String> {
    let mut findings = Vec::new();
    let routed: BTreeSet<Mgid> = file.groups.iter().map(|route| route.mgid).collect();
    let without = members.keys().filter(|mgid| !routed.contains(mgid));
    findings.extend(without.map(|mgid| format!("group {}: it has no route", mgid.0)));
    for route in &file.groups {
        let Some(members) = members.get(&route.mgid) else {
            findings.push(format!("group {}: a route, but no such group", route.mgid.0));
            continue;
        };
        let audit = Audit { graph, route, members, served: served(route, members) };
        findings.extend(audit.findings().map(|what| format!("group {}: {what}", route.mgid.0)));
    }
    findings.extend(families(graph, file, members));
    findings
}

/// Says where tables differ from those that the routes need.
pub(super) fn tables(
    graph: &Graph,
    kind: TableKind,
    needed: &[TableEntry],
    found: &[TableEntry],
) -> Vec<String> {
    let rows = |entries: &[TableEntry]| -> BTreeMap<(SwitchId, u8, u16), PortSet> {
        entries
            .iter()
            .map(|entry| ((entry.switch, entry.in_port, entry.color), entry.out))
            .collect()
    };
    let (needed, found) = (rows(needed), rows(found));
    let name = |(switch, in_port, color): &(SwitchId, u8, u16)| match kind {
        TableKind::PerPort => {
            format!("{} port {in_port} color {color}", graph.switch_name(*switch))
        }
        TableKind::PerSwitch => format!("{} color {color}", graph.switch_name(*switch)),
    };
    let ports = |set: &PortSet| {
        let ports: Vec<String> = set.iter().map(|port| port.to_string()).collect();
        ports.join(",")
    };
    let missing = needed.iter().filter_map(|(key, out)| match found.get(key) {
        None => Some(format!("table of {}: the row is missing", name(key))),
        Some(there) if there != out => Some(format!(
            "table of {}: leads to ports {} instead of {}",
            name(key),
            ports(there),
            ports(out)
        )),
        Some(_) => None,
    });
    let stale = found.keys().filter(|key| !needed.contains_key(key));
    let stale = stale.map(|key| format!("table of {}: no route needs the row", name(key)));
    missing.chain(stale).collect()
}

/// The members that a route is to reach.
pub(super) fn served(route: &RouteRecord, members: &[EndpointId]) -> Vec<EndpointId> {
    members.iter().filter(|member| !route.cut_off.contains(member)).copied().collect()
}

/// One route beside its group.
struct Audit<'a> {
    graph: &'a Graph,
    route: &'a RouteRecord,
    members: &'a [EndpointId],
    served: Vec<EndpointId>,
}

impl Audit<'_> {
    fn findings(&self) -> impl Iterator<Item = String> {
        let mut findings = Vec::new();
        let trees = &self.route.trees;
        if self.route.unrouted.is_some() && !trees.is_empty() {
            findings.push("it is said to have no tree, and has one".to_owned());
        }
        if self.route.unrouted.is_none() && trees.is_empty() && self.served.len() >= 2 {
            findings.push("it has no tree, and no reason why".to_owned());
        }
        if self.served.len() < 2 && !trees.is_empty() {
            findings.push("a tree for fewer than two members".to_owned());
        } else {
            findings.extend(trees.iter().filter_map(|tree| self.fault(tree)));
        }
        let strangers = self.route.cut_off.iter().filter(|cut| !self.members.contains(cut));
        findings.extend(
            strangers
                .map(|cut| format!("cut off: {} is no member", self.graph.endpoint_name(*cut))),
        );
        let reached: BTreeSet<SwitchId> =
            trees.iter().flat_map(|tree| self.switches(tree)).collect();
        let wrongly = self
            .route
            .cut_off
            .iter()
            .filter(|cut| self.leaf(**cut).is_some_and(|leaf| reached.contains(&leaf)));
        findings.extend(wrongly.map(|cut| {
            format!("cut off: the tree reaches the switch of {}", self.graph.endpoint_name(*cut))
        }));
        findings.into_iter()
    }

    fn leaf(&self, endpoint: EndpointId) -> Option<SwitchId> {
        self.graph.attachment(endpoint).map(|port| self.graph.switch_of(port))
    }

    fn switches(&self, tree: &TreeRecord) -> BTreeSet<SwitchId> {
        let ends = tree.links.iter().flat_map(|(a, b)| [*a, *b]);
        ends.map(|port| self.graph.switch_of(port)).chain([tree.root]).collect()
    }

    /// The first thing that keeps the links from being one tree over exactly the served members.
    fn fault(&self, tree: &TreeRecord) -> Option<String> {
        let name = |switch: SwitchId| self.graph.switch_name(switch);
        let mut islands = Islands::default();
        let mut degrees: BTreeMap<SwitchId, u32> = BTreeMap::new();
        for (a, b) in &tree.links {
            let (from, to) = (self.graph.switch_of(*a), self.graph.switch_of(*b));
            if !islands.join(from.0, to.0) {
                let (from, port) = (name(from), self.graph.port_number(*a));
                return Some(format!("the link at {from} port {port} closes a loop"));
            }
            *degrees.entry(from).or_default() += 1;
            *degrees.entry(to).or_default() += 1;
        }
        let root = islands.of(tree.root.0);
        let leaves: BTreeSet<SwitchId> =
            self.served.iter().filter_map(|member| self.leaf(*member)).collect();
        if let Some(leaf) = leaves.iter().find(|leaf| islands.of(leaf.0) != root) {
            return Some(format!("no link leads from the root to {}", name(*leaf)));
        }
        if let Some(switch) = degrees.keys().find(|switch| islands.of(switch.0) != root) {
            return Some(format!("{} is not part of the root's tree", name(*switch)));
        }
        let idle =
            degrees.iter().find(|(switch, degree)| **degree == 1 && !leaves.contains(switch));
        idle.map(|(switch, _)| format!("the link to {} leads to no member", name(*switch)))
    }
}

/// Says which virtual groups have two colors, or are several that never meet.
fn families(graph: &Graph, file: &RoutesFile, members: &Members) -> Vec<String> {
    let mut findings = Vec::new();
    let mut families: BTreeMap<u32, Vec<&RouteRecord>> = BTreeMap::new();
    for route in file.groups.iter().filter(|route| !route.trees.is_empty()) {
        families.entry(route.virtual_group).or_default().push(route);
    }
    for (number, routes) in families {
        let colors: BTreeSet<u16> = routes.iter().map(|route| route.color).collect();
        if colors.len() > 1 {
            findings.push(format!("virtual group {number}: it has the colors {colors:?}"));
        }
        let mut islands = Islands::default();
        for route in &routes {
            let members = members.get(&route.mgid).map_or(&[][..], Vec::as_slice);
            let ports = ports(graph, route, members);
            for pair in ports.windows(2) {
                islands.join(pair[0].0, pair[1].0);
            }
        }
        let parts = routes.iter().filter_map(|route| {
            let members = members.get(&route.mgid).map_or(&[][..], Vec::as_slice);
            ports(graph, route, members).first().map(|port| islands.of(port.0))
        });
        if parts.collect::<BTreeSet<u32>>().len() > 1 {
            findings.push(format!("virtual group {number}: its groups share no link"));
        }
    }
    findings
}

/// All switch ports of a route.
fn ports(graph: &Graph, route: &RouteRecord, members: &[EndpointId]) -> Vec<PortId> {
    let links = route.trees.iter().flat_map(|tree| &tree.links).flat_map(|(a, b)| [*a, *b]);
    let served = served(route, members);
    links.chain(served.into_iter().filter_map(|member| graph.attachment(member))).collect()
}

/// Sets of numbers that are joined together.
#[derive(Default)]
struct Islands(BTreeMap<u32, u32>);

impl Islands {
    /// The number that stands for the set of `item`.
    fn of(&mut self, item: u32) -> u32 {
        let mut top = item;
        while let Some(above) = self.0.get(&top).copied() {
            top = above;
        }
        if top != item {
            self.0.insert(item, top);
        }
        top
    }

    /// Joins two sets; `false` if they were one.
    fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        if a != b {
            self.0.insert(a.max(b), a.min(b));
        }
        a != b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn islands_are_joined_once() {
        let mut islands = Islands::default();
        assert!(islands.join(1, 2) && islands.join(3, 2) && islands.join(9, 8));
        assert!(!islands.join(1, 3));
        assert_eq!((islands.of(3), islands.of(9), islands.of(7)), (1, 8, 7));
    }
}
