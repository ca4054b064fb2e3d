//! Settings of an operating agent process, which may host the agents of many nodes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use crate::addresses::Addresses;
use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{PeerAddress, check_listen, check_longer, check_positive};

/// Checked settings of an operating agent process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatingAgentConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// The TICs.
    pub tic: Vec<PeerAddress>,
    /// The fabric that the endpoints are attached to.
    pub fabric: PeerAddress,
    /// Nodes it is the agent of, at least one; every endpoint belongs to one of them only.
    pub nodes: Vec<NodeConfig>,
    /// Time between two reports, to group agents and to the TIC.
    pub report_interval: Duration,
    /// A group agent hosted here probes a node that has not reported for this time.
    pub report_timeout: Duration,
    /// How long to wait for the answer to one probe; two without an answer are a verdict.
    pub probe_timeout: Duration,
}

/// One compute node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Name of the node.
    pub name: String,
    /// Its endpoints, at least one, as the topology names them.
    pub endpoints: Vec<String>,
}

/// Section `[operating_agent]` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawOperatingAgentConfig {
    /// Address to serve on, of one interface, for the TIC and other nodes are told it; port 0
    /// takes a free one. Default 127.0.0.1:7404: not reachable from other machines until someone
    /// decides so.
    pub listen: SocketAddr,
    /// Serve without encryption to other machines. Default false: only loopback is safe.
    pub allow_plaintext: bool,
    /// The TIC, `host:port`, or a list of all that share a store: the one that leads is found. Default
    /// 127.0.0.1:7401, the TIC's own default.
    pub tic: Addresses,
    /// The emulated fabric, `host:port`. Default 127.0.0.1:7403, the fabric's own default.
    pub fabric: String,
    /// The nodes hosted here, as `[[operating_agent.nodes]]`. No default: a node has a name.
    pub nodes: Vec<RawNode>,
    /// Default 500ms: two thousand messages a second for a thousand nodes, and a failure is
    /// noticed within seconds.
    #[serde(with = "humantime_serde")]
    pub report_interval: Duration,
    /// Default 2s: four intervals, so that one lost report or a pause of a second expels nobody.
    #[serde(with = "humantime_serde")]
    pub report_timeout: Duration,
    /// Default 500ms, for each of two probes, as the TIC's: a thousand times a round trip in a
    /// cluster, so only the dead miss it, and one lost message expels nobody.
    #[serde(with = "humantime_serde")]
    pub probe_timeout: Duration,
}

/// One compute node as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawNode {
    /// Name of the node, unique in the cluster. No default.
    pub name: Option<String>,
    /// Its endpoints, as the topology names them. Default: the one named like the node, which is
    /// what the topology calls the only port of a node.
    pub endpoints: Option<Vec<String>>,
}

impl Default for RawOperatingAgentConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::OPERATING_AGENT),
            allow_plaintext: false,
            tic: Addresses::one(ports::local_peer(ports::TIC)),
            fabric: ports::local_peer(ports::FABRIC),
            nodes: Vec::new(),
            report_interval: Duration::from_millis(500),
            report_timeout: Duration::from_secs(2),
            probe_timeout: Duration::from_millis(500),
        }
    }
}

impl Role for OperatingAgentConfig {
    type Raw = RawOperatingAgentConfig;
    const SECTION: &'static str = "operating_agent";

    fn check(raw: RawOperatingAgentConfig, problems: &mut Problems) -> Option<Self> {
        check_listen(problems, raw.listen, raw.allow_plaintext);
        check_positive(problems, "report_interval", raw.report_interval);
        check_positive(problems, "probe_timeout", raw.probe_timeout);
        check_longer(
            problems,
            ("report_timeout", raw.report_timeout),
            ("report_interval", raw.report_interval),
        );
        if raw.listen.ip().is_unspecified() {
            let what = "the TIC and other nodes are told this address: name that of one interface";
            problems.add("listen", what);
        }
        let tic = raw.tic.check(problems, "tic");
        let fabric = PeerAddress::check(problems, "fabric", &raw.fabric);
        let nodes = check_nodes(problems, raw.nodes);
        Some(Self {
            listen: raw.listen,
            tic: tic?,
            fabric: fabric?,
            nodes: nodes?,
            report_interval: raw.report_interval,
            report_timeout: raw.report_timeout,
            probe_timeout: raw.probe_timeout,
        })
    }
}

fn check_nodes(problems: &mut Problems, raw: Vec<RawNode>) -> Option<Vec<NodeConfig>> {
    if raw.is_empty() {
        problems.add("nodes", "empty; an operating agent serves at least one node");
        return None;
    }
    let mut names = BTreeMap::new();
    let mut owners = BTreeMap::new();
    let mut nodes = Some(Vec::new());
    for (index, node) in raw.into_iter().enumerate() {
        let node = check_node(problems, index, node);
        if let Some(node) = &node {
            if let Some(earlier) = names.insert(node.name.clone(), index) {
                let what = format!("'{}' is also the name of nodes[{earlier}]", node.name);
                problems.add(&format!("nodes[{index}].name"), what);
            }
            for (place, endpoint) in node.endpoints.iter().enumerate() {
                if let Some(owner) = owners.insert(endpoint.clone(), node.name.clone()) {
                    let what = format!("'{endpoint}' already belongs to node '{owner}'");
                    problems.add(&format!("nodes[{index}].endpoints[{place}]"), what);
                }
            }
        }
        nodes = nodes.zip(node).map(|(mut nodes, node)| {
            nodes.push(node);
            nodes
        });
    }
    nodes
}

fn check_node(problems: &mut Problems, index: usize, raw: RawNode) -> Option<NodeConfig> {
    let name_field = format!("nodes[{index}].name");
    let name = problems.required(&name_field, raw.name)?;
    if name.is_empty() {
        problems.add(&name_field, "empty");
        return None;
    }
    let endpoints = raw.endpoints.unwrap_or_else(|| vec![name.clone()]);
    if endpoints.is_empty() {
        let what = "empty; a node without an endpoint cannot join a group";
        problems.add(&format!("nodes[{index}].endpoints"), what);
        return None;
    }
    Some(NodeConfig { name, endpoints })
}
