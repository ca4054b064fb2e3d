//! Builds generated switches, endpoints and links, with the naming that all kinds share.
//!
//! Endpoints are `h0`, `h1`, ... in the order they are added; a switch has its kind's description
//! and a GUID by its number.

use crate::graph::{AdapterFacts, AdapterKind, EndpointFacts, Graph, GraphBuilder, SwitchFacts};
use crate::ids::{PortId, SwitchId};

/// GUIDs of generated switches and adapters: locally administered, told apart at a glance.
const SWITCH_GUID: u64 = 0x02fa_b000_0000_0000;
const ADAPTER_GUID: u64 = 0x02fa_b100_0000_0000;
/// Link width and speed of generated fabrics.
const SPEED: &str = "4xEDR";

/// A port by its switch and its position there, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortPosition(pub(super) SwitchId, pub(super) u32);

/// A generated fabric under construction. Ports are named by position, from 0.
#[derive(Debug, Default)]
pub(super) struct Cables {
    builder: GraphBuilder,
    endpoints: u64,
}

impl Cables {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn add_switch(&mut self, description: &str, ports: u8) -> SwitchId {
        let guid = SWITCH_GUID + u64::from(self.builder.switch_count());
        let facts =
            SwitchFacts { guid, port_guid: guid, system_guid: guid, ..SwitchFacts::default() };
        self.builder.add_switch(&format!("S-{guid:016x}"), description, ports, facts)
    }

    /// Adds endpoints at the first ports of a switch.
    pub(super) fn add_endpoints(&mut self, switch: SwitchId, count: u32) {
        for position in 0..count {
            let guid = ADAPTER_GUID + self.endpoints;
            self.builder.add_adapter(
                &format!("H-{guid:016x}"),
                &format!("h{}", self.endpoints),
                AdapterFacts {
                    kind: AdapterKind::Channel,
                    ports: 1,
                    system_guid: guid,
                    guid,
                    ..AdapterFacts::default()
                },
            );
            let facts = EndpointFacts { number: 1, port_guid: guid, lmc: 0, lid: 0 };
            let endpoint = self.builder.add_endpoint(facts);
            let port = self.port(switch, position);
            self.builder.attach(endpoint, port).expect("one endpoint per port");
            self.builder.set_port_speed(port, SPEED);
            self.builder.set_endpoint_speed(endpoint, SPEED);
            self.endpoints += 1;
        }
    }

    /// Links two ports; each may have one link only.
    pub(super) fn link(&mut self, a: PortPosition, b: PortPosition) {
        let [a, b] = [a, b].map(|PortPosition(switch, position)| self.port(switch, position));
        self.builder.link(a, b).expect("every link has its own ports");
        self.builder.set_port_speed(a, SPEED);
        self.builder.set_port_speed(b, SPEED);
    }

    pub(super) fn build(self) -> Graph {
        self.builder.build().expect("generated names are unique")
    }

    fn port(&self, switch: SwitchId, position: u32) -> PortId {
        let number = u8::try_from(position + 1).expect("port counts were checked");
        self.builder.port(switch, number).expect("port counts were checked")
    }
}
