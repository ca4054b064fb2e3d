//! Applies a root policy where an engine finds several roots equally good.
//!
//! Engines differ in what makes roots equal (no conflict, least height); what happens then is the
//! same for all of them. A group has no single source, so what a packet climbs is the way from the
//! switch of the group's first member; links to members are the same under every root and left out.
//!
//! Invariants
//! - ROOT-2: loads are read when a tree is built, never afterwards; new loads move nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_topology::{Graph, Mgid, PortId, SwitchId};

use crate::root_policy::{RootCandidate, RootPolicy, choose_root};

/// Roots, of the engine's own order, whose trees are compared: building one costs as much as
/// building it.
const MOST_TREES: usize = 64;

/// Load of every port at the last reading of the port statistics, in any unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortLoads {
    ports: Vec<u64>,
    switches: Vec<u64>,
}

impl PortLoads {
    /// Takes over the loads of all switch ports.
    ///
    /// - `sent`: by port, what it sent; ports that are missing at the end sent nothing.
    #[must_use]
    pub fn new(graph: &Graph, sent: Vec<u64>) -> Self {
        let mut switches = vec![0u64; graph.switch_count()];
        for switch in graph.switches() {
            let loads = graph.ports(switch).filter_map(|port| sent.get(port.index()));
            switches[switch.index()] = loads.fold(0, |sum, load| sum.saturating_add(*load));
        }
        Self { ports: sent, switches }
    }

    fn port(&self, port: PortId) -> u64 {
        self.ports.get(port.index()).copied().unwrap_or(0)
    }

    /// Load of a link between two switches, both directions together.
    fn link(&self, lower: PortId, upper: PortId) -> u64 {
        self.port(lower).saturating_add(self.port(upper))
    }

    /// Load that a switch sends.
    fn switch(&self, switch: SwitchId) -> u64 {
        self.switches.get(switch.index()).copied().unwrap_or(0)
    }
}

/// The roots that one group's tree can have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootChoice<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) mgid: Mgid,
    /// At least one, in the engine's own order, which decides where the policy does not.
    pub(crate) roots: &'a [SwitchId],
    /// The switch of the group's first member.
    pub(crate) source: SwitchId,
}

/// The part of an engine that chooses among roots; without a policy the engine keeps to its own
/// order.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootChooser {
    policy: Option<RootPolicy>,
    loads: Option<Arc<PortLoads>>,
}

impl RootChooser {
    pub(crate) const fn new(policy: Option<RootPolicy>) -> Self {
        Self { policy, loads: None }
    }

    /// Tells whether there is a policy.
    pub(crate) const fn is_on(&self) -> bool {
        self.policy.is_some()
    }

    /// Takes over newer loads, for roots that are chosen from now on.
    pub(crate) fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.loads = Some(loads);
    }

    /// Chooses a root for the tree of a group, by its place among `roots`.
    ///
    /// - `grow`: lists the links between switches of the tree under a root, given its place. Each
    ///   is the port of the lower switch and that of the upper one.
    /// - Cost: of policies that look at ways, 64 trees at most.
    pub(crate) fn choose(
        &self,
        choice: RootChoice<'_>,
        mut grow: impl FnMut(usize) -> Vec<(PortId, PortId)>,
    ) -> usize {
        let RootChoice { graph, mgid, roots, source } = choice;
        let Some(policy) = self.policy.filter(|_| roots.len() > 1) else { return 0 };
        let word = scatter(u64::from(mgid.0));
        let chosen = match policy {
            RootPolicy::Cyclic => {
                let mut places: Vec<usize> = (0..roots.len()).collect();
                places.sort_by_key(|at| roots[*at]);
                Some(places[mgid.0 as usize % places.len()])
            }
            RootPolicy::Hlse => {
                let climbs = roots.iter().zip(0u32..);
                let ways = climbs.map(|(root, at)| Way::only(self.switch(*root), at));
                pick(policy, &ways.collect::<Vec<_>>(), word)
            }
            RootPolicy::Llp | RootPolicy::LlpEcMax | RootPolicy::LlpEcSum => {
                let trees = (0..roots.len().min(MOST_TREES)).map(&mut grow);
                let trees: Vec<_> = trees.collect();
                pick(policy, &self.ways(graph, roots, source, &trees), word)
            }
        };
        chosen.expect("there are roots")
    }

    fn switch(&self, switch: SwitchId) -> u64 {
        self.loads.as_ref().map_or(0, |loads| loads.switch(switch))
    }

    /// Follows every tree from the source up. Equal parents stand in the order of the best root
    /// above them.
    fn ways(
        &self,
        graph: &Graph,
        roots: &[SwitchId],
        source: SwitchId,
        trees: &[Vec<(PortId, PortId)>],
    ) -> Vec<Way> {
        let mut ranks: BTreeMap<SwitchId, u32> = BTreeMap::new();
        let mut ways = Vec::with_capacity(trees.len());
        for ((root, tree), at) in roots.iter().zip(trees).zip(0u32..) {
            let above: BTreeMap<SwitchId, SwitchId> = tree
                .iter()
                .map(|(lower, upper)| (graph.switch_of(*lower), graph.switch_of(*upper)))
                .collect();
            let climb = std::iter::successors(above.get(&source), |switch| above.get(switch));
            let mut climb: Vec<SwitchId> = climb.copied().collect();
            if climb.is_empty() {
                climb.push(*root); // the source's own switch is the root
            }
            let climb = climb.into_iter();
            let climb = climb.map(|on| (self.switch(on), *ranks.entry(on).or_insert(at)));
            let climb = climb.collect();
            let load = |(lower, upper): &(PortId, PortId)| {
                self.loads.as_ref().map_or(0, |loads| loads.link(*lower, *upper))
            };
            let worst_link = tree.iter().map(load).max().unwrap_or(0);
            let all_links = tree.iter().map(load).fold(0, u64::saturating_add);
            ways.push(Way { climb, worst_link, all_links });
        }
        ways
    }
}

/// The loads that a policy compares for one root.
struct Way {
    climb: Vec<(u64, u32)>,
    worst_link: u64,
    all_links: u64,
}

impl Way {
    fn only(load: u64, rank: u32) -> Self {
        Self { climb: vec![(load, rank)], worst_link: load, all_links: load }
    }
}

fn pick(policy: RootPolicy, ways: &[Way], word: u64) -> Option<usize> {
    let candidates: Vec<RootCandidate<'_>> = ways
        .iter()
        .map(|way| RootCandidate {
            climb: &way.climb,
            worst_link: way.worst_link,
            all_links: way.all_links,
        })
        .collect();
    choose_root(policy, &candidates, 0, word)
}

/// Makes 64 bits that look random of a number, so that lots fall anew for every group and the same
/// again for each (the finaliser of SplitMix64, Steele et al. 2014).
const fn scatter(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
