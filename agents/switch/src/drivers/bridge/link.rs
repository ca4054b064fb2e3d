//! A bridge and its ports as `ip` shows them, and the settings that they must have.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use serde::Deserialize;

use super::alias::Alias;
use super::options::Place;

/// Time that hosts have to answer a query, in hundredths of a second. It is the least that a query
/// can say: a bridge that hears its first query of another one uses no entries for so long.
const RESPONSE_INTERVAL: u64 = 10;
/// Time in hundredths of a second for which a bridge remembers another querier: ten days. It is
/// quiet for so long, and further queries do not keep it from using entries.
const QUERIER_INTERVAL: u64 = 86_400_000;

/// A bridge and those of its ports that are ports of the switch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    /// Number of the interface: another one after the bridge was deleted and made again.
    pub(super) index: u32,
    pub(super) is_up: bool,
    is_snooping: bool,
    is_querier: bool,
    pub(super) has_vlans: bool,
    has_intervals: bool,
    /// Most groups that it holds.
    pub(super) most_groups: u32,
    pub(super) alias: Alias,
    /// Ports by number.
    pub(super) ports: BTreeMap<u8, PortLook>,
    /// An interface that the settings have by an alternative name.
    pub(super) renamed: Option<Renamed>,
}

/// An interface with an alternative name: `ip` and `bridge` know it by that, and list entries by
/// its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Renamed {
    /// Name in the settings.
    pub(super) alternative: String,
    /// Its own name.
    pub(super) name: String,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PortLook {
    /// Packets can cross.
    pub(super) is_live: bool,
    /// It sends multicast packets without an entry.
    floods: bool,
    pub(super) counters: v1::PortCounters,
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifindex: u32,
    ifname: String,
    #[serde(default)]
    altnames: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    ifalias: String,
    linkinfo: Option<Info>,
    stats64: Option<Statistics>,
}

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    info_kind: String,
    #[serde(default)]
    info_data: serde_json::Value,
    #[serde(default)]
    info_slave_data: serde_json::Value,
}

#[derive(Deserialize)]
struct BridgeData {
    mcast_snooping: u8,
    mcast_querier: u8,
    #[serde(default)]
    vlan_filtering: u8,
    mcast_hash_max: u32,
    mcast_query_response_intvl: u64,
    mcast_querier_intvl: u64,
}

#[derive(Deserialize)]
struct PortData {
    state: String,
    mcast_flood: bool,
    multicast_router: u8,
}

#[derive(Default, Deserialize)]
struct Statistics {
    rx: Counters,
    tx: Counters,
}

#[derive(Default, Deserialize)]
struct Counters {
    bytes: u64,
    packets: u64,
    #[serde(default)]
    dropped: u64,
}

impl Look {
    /// The lines to which [`Self::read`] reads the answer.
    pub(super) fn lines(place: &Place) -> String {
        let bridge = &place.bridge;
        format!("link show dev {bridge}\nlink show master {bridge}\n")
    }

    /// Reads the output of [`Self::lines`]; or says what it lacks.
    pub(super) fn read(text: &str, place: &Place) -> Result<Self, String> {
        let lists = serde_json::Deserializer::from_str(text).into_iter::<Vec<Link>>();
        let lists: Result<Vec<Vec<Link>>, _> = lists.collect();
        let mut links = lists.map_err(|error| error.to_string())?.into_iter().flatten();
        let bridge = links.next().ok_or("nothing was printed")?;
        let info = bridge.linkinfo.filter(|info| info.info_kind == "bridge");
        let info = info.ok_or_else(|| format!("{} is no bridge", bridge.ifname))?;
        let data: BridgeData =
            serde_json::from_value(info.info_data).map_err(|error| error.to_string())?;
        let mut renamed = (bridge.ifname != place.bridge)
            .then(|| Renamed { alternative: place.bridge.clone(), name: bridge.ifname.clone() });
        let mut ports = BTreeMap::new();
        for link in links {
            let alternative = link.altnames.iter().find(|name| place.number(name).is_some());
            if let Some(alternative) = alternative {
                let (alternative, name) = (alternative.clone(), link.ifname.clone());
                renamed = Some(Renamed { alternative, name });
            }
            if let Some(number) = place.number(&link.ifname) {
                ports.insert(number, PortLook::of(number, link)?);
            }
        }
        Ok(Self {
            index: bridge.ifindex,
            is_up: bridge.flags.iter().any(|flag| flag == "UP"),
            is_snooping: data.mcast_snooping != 0,
            is_querier: data.mcast_querier != 0,
            has_vlans: data.vlan_filtering != 0,
            has_intervals: data.mcast_query_response_intvl <= RESPONSE_INTERVAL
                && data.mcast_querier_intvl >= QUERIER_INTERVAL,
            most_groups: data.mcast_hash_max,
            alias: Alias::read(&bridge.ifalias),
            ports,
            renamed,
        })
    }

    /// Lines by which the bridge and its ports get the settings that entries need; empty if they
    /// have them.
    ///
    /// The kernel leaves entries aside unless a querier is known, so the bridge has to be one. It
    /// also leaves them aside for as long as hosts may take to answer, from the moment in which it
    /// became one, and from the first query of another one that it hears.
    pub(super) fn preparation(&self, place: &Place) -> String {
        let (bridge, mut lines) = (&place.bridge, String::new());
        if !self.is_snooping {
            lines += &format!("link set dev {bridge} type bridge mcast_snooping 1\n");
        }
        if !self.is_querier || !self.has_intervals {
            let intervals = format!(
                "mcast_query_response_interval {RESPONSE_INTERVAL} \
                 mcast_querier_interval {QUERIER_INTERVAL}"
            );
            lines += &format!("link set dev {bridge} type bridge {intervals}\n");
            lines += &format!("link set dev {bridge} type bridge mcast_querier 1\n");
        }
        for (number, _) in self.ports.iter().filter(|(_, port)| port.floods) {
            if let Some(name) = place.interface(*number) {
                let settings = "mcast_flood off mcast_router 0";
                lines += &format!("link set dev {name} type bridge_slave {settings}\n");
            }
        }
        lines
    }

    /// The line by which the bridge keeps an alias.
    pub(super) fn keep_alias(alias: &Alias, place: &Place) -> String {
        format!("link set dev {} alias {alias}\n", place.bridge)
    }

    /// True if packets can cross a port.
    pub(super) fn is_live(&self, port: u8) -> bool {
        self.ports.get(&port).is_some_and(|port| port.is_live)
    }

    /// Colors that are offered: the rest of the groups is for addresses of programs, and for what
    /// hosts join that has nothing to do with us.
    pub(super) fn colors(&self, most: u16) -> u16 {
        u16::try_from(self.most_groups / 2).unwrap_or(u16::MAX).min(most)
    }
}

impl PortLook {
    fn of(number: u8, link: Link) -> Result<Self, String> {
        let info = link.linkinfo.ok_or_else(|| format!("{} tells no state", link.ifname))?;
        let data: PortData = serde_json::from_value(info.info_slave_data)
            .map_err(|error| format!("{}: {error}", link.ifname))?;
        let has_signal = link.flags.iter().any(|flag| flag == "LOWER_UP");
        let Statistics { rx, tx } = link.stats64.unwrap_or_default();
        Ok(Self {
            is_live: has_signal && data.state == "forwarding",
            floods: data.mcast_flood || data.multicast_router != 0,
            counters: v1::PortCounters {
                port: u32::from(number),
                received_packets: rx.packets,
                sent_packets: tx.packets,
                received_bytes: rx.bytes,
                sent_bytes: tx.bytes,
                dropped_packets: rx.dropped.saturating_add(tx.dropped),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As iproute2 6.1 prints it on Linux 6.18, without what is not read.
    const PRINTED: &str = r#"[{"ifindex":2,"ifname":"br0","flags":["BROADCAST","MULTICAST","UP",
        "LOWER_UP"],"operstate":"UP","ifalias":"fabricast-term-7","linkinfo":{"info_kind":"bridge",
        "info_data":{"stp_state":0,"vlan_filtering":0,"bridge_id":"8000.1a:63:55:9d:58:53",
        "mcast_snooping":1,"mcast_router":1,"mcast_querier":0,"mcast_hash_max":4096,
        "mcast_querier_intvl":25500,"mcast_query_response_intvl":1000}}}]
        [{"ifname":"p1","flags":["BROADCAST","UP","LOWER_UP"],"master":"br0","operstate":"UP",
        "linkinfo":{"info_kind":"veth","info_slave_kind":"bridge","info_slave_data":{
        "state":"forwarding","flood":true,"multicast_router":1,"mcast_flood":true}},
        "stats64":{"rx":{"bytes":90,"packets":1,"errors":0,"dropped":2,"multicast":0},
        "tx":{"bytes":336,"packets":4,"errors":0,"dropped":3,"collisions":0}}},
        {"ifname":"p2","flags":["NO-CARRIER","BROADCAST","UP"],"linkinfo":{"info_slave_data":{
        "state":"disabled","multicast_router":0,"mcast_flood":false}}},
        {"ifname":"other","linkinfo":{}}]"#;

    fn place() -> Place {
        let ports = ["p1", "p2", "p3"].map(str::to_owned).to_vec();
        Place { bridge: "br0".to_owned(), namespace: None, ports }
    }

    #[test]
    fn a_bridge_and_its_ports_are_read() {
        let look = Look::read(PRINTED, &place()).unwrap();
        assert!(look.is_up && !look.has_vlans);
        assert_eq!((look.index, &look.renamed), (2, &None));
        assert_eq!((look.most_groups, look.alias.term), (4096, 7));
        assert_eq!((look.colors(1024), look.colors(4000)), (1024, 2048));
        assert_eq!([1, 2, 3].map(|port| look.is_live(port)), [true, false, false]);
        assert_eq!(look.ports.keys().copied().collect::<Vec<_>>(), [1, 2]);
        let counters = v1::PortCounters {
            port: 1,
            received_packets: 1,
            sent_packets: 4,
            received_bytes: 90,
            sent_bytes: 336,
            dropped_packets: 5,
        };
        assert_eq!(look.ports[&1].counters, counters);
    }

    #[test]
    fn settings_that_entries_need_are_made_once() {
        let look = Look::read(PRINTED, &place()).unwrap();
        assert_eq!(
            look.preparation(&place()),
            "link set dev br0 type bridge mcast_query_response_interval 10 \
             mcast_querier_interval 86400000\n\
             link set dev br0 type bridge mcast_querier 1\n\
             link set dev p1 type bridge_slave mcast_flood off mcast_router 0\n"
        );
        let made = PRINTED.replace(r#""mcast_querier":0"#, r#""mcast_querier":1"#);
        let made = made.replace(r#"_querier_intvl":25500"#, r#"_querier_intvl":86400000"#);
        let made = made.replace(r#"_response_intvl":1000"#, r#"_response_intvl":10"#);
        let made = made.replace(
            r#""multicast_router":1,"mcast_flood":true"#,
            r#""multicast_router":0,"mcast_flood":false"#,
        );
        assert_eq!(Look::read(&made, &place()).unwrap().preparation(&place()), "");
        // A querier that gives hosts more time keeps others from using entries for that time.
        let slow = made.replace(r#"_response_intvl":10"#, r#"_response_intvl":1000"#);
        let lines = Look::read(&slow, &place()).unwrap().preparation(&place());
        assert!(lines.starts_with("link set dev br0 type bridge mcast_query_response_interval 10"));
        // The kernel stops to look at entries when a bridge has too many groups.
        let full = made.replace(r#""mcast_snooping":1"#, r#""mcast_snooping":0"#);
        assert_eq!(
            Look::read(&full, &place()).unwrap().preparation(&place()),
            "link set dev br0 type bridge mcast_snooping 1\n"
        );
    }

    #[test]
    fn a_name_that_is_never_printed_is_found() {
        let renamed = |text: &str, place: &Place| {
            let renamed = Look::read(text, place).unwrap().renamed?;
            Some((renamed.alternative, renamed.name))
        };
        let pair = |alternative: &str, name: &str| Some((alternative.to_owned(), name.to_owned()));
        let port = PRINTED.replace(r#""ifname":"p2""#, r#""ifname":"eth7","altnames":["x","p2"]"#);
        assert_eq!(renamed(&port, &place()), pair("p2", "eth7"));
        let bridge = Place { bridge: "br-storage".to_owned(), ..place() };
        assert_eq!(renamed(PRINTED, &bridge), pair("br-storage", "br0"));
        let other = PRINTED.replace(r#""ifname":"p2""#, r#""ifname":"p2","altnames":["x"]"#);
        assert_eq!(renamed(&other, &place()), None);
    }

    #[test]
    fn an_answer_of_another_form_is_told() {
        let wrong = |text: &str| Look::read(text, &place()).unwrap_err();
        assert_eq!(wrong(""), "nothing was printed");
        assert_eq!(wrong("[]"), "nothing was printed");
        assert!(wrong("[{").contains("EOF"));
        assert_eq!(wrong(r#"[{"ifname":"br0"}]"#), "br0 is no bridge");
        let veth = r#"[{"ifname":"br0","linkinfo":{"info_kind":"veth"}}]"#;
        assert_eq!(wrong(veth), "br0 is no bridge");
        let bare = PRINTED.replace(r#""mcast_hash_max":4096,"#, "");
        assert!(wrong(&bare).contains("mcast_hash_max"));
        let port = PRINTED.replace(r#""state":"disabled","#, "");
        assert!(wrong(&port).contains("p2: missing field `state`"));
    }
}
