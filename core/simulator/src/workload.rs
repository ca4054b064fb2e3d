//! The interface between the simulator and its workload: packets to send, copies delivered.

use fabricast_topology::{EndpointId, FatTree, Graph};

use crate::routes::{Routes, TreeId};

/// Decides what adapters send, and receives what arrives.
///
/// All calls of one moment come in the order of the endpoint numbers, deliveries first. An answer
/// may depend on earlier calls only.
pub trait Workload {
    /// Returns the next packet of an endpoint on a virtual channel. Called when the buffer of the
    /// adapter is empty, after every delivery to the endpoint, and at the time of [`Offer::At`].
    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer;

    /// Handles a copy whose tail has arrived.
    fn delivered(&mut self, now_ps: u64, delivery: &Delivery);

    /// Runs tasks of an endpoint other than sending; returns the time of the next call, in
    /// picoseconds. Called at that time, and before every [`Self::next`] of the endpoint.
    fn act(&mut self, _now_ps: u64, _at: EndpointId) -> Option<u64> {
        None
    }
}

/// Next step of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Sends a packet as soon as link and credit allow.
    Send(Packet),
    /// Asks again at a later time, in picoseconds.
    At(u64),
    /// Waits for a delivery.
    Nothing,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Endpoint or tree that the packet goes to.
    pub route: Route,
    /// Length in bytes with the header; 1 to the size of a buffer.
    pub bytes: u32,
    /// Time of its creation in picoseconds: now or earlier.
    pub born_ps: u64,
    /// Free for use by the workload.
    pub tag: u64,
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// One endpoint, along unicast routes.
    Unicast(EndpointId),
    /// Another endpoint of the same node, which the packet reaches at once without the fabric.
    Inside(EndpointId),
    /// All members of a tree on which its endpoint can send.
    Tree(TreeId),
}

/// A copy that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Endpoint that received the copy.
    pub to: EndpointId,
    /// Endpoint that sends the packet.
    pub from: EndpointId,
    /// Length in bytes with the header.
    pub bytes: u32,
    /// Time of its creation in picoseconds.
    pub born_ps: u64,
    /// Time at which its adapter started to send it, in picoseconds.
    pub sent_ps: u64,
    /// Tag of the packet.
    pub tag: u64,
    /// Waiting times on its path, if they are recorded.
    pub trail: Option<Trail>,
}

/// Fabric to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// Switches, endpoints and links.
    pub graph: &'a Graph,
    /// Fat-tree view of the graph, which unicast follows.
    pub fat_tree: &'a FatTree,
    /// Trees that multicast follows.
    pub routes: &'a Routes,
}

/// Waiting times of a copy on its path, stage by stage: its adapter, then every switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    waits_ps: [u64; 8],
    stages: u8,
}

impl Trail {
    /// Lists for each stage the time from when the head could have left to when it left, in
    /// picoseconds: the wait for links, arbitration and credit.
    #[must_use]
    pub fn waits_ps(&self) -> &[u64] {
        &self.waits_ps[..usize::from(self.stages)]
    }

    pub(crate) fn push(&mut self, wait_ps: u64) {
        // The longest path in four levels is an adapter and seven switches.
        if let Some(place) = self.waits_ps.get_mut(usize::from(self.stages)) {
            *place = wait_ps;
            self.stages += 1;
        }
    }
}

/// Statistics registers of a switch port, counted since the start (Dawning §4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Bytes sent by the port.
    pub sent_bytes: u64,
    /// Picoseconds that packets waited at the head of a buffer before this port sent them.
    pub waited_ps: u64,
}
