//! Ports of switches and endpoints in one numbering, with the port at the other end of each link.
//!
//! A *port* is a switch port by its number in the graph, or an endpoint, numbered after the switch
//! ports. It is an output and an input at once. The *queues* of a port are its input buffers, one
//! for each virtual channel: `port * channels + channel`.

use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId, SwitchId};

use crate::model::ModelError;
use crate::slab::NONE;

/// The ports of a fabric and what they are plugged into.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    /// By port: the port at the other end, or none.
    pub(crate) far: Vec<u32>,
    /// By switch port: its switch.
    pub(crate) switch: Vec<u32>,
    /// By switch: its first port; one more than switches.
    pub(crate) first: Vec<u32>,
    /// By switch port: where its request row starts, a bitmap of its switch's queues after the
    /// first 64; one more than switch ports.
    pub(crate) row: Vec<u32>,
    /// By port: whether its link is cut.
    pub(crate) dead: Vec<bool>,
    /// Virtual channels per link.
    pub(crate) channels: u32,
}

impl Wiring {
    pub(crate) fn new(graph: &Graph, channels: u8) -> Result<Self, ModelError> {
        let (switch_ports, endpoints) = (graph.port_count(), graph.endpoint_count());
        let ports = switch_ports + endpoints;
        if ports * usize::from(channels) >= 1 << 28 {
            return Err(ModelError::TooLarge { ports, channels });
        }
        let dense = |index: usize| u32::try_from(index).expect("checked above");
        let endpoint = |endpoint: EndpointId| dense(switch_ports) + endpoint.0;
        let inner = (0..dense(switch_ports)).map(|port| match graph.peer(PortId(port)) {
            Peer::None => NONE,
            Peer::Switch(other) => other.0,
            Peer::Endpoint(other) => endpoint(other),
        });
        let outer = graph.endpoints().map(|end| graph.attachment(end).map_or(NONE, |port| port.0));
        let far: Vec<u32> = inner.chain(outer).collect();
        let mut first = Vec::with_capacity(graph.switch_count() + 1);
        let (mut row, mut words) = (Vec::with_capacity(switch_ports + 1), 0u32);
        for switch in graph.switches() {
            first.push(dense(row.len()));
            let count = graph.ports(switch).len();
            let each = dense((count * usize::from(channels)).div_ceil(64).saturating_sub(1));
            for _ in 0..count {
                row.push(words);
                words += each;
            }
        }
        first.push(dense(switch_ports));
        row.push(words);
        Ok(Self {
            dead: far.iter().map(|far| *far == NONE).collect(),
            far,
            switch: (0..dense(switch_ports)).map(|port| graph.switch_of(PortId(port)).0).collect(),
            first,
            row,
            channels: channels.into(),
        })
    }

    /// Counts ports, endpoints included.
    pub(crate) const fn ports(&self) -> usize {
        self.far.len()
    }

    /// Number of switches.
    pub(crate) const fn switches(&self) -> usize {
        self.first.len() - 1
    }

    /// Counts words of all request rows.
    pub(crate) fn more_words(&self) -> usize {
        self.row[self.switch.len()] as usize
    }

    /// Tells whether a port is an endpoint's.
    pub(crate) const fn is_endpoint(&self, port: u32) -> bool {
        port as usize >= self.switch.len()
    }

    /// Gives the endpoint of a port.
    pub(crate) fn endpoint(&self, port: u32) -> EndpointId {
        EndpointId(port - self.first[self.switches()])
    }

    /// Gives the port of an endpoint.
    pub(crate) fn port_of(&self, endpoint: EndpointId) -> u32 {
        self.first[self.switches()] + endpoint.0
    }

    /// Gives the port of a queue.
    pub(crate) const fn port(&self, queue: u32) -> u32 {
        if self.channels == 1 { queue } else { queue / self.channels }
    }

    /// Gives the virtual channel of a queue.
    pub(crate) const fn channel(&self, queue: u32) -> u32 {
        if self.channels == 1 { 0 } else { queue % self.channels }
    }

    /// Gives the first queue of a switch.
    pub(crate) fn first_queue(&self, switch: u32) -> u32 {
        self.first[switch as usize] * self.channels
    }

    /// Gives the words of the request row of a switch port, after the first.
    pub(crate) fn row(&self, port: u32) -> std::ops::Range<usize> {
        self.row[port as usize] as usize..self.row[port as usize + 1] as usize
    }

    /// Cuts the links of failed parts.
    pub(crate) fn fail(&mut self, graph: &Graph, faults: &Faults) {
        for switch in (0..self.switches()).map(|id| SwitchId(u32::try_from(id).expect("dense"))) {
            for port in graph.ports(switch) {
                let live = faults.port_is_live(graph, port);
                self.dead[port.index()] = !live;
                if let Some(far) = self.dead.get_mut(self.far[port.index()] as usize) {
                    *far = !live;
                }
            }
        }
    }
}
