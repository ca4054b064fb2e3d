//! Every call of a TIC while the store has no space: what adds is refused with the reason and
//! changes nothing, and all else goes on.
//!
//! The store is found full by the call itself, by another one before it, or by a TIC that starts
//! on it. After each call the TIC is killed, and the next one reads the same.

mod prepared;

use std::collections::BTreeSet;
use std::pin::Pin;

use fabricast_proto::v1;
use fabricast_topology::ibnetdiscover;
use fabricast_wire::decode_refusal;
use tonic::{Response, Status, Streaming};
use v1::join_answer::Answer as Joined;
use v1::leave_answer::Answer as Left;

use crate::batches::{self, batches};
use crate::choices;
use crate::decisions::names_of_calls;
use crate::durability::{IS_FULL, check_store_full};
use crate::harness::{Client, Tic, join, leave, reason, registration};
use crate::jobs::{created as job_created, delete, named};
use crate::requested_trees::{asked, asks, created, names};
use crate::routes::{report, shared};
use crate::shares::{reserve, reserved};

use self::prepared::{
    Known, Prepared, constants, drain, fabrics, failed, failures, prepare, quota, reservation,
    resume, share, start,
};

/// The outcome of a call on a full store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It adds: it is refused with `STORE_FULL`, and nothing changes.
    Refused,
    /// It frees, or others wait for it: the store has it.
    Written,
    /// It changes nothing in the store: it is answered.
    Answered,
}

/// Occasion on which the store is found to be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discovery {
    ByTheCall,
    ByAnotherCall,
    AtTheStart,
}

type Made<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + 'a>>;

/// A call with its outcome.
struct Row {
    service: &'static str,
    call: &'static str,
    outcome: Outcome,
    make: for<'a> fn(&'a World) -> Made<'a>,
}

/// A TIC, and what its store holds.
struct World {
    tic: Tic,
    known: Known,
}

impl World {
    fn client(&self) -> Client {
        self.tic.client.clone()
    }
}

/// The rows of one service: outcome and name of each call, and the call.
macro_rules! rows {
    ($service:literal: $($outcome:ident $call:literal |$world:ident| $made:expr;)*) => {
        &[$(Row {
            service: $service,
            call: $call,
            outcome: Outcome::$outcome,
            make: |$world| Box::pin(async move { $made.map(drop) }),
        }),*]
    };
}

const NODES: &[Row] = rows! { "TicService":
    Refused "RegisterNode" |world| register(world, 7, 1).await;
    Written "RegisterNode" |world| register(world, 1, 2).await;
    Answered "RegisterNode" |world| register(world, 1, 1).await;
    Written "RemoveNode" |world|
        world.client().remove_node(v1::RemoveNodeRequest { node: "n5".to_owned() }).await;
    Written "ReportNodeFailure" |world| world.client().report_node_failure(failed("n1")).await;
    Written "ReadmitNode" |world|
        world.client().readmit_node(v1::ReadmitNodeRequest { node: "n5".to_owned() }).await;
    Written "DrainNode" |world|
        world.client().drain_node(v1::DrainNodeRequest { node: "n2".to_owned() }).await;
    Written "ResumeNode" |world|
        world.client().resume_node(v1::ResumeNodeRequest { node: "n3".to_owned() }).await;
    Answered "ReportGroupAgents" |world| {
        let status = v1::GroupAgentStatus {
            node: "n0".to_owned(),
            incarnation: 1,
            ..Default::default()
        };
        let request = v1::ReportGroupAgentsRequest { statuses: vec![status] };
        world.client().report_group_agents(request).await
    };
    Answered "ListNodes" |world| world.client().list_nodes(v1::ListNodesRequest::default()).await;
    Answered "GetNode" |world|
        world.client().get_node(v1::GetNodeRequest { node: "n0".to_owned() }).await;
};

const GROUPS: &[Row] = rows! { "TicService":
    Refused "JoinGroup" |world| world.client().join_group(join("new", 0, "p")).await;
    Answered "JoinGroup" |world| world.client().join_group(join("g", 0, "p")).await;
    Written "LeaveGroup" |world| world.client().leave_group(leave("left", 1, "p")).await;
    Written "DeleteGroup" |world| {
        let (request_id, group) = ("delete".to_owned(), "deleted".to_owned());
        world.client().delete_group(v1::DeleteGroupRequest { request_id, group }).await
    };
    Written "MoveGroups" |world| {
        let moves = vec![world.known.next_move.clone()];
        world.client().move_groups(v1::MoveGroupsRequest { moves }).await
    };
    Answered "PlanMgids" |world| {
        let endpoints = vec!["h0".to_owned(), "h4".to_owned()];
        let groups = vec![v1::PlannedGroup { endpoints, ..Default::default() }];
        world.client().plan_mgids(v1::PlanMgidsRequest { groups }).await
    };
    Answered "GetGroup" |world| world.tic.group("g").await;
    Answered "ListGroups" |world|
        world.client().list_groups(v1::ListGroupsRequest::default()).await;
    Answered "WatchDirectory" |world|
        answers(world.client().watch_directory(v1::WatchDirectoryRequest {}).await).await;
};

const FABRIC: &[Row] = rows! { "TicService":
    Written "ReportFailedElements" |world|
        world.client().report_failed_elements(failures("agent", 1)).await;
    Answered "ReportFailedElements" |world|
        world.client().report_failed_elements(failures("gone", 0)).await;
    Written "RemoveReporter" |world| {
        let reporter = "gone".to_owned();
        world.client().remove_reporter(v1::RemoveReporterRequest { reporter }).await
    };
    Answered "ListReporters" |world|
        world.client().list_reporters(v1::ListReportersRequest {}).await;
    Answered "DownloadTopology" |world|
        answers(world.client().download_topology(v1::DownloadTopologyRequest {}).await).await;
    Answered "ExportRecords" |world|
        answers(world.client().export_records(v1::ExportRecordsRequest {}).await).await;
    Answered "ReportRecordsCopy" |world|
        world.client().report_records_copy(v1::ReportRecordsCopyRequest {}).await;
};

const ROUTES: &[Row] = rows! { "TicService":
    Written "AcquireRouteTerm" |world| {
        let (router, address) = ("another".to_owned(), String::new());
        let request = v1::AcquireRouteTermRequest { router, take_over: true, address };
        world.client().acquire_route_term(request).await
    };
    Answered "RenewRouteTerm" |world| {
        let (router, address) = ("router".to_owned(), String::new());
        let request = v1::RenewRouteTermRequest { router, term: world.known.term, address };
        world.client().renew_route_term(request).await
    };
    Answered "ReleaseRouteTerm" |world| {
        let request = v1::ReleaseRouteTermRequest { term: world.known.term };
        world.client().release_route_term(request).await
    };
    Written "ReportRoutes" |world|
        world.client().report_routes(report(world.known.term, world.known.routed, 4)).await;
    // It moves to another spanning tree with the report.
    Written "ReportRoutes" |world|
        world.client().report_routes(shared(world.known.term, world.known.exclusive, 2)).await;
};

const TOPOLOGIES: &[Row] = rows! { "TopologyService":
    Refused "ReportTopology" |world| {
        let [_, large] = fabrics();
        let text = ibnetdiscover::write(&large);
        world.tic.report(&text).await
    };
    Answered "ReportTopology" |world| {
        let [small, _] = fabrics();
        let text = ibnetdiscover::write(&small);
        world.tic.report(&text).await
    };
    Refused "ReplaceTopology" |world| {
        let [_, large] = fabrics();
        world.tic.replace(&large).await
    };
    Written "DrainLink" |world| world.tic.topologies().await.drain_link(drain()).await;
    Written "ResumeLink" |world| world.tic.topologies().await.resume_link(resume()).await;
    Answered "ListDrainedLinks" |world|
        world.tic.topologies().await.list_drained_links(v1::ListDrainedLinksRequest {}).await;
};

const BATCHES: &[Row] = rows! { "GroupBatchService":
    Refused "FormGroups" |world| {
        let groups = vec![batches::group("new", &[0, 4])];
        batches::form(&world.tic, vec![batches::request("new", groups)]).await.1
    };
    Written "DeleteJobGroups" |world| {
        let (request_id, job) = ("delete".to_owned(), "j".to_owned());
        batches(&world.tic).delete_job_groups(v1::DeleteJobGroupsRequest { request_id, job }).await
    };
    Refused "JoinMany" |world| join_many(world, join("new", 0, "p")).await;
    Written "LeaveMany" |world| leave_many(world, leave("left", 0, "p")).await;
    Answered "GetMany" |world| {
        let gets = vec![v1::GetGroupRequest { group: "g".to_owned(), ..Default::default() }];
        batches(&world.tic).get_many(v1::GetManyRequest { gets }).await
    };
};

const CHOICES: &[Row] = rows! { "RouteChoiceService":
    Written "RecordRouteChoices" |world| record(world, [world.known.routed]).await;
    Refused "RecordRouteChoices" |world| record(world, 1..=2_500).await;
    Answered "ListRouteChoices" |world| {
        let request = v1::ListRouteChoicesRequest::default();
        choices::client(&world.tic.address).list_route_choices(request).await
    };
};

const JOBS: &[Row] = rows! { "JobService":
    Refused "CreateJob" |world| job_created(&world.tic, named("new", &["h7"])).await;
    Refused "ReserveJob" |world| reserved(&world.tic, reserve("8", &["n2"])).await;
    Written "ReserveJob" |world| reserved(&world.tic, share(5_000)).await;
    Written "DeleteJob" |world| world.tic.jobs().delete_job(delete("7")).await;
    Written "DeleteJob" |world| world.tic.jobs().delete_job(delete("placed")).await;
    Answered "GetJob" |world|
        world.tic.jobs().get_job(v1::GetJobRequest { job: "7".to_owned() }).await;
    Answered "ListJobs" |world| world.tic.jobs().list_jobs(v1::ListJobsRequest::default()).await;
    Answered "GetJobReport" |world|
        world.tic.jobs().get_job_report(v1::GetJobReportRequest::default()).await;
};

const COLLECTIVES: &[Row] = rows! { "CollectiveService":
    Refused "CreateCollective" |world| created(&world.tic, "new").await;
    Answered "CreateCollective" |world| created(&world.tic, "kept").await;
    Refused "RequestSwitchTree" |world| asked(&world.tic, asks("plain", 0)).await;
    Answered "RequestSwitchTree" |world| asked(&world.tic, asks("trees", 4)).await;
    Written "ReleaseCollective" |world| {
        let request = v1::ReleaseCollectiveRequest { name: "ended".to_owned() };
        world.tic.collectives().release_collective(request).await
    };
    Answered "GetCollective" |world| {
        let request = v1::GetCollectiveRequest { name: "kept".to_owned() };
        world.tic.collectives().get_collective(request).await
    };
    Answered "ListCollectives" |world|
        world.tic.collectives().list_collectives(v1::ListCollectivesRequest::default()).await;
    Refused "ReserveEntries" |world| world.tic.collectives().reserve_entries(reservation()).await;
    Written "CancelReservation" |world| {
        let request = v1::CancelReservationRequest { id: world.known.reservation };
        world.tic.collectives().cancel_reservation(request).await
    };
    Refused "SetCollectiveQuota" |world|
        world.tic.collectives().set_collective_quota(quota("new", Some(3))).await;
    Written "SetCollectiveQuota" |world|
        world.tic.collectives().set_collective_quota(quota("limited", None)).await;
    Answered "GetEntryUsage" |world| usage(world).await;
    Answered "WatchAggregationTrees" |world| {
        let request = v1::WatchAggregationTreesRequest {};
        answers(world.tic.collectives().watch_aggregation_trees(request).await).await
    };
    Answered "ReportAggregationTrees" |world| {
        let (term, revision, missing_trees) = (world.known.term, 0, Vec::new());
        let request = v1::ReportAggregationTreesRequest { term, revision, missing_trees };
        world.tic.collectives().report_aggregation_trees(request).await
    };
    Refused "SetTreeConstants" |world|
        world.tic.collectives().set_tree_constants(constants(16.0)).await;
    Written "SetTreeConstants" |world| {
        let request = v1::SetTreeConstantsRequest { constants: None };
        world.tic.collectives().set_tree_constants(request).await
    };
    Answered "GetTreeConstants" |world|
        world.tic.collectives().get_tree_constants(v1::GetTreeConstantsRequest {}).await;
};

const ROWS: &[&[Row]] =
    &[NODES, GROUPS, FABRIC, ROUTES, TOPOLOGIES, BATCHES, CHOICES, JOBS, COLLECTIVES];

fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().copied().flatten()
}

async fn register(world: &World, number: u32, start_id: u64) -> Result<(), Status> {
    let request = registration(number, "127.0.0.1:1", start_id);
    world.client().register_node(request).await.map(drop)
}

async fn join_many(world: &World, join: v1::JoinGroupRequest) -> Result<(), Status> {
    let request = v1::JoinManyRequest { joins: vec![join] };
    let mut joined = batches(&world.tic).join_many(request).await?.into_inner();
    match joined.answers.remove(0).answer.unwrap() {
        Joined::Joined(_) => Ok(()),
        Joined::Refusal(refusal) => Err(decode_refusal(&refusal).into()),
    }
}

async fn leave_many(world: &World, leave: v1::LeaveGroupRequest) -> Result<(), Status> {
    let request = v1::LeaveManyRequest { leaves: vec![leave] };
    let mut left = batches(&world.tic).leave_many(request).await?.into_inner();
    match left.answers.remove(0).answer.unwrap() {
        Left::Left(_) => Ok(()),
        Left::Refusal(refusal) => Err(decode_refusal(&refusal).into()),
    }
}

/// Reports choices for groups, as the second report of the term.
async fn record(world: &World, gns: impl IntoIterator<Item = u64>) -> Result<(), Status> {
    let report = tokio_stream::once(world.known.choices(2, gns));
    choices::client(&world.tic.address).record_route_choices(report).await.map(drop)
}

async fn usage(world: &World) -> Result<(), Status> {
    let request = v1::GetEntryUsageRequest::default();
    world.tic.collectives().get_entry_usage(request).await.map(drop)
}

/// Checks that a stream has a message.
async fn answers<T>(begun: Result<Response<Streaming<T>>, Status>) -> Result<(), Status> {
    let message = begun?.into_inner().message().await?;
    assert!(message.is_some(), "it ends without a message");
    Ok(())
}

/// Everything that readers see and that lasts.
async fn view(tic: &Tic) -> String {
    let reporters = tic.client.clone().list_reporters(v1::ListReportersRequest {}).await.unwrap();
    let mut topologies = tic.topologies().await;
    let drained = topologies.list_drained_links(v1::ListDrainedLinksRequest {}).await.unwrap();
    let jobs = tic.jobs().list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    let lists = (reporters.into_inner(), drained.into_inner(), jobs.into_inner());
    let (nodes, groups, collectives) = (tic.nodes().await, tic.groups().await, names(tic).await);
    format!("{lists:?} {nodes:?} {groups:?} {collectives:?}")
}

async fn check(row: &Row, discovery: Discovery, prepared: &Prepared) {
    let at = format!("{}/{}, {:?}, full {discovery:?}", row.service, row.call, row.outcome);
    let store = prepared.store.copy().await;
    if discovery == Discovery::AtTheStart {
        store.set(IS_FULL);
    }
    let world = World { tic: start(&store).await, known: prepared.known.clone() };
    if discovery != Discovery::AtTheStart {
        // It is found to have space, and collectives follow failed links.
        usage(&world).await.expect(&at);
        store.set(IS_FULL);
    }
    if discovery == Discovery::ByAnotherCall {
        let refused = world.client().join_group(join("another", 0, "p")).await;
        check_store_full(&refused.expect_err(&at));
    }
    let before = (store.contents().await, view(&world.tic).await);
    let made = (row.make)(&world).await;
    let after = (store.contents().await, view(&world.tic).await);
    match row.outcome {
        Outcome::Refused => {
            let refused = made.expect_err(&at);
            assert_eq!(reason(&refused), "STORE_FULL", "{at}: {refused}");
            check_store_full(&refused);
            assert!(after == before, "{at}: it has changed something");
        }
        Outcome::Written => {
            made.expect(&at);
            assert!(after.0 != before.0, "{at}: the store does not have it");
        }
        Outcome::Answered => {
            made.expect(&at);
            assert!(after.0 == before.0, "{at}: it has written something");
        }
    }
    world.tic.kill().await;
    let tic = start(&store).await;
    assert_eq!(view(&tic).await, after.1, "{at}: after a restart");
    tic.kill().await;
}

async fn check_all(discovery: Discovery) {
    let prepared = prepare().await;
    for row in rows() {
        check(row, discovery, &prepared).await;
    }
}

#[tokio::test]
async fn what_finds_the_store_full_is_refused_if_it_adds() {
    check_all(Discovery::ByTheCall).await;
}

#[tokio::test]
async fn what_adds_is_refused_after_another_call_and_what_frees_goes_on() {
    check_all(Discovery::ByAnotherCall).await;
}

#[tokio::test]
async fn a_tic_that_starts_on_a_full_store_refuses_what_adds_and_nothing_else() {
    check_all(Discovery::AtTheStart).await;
}

#[test]
fn every_call_has_a_row() {
    let listed: BTreeSet<_> = rows().map(|row| (row.service, row.call)).collect();
    assert_eq!(listed, names_of_calls());
}

/// The page with a table of the calls.
const PAGE: &str = include_str!("../../../../docs/administration.md");

#[test]
fn the_documentation_names_the_calls_that_are_refused_and_those_that_are_written() {
    for (line, outcome) in
        [("| refused |", Outcome::Refused), ("| carried out |", Outcome::Written)]
    {
        let listed = PAGE.lines().find_map(|text| text.strip_prefix(line)).expect(line);
        let listed: BTreeSet<&str> = listed.split('`').skip(1).step_by(2).collect();
        let calls = rows().filter(|row| row.outcome == outcome).map(|row| row.call);
        let calls: BTreeSet<&str> = calls.collect();
        assert_eq!(listed, calls, "{line}");
    }
}
