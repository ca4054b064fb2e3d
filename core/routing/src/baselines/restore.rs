//! Records color and tree of every group, and restores them.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{Mgid, Peer, PortId, SwitchId};

use crate::baselines::colors::Colors;
use crate::baselines::{Baseline, BaselineRule, Tree};
use crate::routing_engine::{RecordedChoice, RestoreError, RestoreProblem};

impl Baseline {
    pub(super) fn record(&self) -> Vec<RecordedChoice> {
        if self.rule == BaselineRule::GlobalTree {
            return Vec::new();
        }
        let tree_of = |color: u16, mgid: Mgid| {
            let mut trees = self.trees[usize::from(color)].iter();
            trees.find(|tree| tree.groups.binary_search(&mgid).is_ok())
        };
        let choice = |(mgid, group): (&Mgid, &super::Group)| {
            let tree = tree_of(group.color, *mgid);
            let first = tree.filter(|tree| tree.groups[0] == *mgid);
            RecordedChoice {
                mgid: *mgid,
                tree: 0,
                part: group.color.into(),
                root: tree.map_or(0, |tree| tree.root.0),
                ports: first.map_or_else(Vec::new, |tree| tree.ports.clone()),
            }
        };
        self.groups.iter().map(choice).collect()
    }

    /// Restores colors and trees. Groups without a choice get new ones afterwards, by MGID. A color
    /// whose recorded tree does not serve exactly its present groups gets a new tree, too.
    pub(super) fn recall(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        let mut recorded = BTreeMap::new();
        for (index, choice) in choices.iter().enumerate() {
            let refuse = |problem| RestoreError { index, mgid: choice.mgid, problem };
            let color = self.check(choice).map_err(refuse)?;
            if recorded.insert(choice.mgid, (color, choice)).is_some() {
                return Err(refuse(RestoreProblem::Twice));
            }
        }
        self.colors = Colors::new(self.colors.len());
        for (mgid, (color, _)) in &recorded {
            self.colors.take_this(*mgid, *color);
        }
        for (mgid, group) in &mut self.groups {
            group.color = match recorded.get(mgid) {
                Some((color, _)) => *color,
                None => self.colors.take(*mgid),
            };
        }
        self.replant_recorded(&recorded);
        Ok(())
    }

    fn check(&self, choice: &RecordedChoice) -> Result<u16, RestoreProblem> {
        if self.rule == BaselineRule::GlobalTree {
            return Err(RestoreProblem::NothingToChoose { engine: self.rule.kind() });
        }
        if !self.groups.contains_key(&choice.mgid) {
            return Err(RestoreProblem::UnknownGroup);
        }
        let color = u16::try_from(choice.part).ok();
        let color = color.filter(|color| *color < self.colors.len());
        let graph = &self.fabric.graph;
        let is_port = |port: &PortId| port.index() < graph.port_count();
        if choice.root as usize >= graph.switch_count() || !choice.ports.iter().all(is_port) {
            return Err(RestoreProblem::UnknownTree);
        }
        color.filter(|_| choice.tree == 0).ok_or(RestoreProblem::UnknownTree)
    }

    fn replant_recorded(&mut self, recorded: &BTreeMap<Mgid, (u16, &RecordedChoice)>) {
        for trees in &mut self.trees {
            for tree in trees.drain(..) {
                self.loads.count_out(&self.fabric, &tree.ports, tree.groups.len());
            }
        }
        let mut left = Vec::new();
        for color in 0..self.colors.len() {
            let Some(trees) = self.recorded_trees(color, recorded) else {
                left.push(color);
                continue;
            };
            for tree in &trees {
                self.loads.count_in(&self.fabric, &tree.ports, tree.groups.len());
            }
            self.trees[usize::from(color)] = trees;
            self.write_part(color);
        }
        for color in left {
            self.replant(color);
        }
    }

    /// Rebuilds the trees of a color from its choices. Each tree begins with a group that has
    /// ports; the other groups belong to the tree that has their root and members. None if the
    /// trees do not serve all present groups.
    ///
    /// Groups that could share a tree may have one each, if a fault that separated them has been
    /// repaired.
    fn recorded_trees(
        &mut self,
        color: u16,
        recorded: &BTreeMap<Mgid, (u16, &RecordedChoice)>,
    ) -> Option<Vec<Tree>> {
        let mut groups: Vec<Mgid> =
            self.connect_by_component(color).into_iter().flat_map(|(groups, _)| groups).collect();
        groups.sort_unstable();
        let mut trees: Vec<(Tree, Vec<PortId>)> = Vec::new();
        for mgid in groups {
            let (_, choice) = recorded.get(&mgid)?;
            let root = SwitchId(choice.root);
            if !choice.ports.is_empty() {
                let tree = Tree { root, ports: choice.ports.clone(), groups: Vec::new() };
                trees.push((tree, Vec::new()));
            }
            let wanted = &self.groups[&mgid].service.member_ports;
            let has_all = |tree: &Tree| {
                wanted.iter().all(|member_port| tree.ports.binary_search(member_port).is_ok())
            };
            let (tree, member_ports) =
                trees.iter_mut().find(|(tree, _)| tree.root == root && has_all(tree))?;
            tree.groups.push(mgid);
            member_ports.extend(wanted);
        }
        let mut domains = BTreeSet::new();
        let mut is_sound = |(tree, member_ports): &mut (Tree, Vec<PortId>)| {
            member_ports.sort_unstable();
            member_ports.dedup();
            self.is_tree(tree.root, &tree.ports, member_ports)
                && self.fabric.domains(&tree.ports).all(|domain| domains.insert(domain))
        };
        trees
            .iter_mut()
            .all(&mut is_sound)
            .then(|| trees.into_iter().map(|(tree, _)| tree).collect())
    }

    /// Tells whether ports are those of a live tree, rising, from a root that has just these
    /// members.
    fn is_tree(&self, root: SwitchId, ports: &[PortId], member_ports: &[PortId]) -> bool {
        let graph = &self.fabric.graph;
        let is_member_port = |port: &&PortId| matches!(graph.peer(**port), Peer::Endpoint(_));
        let is_sound = ports.iter().all(|port| self.fabric.is_live(*port))
            && ports.iter().filter(is_member_port).eq(member_ports);
        is_sound && self.fabric.is_tree(root, ports)
    }
}
