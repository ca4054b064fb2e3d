//! Cables and endpoints as switches hear them: the table of neighbors with its clock, and the key
//! of the agent's LLDP frames.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_openflow::{
    Announcement, Body, CODE_BYTES, Contradiction, HeardFrame, LldpFrame, Mapping, Neighbor,
    NeighborTable, PacketIn, SeenSwitch, SwitchPort,
};
use fabricast_topology::{BuildError, Graph, PortId, PortSet};
use parking_lot::Mutex;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::time::Instant;

use super::nodes::Nodes;

/// Intervals without a frame after which a neighbor is forgotten.
const SILENT_INTERVALS: u32 = 3;

/// Neighbors of the ports of all connected switches.
pub(super) struct Neighbors {
    /// Time between two frames out of each port.
    pub(super) interval: Duration,
    key: hmac::Key,
    start: Instant,
    table: Mutex<NeighborTable>,
}

impl Neighbors {
    /// - `key`: text that the agents of the fabric share; `None` for a key of this agent alone.
    pub(super) fn new(interval: Duration, key: Option<&str>) -> Self {
        let key = match key {
            Some(text) => hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()),
            None => hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
                .expect("the system gives random numbers"),
        };
        Self { interval, key, start: Instant::now(), table: Mutex::default() }
    }

    /// Messages for a switch: a frame out of each of these ports, and the flows by which it hands
    /// over those of others. The flows come again each time, because a switch may have lost them.
    pub(super) fn messages(&self, mapping: &Mapping, datapath: u64, ports: &[u8]) -> Vec<Body> {
        let seconds = u16::try_from(self.silence().as_secs()).unwrap_or(u16::MAX).max(1);
        let frame = |number: &u8| {
            let port = SwitchPort { datapath, number: *number };
            let signed = hmac::sign(&self.key, &told(port));
            let code: [u8; CODE_BYTES] =
                signed.as_ref().try_into().expect("a code of SHA-256 has 32 bytes");
            LldpFrame { port, seconds, code }.sending()
        };
        mapping.controller_flows().into_iter().chain(ports.iter().map(frame)).collect()
    }

    /// Takes a packet that a switch has handed over. Returns true if it tells something new.
    pub(super) fn take(&self, datapath: u64, packet: &PacketIn) -> bool {
        let number = packet.in_port().and_then(|number| u8::try_from(number).ok());
        let Some(number) = number.filter(|number| *number > 0) else { return false };
        let port = SwitchPort { datapath, number };
        let (neighbor, silence) = if let Some(frame) = LldpFrame::decode(&packet.data) {
            if hmac::verify(&self.key, &told(frame.port), &frame.code).is_err() {
                return false;
            }
            (Neighbor::Switch(frame.port), self.silence())
        } else if let Some((address, announced)) = Announcement::decode(&packet.data) {
            let neighbor = Neighbor::Endpoint { name: announced.endpoint, address };
            (neighbor, Announcement::INTERVAL * SILENT_INTERVALS)
        } else {
            return false;
        };
        self.table.lock().hear(self.start.elapsed(), HeardFrame { port, neighbor, silence })
    }

    /// Forgets what a port hears, because it is down.
    pub(super) fn forget_port(&self, port: SwitchPort) {
        self.table.lock().forget_port(port);
    }

    /// Forgets neighbors that were silent for too long. Returns true if there were some.
    pub(super) fn forget_silent(&self) -> bool {
        self.table.lock().forget_silent(self.start.elapsed())
    }

    /// Ports of a switch at which endpoints are heard.
    pub(super) fn endpoint_ports(&self, datapath: u64) -> PortSet {
        self.table.lock().endpoint_ports(datapath).collect()
    }

    /// The fabric as it is heard.
    pub(super) fn graph(
        &self,
        switches: &[SeenSwitch],
        nodes: &Nodes,
    ) -> Result<Graph, BuildError> {
        self.table.lock().graph(switches, |datapath| nodes.name(datapath))
    }

    /// Cables of an expected fabric that lead elsewhere.
    pub(super) fn contradictions(
        &self,
        expected: &Graph,
        nodes: &Nodes,
    ) -> BTreeMap<PortId, Contradiction> {
        self.table.lock().contradictions(expected, |name| nodes.datapath(name))
    }

    fn silence(&self) -> Duration {
        self.interval.saturating_mul(SILENT_INTERVALS)
    }
}

/// Bytes of a port that its code is made of.
fn told(port: SwitchPort) -> [u8; 9] {
    let mut bytes = [port.number; 9];
    bytes[..8].copy_from_slice(&port.datapath.to_be_bytes());
    bytes
}
