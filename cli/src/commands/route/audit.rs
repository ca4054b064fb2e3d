//! Compares routes with the groups they are for, and tables with the routes they are for.
//!
//! Walking packets tells whether tables deliver; it does not see a line that nobody's packet
//! needs. Leftovers of a person, a crash or an old version in one of the files show up here.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::EngineKind;
use fabricast_routing::formats::{RouteRecord, RoutesFile, TreeRecord};
use fabricast_topology::{
    EndpointId, Graph, Mgid, PortId, PortSet, SwitchId, TableEntry, TableKind,
};

/// Members of groups.
pub(super) type Members = BTreeMap<Mgid, Vec<EndpointId>>;

/// Lists the differences between routes and groups.
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

/// Lists the differences between tables and those that the routes need.
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

/// Lists the members that a route must reach.
pub(super) fn served(route: &RouteRecord, members: &[EndpointId]) -> Vec<EndpointId> {
    members.iter().filter(|member| !route.cut_off.contains(member)).copied().collect()
}

/// A route with its group.
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

    /// Finds the first reason why the links are not one tree over exactly the served members.
    fn fault(&self, tree: &TreeRecord) -> Option<String> {
        let name = |switch: SwitchId| self.graph.switch_name(switch);
        let mut sets = DisjointSets::default();
        let mut degrees: BTreeMap<SwitchId, u32> = BTreeMap::new();
        for (a, b) in &tree.links {
            let (from, to) = (self.graph.switch_of(*a), self.graph.switch_of(*b));
            if !sets.join(from.0, to.0) {
                let (from, port) = (name(from), self.graph.port_number(*a));
                return Some(format!("the link at {from} port {port} closes a loop"));
            }
            *degrees.entry(from).or_default() += 1;
            *degrees.entry(to).or_default() += 1;
        }
        let root = sets.of(tree.root.0);
        let leaves: BTreeSet<SwitchId> =
            self.served.iter().filter_map(|member| self.leaf(*member)).collect();
        if let Some(leaf) = leaves.iter().find(|leaf| sets.of(leaf.0) != root) {
            return Some(format!("no link leads from the root to {}", name(*leaf)));
        }
        if let Some(switch) = degrees.keys().find(|switch| sets.of(switch.0) != root) {
            return Some(format!("{} is not part of the root's tree", name(*switch)));
        }
        let idle =
            degrees.iter().find(|(switch, degree)| **degree == 1 && !leaves.contains(switch));
        idle.map(|(switch, _)| format!("the link to {} leads to no member", name(*switch)))
    }
}

/// Lists virtual groups with two colors, or of an engine that promises it, whose groups share no
/// link (with per-switch tables: no switch).
fn families(graph: &Graph, file: &RoutesFile, members: &Members) -> Vec<String> {
    let mut findings = Vec::new();
    let kind = file.header.engine.parse::<EngineKind>();
    let hangs_together = kind.is_ok_and(EngineKind::groups_hang_together);
    let mut families: BTreeMap<u32, Vec<&RouteRecord>> = BTreeMap::new();
    for route in file.groups.iter().filter(|route| !route.trees.is_empty()) {
        families.entry(route.virtual_group).or_default().push(route);
    }
    for (number, routes) in families {
        let colors: BTreeSet<u16> = routes.iter().map(|route| route.color).collect();
        if colors.len() > 1 {
            findings.push(format!("virtual group {number}: it has the colors {colors:?}"));
        }
        if !hangs_together {
            continue;
        }
        let mut sets = DisjointSets::default();
        let places = routes.iter().map(|route| {
            let members = members.get(&route.mgid).map_or(&[][..], Vec::as_slice);
            let place = |port: PortId| match file.header.tables {
                TableKind::PerPort => port.0,
                TableKind::PerSwitch => graph.switch_of(port).0,
            };
            ports(graph, route, members).into_iter().map(place).collect()
        });
        let places: Vec<Vec<u32>> = places.collect();
        for pair in places.iter().flat_map(|places| places.windows(2)) {
            sets.join(pair[0], pair[1]);
        }
        let parts = places.iter().filter_map(|places| places.first().map(|at| sets.of(*at)));
        if parts.collect::<BTreeSet<u32>>().len() > 1 {
            let what = match file.header.tables {
                TableKind::PerPort => "link",
                TableKind::PerSwitch => "switch",
            };
            findings.push(format!("virtual group {number}: its groups share no {what}"));
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

/// Disjoint sets of numbers.
#[derive(Default)]
struct DisjointSets(BTreeMap<u32, u32>);

impl DisjointSets {
    /// Finds the representative of the set of `item`.
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
    use std::sync::Arc;

    use fabricast_routing::{Change, EngineOptions, build_engine};
    use fabricast_topology::FatTree;
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    /// Groups of one leaf meet in its switch; baselines give one tree to groups that meet nowhere.
    #[test]
    fn sound_plans_of_every_engine_have_no_findings() {
        let spec = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 4";
        let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
        let view = Arc::new(FatTree::detect(&graph).unwrap());
        let put = |mgid: u32, members: [u32; 2]| Change::Put {
            mgid: Mgid(mgid),
            members: members.map(EndpointId).to_vec(),
        };
        let puts = [put(0, [0, 1]), put(2, [2, 3]), put(4, [4, 8]), put(6, [1, 5])];
        let members: Members = puts
            .iter()
            .map(|put| match put {
                Change::Put { mgid, members } => (*mgid, members.clone()),
                other => panic!("{other:?}"),
            })
            .collect();
        for kind in EngineKind::ALL {
            for tables in [TableKind::PerPort, TableKind::PerSwitch] {
                let options = EngineOptions::new(1, tables);
                let view = Some(Arc::clone(&view));
                let mut engine = build_engine(*kind, graph.clone(), view, options).unwrap();
                engine.apply(&puts).unwrap();
                let file = RoutesFile::of(&*engine, "");
                assert_eq!(
                    routes(&graph, &file, &members),
                    Vec::<String>::new(),
                    "{kind} {tables:?}"
                );
            }
        }
        let mut engine = build_engine(
            EngineKind::CMr4lmsFixed,
            graph.clone(),
            Some(view),
            EngineOptions::new(1, TableKind::PerPort),
        )
        .unwrap();
        engine.apply(&puts).unwrap();
        let mut file = RoutesFile::of(&*engine, "");
        for route in &mut file.groups {
            route.virtual_group = 0;
        }
        let found = routes(&graph, &file, &members);
        assert_eq!(found, ["virtual group 0: its groups share no link"]);
    }

    #[test]
    fn components_are_joined_once() {
        let mut sets = DisjointSets::default();
        assert!(sets.join(1, 2) && sets.join(3, 2) && sets.join(9, 8));
        assert!(!sets.join(1, 3));
        assert_eq!((sets.of(3), sets.of(9), sets.of(7)), (1, 8, 7));
    }
}
