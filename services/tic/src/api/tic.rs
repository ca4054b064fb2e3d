//! `TicService`: groups, members, nodes, failures, routes, and watches of all that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::command::{DeleteGroup, RegisterNode};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::{Gn, Incarnation, Revision};
use fabricast_groups::names::{GroupName, NodeName};
use fabricast_groups::record::{Route, RouteState};
use fabricast_groups::watch::NodeIncarnation;
use fabricast_proto::v1;
use fabricast_routing::{Choice, MgidSpace};
use fabricast_rpc::{CallCost, Caller, Reason, Turn, client_key};
use fabricast_telemetry::metrics::TIC_RECORDS_COPY;
use fabricast_topology::Mgid;
use fabricast_wire::{decode_group_agent_status, decode_route, encode_node};
use tokio::sync::Semaphore;
use tokio_stream::{Iter, StreamExt};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::api::mgid_plan::{self, GroupOutline};
use crate::api::record_export::{RecordChunks, RecordExports};
use crate::api::term_holder::{ActiveRouter, TermHolder};
use crate::api::topology::{TopologyChunks, collectives_follow_fabric};
use crate::api::{fields, members, nodes, pages, status};
use crate::clock::wall_clock;
use crate::domain::elements::{self, ElementKey};
use crate::domain::route_terms::{GrantedTerm, ReportNumber};
use crate::domain::topology::TopologySnapshot;
use crate::leadership::state::LeaderState;
use crate::liveness::inbox::LivenessInbox;
use crate::records::Records;
use crate::records::copy::RecordsCopy;
use crate::writer::directory::{DrainNode, ForgetFlaps, NodeFailed, RecordRoutes, RemoveNode};
use crate::writer::queue::WriterQueue;
use crate::writer::requests::{
    AcquireRouteTerm, CopyMgidPlanner, MoveToTrees, PutFailedElements, ReleaseRouteTerm,
    RenewRouteTerm, ReportRoutes,
};
use crate::{audit, liveness};

/// Plans of MGIDs that are made at one time; each keeps a processor busy.
pub(crate) const PLANS: usize = 1;

/// Routes of a report, and memberships of a group that ends, in one decision.
const AT_ONCE: usize = 4_096;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Tic {
    pub(crate) queue: WriterQueue,
    pub(crate) records: Arc<Records>,
    pub(crate) liveness: Arc<LivenessInbox>,
    pub(crate) topology: TopologySnapshot,
    pub(crate) colors: u16,
    pub(crate) space: MgidSpace,
    pub(crate) route_term: GrantedTerm,
    pub(crate) term_holder: TermHolder,
    pub(crate) active_router: ActiveRouter,
    /// Permits of plans that are made at one time.
    pub(crate) plans: Arc<Semaphore>,
    pub(crate) exports: RecordExports,
    /// Set while this TIC does not lead: it answers stale reads only.
    pub(crate) stale_reads: Option<StaleReads>,
}

/// A copy of the records on a TIC that does not lead.
#[derive(Clone, Debug)]
pub(crate) struct StaleReads {
    pub(crate) leader: Arc<LeaderState>,
    pub(crate) copy: Arc<RecordsCopy>,
}

impl Tic {
    /// Waits until the records may be read by a call that allows stale answers or does not.
    async fn readable(&self, allow_stale: bool) -> Result<(), Status> {
        match &self.stale_reads {
            None => Ok(()),
            Some(reads) if allow_stale => {
                reads.copy.refresh().await?;
                // Very many calls may have waited.
                CallCost::current().room_for_answer().await
            }
            Some(reads) => Err(reads.leader.not_leader().into()),
        }
    }

    /// Chooses MGIDs for groups that are formed together; changes nothing.
    ///
    /// That may take seconds, so it runs on a thread of its own and not in the writer.
    pub(crate) async fn plan(
        &self,
        turn: Turn,
        groups: Vec<GroupOutline>,
    ) -> Result<Vec<Choice>, Status> {
        let mut planner = self.queue.write(CopyMgidPlanner).await?;
        let (records, graph) = (Arc::clone(&self.records), Arc::clone(&self.topology.graph));
        let planning = turn.run(move || mgid_plan::plan(&mut planner, &records, &graph, &groups));
        planning.await.map_err(|_panic| status::panicked("the plan"))?
    }

    /// The MGID of a group that exists.
    fn own_mgid(&self, group: &str) -> Option<Mgid> {
        let name = GroupName::new(group).ok()?;
        self.records.read(|directory| Some(directory.group(directory.find_group(&name)?)?.mgid))
    }
}

#[tonic::async_trait]
impl v1::tic_service_server::TicService for Tic {
    async fn register_node(
        &self,
        request: Request<v1::RegisterNodeRequest>,
    ) -> Result<Response<v1::RegisterNodeResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let v1::RegisterNodeRequest { node, start_id, voucher_key } = request.into_inner();
        let node = node.ok_or_else(|| fields::missing("node"))?;
        caller.check_node(&node.name)?;
        let graph = &self.topology.graph;
        let request = RegisterNode {
            name: fields::name("node.name", &node.name, NodeName::new)?,
            address: fields::address("node.address", &node.address)?,
            endpoints: fields::own_endpoints(graph, &node.endpoints)?,
            start_id: fields::not_zero("start_id", start_id)?,
            voucher_key: fields::voucher_key(&voucher_key)?,
        };
        nodes::register(&self.queue, request).await.map(Response::new)
    }

    async fn join_group(
        &self,
        request: Request<v1::JoinGroupRequest>,
    ) -> Result<Response<v1::JoinGroupResponse>, Status> {
        let caller = Caller::of(request.extensions());
        caller.check_node(&request.get_ref().node)?;
        let join = members::join(&self.topology.graph, request.into_inner())?;
        let joined = self.queue.write(join).await?.answer;
        Ok(Response::new(members::joined(&self.records, &caller, &joined)))
    }

    async fn leave_group(
        &self,
        request: Request<v1::LeaveGroupRequest>,
    ) -> Result<Response<v1::LeaveGroupResponse>, Status> {
        Caller::of(request.extensions()).check_node(&request.get_ref().node)?;
        let leave = members::leave(&request.into_inner())?;
        Ok(Response::new(members::left(&self.queue.write(leave).await?.answer)))
    }

    async fn delete_group(
        &self,
        request: Request<v1::DeleteGroupRequest>,
    ) -> Result<Response<v1::DeleteGroupResponse>, Status> {
        Caller::of(request.extensions()).check_group(&request.get_ref().group)?;
        let request = request.into_inner();
        let mut request = DeleteGroup {
            request_id: fields::request_id(&request.request_id)?,
            group: fields::name("group", &request.group, GroupName::new)?,
            gn: None,
            most: AT_ONCE,
        };
        loop {
            let (gn, done) = self.queue.write(request.clone()).await?.answer;
            request.gn = Some(gn);
            if let Some(Revision(revision)) = done {
                return Ok(Response::new(v1::DeleteGroupResponse { revision }));
            }
        }
    }

    async fn plan_mgids(
        &self,
        request: Request<v1::PlanMgidsRequest>,
    ) -> Result<Response<v1::PlanMgidsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let groups = request.into_inner().groups;
        let outlines =
            groups.iter().map(|group| GroupOutline::read(&caller, &self.topology.graph, group));
        let outlines = outlines.collect::<Result<Vec<_>, Status>>()?;
        // First, so that the holder of the permit does not wait for its client's debt to be paid.
        let turn = CallCost::current().turn().await;
        let _permit = self.plans.acquire().await.map_err(|_closed| status::panicked("planning"))?;
        let choices = self.plan(turn, outlines).await?;
        let mgids = groups.into_iter().zip(choices).map(|(group, choice)| v1::PlannedMgid {
            mgid: self.own_mgid(&group.group).unwrap_or(choice.mgid).0,
            group: group.group,
            color: u32::from(self.space.color(self.space.spt(choice.mgid))),
            spanning_tree: self.space.spt(choice.mgid),
            conflicting_members: choice.breaches,
            merging_members: choice.merges,
        });
        Ok(Response::new(v1::PlanMgidsResponse { mgids: mgids.collect() }))
    }

    async fn get_group(
        &self,
        request: Request<v1::GetGroupRequest>,
    ) -> Result<Response<v1::GetGroupResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        self.readable(request.allow_stale).await?;
        members::look_up(&self.records, &caller, &request).map(Response::new)
    }

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> Result<Response<v1::ListGroupsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        self.readable(request.allow_stale).await?;
        members::list(&self.records, &caller, &request).map(Response::new)
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let request = request.into_inner();
        self.readable(request.allow_stale).await?;
        let after = pages::read_node(&request.page_token)?;
        Ok(Response::new(self.records.read(|directory| {
            let nodes = directory.nodes_after(after.as_ref());
            let now = wall_clock();
            let nodes = nodes.map(|node| nodes::wire_node(node, &self.liveness.contacts, now));
            let (nodes, next) = pages::fill(request.page_size, nodes);
            let last = nodes.last().filter(|_| next.is_some());
            let next_page_token = last.map(|node| pages::node_token(&node.name));
            v1::ListNodesResponse {
                nodes,
                next_page_token: next_page_token.unwrap_or_default(),
                revision: directory.revision().0,
                held_node_count: self.liveness.held(),
                held_block_count: self.liveness.held_blocks(),
            }
        })))
    }

    async fn get_node(
        &self,
        request: Request<v1::GetNodeRequest>,
    ) -> Result<Response<v1::GetNodeResponse>, Status> {
        let name = fields::name("node", &request.into_inner().node, NodeName::new)?;
        self.readable(false).await?;
        nodes::look_up(&self.records, &self.liveness.contacts, &name).map(Response::new)
    }

    async fn remove_node(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> Result<Response<v1::RemoveNodeResponse>, Status> {
        let node = fields::name("node", &request.into_inner().node, NodeName::new)?;
        let revision = self.queue.write(RemoveNode { node: node.clone() }).await?.revision.0;
        self.liveness.contacts.forget(&node);
        tracing::info!(%node, "record of the node removed");
        Ok(Response::new(v1::RemoveNodeResponse { revision }))
    }

    async fn report_node_failure(
        &self,
        request: Request<v1::ReportNodeFailureRequest>,
    ) -> Result<Response<v1::ReportNodeFailureResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let reporter = fields::label("reporter", &request.reporter)?;
        let node = fields::name("node", &request.node, NodeName::new)?;
        let incarnation = Some(request.incarnation).filter(|number| *number > 0).map(Incarnation);
        if request.probe_first {
            let number = nodes::suspected(&self.records, &node, incarnation)?;
            tracing::info!(%node, reporter, "node reported as unreachable");
            self.liveness.reported(NodeIncarnation { node, number });
            let revision = self.records.read(Directory::revision).0;
            let response = v1::ReportNodeFailureResponse { ended_memberships: 0, revision };
            return Ok(Response::new(response));
        }
        caller.check_administrator("probe_first: without it a node is expelled without a probe")?;
        let failed = NodeFailed { node: node.clone(), incarnation };
        let expelled = liveness::expel(&self.queue, &failed).await?;
        let memberships = expelled.answer;
        tracing::info!(%node, reporter, memberships, "node reported as failed");
        let ended_memberships = u32::try_from(memberships).unwrap_or(u32::MAX);
        let revision = expelled.revision.0;
        Ok(Response::new(v1::ReportNodeFailureResponse { ended_memberships, revision }))
    }

    async fn readmit_node(
        &self,
        request: Request<v1::ReadmitNodeRequest>,
    ) -> Result<Response<v1::ReadmitNodeResponse>, Status> {
        let node = fields::name("node", &request.into_inner().node, NodeName::new)?;
        let node = self.queue.write(ForgetFlaps { node }).await?.answer;
        tracing::info!(node = %node.name, "node readmitted, its flaps are forgotten");
        let node = Some(encode_node(&node, wall_clock()));
        Ok(Response::new(v1::ReadmitNodeResponse { node }))
    }

    async fn drain_node(
        &self,
        request: Request<v1::DrainNodeRequest>,
    ) -> Result<Response<v1::DrainNodeResponse>, Status> {
        let node = fields::name("node", &request.into_inner().node, NodeName::new)?;
        self.queue.write(DrainNode { node: node.clone(), drained: true }).await?;
        tracing::info!(%node, "node drained");
        let left = nodes::look_up(&self.records, &self.liveness.contacts, &node)?;
        let v1::GetNodeResponse { node, job, membership_count, hosted_group_count, .. } = left;
        let left = v1::DrainNodeResponse { node, job, membership_count, hosted_group_count };
        Ok(Response::new(left))
    }

    async fn resume_node(
        &self,
        request: Request<v1::ResumeNodeRequest>,
    ) -> Result<Response<v1::ResumeNodeResponse>, Status> {
        let node = fields::name("node", &request.into_inner().node, NodeName::new)?;
        let node = self.queue.write(DrainNode { node, drained: false }).await?.answer;
        tracing::info!(node = %node.name, "node resumed");
        let node = Some(encode_node(&node, wall_clock()));
        Ok(Response::new(v1::ResumeNodeResponse { node }))
    }

    async fn move_groups(
        &self,
        request: Request<v1::MoveGroupsRequest>,
    ) -> Result<Response<v1::MoveGroupsResponse>, Status> {
        let asked = request.into_inner().moves;
        let (moves, mut names) = mgid_plan::read_moves(&self.records, asked)?;
        let moved = self.queue.write(MoveToTrees(moves)).await?;
        let moved_groups: Vec<String> =
            moved.answer.iter().filter_map(|one| names.remove(&one.gn)).collect();
        tracing::info!(groups = moved_groups.len(), "groups moved to other spanning trees");
        Ok(Response::new(v1::MoveGroupsResponse { moved_groups, revision: moved.revision.0 }))
    }

    async fn report_group_agents(
        &self,
        request: Request<v1::ReportGroupAgentsRequest>,
    ) -> Result<Response<v1::ReportGroupAgentsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let statuses = request.into_inner().statuses;
        statuses.iter().try_for_each(|status| caller.check_node(&status.node))?;
        let nexts =
            statuses.iter().map(|status| nodes::next_report(status.next_report_in.as_ref()));
        let nexts: Vec<Duration> = nexts.collect();
        let statuses = statuses.iter().map(decode_group_agent_status);
        let statuses: Vec<_> = statuses.collect::<Result<_, _>>()?;
        nodes::check_once(&statuses)?;
        let verdicts = nodes::verdicts(&self.records, &statuses);
        let heard = statuses.iter().zip(nexts).zip(&verdicts);
        let heard = heard.filter(|(_, verdict)| !verdict.expelled);
        let heard = heard.map(|(((node, number, _), next), _)| {
            (NodeIncarnation { node: node.clone(), number: *number }, next)
        });
        self.liveness.heard(heard.collect());
        let answers =
            statuses.into_iter().zip(verdicts).map(|((node, ..), verdict)| v1::GroupAgentVerdict {
                node: node.into(),
                expelled: verdict.expelled,
                refresh_gns: verdict.refresh.into_iter().map(|gn| gn.0).collect(),
                drop_gns: verdict.drop.into_iter().map(|gn| gn.0).collect(),
            });
        Ok(Response::new(v1::ReportGroupAgentsResponse { verdicts: answers.collect() }))
    }

    async fn report_failed_elements(
        &self,
        request: Request<v1::ReportFailedElementsRequest>,
    ) -> Result<Response<v1::ReportFailedElementsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let reporter = fields::label("reporter", &request.reporter)?;
        caller.check_reporter(reporter)?;
        let graph = &self.topology.graph;
        let elements = request.elements.iter().map(|element| ElementKey::find(graph, element));
        let elements: BTreeSet<_> = elements.collect::<Result<_, _>>()?;
        if self.records.is_news(reporter, &elements)? {
            let elements = elements::text(graph, &elements);
            let (reporter, elements) = (reporter.to_owned(), Some(elements));
            self.queue.write(PutFailedElements { reporter, elements }).await?;
        }
        let (count, cut_off) = self.records.report_failed(reporter, elements)?;
        self.liveness.cut_off(cut_off);
        collectives_follow_fabric(&self.queue, &self.records).await?;
        let failed_count = count.try_into().unwrap_or(u32::MAX);
        let newest_route_term = self.route_term.get();
        let response = v1::ReportFailedElementsResponse { failed_count, newest_route_term };
        Ok(Response::new(response))
    }

    async fn list_reporters(
        &self,
        _request: Request<v1::ListReportersRequest>,
    ) -> Result<Response<v1::ListReportersResponse>, Status> {
        let reporters = self.records.reporters().into_iter().map(|(name, count)| {
            v1::FailureReporter { name, failed_count: count.try_into().unwrap_or(u32::MAX) }
        });
        Ok(Response::new(v1::ListReportersResponse { reporters: reporters.collect() }))
    }

    async fn remove_reporter(
        &self,
        request: Request<v1::RemoveReporterRequest>,
    ) -> Result<Response<v1::RemoveReporterResponse>, Status> {
        let request = request.into_inner();
        let reporter = fields::label("reporter", &request.reporter)?;
        if !self.records.knows_reporter(reporter) {
            let why = format!("no switch agent '{reporter}' has reported failures");
            return Err(Reason::UnknownReporter.status(why, &[("reporter", reporter)]));
        }
        let removal = PutFailedElements { reporter: reporter.to_owned(), elements: None };
        self.queue.write(removal).await?;
        let count = self.records.remove_reporter(reporter);
        collectives_follow_fabric(&self.queue, &self.records).await?;
        tracing::info!(reporter, failed = count, "list of failed elements removed");
        let failed_count = count.try_into().unwrap_or(u32::MAX);
        Ok(Response::new(v1::RemoveReporterResponse { failed_count }))
    }

    type WatchDirectoryStream = BoxStream<v1::WatchDirectoryResponse>;

    async fn watch_directory(
        &self,
        _request: Request<v1::WatchDirectoryRequest>,
    ) -> Result<Response<Self::WatchDirectoryStream>, Status> {
        let messages = self.records.watch()?.map(|message| Ok(message?));
        Ok(Response::new(Box::pin(messages)))
    }

    type DownloadTopologyStream = Iter<TopologyChunks>;

    async fn download_topology(
        &self,
        _request: Request<v1::DownloadTopologyRequest>,
    ) -> Result<Response<Self::DownloadTopologyStream>, Status> {
        if self.topology.text.is_empty() {
            return Err(Reason::NoTopology.status("no topology has been discovered yet", &[]));
        }
        let chunks = TopologyChunks::new(Arc::clone(&self.topology.text));
        Ok(Response::new(tokio_stream::iter(chunks)))
    }

    type ExportRecordsStream = Iter<RecordChunks>;

    async fn export_records(
        &self,
        request: Request<v1::ExportRecordsRequest>,
    ) -> Result<Response<Self::ExportRecordsStream>, Status> {
        let chunks = self.exports.begin(client_key(request.extensions())).await?;
        Ok(Response::new(tokio_stream::iter(chunks)))
    }

    async fn report_records_copy(
        &self,
        _request: Request<v1::ReportRecordsCopyRequest>,
    ) -> Result<Response<v1::ReportRecordsCopyResponse>, Status> {
        TIC_RECORDS_COPY.set(Duration::from_nanos(wall_clock().0).as_secs());
        tracing::info!("copy of the records is complete");
        Ok(Response::new(v1::ReportRecordsCopyResponse {}))
    }

    async fn acquire_route_term(
        &self,
        request: Request<v1::AcquireRouteTermRequest>,
    ) -> Result<Response<v1::AcquireRouteTermResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let router = fields::router(&request.router, request.address)?;
        let (name, address) = (router.name.clone(), router.address.clone());
        let request = AcquireRouteTerm { router, take_over: request.take_over };
        let granted = self.queue.write(request).await?;
        let term = granted.term;
        self.term_holder.note(term, caller);
        self.active_router.set(&address);
        tracing::info!(router = %name, term, "route service has a new term");
        audit::route_term(&name, term);
        let lease = prost_types::Duration::try_from(granted.lease).ok();
        Ok(Response::new(v1::AcquireRouteTermResponse { term, lease }))
    }

    async fn renew_route_term(
        &self,
        request: Request<v1::RenewRouteTermRequest>,
    ) -> Result<Response<v1::RenewRouteTermResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let v1::RenewRouteTermRequest { router: name, term, address } = request.into_inner();
        let router = fields::router(&name, address)?;
        let term = fields::not_zero("term", term)?;
        self.term_holder.check(term, &caller)?;
        let address = router.address.clone();
        let lease = self.queue.write(RenewRouteTerm { router, term }).await?;
        self.term_holder.note(term, caller);
        self.active_router.set(&address);
        let lease = prost_types::Duration::try_from(lease).ok();
        Ok(Response::new(v1::RenewRouteTermResponse { lease }))
    }

    async fn release_route_term(
        &self,
        request: Request<v1::ReleaseRouteTermRequest>,
    ) -> Result<Response<v1::ReleaseRouteTermResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let term = fields::not_zero("term", request.into_inner().term)?;
        self.term_holder.check(term, &caller)?;
        self.queue.write(ReleaseRouteTerm(term)).await?;
        self.active_router.set("");
        tracing::info!(term, "route service has given up its term");
        Ok(Response::new(v1::ReleaseRouteTermResponse {}))
    }

    async fn report_routes(
        &self,
        request: Request<v1::ReportRoutesRequest>,
    ) -> Result<Response<v1::ReportRoutesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let term = fields::not_zero("term", request.term)?;
        self.term_holder.check(term, &caller)?;
        let fence = request.fence.ok_or_else(|| fields::missing("fence"))?;
        if fence.term != term {
            let message = format!("fence.term: {} differs from term {term}", fence.term);
            return Err(Reason::StaleTerm.status(message, &[("field", "fence.term")]));
        }
        let routes = request.routes.iter().map(|reported| {
            let gn = Gn(fields::not_zero("routes.gn", reported.gn)?);
            let route = reported.route.as_ref().ok_or_else(|| fields::missing("routes.route"))?;
            Ok((gn, read_route(route, self.colors)?))
        });
        let routes = routes.collect::<Result<Vec<_>, Status>>()?;
        let clean = (request.clean_revision > 0).then_some(Revision(request.clean_revision));
        let report = ReportNumber { term, number: fence.generation };
        let mut rest = routes;
        let revision = loop {
            // A long report is recorded in parts, so that others do not wait for all of it.
            let later = rest.split_off(rest.len().min(AT_ONCE));
            let routes = std::mem::replace(&mut rest, later);
            let clean = clean.filter(|_| rest.is_empty());
            let routes = RecordRoutes { routes, clean };
            let revision = self.queue.write(ReportRoutes { report, routes }).await?;
            if rest.is_empty() {
                break revision;
            }
        };
        Ok(Response::new(v1::ReportRoutesResponse { revision: revision.0 }))
    }
}

/// Reads a route that the route service reports, and checks it against the tables of the fabric.
fn read_route(route: &v1::Route, colors: u16) -> Result<Route, Status> {
    let route = decode_route(route).map_err(|error| error.within("routes"))?;
    if let RouteState::Routed { colors: used, .. } = route.state {
        let used =
            [("routes.route.color", Some(used.first)), ("routes.route.second_color", used.second)];
        for (field, color) in used {
            if let Some(color) = color.filter(|color| *color >= colors) {
                let text = format!("{field}: color {color} is not below {colors}");
                return Err(Reason::ColorOutOfRange.status(text, &[("field", field)]));
            }
        }
    }
    fields::text("routes.route.reason", &route.reason)?;
    Ok(route)
}
