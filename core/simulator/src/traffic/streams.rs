//! Unicast in the background and multicast streams over it, each packet by a root of its own.

use std::ops::Range;

use fabricast_routing::{RootCandidate, RootPolicy, choose_root};
use fabricast_topology::{EndpointId, FatTree, Graph, Peer, PortId};

use super::patterns::{Destinations, UnicastPattern};
use super::registers::{Reading, Registers};
use crate::chance::Chance;
use crate::rooted::{RootedError, Roots};
use crate::routes::{Routes, TreeId};
use crate::workload::{Delivery, Offer, Packet, Route, Trail, Workload};

/// Unicast of every endpoint: packets at exponential intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnicastLoad {
    /// Choice of its destinations.
    pub pattern: UnicastPattern,
    /// Length of a packet.
    pub bytes: u32,
    /// Mean picoseconds from one packet of an endpoint to the next.
    pub every_ps: u64,
}

/// Multicast of one endpoint: packets at equal intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastLoad {
    /// Sending endpoint, which sends no unicast.
    pub source: EndpointId,
    /// Receiving endpoints, possibly with the source. Of several groups one is drawn for every
    /// packet.
    pub groups: Vec<Vec<EndpointId>>,
    /// Length of a packet.
    pub bytes: u32,
    /// Picoseconds from one packet to the next.
    pub every_ps: u64,
    /// Packets in all.
    pub packets: u64,
}

/// All that endpoints send, and how roots are chosen.
#[derive(Clone, Debug)]
pub struct StreamsSpec {
    /// Traffic of all endpoints without a multicast stream.
    pub unicast: Option<UnicastLoad>,
    /// At most one stream of an endpoint.
    pub multicast: Vec<MulticastLoad>,
    /// Policy that chooses the root of every packet when it reaches its adapter.
    pub policy: RootPolicy,
    /// Readings of loads that the policy uses.
    pub reading: Reading,
    /// Virtual channels of unicast and of multicast, at least one each. Endpoints are dealt over
    /// them in blocks of neighbors, and all packets of one take its channel.
    pub channels: [Range<u8>; 2],
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A multicast packet that has arrived everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Endpoint that sent the packet.
    pub source: EndpointId,
    /// The root it went by, among the candidates.
    pub candidate: u32,
    /// Time when it was made.
    pub born_ps: u64,
    /// Time when its adapter started to send it.
    pub sent_ps: u64,
    /// Time when its last copy arrived.
    pub done_ps: u64,
    /// Places where that copy waited, if trails are recorded.
    pub trail: Option<Trail>,
}

/// Traffic received since a given time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The moment, in picoseconds.
    pub since_ps: u64,
    /// Bytes of unicast packets.
    pub unicast_bytes: u64,
    /// Bytes of copies of multicast packets.
    pub multicast_bytes: u64,
}

/// State of the workload.
#[derive(Clone, Debug)]
pub struct Streams {
    unicast: Option<(UnicastLoad, Destinations)>,
    policy: RootPolicy,
    sources: Vec<Source>, // by endpoint
    streams: Vec<Stream>,
    registers: Registers,
    open: Vec<Open>, // by tag
    finished: Vec<Finished>,
    received: Received,
    loads: Vec<(u64, u32)>, // of the climbs of all candidates, while choosing
}

/// An endpoint as a sender.
#[derive(Clone, Debug)]
struct Source {
    chance: Chance,
    next_ps: u64, // when its next unicast packet is made
    stream: Option<u32>,
    channel: u8,
}

#[derive(Clone, Debug)]
struct Stream {
    bytes: u32,
    every_ps: u64,
    groups: Vec<Group>,
    next_ps: u64,
    left: u64,
}

/// Receivers, and the trees to them.
#[derive(Clone, Debug)]
struct Group {
    size: u32,
    candidates: Vec<Candidate>,
}

/// A tree that a stream can use.
#[derive(Clone, Debug)]
struct Candidate {
    tree: TreeId,
    climb: Vec<u32>,    // switches above the source's leaf, the root last
    ports: Vec<PortId>, // by which copies leave switches
}

#[derive(Clone, Copy, Debug)]
struct Open {
    finished: Finished,
    left: u32,
}

/// The tag of unicast packets.
const UNICAST: u64 = u64::MAX;

impl Streams {
    /// Prepares streams on a fabric: adds the trees by way of every candidate root.
    ///
    /// # Errors
    ///
    /// [`RootedError`] if a member cannot be reached by way of some candidate.
    pub fn new(
        graph: &Graph,
        tree: &FatTree,
        routes: &mut Routes,
        spec: StreamsSpec,
    ) -> Result<Self, RootedError> {
        let [unicast, multicast] = &spec.channels;
        let channel = |of: &Range<u8>, endpoint: EndpointId| {
            let block = endpoint.index() * of.len() / graph.endpoint_count();
            of.start + u8::try_from(block).expect("channels are numbered in 8 bits")
        };
        let start = |endpoint: EndpointId| {
            let mut chance = Chance::new(spec.seed, endpoint.0.into());
            let every_ps = spec.unicast.map_or(0, |load| load.every_ps);
            let (next_ps, channel) = (chance.wait_ps(every_ps), channel(unicast, endpoint));
            Source { next_ps, chance, stream: None, channel }
        };
        let mut sources: Vec<Source> = graph.endpoints().map(start).collect();
        let mut streams = Vec::new();
        for (load, number) in spec.multicast.into_iter().zip(0u32..) {
            let source = &mut sources[load.source.index()];
            source.stream = Some(number);
            source.channel = channel(multicast, load.source);
            // Anywhere in the first interval, so that from the second one on all of them send.
            let next_ps = source.chance.word() % load.every_ps.max(1);
            let each = load
                .groups
                .iter()
                .map(|members| Group::new(graph, tree, routes, load.source, members));
            let groups = each.collect::<Result<Vec<Group>, RootedError>>()?;
            let MulticastLoad { bytes, every_ps, packets: left, .. } = load;
            streams.push(Stream { bytes, every_ps, groups, next_ps, left });
        }
        let pattern = |load: UnicastLoad| (load, Destinations::new(graph, tree, load.pattern));
        Ok(Self {
            unicast: spec.unicast.map(pattern),
            policy: spec.policy,
            sources,
            streams,
            registers: Registers::new(graph, spec.reading),
            open: Vec::new(),
            finished: Vec::new(),
            received: Received::default(),
            loads: Vec::new(),
        })
    }

    /// Lists the multicast packets that have arrived everywhere, in that order.
    #[must_use]
    pub fn finished(&self) -> &[Finished] {
        &self.finished
    }

    /// Tells whether all multicast packets that were ordered have arrived everywhere.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.finished.len() == self.open.len() && self.streams.iter().all(|stream| stream.left == 0)
    }

    /// Gives what arrived since the counting began.
    #[must_use]
    pub const fn received(&self) -> &Received {
        &self.received
    }

    /// Begins to count anew what arrives.
    pub fn count_from(&mut self, now_ps: u64) {
        self.received = Received { since_ps: now_ps, ..Received::default() };
    }

    /// Gives the registers, to be read when their moment has come.
    pub const fn registers(&mut self) -> &mut Registers {
        &mut self.registers
    }

    fn next_unicast(&mut self, now_ps: u64, from: EndpointId) -> Offer {
        let Some((load, destinations)) = &self.unicast else { return Offer::Nothing };
        let source = &mut self.sources[from.index()];
        if source.stream.is_some() {
            return Offer::Nothing;
        }
        if source.next_ps > now_ps {
            return Offer::At(source.next_ps);
        }
        let Some(to) = destinations.draw(from, &mut source.chance) else { return Offer::Nothing };
        let born_ps = source.next_ps;
        source.next_ps += source.chance.wait_ps(load.every_ps);
        let (route, bytes) = (Route::Unicast(to), load.bytes);
        Offer::Send(Packet { route, bytes, born_ps, tag: UNICAST })
    }

    fn next_multicast(&mut self, now_ps: u64, from: EndpointId) -> Offer {
        let Some(number) = self.sources[from.index()].stream else { return Offer::Nothing };
        let stream = &self.streams[number as usize];
        if stream.left == 0 {
            return Offer::Nothing;
        }
        if stream.next_ps > now_ps {
            return Offer::At(stream.next_ps);
        }
        self.registers.look(now_ps);
        let groups = u32::try_from(stream.groups.len()).expect("fewer than 2^32 trees");
        let drawn = self.sources[from.index()].chance.below(groups) as usize;
        let chosen = self.choose(number, drawn, from);
        let stream = &mut self.streams[number as usize];
        let born_ps = stream.next_ps;
        stream.next_ps += stream.every_ps;
        stream.left -= 1;
        let tag = self.open.len() as u64;
        let candidate = u32::try_from(chosen).expect("candidates are numbered in 32 bits");
        let (source, sent_ps, done_ps) = (from, now_ps, now_ps);
        let finished = Finished { source, candidate, born_ps, sent_ps, done_ps, trail: None };
        let group = &stream.groups[drawn];
        self.open.push(Open { finished, left: group.size });
        let route = Route::Tree(group.candidates[chosen].tree);
        Offer::Send(Packet { route, bytes: stream.bytes, born_ps, tag })
    }

    /// Chooses a root by what the registers say.
    fn choose(&mut self, number: u32, drawn: usize, from: EndpointId) -> usize {
        let candidates = &self.streams[number as usize].groups[drawn].candidates;
        let word = self.sources[from.index()].chance.word();
        if !self.policy.looks_at_load() {
            return from.index() % candidates.len();
        }
        self.loads.clear();
        let climbs = candidates.iter().flat_map(|candidate| &candidate.climb);
        self.loads.extend(climbs.map(|switch| (self.registers.switch(*switch), *switch)));
        let height = candidates[0].climb.len();
        let links = self.policy.looks_at_links();
        let known = candidates.iter().zip(self.loads.chunks_exact(height.max(1)));
        let known: Vec<RootCandidate<'_>> = known
            .map(|(candidate, climb)| {
                let ports: &[PortId] = if links { &candidate.ports } else { &[] };
                let loads = ports.iter().map(|port| self.registers.port(*port));
                let (worst_link, all_links) =
                    loads.fold((0, 0), |(most, sum), load| (load.max(most), sum + load));
                RootCandidate { climb, worst_link, all_links }
            })
            .collect();
        choose_root(self.policy, &known, from.0, word).unwrap_or(0)
    }
}

impl Workload for Streams {
    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer {
        let source = &self.sources[from.index()];
        match source.stream {
            _ if source.channel != channel => Offer::Nothing,
            Some(_) => self.next_multicast(now_ps, from),
            None => self.next_unicast(now_ps, from),
        }
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        if delivery.tag == UNICAST {
            self.received.unicast_bytes += u64::from(delivery.bytes);
            return;
        }
        self.received.multicast_bytes += u64::from(delivery.bytes);
        let at = usize::try_from(delivery.tag).expect("an index into the list");
        let open = &mut self.open[at];
        open.left -= 1;
        if open.left == 0 {
            open.finished.sent_ps = delivery.sent_ps;
            open.finished.done_ps = now_ps;
            open.finished.trail = delivery.trail;
            self.finished.push(open.finished);
        }
    }
}

impl Group {
    /// Adds the trees by way of every root that the group can have.
    fn new(
        graph: &Graph,
        tree: &FatTree,
        routes: &mut Routes,
        source: EndpointId,
        members: &[EndpointId],
    ) -> Result<Self, RootedError> {
        let roots = Roots::new(graph, tree);
        let height = roots.height(members.iter().copied().chain([source]))?;
        let each = (0..roots.candidates(height)).map(|candidate| {
            let tree = roots.add(routes, source, members, candidate)?;
            let mut climb = Vec::new();
            for port in roots.climb(source, height, candidate)? {
                if let Peer::Switch(far) = graph.peer(port) {
                    climb.push(graph.switch_of(far).0);
                }
            }
            Ok(Candidate { tree, climb, ports: routes.out_ports(tree).collect() })
        });
        let size = u32::try_from(members.len()).expect("endpoints are numbered in 32 bits");
        Ok(Self { size, candidates: each.collect::<Result<_, RootedError>>()? })
    }
}
