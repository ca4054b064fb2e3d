//! `fabricast events`: changes of the records, a line each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind as Change;
use fabricast_proto::v1::element::Kind as ElementKind;
use fabricast_rpc::RpcError;
use serde::Serialize;
use tonic::Code;

use crate::args::{Format, ServerArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::{self, Remote, block_on};

/// Pause before the TIC is asked again.
const PAUSE: Duration = Duration::from_secs(1);
const ENDED: &str = "the TIC has ended the stream";

/// Print which nodes, parts of the fabric and routes are not as they ought to be; with --follow,
/// also each change of nodes, parts of the fabric, groups, members and routes from then on.
///
/// JSON is one object a line.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Go on with changes as they come, until interrupted. Changes of a moment come together, so a
    /// record that changed twice in it may be shown once. When no TIC answers, go on with the next
    /// one that leads; who joined or left meanwhile is not shown.
    #[arg(long, short)]
    follow: bool,
    /// Only print events of these kinds.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,...")]
    only: Vec<EventKind>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum EventKind {
    /// A node came, failed, or was drained.
    Node,
    /// A link, switch or endpoint failed or works again.
    Fabric,
    /// A group was created, deleted, or has another agent.
    Group,
    /// A process joined or left.
    Member,
    /// The hardware route of a group changed.
    Route,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Event {
    kind: EventKind,
    /// Name of the node, group or part of the fabric.
    subject: String,
    what: String,
}

/// The records that tell which part of a change is new.
#[derive(Debug, Default)]
struct Known {
    nodes: BTreeMap<String, KnownNode>,
    groups: BTreeMap<u64, KnownGroup>,
    failed: BTreeSet<String>,
    progress: Progress,
}

/// State of following.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// No snapshot is complete yet.
    #[default]
    New,
    /// Changes follow a snapshot.
    Following,
    /// No TIC answers since.
    Lost,
}

/// The records of a snapshot.
#[derive(Debug, Default)]
struct Snapshot(Vec<Change>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownNode {
    state: v1::NodeState,
    is_drained: bool,
    is_suppressed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KnownGroup {
    name: String,
    agent: String,
    /// In words; empty before there is one.
    route: String,
    lacks_route: bool,
}

impl Run for EventsArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        block_on(follow(&self, globals.format))
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

async fn follow(args: &EventsArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let (mut known, mut told) = (Known::default(), String::new());
    loop {
        let watched = watch(args, &remote, &mut known, format).await;
        let why = match watched {
            Ok(()) if !args.follow => return Ok(()),
            Err(Watched::Ended) if known.progress == Progress::New => {
                return Err(Failure::unreachable(ENDED));
            }
            Ok(()) | Err(Watched::Ended) => ENDED.to_owned(),
            Err(Watched::Unprintable(failure)) => return Err(failure),
            Err(Watched::Failed(error)) if known.progress == Progress::New || is_final(&error) => {
                return Err(remote.failed(error));
            }
            Err(Watched::Failed(error)) => error.message().to_owned(),
        };
        if known.progress == Progress::Following || why != told {
            output::notice(&format!("fabricast: asking again: {why}"));
        }
        (known.progress, told) = (Progress::Lost, why);
        tokio::time::sleep(PAUSE).await;
    }
}

/// True for an error that comes again whichever TIC leads.
fn is_final(error: &RpcError) -> bool {
    matches!(error.code(), Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented)
}

/// Reason why the changes end.
enum Watched {
    /// Before they were complete.
    Ended,
    Failed(RpcError),
    Unprintable(Failure),
}

/// Prints changes until the TIC ends the stream; without `--follow`, the first state only.
async fn watch(
    args: &EventsArgs,
    remote: &Remote,
    known: &mut Known,
    format: Format,
) -> Result<(), Watched> {
    let mut tic = remote.tic();
    let watching = tic.watch_directory(v1::WatchDirectoryRequest {});
    let mut stream = remote::answer(watching).await.map_err(Watched::Failed)?;
    let mut snapshot = Some(Snapshot::default());
    loop {
        let message = stream.message().await.map_err(|error| Watched::Failed(error.into()))?;
        let Some(message) = message else {
            return if snapshot.is_none() { Ok(()) } else { Err(Watched::Ended) };
        };
        let changes = message.changes.into_iter().filter_map(|change| change.kind);
        let mut events = match &mut snapshot {
            None => changes.flat_map(|change| known.take(change)).collect(),
            Some(snapshot) => {
                changes.for_each(|change| snapshot.take(change));
                Vec::new()
            }
        };
        if message.snapshot_end
            && let Some(snapshot) = snapshot.take()
        {
            let differ = known.replace(snapshot);
            events = if known.progress == Progress::New { known.deviations() } else { differ };
            known.progress = Progress::Following;
        }
        events.retain(|event| args.only.is_empty() || args.only.contains(&event.kind));
        for event in &events {
            let line = line(event, message.revision, format).map_err(Watched::Unprintable)?;
            output::print_text(&line).map_err(Watched::Unprintable)?;
        }
        if snapshot.is_none() && !args.follow {
            return Ok(());
        }
    }
}

fn line(event: &Event, revision: u64, format: Format) -> Result<String, Failure> {
    let time = prost_types::Timestamp::from(SystemTime::now());
    if format == Format::Json {
        let event = serde_json::json!({
            "time": time.to_string(),
            "revision": revision,
            "kind": event.kind,
            "subject": event.subject,
            "what": event.what,
        });
        return Ok(format!("{event}\n"));
    }
    let seconds = prost_types::Timestamp { nanos: 0, ..time };
    let kind = format!("{:?}", event.kind).to_lowercase();
    Ok(format!("{seconds} {kind:<6} {}: {}\n", event.subject, event.what))
}

impl Snapshot {
    /// Keeps a record. Members are left out: which there were is not known.
    fn take(&mut self, record: Change) {
        if !matches!(record, Change::Joined(_) | Change::Left(_)) {
            self.0.push(record);
        }
    }
}

impl Known {
    /// Replaces what is known by a whole snapshot; says what differs.
    fn replace(&mut self, Snapshot(records): Snapshot) -> Vec<Event> {
        let (mut nodes, mut groups, mut has_failed) = (BTreeSet::new(), BTreeSet::new(), false);
        for record in &records {
            match record {
                Change::Node(node) => {
                    nodes.insert(node.name.clone());
                }
                Change::Group(group) => {
                    groups.insert(group.gn);
                }
                Change::FailedElements(_) => has_failed = true,
                _ => {}
            }
        }
        let gone = self.nodes.keys().filter(|name| !nodes.contains(*name));
        let gone_groups = self.groups.keys().filter(|gn| !groups.contains(gn));
        let mut changes: Vec<Change> = gone.cloned().map(Change::RemovedNode).collect();
        changes.extend(gone_groups.copied().map(Change::DeletedGn));
        if !has_failed {
            changes.push(Change::FailedElements(v1::FailedElements::default()));
        }
        changes.into_iter().chain(records).flat_map(|change| self.take(change)).collect()
    }

    /// Takes a change in, and says what is new in it.
    fn take(&mut self, change: Change) -> Vec<Event> {
        let event =
            |kind, subject: &str, what: String| Event { kind, subject: subject.to_owned(), what };
        match change {
            Change::Node(node) => {
                let now = KnownNode::of(&node);
                let before = self.nodes.insert(node.name.clone(), now.clone());
                let is_new = before.as_ref() != Some(&now);
                let event = || event(EventKind::Node, &node.name, now.words());
                is_new.then(event).into_iter().collect()
            }
            Change::RemovedNode(name) => {
                self.nodes.remove(&name);
                vec![event(EventKind::Node, &name, "removed".to_owned())]
            }
            Change::FailedElements(list) => {
                let failed: BTreeSet<String> = list.elements.iter().filter_map(element).collect();
                let gone = failed.difference(&self.failed).map(|one| (one, "failed"));
                let back = self.failed.difference(&failed).map(|one| (one, "works again"));
                let events = gone.chain(back);
                let events = events
                    .map(|(one, what)| event(EventKind::Fabric, one, what.to_owned()))
                    .collect();
                self.failed = failed;
                events
            }
            Change::Group(group) => {
                let now = KnownGroup {
                    name: group.name.clone(),
                    agent: group.agent_node.clone(),
                    route: route(&group),
                    lacks_route: lacks_route(&group),
                };
                let mut before = self.groups.insert(group.gn, now.clone());
                let mut events = Vec::new();
                // A TIC that has lost its records gives numbers again.
                if let Some(other) = before.take_if(|before| before.name != now.name) {
                    events.push(event(EventKind::Group, &other.name, "deleted".to_owned()));
                }
                let agent = |verb: &str| format!("{verb}, its agent is on {}", now.agent);
                match &before {
                    None => events.push(event(EventKind::Group, &now.name, agent("created"))),
                    Some(before) if before.agent != now.agent => {
                        events.push(event(EventKind::Group, &now.name, agent("moved")));
                    }
                    Some(_) => {}
                }
                if before.unwrap_or_default().route != now.route && !now.route.is_empty() {
                    events.push(event(EventKind::Route, &now.name, now.route));
                }
                events
            }
            Change::DeletedGn(gn) => {
                let group = self.groups.remove(&gn);
                let name = group.map_or_else(|| format!("GN {gn}"), |group| group.name);
                vec![event(EventKind::Group, &name, "deleted".to_owned())]
            }
            Change::Joined(change) => vec![self.member(change, "joined")],
            Change::Left(change) => vec![self.member(change, "left")],
        }
    }

    fn member(&self, change: v1::MemberChange, verb: &str) -> Event {
        let v1::MemberChange { gn, member } = change;
        let v1::Member { pn, node, process, endpoint, .. } = member.unwrap_or_default();
        let name = self.groups.get(&gn).map(|group| group.name.clone());
        Event {
            kind: EventKind::Member,
            subject: name.unwrap_or_else(|| format!("GN {gn}")),
            what: format!("{process} on {node} {verb}, PN {pn}, endpoint {endpoint}"),
        }
    }

    /// Nodes, parts of the fabric and routes that are not as they ought to be.
    fn deviations(&self) -> Vec<Event> {
        let nodes = self.nodes.iter().filter(|(_, node)| !node.is_well());
        let nodes = nodes.map(|(name, node)| (EventKind::Node, name, node.words()));
        let failed = self.failed.iter().map(|one| (EventKind::Fabric, one, "failed".to_owned()));
        let groups = self.groups.values().filter(|group| group.lacks_route);
        let groups = groups.map(|group| (EventKind::Route, &group.name, group.route.clone()));
        let all = nodes.chain(failed).chain(groups);
        all.map(|(kind, subject, what)| Event { kind, subject: subject.clone(), what }).collect()
    }
}

impl KnownNode {
    fn of(node: &v1::Node) -> Self {
        let is_suppressed = node.suppressed_until.is_some();
        Self { state: node.state(), is_drained: node.drained, is_suppressed }
    }

    fn is_well(&self) -> bool {
        self.state == v1::NodeState::Up && !self.is_drained && !self.is_suppressed
    }

    fn words(&self) -> String {
        let state = match self.state {
            v1::NodeState::Up => "up",
            v1::NodeState::Failed => "failed",
            v1::NodeState::Silent => "silent",
            v1::NodeState::Unspecified => "unknown",
        };
        let drained = if self.is_drained { ", drained" } else { "" };
        let suppressed = if self.is_suppressed { ", suppressed" } else { "" };
        format!("{state}{drained}{suppressed}")
    }
}

/// True if a group has no route, and not because something is still to come.
fn lacks_route(group: &v1::Group) -> bool {
    let lacks = |route: &v1::Route| route.state() != v1::RouteState::Routed && !waits(route);
    group.route.as_ref().is_some_and(lacks)
}

/// A failed part of the fabric in words.
fn element(element: &v1::Element) -> Option<String> {
    Some(match element.kind.as_ref()? {
        ElementKind::Link(port) => format!("link {}:{}", port.switch_name, port.port),
        ElementKind::SwitchName(name) => format!("switch {name}"),
        ElementKind::Endpoint(name) => format!("endpoint {name}"),
    })
}

/// The route of a group in words; empty before there is one.
fn route(group: &v1::Group) -> String {
    let Some(route) = &group.route else { return String::new() };
    let cut_off = match &route.cut_off_endpoints[..] {
        [] => String::new(),
        cut_off => format!(", cut off: {}", cut_off.join(", ")),
    };
    let reason = match route.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    match route.state() {
        v1::RouteState::Routed => {
            format!(
                "routed, virtual group {}, color {}{reason}{cut_off}",
                route.virtual_group, route.color
            )
        }
        v1::RouteState::UnicastOnly if waits(route) => format!("waits{reason}{cut_off}"),
        v1::RouteState::UnicastOnly | v1::RouteState::Unspecified => {
            format!("no route{reason}{cut_off}")
        }
    }
}

/// True if a group has no route because its members or their entries are still to come.
pub(crate) fn waits(route: &v1::Route) -> bool {
    matches!(
        route.reason_code(),
        v1::RouteReason::WaitsForMembers
            | v1::RouteReason::FewerThanTwoEndpoints
            | v1::RouteReason::WaitsForEntries
            | v1::RouteReason::NotPlanned
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(state: v1::NodeState) -> Change {
        let state = state.into();
        Change::Node(v1::Node { name: "n0".to_owned(), state, ..Default::default() })
    }

    fn group(reason: v1::RouteReason) -> Change {
        let route = v1::Route {
            state: v1::RouteState::UnicastOnly.into(),
            reason_code: reason.into(),
            ..Default::default()
        };
        let name = "rows/0".to_owned();
        Change::Group(v1::Group { gn: 7, name, route: Some(route), ..Default::default() })
    }

    fn said(events: &[Event]) -> Vec<String> {
        events.iter().map(|event| format!("{}: {}", event.subject, event.what)).collect()
    }

    #[test]
    fn a_later_snapshot_tells_what_has_changed_meanwhile() {
        let mut known = Known::default();
        known.take(node(v1::NodeState::Up));
        known.take(group(v1::RouteReason::Unrouted));
        let mut snapshot = Snapshot::default();
        snapshot.take(node(v1::NodeState::Failed));
        let member = v1::MemberChange { gn: 7, member: Some(v1::Member::default()) };
        snapshot.take(Change::Joined(member));
        assert_eq!(said(&known.replace(snapshot)), ["rows/0: deleted", "n0: failed"]);
        assert_eq!(said(&known.replace(Snapshot::default())), ["n0: removed"]);
        assert!(known.replace(Snapshot::default()).is_empty());
    }

    #[test]
    fn a_number_that_is_given_again_is_another_group() {
        let mut known = Known::default();
        known.take(group(v1::RouteReason::WaitsForMembers));
        let other = v1::Group { gn: 7, name: "rows/1".to_owned(), ..Default::default() };
        let said = said(&known.take(Change::Group(other)));
        assert_eq!(said, ["rows/0: deleted", "rows/1: created, its agent is on "]);
    }

    #[test]
    fn only_what_is_new_is_an_event() {
        let mut known = Known::default();
        assert_eq!(said(&known.take(node(v1::NodeState::Up))), ["n0: up"]);
        assert!(known.take(node(v1::NodeState::Up)).is_empty(), "another address, say");
        assert_eq!(said(&known.take(node(v1::NodeState::Failed))), ["n0: failed"]);
        let switch = v1::Element { kind: Some(ElementKind::SwitchName("s1".to_owned())) };
        let failed = v1::FailedElements { elements: vec![switch] };
        assert_eq!(said(&known.take(Change::FailedElements(failed))), ["switch s1: failed"]);
        let none = Change::FailedElements(v1::FailedElements::default());
        assert_eq!(said(&known.take(none)), ["switch s1: works again"]);
        let created = known.take(group(v1::RouteReason::WaitsForMembers));
        assert_eq!(said(&created), ["rows/0: created, its agent is on ", "rows/0: waits"]);
        assert_eq!(said(&known.take(group(v1::RouteReason::Unrouted))), ["rows/0: no route"]);
        let member = v1::MemberChange { gn: 7, member: Some(v1::Member::default()) };
        assert!(said(&known.take(Change::Joined(member)))[0].starts_with("rows/0: "));
        assert_eq!(said(&known.take(Change::DeletedGn(7))), ["rows/0: deleted"]);
    }

    #[test]
    fn deviations_are_failed_nodes_and_parts_and_groups_without_a_route() {
        let mut known = Known::default();
        known.take(group(v1::RouteReason::WaitsForMembers));
        known.take(node(v1::NodeState::Up));
        assert!(known.deviations().is_empty());
        known.take(group(v1::RouteReason::Unrouted));
        known.take(node(v1::NodeState::Failed));
        let found = said(&known.deviations());
        assert_eq!(found, ["n0: failed", "rows/0: no route"]);
    }
}
