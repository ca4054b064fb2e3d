//! The tree of one group alone, cut out of the tree of its virtual group.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{Graph, Peer, PortId, SwitchId};

use crate::plan::VirtualGroup;

/// The tree of one group alone, as it lies in the tree of its virtual group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTree {
    /// Number of the tree in its group: 0, or 1 for the second one with fault tolerance.
    pub tree: u8,
    /// The topmost switch.
    pub root: SwitchId,
    /// Its links between switches, the port of the lower end first, rising.
    pub links: Vec<(PortId, PortId)>,
    /// The switch ports of the live members, rising.
    pub member_ports: Vec<PortId>,
}

impl GroupTree {
    /// Cuts the tree of a group out; needs nothing but the plan and the switch ports of the live
    /// members.
    ///
    /// None if the virtual group has no tree, or its tree misses one of the members.
    /// Cost: the tree of the virtual group.
    #[must_use]
    pub fn cut_out(
        graph: &Graph,
        shared: &VirtualGroup<'_>,
        member_ports: Vec<PortId>,
    ) -> Option<Self> {
        Trunk::of(graph, shared)?.cut(member_ports)
    }
}

/// The tree of a virtual group, from which those of its groups are cut out.
#[derive(Debug)]
pub(crate) struct Trunk<'a> {
    graph: &'a Graph,
    tree: u8,
    root: SwitchId,
    above: Above,
}

impl<'a> Trunk<'a> {
    /// Hangs the tree from its root; none if there is no tree. Cost: the tree.
    pub(crate) fn of(graph: &'a Graph, shared: &VirtualGroup<'_>) -> Option<Self> {
        let root = shared.root?;
        let above = hang(graph, root, shared.ports);
        Some(Self { graph, tree: shared.tree, root, above })
    }

    /// Cuts out the tree of the members at these ports; none if one of them is not on the tree.
    pub(crate) fn cut(&self, mut member_ports: Vec<PortId>) -> Option<GroupTree> {
        let Self { graph, above, .. } = self;
        member_ports.sort_unstable();
        let mut branches: BTreeMap<SwitchId, BTreeSet<PortId>> = BTreeMap::new(); // to needed switches
        let mut needed: BTreeSet<SwitchId> = BTreeSet::new();
        for port in &member_ports {
            let mut at = graph.switch_of(*port);
            while needed.insert(at) {
                let Some((_, upper)) = above.get(&at)? else { break };
                at = graph.switch_of(*upper);
                branches.entry(at).or_default().insert(*upper);
            }
        }
        let with_member: BTreeSet<SwitchId> =
            member_ports.iter().map(|port| graph.switch_of(*port)).collect();
        let mut root = self.root;
        while !with_member.contains(&root) {
            let branches = branches.get(&root)?;
            let (Some(only), 1) = (branches.first(), branches.len()) else { break };
            let Peer::Switch(lower) = graph.peer(*only) else { return None };
            needed.remove(&root);
            root = graph.switch_of(lower);
        }
        needed.remove(&root);
        let mut links: Vec<(PortId, PortId)> =
            needed.iter().filter_map(|switch| *above.get(switch)?).collect();
        links.sort_unstable();
        Some(GroupTree { tree: self.tree, root, links, member_ports })
    }
}

/// By switch of a tree, the link that leads upwards: lower and upper port; none at the root.
pub(crate) type Above = BTreeMap<SwitchId, Option<(PortId, PortId)>>;

/// Hangs a tree, given by its ports, rising, from its root. Cost: the tree.
pub(crate) fn hang(graph: &Graph, root: SwitchId, ports: &[PortId]) -> Above {
    let mut above = Above::from([(root, None)]);
    let mut waiting = vec![root];
    while let Some(switch) = waiting.pop() {
        let first = ports.partition_point(|port| graph.switch_of(*port) < switch);
        let own = ports[first..].iter().take_while(|port| graph.switch_of(**port) == switch);
        for upper in own {
            let Peer::Switch(lower) = graph.peer(*upper) else { continue };
            let below = graph.switch_of(lower);
            if ports.binary_search(&lower).is_ok() && !above.contains_key(&below) {
                above.insert(below, Some((lower, *upper)));
                waiting.push(below);
            }
        }
    }
    above
}
