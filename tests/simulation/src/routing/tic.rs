//! The TIC as route services see it: the directory of `fabricast-groups`, terms, failed parts and
//! watches.
//!
//! It decides at once and never loses records; faults of the TIC belong to the simulation of group
//! management. Terms keep the rules of `services/tic/src/domain/route_terms.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::directory::{Directory, Limits, NewGroup};
use fabricast_groups::record::{Change, MemberRecord};
use fabricast_groups::{Gn, Moment, Refusal, Revision};
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, Mgid, PortId, SwitchId};
use fabricast_wire::{decode_route, encode_route};
use tonic::Status;

use super::calls::{RouterReply, RouterRequest, RouterResult};

/// Lease of a term.
const LEASE: Duration = Duration::from_millis(1_500);
/// Number of MGIDs; so few that groups share spanning trees.
pub(super) const MGIDS: u32 = 40;

/// A watch of one incarnation of a route service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchKey {
    pub(super) router: usize,
    pub(super) incarnation: u64,
    pub(super) watch: u64,
}

#[derive(Debug)]
pub(super) struct SimTic {
    pub(super) directory: Directory,
    /// Failed parts that each switch agent reports.
    reports: BTreeMap<usize, BTreeSet<ElementKey>>,
    pub(super) term: u64,
    /// Generation of the newest report in the term.
    reported: u64,
    held_until: Moment,
    pub(super) watches: BTreeSet<WatchKey>,
    opened: u64,
    /// Messages published to all watches so far.
    pub(super) published: u64,
}

/// A failed part; unlike the API's type it can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ElementKey {
    Switch(SwitchId),
    /// A link, by its lower port.
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

    /// Returns all parts that any agent reports.
    pub(super) fn failed(&self) -> BTreeSet<ElementKey> {
        self.reports.values().flatten().copied().collect()
    }

    /// Restarts the TIC: the holder of the term has a full lease to renew it.
    pub(super) fn restart(&mut self, now: Moment) {
        self.held_until = now.after(LEASE);
        self.watches.clear();
    }

    /// Decides a command and applies the changes; returns the message for watchers as well.
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

    /// Records the failed parts that an agent reports; returns the message for watchers if they
    /// changed.
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

    /// Opens a watch; returns its number and the snapshot in two messages.
    pub(super) fn watch(
        &mut self,
        graph: &Graph,
        router: usize,
        incarnation: u64,
    ) -> (u64, Vec<v1::WatchDirectoryResponse>) {
        self.opened += 1;
        self.watches.insert(WatchKey { router, incarnation, watch: self.opened });
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

    /// Serves the calls that concern terms.
    pub(super) fn serve_term(&mut self, now: Moment, request: &RouterRequest) -> RouterResult {
        let lease = Some(prost_types::Duration::try_from(LEASE).expect("a short time"));
        match request {
            RouterRequest::Acquire if now < self.held_until => {
                let left = self.held_until.since(now).as_millis().to_string();
                Err(Reason::RouteTermHeld.status("held", &[("milliseconds", &left)]))
            }
            RouterRequest::Acquire => {
                self.term += 1;
                self.reported = 0;
                self.held_until = now.after(LEASE);
                let term = self.term;
                Ok(RouterReply::Acquired(v1::AcquireRouteTermResponse { term, lease }))
            }
            RouterRequest::Renew(renewal) => {
                self.check(renewal.term)?;
                self.held_until = now.after(LEASE);
                Ok(RouterReply::Renewed(v1::RenewRouteTermResponse { lease }))
            }
            RouterRequest::Release(term) => {
                if *term == self.term {
                    self.held_until = now;
                }
                Ok(RouterReply::Done)
            }
            other => panic!("{other:?} does not concern terms"),
        }
    }

    /// Refuses a report of an older term, or one that is older than a report already received.
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

/// Translates a report of routes to a command.
pub(super) fn routed(request: &v1::ReportRoutesRequest) -> Command {
    let route = |one: &v1::GroupRoute| {
        let route = one.route.as_ref().expect("a report has routes");
        (Gn(one.gn), decode_route(route).expect("R4: a reported route can be decoded"))
    };
    let routes = request.routes.iter().map(route).collect();
    let clean = (request.clean_revision > 0).then_some(Revision(request.clean_revision));
    Command::Routed { routes, clean }
}

fn wrap(kind: Kind) -> v1::DirectoryChange {
    v1::DirectoryChange { kind: Some(kind) }
}

/// Translates a change to the API, with the fields that route services use.
fn wire_change(change: &Change) -> Option<Kind> {
    let member = |member: &MemberRecord| v1::MemberChange {
        gn: member.gn.0,
        member: Some(v1::Member {
            pn: member.pn.0,
            endpoint: member.endpoint.as_str().to_owned(),
            joined_revision: member.joined.0,
            sends_only: member.sends_only,
            ..v1::Member::default()
        }),
    };
    match change {
        Change::GroupPut(group) => Some(Kind::Group(v1::Group {
            name: group.name.as_str().to_owned(),
            gn: group.gn.0,
            mgid: group.mgid.0,
            home_mgid: group.home.map(|home| home.0),
            exclusive: group.exclusive,
            incomplete: !group.is_complete(),
            members_revision: group.members_revision.0,
            route: group.route.as_ref().map(encode_route),
            ..v1::Group::default()
        })),
        Change::GroupDeleted(gn) => Some(Kind::DeletedGn(gn.0)),
        Change::MemberPut(record) => Some(Kind::Joined(member(record))),
        Change::MemberDeleted(record) => Some(Kind::Left(member(record))),
        _ => None,
    }
}
