//! Tools that the tests of several crates share: a real etcd whose members can be killed and
//! frozen, a proxy that can cut connections, and an InfiniBand fabric in the simulator ibsim.
//!
//! Read [`Etcd`], [`Proxy`] and [`Ibsim`] first. Only tests use this crate.

mod etcd;
mod ibsim;
mod proxy;

pub use etcd::Etcd;
pub use ibsim::{Ibsim, OpenSm};
pub use proxy::Proxy;
