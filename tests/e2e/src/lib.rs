//! The cluster of `deploy/compose`, in real containers, to be broken on purpose.
//!
//! Read [`Cluster`] first: what can be done to containers, and what the cluster says of itself. [`Load`] and [`Talk`]
//! are what goes on meanwhile; they keep a history of what was acknowledged and of what arrived. The tests are left out unless they are asked for, by
//! `cargo xtask e2e`.

#![expect(clippy::missing_panics_doc, reason = "a step that fails fails the test")]

mod cluster;
mod docker;
mod load;
mod talk;

pub use cluster::Cluster;
pub use docker::compose_files;
pub use load::Load;
pub use talk::Talk;
