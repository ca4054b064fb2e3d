//! Settings of the emulated fabric.

use std::net::SocketAddr;
use std::path::PathBuf;

use fabricast_topology::TableKind;
use serde::Deserialize;

use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{Secret, check_colors, check_listen, check_path};

/// Checked settings of the emulated fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Topology file.
    pub topology: PathBuf,
    /// Table entries of every switch, at least 1.
    pub colors: u16,
    /// How the switches key their tables.
    pub tables: TableKind,
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
    /// Topology file, as `ibnetdiscover` prints it. No default: there is no usual network.
    pub topology: Option<PathBuf>,
    /// Table entries of every switch, 1 to 65535. Default 32: what the paper's switches have.
    pub colors: u16,
    /// `per-port` or `per-switch`. Default `per-port`, as the paper's switches.
    pub tables: TableKind,
    /// Key that switch agents must show. No default: a key that everyone knows is none.
    pub management_key: Option<String>,
}

impl Default for RawFabricConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::FABRIC),
            allow_plaintext: false,
            topology: None,
            colors: 32,
            tables: TableKind::PerPort,
            management_key: None,
        }
    }
}

impl Role for FabricConfig {
    type Raw = RawFabricConfig;
    const SECTION: &'static str = "fabric";

    fn check(raw: RawFabricConfig, problems: &mut Problems) -> Option<Self> {
        check_listen(problems, raw.listen, raw.allow_plaintext);
        check_colors(problems, raw.colors);
        let topology = check_path(problems, "topology", raw.topology);
        let management_key = Secret::check(problems, "management_key", raw.management_key);
        Some(Self {
            listen: raw.listen,
            topology: topology?,
            colors: raw.colors,
            tables: raw.tables,
            management_key: management_key?,
        })
    }
}
