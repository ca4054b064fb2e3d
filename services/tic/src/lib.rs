//! The topology information centre (TIC): owns groups, members, nodes and the topology.
//!
//! Read [`App`] first: `app.rs` opens with a diagram of the tasks and channels. The rules of groups
//! are those of [`fabricast_groups::Directory`]; this crate makes its decisions durable, serves
//! them, and watches over the nodes that host group agents.
//!
//! | folder | job |
//! | --- | --- |
//! | `api` | the gRPC services; only here an error becomes a status |
//! | `writer` | the one task that changes the records: its queue, its requests, the commit |
//! | `records` | the committed records, their watches, and their form in the store |
//! | `domain` | the rest that the writer decides on: choices, collectives, jobs, MGIDs |
//! | `leadership` | election among several TICs, and the services and tasks of one term |
//! | `liveness` | the watch over nodes, and calls to them |
//!
//! Invariants
//! - AGG-8: what switches are told to hold for collectives is durable; a tree's number is used
//!   once.
//! - CHOICE-1: the choices of the route service are kept as its newest report left them.
//! - G3: nothing is answered, published or hinted before the store has acknowledged it.
//! - G4: a TIC that does not lead changes nothing and answers for nobody.
//! - S1: every queue is bounded; every mutation can be repeated.
//! - S2: a refused request changes nothing, and its message names the field.

mod api;
mod app;
mod audit;
mod clock;
mod config;
mod domain;
mod error_text;
mod expiry;
mod gauges;
mod leadership;
mod liveness;
mod records;
mod writer;

pub use app::{App, LiveSettings, StartError};
pub use config::Setup;
pub use domain::collectives::member_trees::{decode_constants, encode_constants};
pub use domain::topology::TopologySource;
pub use fabricast_store::StoreLocation;
pub use leadership::RunError;
pub use records::backup;
pub use records::keys::RecordsError;
