//! Tools that the tests of several crates share: a real etcd whose members can be killed and
//! frozen, a proxy that can cut connections, an InfiniBand fabric in the simulator ibsim, real
//! switches of Open vSwitch and of the kernel, a Python that speaks gRPC, and grpcurl.
//!
//! A tool that is not installed fails the test. Tests that need one are in a module `needs_<tool>`,
//! as `needs_etcd`: `cargo xtask test` leaves these modules out where it cannot install the tool.
//!
//! Read [`Etcd`], [`Proxy`], [`Ibsim`], [`Ovs`] and [`Bridges`] first. Only tests use this crate.

mod bridges;
mod etcd;
mod ibsim;
mod ovs;
mod proxy;
mod python;

pub use bridges::Bridges;
pub use etcd::Etcd;
pub use ibsim::{Ibsim, OpenSm};
pub use ovs::Ovs;
pub use proxy::Proxy;
pub use python::{grpcurl, python};

/// A port of a real switch.
#[derive(Clone, Copy, Debug)]
pub struct SwitchPort<'a> {
    /// Name of the switch.
    pub switch: &'a str,
    /// Number of the port, from 1.
    pub number: u32,
}

/// The remedy for a tool that is not installed.
const INSTALL: &str = "`cargo xtask setup` installs it";
