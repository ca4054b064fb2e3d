//! Settings of an operating agent process, which may host the agents of many nodes.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fabricast_groups::detector::DetectorConfig;
use fabricast_groups::programs::{AddressRange, RangeError, SenderLimits};
use fabricast_rpc::Limits;
use serde::Deserialize;

use crate::addresses::Addresses;
use crate::detection::{Expel, RawAdaptive, RawDetection};
use crate::limits::RawLimits;
use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::process_rules::{self, ProcessRule, RawProcessRule};
use crate::value::{
    Field, PeerAddress, check_calls, check_connections, check_longer, check_mode, check_path,
    check_positive,
};

/// Without the scope of an organization, where the colors have their addresses (docs/openflow.md).
const PROGRAM_RANGES: [&str; 3] = ["239.0.0.0/9", "239.128.0.0/10", "239.255.0.0/16"];

/// Most addresses that programs of an interface may send to without having joined.
const MOST_SENDERS: usize = 1000;

/// Checked settings of an operating agent process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatingAgentConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Folder with the part's certificate; `None` for plain text.
    pub certificates: Option<PathBuf>,
    /// Limits of each client.
    pub limits: Limits,
    /// Address that the TIC and other nodes use; `None` for `listen`.
    pub advertise: Option<PeerAddress>,
    /// Addresses of all TICs that share a store.
    pub tic: Vec<PeerAddress>,
    /// The emulated fabric that the endpoints are attached to; `None` if they are adapters.
    pub fabric: Option<PeerAddress>,
    /// Nodes it is the agent of, at least one; every endpoint belongs to one of them only.
    pub nodes: Vec<NodeConfig>,
    /// Unix domain socket for the processes of this machine; `None` if none can attach.
    pub socket: Option<PathBuf>,
    /// Permissions of the socket's file: a user who may write to it may attach processes.
    pub socket_mode: u32,
    /// The groups that processes at the socket may use, by the first rule that applies to them. A
    /// process without a rule is refused; if there are no rules, all may use all groups.
    pub process_rules: Vec<ProcessRule>,
    /// Folder for memory that is shared with processes; `None` if none is.
    pub shared_memory: Option<PathBuf>,
    /// Addresses that programs of IP multicast may join; others are left alone.
    pub program_ranges: Vec<AddressRange>,
    /// Limits for what programs send to without having joined.
    pub program_senders: SenderLimits,
    /// Address of the packets of color 0; those of others follow. `None` if processes send none.
    pub color_addresses: Option<Ipv4Addr>,
    /// True if the interfaces of nodes are announced, for switch agents that look for endpoints.
    pub announce: bool,
    /// Time between two reports, to group agents and to the TIC.
    pub report_interval: Duration,
    /// Times after which a group agent hosted here probes a member's node, and reports it to the
    /// TIC.
    pub detector: DetectorConfig,
}

/// One compute node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Name of the node.
    pub name: String,
    /// Its endpoints, at least one, as the topology names them.
    pub endpoints: Vec<String>,
    /// Endpoint by the interface of this machine that it is; what programs join there by IP
    /// multicast are memberships of the node.
    pub interfaces: BTreeMap<String, String>,
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
    /// Folder with `ca.crt` (authorities to believe), `tls.crt` and `tls.key` (the part's own), all
    /// in PEM, as cert-manager names them. Given, all connections are encrypted and both ends show
    /// who they are; left out, none.
    pub certificates: Option<PathBuf>,
    /// Limits of each client, as `[operating_agent.limits]`.
    pub limits: RawLimits,
    /// Address that the TIC and other nodes use, `host:port`. Default: the address it listens
    /// at, which will not do if that is of all interfaces, or if certificates are for names.
    pub advertise: Option<String>,
    /// The TIC, `host:port`, or a list of all that share a store: the one that leads is found.
    /// Default 127.0.0.1:7401, the TIC's own default.
    pub tic: Addresses,
    /// The emulated fabric, `host:port`, or `none` where endpoints are real adapters. Default
    /// 127.0.0.1:7403, the fabric's own default.
    pub fabric: String,
    /// The nodes hosted here, as `[[operating_agent.nodes]]`. No default: a node has a name.
    pub nodes: Vec<RawNode>,
    /// Path of a Unix domain socket at which processes of this machine attach. A file left there by
    /// a dead agent is replaced. Default none: no process can attach.
    pub socket: Option<PathBuf>,
    /// Permissions of the socket's file, in octal. Default 600: only the user that the agent runs
    /// as may attach processes; 660 lets its group, too.
    pub socket_mode: String,
    /// Rules for the groups that a process may use, as `[[operating_agent.process_rules]]`; the
    /// first that applies decides, and a process without one is refused. Default none: every
    /// process that may open the socket may use the groups of all tenants.
    pub process_rules: Vec<RawProcessRule>,
    /// Folder for memory that is shared with attached processes, for long payloads; it lies in
    /// memory (tmpfs), and the processes see it under the same path. Empty, or where that is not
    /// so, all payloads go through the socket. Default `/dev/shm`, which every Linux has; for
    /// processes in other containers a folder that all of them mount.
    pub shared_memory: PathBuf,
    /// Ranges of the IPv4 multicast addresses that are groups of Fabricast if programs join them on
    /// one of a node's `interfaces`; others are left alone. Default: 239.0.0.0 to 239.191.255.255
    /// and 239.255.0.0/16, which is all that is administered by a site but the range in which the
    /// addresses of colors are.
    pub program_ranges: Vec<String>,
    /// Addresses of these ranges, 0 to 1000 for each interface, that programs may send to at a time
    /// without having joined: they are found by their packets, and the node then only sends.
    /// Default 64: each may be a group and a flow in switches, and few programs only send. 0:
    /// senders have to join.
    pub program_senders: usize,
    /// Time without a packet after which programs send no more to such an address, at least 1s:
    /// they are looked at twice a second. Default 60s: a program that sends every few seconds is
    /// not routed anew each time.
    #[serde(with = "humantime_serde")]
    pub program_sender_timeout: Duration,
    /// IPv4 address of color 0, as `addresses` of the driver of the switches: with `interfaces`,
    /// processes that talk to each other directly send to a whole group by the switches. Empty:
    /// they do not. Default 239.192.0.0, as the driver's.
    pub color_addresses: String,
    /// Send a datagram by each of a node's `interfaces` every 2s that says which endpoint it is,
    /// for a switch agent that finds the topology of OpenFlow switches. Default false: where the
    /// topology is known, nobody reads them, and other networks pass them on to all hosts.
    pub announce: bool,
    /// Default 500ms: two thousand messages a second for a thousand nodes, and a failure is
    /// noticed within seconds.
    #[serde(with = "humantime_serde")]
    pub report_interval: Duration,
    /// A member's node that has not reported for this time to a group agent here is asked, or
    /// reported to the TIC. Default 2s: four intervals, so that one lost report or a pause of a
    /// second expels nobody.
    #[serde(with = "humantime_serde")]
    pub report_timeout: Duration,
    /// Adaptive timeouts of reports, as `[operating_agent.adaptive]`. Default: none.
    pub adaptive: Option<RawAdaptive>,
    /// `probe` a node whose report is overdue before the TIC hears of it, or `expel`: let the TIC
    /// decide at once. Default `probe`: most silence is a lost message.
    pub on_silence: Expel,
    /// Timeout of one probe. Default 500ms, as the TIC's: a thousand times
    /// a round trip in a cluster, so only the dead miss it.
    #[serde(with = "humantime_serde")]
    pub probe_timeout: Duration,
    /// Probes without an answer, one after the other, before a node is reported; at least 1.
    /// Default 2: one lost message reports nobody.
    pub probe_attempts: u32,
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
    /// Network interfaces of this machine with the endpoints that they are, as `{ eth0 = "h0" }`:
    /// what programs join there by IP multicast, the node joins. Default none.
    pub interfaces: BTreeMap<String, String>,
}

impl Default for RawOperatingAgentConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::OPERATING_AGENT),
            allow_plaintext: false,
            certificates: None,
            limits: RawLimits::default(),
            advertise: None,
            tic: Addresses::from_iter([ports::local_peer(ports::TIC)]),
            fabric: ports::local_peer(ports::FABRIC),
            nodes: Vec::new(),
            socket: None,
            socket_mode: "600".to_owned(),
            process_rules: Vec::new(),
            shared_memory: PathBuf::from("/dev/shm"),
            program_ranges: PROGRAM_RANGES.map(str::to_owned).to_vec(),
            program_senders: 64,
            program_sender_timeout: Duration::from_secs(60),
            color_addresses: Ipv4Addr::new(239, 192, 0, 0).to_string(),
            announce: false,
            report_interval: Duration::from_millis(500),
            report_timeout: Duration::from_secs(2),
            adaptive: None,
            on_silence: Expel::Probe,
            probe_timeout: Duration::from_millis(500),
            probe_attempts: 2,
        }
    }
}

impl Role for OperatingAgentConfig {
    type Raw = RawOperatingAgentConfig;
    const SECTION: &'static str = "operating_agent";

    fn check(raw: RawOperatingAgentConfig, problems: &mut Problems) -> Option<Self> {
        let certificates =
            check_connections(problems, raw.listen, raw.allow_plaintext, raw.certificates);
        let is_plaintext = certificates.is_none();
        let process_rules = process_rules::check(problems, raw.process_rules, is_plaintext);
        let unasked = certificates.is_none() && !raw.allow_plaintext;
        let limits = raw.limits.check(problems);
        check_positive(problems, "report_interval", raw.report_interval);
        check_longer(
            problems,
            Field { name: "report_timeout", duration: raw.report_timeout },
            Field { name: "report_interval", duration: raw.report_interval },
        );
        let advertise = raw.advertise.map(|text| PeerAddress::check(problems, "advertise", &text));
        if raw.listen.ip().is_unspecified() && advertise.is_none() {
            let why = "missing; nobody can call an agent at an address of all interfaces";
            problems.add("advertise", why);
        }
        let tic = raw.tic.check(problems, "tic");
        let fabric = match &*raw.fabric {
            "none" => Some(None),
            address => PeerAddress::check(problems, "fabric", address).map(Some),
        };
        check_calls(problems, unasked, "tic", tic.iter().flatten());
        check_calls(problems, unasked, "fabric", fabric.iter().flatten());
        let program_ranges = check_ranges(problems, &raw.program_ranges);
        let program_senders =
            check_senders(problems, raw.program_senders, raw.program_sender_timeout);
        let color_addresses = check_color_addresses(problems, &raw.color_addresses);
        let nodes = check_nodes(problems, raw.nodes);
        let has_none = |nodes: &Vec<NodeConfig>| nodes.iter().all(|one| one.interfaces.is_empty());
        if raw.announce && nodes.as_ref().is_some_and(has_none) {
            problems.add("announce", "no node has interfaces, so nothing can be announced");
        }
        let detection = RawDetection {
            report_timeout: raw.report_timeout,
            adaptive: raw.adaptive,
            on_silence: raw.on_silence,
            probe_timeout: raw.probe_timeout,
            probe_attempts: raw.probe_attempts,
        };
        let detector = detection.check(problems);
        let socket = match raw.socket {
            Some(path) => check_path(problems, "socket", Some(path)).map(Some),
            None => Some(None),
        };
        let memory = &raw.shared_memory;
        if !memory.as_os_str().is_empty() && !memory.is_absolute() {
            let what = format!("'{}' is not absolute: processes are told it", memory.display());
            problems.add("shared_memory", what);
        }
        let socket_mode = check_mode(problems, "socket_mode", &raw.socket_mode);
        Some(Self {
            listen: raw.listen,
            certificates,
            limits,
            advertise: advertise.flatten(),
            tic: tic?,
            fabric: fabric?,
            nodes: nodes?,
            socket: socket?,
            socket_mode: socket_mode?,
            process_rules: process_rules?,
            program_ranges: program_ranges?,
            program_senders,
            color_addresses: color_addresses?,
            announce: raw.announce,
            shared_memory: Some(raw.shared_memory).filter(|path| !path.as_os_str().is_empty()),
            report_interval: raw.report_interval,
            detector: detector?,
        })
    }
}

fn check_senders(problems: &mut Problems, addresses: usize, timeout: Duration) -> SenderLimits {
    if addresses > MOST_SENDERS {
        problems.add("program_senders", format!("{addresses} is more than {MOST_SENDERS}"));
    }
    if timeout < Duration::from_secs(1) {
        problems.add("program_sender_timeout", "less than 1s");
    }
    SenderLimits { addresses, timeout }
}

/// Colors count to 65 535 at most, so the last address has to be one of multicast, too.
fn check_color_addresses(problems: &mut Problems, raw: &str) -> Option<Option<Ipv4Addr>> {
    if raw.is_empty() {
        return Some(None);
    }
    let first: Option<Ipv4Addr> = raw.parse().ok();
    let is_multicast = |first: &Ipv4Addr| {
        first.is_multicast() && Ipv4Addr::from(u32::from(*first) | 0xffff).is_multicast()
    };
    let first = first.filter(is_multicast);
    if first.is_none() {
        let what = format!("'{raw}' is no IPv4 address of multicast");
        problems.add("color_addresses", what);
    }
    first.map(Some)
}

fn check_ranges(problems: &mut Problems, raw: &[String]) -> Option<Vec<AddressRange>> {
    let mut ranges = Some(Vec::new());
    for (index, text) in raw.iter().enumerate() {
        let range = text.parse().inspect_err(|error: &RangeError| {
            problems.add(&format!("program_ranges[{index}]"), error.to_string());
        });
        ranges = ranges.zip(range.ok()).map(|(mut ranges, range)| {
            ranges.push(range);
            ranges
        });
    }
    ranges
}

fn check_nodes(problems: &mut Problems, raw: Vec<RawNode>) -> Option<Vec<NodeConfig>> {
    if raw.is_empty() {
        problems.add("nodes", "empty; an operating agent serves at least one node");
        return None;
    }
    let mut names = BTreeMap::new();
    let (mut owners, mut interfaces) = (BTreeMap::new(), BTreeMap::new());
    let mut nodes = Some(Vec::new());
    for (index, node) in raw.into_iter().enumerate() {
        let node = check_node(problems, index, node);
        if let Some(node) = &node {
            if let Some(earlier) = names.insert(node.name.clone(), index) {
                let what = format!("'{}' is also the name of nodes[{earlier}]", node.name);
                problems.add(&format!("nodes[{index}].name"), what);
            }
            for interface in node.interfaces.keys() {
                if let Some(owner) = interfaces.insert(interface.clone(), node.name.clone()) {
                    let what = format!("'{interface}' already belongs to node '{owner}'");
                    problems.add(&format!("nodes[{index}].interfaces"), what);
                }
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
    for (interface, endpoint) in &raw.interfaces {
        if !endpoints.contains(endpoint) {
            let what = format!("'{interface}' is endpoint '{endpoint}', which the node has not");
            problems.add(&format!("nodes[{index}].interfaces"), what);
            return None;
        }
    }
    Some(NodeConfig { name, endpoints, interfaces: raw.interfaces })
}
