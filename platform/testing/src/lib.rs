//! What the tests of several crates share: a real etcd to be killed and frozen, a way between two
//! processes that can be cut, and an InfiniBand fabric whose switches exist in a simulator that is not
//! ours.
//!
//! Read [`Etcd`], [`Proxy`] and [`Ibsim`] first. Only tests use this crate.

mod etcd;
mod ibsim;
mod proxy;

pub use etcd::Etcd;
pub use ibsim::{Ibsim, OpenSm};
pub use proxy::Proxy;
