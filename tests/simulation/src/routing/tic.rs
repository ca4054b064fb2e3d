//! The TIC as route services see it: the directory of `fabricast-groups`, terms, failed parts and watches.
//!
//! It decides at once and forgets nothing; what a TIC does wrong is the other simulation's affair. Terms
//! keep the rules of `services/tic/src/terms.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::directory::{Directory, Limits, NewGroup};
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{Change, Colors, MemberRecord, Route, RouteState};
use fabricast_groups::{Gn, Moment, Refusal, Revision};
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_routing::Mgid;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, PortId, SwitchId};
use tonic::Status;

use super::calls::{Answer as Said, Ask, Reply};

/// How long a term is held.
const LEASE: Duration = Duration::from_millis(1_500);
/// So few MGIDs make groups meet.
const MGIDS: u32 = 40;

/// A watch: route service, its life, the number of the watch.
pub(super) type WatchKey = (usize, u64, u64);

#[derive(Debug)]
pub(super) struct SimTic {
    pub(super) directory: Directory,
    /// What each switch agent sees down.
    reports: BTreeMap<usize, BTreeSet<ElementKey>>,
    pub(super) term: u64,
    /// The newest report in it.
    reported: u64,
    held_until: Moment,
    pub(super) watches: BTreeSet<WatchKey>,
    opened: u64,
    /// Messages that every watch has been sent, or would have been.
    pub(super) published: u64,
}

/// A failed part in an order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ElementKey {
    Switch(SwitchId),
    /// By its lower port.
    Link(PortId),
}

impl SimTic {
    pub(super) fn new() -> Self {
        Self {
            directory: Directory::new(Limits { mgids: MGIDS, ..Limits::default() }),
            reports: BTreeMap::new(),
            term: 0,
            reported: 0,
            held_until: Moment(0),
            watches: BTreeSet::new(),
            opened: 0,
            published: 0,
        }
    }

    /// All that anybody sees down.
    pub(super) fn failed(&self) -> BTreeSet<ElementKey> {
        self.reports.values().flatten().copied().collect()
    }

    /// After a restart whoever holds the term has a full lease to be heard of.
    pub(super) fn restart(&mut self, now: Moment) {
        self.held_until = now.after(LEASE);
        self.watches.clear();
    }

    /// Decides and takes over; answers what watchers are told.
    pub(super) fn decide(
        &mut self,
        now: Moment,
        command: &Command,
    ) -> Result<(Answer, Vec<Change>, v1::WatchDirectoryResponse), Refusal> {
        let mut choose = |group: &NewGroup<'_>| {
            let name =
                group.name.as_str().bytes().fold(0_u32, |sum, byte| sum * 7 + u32::from(byte));
            (0..MGIDS).map(|at| Mgid((at + name) % MGIDS)).find(|mgid| (group.is_free)(*mgid))
        };
        let decision = self.directory.decide(now, command, &mut choose)?;
        for change in &decision.changes {
            self.directory.apply(change);
        }
        let changes = decision.changes.iter().filter_map(wire_change).map(wrap).collect();
        let message = self.message(changes);
        Ok((decision.answer, decision.changes, message))
    }

    /// Takes over what an agent sees down; what watchers are told, if that is news.
    pub(super) fn report(
        &mut self,
        graph: &Graph,
        agent: usize,
        elements: BTreeSet<ElementKey>,
    ) -> Option<v1::WatchDirectoryResponse> {
        let before = self.failed();
        self.reports.insert(agent, elements);
        (self.failed() != before).then(|| self.message(vec![wrap(self.failed_elements(graph))]))
    }

    fn failed_elements(&self, graph: &Graph) -> Kind {
        let elements = self.failed().into_iter().map(|key| v1::Element {
            kind: Some(match key {
                ElementKey::Switch(at) => {
                    v1::element::Kind::SwitchName(graph.switch_name(at).to_owned())
                }
                ElementKey::Link(port) => v1::element::Kind::Link(v1::PortName {
                    switch_name: graph.switch_name(graph.switch_of(port)).to_owned(),
                    port: graph.port_number(port).into(),
                }),
            }),
        });
        Kind::FailedElements(v1::FailedElements { elements: elements.collect() })
    }

    fn message(&self, changes: Vec<v1::DirectoryChange>) -> v1::WatchDirectoryResponse {
        let revision = self.directory.revision().0;
        v1::WatchDirectoryResponse { revision, changes, ..Default::default() }
    }

    /// Opens a watch; its number, and the snapshot in two messages.
    pub(super) fn watch(
        &mut self,
        graph: &Graph,
        (router, life): (usize, u64),
    ) -> (u64, Vec<v1::WatchDirectoryResponse>) {
        self.opened += 1;
        self.watches.insert((router, life, self.opened));
        let revision = self.directory.revision().0;
        let part = |changes, snapshot_end| v1::WatchDirectoryResponse {
            revision,
            changes,
            snapshot: true,
            snapshot_end,
            ..Default::default()
        };
        let groups = self.directory.groups_from(Gn(0)).flat_map(|group| {
            let members = self.directory.members(group.gn).cloned();
            let members = members.map(Arc::new).map(Change::MemberPut);
            std::iter::once(Change::GroupPut(group.clone())).chain(members)
        });
        let records = groups.filter_map(|change| wire_change(&change)).map(wrap).collect();
        let failed = vec![wrap(self.failed_elements(graph))];
        (self.opened, vec![part(records, false), part(failed, true)])
    }

    /// Serves what has to do with terms.
    pub(super) fn serve_term(&mut self, now: Moment, ask: &Ask) -> Said {
        let lease = Some(prost_types::Duration::try_from(LEASE).expect("a short time"));
        match ask {
            Ask::Acquire if now < self.held_until => {
                let left = self.held_until.since(now).as_millis().to_string();
                Err(Reason::RouteTermHeld.status("held", &[("milliseconds", &left)]))
            }
            Ask::Acquire => {
                self.term += 1;
                self.reported = 0;
                self.held_until = now.after(LEASE);
                let term = self.term;
                Ok(Reply::Acquired(v1::AcquireRouteTermResponse { term, lease }))
            }
            Ask::Renew(request) => {
                self.check(request.term)?;
                self.held_until = now.after(LEASE);
                Ok(Reply::Renewed(v1::RenewRouteTermResponse { lease }))
            }
            Ask::Release(term) => {
                if *term == self.term {
                    self.held_until = now;
                }
                Ok(Reply::Done)
            }
            other => panic!("{other:?} has nothing to do with terms"),
        }
    }

    /// Refuses a report of an older term, or one that comes after a newer one.
    pub(super) fn check_report(&mut self, request: &v1::ReportRoutesRequest) -> Result<(), Status> {
        self.check(request.term)?;
        let number = request.fence.map_or(0, |fence| fence.generation);
        if number < self.reported {
            return Err(Reason::StaleTerm.status("a newer report was first", &[]));
        }
        self.reported = number;
        Ok(())
    }

    /// Refuses a term that is not the newest.
    pub(super) fn check(&self, term: u64) -> Result<(), Status> {
        let newest = self.term.to_string();
        let stale = || Reason::StaleTerm.status("not the newest", &[("term", &newest)]);
        if term == self.term { Ok(()) } else { Err(stale()) }
    }
}

/// What a report of routes asks for.
pub(super) fn routed(request: &v1::ReportRoutesRequest) -> Command {
    let route = |one: &v1::GroupRoute| {
        let route = one.route.as_ref().expect("a report has routes");
        let color = |color: u32| u16::try_from(color).expect("R4: a color is below 2^16");
        let state = match route.state() {
            v1::RouteState::Routed => RouteState::Routed {
                colors: Colors { first: color(route.color), second: route.second_color.map(color) },
                virtual_group: route.virtual_group,
            },
            _ => RouteState::UnicastOnly,
        };
        let cut_off = route.cut_off_endpoints.iter();
        let cut_off = cut_off.map(|name| EndpointName::new(name).expect("a good name")).collect();
        let (revision, reason) = (Revision(route.routed_revision), route.reason.clone());
        (Gn(one.gn), Route { revision, state, reason, cut_off })
    };
    let routes = request.routes.iter().map(route).collect();
    let clean = (request.clean_revision > 0).then_some(Revision(request.clean_revision));
    Command::Routed { routes, clean }
}

fn wrap(kind: Kind) -> v1::DirectoryChange {
    v1::DirectoryChange { kind: Some(kind) }
}

/// A change as it travels, with what route services look at.
fn wire_change(change: &Change) -> Option<Kind> {
    let member = |member: &MemberRecord| v1::MemberChange {
        gn: member.gn.0,
        member: Some(v1::Member {
            pn: member.pn.0,
            endpoint: member.endpoint.as_str().to_owned(),
            joined_revision: member.joined.0,
            ..v1::Member::default()
        }),
    };
    match change {
        Change::GroupPut(group) => Some(Kind::Group(v1::Group {
            name: group.name.as_str().to_owned(),
            gn: group.gn.0,
            mgid: group.mgid.0,
            exclusive: group.exclusive,
            incomplete: !group.is_complete(),
            members_revision: group.members_revision.0,
            route: group.route.as_ref().map(wire_route),
            ..v1::Group::default()
        })),
        Change::GroupDeleted(gn) => Some(Kind::DeletedGn(gn.0)),
        Change::MemberPut(record) => Some(Kind::Joined(member(record))),
        Change::MemberDeleted(record) => Some(Kind::Left(member(record))),
        _ => None,
    }
}

fn wire_route(record: &Route) -> v1::Route {
    let mut route = v1::Route {
        routed_revision: record.revision.0,
        state: v1::RouteState::UnicastOnly.into(),
        reason: record.reason.clone(),
        cut_off_endpoints: record.cut_off.iter().map(|name| name.as_str().to_owned()).collect(),
        ..v1::Route::default()
    };
    if let RouteState::Routed { colors, virtual_group } = record.state {
        route.set_state(v1::RouteState::Routed);
        route.color = colors.first.into();
        route.second_color = colors.second.map(u32::from);
        route.virtual_group = virtual_group;
    }
    route
}
