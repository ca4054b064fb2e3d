//! The topology information centre (TIC): owns groups, members, nodes and the topology.
//!
//! Read [`App`] first: `app.rs` opens with the diagram of its tasks. The rules are in
//! `fabricast_groups` ([`fabricast_groups::Directory`]); this crate makes its decisions durable,
//! serves them as `fabricast.v1.TicService`, and keeps an eye on the nodes that host group agents.
//!
//! Invariants
//! - AGG-8: what switches are told to hold for collectives is durable; a tree's number is used once.
//! - CHOICE-1: what the route service chose is kept as its newest report left it.
//! - G3: nothing is answered, published or hinted before the store has acknowledged it.
//! - G4: a TIC that does not lead changes nothing and answers for nobody.
//! - S1: every queue is bounded; every mutation can be repeated.
//! - S2: a refused request changes nothing, and its message names the field.

mod app;
mod audit;
pub mod backup;
mod batch_service;
mod batches;
mod causes;
mod choice_service;
mod choices;
mod clock;
mod collective_service;
mod collectives;
mod commit;
mod election;
mod elements;
mod fields;
mod hints;
mod job_service;
mod jobs;
mod layout;
mod liveness;
mod members;
mod mgids;
mod nodes;
mod office;
mod orders;
mod pages;
mod peers;
mod records;
mod refusals;
mod ruling;
mod service;
mod storage;
mod terms;
mod topology;
mod topology_service;
mod unwritten;
mod watchers;
mod wire;
mod wishes;
mod writer;

pub use app::{App, LiveSettings, Options, RunError, StartError};
pub use fabricast_store::StoreLocation;
pub use storage::RecordsError;
pub use topology::TopologySource;
