//! The emulated fabric: switches with real tables that forward real packets, over gRPC.
//!
//! Read [`App`] first, then `fabric.rs`: one emulator ([`fabricast_emulator`]) behind one lock.
//! Processes attach endpoints by a stream, administrators break and repair parts, and switch
//! agents, which authenticate with the management key, read and write the tables.
//!
//! Invariants
//! - FAB-1: a slow receiver loses packets, and they are counted; it never holds up the fabric.
//! - FAB-2: an endpoint is attached by at most one stream, which alone sends from it.
//! - FAB-3: a write with a fence older than one of its switches has seen changes nothing.

mod aggregation;
mod api;
mod app;
mod disturb;
mod fabric;
mod key;
mod mailbox;
mod tables;
mod wire;
mod write_behavior;

pub use app::{App, Dropped, RunError, StartError};
