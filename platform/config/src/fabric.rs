//! Settings of the emulated fabric.

use std::net::SocketAddr;
use std::path::PathBuf;

use fabricast_rpc::Limits;
use fabricast_topology::TableKind;
use serde::Deserialize;

use crate::limits::RawLimits;
use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{Secret, check_aggregation, check_colors, check_connections, check_path};

/// Checked settings of the emulated fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Folder with the part's certificate; `None` for plain text.
    pub certificates: Option<PathBuf>,
    /// Limits of each client.
    pub limits: Limits,
    /// Path of the topology, as `ibnetdiscover` prints it.
    pub topology: PathBuf,
    /// Table entries of every switch, at least 1.
    pub colors: u16,
    /// One table for each switch, or one for each port.
    pub tables: TableKind,
    /// Entries of a switch's aggregation engine, at least 1.
    pub aggregation_entries: u16,
    /// Children of such an entry, at least 3.
    pub aggregation_children: u32,
    /// Key that proves a switch agent; nobody else may touch a table.
    pub management_key: Secret,
}

/// Section `[fabric]` as written.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawFabricConfig {
    /// Address to serve on; port 0 takes a free one. Default 127.0.0.1:7403: not reachable from
    /// other machines until someone decides so.
    pub listen: SocketAddr,
    /// Serve without encryption to other machines. Default false: only loopback is safe.
    pub allow_plaintext: bool,
    /// Folder with `ca.crt` (authorities to believe), `tls.crt` and `tls.key` (the part's own), all
    /// in PEM, as cert-manager names them. Given, all connections are encrypted and both ends show
    /// who they are; left out, none.
    pub certificates: Option<PathBuf>,
    /// Limits of each client, as `[fabric.limits]`.
    pub limits: RawLimits,
    /// Topology file, as `ibnetdiscover` prints it. No default: there is no usual network.
    pub topology: Option<PathBuf>,
    /// Table entries of every switch, 1 to 65535. Default 32: what the paper's switches have.
    pub colors: u16,
    /// `per-port` or `per-switch`. Default `per-port`, as the paper's switches.
    pub tables: TableKind,
    /// Entries of a switch's aggregation engine, at least 1. Default 16: what the paper's switches
    /// have.
    pub aggregation_entries: u16,
    /// Children of such an entry, at least 3. Default 64: the most the paper measured.
    pub aggregation_children: u32,
    /// Key that switch agents must show. No default: a key that everyone knows is none.
    pub management_key: Option<String>,
}

impl Default for RawFabricConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::FABRIC),
            allow_plaintext: false,
            certificates: None,
            limits: RawLimits::default(),
            topology: None,
            colors: 32,
            tables: TableKind::PerPort,
            aggregation_entries: 16,
            aggregation_children: 64,
            management_key: None,
        }
    }
}

impl Role for FabricConfig {
    type Raw = RawFabricConfig;
    const SECTION: &'static str = "fabric";

    fn check(raw: RawFabricConfig, problems: &mut Problems) -> Option<Self> {
        let certificates =
            check_connections(problems, raw.listen, raw.allow_plaintext, raw.certificates);
        let limits = raw.limits.check(problems);
        check_colors(problems, raw.colors);
        check_aggregation(problems, raw.aggregation_entries, raw.aggregation_children);
        let topology = check_path(problems, "topology", raw.topology);
        let management_key = Secret::check(problems, "management_key", raw.management_key);
        Some(Self {
            listen: raw.listen,
            certificates,
            limits,
            topology: topology?,
            colors: raw.colors,
            tables: raw.tables,
            aggregation_entries: raw.aggregation_entries,
            aggregation_children: raw.aggregation_children,
            management_key: management_key?,
        })
    }
}
