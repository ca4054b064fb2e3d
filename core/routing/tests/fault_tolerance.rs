//! Two trees for each group, in tables that move packets: no single link or switch above the leaves
//! that dies loses one.
//!
//! Source: C-MR4LMS §3.4 and §4.4. Nothing is rerouted in between: this is what happens in the time before
//! anybody has noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_emulator::{Component, Deliveries, Emulator, EntryWrite, Fence, Packet};
use fabricast_routing::{
    Change, Engine, EngineOptions, Grid, LayerPlan, Mgid, RoutingEngine, grid_groups,
    random_groups, table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Peer, Place, PortId, SwitchId, TableEntry, TableKind,
};

/// A programmed fabric.
struct Lab {
    graph: Arc<Graph>,
    fat_tree: Arc<FatTree>,
    engine: Engine,
    rows: BTreeMap<SwitchId, Vec<TableEntry>>,
    emulator: Emulator,
}

impl Lab {
    fn new(spec: &TopologySpec, colors: u16, tables: TableKind) -> Self {
        let graph = Arc::new(spec.generate().expect("a valid description"));
        let fat_tree = Arc::new(FatTree::detect(&graph).expect("a fat tree"));
        let options = EngineOptions { fault_tolerant: true, ..EngineOptions::new(colors, tables) };
        let engine =
            Engine::new(graph.clone(), fat_tree.clone(), options).expect("room for two trees");
        let emulator = Emulator::new(graph.clone(), tables, colors);
        Self { graph, fat_tree, engine, rows: BTreeMap::new(), emulator }
    }

    fn form(&mut self, groups: impl IntoIterator<Item = (Mgid, Vec<EndpointId>)>) {
        let put = |(mgid, members)| Change::Put { mgid, members };
        self.engine.apply(&groups.into_iter().map(put).collect::<Vec<_>>()).expect("valid groups");
        self.program();
    }

    /// Brings all live switches up to date with the plan.
    fn program(&mut self) {
        let mut rows: BTreeMap<SwitchId, Vec<TableEntry>> = BTreeMap::new();
        for row in table_entries(&self.graph, self.engine.plan()) {
            rows.entry(row.switch).or_default().push(row);
        }
        let live = |at: &SwitchId| self.engine.faults().switch_is_live(*at);
        for switch in self.graph.switches().filter(live) {
            let held = self.emulator.read_table(switch).expect("a live switch answers");
            let mut writes: BTreeMap<(u8, u16), EntryWrite> = BTreeMap::new();
            let erased =
                held.iter().map(|row| TableEntry { out: [].into_iter().collect(), ..*row });
            for row in erased.chain(rows.get(&switch).into_iter().flatten().copied()) {
                let TableEntry { in_port, color, out, .. } = row;
                writes.insert((in_port, color), EntryWrite { in_port, color, out });
            }
            let writes: Vec<EntryWrite> = writes.into_values().collect();
            self.emulator.write_table(switch, Fence::default(), &writes).expect("rows fit");
        }
        self.rows = rows;
    }

    /// Every switch above the leaves and every link between switches, once.
    fn parts_above_the_leaves(&self) -> Vec<Component> {
        let is_above = |at: &SwitchId| !matches!(self.fat_tree.place(*at), Place::Leaf { .. });
        let switches = self.graph.switches().filter(is_above).map(Component::Switch);
        let ports = self.graph.switches().flat_map(|switch| self.graph.ports(switch));
        let links = ports
            .filter(|port| matches!(self.graph.peer(*port), Peer::Switch(other) if *port < other));
        switches.chain(links.map(Component::Link)).collect()
    }

    fn fail(&mut self, part: Component) {
        self.emulator.fail(part).expect("it is there");
    }

    /// Heals a part as it was before it failed, tables included.
    fn heal(&mut self, part: Component) {
        self.emulator.heal(part).expect("it is there");
        if let Component::Switch(switch) = part {
            let write = |row: &TableEntry| EntryWrite {
                in_port: row.in_port,
                color: row.color,
                out: row.out,
            };
            let rows: Vec<_> = self.rows.get(&switch).into_iter().flatten().map(write).collect();
            self.emulator.write_table(switch, Fence::default(), &rows).expect("rows fit");
        }
    }

    /// Sends as a member does, one packet for each color; gives how often each endpoint got it.
    fn send(&mut self, mgid: Mgid, from: EndpointId) -> BTreeMap<EndpointId, usize> {
        let mut copies = BTreeMap::new();
        let mut deliveries = Deliveries::new();
        for color in self.engine.plan().sender_colors(mgid) {
            let packet = Packet { mgid: mgid.0, color, payload: Vec::new() };
            let outcome = self.emulator.inject(from, &packet, &mut deliveries);
            assert!(!outcome.looped(), "group {} from {}", mgid.0, from.0);
            for to in deliveries.as_slice() {
                *copies.entry(*to).or_default() += 1;
            }
        }
        copies
    }

    /// Checks that a packet reaches every other live member, each once or twice, and its sender never.
    fn check(&mut self, mgid: Mgid, from: EndpointId, what: &str) {
        let copies = self.send(mgid, from);
        assert_eq!(copies.get(&from), None, "{what}: group {} comes back", mgid.0);
        for to in
            self.engine.live_members(mgid).expect("routed").into_iter().filter(|to| *to != from)
        {
            let times = copies.get(&to).copied().unwrap_or(0);
            let (mgid, from, to) = (mgid.0, from.0, to.0);
            assert!(
                (1..=2).contains(&times),
                "{what}: group {mgid}, {from} to {to}: {times} copies"
            );
        }
    }

    /// Checks one member behind each leaf, or all, of every group that has both its trees.
    fn check_all(&mut self, what: &str) -> usize {
        let alone: BTreeSet<Mgid> =
            self.engine.plan().unprotected().iter().map(|one| one.mgid).collect();
        let mut checked = 0;
        for group in self.engine.delivery_groups().into_iter().filter(|one| one.members.len() > 1) {
            if !alone.contains(&group.mgid) {
                group.members.iter().for_each(|from| self.check(group.mgid, *from, what));
                checked += group.members.len();
            }
        }
        checked
    }
}

fn spec(text: &str) -> TopologySpec {
    TopologySpec::parse(text).expect("valid")
}

/// Fabrics of 2, 3 and 4 levels; with lanes too.
const SMALL: [&str; 4] = [
    "kind = \"leaf-spine\"\nleaves = 4\nspines = 3\nendpoints_per_leaf = 3",
    "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2\nlanes0 = 2",
    "kind = \"k-ary-3-level\"\nk = 4",
    "kind = \"cn-tn-fat-tree\"\nq = 2\nm = 2\np = 2\nk = 2\nw = 2\nendpoints_per_leaf = 2",
];

fn small(text: &str, tables: TableKind) -> Lab {
    let mut lab = Lab::new(&spec(text), 8, tables);
    let endpoints = u32::try_from(lab.graph.endpoint_count()).expect("a small fabric");
    let space = *lab.engine.layout().space();
    let groups = random_groups(12, 3, endpoints, 7, &space).expect("it fits").into_iter();
    let groups = groups.map(|group| (group.mgid, group.members));
    let everybody = (Mgid(100), (0..endpoints).map(EndpointId).collect());
    lab.form(groups.chain([everybody]));
    lab
}

#[test]
fn every_single_fault_above_the_leaves_is_survived_on_small_fabrics() {
    for text in SMALL {
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            let mut lab = small(text, tables);
            assert!(lab.check_all("whole") > 15);
            for part in lab.parts_above_the_leaves() {
                lab.fail(part);
                lab.check_all(&format!("{text}, {tables:?}, {part:?}"));
                lab.heal(part);
            }
        }
    }
}

/// After the first fault has been rerouted, the second is survived as well by all groups that could be
/// given a new second tree.
#[test]
fn the_next_fault_is_survived_after_rerouting() {
    for text in SMALL {
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            let mut lab = small(text, tables);
            let parts = lab.parts_above_the_leaves();
            for first in parts.iter().step_by(3) {
                let mut faults = Faults::new();
                match first {
                    Component::Switch(switch) => drop(faults.fail_switch(*switch)),
                    Component::Link(port) => drop(faults.fail_link(&lab.graph, *port)),
                    Component::Endpoint(_) => unreachable!("it is above the leaves"),
                }
                lab.engine.set_faults(faults);
                lab.fail(*first);
                lab.program();
                for second in parts.iter().filter(|second| *second != first) {
                    lab.fail(*second);
                    lab.check_all(&format!("{text}, {tables:?}, {first:?} and {second:?}"));
                    lab.heal(*second);
                }
                lab.engine.set_faults(Faults::new());
                lab.emulator.heal(*first).expect("it is there");
                lab.program();
            }
        }
    }
}

/// Without a second tree the same faults lose packets: the test above would notice.
#[test]
fn one_tree_alone_does_not_survive() {
    let mut lab = small(SMALL[0], TableKind::PerPort);
    let options = EngineOptions::new(8, TableKind::PerPort);
    let mut single = Engine::new(lab.graph.clone(), lab.fat_tree.clone(), options).expect("valid");
    let groups = lab
        .engine
        .groups()
        .map(|mgid| Change::Put { mgid, members: lab.engine.members(mgid).expect("it is listed") });
    single.apply(&groups.collect::<Vec<_>>()).expect("valid groups");
    lab.engine = single;
    lab.program();
    let everybody = Mgid(100);
    let mut lost = 0;
    for part in lab.parts_above_the_leaves() {
        lab.fail(part);
        let copies = lab.send(everybody, EndpointId(0));
        lost += usize::from(copies.len() + 1 < lab.graph.endpoint_count());
        lab.heal(part);
    }
    assert!(lost > 0);
}

/// The paper's own fabric, 64x32x16: a sample of its 46 080 links and 5 632 switches above the leaves.
#[test]
fn a_sample_of_faults_is_survived_on_the_papers_fabric() {
    let mut lab = Lab::new(&TopologySpec::paper(), 32, TableKind::PerPort);
    let grid = Grid::cube(64, 32, 16, 1).expect("a valid grid");
    let space = *lab.engine.layout().space();
    let groups = grid_groups(&grid, false, LayerPlan::Compact, &space, 32_768).expect("it fits");
    lab.form(groups.into_iter().map(|group| (group.mgid, group.members)));
    assert_eq!(lab.engine.plan().unprotected(), &[]);
    let served = lab.engine.delivery_groups();
    let mut users: BTreeMap<PortId, Vec<usize>> = BTreeMap::new();
    for (at, group) in served.iter().enumerate() {
        for tree in lab.engine.plan().trees(group.mgid) {
            let links = lab.engine.tree(&tree).expect("it has one").links;
            links.iter().flat_map(|(a, b)| [*a, *b]).for_each(|port| {
                users.entry(port).or_default().push(at);
            });
        }
    }
    let mut hit = 0;
    for part in lab.parts_above_the_leaves().into_iter().step_by(211) {
        let ports: Vec<PortId> = match part {
            Component::Switch(switch) => lab.graph.ports(switch).collect(),
            Component::Link(port) => vec![port],
            Component::Endpoint(_) => unreachable!("it is above the leaves"),
        };
        let groups: BTreeSet<usize> =
            ports.iter().filter_map(|port| users.get(port)).flatten().copied().collect();
        lab.fail(part);
        for at in groups {
            let group = &served[at];
            lab.check(group.mgid, group.members[at % group.members.len()], &format!("{part:?}"));
            hit += 1;
        }
        lab.heal(part);
    }
    assert!(hit > 1_000, "only {hit} groups were hit");
}
