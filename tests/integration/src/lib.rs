//! Tools of the integration tests: a cluster with every part of Fabricast in a runtime of its own.
//!
//! Read [`Cluster`] first. Parts talk over real gRPC on ports that the system chooses. Each can be
//! killed as a process is killed (no work is finished and its connections break) and restarted at
//! the same address on the same store. [`Client`] calls the parts, [`Traffic`] counts packets, and
//! [`audit()`] walks packets through the tables that were read back.

mod audit;
mod client;
mod cluster;
mod collectives;
mod conditions;
mod conformance;
mod layout;
mod part;
mod starters;
mod traffic;
mod trees;
mod wait;

pub use audit::{audit, copied, table_entries};
pub use client::{Client, color_of};
pub use cluster::{Cluster, MANAGEMENT_KEY, start_fabric, start_switch_agent};
pub use collectives::{Contribution, Operation, number};
pub use conformance::Conformance;
pub use layout::Layout;
pub use part::{Bound, Part};
pub use traffic::{Flow, Traffic};
pub use trees::member_tables_agree;
pub use wait::{DEADLINE, eventually, soon};
