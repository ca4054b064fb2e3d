//! The cluster of `deploy/compose`, in real containers, to be broken on purpose.
//!
//! Read [`Cluster`] first: what can be done to containers, and what the cluster says of itself. [`Load`] is what goes
//! on meanwhile, and keeps a history of what was acknowledged. The tests are left out unless they are asked for, by
//! `cargo xtask e2e`.

#![expect(clippy::missing_panics_doc, reason = "a step that fails fails the test")]

mod cluster;
mod docker;
mod load;

pub use cluster::Cluster;
pub use load::Load;
