//! Settings of the driver: the table `[switch_agent.driver_options]`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use fabricast_openflow::Mapping;
use fabricast_topology::{Graph, PortSet, TableKind};
use serde::Deserialize;

/// Port of OpenFlow.
const OPENFLOW_PORT: u16 = 6653;
/// Time between two LLDP frames out of each port, where cables have to be found.
const LLDP_INTERVAL: Duration = Duration::from_secs(2);
/// Fewest bytes of a key; one of fewer could be guessed.
const KEY_BYTES: usize = 16;

/// The settings as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// File with the fabric as it ought to be, as the TIC's own. Left out: the topology that the
    /// TIC has; to one with `topology = "discovered"` the agent reports what it finds by LLDP.
    pub(super) topology: Option<PathBuf>,
    /// Address to which switches connect. Left out: none do.
    pub(super) listen: Option<SocketAddr>,
    /// Folder with `ca.crt` (authority of the switches), `tls.crt` and `tls.key`. Left out:
    /// switches connect in plain text, and the agent to none by `ssl:`.
    pub(super) certificates: Option<PathBuf>,
    /// Switches to connect to, as `unix:/run/openvswitch/leaf1.mgmt`, `tcp:10.0.0.1:6653`, or
    /// `ssl:10.0.0.1:6653` by TLS with `certificates`. Without a port: 6653.
    #[serde(default)]
    pub(super) connect: Vec<Target>,
    /// Datapath ids by node id or description, as `{ "leaf-1" = "0x1" }`. Left out for a switch:
    /// the digits of its node id, `S-0000000000000001`. Without `topology` the node id is always of
    /// the datapath id, and these are the descriptions of switches.
    #[serde(default)]
    pub(super) datapaths: BTreeMap<String, String>,
    /// Time between two LLDP frames out of each port, by which cables are found; a cable that is
    /// silent for three of them is forgotten. Default 2s without `topology`: a hundred bytes a
    /// port. With `topology` none by default; given, cables that lead elsewhere than there have
    /// failed.
    #[serde(default, with = "humantime_serde")]
    pub(super) lldp_interval: Option<Duration>,
    /// Text of at least 16 bytes that all agents of a fabric share, so that each believes the LLDP
    /// frames of the others. Left out: one that this agent makes up, which is right for a single
    /// agent.
    pub(super) lldp_key: Option<SecretText>,
    /// Kind of the tables. Default `per-port`, as that of the TIC and the route service.
    #[serde(default)]
    pub(super) tables: TableKind,
    /// True if groups have two trees, as `fault_tolerant` of the TIC and the route service.
    #[serde(default)]
    pub(super) fault_tolerant: bool,
    /// Colors to use at most. Default 1024: as many groups fit into every known switch.
    #[serde(default = "colors")]
    pub(super) colors: u16,
    /// IPv4 address of color 0; the others follow. Default 239.192.0.0, the scope of an
    /// organization (RFC 2365).
    #[serde(default = "addresses")]
    pub(super) addresses: Ipv4Addr,
    /// Group id of color 0 without the input port. Default 1.
    #[serde(default = "first_group")]
    pub(super) first_group: u16,
    /// Flow table. Default 0, where packets begin.
    #[serde(default)]
    pub(super) table: u8,
    /// Priority of the flows. Default 40000: above those that name none, 32768.
    #[serde(default = "priority")]
    pub(super) priority: u16,
    /// Time for an answer of a switch. Default 2s: Open vSwitch takes a few milliseconds, but a
    /// busy machine may keep it from running.
    #[serde(default = "timeout", with = "humantime_serde")]
    pub(super) timeout: Duration,
    /// Time that a switch may be without a connection until it counts as failed. Default 5s: it
    /// goes on forwarding meanwhile, and may only have been slow.
    #[serde(default = "grace", with = "humantime_serde")]
    pub(super) grace: Duration,
}

const fn colors() -> u16 {
    1024
}

const fn addresses() -> Ipv4Addr {
    Ipv4Addr::new(239, 192, 0, 0)
}

const fn first_group() -> u16 {
    1
}

const fn priority() -> u16 {
    40_000
}

const fn timeout() -> Duration {
    Duration::from_secs(2)
}

const fn grace() -> Duration {
    Duration::from_secs(5)
}

/// A text that stays out of logs.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct SecretText(String);

impl SecretText {
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(hidden)")
    }
}

/// A switch to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Target {
    /// A socket of this machine.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
    /// Host and port; by TLS.
    Ssl(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", host)) if !host.is_empty() => Ok(Self::Tcp(with_port(host))),
            Some(("ssl", host)) if !host.is_empty() => Ok(Self::Ssl(with_port(host))),
            _ => Err(format!("'{text}' is none of unix:PATH, tcp:HOST:PORT and ssl:HOST:PORT")),
        }
    }
}

/// The host with the port that follows it, or else with that of OpenFlow.
fn with_port(host: &str) -> String {
    // An address of IPv6 has brackets where a port follows.
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
    });
    let port = if has_port { String::new() } else { format!(":{OPENFLOW_PORT}") };
    format!("{host}{port}")
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => write!(f, "tcp:{host}"),
            Self::Ssl(host) => write!(f, "ssl:{host}"),
        }
    }
}

impl Options {
    /// Checks what the types cannot say. Returns the first problem.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.listen.is_none() && self.connect.is_empty() {
            return Err("neither listen nor connect is given, so no switch is reached".to_owned());
        }
        self.check_certificates()?;
        if self.timeout.is_zero() {
            return Err("timeout must be longer than 0s".to_owned());
        }
        if self.lldp_interval.is_some_and(|interval| interval.is_zero()) {
            return Err("lldp_interval must be longer than 0s".to_owned());
        }
        match &self.lldp_key {
            Some(_) if self.lldp_interval().is_none() => {
                return Err("lldp_key is of no use without lldp_interval".to_owned());
            }
            Some(key) if key.reveal().len() < KEY_BYTES => {
                return Err(format!("lldp_key must have at least {KEY_BYTES} bytes"));
            }
            Some(_) | None => {}
        }
        self.mapping().check().map_err(|error| error.to_string())
    }

    /// Checks that certificates are given where they are of use, and only there.
    fn check_certificates(&self) -> Result<(), String> {
        let by_tls = self.connect.iter().find(|target| matches!(target, Target::Ssl(_)));
        match (by_tls, &self.certificates) {
            (Some(target), None) => Err(format!("connect: {target} needs certificates")),
            (None, Some(_)) if self.listen.is_none() => Err(
                "certificates are of no use: listen is not given, and connect has no ssl:HOST:PORT"
                    .to_owned(),
            ),
            (_, Some(_)) | (None, None) => Ok(()),
        }
    }

    /// Time between two LLDP frames out of each port; `None` if none are sent.
    pub(super) fn lldp_interval(&self) -> Option<Duration> {
        let usual = self.topology.is_none().then_some(LLDP_INTERVAL);
        self.lldp_interval.or(usual)
    }

    pub(super) fn mapping(&self) -> Mapping {
        Mapping {
            table: self.table,
            priority: self.priority,
            addresses: self.addresses,
            colors: self.colors,
            first_group: self.first_group,
            tables: self.tables,
            endpoint_ports: PortSet::EMPTY, // each switch has its own
            fault_tolerant: self.fault_tolerant,
        }
    }

    /// Node ids of all switches of a fabric by datapath id.
    pub(super) fn nodes(&self, fabric: &Graph) -> Result<BTreeMap<u64, String>, String> {
        let mut given = BTreeMap::new();
        for (name, id) in &self.datapaths {
            let switch = fabric.find_switch(name);
            let switch = switch.ok_or(format!("datapaths: no switch '{name}' in the topology"))?;
            given.insert(switch, id);
        }
        let mut nodes = BTreeMap::new();
        for switch in fabric.switches() {
            let name = fabric.switch_name(switch);
            let given = given.get(&switch);
            let text = given.map_or_else(|| name.trim_start_matches("S-"), |text| text.as_str());
            let datapath = datapath(text).ok_or_else(|| match given {
                Some(text) => no_datapath(text, name),
                None => format!("datapaths: the datapath id of switch '{name}' is missing"),
            })?;
            if let Some(other) = nodes.insert(datapath, name.to_owned()) {
                return Err(format!("datapaths: '{other}' and '{name}' have {datapath:#x}"));
            }
        }
        Ok(nodes)
    }

    /// Descriptions of switches by datapath id, for a fabric that is not known.
    pub(super) fn descriptions(&self) -> Result<BTreeMap<u64, String>, String> {
        let mut descriptions = BTreeMap::new();
        for (name, text) in &self.datapaths {
            let datapath = datapath(text).ok_or_else(|| no_datapath(text, name))?;
            if let Some(other) = descriptions.insert(datapath, name.clone()) {
                return Err(format!("datapaths: '{other}' and '{name}' have {datapath:#x}"));
            }
        }
        Ok(descriptions)
    }
}

/// Refuses a text that is given as the datapath id of a switch.
fn no_datapath(text: &str, name: &str) -> String {
    format!("datapaths: '{text}' of '{name}' is no datapath id")
}

/// Reads a datapath id: up to 16 hexadecimal digits, with `0x` before or colons between.
fn datapath(text: &str) -> Option<u64> {
    let digits = text.trim_start_matches("0x").replace(':', "");
    // Without the check, a sign would be taken.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(&digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    fn options(text: &str) -> Result<Options, String> {
        let text = format!("topology = 'f'\nlisten = '127.0.0.1:0'\n{text}");
        let options: Options = toml::from_str(&text).map_err(|error| error.to_string())?;
        options.check().map(|()| options)
    }

    #[test]
    fn a_target_is_a_socket_or_a_host() {
        let target = |text: &str| text.parse::<Target>();
        assert_eq!(target("unix:/run/a.mgmt"), Ok(Target::Unix("/run/a.mgmt".into())));
        for (text, host) in [
            ("tcp:10.0.0.1", "10.0.0.1:6653"),
            ("tcp:leaf:7000", "leaf:7000"),
            ("tcp:[::1]:7000", "[::1]:7000"),
            ("tcp:[::1]", "[::1]:6653"),
        ] {
            assert_eq!(target(text), Ok(Target::Tcp(host.to_owned())));
            let by_tls = text.replacen("tcp", "ssl", 1).parse::<Target>().unwrap();
            assert_eq!(
                (&by_tls, by_tls.to_string()),
                (&Target::Ssl(host.to_owned()), format!("ssl:{host}"))
            );
        }
        for wrong in ["", "unix:", "tcp:", "ssl:", "udp:a", "/run/a.mgmt"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_that_do_not_fit_are_told() {
        assert!(options("").is_ok());
        let wrong = |text| options(text).unwrap_err();
        assert!(wrong("colours = 3").contains("unknown field"));
        assert!(wrong("connect = ['leaf']").contains("tcp:HOST:PORT and ssl:HOST:PORT"));
        assert!(wrong("addresses = '10.0.0.0'").contains("must be multicast"));
        assert!(wrong("timeout = '0s'").contains("timeout"));
        let connecting = |text: &str| {
            let options: Options = toml::from_str(&format!("topology = 'f'\n{text}")).unwrap();
            options.check()
        };
        let unused = connecting("connect = ['tcp:leaf']\ncertificates = 'c'");
        assert!(unused.unwrap_err().contains("certificates are of no use"));
        assert_eq!(connecting("connect = ['tcp:leaf', 'ssl:leaf']\ncertificates = 'c'"), Ok(()));
        let without = connecting("connect = ['tcp:leaf', 'ssl:leaf']").unwrap_err();
        assert_eq!(without, "connect: ssl:leaf:6653 needs certificates");
        let nowhere: Options = toml::from_str("topology = 'f'").unwrap();
        assert!(nowhere.check().unwrap_err().contains("neither listen nor connect"));
    }

    #[test]
    fn cables_are_found_by_lldp_where_no_file_has_them() {
        let read = |text: &str| {
            let options: Options =
                toml::from_str(&format!("connect = ['tcp:leaf']\n{text}")).unwrap();
            options.check().map(|()| options.lldp_interval())
        };
        assert_eq!(read("topology = 'f'"), Ok(None));
        let brief = Some(Duration::from_millis(500));
        assert_eq!(read("topology = 'f'\nlldp_interval = '500ms'"), Ok(brief));
        assert_eq!(read(""), Ok(Some(LLDP_INTERVAL)));
        assert_eq!(read("lldp_key = 'sixteen bytes or more'"), Ok(Some(LLDP_INTERVAL)));
        let refused = |text| read(text).unwrap_err();
        assert!(refused("lldp_interval = '0s'").contains("longer than 0s"));
        assert!(refused("lldp_key = 'short'").contains("at least 16 bytes"));
        let unused = "topology = 'f'\nlldp_key = 'sixteen bytes or more'";
        assert!(refused(unused).contains("of no use without lldp_interval"));
        assert_eq!(format!("{:?}", SecretText("abc".to_owned())), "SecretText(hidden)");
    }

    #[test]
    fn switches_that_are_found_have_the_descriptions_of_the_settings() {
        let told = |text: &str| {
            let options: Options = toml::from_str(&format!("listen = '[::1]:0'\n{text}")).unwrap();
            options.descriptions()
        };
        let known = told("datapaths = { leaf0 = '0x1', leaf1 = '0:0:0:0:0:0:0:ab' }").unwrap();
        assert_eq!(known, BTreeMap::from([(1, "leaf0".to_owned()), (0xab, "leaf1".to_owned())]));
        assert!(told("datapaths = { a = '1', b = '1' }").unwrap_err().contains("have 0x1"));
        assert!(told("datapaths = { a = 'x' }").unwrap_err().contains("is no datapath id"));
    }

    #[test]
    fn datapath_ids_come_from_the_node_ids_or_the_settings() {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 1\n";
        let fabric = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let names: Vec<_> = fabric.switches().map(|one| fabric.switch_name(one)).collect();
        let nodes = |text: &str| options(text).unwrap().nodes(&fabric);
        let given = |ids: [&str; 3]| {
            let pair = |(name, id)| format!("'{name}' = '{id}'");
            let pairs: Vec<String> = names.iter().zip(ids).map(pair).collect();
            format!("datapaths = {{ {} }}", pairs.join(", "))
        };
        let known = nodes(&given(["0x1", "00:00:00:00:00:00:00:ab", "c"])).unwrap();
        assert_eq!(known.keys().copied().collect::<Vec<_>>(), [1, 0xc, 0xab]);
        assert_eq!(known[&0xab], names[1]);
        assert!(nodes(&given(["1", "1", "2"])).unwrap_err().contains("have 0x1"));
        assert!(nodes(&given(["1", "+2", "3"])).unwrap_err().contains("is no datapath id"));
        let unknown = nodes("datapaths = { 'nowhere' = '1' }").unwrap_err();
        assert!(unknown.contains("no switch 'nowhere'"), "{unknown}");
    }
}
