//! Records choices, and restores them.
//!
//! For every group that has a tree there is a choice with the tree's color and root; that of the
//! smallest MGID of a virtual group holds the ports as well, and the others' trees are those of
//! that color that have their members. Loads and the entries in use follow from this. Two things
//! do not:
//!
//! - The algorithm that comes next. Unless it is that of a new engine, a choice with `tree` 1 under
//!   the smallest MGID of all names it; its `part` is the number of successes in a row.
//! - Groups that stay together though they need not, as merged groups may until one of them leaves.
//!   A choice with `tree` 2 says so; its `part` is their number.

use std::collections::BTreeMap;

use fabricast_topology::{Mgid, PortId, SwitchId};

use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::tree_index::TreeIndex;
use crate::mr4lms::tree_store::{Tree, TreeStore};
use crate::mr4lms::tree_walk::TreeWalk;
use crate::mr4lms::{Mr4lms, Turn};
use crate::plan::BrokenLink;
use crate::routing_engine::{RecordedChoice, RestoreError, RestoreProblem};

impl Mr4lms {
    pub(super) fn record(&self) -> Vec<RecordedChoice> {
        let mut choices = Vec::new();
        let mut walk = TreeWalk::default();
        let no_ports = RecordedChoice { mgid: Mgid(0), tree: 0, part: 0, root: 0, ports: vec![] };
        for (at, (mgid, group)) in self.store.groups.iter().enumerate() {
            if let Some(tree) = group.tree.map(|tree| self.store.tree(tree)) {
                let is_first = tree.groups[0] == *mgid;
                choices.push(RecordedChoice {
                    mgid: *mgid,
                    part: tree.color.into(),
                    root: tree.root.0,
                    ports: if is_first { tree.ports.clone() } else { Vec::new() },
                    ..no_ports
                });
            }
            if let (0, Turn::ColorFirst { successes: part }) = (at, self.turn) {
                choices.push(RecordedChoice { mgid: *mgid, tree: 1, part, ..no_ports.clone() });
            }
            let tree = group.tree.map(|tree| self.store.tree(tree));
            if let Some(tree) = tree.filter(|tree| tree.groups[0] == *mgid)
                && self.could_part(tree, &mut walk)
            {
                let part = u32::try_from(tree.groups.len()).expect("a group has a 32-bit MGID");
                choices.push(RecordedChoice { mgid: *mgid, tree: 2, part, ..no_ports.clone() });
            }
        }
        choices
    }

    /// Takes over trees, given in the order in which [`Mr4lms::record`] lists them.
    ///
    /// A tree may lack members of its groups, or have members that left; it is updated as if that
    /// had changed just now. Groups without a choice get trees afterwards, by MGID.
    pub(super) fn recall(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        let mut store = TreeStore::new(&self.fabric, self.options.colors);
        store.groups.clone_from(&self.store.groups);
        store.groups.values_mut().for_each(|group| group.tree = None);
        store.touch_like(&self.store);
        store.unrouted.clone_from(&self.store.unrouted);
        let before = (std::mem::replace(&mut self.store, store), self.turn);
        self.tools.distances.forget_all();
        self.turn = Turn::BuildFirst;
        let mut together = BTreeMap::new();
        for (index, choice) in choices.iter().enumerate() {
            if let Err(problem) = self.take_over(choice, &mut together) {
                (self.store, self.turn) = before;
                self.tools.distances.forget_all();
                return Err(RestoreError { index, mgid: choice.mgid, problem });
            }
        }
        self.bring_up_to_date(&together);
        Ok(())
    }

    /// Tells whether a tree has groups that nothing holds together.
    fn could_part(&self, tree: &Tree, walk: &mut TreeWalk) -> bool {
        if tree.groups.len() < 2 {
            return false;
        }
        walk.along(&self.fabric, &tree.ports, tree.root);
        let piece =
            |mgid: &Mgid| (*mgid, walk.cut(&self.fabric, &self.store.group(*mgid).member_ports));
        let pieces = tree.groups.iter().map(piece).collect();
        self.put_together(tree.color, pieces).len() > 1
    }

    /// Lets every tree reach just the members of its groups, parts groups that nothing holds
    /// together any more, and gives the other groups trees.
    ///
    /// - `together`: how many groups a tree had whose groups need not be together; nothing happens
    ///   to it if these are all there as they were.
    fn bring_up_to_date(&mut self, together: &BTreeMap<TreeIndex, u32>) {
        let Self { fabric, store, tools, .. } = self;
        let mut stays = |(number, tree): &(TreeIndex, &Tree)| {
            together.get(number).is_some_and(|count| *count as usize == tree.groups.len())
                && fabric.keeps_order(&tree.ports)
                && is_needed(fabric, store, tree, &mut tools.walk)
        };
        let spare = store.trees().filter(|tree| !stays(tree)).map(|(number, _)| number).collect();
        self.tidy(spare);
        let mgids: Vec<Mgid> = self.store.groups.keys().copied().collect();
        self.settle_all(&mgids);
    }

    fn take_over(
        &mut self,
        choice: &RecordedChoice,
        together: &mut BTreeMap<TreeIndex, u32>,
    ) -> Result<(), RestoreProblem> {
        let RecordedChoice { mgid, tree, part, root, ports } = choice;
        let group = self.store.groups.get(mgid).ok_or(RestoreProblem::UnknownGroup)?;
        if *tree == 1 {
            if self.turn != Turn::BuildFirst {
                return Err(RestoreProblem::Twice);
            }
            let is_possible = *part < self.options.successes_in_a_row && *root == 0;
            if !is_possible || !ports.is_empty() {
                return Err(RestoreProblem::UnknownTree);
            }
            self.turn = Turn::ColorFirst { successes: *part };
            return Ok(());
        }
        if *tree == 2 {
            let first = |tree: &TreeIndex| self.store.tree(*tree).groups[0] == *mgid;
            let number = group.tree.filter(first).ok_or(RestoreProblem::UnknownTree)?;
            if *root != 0 || !ports.is_empty() {
                return Err(RestoreProblem::UnknownTree);
            }
            let before = together.insert(number, *part);
            return if before.is_none() { Ok(()) } else { Err(RestoreProblem::Twice) };
        }
        let color = u16::try_from(*part).ok().filter(|color| *color < self.options.colors);
        let color = color.filter(|_| *tree == 0).ok_or(RestoreProblem::UnknownTree)?;
        if group.tree.is_some() {
            return Err(RestoreProblem::Twice);
        }
        if group.member_ports.len() < 2 {
            return Err(RestoreProblem::FewerThanTwoMembers);
        }
        let root = SwitchId(*root);
        if ports.is_empty() {
            return self.share_recorded(*mgid, color, root);
        }
        self.check(color, root, ports)?;
        self.add_tree(Tree { color, root, groups: vec![*mgid], ports: ports.clone() });
        Ok(())
    }

    /// Gives a group the tree of a color that some of its members are in.
    fn share_recorded(
        &mut self,
        mgid: Mgid,
        color: u16,
        root: SwitchId,
    ) -> Result<(), RestoreProblem> {
        let Self { fabric, store, .. } = &*self;
        let member_ports = &store.group(mgid).member_ports;
        let owner = |member_port: &PortId| {
            let owner = store.occupancy.owner(fabric.member_domain(*member_port), color)?;
            let tree = store.tree(owner);
            (tree.has(*member_port) && tree.root == root).then_some(owner)
        };
        let number = member_ports.iter().find_map(owner).ok_or(RestoreProblem::UnknownTree)?;
        let tree = store.tree(number);
        let known =
            member_ports.iter().copied().filter(|member_port| tree.has(*member_port)).collect();
        // Sharing ties no members to a tree that it does not have.
        let member_ports = std::mem::replace(&mut self.store.group_mut(mgid).member_ports, known);
        self.share(number, mgid);
        self.store.group_mut(mgid).member_ports = member_ports;
        Ok(())
    }

    /// Checks that ports are those of a live tree that meets no other.
    fn check(&self, color: u16, root: SwitchId, ports: &[PortId]) -> Result<(), RestoreProblem> {
        let Self { fabric, store, .. } = self;
        let graph = &*fabric.graph;
        let exist = ports.iter().all(|port| port.index() < graph.port_count());
        if !exist || root.index() >= graph.switch_count() {
            return Err(RestoreProblem::UnknownTree);
        }
        if let Some(port) = ports.iter().find(|port| !fabric.is_live(**port)) {
            return Err(RestoreProblem::TreeBroken { link: BrokenLink::Dead { port: *port } });
        }
        // Nobody needs a switch that is reached and not left again.
        let same = |a: &PortId, b: &PortId| graph.switch_of(*a) == graph.switch_of(*b);
        let leads_nowhere = ports.chunk_by(same).any(|ports| ports.len() < 2);
        if leads_nowhere || !fabric.is_tree(root, ports) {
            return Err(RestoreProblem::UnknownTree);
        }
        let is_free = fabric.domains(ports).all(|domain| store.occupancy.is_free(domain, color));
        if is_free { Ok(()) } else { Err(RestoreProblem::Conflict) }
    }
}

/// Tells whether all groups of a tree have members to connect in it, and these need all of it.
fn is_needed(fabric: &Fabric, store: &TreeStore, tree: &Tree, walk: &mut TreeWalk) -> bool {
    let mut all = Vec::new();
    for mgid in &tree.groups {
        let before = all.len();
        all.extend(
            store.group(*mgid).member_ports.iter().filter(|member_port| tree.has(**member_port)),
        );
        if all.len() - before < 2 {
            return false;
        }
    }
    all.sort_unstable();
    all.dedup();
    walk.along(fabric, &tree.ports, tree.root);
    walk.cut(fabric, &all).ports == tree.ports
}
