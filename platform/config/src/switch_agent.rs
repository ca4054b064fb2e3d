//! Settings of a switch agent.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fabricast_rpc::Limits;
use serde::Deserialize;

use crate::addresses::Addresses;
use crate::infiniband::{InfinibandConfig, RawInfinibandConfig};
use crate::limits::RawLimits;
use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{
    PeerAddress, Secret, check_calls, check_connections, check_name, check_positive,
};

/// Checked settings of a switch agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchAgentConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Folder with the part's certificate; `None` for plain text.
    pub certificates: Option<PathBuf>,
    /// Limits of each client.
    pub limits: Limits,
    /// Its name, unique among switch agents.
    pub name: String,
    /// The TICs, of which the one that leads is told of failed parts of the fabric.
    pub tic: Vec<PeerAddress>,
    /// The hardware it programs.
    pub hardware: Hardware,
    /// Node ids of the switches it programs; `None` for all.
    pub switches: Option<BTreeSet<String>>,
    /// Time between two reports of failed parts when nothing changes.
    pub report_interval: Duration,
}

/// The hardware a switch agent programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// The emulated fabric.
    Emulated {
        /// Address of the fabric.
        fabric: PeerAddress,
        /// Key that it wants to see.
        management_key: Secret,
    },
    /// InfiniBand switches, through libibumad.
    Infiniband(InfinibandConfig),
    /// Hardware of a driver that checks its own options.
    Other {
        /// Name of the driver.
        driver: String,
        /// Its options, as TOML.
        options: String,
    },
}

/// Name of a driver, as in the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum DriverName {
    /// The emulated fabric.
    #[default]
    Emulated,
    /// InfiniBand switches, through libibumad.
    Infiniband,
    /// A driver without a section of its own in the settings.
    Other(String),
}

impl From<String> for DriverName {
    fn from(name: String) -> Self {
        match name.as_str() {
            "emulated" => Self::Emulated,
            "infiniband" => Self::Infiniband,
            _ => Self::Other(name),
        }
    }
}

impl Hardware {
    /// Address of the emulated fabric, if it is that.
    #[must_use]
    pub fn fabric(&self) -> Option<&PeerAddress> {
        match self {
            Self::Emulated { fabric, .. } => Some(fabric),
            Self::Infiniband(_) | Self::Other { .. } => None,
        }
    }

    /// Name of the driver.
    #[must_use]
    pub fn driver_name(&self) -> &str {
        match self {
            Self::Emulated { .. } => "emulated",
            Self::Infiniband(_) => "infiniband",
            Self::Other { driver, .. } => driver,
        }
    }
}

/// Section `[switch_agent]` as written.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawSwitchAgentConfig {
    /// Address to serve on; port 0 takes a free one. Default 127.0.0.1:7405: not reachable from
    /// other machines until someone decides so.
    pub listen: SocketAddr,
    /// Serve without encryption to other machines. Default false: only loopback is safe.
    pub allow_plaintext: bool,
    /// Folder with `ca.crt` (authorities to believe), `tls.crt` and `tls.key` (the part's own), all
    /// in PEM, as cert-manager names them. Given, all connections are encrypted and both ends show
    /// who they are; left out, none.
    pub certificates: Option<PathBuf>,
    /// Limits of each client, as `[switch_agent.limits]`.
    pub limits: RawLimits,
    /// Its name. No default: two agents of one name would overwrite each other's reports.
    pub name: Option<String>,
    /// The TIC, `host:port`, or a list of all that share a store: the one that leads is found.
    /// Default 127.0.0.1:7401, the TIC's own default.
    pub tic: Addresses,
    /// Driver of the hardware: `emulated`, `infiniband`, `openflow` or `bridge`. Default
    /// `emulated`: it needs no hardware.
    pub driver: DriverName,
    /// Options of a driver that has no settings here. The driver checks them. Default: none.
    pub driver_options: toml::Table,
    /// The emulated fabric, `host:port`. Default 127.0.0.1:7403, the fabric's own default.
    pub fabric: String,
    /// Key that the emulated fabric wants to see. No default: a key that everyone knows is none.
    pub management_key: Option<String>,
    /// Access to InfiniBand switches; only read with `driver = "infiniband"`.
    pub infiniband: RawInfinibandConfig,
    /// Node ids such as `S-ec0d9a0300ec8240`. Left out: all switches of the fabric, which is
    /// right for a single agent.
    pub switches: Option<Vec<String>>,
    /// Default 1s: what failed is reported at once, so this only makes up for a lost report.
    #[serde(with = "humantime_serde")]
    pub report_interval: Duration,
}

impl Default for RawSwitchAgentConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::SWITCH_AGENT),
            allow_plaintext: false,
            certificates: None,
            limits: RawLimits::default(),
            name: None,
            tic: Addresses::from_iter([ports::local_peer(ports::TIC)]),
            driver: DriverName::default(),
            driver_options: toml::Table::new(),
            fabric: ports::local_peer(ports::FABRIC),
            management_key: None,
            infiniband: RawInfinibandConfig::default(),
            switches: None,
            report_interval: Duration::from_secs(1),
        }
    }
}

impl Role for SwitchAgentConfig {
    type Raw = RawSwitchAgentConfig;
    const SECTION: &'static str = "switch_agent";

    fn check(raw: RawSwitchAgentConfig, problems: &mut Problems) -> Option<Self> {
        let certificates =
            check_connections(problems, raw.listen, raw.allow_plaintext, raw.certificates);
        let unasked = certificates.is_none() && !raw.allow_plaintext;
        let limits = raw.limits.check(problems);
        check_positive(problems, "report_interval", raw.report_interval);
        let name = check_name(problems, "name", raw.name);
        let tic = raw.tic.check(problems, "tic");
        check_calls(problems, unasked, "tic", tic.iter().flatten());
        let hardware = match raw.driver {
            DriverName::Emulated => {
                let fabric = PeerAddress::check(problems, "fabric", &raw.fabric);
                check_calls(problems, unasked, "fabric", &fabric);
                let key = Secret::check(problems, "management_key", raw.management_key);
                fabric
                    .zip(key)
                    .map(|(fabric, management_key)| Hardware::Emulated { fabric, management_key })
            }
            DriverName::Infiniband => raw.infiniband.check(problems).map(Hardware::Infiniband),
            DriverName::Other(driver) => {
                Some(Hardware::Other { driver, options: raw.driver_options.to_string() })
            }
        };
        let switches = raw.switches.map(|names| check_switches(problems, names));
        Some(Self {
            listen: raw.listen,
            certificates,
            limits,
            name: name?,
            tic: tic?,
            hardware: hardware?,
            switches,
            report_interval: raw.report_interval,
        })
    }
}

fn check_switches(problems: &mut Problems, names: Vec<String>) -> BTreeSet<String> {
    if names.is_empty() {
        problems.add("switches", "empty; leave it out to mean all switches");
    }
    let mut switches = BTreeSet::new();
    for (index, name) in names.into_iter().enumerate() {
        let field = format!("switches[{index}]");
        if name.is_empty() {
            problems.add(&field, "empty; expected a node id such as S-ec0d9a0300ec8240");
        } else if !switches.insert(name) {
            problems.add(&field, "listed twice");
        }
    }
    switches
}
