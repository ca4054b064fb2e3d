//! Settings of a switch agent.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::Deserialize;

use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{PeerAddress, Secret, check_listen};

/// Checked settings of a switch agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchAgentConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// The emulated fabric whose switches it programs.
    pub fabric: PeerAddress,
    /// Key that the fabric wants to see.
    pub management_key: Secret,
    /// Node ids of the switches it programs; `None` for all.
    pub switches: Option<BTreeSet<String>>,
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
    /// The emulated fabric, `host:port`. Default 127.0.0.1:7403, the fabric's own default.
    pub fabric: String,
    /// Key that the fabric wants to see. No default: a key that everyone knows is none.
    pub management_key: Option<String>,
    /// Node ids such as `S-ec0d9a0300ec8240`. Left out: all switches of the fabric, which is
    /// right for a single agent.
    pub switches: Option<Vec<String>>,
}

impl Default for RawSwitchAgentConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::SWITCH_AGENT),
            allow_plaintext: false,
            fabric: ports::local_peer(ports::FABRIC),
            management_key: None,
            switches: None,
        }
    }
}

impl Role for SwitchAgentConfig {
    type Raw = RawSwitchAgentConfig;
    const SECTION: &'static str = "switch_agent";

    fn check(raw: RawSwitchAgentConfig, problems: &mut Problems) -> Option<Self> {
        check_listen(problems, raw.listen, raw.allow_plaintext);
        let fabric = PeerAddress::check(problems, "fabric", &raw.fabric);
        let management_key = Secret::check(problems, "management_key", raw.management_key);
        let switches = raw.switches.map(|names| check_switches(problems, names));
        Some(Self {
            listen: raw.listen,
            fabric: fabric?,
            management_key: management_key?,
            switches,
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
