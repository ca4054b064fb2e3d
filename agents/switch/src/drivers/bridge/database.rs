//! The multicast database of a bridge, and the changes that make it what it ought to be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use fabricast_topology::PortSet;
use serde::Deserialize;

use super::options::{Addresses, Place};

/// Ports by group.
pub(super) type Groups = BTreeMap<Ipv4Addr, PortSet>;

/// Entries of a database that matter here: all but the last field are of our addresses only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Database {
    /// Ports of the entries that were written.
    pub(super) written: Groups,
    /// Ports at which the bridge itself has heard hosts join.
    pub(super) heard: Groups,
    /// Written entries of interfaces that are no port of the switch.
    pub(super) elsewhere: BTreeSet<(Ipv4Addr, String)>,
    /// Groups with entries that nobody wrote, and that stay: of the bridge itself, or heard at
    /// interfaces that are no port of the switch.
    kept: BTreeSet<Ipv4Addr>,
    /// All groups, which count against the limit of the bridge.
    pub(super) groups: BTreeSet<String>,
}

/// One value that `bridge -json mdb show` prints.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    mdb: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    port: String,
    grp: String,
    /// Source of the packets, where an entry is for one only.
    #[serde(default)]
    src: Option<String>,
    /// VLAN of an entry that a bridge uses only while it filters VLANs.
    #[serde(default)]
    vid: u16,
    state: String,
}

impl Database {
    /// Reads the output of `bridge -json mdb show dev BRIDGE`.
    ///
    /// - `is_ours`: true for the addresses whose entries matter.
    ///
    /// # Errors
    ///
    /// Text that is not of this form.
    pub(super) fn read(
        text: &str,
        place: &Place,
        is_ours: impl Fn(Ipv4Addr) -> bool,
    ) -> Result<Self, serde_json::Error> {
        let reports: Vec<Report> = serde_json::from_str(text)?;
        let mut database = Self::default();
        for row in reports.into_iter().flat_map(|report| report.mdb) {
            let mut some = row.src.map_or_else(String::new, |source| format!(" of {source}"));
            if row.vid != 0 {
                some += &format!(" in VLAN {}", row.vid);
            }
            database.groups.insert(format!("{}{some}", row.grp));
            let group = row.grp.parse().ok().filter(|group| is_ours(*group));
            // An entry for one source comes of a report that the bridge heard.
            let Some(group) = group.filter(|_| some.is_empty()) else { continue };
            if row.port == place.bridge {
                database.kept.insert(group);
                continue;
            }
            match (place.number(&row.port), row.state == "permanent") {
                (Some(port), true) => database.written.entry(group).or_default().insert(port),
                (Some(port), false) => database.heard.entry(group).or_default().insert(port),
                (None, true) => {
                    database.elsewhere.insert((group, row.port));
                }
                (None, false) => {
                    database.kept.insert(group);
                }
            }
        }
        Ok(database)
    }

    /// Ports of the colors that have an entry.
    pub(super) fn colors(&self, addresses: &Addresses) -> BTreeMap<u16, PortSet> {
        let color =
            |(group, ports): (&Ipv4Addr, &PortSet)| Some((addresses.color(*group)?, *ports));
        self.written.iter().filter_map(color).collect()
    }

    /// True if all entries of our addresses are the wanted ones.
    pub(super) fn is(&self, wanted: &Groups) -> bool {
        self.written == *wanted && self.elsewhere.is_empty()
    }

    /// Changes that make the entries of our addresses the wanted ones. Ports leave before others
    /// come, so that a packet never takes both ways, and room is free before it is needed.
    ///
    /// - `wanted`: no set is empty, and all ports are ports of the place.
    pub(super) fn changes(&self, wanted: &Groups, place: &Place) -> Vec<Change> {
        let ports =
            |groups: &Groups, group: &Ipv4Addr| groups.get(group).copied().unwrap_or_default();
        let change = |verb, group: &Ipv4Addr, port: u8| {
            let interface = place.interface(port)?.to_owned();
            Some(Change { verb, group: *group, interface })
        };
        let (mut leaving, mut coming) = (Vec::new(), Vec::new());
        for (group, interface) in &self.elsewhere {
            let interface = interface.clone();
            leaving.push(Change { verb: Verb::Remove, group: *group, interface });
        }
        let groups: BTreeSet<&Ipv4Addr> = self.written.keys().chain(wanted.keys()).collect();
        for group in groups {
            let (before, after) = (ports(&self.written, group), ports(wanted, group));
            let new = after.difference(before);
            // The kernel does not write an entry that it has made itself; it has to go first.
            let in_the_way = new.intersection(ports(&self.heard, group));
            let leave = before.difference(after).union(in_the_way);
            leaving.extend(leave.iter().filter_map(|port| change(Verb::Remove, group, port)));
            coming.extend(new.iter().filter_map(|port| change(Verb::Add, group, port)));
        }
        leaving.extend(coming);
        leaving
    }

    /// Number of groups that the bridge has once the entries of our addresses are the wanted ones.
    pub(super) fn groups_with(&self, wanted: &Groups) -> usize {
        let stays = |group: &Ipv4Addr| {
            let is_heard = self.heard.contains_key(group) || self.kept.contains(group);
            is_heard || wanted.contains_key(group)
        };
        let elsewhere = self.elsewhere.iter().map(|(group, _)| group);
        let leaving = self.written.keys().chain(elsewhere).filter(|group| !stays(group));
        let leaving: BTreeSet<String> = leaving.map(ToString::to_string).collect();
        let new = wanted.keys().map(ToString::to_string);
        let new = new.filter(|group| !self.groups.contains(group)).count();
        self.groups.difference(&leaving).count() + new
    }
}

/// Change of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) verb: Verb,
    pub(super) group: Ipv4Addr,
    pub(super) interface: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Add,
    Remove,
}

impl Change {
    /// The line that has `bridge` make the change.
    pub(super) fn line(&self, place: &Place) -> String {
        let Self { verb, group, interface } = self;
        let bridge = &place.bridge;
        match verb {
            Verb::Add => format!("mdb add dev {bridge} port {interface} grp {group} permanent\n"),
            Verb::Remove => format!("mdb del dev {bridge} port {interface} grp {group}\n"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, interface } = self;
        let verb = match verb {
            Verb::Add => "adding",
            Verb::Remove => "removing",
        };
        write!(f, "{verb} port {interface} of group {group}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::*;

    /// As iproute2 6.1 prints it on Linux 6.18.
    const PRINTED: &str = r#"[{"mdb":[
        {"index":2,"dev":"br0","port":"p2","grp":"239.192.0.1","state":"permanent","flags":[]},
        {"index":2,"dev":"br0","port":"p3","grp":"239.192.0.1","state":"permanent","flags":[]},
        {"index":2,"dev":"br0","port":"p3","grp":"239.1.1.1","state":"temp","flags":[]},
        {"index":2,"dev":"br0","port":"p9","grp":"239.1.1.2","state":"permanent","flags":[]},
        {"index":2,"dev":"br0","port":"p1","grp":"239.5.0.1","src":"10.0.0.1","state":"temp"},
        {"index":2,"dev":"br0","port":"p1","grp":"224.0.1.1","state":"permanent","flags":[]},
        {"index":2,"dev":"br0","port":"p1","grp":"ff02::1:ff50:8c3b","state":"temp","flags":[]},
        {"index":2,"dev":"br0","port":"br0","grp":"239.1.1.3","state":"temp","flags":[]},
        {"index":2,"dev":"br0","port":"br0","grp":"ff02::6a","state":"temp","flags":[]}
        ],"router":{}}]"#;

    fn place() -> Place {
        let ports = ["p1", "p2", "p3"].map(str::to_owned).to_vec();
        Place { bridge: "br0".to_owned(), namespace: None, ports }
    }

    fn addresses() -> Addresses {
        let options: Options = toml::from_str("topology = 'f'\nbridges = []").unwrap();
        options.addresses().unwrap()
    }

    fn group(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    fn groups(pairs: &[(&str, &[u8])]) -> Groups {
        pairs.iter().map(|(text, ports)| (group(text), ports.iter().copied().collect())).collect()
    }

    fn printed() -> Database {
        read(PRINTED).unwrap()
    }

    fn read(text: &str) -> Result<Database, serde_json::Error> {
        let addresses = addresses();
        Database::read(text, &place(), |group| addresses.is_ours(group))
    }

    #[test]
    fn entries_of_our_addresses_are_read_and_all_groups_counted() {
        let database = printed();
        assert_eq!(database.written, groups(&[("239.192.0.1", &[2, 3])]));
        assert_eq!(database.heard, groups(&[("239.1.1.1", &[3])]));
        let elsewhere = BTreeSet::from([(group("239.1.1.2"), "p9".to_owned())]);
        assert_eq!(database.elsewhere, elsewhere);
        assert_eq!(database.groups.len(), 8);
        let ports: PortSet = [2, 3].into_iter().collect();
        assert_eq!(database.colors(&addresses()), BTreeMap::from([(1, ports)]));
        for empty in ["[]", "[{}]", r#"[{"mdb":[],"router":{}}]"#] {
            assert_eq!(read(empty).unwrap(), Database::default(), "{empty}");
        }
        for wrong in ["", "{", "[{\"mdb\":[{}]}]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    /// A bridge that has filtered VLANs keeps their entries, and does not use them any more.
    #[test]
    fn an_entry_of_a_vlan_is_another_one() {
        let row = r#"{"port":"p1","grp":"239.192.0.1","state":"permanent","vid":10}"#;
        let more = PRINTED.replacen("[{\"mdb\":[", &format!("[{{\"mdb\":[{row},"), 1);
        let read = read(&more).unwrap();
        assert_eq!(read.written, printed().written);
        assert_eq!(read.groups.len(), 9);
    }

    #[test]
    fn ports_leave_before_others_come() {
        let wanted = groups(&[("239.192.0.1", &[1, 3]), ("239.1.1.1", &[3])]);
        let database = printed();
        let changes = database.changes(&wanted, &place());
        let lines: String = changes.iter().map(|change| change.line(&place())).collect();
        assert_eq!(
            lines,
            "mdb del dev br0 port p9 grp 239.1.1.2\n\
             mdb del dev br0 port p3 grp 239.1.1.1\n\
             mdb del dev br0 port p2 grp 239.192.0.1\n\
             mdb add dev br0 port p3 grp 239.1.1.1 permanent\n\
             mdb add dev br0 port p1 grp 239.192.0.1 permanent\n"
        );
        assert_eq!(changes[3].to_string(), "adding port p3 of group 239.1.1.1");
        assert!(!database.is(&wanted));
        let done = Database { written: wanted.clone(), ..Database::default() };
        assert!(done.is(&wanted));
        assert_eq!(done.changes(&wanted, &place()), []);
    }

    #[test]
    fn groups_are_counted_as_the_kernel_counts_them() {
        let database = printed();
        // Only the stray entry goes.
        assert_eq!(database.groups_with(&groups(&[("239.192.0.1", &[1])])), 7);
        // The last port of a group goes, and with it the group.
        assert_eq!(database.groups_with(&Groups::new()), 6);
        // A group that hosts have joined is there already.
        assert_eq!(database.groups_with(&groups(&[("239.1.1.1", &[1])])), 6);
        assert_eq!(database.groups_with(&groups(&[("239.1.1.2", &[1]), ("239.9.0.1", &[2])])), 8);
        // One that the bridge itself has joined stays when our last port leaves it, and so does one
        // that a host has joined at an interface that is no port of the switch.
        for port in ["br0", "p9"] {
            let row = format!(r#"{{"port":"{port}","grp":"239.192.0.1","state":"temp"}}"#);
            let joined = PRINTED.replacen("[{\"mdb\":[", &format!("[{{\"mdb\":[{row},"), 1);
            let joined = read(&joined).unwrap();
            assert_eq!(joined.groups_with(&Groups::new()), 7, "{port}");
        }
    }
}
