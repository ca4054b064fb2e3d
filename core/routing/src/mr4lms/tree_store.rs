//! The groups and the trees they share.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{EndpointId, Mgid, PortId, SwitchId};

use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::occupancy::Occupancy;
use crate::mr4lms::tree_index::TreeIndex;
use crate::plan::CutOff;

/// A group with its live members and its tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// All its members, rising.
    pub(super) members: Vec<EndpointId>,
    /// The ports of those that can be served, rising.
    pub(super) member_ports: Vec<PortId>,
    /// The others, rising.
    pub(super) cut_off: Vec<CutOff>,
    /// Its tree; none with fewer than two live members.
    pub(super) tree: Option<TreeIndex>,
}

/// The tree of a virtual group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) color: u16,
    pub(super) root: SwitchId,
    /// The groups that use it, rising; never empty.
    pub(super) groups: Vec<Mgid>,
    /// Both ends of its links between switches and the ports of the members, rising.
    pub(super) ports: Vec<PortId>,
}

impl Tree {
    pub(super) fn has(&self, port: PortId) -> bool {
        self.ports.binary_search(&port).is_ok()
    }

    pub(super) fn passes(&self, fabric: &Fabric, switch: SwitchId) -> bool {
        let Some(first) = fabric.graph.port(switch, 1) else { return false };
        let at = self.ports.partition_point(|port| *port < first);
        self.ports.get(at).is_some_and(|port| fabric.graph.switch_of(*port) == switch)
    }
}

/// All groups and trees. The indices of trees decide nothing.
#[derive(Clone, Debug)]
pub(super) struct TreeStore {
    pub(super) groups: BTreeMap<Mgid, Group>,
    trees: Vec<Option<Tree>>,
    unused: Vec<TreeIndex>,
    by_color: Vec<Vec<TreeIndex>>,
    /// Colors whose trees are not as they were when last asked.
    pub(super) touched: Vec<bool>,
    /// Groups that no tree can serve together with what is in its way.
    pub(super) unrouted: BTreeSet<Mgid>,
    pub(super) occupancy: Occupancy,
}

impl TreeStore {
    pub(super) fn new(fabric: &Fabric, colors: u16) -> Self {
        Self {
            groups: BTreeMap::new(),
            trees: Vec::new(),
            unused: Vec::new(),
            by_color: vec![Vec::new(); usize::from(colors)],
            touched: vec![false; usize::from(colors)],
            unrouted: BTreeSet::new(),
            occupancy: Occupancy::new(fabric, colors),
        }
    }

    pub(super) fn tree(&self, number: TreeIndex) -> &Tree {
        self.trees[number.index()].as_ref().expect("numbers in use name trees")
    }

    /// Walks all trees, color by color.
    pub(super) fn trees(&self) -> impl Iterator<Item = (TreeIndex, &Tree)> {
        self.by_color.iter().flatten().map(|number| (*number, self.tree(*number)))
    }

    /// Walks the trees of one color.
    pub(super) fn trees_of(&self, color: u16) -> impl Iterator<Item = &Tree> {
        self.by_color[usize::from(color)].iter().map(|number| self.tree(*number))
    }

    /// Adds a tree and gives it to its groups.
    pub(super) fn add_tree(&mut self, fabric: &Fabric, tree: Tree) -> TreeIndex {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.trees.push(None);
            TreeIndex(u32::try_from(self.trees.len() - 1).expect("no more trees than groups"))
        });
        let color = tree.color;
        self.occupancy.take(fabric.domains(&tree.ports), color, number);
        self.occupancy.count_in(fabric, &tree.ports, color, tree.groups.len());
        self.by_color[usize::from(color)].push(number);
        self.touched[usize::from(color)] = true;
        for mgid in &tree.groups {
            self.group_mut(*mgid).tree = Some(number);
            self.unrouted.remove(mgid);
        }
        self.trees[number.index()] = Some(tree);
        number
    }

    /// Takes a tree out. Its groups have none until they get another.
    pub(super) fn remove_tree(&mut self, fabric: &Fabric, number: TreeIndex) -> Tree {
        let tree = self.trees[number.index()].take().expect("numbers in use name trees");
        self.unused.push(number);
        let color = tree.color;
        self.occupancy.give_back(fabric.domains(&tree.ports), color);
        self.occupancy.count_out(fabric, &tree.ports, color, tree.groups.len());
        self.by_color[usize::from(color)].retain(|other| *other != number);
        self.touched[usize::from(color)] = true;
        for mgid in &tree.groups {
            self.group_mut(*mgid).tree = None;
        }
        tree
    }

    /// Counts the numbers that trees have or had.
    pub(super) const fn tree_numbers(&self) -> usize {
        self.trees.len()
    }

    /// Gives a tree more ports, both ends of each link, and more groups; both rising and not its
    /// own. With tables per switch.
    pub(super) fn grow(
        &mut self,
        fabric: &Fabric,
        number: TreeIndex,
        ports: &[PortId],
        groups: &[Mgid],
    ) {
        let Self { trees, occupancy, .. } = self;
        let tree = trees[number.index()].as_mut().expect("numbers in use name trees");
        let color = tree.color;
        let switches = occupancy.take_more(fabric, ports, color, number);
        occupancy.count_in(fabric, &tree.ports, color, groups.len());
        let all = tree.groups.len() + groups.len();
        occupancy.loads.count_more(fabric, ports, &switches, all);
        tree.ports.extend(ports);
        tree.ports.sort(); // two runs
        tree.groups.extend(groups);
        tree.groups.sort();
        self.touched[usize::from(color)] = true;
        for mgid in groups {
            self.group_mut(*mgid).tree = Some(number);
        }
    }

    /// Lets one more group use a tree that passes all switches of its members.
    pub(super) fn share(&mut self, fabric: &Fabric, number: TreeIndex, mgid: Mgid) {
        let Self { groups, trees, occupancy, unrouted, .. } = self;
        unrouted.remove(&mgid);
        let tree = trees[number.index()].as_mut().expect("numbers in use name trees");
        let group = groups.get_mut(&mgid).expect("the group exists");
        group.tree = Some(number);
        let at = tree.groups.partition_point(|other| *other < mgid);
        tree.groups.insert(at, mgid);
        let new: Vec<PortId> =
            group.member_ports.iter().copied().filter(|port| !tree.has(*port)).collect();
        if !new.is_empty() {
            occupancy.join(fabric, &new, tree.color, number);
            tree.ports.extend(new);
            tree.ports.sort_unstable();
        }
        occupancy.count_in(fabric, &tree.ports, tree.color, 1);
        self.touched[usize::from(tree.color)] = true;
    }

    /// Touches the colors in use in another store, and the first, where groups without a tree are.
    pub(super) fn touch_like(&mut self, other: &Self) {
        for (touched, trees) in self.touched.iter_mut().zip(&other.by_color) {
            *touched |= !trees.is_empty();
        }
        self.touched[0] = true;
    }

    /// Notes that a group is not as it was.
    pub(super) fn touch(&mut self, mgid: Mgid) {
        let color = self.group(mgid).tree.map_or(0, |tree| self.tree(tree).color);
        self.touched[usize::from(color)] = true;
    }

    pub(super) fn group(&self, mgid: Mgid) -> &Group {
        &self.groups[&mgid]
    }

    pub(super) fn group_mut(&mut self, mgid: Mgid) -> &mut Group {
        self.groups.get_mut(&mgid).expect("trees name groups that exist")
    }
}
