//! Follows packets through the rows of a plan, to find members that they do not reach.
//!
//! [`verify`](crate::verify::verify()) checks every rule on rows of any origin, from all senders. A
//! walk here asks one thing of the rows of one plan, at a cost that a running system can pay for
//! every change. One sender is enough for that: in a switch, packets that come in by one port of a
//! tree leave by all others ([`TableImage`]). So if one member reaches another, that one reaches it
//! as well.

use std::sync::Arc;

use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId};

use crate::tables::TableImage;

/// Walks packets of groups through the rows of a plan, one after the other.
#[derive(Clone, Debug)]
pub struct ReachWalker {
    graph: Arc<Graph>,
    entered: Vec<u32>, // by switch port: the last packet that came in
    reached: Vec<u32>, // by endpoint: the last message that arrived
    packet: u32,
    message: u32,
    stack: Vec<PortId>,
}

impl ReachWalker {
    /// Makes a walker for a fabric.
    #[must_use]
    pub fn new(graph: &Arc<Graph>) -> Self {
        Self {
            graph: Arc::clone(graph),
            entered: vec![0; graph.port_count()],
            reached: vec![0; graph.endpoint_count()],
            packet: 0,
            message: 0,
            stack: Vec::new(),
        }
    }

    /// Sends a message from an endpoint, one packet of each color, over the live links.
    /// [`Self::has_reached`] then tells where a copy arrived; the sender has it, too.
    ///
    /// Cost: the switch ports that copies come in by.
    pub fn send(
        &mut self,
        image: &TableImage,
        faults: &Faults,
        colors: &[u16],
        sender: EndpointId,
    ) {
        self.message = self.message.wrapping_add(1);
        if self.message == 0 {
            self.reached.fill(0);
            self.message = 1;
        }
        self.reached[sender.index()] = self.message;
        let attachment = self.graph.attachment(sender);
        for color in colors {
            self.stack.extend(attachment.filter(|port| faults.port_is_live(&self.graph, *port)));
            self.walk(image, faults, *color);
        }
    }

    /// Tells whether a copy of the last message arrived at an endpoint.
    #[must_use]
    pub fn has_reached(&self, endpoint: EndpointId) -> bool {
        self.reached[endpoint.index()] == self.message
    }

    /// Follows the copies of one packet from the switch ports on the stack.
    fn walk(&mut self, image: &TableImage, faults: &Faults, color: u16) {
        let graph = &self.graph;
        self.packet = self.packet.wrapping_add(1);
        if self.packet == 0 {
            self.entered.fill(0);
            self.packet = 1;
        }
        while let Some(port) = self.stack.pop() {
            if std::mem::replace(&mut self.entered[port.index()], self.packet) == self.packet {
                continue;
            }
            let (switch, in_port) = (graph.switch_of(port), graph.port_number(port));
            let outputs = image.find(switch, in_port, color).map(|out| out.without(in_port));
            for out in outputs.into_iter().flat_map(|out| out.iter()) {
                let Some(out) = graph.port(switch, out) else { continue };
                if !faults.port_is_live(graph, out) {
                    continue;
                }
                match graph.peer(out) {
                    Peer::Switch(next) => self.stack.push(next),
                    Peer::Endpoint(to) => self.reached[to.index()] = self.message,
                    Peer::None => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;
    use fabricast_topology::{Mgid, TableKind};

    use super::*;
    use crate::{Change, EngineKind, EngineOptions, PartBuilder, Plan, PlannedTree, build_engine};

    const MGID: Mgid = Mgid(0);

    fn graph() -> Arc<Graph> {
        let spec = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2\n";
        Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap())
    }

    fn members(graph: &Graph) -> Vec<EndpointId> {
        ["h0", "h2", "h4"].iter().map(|name| graph.find_endpoint(name).unwrap()).collect()
    }

    /// Plan of one group, by an engine.
    fn planned(graph: &Arc<Graph>, tables: TableKind) -> Plan {
        let kind = EngineKind::Mr4lms;
        let options = EngineOptions::new(4, tables);
        let mut engine = build_engine(kind, Arc::clone(graph), None, options).unwrap();
        engine.apply(&[Change::Put { mgid: MGID, members: members(graph) }]).unwrap();
        engine.plan().clone()
    }

    /// Names of the endpoints that a message from h0 reaches, that of the sender included.
    fn reached(graph: &Arc<Graph>, plan: &Plan, faults: &Faults) -> Vec<String> {
        let image = TableImage::new(graph, plan);
        let mut walker = ReachWalker::new(graph);
        walker.send(&image, faults, &plan.sender_colors(MGID), members(graph)[0]);
        let there = graph.endpoints().filter(|endpoint| walker.has_reached(*endpoint));
        there.map(|endpoint| graph.endpoint_name(endpoint).to_owned()).collect()
    }

    #[test]
    fn a_message_reaches_the_members_and_nobody_else() {
        let graph = graph();
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            let plan = planned(&graph, tables);
            assert_eq!(reached(&graph, &plan, &Faults::new()), ["h0", "h2", "h4"]);
        }
    }

    #[test]
    fn a_tree_that_lacks_a_port_or_has_a_dead_one_misses_the_member_there() {
        let graph = graph();
        let plan = planned(&graph, TableKind::PerPort);
        let at = graph.attachment(graph.find_endpoint("h2").unwrap()).unwrap();
        let mut faults = Faults::new();
        faults.fail_link(&graph, at);
        assert_eq!(reached(&graph, &plan, &faults), ["h0", "h4"]);

        let tree = plan.virtual_group_of(MGID).unwrap();
        let ports = tree.ports.iter().copied().filter(|port| *port != at).collect();
        let mut part = PartBuilder::new(0, 0);
        part.add(PlannedTree { root: tree.root, ports, groups: vec![(MGID, 3)] });
        let mut broken = Plan::listed(4, TableKind::PerPort);
        broken.set_part(0, part);
        assert_eq!(reached(&graph, &broken, &Faults::new()), ["h0", "h4"]);
    }
}
