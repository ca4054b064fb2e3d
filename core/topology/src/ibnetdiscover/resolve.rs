//! Matches the two ends of every cable and builds the graph.
//!
//! Every port line is a claim about one port; its mirror image is a claim about the other end,
//! added where the other end has no line of its own. Sorted by port, claims
//! about one port stand side by side: they must agree.

use std::collections::BTreeMap;

use super::lines::{Kind, Lines, Node, Port, check_port, hex};
use super::{ReadError, ReadProblem};
use crate::graph::{AdapterFacts, EndpointFacts, Graph, GraphBuilder, SwitchFacts};
use crate::ids::{EndpointId, SwitchId};

/// "No cable" as a peer.
const NONE: u32 = u32::MAX;
/// Most switch ports that a graph can number.
const MOST_PORTS: usize = (1 << 31) - 1;

/// A node id, so that two spellings of one GUID are one id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Guid(char, u64),
    Text(&'a str),
}

impl<'a> Key<'a> {
    fn new(id: &'a str) -> Self {
        let mut chars = id.chars();
        match (chars.next(), chars.next(), hex(chars.as_str())) {
            (Some(letter), Some('-'), Some(guid)) => Self::Guid(letter, guid),
            _ => Self::Text(id),
        }
    }
}

/// One line's claim about one port. The field order sorts claims about one port together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    node: u32,
    number: u8,
    peer: u32,
    peer_number: u8,
    mirrored: bool,
    port: u32, // index of the line among the port lines
}

impl Claim {
    fn mirror(self) -> Self {
        Self {
            node: self.peer,
            number: self.peer_number,
            peer: self.node,
            peer_number: self.number,
            mirrored: true,
            port: self.port,
        }
    }
}

/// Builds the graph.
pub(super) fn resolve(lines: Lines<'_>) -> Result<Graph, ReadError> {
    let resolver = Resolver { lines };
    let claims = resolver.claims()?;
    let (mut builder, place) = resolver.nodes(&claims)?;
    let mut endpoints = 0u32;
    for claim in &claims {
        let node = &resolver.lines.nodes[claim.node as usize];
        let port = &resolver.lines.ports[claim.port as usize];
        if node.kind != Kind::Switch {
            let endpoint = EndpointId(endpoints);
            endpoints += 1;
            builder.set_endpoint_speed(endpoint, if claim.mirrored { "" } else { port.speed });
            if claim.peer != NONE {
                let switch = SwitchId(place[claim.peer as usize]);
                let port = builder.port(switch, claim.peer_number).expect("checked with the claim");
                builder.attach(endpoint, port).expect("claims agree");
            }
            continue;
        }
        let switch = SwitchId(place[claim.node as usize]);
        let here = builder.port(switch, claim.number).expect("checked with the claim");
        builder.set_port_speed(here, if claim.mirrored { "" } else { port.speed });
        let is_lower = (claim.node, claim.number) <= (claim.peer, claim.peer_number);
        if resolver.lines.nodes[claim.peer as usize].kind == Kind::Switch && is_lower {
            let other = SwitchId(place[claim.peer as usize]);
            let there = builder.port(other, claim.peer_number).expect("checked with the claim");
            builder.link(here, there).expect("claims agree");
        }
    }
    // Of a large fabric the lines take more than the graph, whose indexes are built last.
    drop((claims, resolver));
    Ok(builder.build().expect("node ids differ by key, so by text"))
}

struct Resolver<'a> {
    lines: Lines<'a>,
}

impl<'a> Resolver<'a> {
    fn error(&self, line: u32, problem: ReadProblem) -> ReadError {
        let at = (line as usize).checked_sub(1);
        let text = at.and_then(|index| self.lines.text.lines().nth(index)).map(str::trim);
        ReadError::new(line, text.unwrap_or_default(), problem)
    }

    /// Returns one claim per connected port, and one per listed adapter port.
    fn claims(&self) -> Result<Vec<Claim>, ReadError> {
        let nodes = self.index()?;
        let mut claims = Vec::with_capacity(self.lines.ports.len());
        for (index, port) in (0u32..).zip(&self.lines.ports) {
            let claim = self
                .claim(&nodes, index, port)
                .map_err(|problem| self.error(port.line, problem))?;
            claims.extend(claim);
        }
        claims.sort_unstable();
        let is_listed = |claim: &Claim| {
            let end = (claim.node, claim.number);
            claims.binary_search_by_key(&end, |claim| (claim.node, claim.number)).is_ok_and(|at| {
                // Any claim of that end will do: if they differ it is an error anyway.
                claims[at].peer != NONE
            })
        };
        let cables = claims.iter().filter(|claim| claim.peer != NONE);
        let mirrored: Vec<Claim> =
            cables.map(|claim| claim.mirror()).filter(|claim| !is_listed(claim)).collect();
        let unlisted = !mirrored.is_empty();
        claims.extend(mirrored);
        // A cable that one end lists and the other end contradicts needs both ends compared.
        self.check_mirrors(&claims)?;
        if unlisted {
            claims.sort_unstable();
        }
        self.check_ports(&claims)?;
        claims.dedup_by_key(|claim| (claim.node, claim.number));
        Ok(claims)
    }

    /// Finds nodes by id.
    fn index(&self) -> Result<BTreeMap<Key<'a>, u32>, ReadError> {
        let mut index = BTreeMap::new();
        for (number, node) in (0u32..).zip(&self.lines.nodes) {
            if let Some(first) = index.insert(Key::new(node.id), number) {
                let line = self.lines.nodes[first as usize].line;
                let node_id = node.id.to_owned();
                let problem = ReadProblem::DuplicateNode { node: node_id, line };
                return Err(self.error(node.line, problem));
            }
        }
        Ok(index)
    }

    /// Turns a port line into a claim; none for a switch port without a cable.
    fn claim(
        &self,
        nodes: &BTreeMap<Key<'a>, u32>,
        index: u32,
        port: &Port<'a>,
    ) -> Result<Option<Claim>, ReadProblem> {
        let own = &self.lines.nodes[port.node as usize];
        let mut claim = Claim {
            node: port.node,
            number: port.number,
            peer: NONE,
            peer_number: 0,
            mirrored: false,
            port: index,
        };
        let Some(peer) = port.peer else {
            return Ok((own.kind != Kind::Switch).then_some(claim));
        };
        let unknown = || ReadProblem::UnknownPeer { node: peer.id.to_owned() };
        claim.peer = *nodes.get(&Key::new(peer.id)).ok_or_else(unknown)?;
        let other = &self.lines.nodes[claim.peer as usize];
        claim.peer_number = check_port(other.id, other.ports, peer.number.into())?;
        if own.kind != Kind::Switch && other.kind != Kind::Switch {
            let (a, b) = (own.id.to_owned(), other.id.to_owned());
            return Err(ReadProblem::AdapterToAdapter { a, b });
        }
        Ok(Some(claim))
    }

    /// Checks that claims about one port agree.
    fn check_ports(&self, claims: &[Claim]) -> Result<(), ReadError> {
        for pair in claims.windows(2) {
            let [a, b] = pair else { continue };
            let one_port = (a.node, a.number) == (b.node, b.number);
            let differ = (a.peer, a.peer_number) != (b.peer, b.peer_number);
            if one_port && differ && a.peer != NONE && b.peer != NONE {
                return Err(self.contradiction(*a, *b));
            }
        }
        Ok(())
    }

    /// Checks that the port a cable leads to says the same of it. Needs the
    /// claims that were read sorted and in front.
    fn check_mirrors(&self, claims: &[Claim]) -> Result<(), ReadError> {
        let read = claims.partition_point(|claim| !claim.mirrored);
        let read = &claims[..read];
        self.check_ports(read)?;
        for claim in read.iter().filter(|claim| claim.peer != NONE) {
            let end = (claim.peer, claim.peer_number);
            let at = read.partition_point(|other| (other.node, other.number) < end);
            let Some(other) = read.get(at) else { continue };
            let same_port = (other.node, other.number) == end && other.peer != NONE;
            if same_port && (other.peer, other.peer_number) != (claim.node, claim.number) {
                return Err(self.contradiction(claim.mirror(), *other));
            }
        }
        Ok(())
    }

    /// Reports two claims about one port, at the later line.
    fn contradiction(&self, a: Claim, b: Claim) -> ReadError {
        let line = |claim: Claim| self.lines.ports[claim.port as usize].line;
        let (first, later) = if line(a) <= line(b) { (a, b) } else { (b, a) };
        let end = |claim: Claim| {
            format!("{}[{}]", self.lines.nodes[claim.peer as usize].id, claim.peer_number)
        };
        let problem = ReadProblem::Contradiction {
            node: self.lines.nodes[a.node as usize].id.to_owned(),
            port: a.number,
            here: end(later),
            there: end(first),
            line: line(first),
        };
        self.error(line(later), problem)
    }

    /// Adds all switches and adapters; gives the switch number of every switch node.
    fn nodes(&self, claims: &[Claim]) -> Result<(GraphBuilder, Vec<u32>), ReadError> {
        let mut builder = GraphBuilder::new();
        let mut place = vec![NONE; self.lines.nodes.len()];
        let mut ports = 0usize;
        for (number, node) in (0u32..).zip(&self.lines.nodes) {
            if node.kind != Kind::Switch {
                let start = claims.partition_point(|claim| claim.node < number);
                let own = claims[start..].iter().take_while(|claim| claim.node == number);
                self.adapter(&mut builder, node, own, claims);
                continue;
            }
            ports += usize::from(node.ports);
            if ports > MOST_PORTS {
                return Err(self.error(node.line, ReadProblem::TooLarge));
            }
            let facts = SwitchFacts {
                vendor: node.facts.vendor,
                device: node.facts.device,
                system_guid: node.facts.system_guid,
                guid: node.facts.guid,
                port_guid: node.facts.port_guid,
                lid: node.lid,
                lmc: node.lmc,
                enhanced_port0: node.enhanced,
            };
            place[number as usize] =
                builder.add_switch(node.id, node.description, node.ports, facts).0;
        }
        Ok((builder, place))
    }

    fn adapter<'c>(
        &self,
        builder: &mut GraphBuilder,
        node: &Node<'_>,
        own: impl Iterator<Item = &'c Claim>,
        claims: &[Claim],
    ) {
        let Kind::Adapter(kind) = node.kind else { return };
        let facts = AdapterFacts {
            kind,
            ports: node.ports,
            vendor: node.facts.vendor,
            device: node.facts.device,
            system_guid: node.facts.system_guid,
            guid: node.facts.guid,
        };
        builder.add_adapter(node.id, node.description, facts);
        for claim in own {
            let mut facts = EndpointFacts { number: claim.number, ..EndpointFacts::default() };
            if !claim.mirrored {
                let port = &self.lines.ports[claim.port as usize];
                (facts.lid, facts.lmc, facts.port_guid) = (port.lid, port.lmc, port.guid);
            }
            // What the adapter does not say, the switch may.
            let end = (claim.peer, claim.peer_number);
            let at = claims.binary_search_by_key(&end, |claim| (claim.node, claim.number));
            if let Ok(at) = at {
                let port = &self.lines.ports[claims[at].port as usize];
                let guid = port.peer.map_or(0, |peer| peer.guid);
                let by_switch = !claims[at].mirrored;
                if by_switch && facts.port_guid == 0 {
                    facts.port_guid = guid;
                }
                if by_switch && facts.lid == 0 {
                    facts.lid = port.peer_lid;
                }
            }
            builder.add_endpoint(facts);
        }
    }
}
