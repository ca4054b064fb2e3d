//! What the tests of several crates share: a real etcd to be killed and frozen, and an InfiniBand
//! fabric whose switches exist in a simulator that is not ours.
//!
//! Read [`Etcd`] and [`Ibsim`] first. Only tests use this crate.

mod etcd;
mod ibsim;

pub use etcd::Etcd;
pub use ibsim::Ibsim;
