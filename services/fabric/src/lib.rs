//! The emulated fabric: switches with real tables that move real packets, over gRPC.
//!
//! Read [`App`] first. One emulator ([`fabricast_emulator`]) behind one lock; processes attach
//! endpoints by a stream, administrators break and mend parts, and switch agents, who prove
//! themselves with the management key, reach the tables.
//!
//! Invariants
//! - FAB-1: a slow receiver loses packets, and they are counted; it never holds up the fabric.
//! - FAB-2: an endpoint is attached by at most one stream, which alone sends from it.
//! - FAB-3: a write with a fence older than one of its switches has seen changes nothing.

mod aggregation;
mod aggregation_service;
mod app;
mod attach;
mod disturb;
mod fabric;
mod key;
mod mailbox;
mod service;
mod tables;
mod wire;

pub use app::{App, DEFAULT_QUEUE, Dropped, Options, RunError, StartError};
