//! The requests that the writer takes, and how it decides each.

use std::sync::Arc;
use std::time::Duration;

use fabricast_collectives::{Quota, ReservationId};
use fabricast_groups::command::{DeleteJob, GroupMove, Refusal};
use fabricast_groups::ids::Revision;
use fabricast_groups::job::{JobNodes, JobRecord, JobShare, ReserveJob};
use fabricast_groups::names::{AccountName, JobName};
use fabricast_groups::record::RouteReason;
use fabricast_proto::v1;
use fabricast_routing::MgidPlanner;
use fabricast_rpc::Caller;

use crate::clock::wall_clock;
use crate::domain::collectives::member_trees::MeasuredConstants;
use crate::domain::collectives::request::{
    CancelReservation, CreateCollective, HolderName, JobEntries, ReleaseCollective,
    RequestSwitchTree, ReserveEntries, SetConstants, SetQuota, ViewConstants,
};
use crate::domain::collectives::snapshot::CollectiveSnapshot;
use crate::domain::collectives::usage::EntryUsage;
use crate::domain::job_places::AskedNodes;
use crate::domain::route_terms::{ReportNumber, Router};
use crate::domain::shares::AskedShare;
use crate::domain::topology::NextTopology;
use crate::records::keys::{self, Puts};
use crate::writer::directory::{
    Decided, DirectoryRequest, JobGroupsDeleted, MoveGroups, RecordRoutes,
};
use crate::writer::error::WriteError;
use crate::writer::queue::WriteRequest;
use crate::writer::state::{BatchWrites, WriterState};

/// Implements [`WriteRequest`] for requests that are decided with one expression.
macro_rules! write_requests {
    ($($request:ty => $reply:ty: |$this:ident, $state:ident, $writes:ident| $decide:expr;)*) => {$(
        impl WriteRequest for $request {
            type Reply = $reply;

            fn decide(
                self,
                $state: &mut WriterState,
                $writes: &mut BatchWrites,
            ) -> Result<$reply, WriteError> {
                let $this = self;
                $decide
            }
        }
    )*};
}

impl<R: DirectoryRequest> WriteRequest for R {
    type Reply = Decided<R::Answer>;

    fn decide(
        self,
        state: &mut WriterState,
        writes: &mut BatchWrites,
    ) -> Result<Decided<R::Answer>, WriteError> {
        state.decide(self, writes)
    }
}

/// Most groups that move because of one report; each costs a search of all spanning trees.
const MOST_MOVES: usize = 64;

/// Records routes for the route service that holds the term, and moves exclusive groups that would
/// have to share their trees; replies with the revision after it.
#[derive(Debug)]
pub(crate) struct ReportRoutes {
    pub(crate) report: ReportNumber,
    pub(crate) routes: RecordRoutes,
}

impl WriteRequest for ReportRoutes {
    type Reply = Revision;

    const IS_ROUTE_REPORT: bool = true;

    fn decide(
        self,
        state: &mut WriterState,
        writes: &mut BatchWrites,
    ) -> Result<Revision, WriteError> {
        state.route_terms.check_report(self.report)?;
        let mut alone = Vec::new(); // exclusive groups that were not
        for (gn, route) in &self.routes.routes {
            match route.reason_code {
                RouteReason::ExclusiveTreeShared => alone.push(*gn),
                _ if route.colors().is_some() => state.mgids.has_tree(*gn),
                _ => {}
            }
        }
        let revision = state.decide(self.routes, writes)?.revision;
        if alone.is_empty() {
            return Ok(revision);
        }
        alone.truncate(MOST_MOVES);
        let failed = state.records.failed();
        let moves = alone.into_iter().filter_map(|gn| state.mgids.alone(gn, &failed)).collect();
        let moved = state.decide(MoveGroups(moves), writes)?;
        for GroupMove { gn, from, to } in &moved.answer {
            let (from, to) = (from.0, to.0);
            tracing::info!(gn = gn.0, from, to, "exclusive group moved to a tree of its own");
        }
        Ok(moved.revision)
    }
}

/// Moves groups to other spanning trees; replies with the moves that were made.
#[derive(Debug)]
pub(crate) struct MoveToTrees(pub(crate) Vec<GroupMove>);

impl WriteRequest for MoveToTrees {
    type Reply = Decided<Vec<GroupMove>>;

    fn decide(
        self,
        state: &mut WriterState,
        writes: &mut BatchWrites,
    ) -> Result<Self::Reply, WriteError> {
        let directory = &state.directory;
        let is_exclusive = |gn| directory.group(gn).is_some_and(|group| group.exclusive);
        let asked: Vec<GroupMove> =
            self.0.into_iter().filter(|one| !is_exclusive(one.gn)).collect();
        let moves = state.mgids.free_homes(&asked);
        state.decide(MoveGroups(moves), writes)
    }
}

/// Reserves groups for a job.
#[derive(Debug)]
pub(crate) struct ReserveShare {
    pub(crate) job: JobName,
    pub(crate) nodes: AskedNodes,
    /// The share asked for; `groups` may be 0 for the whole share.
    pub(crate) share: JobShare,
}

/// A request with its caller, for whom objects of other tenants do not exist.
#[derive(Debug)]
pub(crate) struct Own<R> {
    pub(crate) request: R,
    pub(crate) caller: Caller,
}

/// True if the caller may see and change the job.
pub(crate) fn owns(caller: &Caller, job: &JobRecord) -> bool {
    let account = job.share.as_ref().and_then(|share| share.account.as_ref());
    caller.owns_job(job.name.as_str(), account.map(AccountName::as_str))
}

/// Copies what the choice of MGIDs depends on.
#[derive(Debug)]
pub(crate) struct CopyMgidPlanner;

/// Gives out the next term, unless another route service holds the newest.
#[derive(Debug)]
pub(crate) struct AcquireRouteTerm {
    pub(crate) router: Router,
    /// Gives it out even so.
    pub(crate) take_over: bool,
}

/// A term that a route service holds.
#[derive(Debug)]
pub(crate) struct RouteTermLease {
    pub(crate) term: u64,
    /// Time for which it is held unless renewed.
    pub(crate) lease: Duration,
}

/// Extends the lease of a term; replies with its length.
#[derive(Debug)]
pub(crate) struct RenewRouteTerm {
    pub(crate) router: Router,
    pub(crate) term: u64,
}

/// Gives up a term.
#[derive(Debug)]
pub(crate) struct ReleaseRouteTerm(pub(crate) u64);

/// Stores the failed parts that one switch agent reports, or forgets the agent.
#[derive(Debug)]
pub(crate) struct PutFailedElements {
    pub(crate) reporter: String,
    /// As [`crate::domain::elements::text`] writes them; `None` to forget the agent.
    pub(crate) elements: Option<String>,
}

/// Makes some more collectives follow failed and repaired parts of the fabric.
#[derive(Debug)]
pub(crate) struct FollowFabric;

/// Takes note of the trees that switches and adapters hold, from the route service.
#[derive(Debug)]
pub(crate) struct ReportTrees {
    pub(crate) term: u64,
    pub(crate) revision: u64,
    /// Trees of this revision that are not held everywhere.
    pub(crate) missing: Vec<u32>,
}

/// Copies the holders of entries, reservations and quotas.
#[derive(Debug)]
pub(crate) struct ViewUsage;

write_requests! {
    Own<ReserveShare> => JobRecord: |this, state, writes| reserve_share(this, state, writes);
    Own<DeleteJob> => Decided<JobGroupsDeleted>: |this, state, writes| {
        let job = this.request.job.clone();
        let known = state.directory.job(&job);
        if known.is_some_and(|known| !owns(&this.caller, known)) {
            return Err(Refusal::UnknownJob { job }.into());
        }
        let reservation = known.and_then(|known| known.share.as_ref()?.reservation);
        let decided = state.decide(this.request, writes)?;
        if let Some(id) = reservation.filter(|_| state.directory.job(&job).is_none()) {
            follow_fabric(state, writes);
            state.collectives.cancel(ReservationId(id), &mut writes.puts);
        }
        Ok(decided)
    };
    CopyMgidPlanner => MgidPlanner: |_this, state, _writes| Ok(state.mgids.planner());
    AcquireRouteTerm => RouteTermLease: |this, state, writes| {
        let term = state.route_terms.acquire(&this.router, this.take_over)?;
        writes.puts.insert(keys::ROUTE_TERM.to_vec(), Some(keys::number(term)));
        Ok(RouteTermLease { term, lease: state.route_terms.lease() })
    };
    RenewRouteTerm => Duration: |this, state, _writes| {
        state.route_terms.renew(&this.router, this.term)?;
        Ok(state.route_terms.lease())
    };
    ReleaseRouteTerm => (): |this, state, _writes| {
        state.route_terms.release(this.0);
        Ok(())
    };
    PutFailedElements => (): |this, state, writes| {
        let list = this.elements.map(String::into_bytes);
        let mut puts = Puts::from([(keys::failed(&this.reporter), list)]);
        state.check_space_for(&puts)?;
        writes.puts.append(&mut puts);
        Ok(())
    };
    // Replies with nothing if there is no next one.
    Option<NextTopology> => Option<v1::TopologySummary>: |this, state, writes| {
        this.map(|next| change_topology(next, state, writes)).transpose()
    };
    FollowFabric => (): |_this, state, writes| {
        state.check_space()?;
        follow_fabric(state, writes);
        Ok(())
    };
    CreateCollective => Arc<CollectiveSnapshot>: |this, state, writes| {
        if state.collectives.tenant_of(&this.name).is_none() {
            state.check_space()?;
        }
        follow_fabric(state, writes);
        Ok(state.collectives.create(&this, &state.directory, &mut writes.puts)?)
    };
    RequestSwitchTree => Arc<CollectiveSnapshot>: |this, state, writes| {
        if !state.has_space && !state.collectives.has_switch_tree(&this.group, &state.directory) {
            state.check_space()?;
        }
        follow_fabric(state, writes);
        Ok(state.collectives.request_tree(&this, &state.directory, &mut writes.puts)?)
    };
    SetConstants => (): |this, state, writes| {
        if this.0.is_some() {
            state.check_space()?;
        }
        state.collectives.set_constants(this.0, &mut writes.puts);
        Ok(())
    };
    ViewConstants => Option<MeasuredConstants>: |_this, state, _writes| {
        Ok(state.collectives.constants().cloned())
    };
    // Replies with whether it existed.
    Own<ReleaseCollective> => bool: |this, state, writes| {
        follow_fabric(state, writes);
        let Own { request: ReleaseCollective { name }, caller } = this;
        let is_own = state.collectives.tenant_of(&name).is_some_and(|own| caller.owns_tenant(own));
        Ok(is_own && state.collectives.release(&name, &mut writes.puts))
    };
    ReserveEntries => ReservationId: |this, state, writes| {
        state.check_space()?;
        follow_fabric(state, writes);
        Ok(state.collectives.reserve(this, &mut writes.puts)?)
    };
    // Replies with whether it existed.
    Own<CancelReservation> => bool: |this, state, writes| {
        follow_fabric(state, writes);
        let Own { request: CancelReservation { id }, caller } = this;
        let is_own = state.collectives.holder_of(id).is_some_and(|own| caller.owns_tenant(&own));
        Ok(is_own && state.collectives.cancel(id, &mut writes.puts))
    };
    SetQuota => (): |this, state, writes| {
        if this.quota != Quota::default() {
            state.check_space()?;
        }
        follow_fabric(state, writes);
        Ok(state.collectives.set_quota(&this, &mut writes.puts)?)
    };
    ReportTrees => (): |this, state, _writes| {
        state.route_terms.check(this.term)?;
        Ok(state.records.collectives.programmed(this.revision, this.missing)?)
    };
    ViewUsage => EntryUsage: |_this, state, writes| {
        follow_fabric(state, writes);
        Ok(state.collectives.usage())
    };
}

fn reserve_share(
    asked: Own<ReserveShare>,
    state: &mut WriterState,
    writes: &mut BatchWrites,
) -> Result<JobRecord, WriteError> {
    let Own { request: ReserveShare { job, nodes, mut share }, caller } = asked;
    let WriterState { directory, shares, .. } = &mut *state;
    let known = directory.job(&job);
    if known.is_some_and(|known| !owns(&caller, known)) {
        return Err(Refusal::JobExists { job }.into());
    }
    let held = known.and_then(|known| known.share.as_ref());
    // A node may have other endpoints by now; the job has those that it began with.
    let same = known.filter(|known| nodes.are_of(known));
    let places = match same {
        Some(known) => nodes.of_job(known).cloned().unwrap_or_else(|| shares.places_of(known)),
        None => nodes.named(shares.graph(), directory)?,
    };
    if same.is_none() && known.is_some() {
        return Err(Refusal::JobExists { job }.into());
    }
    let nodes = if same.is_some() { JobNodes::default() } else { places.nodes.clone() };
    match held {
        Some(held) => {
            if share.groups == 0 {
                share.groups = held.groups;
            }
            if share.aggregation_entries == 0 {
                share.aggregation_entries = held.aggregation_entries;
            }
        }
        None => {
            let account = share.account.as_ref();
            let asked = AskedShare { account, places: &places, groups: share.groups };
            share.groups = shares.decide(wall_clock(), &asked)?;
        }
    }
    let is_new = held.is_none() && share.aggregation_entries > 0;
    if !is_new {
        return Ok(state.decide(ReserveJob { job, nodes, share }, writes)?.answer);
    }
    let tenant = share.account.as_ref().map_or_else(String::new, ToString::to_string);
    let entries = JobEntries {
        holder: HolderName { tenant, job: Some(job.to_string()) },
        entries: share.aggregation_entries,
        places,
    };
    state.check_space()?;
    follow_fabric(state, writes);
    let id = state.collectives.reserve_for_job(entries, &mut writes.puts)?;
    share.reservation = Some(id.0);
    let decided = state.decide(ReserveJob { job, nodes, share }, writes);
    if decided.is_err() {
        state.collectives.cancel(id, &mut writes.puts);
    }
    Ok(decided?.answer)
}

fn change_topology(
    next: NextTopology,
    state: &mut WriterState,
    writes: &mut BatchWrites,
) -> Result<v1::TopologySummary, WriteError> {
    next.check(&state.directory)?;
    let NextTopology { topology, mut puts, .. } = next;
    state.check_space_for(&puts)?;
    writes.puts.append(&mut puts);
    let summary = topology.summary();
    state.next_topology = Some(topology);
    Ok(summary)
}

/// Makes some more collectives follow failed and repaired parts, as each decision on them must
/// first; the trees that it allocates avoid these parts. None does while the store has no space for
/// its new trees, so that what ends others is written.
fn follow_fabric(state: &mut WriterState, writes: &mut BatchWrites) {
    if !state.has_space {
        return;
    }
    state.collectives.follow(&state.records.failed(), &mut writes.puts);
}
