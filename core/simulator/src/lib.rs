//! A packet-level timing model of the fabric: what plans cost in latency and throughput.
//!
//! Read [`Simulator`] first: a graph, the trees of a plan ([`Routes`]) and a [`Model`] of links and
//! switches in; a [`Workload`] says what endpoints send and hears what arrives, and when. Switches
//! are those of the Dawning 5000 paper: virtual cut-through, input buffers, credits, a crossbar
//! with a matrix arbiter, and a choice of ways in which multicast gets its outputs
//! ([`MulticastPolicy`]).
//!
//! Event-driven, in whole picoseconds: the same seed gives the same bytes on every machine. Memory
//! grows with ports and packets under way, never with simulated time.
#![warn(clippy::wildcard_enum_match_arm)]

mod chance;
mod collective;
mod event;
mod fabric;
mod m_port_tree;
mod model;
mod queue;
mod rooted;
mod routes;
mod simulator;
mod slab;
mod traffic;
mod unicast;
mod wiring;
mod workload;

pub use chance::Chance;
pub use collective::{
    Collective, CollectiveCounters, CollectiveError, CollectiveSpec, Operation, ProcessPlan, Round,
    grid_processes,
};
pub use fabric::{Counters, Deadlock, Wait, WaitFor};
pub use m_port_tree::{MPortTreeError, m_port_n_tree};
pub use model::{Model, ModelError, MulticastPolicy};
pub use queue::{EventQueue, HeapQueue, TimingWheel};
pub use rooted::{RootedError, Roots};
pub use routes::{Routes, TreeError, TreeId};
pub use simulator::{RunError, Simulator};
pub use traffic::{
    Destinations, Finished, LoadMeasure, MulticastLoad, Reading, Received, Registers, Streams,
    StreamsSpec, UnicastLoad, UnicastPattern,
};
pub use workload::{Delivery, Network, Offer, Packet, PortStatistics, Route, Trail, Workload};
