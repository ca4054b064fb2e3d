//! Tools of the end-to-end tests: the cluster of `deploy/compose` in real containers, which the
//! tests break on purpose.
//!
//! Read [`Cluster`] first: it controls the containers and calls the parts. [`Load`] changes groups
//! and [`Talk`] sends packets meanwhile; both record what was acknowledged and what arrived. The
//! tests run only with `cargo xtask e2e`.

#![expect(clippy::missing_panics_doc, reason = "a step that fails fails the test")]

mod cluster;
mod docker;
mod load;
mod talk;

pub use cluster::Cluster;
pub use docker::compose_files;
pub use load::Load;
pub use talk::Talk;
