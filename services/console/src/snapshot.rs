//! The state of the control plane that all pages are made of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fabricast_drawing::{Fabric, Overlay};
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_topology::Faults;

use crate::calls::Server;
use crate::history::Histories;
use crate::overlay;
use crate::rates::Rates;

/// Time within which events of a kind are told together.
const TOGETHER: Duration = Duration::from_secs(5);
/// Most events that are kept.
const MAX_EVENTS: usize = 100;

/// The state at one moment; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Grows with every change.
    pub(crate) version: u64,
    /// The fabric; none while no TIC has answered.
    pub(crate) fabric: Option<Arc<Fabric>>,
    /// Failed parts of the fabric, as the TIC knows them.
    pub(crate) failed: Arc<Vec<v1::Element>>,
    /// The same, for the drawing.
    pub(crate) faults: Arc<Faults>,
    /// Groups by GN, without members.
    pub(crate) groups: Arc<BTreeMap<u64, Arc<v1::Group>>>,
    /// Nodes by name.
    pub(crate) nodes: Arc<BTreeMap<String, Arc<v1::Node>>>,
    /// Revision of the records.
    pub(crate) revision: u64,
    /// State of the route service.
    pub(crate) status: Option<Arc<v1::GetRouteStatusResponse>>,
    /// Switches, as their agents list them.
    pub(crate) switches: Arc<Vec<v1::Switch>>,
    /// Differences of tables.
    pub(crate) drifts: Option<Arc<v1::ListTableDriftsResponse>>,
    /// The servers that were asked.
    pub(crate) servers: Arc<Vec<Server>>,
    /// Problems by what could not be read.
    pub(crate) problems: BTreeMap<Source, String>,
    /// Latest events, newest first.
    pub(crate) events: Arc<VecDeque<Event>>,
    /// Changes of groups.
    pub(crate) histories: Histories,
    /// Rates of packets, or why they are not known; none while nobody looks at them.
    pub(crate) rates: Option<Arc<Result<Rates, String>>>,
}

/// All records of the TIC, put together message by message. The changes that they come as would
/// take tens of megabytes more.
#[derive(Debug, Default)]
pub(crate) struct Records {
    groups: BTreeMap<u64, Arc<v1::Group>>,
    nodes: BTreeMap<String, Arc<v1::Node>>,
    failed: Vec<v1::Element>,
}

impl Records {
    /// Adds records of a snapshot; members, which are many, are only fetched for the page of a
    /// group.
    pub(crate) fn add(&mut self, records: Vec<v1::DirectoryChange>) {
        for record in records.into_iter().filter_map(|record| record.kind) {
            match record {
                Kind::Group(group) => drop(self.groups.insert(group.gn, Arc::new(group))),
                Kind::Node(mut node) => {
                    node.endpoints.shrink_to_fit(); // a decoded list has room for four
                    drop(self.nodes.insert(node.name.clone(), Arc::new(node)));
                }
                Kind::FailedElements(list) => self.failed = list.elements,
                // Nothing is deleted in a snapshot.
                Kind::DeletedGn(_) | Kind::RemovedNode(_) | Kind::Joined(_) | Kind::Left(_) => {}
            }
        }
    }
}

/// A source of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Records,
    RouteService,
    Switches,
    Drifts,
}

impl Source {
    /// The words for it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Records => {
                "groups, nodes and failures are not up to date: no TIC that leads answers"
            }
            Self::RouteService => "no route service answers",
            Self::Switches => "switch agents do not answer",
            Self::Drifts => "it is not known what the switches really hold",
        }
    }
}

/// A change that people want to know of.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) at: SystemTime,
    pub(crate) text: String,
    pub(crate) is_bad: bool,
    /// Number of others of the same kind that came with it.
    pub(crate) more: usize,
    kind: EventKind,
}

/// The kind of an event; those of a kind that come at once are told together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    GroupEnded,
    NodeUp,
    NodeFailed,
    NodeRemoved,
    /// An event that is never told together with others.
    Other,
}

/// A change that is about to be told.
struct News {
    kind: EventKind,
    is_bad: bool,
    text: String,
}

impl News {
    fn good(kind: EventKind, text: String) -> Self {
        Self { kind, is_bad: false, text }
    }

    fn bad(kind: EventKind, text: String) -> Self {
        Self { kind, is_bad: true, text }
    }
}

impl Snapshot {
    /// Puts all records of the TIC in place of those that were known.
    pub(crate) fn replace_records(&mut self, records: Records) {
        let Records { groups, nodes, failed } = records;
        let before = std::mem::replace(&mut self.groups, Arc::new(groups));
        self.nodes = Arc::new(nodes);
        self.put_failed(failed);
        let at = SystemTime::now();
        for (gn, group) in self.groups.iter() {
            if let Some(before) = before.get(gn) {
                self.histories.note(before, group, at);
            }
        }
        self.histories.keep_only(&self.groups);
    }

    /// Applies changes of the records.
    pub(crate) fn apply(&mut self, changes: Vec<v1::DirectoryChange>) {
        let mut events = Vec::new();
        for change in changes.into_iter().filter_map(|change| change.kind) {
            match change {
                Kind::Group(group) => {
                    if let Some(before) = self.groups.get(&group.gn) {
                        self.histories.note(before, &group, SystemTime::now());
                    }
                    drop(Arc::make_mut(&mut self.groups).insert(group.gn, Arc::new(group)));
                }
                Kind::DeletedGn(gn) => {
                    self.histories.forget(gn);
                    if let Some(group) = Arc::make_mut(&mut self.groups).remove(&gn) {
                        let text = format!("group {} ended", group.name);
                        events.push(News::good(EventKind::GroupEnded, text));
                    }
                }
                Kind::Node(node) => events.extend(self.put_node(node)),
                Kind::RemovedNode(name) => {
                    Arc::make_mut(&mut self.nodes).remove(&name);
                    let text = format!("node {name} was removed");
                    events.push(News::good(EventKind::NodeRemoved, text));
                }
                Kind::FailedElements(list) => events.extend(self.put_failed(list.elements)),
                Kind::Joined(_) | Kind::Left(_) => {} // the group's record has their number
            }
        }
        for news in events {
            self.tell(news);
        }
    }

    fn put_node(&mut self, node: v1::Node) -> Option<News> {
        let before = self.nodes.get(&node.name).map(|known| known.state());
        let (name, now) = (node.name.clone(), node.state());
        Arc::make_mut(&mut self.nodes).insert(name.clone(), Arc::new(node));
        match (before, now) {
            (Some(before), now) if before == now => None,
            (_, v1::NodeState::Failed) => {
                Some(News::bad(EventKind::NodeFailed, format!("node {name} failed")))
            }
            (None | Some(_), _) => {
                Some(News::good(EventKind::NodeUp, format!("node {name} is up")))
            }
        }
    }

    fn put_failed(&mut self, elements: Vec<v1::Element>) -> Vec<News> {
        let (old, new) = (Arc::clone(&self.failed), elements);
        let gone = old.iter().filter(|one| !new.contains(one));
        let came = new.iter().filter(|one| !old.contains(one));
        let works = |one: &v1::Element| {
            News::good(EventKind::Other, format!("{} works again", element_text(one)))
        };
        let failed = |one: &v1::Element| {
            News::bad(EventKind::Other, format!("{} failed", element_text(one)))
        };
        let events = gone.map(works).chain(came.map(failed)).collect();
        self.failed = Arc::new(new);
        self.update_faults();
        events
    }

    /// Puts another topology in place.
    pub(crate) fn set_fabric(&mut self, fabric: Arc<Fabric>) {
        self.fabric = Some(fabric);
        self.update_faults();
    }

    fn update_faults(&mut self) {
        let fabric = self.fabric.as_ref();
        self.faults = Arc::new(
            fabric.map(|fabric| overlay::faults(fabric.graph(), &self.failed)).unwrap_or_default(),
        );
    }

    /// Remembers an event.
    fn tell(&mut self, news: News) {
        let News { kind, is_bad, text } = news;
        let (at, events) = (SystemTime::now(), Arc::make_mut(&mut self.events));
        if let Some(newest) = events.front_mut()
            && newest.kind == kind
            && kind != EventKind::Other
            && at.duration_since(newest.at).is_ok_and(|passed| passed < TOGETHER)
        {
            newest.more += 1;
            return;
        }
        events.push_front(Event { at, text, is_bad, more: 0, kind });
        events.truncate(MAX_EVENTS);
    }

    /// Records a problem, or that there is none any more.
    pub(crate) fn set_problem(&mut self, source: Source, problem: Option<String>) {
        let had = self.problems.remove(&source).is_some();
        match problem {
            Some(problem) => {
                if !had {
                    let text = format!("{}: {problem}", source.words());
                    self.tell(News::bad(EventKind::Other, text));
                }
                self.problems.insert(source, problem);
            }
            None if had => {
                let text = format!("answered again: {}", source.name());
                self.tell(News::good(EventKind::Other, text));
            }
            None => {}
        }
    }

    /// Faults and entries, for the drawing.
    pub(crate) fn overlay(&self) -> Overlay {
        let mut overlay = Overlay { faults: (*self.faults).clone(), ..Overlay::default() };
        let Some(fabric) = &self.fabric else { return overlay };
        overlay.full = self.switches.iter().map(|one| one.colors).max().unwrap_or(0);
        if !self.switches.is_empty() {
            overlay.by_switch = vec![0; fabric.graph().switch_count()];
        }
        for switch in self.switches.iter() {
            if let Some(found) = fabric.graph().find_switch(&switch.name) {
                overlay.by_switch[found.index()] = switch.used_entries;
            }
        }
        overlay
    }

    /// Finds a group by name.
    pub(crate) fn group(&self, name: &str) -> Option<&Arc<v1::Group>> {
        self.groups.values().find(|group| group.name == name)
    }

    /// Addresses of the switch agents.
    pub(crate) fn switch_agents(&self) -> Vec<String> {
        let agents = self.servers.iter().filter(|server| server.is("switch-agent"));
        agents.map(|server| server.address.clone()).collect()
    }
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Records => "the TIC",
            Self::RouteService => "the route service",
            Self::Switches => "the switch agents",
            Self::Drifts => "the comparison of tables",
        }
    }
}

/// Name of a part of the fabric.
pub(crate) fn element_text(element: &v1::Element) -> String {
    use v1::element::Kind;
    match &element.kind {
        Some(Kind::Link(end)) => format!("link {}:{}", end.switch_name, end.port),
        Some(Kind::SwitchName(name)) => format!("switch {name}"),
        Some(Kind::Endpoint(name)) => format!("endpoint {name}"),
        None => "unknown part".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(ports: &[u32]) -> Vec<v1::DirectoryChange> {
        let link = |port: &u32| v1::Element {
            kind: Some(v1::element::Kind::Link(v1::PortName {
                switch_name: "S-1".to_owned(),
                port: *port,
            })),
        };
        let elements = ports.iter().map(link).collect();
        let kind = Some(Kind::FailedElements(v1::FailedElements { elements }));
        vec![v1::DirectoryChange { kind }]
    }

    fn records(changes: Vec<v1::DirectoryChange>) -> Records {
        let mut records = Records::default();
        records.add(changes);
        records
    }

    #[test]
    fn failures_and_repairs_are_told_once() {
        let mut snapshot = Snapshot::default();
        snapshot.replace_records(records(failed(&[1])));
        assert!(snapshot.events.is_empty(), "what was there before is no news");
        snapshot.apply(failed(&[1, 2]));
        snapshot.apply(failed(&[2]));
        let texts: Vec<&str> = snapshot.events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(texts, ["link S-1:1 works again", "link S-1:2 failed"]);
    }

    #[test]
    fn moves_are_what_has_changed_between_two_snapshots() {
        let record = |gn, color| {
            let state = v1::RouteState::Routed.into();
            let route = Some(v1::Route { state, color, ..v1::Route::default() });
            let group =
                v1::Group { gn, agent_node: "n1".to_owned(), route, ..v1::Group::default() };
            v1::DirectoryChange { kind: Some(Kind::Group(group)) }
        };
        let mut snapshot = Snapshot::default();
        let moves = |snapshot: &Snapshot, gn| snapshot.histories.of(gn).count();
        snapshot.replace_records(records(vec![record(1, 0), record(2, 0), record(3, 0)]));
        assert_eq!(moves(&snapshot, 1), 0, "where it was at the start is no move");
        snapshot.apply(vec![record(1, 1), record(3, 1)]);
        snapshot.replace_records(records(vec![record(1, 1), record(2, 2)]));
        assert_eq!([1, 2].map(|gn| moves(&snapshot, gn)), [1, 1]);
        assert_eq!(moves(&snapshot, 3), 0, "it ended while nobody watched");
    }

    #[test]
    fn nodes_that_fail_at_once_are_told_together() {
        let mut snapshot = Snapshot::default();
        for number in 0..300 {
            let text = format!("node n{number} failed");
            snapshot.tell(News::bad(EventKind::NodeFailed, text));
        }
        let told: Vec<_> =
            snapshot.events.iter().map(|one| (one.text.as_str(), one.more)).collect();
        assert_eq!(told, [("node n0 failed", 299)]);
    }

    #[test]
    fn events_and_repeated_problems_are_bounded() {
        let mut snapshot = Snapshot::default();
        for number in 0..3 * MAX_EVENTS {
            snapshot.tell(News::good(EventKind::Other, number.to_string()));
        }
        assert_eq!(snapshot.events.len(), MAX_EVENTS);
        for _ in 0..5 {
            snapshot.set_problem(Source::Records, Some("silent".to_owned()));
        }
        assert_eq!(snapshot.events.iter().filter(|event| event.text.contains("silent")).count(), 1);
        snapshot.set_problem(Source::Records, None);
        assert!(snapshot.problems.is_empty());
    }
}
