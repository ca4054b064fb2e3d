//! A fabric to simulate, and a workload that sends by a list.

use std::collections::BTreeMap;

use fabricast_simulator::{
    Chance, Delivery, Model, MulticastPolicy, Network, Offer, Packet, Roots, Route, Routes, TreeId,
    Workload, m_port_n_tree,
};
use fabricast_topology::{EndpointId, FatTree, Graph};

pub(crate) const POLICIES: [MulticastPolicy; 5] = [
    MulticastPolicy::BulletinIdle,
    MulticastPolicy::Bulletin,
    MulticastPolicy::Splitting,
    MulticastPolicy::FixedPriority,
    MulticastPolicy::HoldAndWait,
];

/// A graph, its view and trees on it.
pub(crate) struct Fixture {
    pub(crate) graph: Graph,
    pub(crate) tree: FatTree,
    pub(crate) routes: Routes,
}

impl Fixture {
    pub(crate) fn m_port(m: u32, n: u32) -> Self {
        Self::of(m_port_n_tree(m, n).expect("valid sizes"))
    }

    pub(crate) fn of(graph: Graph) -> Self {
        let tree = FatTree::detect(&graph).expect("a fat tree");
        Self { graph, tree, routes: Routes::new() }
    }

    pub(crate) fn network(&self) -> Network<'_> {
        Network { graph: &self.graph, fat_tree: &self.tree, routes: &self.routes }
    }

    pub(crate) fn rooted(&mut self, source: u32, members: &[u32], candidate: u32) -> TreeId {
        let members: Vec<EndpointId> = members.iter().map(|id| EndpointId(*id)).collect();
        let roots = Roots::new(&self.graph, &self.tree);
        roots.add(&mut self.routes, EndpointId(source), &members, candidate).expect("a whole tree")
    }
}

/// Round numbers: a byte a nanosecond, 10 ns of wire, 50 ns of switch.
pub(crate) fn model() -> Model {
    Model {
        ps_per_byte: 1_000,
        wire_ps: 10_000,
        switch_ps: 50_000,
        channels: 1,
        buffer_bytes: 2_048,
        multicast: MulticastPolicy::Bulletin,
    }
}

/// Sends listed packets, each endpoint and channel its own in order of their time.
#[derive(Default)]
pub(crate) struct Script {
    lists: BTreeMap<(EndpointId, u8), Vec<(u64, Packet)>>, // the next one last
    pub(crate) deliveries: Vec<(u64, Delivery)>,
}

impl Script {
    /// Adds a packet; a tag says which one it is.
    pub(crate) fn add(&mut self, at_ps: u64, from: u32, channel: u8, packet: Packet) {
        let list = self.lists.entry((EndpointId(from), channel)).or_default();
        let place = list.partition_point(|(at, other)| (*at, other.tag) > (at_ps, packet.tag));
        list.insert(place, (at_ps, packet));
    }
}

impl Workload for Script {
    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer {
        let Some(list) = self.lists.get_mut(&(from, channel)) else { return Offer::Nothing };
        match list.last() {
            None => Offer::Nothing,
            Some((at, _)) if *at > now_ps => Offer::At(*at),
            Some(_) => Offer::Send(list.pop().expect("it has a last one").1),
        }
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        self.deliveries.push((now_ps, *delivery));
    }
}

pub(crate) fn unicast(to: u32, bytes: u32, born_ps: u64, tag: u64) -> Packet {
    Packet { route: Route::Unicast(EndpointId(to)), bytes, born_ps, tag }
}

pub(crate) fn multicast(tree: TreeId, bytes: u32, born_ps: u64, tag: u64) -> Packet {
    Packet { route: Route::Tree(tree), bytes, born_ps, tag }
}

/// A mixed load of unicast and multicast by chance; gives the deliveries it must lead to, tag by
/// tag.
pub(crate) fn mixed_load(
    fixture: &mut Fixture,
    packets: u32,
    channels: u8,
    seed: u64,
) -> (Script, BTreeMap<u64, Vec<u32>>) {
    let endpoints = u32::try_from(fixture.graph.endpoint_count()).expect("few");
    let (mut script, mut due) = (Script::default(), BTreeMap::new());
    let mut chance = Chance::new(seed, 0);
    for tag in 0..u64::from(packets) {
        let (from, at) = (chance.below(endpoints), u64::from(chance.below(3_000)) * 1_000);
        let bytes = 64 + chance.below(960);
        let channel = u8::try_from(chance.below(channels.into())).expect("few");
        if chance.below(3) > 0 {
            let to = chance.below(endpoints);
            script.add(at, from, channel, unicast(to, bytes, at, tag));
            due.insert(tag, vec![to]);
        } else {
            let share = 2 + chance.below(4);
            let members: Vec<u32> = (0..endpoints).filter(|_| chance.below(share) == 0).collect();
            if members.is_empty() {
                continue;
            }
            let tree = fixture.rooted(from, &members, chance.below(2));
            script.add(at, from, channel, multicast(tree, bytes, at, tag));
            due.insert(tag, members);
        }
    }
    (script, due)
}
