//! A kernel with bridges that the test makes, behind `ip` and `bridge`; some behave badly.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::super::commands::{Answer, CommandError, Commands, Heard, RefusedLine, Tool};

/// State of the only bridge of a namespace, br0.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Number of the interface, given when it is put in.
    index: u32,
    pub(super) is_up: bool,
    pub(super) is_snooping: bool,
    pub(super) is_querier: bool,
    /// Time of hosts to answer its queries, and for which it remembers another querier.
    pub(super) intervals: [u64; 2],
    pub(super) has_vlans: bool,
    pub(super) alias: String,
    pub(super) most_groups: usize,
    /// Ports by interface: true for those with a signal.
    pub(super) ports: BTreeMap<String, bool>,
    /// Ports that send multicast packets without an entry.
    pub(super) flooding: BTreeSet<String>,
    /// Group and interface of each entry; true for those that were written.
    pub(super) entries: BTreeMap<(String, String), bool>,
}

impl Model {
    pub(super) fn new(ports: usize) -> Self {
        let ports: BTreeMap<_, _> = (1..=ports).map(|port| (format!("p{port}"), true)).collect();
        Self {
            index: 0,
            is_up: true,
            is_snooping: true,
            is_querier: false,
            intervals: [1000, 25_500],
            has_vlans: false,
            alias: String::new(),
            most_groups: 64,
            flooding: ports.keys().cloned().collect(),
            ports,
            entries: BTreeMap::new(),
        }
    }

    /// Written entries, as `239.192.0.1 p1 p2`.
    pub(super) fn written(&self) -> Vec<String> {
        let mut groups: BTreeMap<&str, String> = BTreeMap::new();
        for (group, port) in self.entries.iter().filter(|(_, written)| **written).map(|(at, _)| at)
        {
            *groups.entry(group).or_default() += &format!(" {port}");
        }
        groups.into_iter().map(|(group, ports)| format!("{group}{ports}")).collect()
    }

    fn show(&self, words: &[&str], text: &mut String) -> Result<(), String> {
        let kind = |bridge: &str| format!("\"linkinfo\":{{{bridge}}}");
        if words == ["link", "show", "dev", "br0"] {
            let flags = if self.is_up { "\"UP\"" } else { "" };
            let data = format!(
                "\"info_kind\":\"bridge\",\"info_data\":{{\"mcast_snooping\":{},\
                 \"mcast_querier\":{},\"vlan_filtering\":{},\"mcast_hash_max\":{},\
                 \"mcast_query_response_intvl\":{},\"mcast_querier_intvl\":{}}}",
                u8::from(self.is_snooping),
                u8::from(self.is_querier),
                u8::from(self.has_vlans),
                self.most_groups,
                self.intervals[0],
                self.intervals[1]
            );
            let (index, alias, info) = (self.index, &self.alias, kind(&data));
            let head = format!("\"ifname\":\"br0\",\"flags\":[{flags}],\"ifalias\":\"{alias}\"");
            let _ = writeln!(text, "[{{\"ifindex\":{index},{head},{info}}}]");
            return Ok(());
        }
        let port = |(name, live): (&String, &bool)| {
            let (flag, state) =
                if *live { ("\"LOWER_UP\"", "forwarding") } else { ("", "disabled") };
            let floods = self.flooding.contains(name);
            let data = format!(
                "\"info_slave_data\":{{\"state\":\"{state}\",\"mcast_flood\":{floods},\
                 \"multicast_router\":{}}}",
                u8::from(floods)
            );
            format!("{{\"ifname\":\"{name}\",\"flags\":[{flag}],{}}}", kind(&data))
        };
        let ports: Vec<String> = self.ports.iter().map(port).collect();
        let _ = writeln!(text, "[{}]", ports.join(","));
        Ok(())
    }

    fn set(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["link", "set", "dev", "br0", "alias", alias] => (*alias).clone_into(&mut self.alias),
            ["link", "set", "dev", "br0", "type", "bridge", key, value] => match *key {
                "mcast_snooping" => self.is_snooping = *value == "1",
                "mcast_querier" => self.is_querier = *value == "1",
                _ => return Err(format!("unknown {key}")),
            },
            ["link", "set", "dev", "br0", "type", "bridge", first, answer, second, quiet] => {
                let keys = ["mcast_query_response_interval", "mcast_querier_interval"];
                assert_eq!([*first, *second], keys);
                self.intervals = [answer, quiet].map(|value| value.parse().unwrap());
            }
            ["link", "set", "dev", port, "type", "bridge_slave", ..] => {
                self.flooding.remove(*port);
            }
            _ => return Err(format!("unknown {words:?}")),
        }
        Ok(())
    }

    fn entry(&mut self, words: &[&str]) -> Result<(), String> {
        let (verb, port, group) = match words {
            ["mdb", verb, "dev", "br0", "port", port, "grp", group, ..] => (*verb, *port, *group),
            _ => return Err(format!("unknown {words:?}")),
        };
        let key = (group.to_owned(), port.to_owned());
        if verb == "del" {
            let gone = self.entries.remove(&key);
            return gone.map(drop).ok_or("RTNETLINK answers: Invalid argument".to_owned());
        }
        if !self.ports.contains_key(port) {
            return Err("bridge: Net device is not a bridge port.".to_owned());
        }
        if self.entries.contains_key(&key) {
            return Err("bridge: (*, G) group is already joined by port.".to_owned());
        }
        let groups: BTreeSet<&String> = self.entries.keys().map(|(group, _)| group).collect();
        if !groups.contains(&key.0) && groups.len() >= self.most_groups {
            self.is_snooping = false; // so does Linux
            return Err("RTNETLINK answers: Argument list too long".to_owned());
        }
        self.entries.insert(key, true);
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Habits {
    /// Nothing is answered.
    pub(super) is_silent: bool,
    /// No process can be started.
    pub(super) has_no_process: bool,
    /// Others come to run meanwhile.
    pub(super) is_slow: bool,
    /// Entries of this interface are refused.
    pub(super) refused: Option<String>,
    /// Entries of this interface are confirmed, and not kept.
    pub(super) forgotten: Option<String>,
    /// A host joins this group at this interface, before the next entry is written.
    pub(super) joins: Option<(String, String)>,
}

/// All bridges by namespace.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) bridges: Mutex<BTreeMap<String, Model>>,
    pub(super) habits: Mutex<Habits>,
    /// Lines that changed entries, with the namespace before them.
    pub(super) changes: Mutex<Vec<String>>,
    /// Commands that run, and the most that have run at once.
    pub(super) running: Mutex<(usize, usize)>,
    /// Monitors that were started, by namespace; they end when the sender is dropped.
    monitors: Mutex<Vec<(String, mpsc::UnboundedSender<String>)>>,
    /// Number of the last interface.
    made: Mutex<u32>,
}

impl Kernel {
    /// Changes a bridge, and tells of it.
    pub(super) fn change(&self, namespace: &str, change: impl FnOnce(&mut Model)) {
        change(self.bridges.lock().get_mut(namespace).unwrap());
        self.tell(namespace);
    }

    /// Has the monitors of a namespace say that its bridge has changed.
    fn tell(&self, namespace: &str) {
        for (_, told) in self.monitors.lock().iter().filter(|(name, _)| name == namespace) {
            let _ = told.send("2: br0: <BROADCAST,MULTICAST> mtu 1500 state UP ".to_owned());
        }
    }

    /// Ends all monitors.
    pub(super) fn end_monitors(&self) {
        self.monitors.lock().clear();
    }

    /// Namespaces of the monitors that run, sorted.
    pub(super) fn monitored(&self) -> Vec<String> {
        let monitors = self.monitors.lock();
        let running = monitors.iter().filter(|(_, told)| !told.is_closed());
        let mut namespaces: Vec<_> = running.map(|(namespace, _)| namespace.clone()).collect();
        namespaces.sort();
        namespaces
    }

    /// Takes a bridge out, or puts it in.
    pub(super) fn replace(&self, namespace: &str, model: Option<Model>) {
        let mut bridges = self.bridges.lock();
        match model {
            Some(model) => {
                let mut made = self.made.lock();
                *made += 1;
                bridges.insert(namespace.to_owned(), Model { index: *made, ..model });
            }
            None => drop(bridges.remove(namespace)),
        }
        drop(bridges);
        self.tell(namespace);
    }

    pub(super) fn written(&self, namespace: &str) -> Vec<String> {
        self.bridges.lock()[namespace].written()
    }

    fn line(&self, namespace: &str, line: &str, text: &mut String) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut bridges = self.bridges.lock();
        let Some(bridge) = bridges.get_mut(namespace) else {
            return Err("Cannot find device \"br0\"".to_owned());
        };
        match words[..] {
            ["link", "show", ..] => bridge.show(&words, text),
            ["link", "set", ..] => bridge.set(&words),
            ["mdb", "show", ..] => {
                let row = |((group, port), written): (&(String, String), &bool)| {
                    let state = if *written { "permanent" } else { "temp" };
                    format!("{{\"port\":\"{port}\",\"grp\":\"{group}\",\"state\":\"{state}\"}}")
                };
                let rows: Vec<String> = bridge.entries.iter().map(row).collect();
                let _ = writeln!(text, "[{{\"mdb\":[{}],\"router\":{{}}}}]", rows.join(","));
                Ok(())
            }
            _ => {
                let mut habits = self.habits.lock();
                if let Some(joined) = habits.joins.take() {
                    bridge.entries.insert(joined, false);
                }
                self.changes.lock().push(format!("{namespace}: {line}"));
                let is_of = |one: &Option<String>| {
                    one.as_ref().is_some_and(|port| words[1] == "add" && words[5] == *port)
                };
                if is_of(&habits.refused) {
                    return Err("bridge: refused by the test".to_owned());
                }
                if is_of(&habits.forgotten) { Ok(()) } else { bridge.entry(&words) }
            }
        }
    }
}

#[tonic::async_trait]
impl Commands for Kernel {
    async fn run(
        &self,
        tool: Tool,
        namespace: Option<&str>,
        lines: &str,
    ) -> Result<Answer, CommandError> {
        if self.habits.lock().is_silent {
            return Err(CommandError::NoAnswer { tool, limit: Duration::ZERO });
        }
        if self.habits.lock().has_no_process {
            return Err(CommandError::NoProcess { tool, message: "no room".to_owned() });
        }
        {
            let mut running = self.running.lock();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        if self.habits.lock().is_slow {
            tokio::task::yield_now().await;
        }
        let mut answer = Answer::default();
        for (number, line) in (1..).zip(lines.lines()) {
            let of_tool = if tool == Tool::Ip { "link " } else { "mdb " };
            assert!(line.starts_with(of_tool), "{tool}: {line}");
            let done = self.line(namespace.unwrap_or_default(), line, &mut answer.text);
            if let Err(message) = done {
                answer.refused.push(RefusedLine { line: number, message });
            }
        }
        self.running.lock().0 -= 1;
        Ok(answer)
    }

    async fn monitor(
        &self,
        namespace: Option<&str>,
        hear: &(dyn Fn(Heard) + Send + Sync),
    ) -> CommandError {
        let (told, mut lines) = mpsc::unbounded_channel();
        self.monitors.lock().push((namespace.unwrap_or_default().to_owned(), told));
        while let Some(line) = lines.recv().await {
            hear(Heard::Line(line.into_bytes()));
        }
        CommandError::Failed { tool: Tool::Ip, message: "ended by the test".to_owned() }
    }
}
