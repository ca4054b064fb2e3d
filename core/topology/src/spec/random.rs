//! A random regular network: every switch has the same number of links, to randomly drawn switches.
//!
//! All link ends are shuffled and paired. A pair that is a loop, or a second link between two
//! switches, is repaired by exchanging ends with a random other pair. If a switch has more links
//! than there are other switches, every pair of switches gets the same number of links first and
//! only the rest is drawn. If the number of ends is odd, the last switch has one link less. If no
//! exchange helps, double links remain. Components that are not connected exchange ends of links
//! that lie on rings, which joins them without disconnecting anything. The same seed gives the same
//! network on every machine.
//!
//! MR4LMS §4.2 measures 2 048 switches of 40 ports, 20 of them to endpoints.

use serde::Deserialize;

use super::cables::{Cables, PortPosition};
use super::ranges::{Level, port_counts, positive};
use super::{FaultSpec, Kind, SpecError};
use crate::chance::SplitMix;
use crate::disjoint::DisjointSets;
use crate::graph::Graph;
use crate::ids::SwitchId;

/// Switches linked at random.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSpec {
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
    /// Number of switches.
    pub switches: u32,
    /// Ports of every switch.
    pub switch_ports: u8,
    /// Endpoints of a switch.
    pub endpoints_per_switch: u32,
    /// Links of a switch to other switches; by default all ports that endpoints leave.
    pub links_per_switch: Option<u32>,
    /// Seed of the network.
    #[serde(default = "super::first_seed")]
    pub seed: u64,
    /// Faults of the generated fabric.
    #[serde(default)]
    pub faults: FaultSpec,
}

impl RandomSpec {
    pub(super) fn wire(&self) -> Result<Graph, SpecError> {
        positive(&[
            ("switches", self.switches),
            ("endpoints_per_switch", self.endpoints_per_switch),
        ])?;
        let left = u32::from(self.switch_ports).saturating_sub(self.endpoints_per_switch);
        let degree = self.links_per_switch.unwrap_or(left);
        let least = self.switches.min(3) - 1;
        if degree < least {
            let rule = format!("at least {least} to connect {} switches", self.switches);
            let field = "links_per_switch";
            return Err(SpecError::Range { field, value: degree.into(), rule });
        }
        let needs = u64::from(self.endpoints_per_switch) + u64::from(degree);
        let level = Level { name: "random", switches: self.switches.into(), needs };
        let ports = port_counts(&[level], Some(self.switch_ports))?[0];

        let mut cables = Cables::new();
        for number in 0..self.switches {
            let switch = cables.add_switch(&format!("r{number}"), ports);
            cables.add_endpoints(switch, self.endpoints_per_switch);
        }
        let mut used = vec![self.endpoints_per_switch; self.switches as usize];
        let mut next = |switch: u32| {
            let used = &mut used[switch as usize];
            *used += 1;
            PortPosition(SwitchId(switch), *used - 1)
        };
        for (a, b) in draw(self.switches, degree, self.seed) {
            cables.link(next(a), next(b));
        }
        Ok(cables.build())
    }
}

/// Limit on drawings before double links are accepted.
const DRAWS: u32 = 64;

/// Draws the links, each as its lower and its higher end, ascending.
fn draw(switches: u32, degree: u32, seed: u64) -> Vec<(u32, u32)> {
    if switches == 1 {
        return Vec::new();
    }
    let (rounds, rest) = (degree / (switches - 1), degree % (switches - 1));
    let mut drawn = Draw::new(switches, rest, SplitMix::new(seed));
    for _ in 0..DRAWS {
        if drawn.mend() {
            break;
        }
        drawn = Draw::new(switches, rest, drawn.chance);
    }
    if rounds == 0 {
        drawn.connect();
    }
    let mut links = drawn.links;
    let pairs = || (0..switches).flat_map(|a| (a + 1..switches).map(move |b| (a, b)));
    links.extend((0..rounds).flat_map(|_| pairs()));
    links.retain(|(a, b)| a != b);
    for (a, b) in &mut links {
        (*a, *b) = (*a.min(b), *a.max(b));
    }
    links.sort_unstable();
    links
}

/// Links being drawn.
struct Draw {
    links: Vec<(u32, u32)>,
    neighbours: Vec<Vec<u32>>, // by switch, as often as linked
    chance: SplitMix,
}

/// A drawn link, seen from one of its switches.
struct DirectedLink {
    link: u32,
    near: u32,
    far: u32,
}

impl Draw {
    /// Pairs all ends at random.
    fn new(switches: u32, degree: u32, mut chance: SplitMix) -> Self {
        let mut ends: Vec<u32> =
            (0..switches).flat_map(|one| std::iter::repeat_n(one, degree as usize)).collect();
        if ends.len() % 2 == 1 {
            ends.pop();
        }
        chance.shuffle(&mut ends);
        let links: Vec<(u32, u32)> = ends.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let mut neighbours = vec![Vec::new(); switches as usize];
        for (a, b) in &links {
            neighbours[*a as usize].push(*b);
            neighbours[*b as usize].push(*a);
        }
        Self { links, neighbours, chance }
    }

    /// Exchanges ends until no link is a loop or a second one between two switches; returns false
    /// if that takes too long.
    fn mend(&mut self) -> bool {
        const TRIES: u32 = 64; // for each link
        let count = u32::try_from(self.links.len()).expect("fewer links than ports");
        let mut bad: Vec<u32> = (0..count).filter(|link| self.is_bad(*link)).collect();
        for _ in 0..count.saturating_mul(TRIES) {
            let Some(link) = bad.last().copied() else { break };
            if !self.is_bad(link) || self.exchange(link) {
                bad.pop();
            }
        }
        bad.is_empty()
    }

    fn is_bad(&self, link: u32) -> bool {
        let (a, b) = self.links[link as usize];
        a == b || self.neighbours[a as usize].iter().filter(|to| **to == b).count() > 1
    }

    /// Exchanges the far ends of a link and of a random other one, if that makes two good links.
    fn exchange(&mut self, link: u32) -> bool {
        let count = u32::try_from(self.links.len()).expect("fewer links than ports");
        let other = self.chance.below(count);
        let ((a, b), (mut c, mut d)) = (self.links[link as usize], self.links[other as usize]);
        if self.chance.below(2) == 1 {
            (c, d) = (d, c);
        }
        let is_new = |a: u32, b: u32| a != b && !self.neighbours[a as usize].contains(&b);
        let same = (a.min(d), a.max(d)) == (c.min(b), c.max(b));
        if other == link || same || !is_new(a, d) || !is_new(c, b) {
            return false;
        }
        let one = DirectedLink { link, near: a, far: b };
        self.swap_ends(one, DirectedLink { link: other, near: c, far: d });
        true
    }

    /// Exchanges the far ends of two links: a-b and c-d become a-d and c-b.
    fn swap_ends(&mut self, one: DirectedLink, other: DirectedLink) {
        let DirectedLink { link: one, near: a, far: b } = one;
        let DirectedLink { link: other, near: c, far: d } = other;
        for (at, from, to) in [(a, b, d), (b, a, c), (c, d, b), (d, c, a)] {
            let list = &mut self.neighbours[at as usize];
            let place = list.iter().position(|one| *one == from).expect("they are linked");
            list[place] = to;
        }
        self.links[one as usize] = (a, d);
        self.links[other as usize] = (c, b);
    }

    /// Joins all components. A component in which every switch has two links has a ring, and a link
    /// of a ring can be removed without disconnecting anything.
    fn connect(&mut self) {
        let mut parts = DisjointSets::new(self.neighbours.len());
        let mut on_ring: Vec<u32> = Vec::new(); // links that close a ring, by number
        for (number, (a, b)) in (0u32..).zip(&self.links) {
            if !parts.join(*a, *b) {
                on_ring.push(number);
            }
        }
        let mut seen = vec![false; self.neighbours.len()];
        let mut spare: Option<u32> = None;
        for link in on_ring {
            let (a, b) = self.links[link as usize];
            let part = parts.find(a) as usize;
            if std::mem::replace(&mut seen[part], true) {
                continue;
            }
            if let Some(first) = spare {
                let (c, d) = self.links[first as usize];
                let first = DirectedLink { link: first, near: c, far: d };
                self.swap_ends(first, DirectedLink { link, near: a, far: b });
            }
            spare = Some(link);
        }
    }
}
