//! Settings of the driver: the table `[switch_agent.driver_options]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use fabricast_groups::programs::AddressRange;
use fabricast_topology::Graph;
use serde::Deserialize;

use super::alias::MOST_RANGES;

/// Ports of the largest switch that a topology can have.
const MOST_PORTS: usize = 254;
/// Longest name of an interface in Linux.
const NAME_BYTES: usize = 15;
/// Time between the two steps of a move where other agents have bridges of the fabric.
const MOVE_PAUSE: Duration = Duration::from_millis(500);

/// The settings as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// File with the fabric as it ought to be, as the TIC's own; what is missing of it counts as
    /// failed. No default: bridges do not tell how they are wired.
    pub(super) topology: PathBuf,
    /// The bridges to program, one for each switch of this agent.
    pub(super) bridges: Vec<RawBridge>,
    /// Colors to use at most. Default 1024. A bridge offers no more than half of its
    /// `mcast_hash_max`: the other half is for addresses of programs. Entries beyond a lower number
    /// are removed when the agent starts.
    #[serde(default = "colors")]
    pub(super) colors: u16,
    /// IPv4 address of color 0; the others follow. Default 239.192.0.0, the scope of an
    /// organization (RFC 2365).
    #[serde(default = "addresses")]
    pub(super) addresses: Ipv4Addr,
    /// Ranges of addresses that programs may join, as `program_ranges` of the operating agents and
    /// with their default; at most 8. Entries of these addresses belong to Fabricast: others are
    /// removed, and those of ranges that are given no more, too.
    #[serde(default = "program_ranges")]
    pub(super) program_ranges: Vec<String>,
    /// Time between the last bridge that forgets an address whose tree has moved, and the first
    /// that leads it by the new tree. Default 0s if this agent has all bridges of the topology, and
    /// else 500ms, in which the other agents hear of the move, too.
    #[serde(default, with = "humantime_serde")]
    pub(super) move_pause: Option<Duration>,
    /// Time for an answer of `ip` or `bridge`. Default 5s: they take milliseconds, but a busy
    /// machine may keep them from running.
    #[serde(default = "timeout", with = "humantime_serde")]
    pub(super) timeout: Duration,
    /// Time between two looks at each bridge. Default 5s: changes of ports are told at once, and
    /// this finds settings that were changed.
    #[serde(default = "sweep", with = "humantime_serde")]
    pub(super) sweep: Duration,
}

/// Table `[[switch_agent.driver_options.bridges]]` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBridge {
    /// Node id or description of the switch in the topology.
    pub(super) switch: String,
    /// Name of the bridge; no alternative one, as for the ports. Default `br0`.
    #[serde(default = "bridge")]
    pub(super) bridge: String,
    /// Network namespace of the bridge, as `ip netns` lists it. Left out: that of the agent.
    pub(super) namespace: Option<String>,
    /// Interfaces of ports 1, 2 and so on. A single name with `{}` stands for all: the number of
    /// the port is put there, as in `swp{}`.
    pub(super) ports: Vec<String>,
}

const fn colors() -> u16 {
    1024
}

const fn addresses() -> Ipv4Addr {
    Ipv4Addr::new(239, 192, 0, 0)
}

fn program_ranges() -> Vec<String> {
    ["239.0.0.0/9", "239.128.0.0/10", "239.255.0.0/16"].map(str::to_owned).to_vec()
}

const fn timeout() -> Duration {
    Duration::from_secs(5)
}

const fn sweep() -> Duration {
    Duration::from_secs(5)
}

fn bridge() -> String {
    "br0".to_owned()
}

/// Place of a bridge, and the interfaces that are its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bridge: String,
    pub(super) namespace: Option<String>,
    /// Interfaces of ports 1, 2, and so on.
    pub(super) ports: Vec<String>,
}

impl Place {
    /// Interfaces with the numbers of their ports.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u8, &str)> {
        (1..=u8::MAX).zip(self.ports.iter().map(String::as_str))
    }

    /// Number of the port that an interface is.
    pub(super) fn number(&self, interface: &str) -> Option<u8> {
        self.numbered().find(|(_, name)| *name == interface).map(|(number, _)| number)
    }

    /// Interface of a port.
    pub(super) fn interface(&self, number: u8) -> Option<&str> {
        self.ports.get(usize::from(number).checked_sub(1)?).map(String::as_str)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bridge {}", self.bridge)?;
        self.namespace.as_ref().map_or(Ok(()), |name| write!(f, " in namespace {name}"))
    }
}

/// The addresses whose entries belong to Fabricast.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    first: Ipv4Addr,
    colors: u16,
    /// Range of the colors, also beyond the last one that is used.
    color_range: AddressRange,
    program_ranges: Vec<AddressRange>,
}

impl Addresses {
    /// Address of a color.
    pub(super) fn of(&self, color: u16) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first) | u32::from(color))
    }

    /// Color of an address; `None` if it is that of no color.
    pub(super) fn color(&self, address: Ipv4Addr) -> Option<u16> {
        let color = u32::from(address).checked_sub(u32::from(self.first))?;
        u16::try_from(color).ok().filter(|color| *color < self.colors)
    }

    /// True for an address that programs may join.
    pub(super) fn is_program(&self, address: Ipv4Addr) -> bool {
        let is_in = |range: &AddressRange| range.contains(address);
        !is_in(&self.color_range) && self.program_ranges.iter().any(is_in)
    }

    /// True for an address whose entries are nobody else's.
    pub(super) fn is_ours(&self, address: Ipv4Addr) -> bool {
        self.color_range.contains(address) || self.is_program(address)
    }

    /// All of these addresses; at most [`MOST_RANGES`] ranges.
    pub(super) fn ranges(&self) -> Vec<AddressRange> {
        let mut ranges = vec![self.color_range];
        ranges.extend(&self.program_ranges);
        ranges
    }
}

impl Options {
    /// Checks what the types cannot say. Returns the first problem.
    pub(super) fn check(&self) -> Result<(), String> {
        for (key, time) in [("timeout", self.timeout), ("sweep", self.sweep)] {
            if time.is_zero() {
                return Err(format!("{key} must be longer than 0s"));
            }
        }
        if self.bridges.is_empty() {
            return Err("bridges is empty, so no switch is programmed".to_owned());
        }
        self.addresses().map(drop)
    }

    pub(super) fn addresses(&self) -> Result<Addresses, String> {
        let range = |text: &String| text.parse::<AddressRange>();
        let ranges: Result<Vec<_>, _> = self.program_ranges.iter().map(range).collect();
        let program_ranges = ranges.map_err(|error| format!("program_ranges: {error}"))?;
        let most = MOST_RANGES - 1; // one is that of the colors
        if program_ranges.len() > most {
            return Err(format!("program_ranges has more than {most} ranges"));
        }
        let (first, colors) = (self.addresses, self.colors);
        Ok(Addresses { first, colors, color_range: self.color_range()?, program_ranges })
    }

    fn color_range(&self) -> Result<AddressRange, String> {
        if self.colors == 0 {
            return Err("colors must be at least 1".to_owned());
        }
        let size = u32::from(self.colors).next_power_of_two();
        let first = self.addresses;
        if u32::from(first) & (size - 1) != 0 {
            return Err(format!("addresses: {first} is no multiple of {size} addresses"));
        }
        let length = size.leading_zeros() + 1;
        // 224.0.0.0/24 is never forwarded.
        let wrong = |_| format!("addresses: {first} must be multicast, and not of 224.0.0.0/24");
        format!("{first}/{length}").parse().map_err(wrong)
    }

    /// Places of the bridges by node id.
    pub(super) fn places(&self, fabric: &Graph) -> Result<BTreeMap<String, Place>, String> {
        let (mut places, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for raw in &self.bridges {
            let found = fabric.find_switch(&raw.switch);
            let found =
                found.ok_or(format!("bridges: no switch '{}' in the topology", raw.switch))?;
            let place = raw.place(fabric.ports(found).len())?;
            if !taken.insert((place.namespace.clone(), place.bridge.clone())) {
                return Err(format!("bridges: {place} is listed twice"));
            }
            if places.insert(fabric.switch_name(found).to_owned(), place).is_some() {
                return Err(format!("bridges: switch '{}' is listed twice", raw.switch));
            }
        }
        Ok(places)
    }

    /// - `bridges`: number of bridges of this agent.
    /// - `switches`: number of switches in the topology.
    pub(super) fn move_pause(&self, bridges: usize, switches: usize) -> Duration {
        let usual = if bridges == switches { Duration::ZERO } else { MOVE_PAUSE };
        self.move_pause.unwrap_or(usual)
    }
}

impl RawBridge {
    /// - `count`: number of ports in the topology.
    fn place(&self, count: usize) -> Result<Place, String> {
        let switch = &self.switch;
        let ports = match &self.ports[..] {
            [pattern] if pattern.contains("{}") => {
                (1..=count).map(|number| pattern.replace("{}", &number.to_string())).collect()
            }
            listed => listed.to_vec(),
        };
        if ports.len() != count || count > MOST_PORTS {
            let listed = ports.len();
            return Err(format!(
                "bridges: switch '{switch}' has {count} ports in the topology, and {listed} here"
            ));
        }
        let names = ports.iter().chain([&self.bridge]).chain(&self.namespace);
        let is_namespace = |name: &String| self.namespace.as_ref() == Some(name);
        for name in names {
            if !is_name(name) || (name.len() > NAME_BYTES && !is_namespace(name)) {
                return Err(format!("bridges: '{name}' of switch '{switch}' is no name in Linux"));
            }
        }
        let distinct: BTreeSet<&String> = ports.iter().collect();
        if distinct.len() != ports.len() {
            return Err(format!("bridges: switch '{switch}' has an interface for two ports"));
        }
        let (bridge, namespace) = (self.bridge.clone(), self.namespace.clone());
        Ok(Place { bridge, namespace, ports })
    }
}

/// True for a name that `ip` and `bridge` take as one word and as no option.
fn is_name(name: &str) -> bool {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.@:+".contains(&letter);
    name.bytes().all(is_plain) && name.bytes().next().is_some_and(|first| first != b'-')
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    fn options(text: &str) -> Result<Options, String> {
        let options: Options = toml::from_str(text).map_err(|error| error.to_string())?;
        options.check().map(|()| options)
    }

    /// One bridge with all ports of a leaf switch, and other settings before it.
    fn with(more: &str) -> Result<Options, String> {
        let bridge = "bridges = [{ switch = 'leaf0', ports = ['swp{}'] }]";
        options(&format!("topology = 'f'\n{more}\n{bridge}"))
    }

    #[test]
    fn settings_that_do_not_fit_are_told() {
        let usual = with("").unwrap();
        assert_eq!(usual.move_pause(1, 1), Duration::ZERO);
        assert_eq!(usual.move_pause(1, 2), MOVE_PAUSE);
        let wrong = |text| with(text).unwrap_err();
        assert!(wrong("colours = 3").contains("unknown field"));
        assert!(wrong("timeout = '0s'").contains("timeout must be"));
        assert!(wrong("sweep = '0s'").contains("sweep must be"));
        assert!(wrong("colors = 0").contains("at least 1"));
        assert!(wrong("addresses = '10.0.0.0'").contains("must be multicast"));
        assert!(wrong("addresses = '224.0.0.0'\ncolors = 4").contains("must be multicast"));
        assert!(wrong("addresses = '239.0.0.1'").contains("no multiple of 1024"));
        assert!(wrong("program_ranges = ['239.1.0.0']").contains("program_ranges: "));
        let many: Vec<String> = (0..9).map(|number| format!("239.{number}.0.0/16")).collect();
        let many = format!("program_ranges = {many:?}");
        assert_eq!(with(&many).unwrap_err(), "program_ranges has more than 8 ranges");
        assert!(options("topology = 'f'\nbridges = []").unwrap_err().contains("empty"));
        assert!(options("bridges = []").unwrap_err().contains("missing field `topology`"));
    }

    #[test]
    fn an_address_is_that_of_a_color_of_programs_or_of_others() {
        let addresses = with("colors = 3").unwrap().addresses().unwrap();
        let of = |last| Ipv4Addr::new(239, 192, 0, last);
        assert_eq!(addresses.of(2), of(2));
        assert_eq!([0, 2, 3].map(|last| addresses.color(of(last))), [Some(0), Some(2), None]);
        // The range of colors is a power of two.
        assert_eq!([3, 4].map(|last| addresses.is_ours(of(last))), [true, false]);
        let ranges: Vec<String> = addresses.ranges().iter().map(ToString::to_string).collect();
        assert_eq!(ranges[..2], ["239.192.0.0/30", "239.0.0.0/9"]);
        let program = Ipv4Addr::new(239, 1, 2, 3);
        assert!(addresses.is_program(program) && addresses.is_ours(program));
        assert!(!addresses.is_ours(Ipv4Addr::new(224, 0, 0, 251)));
        assert_eq!(addresses.color(program), None);
    }

    #[test]
    fn bridges_are_placed_by_the_topology() {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 1\n";
        let fabric = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let places = |bridges: &str| {
            options(&format!("topology = 'f'\nbridges = [{bridges}]")).unwrap().places(&fabric)
        };
        let two = "{ switch = 'leaf0', namespace = 's0', ports = ['swp{}'] },
            { switch = 'spine0', bridge = 'br1', ports = ['a', 'b'] }";
        let two = places(two).unwrap();
        let node = |name| fabric.switch_name(fabric.find_switch(name).unwrap());
        assert_eq!(two[node("leaf0")].to_string(), "bridge br0 in namespace s0");
        assert_eq!(two[node("leaf0")].ports, ["swp1", "swp2"]);
        let spine = &two[node("spine0")];
        assert_eq!((spine.to_string(), spine.number("b")), ("bridge br1".to_owned(), Some(2)));
        assert_eq!([0, 1, 3].map(|number| spine.interface(number)), [None, Some("a"), None]);
        for (wrong, why) in [
            ("{ switch = 'none', ports = [] }", "no switch 'none' in the topology"),
            ("{ switch = 'leaf0', ports = ['a'] }", "has 2 ports in the topology, and 1 here"),
            ("{ switch = 'leaf0', ports = ['a', 'a'] }", "an interface for two ports"),
            ("{ switch = 'leaf0', ports = ['a b{}'] }", "'a b1' of switch 'leaf0' is no name"),
            ("{ switch = 'leaf0', bridge = '-x', ports = ['a{}'] }", "'-x' of switch"),
            ("{ switch = 'leaf0', namespace = '', ports = ['a{}'] }", "'' of switch"),
            ("{ switch = 'leaf0', ports = ['interface-of-port-{}'] }", "is no name in Linux"),
            (
                "{ switch = 'leaf0', ports = ['a{}'] }, { switch = 'leaf1', ports = ['a{}'] }",
                "bridge br0 is listed twice",
            ),
            (
                "{ switch = 'leaf0', ports = ['a{}'] },
                 { switch = 'leaf0', bridge = 'b', ports = ['a{}'] }",
                "switch 'leaf0' is listed twice",
            ),
        ] {
            let refused = places(wrong).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
