//! `CollectiveService`: collectives, reservations, quotas, and watches of the trees.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use fabricast_collectives::{Quota, ReservationId};
use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use fabricast_proto::v1;
use fabricast_rpc::{CallCost, Caller, Reason};
use fabricast_topology::Graph;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::api::term_holder::TermHolder;
use crate::api::{fields, pages, status};
use crate::clock::wall_clock;
use crate::domain::collectives::member_trees::MeasuredConstants;
use crate::domain::collectives::published::{Published, Publisher};
use crate::domain::collectives::request::{
    CancelReservation, CreateCollective, HolderName, REQUESTED, ReleaseCollective,
    RequestSwitchTree, ReserveEntries, SetConstants, SetQuota, ViewConstants,
};
use crate::domain::collectives::snapshot::CollectiveSnapshot;
use crate::domain::collectives::wire::read_operation;
use crate::records::watchers::WatchEnd;
use crate::writer::queue::WriterQueue;
use crate::writer::requests::{Own, ReportTrees, ViewUsage};

/// Most trees in one message of a watch.
const TREES_PER_MESSAGE: usize = 256;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Collectives {
    pub(crate) queue: WriterQueue,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) graph: Arc<Graph>,
    pub(crate) term_holder: TermHolder,
}

/// Accepts the name of a collective, tenant or job.
fn name(field: &str, text: &str) -> Result<String, Status> {
    fields::label(field, text).map(str::to_owned)
}

/// Accepts the name of a collective that no member asks for.
fn name_of_new(text: &str) -> Result<String, Status> {
    if text.starts_with(REQUESTED) {
        let why = format!("name: '{REQUESTED}...' are collectives that members ask for");
        return Err(Reason::NameInvalid.status(why, &[("field", "name")]));
    }
    name("name", text)
}

fn optional(field: &str, text: &str) -> Result<String, Status> {
    if text.is_empty() { Ok(String::new()) } else { name(field, text) }
}

fn holder(holder: Option<v1::CollectiveHolder>) -> Result<HolderName, Status> {
    let holder = holder.ok_or_else(|| fields::missing("holder"))?;
    let job = holder.job.map(|job| optional("holder.job", &job)).transpose()?;
    Ok(HolderName { tenant: optional("holder.tenant", &holder.tenant)?, job })
}

/// Refuses who administers another tenant than the holder's.
fn check_holder(
    caller: &Caller,
    field: &str,
    holder: Option<&v1::CollectiveHolder>,
) -> Result<(), Status> {
    caller.check_tenant(field, holder.map_or("", |holder| &holder.tenant))
}

impl Collectives {
    /// A collective with processes and trees. Those of many processes are put together on a thread
    /// of their own, once.
    async fn whole(&self, collective: Arc<CollectiveSnapshot>) -> Result<v1::Collective, Status> {
        if collective.is_long_to_build() {
            let turn = CallCost::current().turn().await;
            let building = Arc::clone(&collective);
            let built = turn.run(move || {
                building.whole();
            });
            built.await.map_err(|_panic| status::panicked("building the trees"))?;
        }
        Ok(self.publisher.whole(&collective))
    }

    /// Leaves out what belongs to tenants that the caller may not see, and the switches in which
    /// only these hold entries.
    fn visible(
        &self,
        caller: &Caller,
        usage: v1::GetEntryUsageResponse,
    ) -> v1::GetEntryUsageResponse {
        if caller.sees_all_tenants() {
            return usage;
        }
        let newest = self.publisher.newest();
        let is_own = |holder: &Option<v1::CollectiveHolder>| {
            holder.as_ref().is_some_and(|holder| caller.owns_tenant(&holder.tenant))
        };
        let v1::GetEntryUsageResponse { switches, mut usages, mut quotas, mut reservations } =
            usage;
        usages.retain(|one| is_own(&one.holder));
        quotas.retain(|one| is_own(&one.holder));
        reservations.retain(|one| is_own(&one.holder));
        let own = |mut switch: v1::SwitchHoldings| {
            switch.collectives.retain(|name| {
                let found = newest.collectives.get(name.as_str());
                found.is_some_and(|one| caller.owns_tenant(&one.listed().tenant))
            });
            (!switch.collectives.is_empty()).then_some(switch)
        };
        let switches = switches.into_iter().filter_map(own).collect();
        v1::GetEntryUsageResponse { switches, usages, quotas, reservations }
    }
}

#[tonic::async_trait]
impl v1::collective_service_server::CollectiveService for Collectives {
    async fn create_collective(
        &self,
        request: Request<v1::CreateCollectiveRequest>,
    ) -> Result<Response<v1::CreateCollectiveResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        caller.check_tenant("tenant", &request.tenant)?;
        caller.check_group(&request.group)?;
        let operation = |number: &i32| {
            read_operation(*number).ok_or_else(|| {
                let text = format!("operations: {number} is no operation");
                Reason::CollectiveInvalid.status(text, &[("field", "operations")])
            })
        };
        let operations =
            request.operations.iter().map(operation).collect::<Result<BTreeSet<_>, _>>()?;
        if operations.is_empty() {
            return Err(fields::missing("operations"));
        }
        let request = CreateCollective {
            name: name_of_new(&request.name)?,
            group: fields::name("group", &request.group, GroupName::new)?,
            tenant: optional("tenant", &request.tenant)?,
            job: optional("job", &request.job)?,
            operations: operations.into_iter().collect(),
            min_bytes: request.min_bytes,
            max_bytes: request.max_bytes,
            switch_tree_required: request.switch_tree_required,
        };
        let created = self.queue.write(request).await?;
        let collective = Some(self.whole(created).await?);
        Ok(Response::new(v1::CreateCollectiveResponse { collective }))
    }

    async fn request_switch_tree(
        &self,
        request: Request<v1::RequestSwitchTreeRequest>,
    ) -> Result<Response<v1::RequestSwitchTreeResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        caller.check_node(&request.node)?;
        let request = RequestSwitchTree {
            group: fields::name("group", &request.group, GroupName::new)?,
            node: fields::name("node", &request.node, NodeName::new)?,
            process: fields::name("process", &request.process, ProcessName::new)?,
        };
        let found = self.queue.write(request).await?;
        let collective = Some(self.publisher.listed(&found));
        Ok(Response::new(v1::RequestSwitchTreeResponse { collective }))
    }

    async fn set_tree_constants(
        &self,
        request: Request<v1::SetTreeConstantsRequest>,
    ) -> Result<Response<v1::SetTreeConstantsResponse>, Status> {
        let constants = request.into_inner().constants;
        let constants = constants.map(|wire| MeasuredConstants::read(wire, wall_clock()));
        let constants = constants.transpose().map_err(|what| {
            let text = format!("constants.{what}");
            Reason::CollectiveInvalid.status(text, &[("field", "constants")])
        })?;
        self.queue.write(SetConstants(constants)).await?;
        Ok(Response::new(v1::SetTreeConstantsResponse {}))
    }

    async fn get_tree_constants(
        &self,
        _request: Request<v1::GetTreeConstantsRequest>,
    ) -> Result<Response<v1::GetTreeConstantsResponse>, Status> {
        let constants = self.queue.write(ViewConstants).await?;
        let constants = constants.as_ref().map(MeasuredConstants::wire);
        Ok(Response::new(v1::GetTreeConstantsResponse { constants }))
    }

    async fn release_collective(
        &self,
        request: Request<v1::ReleaseCollectiveRequest>,
    ) -> Result<Response<v1::ReleaseCollectiveResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let name = name("name", &request.into_inner().name)?;
        let released =
            self.queue.write(Own { request: ReleaseCollective { name }, caller }).await?;
        Ok(Response::new(v1::ReleaseCollectiveResponse { released }))
    }

    async fn get_collective(
        &self,
        request: Request<v1::GetCollectiveRequest>,
    ) -> Result<Response<v1::GetCollectiveResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let name = request.into_inner().name;
        let newest = self.publisher.newest();
        let found = newest.collectives.get(name.as_str());
        let found = found.filter(|one| caller.owns_tenant(&one.listed().tenant)).cloned();
        let found = found.ok_or_else(|| {
            let text = format!("name: no collective '{name}'");
            Reason::UnknownCollective.status(text, &[("collective", &name)])
        })?;
        let collective = Some(self.whole(found).await?);
        Ok(Response::new(v1::GetCollectiveResponse { collective }))
    }

    async fn list_collectives(
        &self,
        request: Request<v1::ListCollectivesRequest>,
    ) -> Result<Response<v1::ListCollectivesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let after = pages::read_job(&request.page_token)?;
        // Read before the list, so that what changes meanwhile is no part of it.
        let revision = self.publisher.list_revision();
        if request.unless_revision == revision && after.is_none() {
            let unchanged = true;
            return Ok(Response::new(v1::ListCollectivesResponse {
                revision,
                unchanged,
                ..Default::default()
            }));
        }
        let newest = self.publisher.newest();
        let from = after.as_ref().map_or(Bound::Unbounded, |name| Bound::Excluded(name.as_str()));
        let range: (Bound<&str>, Bound<&str>) = (from, Bound::Unbounded);
        let later = newest.collectives.range::<str, _>(range);
        let own = later.filter(|(_, one)| caller.owns_tenant(&one.listed().tenant));
        let shown = own.map(|(_, one)| self.publisher.listed(one));
        let (collectives, next) = pages::fill(request.page_size, shown);
        let last = collectives.last().filter(|_| next.is_some());
        let next_page_token = last.map(|one| pages::job_token(&one.name)).unwrap_or_default();
        Ok(Response::new(v1::ListCollectivesResponse {
            collectives,
            next_page_token,
            revision,
            unchanged: false,
        }))
    }

    async fn reserve_entries(
        &self,
        request: Request<v1::ReserveEntriesRequest>,
    ) -> Result<Response<v1::ReserveEntriesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let asked = request.into_inner().reservation;
        let mut reservation = asked.ok_or_else(|| fields::missing("reservation"))?;
        check_holder(&caller, "reservation.holder", reservation.holder.as_ref())?;
        if reservation.entries == 0 {
            return Err(fields::missing("reservation.entries"));
        }
        if reservation.endpoints.is_empty() {
            return Err(fields::missing("reservation.endpoints"));
        }
        let endpoint = |name: &String| {
            let found = self.graph.resolve_endpoint(name);
            found.map_err(|error| fields::endpoint_error("reservation.endpoints", &error))
        };
        let mut endpoints =
            reservation.endpoints.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
        let mut seen = BTreeSet::new();
        endpoints.retain(|one| seen.insert(*one));
        let names = endpoints.iter().map(|one| self.graph.endpoint_name(*one).to_owned());
        reservation.endpoints = names.collect();
        let request = ReserveEntries {
            holder: holder(reservation.holder.clone())?,
            entries: fields::few("reservation.entries", reservation.entries)?,
            endpoints,
        };
        let id = self.queue.write(request).await?;
        reservation.id = id.0;
        Ok(Response::new(v1::ReserveEntriesResponse { reservation: Some(reservation) }))
    }

    async fn cancel_reservation(
        &self,
        request: Request<v1::CancelReservationRequest>,
    ) -> Result<Response<v1::CancelReservationResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let id = ReservationId(request.into_inner().id);
        let cancelled = self.queue.write(Own { request: CancelReservation { id }, caller }).await?;
        Ok(Response::new(v1::CancelReservationResponse { cancelled }))
    }

    async fn set_collective_quota(
        &self,
        request: Request<v1::SetCollectiveQuotaRequest>,
    ) -> Result<Response<v1::SetCollectiveQuotaResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let quota = request.into_inner().quota.ok_or_else(|| fields::missing("quota"))?;
        check_holder(&caller, "quota.holder", quota.holder.as_ref())?;
        if quota.holder.as_ref().is_some_and(|holder| holder.job.is_none()) {
            caller
                .check_administrator("quota.holder.job: without it the tenant itself is limited")?;
        }
        let per_switch = quota.entries_per_switch;
        let per_switch =
            per_switch.map(|most| fields::few("quota.entries_per_switch", most)).transpose()?;
        let request = SetQuota {
            holder: holder(quota.holder)?,
            quota: Quota {
                collectives: quota.collectives,
                entries: quota.entries,
                entries_per_switch: per_switch,
            },
        };
        self.queue.write(request).await?;
        Ok(Response::new(v1::SetCollectiveQuotaResponse {}))
    }

    async fn get_entry_usage(
        &self,
        request: Request<v1::GetEntryUsageRequest>,
    ) -> Result<Response<v1::GetEntryUsageResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let usage = self.queue.write(ViewUsage).await?;
        // It names the endpoints of all reservations.
        let encoding = CallCost::current().turn().await.run(move || usage.wire());
        let encoded = encoding.await;
        let usage = encoded.map_err(|_panic| status::panicked("naming who holds entries"))?;
        Ok(Response::new(self.visible(&caller, usage)))
    }

    type WatchAggregationTreesStream = BoxStream<v1::WatchAggregationTreesResponse>;

    async fn watch_aggregation_trees(
        &self,
        _request: Request<v1::WatchAggregationTreesRequest>,
    ) -> Result<Response<Self::WatchAggregationTreesStream>, Status> {
        let (to, messages) = mpsc::channel(1);
        let (newest, closed) = (self.publisher.watch(), self.publisher.closed());
        tokio::spawn(async move {
            let ended = closed.run_until_cancelled(send_changes(newest, &to)).await;
            if ended.is_none() {
                // A watcher that is gone or slow is not missed.
                let _ = to.try_send(Err(WatchEnd::ShuttingDown.into()));
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }

    async fn report_aggregation_trees(
        &self,
        request: Request<v1::ReportAggregationTreesRequest>,
    ) -> Result<Response<v1::ReportAggregationTreesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let term = fields::not_zero("term", request.term)?;
        self.term_holder.check(term, &caller)?;
        let (revision, missing) = (request.revision, request.missing_trees);
        self.queue.write(ReportTrees { term, revision, missing }).await?;
        Ok(Response::new(v1::ReportAggregationTreesResponse {}))
    }
}

type Message = Result<v1::WatchAggregationTreesResponse, Status>;

/// Sends one watcher the changes since the last state that it got, whenever it is ready for more:
/// it is never more than one state behind.
async fn send_changes(
    mut newest: tokio::sync::watch::Receiver<Arc<Published>>,
    to: &mpsc::Sender<Message>,
) {
    let mut sent: Option<BTreeSet<u32>> = None;
    loop {
        let published = Arc::clone(&newest.borrow_and_update());
        let before = sent.replace(published.trees().into_keys().collect());
        // The trees of thousands of processes are put together by their first reader.
        let building = tokio::task::spawn_blocking(move || messages(&published, before));
        let Ok(messages) = building.await else { return };
        for message in messages {
            if to.send(Ok(message)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = newest.changed() => if changed.is_err() { return },
            () = to.closed() => return,
        }
    }
}

/// The changes in messages of bounded size; only the last has the new revision.
///
/// - `before`: the trees that were sent before, if any message was.
fn messages(
    published: &Published,
    before: Option<BTreeSet<u32>>,
) -> Vec<v1::WatchAggregationTreesResponse> {
    let trees = published.trees();
    let snapshot = before.is_none();
    let before = before.unwrap_or_default();
    let added = trees.iter().filter(|(tree, _)| !before.contains(tree));
    let added = added.filter_map(|(tree, collective)| collective.tree(*tree).cloned());
    let mut messages = Vec::new();
    let (mut message, mut bytes) = (v1::WatchAggregationTreesResponse::default(), 0);
    for tree in added {
        let length = tree.encoded_len();
        let is_full = message.added.len() >= TREES_PER_MESSAGE || bytes + length > pages::MAX_BYTES;
        if is_full && !message.added.is_empty() {
            messages.push(std::mem::take(&mut message));
            bytes = 0;
        }
        bytes += length;
        message.added.push(tree);
    }
    message.revision = published.revision;
    messages.push(message);
    if let Some(first) = messages.first_mut() {
        let gone = before.into_iter().filter(|tree| !trees.contains_key(tree));
        (first.snapshot, first.removed) = (snapshot, gone.collect());
    }
    messages
}
