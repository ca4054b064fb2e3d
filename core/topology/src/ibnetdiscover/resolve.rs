//! Matches the two ends of every cable and builds the graph.
//!
//! Every port line is a claim about one port; its mirror image is a claim about the other end,
//! added where the other end has no line of its own. Sorted by port, claims
//! about one port stand side by side: they must agree.

use super::lines::{Kind, Lines, NONE, Node, Port, check_port};
use super::{ReadError, ReadProblem};
use crate::graph::{AdapterFacts, EndpointFacts, Graph, GraphBuilder, SwitchFacts};
use crate::ids::{EndpointId, SwitchId};

/// Most switch ports that a graph can number.
const MOST_PORTS: usize = (1 << 31) - 1;

impl Port {
    /// The port that the claim is about.
    fn here(&self) -> (u32, u8) {
        (self.node, self.number)
    }

    /// The port at the other end of the cable.
    fn there(&self) -> (u32, u8) {
        (self.peer, self.peer_number)
    }

    /// The same cable, seen from its other end.
    fn mirror(self) -> Self {
        Self {
            node: self.peer,
            number: self.peer_number,
            peer: self.node,
            peer_number: self.number,
            mirrored: true,
            ..self
        }
    }
}

/// Sorts claims about one port together, those of its own lines first.
fn sort(claims: &mut [Port]) {
    claims.sort_unstable_by_key(|claim| (claim.here(), claim.there(), claim.mirrored, claim.line));
}

/// Builds the graph.
pub(super) fn resolve(mut lines: Lines) -> Result<Graph, ReadError> {
    let claims = claims(&mut lines)?;
    let (mut builder, place) = nodes(&lines, &claims)?;
    let mut endpoints = 0u32;
    for claim in &claims {
        let speed = if claim.mirrored { "" } else { lines.speeds.get(claim.speed) };
        if lines.nodes[claim.node as usize].kind != Kind::Switch {
            let endpoint = EndpointId(endpoints);
            endpoints += 1;
            builder.set_endpoint_speed(endpoint, speed);
            if claim.peer != NONE {
                let switch = SwitchId(place[claim.peer as usize]);
                let port = builder.port(switch, claim.peer_number).expect("checked with the claim");
                builder.attach(endpoint, port).expect("claims agree");
            }
            continue;
        }
        let switch = SwitchId(place[claim.node as usize]);
        let here = builder.port(switch, claim.number).expect("checked with the claim");
        builder.set_port_speed(here, speed);
        let is_lower = claim.here() <= claim.there();
        if lines.nodes[claim.peer as usize].kind == Kind::Switch && is_lower {
            let other = SwitchId(place[claim.peer as usize]);
            let there = builder.port(other, claim.peer_number).expect("checked with the claim");
            builder.link(here, there).expect("claims agree");
        }
    }
    // Of a large fabric the lines take more than the graph, whose indexes are built last.
    drop((claims, lines));
    Ok(builder.build().expect("node ids differ by key, so by text"))
}

/// Returns one claim per connected port, and one per listed adapter port; takes the ports out of
/// `lines`.
fn claims(lines: &mut Lines) -> Result<Vec<Port>, ReadError> {
    let mut claims = std::mem::take(&mut lines.ports);
    for claim in &mut claims {
        find_peer(lines, claim).map_err(|problem| ReadError::new(claim.line, "", problem))?;
    }
    sort(&mut claims);
    let is_listed = |claim: &Port| {
        claims.binary_search_by_key(&claim.here(), Port::here).is_ok_and(|at| {
            // Any claim of that end will do: if they differ it is an error anyway.
            claims[at].peer != NONE
        })
    };
    let cables = claims.iter().filter(|claim| claim.peer != NONE);
    let mirrored: Vec<Port> =
        cables.map(|claim| claim.mirror()).filter(|claim| !is_listed(claim)).collect();
    let unlisted = !mirrored.is_empty();
    claims.extend(mirrored);
    // A cable that one end lists and the other end contradicts needs both ends compared.
    check_mirrors(lines, &claims)?;
    if unlisted {
        sort(&mut claims);
    }
    check_ports(lines, &claims)?;
    claims.dedup_by_key(|claim| claim.here());
    Ok(claims)
}

/// Puts the node in place of the number of its id.
fn find_peer(lines: &Lines, claim: &mut Port) -> Result<(), ReadProblem> {
    if claim.peer == NONE {
        return Ok(());
    }
    claim.peer = lines.peers.node(claim.peer)?;
    let [own, other] = [claim.node, claim.peer].map(|node| &lines.nodes[node as usize]);
    let id = |node: u32| lines.node_ids.get(node as usize);
    check_port(id(claim.peer), other.ports, claim.peer_number.into())?;
    if own.kind != Kind::Switch && other.kind != Kind::Switch {
        let (a, b) = (id(claim.node).to_owned(), id(claim.peer).to_owned());
        return Err(ReadProblem::AdapterToAdapter { a, b });
    }
    Ok(())
}

/// Checks that claims about one port agree.
fn check_ports(lines: &Lines, claims: &[Port]) -> Result<(), ReadError> {
    for pair in claims.windows(2) {
        let [a, b] = pair else { continue };
        let differ = a.here() == b.here() && a.there() != b.there();
        if differ && a.peer != NONE && b.peer != NONE {
            return Err(contradiction(lines, *a, *b));
        }
    }
    Ok(())
}

/// Checks that the port a cable leads to says the same of it. Needs the
/// claims that were read sorted and in front.
fn check_mirrors(lines: &Lines, claims: &[Port]) -> Result<(), ReadError> {
    let read = claims.partition_point(|claim| !claim.mirrored);
    let read = &claims[..read];
    check_ports(lines, read)?;
    for claim in read.iter().filter(|claim| claim.peer != NONE) {
        let at = read.partition_point(|other| other.here() < claim.there());
        let Some(other) = read.get(at) else { continue };
        let same_port = other.here() == claim.there() && other.peer != NONE;
        if same_port && other.there() != claim.here() {
            return Err(contradiction(lines, claim.mirror(), *other));
        }
    }
    Ok(())
}

/// Reports two claims about one port, at the later line.
fn contradiction(lines: &Lines, a: Port, b: Port) -> ReadError {
    let (first, later) = if a.line <= b.line { (a, b) } else { (b, a) };
    let id = |node: u32| lines.node_ids.get(node as usize);
    let end = |claim: Port| format!("{}[{}]", id(claim.peer), claim.peer_number);
    let problem = ReadProblem::Contradiction {
        node: id(a.node).to_owned(),
        port: a.number,
        here: end(later),
        there: end(first),
        line: first.line,
    };
    ReadError::new(later.line, "", problem)
}

/// Adds all switches and adapters; gives the switch number of every switch node.
fn nodes(lines: &Lines, claims: &[Port]) -> Result<(GraphBuilder, Vec<u32>), ReadError> {
    let mut builder = GraphBuilder::new();
    let mut place = vec![NONE; lines.nodes.len()];
    let mut ports = 0usize;
    for (number, node) in (0u32..).zip(&lines.nodes) {
        let at = number as usize;
        let (id, description) = (lines.node_ids.get(at), lines.descriptions.get(at));
        let Kind::Adapter(kind) = node.kind else {
            ports += usize::from(node.ports);
            if ports > MOST_PORTS {
                return Err(ReadError::new(node.line, "", ReadProblem::TooLarge));
            }
            place[at] = builder.add_switch(id, description, node.ports, switch_facts(node)).0;
            continue;
        };
        let facts = AdapterFacts {
            kind,
            ports: node.ports,
            vendor: node.facts.vendor,
            device: node.facts.device,
            system_guid: node.facts.system_guid,
            guid: node.facts.guid,
        };
        builder.add_adapter(id, description, facts);
        let start = claims.partition_point(|claim| claim.node < number);
        for claim in claims[start..].iter().take_while(|claim| claim.node == number) {
            builder.add_endpoint(endpoint_facts(claim, claims));
        }
    }
    Ok((builder, place))
}

fn switch_facts(node: &Node) -> SwitchFacts {
    SwitchFacts {
        vendor: node.facts.vendor,
        device: node.facts.device,
        system_guid: node.facts.system_guid,
        guid: node.facts.guid,
        port_guid: node.facts.port_guid,
        lid: node.lid,
        lmc: node.lmc,
        enhanced_port0: node.enhanced,
    }
}

fn endpoint_facts(claim: &Port, claims: &[Port]) -> EndpointFacts {
    let mut facts = EndpointFacts { number: claim.number, ..EndpointFacts::default() };
    if !claim.mirrored {
        (facts.lid, facts.lmc, facts.port_guid) = (claim.lid, claim.lmc, claim.guid);
    }
    // The switch may say what the adapter does not.
    let switch = claims.binary_search_by_key(&claim.there(), Port::here).map(|at| &claims[at]);
    if let Ok(switch) = switch
        && !switch.mirrored
    {
        if facts.port_guid == 0 {
            facts.port_guid = switch.guid;
        }
        if facts.lid == 0 {
            facts.lid = switch.lid;
        }
    }
    facts
}
