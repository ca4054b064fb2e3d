//! Decides which bridges of a network namespace are looked at, by what `ip monitor` tells.
//!
//! One monitor tells of all interfaces of a namespace, whose bridges may be many. A bridge is
//! concerned by itself, by its ports, and by what else has it as the master; of an interface that
//! is renamed or leaves, by what it was before.
//!
//! | event | what is looked at |
//! | --- | --- |
//! | a line about an interface | the bridges that it concerns |
//! | a line of an unknown form | all bridges |
//! | a complaint: changes were missed | all bridges, once the monitor stands |
//! | the monitor stands after it has ended, or complained before | all bridges |
//! | the monitor ends | none |

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{CommandError, Heard};
use super::options::Place;

/// An event of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It has run for so long that it misses no change any more.
    Stands,
    Heard(Heard),
    /// It has ended, and will be started again.
    Ended(CommandError),
}

/// Consequence of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Bridges are looked at, by their places in the list.
    Look(BTreeSet<usize>),
    /// Somebody is told that changes are seen late.
    Warn(CommandError),
}

/// The bridges of a namespace, and what is known of the interfaces that concern them.
#[derive(Debug)]
pub(super) struct Dispatch {
    bridges: Vec<Place>,
    /// Bridges that the last line about an interface concerned, by its number.
    concerned: BTreeMap<u32, BTreeSet<usize>>,
    stands: bool,
    /// Changes may have been missed.
    is_behind: bool,
    has_ended: bool,
}

/// An interface, as a line tells of it.
#[derive(Debug, PartialEq, Eq)]
struct Interface<'a> {
    number: u32,
    /// Its name, perhaps with `@` and another interface behind it.
    name: &'a str,
    master: Option<&'a str>,
    is_deleted: bool,
}

impl Dispatch {
    pub(super) fn new(bridges: Vec<Place>) -> Self {
        let concerned = BTreeMap::new();
        Self { bridges, concerned, stands: false, is_behind: false, has_ended: false }
    }

    /// Takes an event.
    pub(super) fn handle(&mut self, event: Event) -> Reaction {
        match (event, self.stands) {
            (Event::Heard(Heard::Line(line)), _) => {
                Reaction::Look(self.take(&String::from_utf8_lossy(&line)))
            }
            (Event::Heard(Heard::Complaint), true) => Reaction::Look(self.all()),
            (Event::Heard(Heard::Complaint), false) => {
                self.is_behind = true;
                Reaction::Look(BTreeSet::new())
            }
            (Event::Stands, _) => {
                self.stands = true;
                let is_behind = std::mem::take(&mut self.is_behind);
                Reaction::Look(if is_behind { self.all() } else { BTreeSet::new() })
            }
            (Event::Ended(error), _) => {
                (self.stands, self.is_behind) = (false, true);
                let is_told = std::mem::replace(&mut self.has_ended, true);
                if is_told { Reaction::Look(BTreeSet::new()) } else { Reaction::Warn(error) }
            }
        }
    }

    /// All bridges; what was known of interfaces may have changed.
    fn all(&mut self) -> BTreeSet<usize> {
        self.concerned.clear();
        (0..self.bridges.len()).collect()
    }

    fn take(&mut self, line: &str) -> BTreeSet<usize> {
        // More about the interface of the line before is indented.
        if line.trim().is_empty() || line.starts_with(char::is_whitespace) {
            return BTreeSet::new();
        }
        let Some(interface) = Interface::read(line) else { return self.all() };
        let concerns = |(_, place): &(usize, &Place)| interface.concerns(place);
        let now: BTreeSet<usize> =
            self.bridges.iter().enumerate().filter(concerns).map(|(at, _)| at).collect();
        let before = if now.is_empty() || interface.is_deleted {
            self.concerned.remove(&interface.number)
        } else {
            self.concerned.insert(interface.number, now.clone())
        };
        before.into_iter().flatten().chain(now).collect()
    }
}

impl<'a> Interface<'a> {
    /// Reads a line as `4: p1@f1: <UP,LOWER_UP> mtu 1500 master br0 state UP`; `None` for one of
    /// another form.
    fn read(line: &'a str) -> Option<Self> {
        let (is_deleted, line) = match line.strip_prefix("Deleted ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let (number, rest) = line.split_once(": ")?;
        let (name, rest) = rest.split_once(": ")?;
        let master = rest.split_once(" master ").and_then(|(_, rest)| rest.split(' ').next());
        Some(Self { number: number.parse().ok()?, name, master, is_deleted })
    }

    fn concerns(&self, place: &Place) -> bool {
        let is_of = |name: &str| place.bridge == name || place.number(name).is_some();
        let own = self.name.rsplit_once('@').map(|(own, _)| own);
        is_of(self.name)
            || own.is_some_and(is_of)
            || self.master.is_some_and(|master| place.bridge == master)
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands::Tool;
    use super::*;

    /// Two bridges of one namespace.
    fn dispatch() -> Dispatch {
        let place = |bridge: &str, ports: [&str; 2]| {
            let ports = ports.map(str::to_owned).to_vec();
            Place { bridge: bridge.to_owned(), namespace: None, ports }
        };
        Dispatch::new(vec![place("br0", ["p1", "p2"]), place("br1", ["q1", "a@b"])])
    }

    const COMPLAINT: Event = Event::Heard(Heard::Complaint);

    fn ended() -> Event {
        Event::Ended(CommandError::Failed { tool: Tool::Ip, message: "killed".to_owned() })
    }

    fn line(bytes: &[u8]) -> Event {
        Event::Heard(Heard::Line(bytes.to_vec()))
    }

    fn look(bridges: &[usize]) -> Reaction {
        Reaction::Look(bridges.iter().copied().collect())
    }

    /// Has a line told; returns the bridges that it concerns.
    fn told(dispatch: &mut Dispatch, text: &str) -> Vec<usize> {
        match dispatch.handle(line(text.as_bytes())) {
            Reaction::Look(bridges) => bridges.into_iter().collect(),
            Reaction::Warn(error) => panic!("{error}"),
        }
    }

    /// Lines as iproute2 6.1 prints them on Linux 6.18.
    #[test]
    fn a_bridge_is_looked_at_when_it_or_a_port_of_it_changes() {
        let mut dispatch = dispatch();
        let cases: [(&str, &[usize]); 10] = [
            ("2: br0: <BROADCAST,UP> mtu 1500 qdisc noop state DOWN group default ", &[0]),
            ("    link/ether 2e:2d:8e:f6:9c:93 brd ff:ff:ff:ff:ff:ff", &[]),
            ("4: p1@f1: <UP,LOWER_UP> mtu 1500 qdisc noqueue state UP group default ", &[0]),
            ("5: q1@NONE: <BROADCAST,M-DOWN> mtu 1500 qdisc noop state DOWN", &[1]),
            ("6: a@b: <NOARP> mtu 1500 qdisc noop state DOWN", &[1]),
            ("7: other: <UP> mtu 1500 master br1 state UP ", &[1]),
            ("8: other@p1: <UP> mtu 1500 qdisc noqueue state UP group default ", &[]),
            ("9: p11: <UP> mtu 1500 master br00 state UP ", &[]),
            ("Deleted 5: q1@NONE: <BROADCAST> mtu 1500 qdisc noop state DOWN", &[1]),
            ("", &[]),
        ];
        for (text, concerned) in cases {
            assert_eq!(told(&mut dispatch, text), concerned, "{text}");
        }
        let any_bytes = line(b"10: \xff: <UP> mtu 1500 state UP ");
        assert_eq!(dispatch.handle(any_bytes), look(&[]));
    }

    #[test]
    fn an_interface_that_leaves_concerns_the_bridge_of_before() {
        let mut dispatch = dispatch();
        assert_eq!(told(&mut dispatch, "4: p1@f1: <UP> mtu 1500 master br0 state UP "), [0]);
        assert_eq!(told(&mut dispatch, "4: x1@f1: <UP> mtu 1500 state UP "), [0]);
        let nothing = told(&mut dispatch, "4: x1@f1: <UP> mtu 1500 state UP ");
        assert!(nothing.is_empty(), "it has left");
        assert_eq!(told(&mut dispatch, "4: q1@f1: <UP> mtu 1500 master br0 state UP "), [0, 1]);
        assert_eq!(told(&mut dispatch, "4: x1@f1: <UP> mtu 1500 master br1 state UP "), [0, 1]);
        assert_eq!(told(&mut dispatch, "Deleted 4: x1: <> mtu 1500 master br1 state DOWN "), [1]);
        assert_eq!(dispatch.concerned, BTreeMap::new(), "nothing is kept of what is gone");
    }

    #[test]
    fn all_bridges_are_looked_at_when_it_is_unknown_which_have_changed() {
        let mut dispatch = dispatch();
        assert_eq!(dispatch.handle(Event::Stands), look(&[]), "they were looked at just now");
        assert_eq!(told(&mut dispatch, "[nsid 1]4: p1: <UP> mtu 1500 state UP "), [0, 1]);
        assert_eq!(dispatch.handle(COMPLAINT), look(&[0, 1]));
    }

    #[test]
    fn after_a_monitor_has_ended_all_is_read_anew_and_one_warning_is_enough() {
        let mut dispatch = dispatch();
        dispatch.handle(Event::Stands);
        assert!(matches!(dispatch.handle(ended()), Reaction::Warn(_)));
        // One that cannot be started costs nothing.
        for event in [COMPLAINT, ended(), COMPLAINT] {
            assert_eq!(dispatch.handle(event.clone()), look(&[]), "{event:?}");
        }
        assert_eq!(dispatch.handle(Event::Stands), look(&[0, 1]));
        assert_eq!(told(&mut dispatch, "2: br0: <UP> mtu 1500 state UP "), [0]);
    }

    #[test]
    fn a_monitor_that_complains_at_once_has_all_looked_at_once_it_stands() {
        let mut dispatch = dispatch();
        assert_eq!(dispatch.handle(COMPLAINT), look(&[]));
        assert_eq!(dispatch.handle(Event::Stands), look(&[0, 1]));
    }
}
