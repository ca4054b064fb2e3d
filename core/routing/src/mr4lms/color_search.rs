//! First color, then build: the first color under which some root reaches all members in time.
//!
//! Source: MR4LMS §3.2, algorithm 3. The paper tries color by color, and for each root by root,
//! with a search in the graph G_c that the color leaves. Here one search answers for 64 colors at
//! once: every switch keeps, in one word, the colors under which the search has come by, and
//! entering a domain costs the colors that are not free in it. The first roots are searched from
//! one by one; if that leaves colors open, and there are more roots than members' switches, the
//! search goes from the latter to all other roots at once. Once a root is found, only lower colors
//! matter.
//!
//! A color that is busy in some member's domain allows no new tree; an existing tree of that color
//! can be shared only if it has all members.

use fabricast_topology::SwitchId;

use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::member_hops::{LiveMembers, MemberHops};
use crate::mr4lms::occupancy::{Context, Occupancy, first_color};

/// Roots that are tried one by one before all others are tried together.
const FIRST_ROOTS: usize = 16;

/// Returns the colors that are free in the domains of all members, 64 by 64.
pub(super) fn usable_colors(
    fabric: &Fabric,
    occupancy: &Occupancy,
    members: &LiveMembers,
) -> Vec<u64> {
    let columns = occupancy.columns().iter().map(|free| {
        let domains =
            members.member_ports.iter().map(|member_port| fabric.member_domain(*member_port));
        domains.fold(u64::MAX, |left, domain| left & free[domain])
    });
    columns.collect()
}

/// A query: under which of 64 colors are all members near enough to a root.
#[derive(Clone, Copy)]
struct Question<'a> {
    fabric: &'a Fabric,
    /// By domain: the colors that are free, of 64.
    free: &'a [u64],
    members: &'a LiveMembers,
    member_hops: &'a MemberHops,
}

impl Question<'_> {
    /// Returns those of some colors that a switch can have a tree's root of.
    fn colors_at(&self, root: SwitchId, colors: u64) -> u64 {
        self.fabric.root_domain(root).map_or(colors, |domain| colors & self.free[domain])
    }

    /// Drops the colors under which some member's switch has no free link, if the tree has to leave
    /// that switch.
    fn with_ways_out(&self, mut colors: u64) -> u64 {
        let leaves = if self.members.leaves.len() < 2 { &[] } else { &self.members.leaves[..] };
        for leaf in leaves {
            let mut out = 0;
            for link in self.fabric.links().of(*leaf) {
                out |= self.free[self.fabric.domain(link)];
                if colors & !out == 0 {
                    break;
                }
            }
            colors &= out;
        }
        colors
    }
}

/// Searches under many colors at once; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct ColorSearch {
    seen: Vec<u64>, // by switch: colors
    front: Vec<u64>,
    next: Vec<u64>,
    at: Vec<u32>, // switches with colors in `front`
    ahead: Vec<u32>,
    touched: Vec<u32>,
}

impl ColorSearch {
    /// Finds the first of the usable colors, and for it the first root, from which all members are
    /// within the height of `member_hops`.
    pub(super) fn search(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        members: &LiveMembers,
        member_hops: &MemberHops,
        usable: &[u64],
    ) -> Option<(u16, SwitchId)> {
        let mut roots = None;
        for ((column, free), usable) in (0u16..).zip(occupancy.columns()).zip(usable) {
            let question = Question { fabric, free, members, member_hops };
            let colors = question.with_ways_out(*usable);
            if colors == 0 {
                continue;
            }
            let roots =
                roots.get_or_insert_with(|| member_hops.roots(Context { fabric, occupancy }));
            if let Some((colors, root)) = self.ask(question, roots, colors) {
                return first_color(column, colors).map(|color| (color, root));
            }
        }
        None
    }

    /// Finds the first of some colors that is good for any root, and the first root that it is good
    /// for.
    fn ask(
        &mut self,
        question: Question<'_>,
        roots: &[SwitchId],
        mut colors: u64,
    ) -> Option<(u64, SwitchId)> {
        let few = roots.len() <= question.members.leaves.len().max(FIRST_ROOTS);
        let (first, others) = roots.split_at(if few { roots.len() } else { FIRST_ROOTS });
        let mut best = None;
        for root in first {
            let found = self.ask_root(question, *root, question.colors_at(*root, colors));
            if found != 0 {
                best = Some((found, *root));
                colors &= below_first(found);
            }
        }
        self.ask_leaves(question, others, colors).or(best)
    }

    /// Returns those of some colors under which all members are near enough to a root.
    fn ask_root(&mut self, question: Question<'_>, root: SwitchId, colors: u64) -> u64 {
        if colors == 0 {
            return 0;
        }
        let MemberHops { near, height, .. } = question.member_hops;
        self.spread(question, root, colors, |at, to, hops| {
            near[to.index()] <= height - hops && question.fabric.may_descend(at, to)
        });
        let leaves = question.members.leaves.iter();
        let reached = leaves.fold(colors, |all, leaf| all & self.seen[leaf.index()]);
        self.forget();
        reached
    }

    /// As [`ColorSearch::ask`], for all roots together.
    fn ask_leaves(
        &mut self,
        question: Question<'_>,
        roots: &[SwitchId],
        colors: u64,
    ) -> Option<(u64, SwitchId)> {
        let MemberHops { far, height, .. } = question.member_hops;
        let mut left: Vec<u64> =
            roots.iter().map(|root| question.colors_at(*root, colors)).collect();
        for leaf in &question.members.leaves {
            let alive = left.iter().fold(0, |all, colors| all | colors);
            if alive == 0 {
                return None;
            }
            // A root is at least as many hops away as its farthest member is nearer.
            self.spread(question, *leaf, alive, |at, to, hops| {
                // In an order only roots are above all members.
                let is_near = question.fabric.is_ordered()
                    || u16::from(far[to.index()]) + u16::from(hops) <= 2 * u16::from(*height);
                is_near && question.fabric.may_descend(to, at)
            });
            for (root, left) in roots.iter().zip(&mut left) {
                *left &= self.seen[root.index()];
            }
            self.forget();
        }
        let first = left.iter().fold(0, |all, colors| all | colors);
        let first = first & first.wrapping_neg();
        let at = left.iter().position(|colors| first != 0 && colors & first != 0)?;
        Some((first, roots[at]))
    }

    /// Notes where colors get to, at most as many hops as `member_hops` is high, and only where
    /// `leads`, given the hops, says that it makes sense.
    fn spread(
        &mut self,
        question: Question<'_>,
        from: SwitchId,
        colors: u64,
        leads: impl Fn(SwitchId, SwitchId, u8) -> bool,
    ) {
        for column in [&mut self.seen, &mut self.front, &mut self.next] {
            column.resize(question.fabric.graph.switch_count(), 0);
        }
        self.seen[from.index()] = colors;
        self.front[from.index()] = colors;
        self.at.clear();
        self.at.push(from.0);
        self.touched.push(from.0);
        for hops in 1..=question.member_hops.height {
            self.step(question, |at, to| leads(at, to, hops));
        }
    }

    fn step(&mut self, question: Question<'_>, leads: impl Fn(SwitchId, SwitchId) -> bool) {
        let Question { fabric, free, .. } = question;
        self.ahead.clear();
        for at in &self.at {
            let colors = self.front[*at as usize];
            let at = SwitchId(*at);
            for link in fabric.links().of(at).filter(|link| leads(at, link.to)) {
                let to = link.to.index();
                let new = colors & free[fabric.domain(link)] & !self.seen[to];
                if new != 0 {
                    if self.next[to] == 0 {
                        self.ahead.push(link.to.0);
                    }
                    self.next[to] |= new;
                }
            }
        }
        std::mem::swap(&mut self.at, &mut self.ahead);
        for at in &self.at {
            let colors = std::mem::take(&mut self.next[*at as usize]);
            self.seen[*at as usize] |= colors;
            self.front[*at as usize] = colors;
        }
        self.touched.extend(&self.at);
    }

    fn forget(&mut self) {
        for switch in self.touched.drain(..) {
            self.seen[switch as usize] = 0;
        }
    }
}

/// Returns the bits below the lowest that is set.
const fn below_first(colors: u64) -> u64 {
    (colors & colors.wrapping_neg()) - 1
}
