//! Writes down what was chosen, and makes the same choices again.
//!
//! For every group that has a tree there is a choice with the tree's color and root; that of the smallest
//! MGID of a virtual group holds the ports as well, and the others' trees are those of that color that have
//! their members. Loads and what is taken follow from this. Two things do not. Which algorithm comes
//! next: unless it is what a new engine begins with, a choice with `tree` 1 under the smallest MGID of
//! all says so, its `part` being the successes in a row. And which groups stay together though they need not, as
//! merged groups may until one of them leaves: a choice with `tree` 2 says so, its `part` being their number.

use std::collections::BTreeMap;

use fabricast_topology::{PortId, SwitchId, TableKind};

use crate::engines::{RecordedChoice, RestoreError, RestoreProblem};
use crate::mgid::Mgid;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::forest::{Forest, Tree};
use crate::mr4lms::walk::Walk;
use crate::mr4lms::{Mr4lms, Turn};
use crate::plan::BrokenLink;

impl Mr4lms {
    pub(super) fn record(&self) -> Vec<RecordedChoice> {
        let mut choices = Vec::new();
        let mut walk = Walk::default();
        let no_ports = RecordedChoice { mgid: Mgid(0), tree: 0, part: 0, root: 0, ports: vec![] };
        for (at, (mgid, group)) in self.forest.groups.iter().enumerate() {
            if let Some(tree) = group.tree.map(|tree| self.forest.tree(tree)) {
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
            let tree = group.tree.map(|tree| self.forest.tree(tree));
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
    /// Groups may have members that their tree lacks, and a tree members that left: it is brought up to date
    /// as if that had changed just now. Groups without a choice get trees afterwards, by MGID.
    pub(super) fn recall(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        let mut forest = Forest::new(&self.fabric, self.options.colors);
        forest.groups.clone_from(&self.forest.groups);
        forest.groups.values_mut().for_each(|group| group.tree = None);
        forest.touch_like(&self.forest);
        let before = (std::mem::replace(&mut self.forest, forest), self.turn);
        self.tools.distances.forget_all();
        self.turn = Turn::BuildFirst;
        let mut together = BTreeMap::new();
        for (index, choice) in choices.iter().enumerate() {
            if let Err(problem) = self.take_over(choice, &mut together) {
                (self.forest, self.turn) = before;
                self.tools.distances.forget_all();
                return Err(RestoreError { index, mgid: choice.mgid, problem });
            }
        }
        self.bring_up_to_date(&together);
        Ok(())
    }

    /// Tells whether a tree has groups that nothing holds together.
    fn could_part(&self, tree: &Tree, walk: &mut Walk) -> bool {
        // Pieces of a tree that meet at a switch share its domain there.
        if self.options.tables == TableKind::PerSwitch || tree.groups.len() < 2 {
            return false;
        }
        walk.along(&self.fabric, &tree.ports, tree.root);
        let piece = |mgid: &Mgid| (*mgid, walk.cut(&self.fabric, &self.forest.group(*mgid).seats));
        let pieces = tree.groups.iter().map(piece).collect();
        self.put_together(tree.color, pieces).len() > 1
    }

    /// Lets every tree reach just the members of its groups, parts groups that nothing holds together
    /// any more, and gives the other groups trees.
    ///
    /// - `together`: how many groups a tree had whose groups need not be together; nothing happens to it if
    ///   these are all there as they were.
    fn bring_up_to_date(&mut self, together: &BTreeMap<u32, u32>) {
        let Self { fabric, forest, tools, .. } = self;
        let mut stays = |(number, tree): &(u32, &Tree)| {
            together.get(number).is_some_and(|count| *count as usize == tree.groups.len())
                && is_needed(fabric, forest, tree, &mut tools.walk)
        };
        let spare = forest.trees().filter(|tree| !stays(tree)).map(|(number, _)| number).collect();
        self.tidy(spare);
        let mgids: Vec<Mgid> = self.forest.groups.keys().copied().collect();
        for mgid in mgids {
            self.settle(mgid);
        }
    }

    fn take_over(
        &mut self,
        choice: &RecordedChoice,
        together: &mut BTreeMap<u32, u32>,
    ) -> Result<(), RestoreProblem> {
        let RecordedChoice { mgid, tree, part, root, ports } = choice;
        let group = self.forest.groups.get(mgid).ok_or(RestoreProblem::UnknownGroup)?;
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
            let first = |tree: &u32| self.forest.tree(*tree).groups[0] == *mgid;
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
        if group.seats.len() < 2 {
            return Err(RestoreProblem::FewerThanTwoMembers);
        }
        let root = SwitchId(*root);
        if ports.is_empty() {
            return self.share_recorded(*mgid, color, root);
        }
        self.check(color, root, ports)?;
        self.plant(Tree { color, root, groups: vec![*mgid], ports: ports.clone() });
        Ok(())
    }

    /// Gives a group the tree of a color that some of its members are in.
    fn share_recorded(
        &mut self,
        mgid: Mgid,
        color: u16,
        root: SwitchId,
    ) -> Result<(), RestoreProblem> {
        let Self { fabric, forest, .. } = &*self;
        let seats = &forest.group(mgid).seats;
        let owner = |seat: &PortId| {
            let owner = forest.ledger.owner(fabric.member_domain(*seat), color)?;
            let tree = forest.tree(owner);
            (tree.has(*seat) && tree.root == root).then_some(owner)
        };
        let number = seats.iter().find_map(owner).ok_or(RestoreProblem::UnknownTree)?;
        let tree = forest.tree(number);
        let known = seats.iter().copied().filter(|seat| tree.has(*seat)).collect();
        // Sharing ties no members to a tree that it does not have.
        let seats = std::mem::replace(&mut self.forest.group_mut(mgid).seats, known);
        self.share(number, mgid);
        self.forest.group_mut(mgid).seats = seats;
        Ok(())
    }

    /// Checks that ports are those of a live tree that meets no other.
    fn check(&self, color: u16, root: SwitchId, ports: &[PortId]) -> Result<(), RestoreProblem> {
        let Self { fabric, forest, .. } = self;
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
        let is_free = fabric.domains(ports).all(|domain| forest.ledger.is_free(domain, color));
        if is_free { Ok(()) } else { Err(RestoreProblem::Conflict) }
    }
}

/// Tells whether all groups of a tree have members to connect in it, and these need all of it.
fn is_needed(fabric: &Fabric, forest: &Forest, tree: &Tree, walk: &mut Walk) -> bool {
    let mut all = Vec::new();
    for mgid in &tree.groups {
        let before = all.len();
        all.extend(forest.group(*mgid).seats.iter().filter(|seat| tree.has(**seat)));
        if all.len() - before < 2 {
            return false;
        }
    }
    all.sort_unstable();
    all.dedup();
    walk.along(fabric, &tree.ports, tree.root);
    walk.cut(fabric, &all).ports == tree.ports
}
