//! Gives a new group its tree: one of two algorithms, or else a merge.
//!
//! Source: MR4LMS §3.4, algorithm 7. First build, then color (see [`climb`](super::climb)), until that fails; then
//! first color, then build (see [`flood`](super::flood)), until that has succeeded so many times in a row.

use fabricast_topology::{PortId, SwitchId};
use serde::{Deserialize, Serialize};

use crate::group_tree::hang;
use crate::mgid::Mgid;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::flood::usable_colors;
use crate::mr4lms::forest::Tree;
use crate::mr4lms::ledger::Ledger;
use crate::mr4lms::survey::Party;
use crate::mr4lms::weave::Terms;
use crate::mr4lms::{Mr4lms, Tools};

/// Which algorithm the next group is tried with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// First build, then color.
    BuildFirst,
    /// First color, then build.
    ColorFirst {
        /// Successes in a row.
        successes: u32,
    },
}

/// A tree that was found.
enum Found {
    New(u16, SwitchId, Vec<PortId>),
    /// An existing one that has all members.
    Shared(u32),
}

impl Mr4lms {
    /// Gives a group that has none a tree, unless it has fewer than two members to serve.
    pub(super) fn place(&mut self, mgid: Mgid) {
        let seats = self.forest.group(mgid).seats.clone();
        if seats.len() < 2 {
            return self.forest.touch(mgid);
        }
        let party = Party::new(&self.fabric, seats);
        self.tools.survey.look(&self.fabric, &party.leaves);
        let usable = usable_colors(&self.fabric, &self.forest.ledger, &party);
        let found = match self.turn {
            Turn::BuildFirst => self.build_first(mgid, &party, &usable),
            Turn::ColorFirst { .. } => self.color_first(&party, &usable),
        };
        self.turn = match (self.turn, &found) {
            (Turn::BuildFirst, Some(_)) => Turn::BuildFirst,
            (Turn::ColorFirst { successes }, Some(_)) => {
                let successes = successes + 1;
                if successes >= self.options.successes_in_a_row {
                    Turn::BuildFirst
                } else {
                    Turn::ColorFirst { successes }
                }
            }
            (_, None) => Turn::ColorFirst { successes: 0 },
        };
        match found {
            Some(Found::New(color, root, ports)) => {
                self.plant(Tree { color, root, groups: vec![mgid], ports });
            }
            Some(Found::Shared(tree)) => self.share(tree, mgid),
            None => self.merge(mgid, &party),
        }
    }

    /// Algorithm 1.
    fn build_first(&mut self, mgid: Mgid, party: &Party, usable: &[u64]) -> Option<Found> {
        let Self { fabric, forest, tools, .. } = self;
        let ledger = &forest.ledger;
        if usable.iter().all(|colors| *colors == 0) {
            return None; // the members' own domains refuse every color
        }
        let ground = (&*fabric, ledger);
        let mut others = None;
        let mut next = if tools.chooser.is_on() {
            let roots = others.insert(tools.roots_by_policy(ground, mgid, party));
            roots.first().copied()
        } else {
            tools.survey.root(ground)
        };
        let mut at = 0;
        while let Some(root) = next {
            tools.climber.build(ground, party, Some(&tools.survey), root);
            if let Some(color) = tools.climber.color(fabric, ledger, usable) {
                return Some(Found::New(color, root, tools.climber.ports.clone()));
            }
            at += 1;
            let others = others.get_or_insert_with(|| tools.survey.roots(ground));
            next = others.get(at).copied();
        }
        None
    }

    /// Algorithm 3.
    fn color_first(&mut self, party: &Party, usable: &[u64]) -> Option<Found> {
        let Self { fabric, forest, tools, .. } = self;
        let ground = (&*fabric, &forest.ledger);
        let new = tools.flood.search(ground, party, &tools.survey, usable);
        if let Some(tree) = self.shared(party, new.map_or(u16::MAX, |(color, _)| color)) {
            return Some(Found::Shared(tree));
        }
        let Self { fabric, forest, tools, .. } = self;
        let ground = (&*fabric, &forest.ledger);
        let (color, root) = new?;
        let terms = Terms { color, root, survey: Some(&tools.survey), old: None };
        Some(Found::New(color, root, tools.weaver.build(ground, party, terms)))
    }

    /// Finds the tree of the lowest color, below a given one, that has all members and is low enough for them.
    fn shared(&mut self, party: &Party, below: u16) -> Option<u32> {
        let Self { fabric, forest, .. } = &*self;
        let domain = fabric.member_domain(party.seats[0]);
        let colors = forest.ledger.owners(domain).iter().take_while(|(color, _)| *color < below);
        let has_all = |tree: &u32| party.seats.iter().all(|seat| forest.tree(*tree).has(*seat));
        let trees: Vec<u32> = colors.map(|(_, tree)| *tree).filter(has_all).collect();
        trees.into_iter().find(|tree| self.is_low_enough(*tree, party))
    }

    /// Tells whether some switch of a tree has all members within the height of the survey.
    fn is_low_enough(&mut self, tree: u32, party: &Party) -> bool {
        let Self { fabric, forest, tools, .. } = self;
        let tree = forest.tree(tree);
        // The middle of the longest path between members is nearest to all.
        let mut end = party.leaves[0];
        let mut longest = 0;
        for _ in 0..2 {
            tools.walk.along(fabric, &tree.ports, end);
            let depths = party.leaves.iter().map(|leaf| (tools.walk.depth(*leaf), *leaf));
            let farthest = depths.max().expect("there are members");
            longest = farthest.0.expect("the tree has them");
            end = farthest.1;
        }
        longest.div_ceil(2) <= u32::from(tools.survey.height)
    }
}

impl Tools {
    /// Lists the candidate roots of the last survey: the one that the policy chooses, then the others, best first.
    fn roots_by_policy(
        &mut self,
        ground: (&Fabric, &Ledger),
        mgid: Mgid,
        party: &Party,
    ) -> Vec<SwitchId> {
        let Self { chooser, survey, climber, .. } = self;
        let graph = &ground.0.graph;
        let mut roots = survey.roots(ground);
        if roots.is_empty() {
            return roots;
        }
        let at = chooser.choose((graph, mgid), &roots, party.leaves[0], |at| {
            climber.build(ground, party, Some(survey), roots[at]);
            hang(graph, roots[at], &climber.ports).into_values().flatten().collect()
        });
        roots[..=at].rotate_right(1);
        roots
    }
}
