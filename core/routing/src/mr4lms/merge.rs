//! Merges a group that no color is left for with groups that have trees.
//!
//! Source: MR4LMS §3.3, algorithm 4. Merged trees are felled first, so that what was theirs is free of
//! their color, and one new tree is raised for all. Two readings of the text: the temporary tree hangs
//! from the root that algorithm 1 would try first; and where old trees are kept and a single one
//! passes all switches of the new members, it stays as it is, which algorithm 5 would come to as well.

use fabricast_topology::{Peer, PortId, SwitchId};
use fixedbitset::FixedBitSet;

use crate::mgid::Mgid;
use crate::mr4lms::Mr4lms;
use crate::mr4lms::forest::Tree;
use crate::mr4lms::survey::Party;
use crate::mr4lms::weave::Terms;
use crate::mr4lms::{MergePartner, MergePolicy};

/// A virtual group in the making.
struct Merged {
    groups: Vec<Mgid>,
    seats: Vec<PortId>,
    /// Ports of old trees.
    old: FixedBitSet,
}

impl Merged {
    fn absorb(&mut self, engine: &Mr4lms, tree: &Tree) {
        self.groups.extend(&tree.groups);
        for port in &tree.ports {
            match engine.fabric.graph.peer(*port) {
                Peer::Endpoint(_) => self.seats.push(*port),
                Peer::Switch(_) => self.old.insert(port.index()),
                Peer::None => {}
            }
        }
    }

    fn party(&mut self, engine: &Mr4lms) -> Party {
        self.seats.sort_unstable();
        self.seats.dedup();
        Party::new(&engine.fabric, self.seats.clone())
    }
}

impl Mr4lms {
    /// Gives a group a tree together with others; the survey must be of this group.
    pub(super) fn merge(&mut self, mgid: Mgid, party: &Party) {
        let old = FixedBitSet::with_capacity(self.fabric.graph.port_count());
        let mut merged = Merged { groups: vec![mgid], seats: party.seats.clone(), old };
        let color = match self.options.merge_partner {
            MergePartner::Nearest => {
                let ground = (&self.fabric, &self.forest);
                let nearest = self.tools.distances.nearest(ground, party, &self.tools.survey);
                let color = self.forest.tree(nearest).color;
                if self.can_stay(nearest, party) {
                    return self.share(nearest, mgid);
                }
                let tree = self.fell(nearest);
                merged.absorb(self, &tree);
                if !self.hangs_together(&tree, party) {
                    for tree in self.in_the_way(&merged.party(self), color) {
                        let tree = self.fell(tree);
                        merged.absorb(self, &tree);
                    }
                }
                color
            }
            MergePartner::RarestColor => {
                let color = self.forest.ledger.rarest_color();
                let trees = self.in_the_way(party, color);
                if let [only] = trees[..]
                    && self.can_stay(only, party)
                {
                    return self.share(only, mgid);
                }
                for tree in trees {
                    let tree = self.fell(tree);
                    merged.absorb(self, &tree);
                }
                color
            }
        };
        self.raise(merged, color);
    }

    /// Tells whether a tree can take a group as it is, if old trees are to be kept.
    fn can_stay(&self, number: u32, party: &Party) -> bool {
        let tree = self.forest.tree(number);
        let owner =
            |seat: &PortId| self.forest.ledger.owner(self.fabric.member_domain(*seat), tree.color);
        self.options.merge_policy == MergePolicy::Keep
            && party.leaves.iter().all(|leaf| tree.passes(&self.fabric, *leaf))
            && party.seats.iter().all(|seat| owner(seat).is_none_or(|owner| owner == number))
    }

    /// Tells whether members are connected with those of a tree, just felled, by what is free of its color.
    fn hangs_together(&mut self, tree: &Tree, party: &Party) -> bool {
        let Self { fabric, forest, tools, .. } = self;
        let mut domains = party.seats.iter().map(|seat| fabric.member_domain(*seat));
        if !domains.all(|domain| forest.ledger.is_free(domain, tree.color)) {
            return false;
        }
        tools.targets.clear();
        tools.targets.grow(fabric.graph.switch_count());
        tools.targets.extend(fabric.switches(&tree.ports).map(SwitchId::index));
        let (new, ground) = ((&party.leaves[..], tree.color), (&*fabric, &forest.ledger));
        tools.center.connects(ground, new, &mut tools.targets)
    }

    /// Lists the trees that have a color somewhere on the way between some members.
    fn in_the_way(&mut self, party: &Party, color: u16) -> Vec<u32> {
        let Self { fabric, forest, tools, .. } = self;
        let ground = (&*fabric, &forest.ledger);
        let root = tools.center.in_fabric(ground, &party.leaves);
        tools.climber.build(ground, party, None, root);
        let domains = fabric.domains(&tools.climber.ports);
        let mut trees: Vec<u32> =
            domains.filter_map(|domain| forest.ledger.owner(domain, color)).collect();
        trees.sort_unstable();
        trees.dedup();
        trees
    }

    fn raise(&mut self, mut merged: Merged, color: u16) {
        let party = merged.party(self);
        let Self { fabric, forest, tools, .. } = self;
        let ground = (&*fabric, &forest.ledger);
        let root = tools.center.in_color(ground, &party.leaves, color);
        let old = (self.options.merge_policy == MergePolicy::Keep).then_some(&merged.old);
        let ports = tools.weaver.build(ground, &party, Terms { color, root, survey: None, old });
        // A kept tree can leave the root, and what leads to it, without a purpose.
        tools.walk.along(fabric, &ports, root);
        let cutting = tools.walk.cut(fabric, &party.seats);
        merged.groups.sort_unstable();
        let (root, ports) = (cutting.top, cutting.ports);
        self.plant(Tree { color, root, groups: merged.groups, ports });
    }
}
