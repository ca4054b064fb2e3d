//! Table rows that a plan asks of the switches, packed, with random access.
//!
//! Where a tree has ports in a switch, packets that come in by one of them leave by all others. So
//! the rows of a tree in a switch differ in nothing but their input port, and one color and one
//! port set say them all: some 10 bytes instead of one [`TableEntry`] for each of its ports.

mod diff;

use fabricast_topology::{Graph, PortId, PortSet, SwitchId, TableEntry, TableKind};

use crate::plan::{Plan, VirtualGroup};

/// All table rows of a plan.
///
/// With per-port tables every port of a tree gets the other ports of the tree in its switch; with
/// per-switch tables a switch gets all of them in one row, and never sends back where a packet came
/// from.
#[derive(Clone, Debug)]
pub struct TableImage {
    plan: Plan,
    switches: Vec<SwitchTable>,
}

/// The trees that have ports in one switch, by color and port set. Those of one color share no
/// port, but for the endpoints of the two trees of a pair: packets from these take both ways.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SwitchTable {
    colors: Vec<u16>, // by tree
    sets: Vec<u64>, // by tree: `words` words, a bit for each port, and bit 0 with per-switch tables
    words: usize,
}

impl TableImage {
    /// Packs all table rows of a plan.
    ///
    /// Cost: two walks over the ports of all trees.
    #[must_use]
    pub fn new(graph: &Graph, plan: &Plan) -> Self {
        let tables = plan.tables();
        let mut trees = vec![0usize; graph.switch_count()];
        for group in plan.virtual_groups() {
            runs(graph, group.ports).for_each(|run| trees[run.switch.index()] += 1);
        }
        let table = |(switch, trees)| SwitchTable::new(graph.ports(switch).len(), trees);
        let mut switches: Vec<_> = graph.switches().zip(trees).map(table).collect();
        for group in plan.virtual_groups() {
            for run in runs(graph, group.ports) {
                switches[run.switch.index()].push(group.color, &run, tables);
            }
        }
        // Where colors and ports rise from tree to tree, this finds nothing to do.
        for table in switches.iter_mut().filter(|table| !table.is_sorted()) {
            table.sort();
        }
        Self { plan: plan.clone(), switches }
    }

    /// Returns the plan whose rows these are.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Finds the output ports for packets of a color that come in by a port; with per-switch tables
    /// that port is of no consequence, and still to be taken out.
    ///
    /// Cost: logarithmic in the trees of the switch, linear in those of the color there.
    #[must_use]
    pub fn find(&self, switch: SwitchId, in_port: u8, color: u16) -> Option<PortSet> {
        let in_port = if self.plan.tables() == TableKind::PerPort { in_port } else { 0 };
        let table = &self.switches[switch.index()];
        let first = table.colors.partition_point(|other| *other < color);
        let same = table.colors[first..].iter().take_while(|other| **other == color).count();
        let sets = (first..first + same).map(|tree| table.set(tree));
        let sets = sets.filter(|set| set.contains(in_port));
        sets.reduce(PortSet::union).map(|set| set.without(in_port))
    }

    /// Walks the rows of one switch, rising by input port and color.
    pub fn rows(&self, switch: SwitchId) -> impl Iterator<Item = TableEntry> {
        let table = &self.switches[switch.index()];
        let in_ports = table.in_ports(self.plan.tables());
        in_ports.iter().flat_map(move |in_port| {
            let mut trees =
                (0..table.colors.len()).filter(move |tree| table.has(*tree, in_port)).peekable();
            std::iter::from_fn(move || {
                let tree = trees.next()?;
                let (color, mut out) = (table.colors[tree], table.set(tree));
                while let Some(twin) = trees.next_if(|twin| table.colors[*twin] == color) {
                    out = out.union(table.set(twin));
                }
                Some(TableEntry { switch, in_port, color, out: out.without(in_port) })
            })
        })
    }

    /// Walks all rows, rising by switch, input port and color.
    pub fn iter(&self) -> impl Iterator<Item = TableEntry> {
        (0..self.switches.len()).flat_map(|at| {
            self.rows(SwitchId(u32::try_from(at).expect("switches have 32-bit numbers")))
        })
    }

    /// Counts the rows of all switches.
    #[must_use]
    pub fn len(&self) -> usize {
        let bits = |words: &u64| words.count_ones() as usize;
        match self.plan.tables() {
            TableKind::PerPort if self.plan.is_dual() => self.iter().count(),
            TableKind::PerPort => {
                self.switches.iter().flat_map(|table| &table.sets).map(bits).sum()
            }
            TableKind::PerSwitch => self.switches.iter().map(|table| table.colors.len()).sum(),
        }
    }

    /// Tells whether no switch has a row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.switches.iter().all(|table| table.colors.is_empty())
    }
}

impl SwitchTable {
    fn new(ports: usize, trees: usize) -> Self {
        let words = ports / 64 + 1;
        Self { colors: Vec::with_capacity(trees), sets: Vec::with_capacity(trees * words), words }
    }

    /// Adds a tree behind the others.
    fn push(&mut self, color: u16, run: &Run<'_>, tables: TableKind) {
        self.colors.push(color);
        let mut low = u64::from(tables == TableKind::PerSwitch);
        if self.words == 1 {
            run.numbers().for_each(|number| low |= 1 << (number & 63));
            self.sets.push(low);
        } else {
            self.sets.extend_from_slice(&run.set(tables).words()[..self.words]);
        }
    }

    fn set(&self, tree: usize) -> PortSet {
        let mut words = [0; 4];
        words[..self.words].copy_from_slice(&self.sets[tree * self.words..][..self.words]);
        PortSet::from_words(words)
    }

    fn has(&self, tree: usize, port: u8) -> bool {
        self.sets[tree * self.words + usize::from(port >> 6)] >> (port & 63) & 1 == 1
    }

    /// Returns the input ports that have rows.
    fn in_ports(&self, tables: TableKind) -> PortSet {
        let all = (0..self.colors.len()).map(|tree| self.set(tree));
        let used = all.fold(PortSet::EMPTY, PortSet::union);
        if tables == TableKind::PerPort { used } else { used.intersection(PortSet::single(0)) }
    }

    fn trees(&self) -> impl Iterator<Item = (u16, PortSet)> {
        self.colors.iter().enumerate().map(|(tree, color)| (*color, self.set(tree)))
    }

    fn is_sorted(&self) -> bool {
        if self.words == 1 {
            self.colors.iter().zip(&self.sets).is_sorted()
        } else {
            self.trees().is_sorted()
        }
    }

    fn sort(&mut self) {
        let mut trees: Vec<(u16, PortSet)> = self.trees().collect();
        trees.sort_unstable();
        self.colors.clear();
        self.sets.clear();
        for (color, set) in trees {
            self.colors.push(color);
            self.sets.extend_from_slice(&set.words()[..self.words]);
        }
    }
}

/// The ports of a tree in one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run<'a> {
    switch: SwitchId,
    first: u32, // port 1 of the switch
    ports: &'a [PortId],
}

impl<'a> Run<'a> {
    fn numbers(&self) -> impl Iterator<Item = u8> + use<'a> {
        let first = self.first;
        self.ports.iter().map(move |port| {
            u8::try_from(port.0 + 1 - first).expect("a switch has at most 255 ports")
        })
    }

    /// Returns the ports as a set, with 0 in it for per-switch tables.
    fn set(&self, tables: TableKind) -> PortSet {
        let zero = (tables == TableKind::PerSwitch).then_some(0);
        zero.into_iter().chain(self.numbers()).collect()
    }

    /// Returns the rows of the tree in this switch, by input port.
    fn rows(&self, tables: TableKind, color: u16) -> impl Iterator<Item = TableEntry> + use<'a> {
        let (switch, all) = (self.switch, self.set(tables));
        let in_ports = if tables == TableKind::PerPort { all } else { PortSet::single(0) };
        in_ports.iter().map(move |in_port| TableEntry {
            switch,
            in_port,
            color,
            out: all.without(in_port),
        })
    }
}

/// Cuts the ports of a tree, rising, into those of each switch.
fn runs<'a>(graph: &'a Graph, ports: &'a [PortId]) -> impl Iterator<Item = Run<'a>> {
    let mut rest = ports;
    std::iter::from_fn(move || {
        let switch = graph.switch_of(*rest.first()?);
        let mut all = graph.ports(switch);
        let (count, first) = (all.len(), all.next()?.0);
        let inside = |port: &&PortId| ((port.0 - first) as usize) < count;
        let (ports, others) = rest.split_at(rest.iter().take_while(inside).count());
        rest = others;
        Some(Run { switch, first, ports })
    })
}

/// Writes out all table rows of a plan, rising by switch, input port and color.
#[must_use]
pub fn table_entries(graph: &Graph, plan: &Plan) -> Vec<TableEntry> {
    TableImage::new(graph, plan).iter().collect()
}

/// Writes out the table rows of one tree of a virtual group, rising by switch and input port. Where
/// it is one of a pair, switches hold the other's output ports in the same rows.
#[must_use]
pub fn virtual_group_entries(
    graph: &Graph,
    tables: TableKind,
    group: &VirtualGroup<'_>,
) -> Vec<TableEntry> {
    expand_ports(graph, tables, group.color, group.ports).collect()
}

/// Returns the table rows of a tree given by its switch ports, rising.
pub(crate) fn expand_ports<'a>(
    graph: &'a Graph,
    tables: TableKind,
    color: u16,
    ports: &'a [PortId],
) -> impl Iterator<Item = TableEntry> + 'a {
    runs(graph, ports).flat_map(move |run| run.rows(tables, color))
}

pub(crate) const fn key(entry: &TableEntry) -> (u32, u8, u16) {
    (entry.switch.0, entry.in_port, entry.color)
}
