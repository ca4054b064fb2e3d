//! The configuration of every part, checked before anything starts.
//!
//! Read [`load()`] first: it lays default, file, environment and flags over one another and gives a
//! checked value, in which no invalid setting is possible, or every problem at once. Each part has
//! its type: [`TicConfig`], [`RouterConfig`], [`FabricConfig`], [`OperatingAgentConfig`],
//! [`SwitchAgentConfig`]; and all have [`TelemetryConfig`], which [`load_all`] reads with that of a
//! part. One file can hold the sections of all:
//!
//! ```toml
//! [tic]
//! listen = "127.0.0.1:7401"
//! store = "tic.redb"
//! topology = "cluster.ibnetdiscover"
//!
//! [router]
//! colors = 16
//! ```
//!
//! A field is overridden by a variable `FABRICAST_<SECTION>__<KEY>`, such as
//! `FABRICAST_TIC__LISTEN`. A variable or flag for a field that is not a text holds TOML:
//! `FABRICAST_ROUTER__SWITCH_AGENTS='["a:7405", "b:7405"]'`. Durations are written `"250ms"`.

mod addresses;
mod detection;
mod fabric;
mod infiniband;
mod job_shares;
mod limits;
mod load;
mod operating_agent;
mod problem;
mod process_rules;
mod reload;
mod router;
mod switch_agent;
mod telemetry;
mod tic;
mod tree;
mod value;

pub use addresses::Addresses;
pub use detection::{Expel, FlapPolicyName, RawAdaptive, RawFlapping};
pub use fabric::{FabricConfig, RawFabricConfig};
pub use fabricast_store::StoreLocation;
pub use infiniband::{InfinibandConfig, RawInfinibandConfig, RoutingName};
pub use job_shares::RawJobShares;
pub use limits::RawLimits;
pub use load::{Flag, Role, SECTIONS, Sources, checked, load, load_all, load_text};
pub use operating_agent::{NodeConfig, OperatingAgentConfig, RawNode, RawOperatingAgentConfig};
pub use problem::{ConfigErrors, Location, Problem, Problems};
pub use process_rules::{Account, ProcessRule, RawProcessRule, UserGroup};
pub use reload::{Granting, Reload, Reread, read_again};
pub use router::{RawRouterConfig, RouterConfig};
pub use switch_agent::{DriverName, Hardware, RawSwitchAgentConfig, SwitchAgentConfig};
pub use telemetry::{LogFormat, RawTelemetryConfig, TelemetryConfig};
pub use tic::{RawTicConfig, TicConfig};
pub use value::{PeerAddress, Secret};

/// Ports that the parts listen on, unless told otherwise: all parts of a small installation fit
/// on one machine without a word of configuration about addresses.
mod ports {
    pub(crate) const TIC: u16 = 7401;
    pub(crate) const ROUTER: u16 = 7402;
    pub(crate) const FABRIC: u16 = 7403;
    pub(crate) const OPERATING_AGENT: u16 = 7404;
    pub(crate) const SWITCH_AGENT: u16 = 7405;

    pub(crate) fn loopback(port: u16) -> std::net::SocketAddr {
        (std::net::Ipv4Addr::LOCALHOST, port).into()
    }

    pub(crate) fn local_peer(port: u16) -> String {
        loopback(port).to_string()
    }
}
