//! `TicService`: each call is checked here, decided by the writer or answered from the records.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::command::{Answer, Command, RegisterNode};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::{Gn, Incarnation, Revision};
use fabricast_groups::names::{GroupName, NodeName};
use fabricast_proto::v1;
use fabricast_routing::MgidSpace;
use fabricast_rpc::{Caller, Reason};
use fabricast_topology::Graph;
use tokio_stream::Iter;
use tonic::{Request, Response, Status};

use crate::audit;
use crate::clock::wall_clock;
use crate::elements::{self, ElementKey};
use crate::fields;
use crate::liveness::Inbox;
use crate::members;
use crate::nodes;
use crate::office::RecordsCopy;
use crate::orders::{Done, Orders, Work};
use crate::pages;
use crate::records::{Records, wire_group};
use crate::storage;
use crate::terms::Router;
use crate::topology::TopologyChunks;
use crate::watchers::WatchStream;
use crate::wire;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Tic {
    pub(crate) orders: Orders,
    pub(crate) records: Arc<Records>,
    pub(crate) liveness: Arc<Inbox>,
    pub(crate) graph: Arc<Graph>,
    pub(crate) topology: Arc<str>,
    pub(crate) colors: u16,
    pub(crate) space: MgidSpace,
    /// Where this TIC does not lead: what it answers stale reads from.
    pub(crate) copy: Option<Arc<RecordsCopy>>,
}

impl Tic {
    pub(crate) async fn decide(&self, command: Command) -> Result<(Answer, Revision), Status> {
        self.place(Work::Decide(command)).await
    }

    async fn place(&self, work: Work) -> Result<(Answer, Revision), Status> {
        match self.orders.place(work).await? {
            Done::Decided { answer, revision } => Ok((*answer, revision)),
            _ => Err(mismatch()),
        }
    }

    /// Waits until the records may be read by such a call.
    async fn readable(&self, allow_stale: bool) -> Result<(), Status> {
        match &self.copy {
            None => Ok(()),
            Some(copy) => copy.refresh(allow_stale).await,
        }
    }
}

/// The writer answered something else than was asked, which its match on commands rules out.
pub(crate) fn mismatch() -> Status {
    Status::internal("the directory answered another question")
}

#[tonic::async_trait]
impl v1::tic_service_server::TicService for Tic {
    async fn register_node(
        &self,
        request: Request<v1::RegisterNodeRequest>,
    ) -> Result<Response<v1::RegisterNodeResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let v1::RegisterNodeRequest { node, start_id } = request.into_inner();
        let node = node.ok_or_else(|| fields::missing("node"))?;
        caller.check_node(&node.name)?;
        let command = Command::RegisterNode(RegisterNode {
            name: fields::name("node.name", &node.name, NodeName::new)?,
            address: fields::address("node.address", &node.address)?,
            endpoints: self.endpoints("node.endpoints", &node.endpoints)?,
            start_id: fields::not_zero("start_id", start_id)?,
        });
        nodes::registered(self.decide(command).await?.0).map(Response::new)
    }

    async fn join_group(
        &self,
        request: Request<v1::JoinGroupRequest>,
    ) -> Result<Response<v1::JoinGroupResponse>, Status> {
        Caller::of(request.extensions()).check_node(&request.get_ref().node)?;
        let command = self.join_command(request.into_inner())?;
        let (answer, _) = self.decide(command).await?;
        self.joined(answer).map(Response::new)
    }

    async fn leave_group(
        &self,
        request: Request<v1::LeaveGroupRequest>,
    ) -> Result<Response<v1::LeaveGroupResponse>, Status> {
        Caller::of(request.extensions()).check_node(&request.get_ref().node)?;
        let command = members::leave_command(&request.into_inner())?;
        let (answer, _) = self.decide(command).await?;
        members::left(&answer).map(Response::new)
    }

    async fn delete_group(
        &self,
        request: Request<v1::DeleteGroupRequest>,
    ) -> Result<Response<v1::DeleteGroupResponse>, Status> {
        Caller::of(request.extensions()).check_group(&request.get_ref().group)?;
        let request = request.into_inner();
        let command = Command::DeleteGroup {
            request_id: fields::request_id(&request.request_id)?,
            group: fields::name("group", &request.group, GroupName::new)?,
        };
        let (Answer::Deleted { revision, .. }, _) = self.decide(command).await? else {
            return Err(mismatch());
        };
        Ok(Response::new(v1::DeleteGroupResponse { revision: revision.0 }))
    }

    async fn plan_mgids(
        &self,
        request: Request<v1::PlanMgidsRequest>,
    ) -> Result<Response<v1::PlanMgidsResponse>, Status> {
        let groups = request.into_inner().groups;
        let endpoints = groups.iter().map(|group| {
            let endpoints = self.endpoints("groups.endpoints", &group.endpoints)?;
            let found = endpoints.iter().filter_map(|name| self.graph.find_endpoint(name.as_str()));
            Ok(found.map(|endpoint| endpoint.0).collect())
        });
        let endpoints = endpoints.collect::<Result<Vec<_>, Status>>()?;
        let Done::Mgids(choices) = self.orders.place(Work::PlanMgids(endpoints)).await? else {
            return Err(mismatch());
        };
        let mgids = groups.into_iter().zip(choices).map(|(group, choice)| v1::PlannedMgid {
            group: group.group,
            mgid: choice.mgid.0,
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
        self.look_up(&caller, &request).map(Response::new)
    }

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> Result<Response<v1::ListGroupsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        self.readable(request.allow_stale).await?;
        let from = pages::read_gn(&request.page_token)?;
        Ok(Response::new(self.records.read(|directory| {
            let groups = directory.groups_from(from);
            let groups = groups.filter(|group| caller.owns_group(group.name.as_str()));
            let groups = groups.map(|group| wire_group(directory, group, request.with_members));
            let (groups, next) = pages::fill(request.page_size, groups);
            let next_page_token = next.map(|group| pages::gn_token(Gn(group.gn)));
            v1::ListGroupsResponse {
                groups,
                next_page_token: next_page_token.unwrap_or_default(),
                revision: directory.revision().0,
            }
        })))
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
            let nodes = nodes.map(|node| wire::node(node, now));
            let (nodes, next) = pages::fill(request.page_size, nodes);
            let last = nodes.last().filter(|_| next.is_some());
            let next_page_token = last.map(|node| pages::node_token(&node.name));
            v1::ListNodesResponse {
                nodes,
                next_page_token: next_page_token.unwrap_or_default(),
                revision: directory.revision().0,
            }
        })))
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
            return self.doubt(&node, incarnation, reporter).map(Response::new);
        }
        caller.check_administrator("probe_first: without it a node is expelled unasked")?;
        let command = Command::NodeFailed { node: node.clone(), incarnation };
        let (Answer::Expelled { memberships }, revision) = self.decide(command).await? else {
            return Err(mismatch());
        };
        tracing::info!(member = %node, reporter, memberships, "node reported as failed");
        let ended_memberships = u32::try_from(memberships).unwrap_or(u32::MAX);
        let revision = revision.0;
        Ok(Response::new(v1::ReportNodeFailureResponse { ended_memberships, revision }))
    }

    async fn readmit_node(
        &self,
        request: Request<v1::ReadmitNodeRequest>,
    ) -> Result<Response<v1::ReadmitNodeResponse>, Status> {
        let node = fields::name("node", &request.into_inner().node, NodeName::new)?;
        let (answer, _) = self.decide(Command::ForgetFlaps { node }).await?;
        nodes::readmitted(answer).map(Response::new)
    }

    async fn report_group_agents(
        &self,
        request: Request<v1::ReportGroupAgentsRequest>,
    ) -> Result<Response<v1::ReportGroupAgentsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let statuses = request.into_inner().statuses;
        statuses.iter().try_for_each(|status| caller.check_node(&status.node))?;
        let statuses = statuses.into_iter().map(wire::read_status);
        let statuses: Vec<_> = statuses.collect::<Result<_, _>>()?;
        let verdicts: Vec<_> = self.records.read(|directory: &Directory| {
            let verdict = |(node, incarnation, groups): &(NodeName, Incarnation, Vec<_>)| {
                directory.verdict(node, *incarnation, groups)
            };
            statuses.iter().map(verdict).collect()
        });
        let heard = statuses.iter().zip(&verdicts).filter(|(_, verdict)| !verdict.expelled);
        self.liveness.heard(heard.map(|((node, incarnation, _), _)| (node.clone(), *incarnation)));
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
        let request = request.into_inner();
        let reporter = fields::label("reporter", &request.reporter)?;
        let elements = request.elements.iter();
        let elements = elements.map(|element| ElementKey::find(&self.graph, element));
        let elements: BTreeSet<_> = elements.collect::<Result<_, _>>()?;
        if self.records.is_news(reporter, &elements)? {
            let value = elements::text(&self.graph, &elements).into_bytes();
            self.orders.place(Work::Keep { key: storage::failed_key(reporter), value }).await?;
        }
        let (count, cut_off) = self.records.report_failed(reporter, elements)?;
        self.liveness.cut_off(cut_off);
        if self.records.collectives_lag() {
            self.orders.place(Work::follow_fabric()).await?;
        }
        let failed_count = count.try_into().unwrap_or(u32::MAX);
        Ok(Response::new(v1::ReportFailedElementsResponse { failed_count }))
    }

    type WatchDirectoryStream = WatchStream;

    async fn watch_directory(
        &self,
        _request: Request<v1::WatchDirectoryRequest>,
    ) -> Result<Response<WatchStream>, Status> {
        self.records.watch().map(Response::new)
    }

    type DownloadTopologyStream = Iter<TopologyChunks>;

    async fn download_topology(
        &self,
        _request: Request<v1::DownloadTopologyRequest>,
    ) -> Result<Response<Self::DownloadTopologyStream>, Status> {
        if self.topology.is_empty() {
            return Err(Reason::NoTopology.status("no topology has been discovered yet", &[]));
        }
        let chunks = TopologyChunks::of(Arc::clone(&self.topology));
        Ok(Response::new(tokio_stream::iter(chunks)))
    }

    async fn acquire_route_term(
        &self,
        request: Request<v1::AcquireRouteTermRequest>,
    ) -> Result<Response<v1::AcquireRouteTermResponse>, Status> {
        let request = request.into_inner();
        let router = Router::read(&request.router, request.address)?;
        let name = router.name.clone();
        let work = Work::AcquireTerm { router, take_over: request.take_over };
        let Done::Term(term, lease) = self.orders.place(work).await? else {
            return Err(mismatch());
        };
        tracing::info!(peer = %name, epoch = term, "route service has a new term");
        audit::route_term(&name, term);
        let lease = prost_types::Duration::try_from(lease).ok();
        Ok(Response::new(v1::AcquireRouteTermResponse { term, lease }))
    }

    async fn renew_route_term(
        &self,
        request: Request<v1::RenewRouteTermRequest>,
    ) -> Result<Response<v1::RenewRouteTermResponse>, Status> {
        let v1::RenewRouteTermRequest { router: name, term, address } = request.into_inner();
        let router = Router::read(&name, address)?;
        let term = fields::not_zero("term", term)?;
        let Done::Term(_, lease) = self.orders.place(Work::RenewTerm { router, term }).await?
        else {
            return Err(mismatch());
        };
        let lease = prost_types::Duration::try_from(lease).ok();
        Ok(Response::new(v1::RenewRouteTermResponse { lease }))
    }

    async fn release_route_term(
        &self,
        request: Request<v1::ReleaseRouteTermRequest>,
    ) -> Result<Response<v1::ReleaseRouteTermResponse>, Status> {
        let term = fields::not_zero("term", request.into_inner().term)?;
        let Done::Kept = self.orders.place(Work::ReleaseTerm(term)).await? else {
            return Err(mismatch());
        };
        tracing::info!(epoch = term, "route service has given its term back");
        Ok(Response::new(v1::ReleaseRouteTermResponse {}))
    }

    async fn report_routes(
        &self,
        request: Request<v1::ReportRoutesRequest>,
    ) -> Result<Response<v1::ReportRoutesResponse>, Status> {
        let request = request.into_inner();
        let term = fields::not_zero("term", request.term)?;
        let fence = request.fence.ok_or_else(|| fields::missing("fence"))?;
        if fence.term != term {
            let message = format!("fence.term: {} differs from term {term}", fence.term);
            return Err(Reason::StaleTerm.status(message, &[("field", "fence.term")]));
        }
        let routes = request.routes.iter().map(|reported| {
            let gn = Gn(fields::not_zero("routes.gn", reported.gn)?);
            let route = reported.route.as_ref().ok_or_else(|| fields::missing("routes.route"))?;
            Ok((gn, wire::read_route(route, self.colors)?))
        });
        let routes = routes.collect::<Result<Vec<_>, Status>>()?;
        let clean = (request.clean_revision > 0).then_some(Revision(request.clean_revision));
        let command = Command::Routed { routes, clean };
        let (Answer::Routed { .. }, revision) =
            self.place(Work::DecideInTerm((term, fence.generation), command)).await?
        else {
            return Err(mismatch());
        };
        Ok(Response::new(v1::ReportRoutesResponse { revision: revision.0 }))
    }
}
