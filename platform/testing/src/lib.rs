//! What the tests of several crates share: for now, a real etcd to be killed and frozen.
//!
//! Read [`Etcd`] first. Only tests use this crate.

mod etcd;

pub use etcd::Etcd;
