//! The tree of one group alone, cut out of the tree of its virtual group.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{Graph, Peer, PortId, SwitchId};

use crate::plan::VirtualGroup;

/// The tree of one group alone, as it lies in the tree of its virtual group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTree {
    /// The topmost switch.
    pub root: SwitchId,
    /// Its links between switches, the port of the lower end first, rising.
    pub links: Vec<(PortId, PortId)>,
    /// The switch ports of the live members, rising.
    pub member_ports: Vec<PortId>,
}

impl GroupTree {
    /// Cuts the tree of a group out; needs nothing but the plan and the switch ports of the live members.
    ///
    /// None if the virtual group has no tree, or its tree misses one of the members.
    /// Cost: the tree of the virtual group.
    #[must_use]
    pub fn cut_out(
        graph: &Graph,
        shared: &VirtualGroup<'_>,
        mut member_ports: Vec<PortId>,
    ) -> Option<Self> {
        member_ports.sort_unstable();
        let above = hang(graph, shared)?;
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
        let mut root = shared.root?;
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
        Some(Self { root, links, member_ports })
    }
}

/// By switch of a tree, the link that leads upwards: lower and upper port; none at the root.
type Above = BTreeMap<SwitchId, Option<(PortId, PortId)>>;

fn hang(graph: &Graph, shared: &VirtualGroup<'_>) -> Option<Above> {
    let root = shared.root?;
    let mut above = Above::from([(root, None)]);
    let mut waiting = vec![root];
    while let Some(switch) = waiting.pop() {
        let first = shared.ports.partition_point(|port| graph.switch_of(*port) < switch);
        let own = shared.ports[first..].iter().take_while(|port| graph.switch_of(**port) == switch);
        for upper in own {
            let Peer::Switch(lower) = graph.peer(*upper) else { continue };
            let below = graph.switch_of(lower);
            if shared.ports.binary_search(&lower).is_ok() && !above.contains_key(&below) {
                above.insert(below, Some((lower, *upper)));
                waiting.push(below);
            }
        }
    }
    Some(above)
}
