//! Jobs: their nodes share no link with those of other jobs, and they are durable.

use std::collections::BTreeSet;

use fabricast_proto::v1;
use tonic::{Code, Status};

use crate::harness::{Tic, link, reason, setup, switch};

pub(crate) fn create(job: &str, node_count: u32) -> v1::CreateJobRequest {
    v1::CreateJobRequest {
        request_id: format!("create {job}"),
        job: job.to_owned(),
        node_count,
        ..Default::default()
    }
}

pub(crate) fn named(job: &str, nodes: &[&str]) -> v1::CreateJobRequest {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    v1::CreateJobRequest { nodes, ..create(job, 0) }
}

pub(crate) fn delete(job: &str) -> v1::DeleteJobRequest {
    v1::DeleteJobRequest { request_id: format!("delete {job}"), job: job.to_owned() }
}

pub(crate) async fn created(tic: &Tic, request: v1::CreateJobRequest) -> Result<v1::Job, Status> {
    let answer = tic.jobs().create_job(request).await?;
    Ok(answer.into_inner().job.unwrap())
}

pub(crate) fn nodes(job: &v1::Job) -> Vec<&str> {
    job.nodes.iter().map(|node| node.node.as_str()).collect()
}

async fn report(tic: &Tic, node_count: u32) -> v1::GetJobReportResponse {
    let request = v1::GetJobReportRequest { node_count };
    tic.jobs().get_job_report(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn jobs_get_nodes_and_free_them() {
    let tic = Tic::on_memory().await;
    tic.register(1).await; // n1 has h1; the others are endpoints without a node
    let first = created(&tic, create("j1", 3)).await.unwrap();
    assert_eq!((first.job_class(), nodes(&first)), (v1::JobClass::T0, vec!["h0", "n1", "h2"]));
    assert_eq!(first.nodes[1].endpoints, ["h1"]);
    assert!(first.create_time.unwrap().seconds > 1_600_000_000);
    let second = created(&tic, create("j2", 4)).await.unwrap();
    assert_eq!(nodes(&second), ["h4", "h5", "h6", "h7"]);

    let refused = created(&tic, create("j3", 2)).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "NO_ROOM"));
    let text = "node_count: 2 nodes are of class T0, which lies in one leaf switch (rule 2); 1 nodes are \
                free, leaf switch S-0 has the most room, 1";
    assert_eq!(refused.message(), text);

    let one = tic.jobs().get_job(v1::GetJobRequest { job: "j1".to_owned() }).await.unwrap();
    assert_eq!(one.into_inner().job.unwrap(), first);
    tic.jobs().delete_job(delete("j1")).await.unwrap();
    let third = created(&tic, create("j3", 2)).await.unwrap();
    assert_eq!(nodes(&third), ["h0", "n1"]);
    let page = v1::ListJobsRequest { page_size: 1, ..Default::default() };
    let page = tic.jobs().list_jobs(page).await.unwrap().into_inner();
    assert_eq!(page.jobs, [second]);
    let rest = v1::ListJobsRequest { page_size: 9, page_token: page.next_page_token };
    let rest = tic.jobs().list_jobs(rest).await.unwrap().into_inner();
    assert_eq!((rest.jobs, rest.next_page_token.as_str()), (vec![third], ""));
}

#[tokio::test]
async fn a_repeated_request_has_the_same_answer_and_a_validation_changes_nothing() {
    let tic = Tic::on_memory().await;
    let thought = v1::CreateJobRequest { validate_only: true, ..create("j1", 5) };
    let thought = created(&tic, thought).await.unwrap();
    assert_eq!((thought.nodes.len(), thought.revision, thought.create_time), (5, 0, None));
    assert_eq!(tic.revision().await, 0);
    let job = created(&tic, create("j1", 5)).await.unwrap();
    assert_eq!(job.nodes, thought.nodes);
    let revision = tic.revision().await;
    assert_eq!(created(&tic, create("j1", 5)).await.unwrap(), job);
    let other = v1::CreateJobRequest { request_id: "other".to_owned(), ..create("j1", 1) };
    assert_eq!(reason(&created(&tic, other).await.unwrap_err()), "JOB_EXISTS");
    assert_eq!(tic.revision().await, revision);
    let deleted = tic.jobs().delete_job(delete("j1")).await.unwrap().into_inner();
    assert_eq!(tic.jobs().delete_job(delete("j1")).await.unwrap().into_inner(), deleted);
    assert_eq!(reason(&created(&tic, create("j1", 5)).await.unwrap_err()), "JOB_ENDED");
}

/// They are placed outside of the writer, one after the other.
#[tokio::test]
async fn jobs_that_are_created_at_once_share_no_node_and_a_repetition_gets_the_same_job() {
    let tic = Tic::on_memory().await;
    let requests = (0..8).map(|number| create(&format!("j{number}"), 1));
    // Each one twice, as a client does that did not wait for its answer.
    let calls = requests.flat_map(|request| [request.clone(), request]).map(|request| {
        let mut client = tic.jobs();
        tokio::spawn(async move { client.create_job(request).await.unwrap().into_inner().job })
    });
    let mut jobs = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        jobs.push(call.await.unwrap().unwrap());
    }
    let (pairs, rest) = jobs.as_chunks::<2>();
    assert!(rest.is_empty() && pairs.iter().all(|[first, again]| first == again));
    let given: BTreeSet<&str> = jobs.iter().flat_map(nodes).collect();
    assert_eq!(given.len(), 8, "no node is given twice");
}

#[tokio::test]
async fn nodes_asked_for_by_name_are_refused_where_links_would_be_shared() {
    let tic = Tic::on_memory().await;
    created(&tic, named("j1", &["h0", "h4"])).await.unwrap();
    let refused = created(&tic, named("j2", &["h1", "h5"])).await.unwrap_err();
    assert_eq!(reason(&refused), "LINKS_SHARED");
    assert!(refused.message().contains("leaf switch S-0 with job j1 (rule 5)"), "{refused:?}");
    for (request, expected) in [
        (named("j2", &["h0"]), "NODE_TAKEN"),
        (named("j2", &["h9"]), "UNKNOWN_NODE"),
        (named("j2", &["h1", "h1"]), "NAME_INVALID"),
        (create("j2", 0), "FIELD_MISSING"),
        (create("j2", 9), "NO_ROOM"),
        (create("", 1), "NAME_INVALID"),
        (v1::CreateJobRequest { node_count: 2, ..named("j2", &["h1"]) }, "NAME_INVALID"),
    ] {
        assert_eq!(reason(&created(&tic, request).await.unwrap_err()), expected);
    }
    let unknown = tic.jobs().delete_job(delete("j9")).await.unwrap_err();
    assert_eq!(reason(&unknown), "UNKNOWN_JOB");
    assert_eq!(tic.revision().await, 1);
    created(&tic, named("j2", &["h1", "h2"])).await.unwrap();
}

#[tokio::test]
async fn failed_nodes_and_switches_are_left_out() {
    let tic = Tic::on_memory().await;
    tic.register(4).await;
    let failed = v1::ReportNodeFailureRequest {
        node: "n4".to_owned(),
        reporter: "test".to_owned(),
        ..Default::default()
    };
    tic.client.clone().report_node_failure(failed).await.unwrap();
    let down = |elements| v1::ReportFailedElementsRequest { reporter: "a".to_owned(), elements };
    tic.client.clone().report_failed_elements(down(vec![link("S-0", 1)])).await.unwrap();
    assert_eq!(report(&tic, 0).await.live_nodes, 6);
    assert_eq!(reason(&created(&tic, named("j", &["n4"])).await.unwrap_err()), "NODE_DOWN");
    assert_eq!(nodes(&created(&tic, create("j1", 3)).await.unwrap()), ["h1", "h2", "h3"]);
    tic.client
        .clone()
        .report_failed_elements(down(vec![link("S-0", 1), switch("S-1")]))
        .await
        .unwrap();
    assert_eq!(reason(&created(&tic, create("j2", 1)).await.unwrap_err()), "NO_ROOM");
    tic.client.clone().report_failed_elements(down(vec![])).await.unwrap();
    assert_eq!(nodes(&created(&tic, create("j2", 1)).await.unwrap()), ["h0"]);
    // A failed spine takes the links that jobs larger than a leaf need.
    tic.client.clone().report_failed_elements(down(vec![switch("S-2")])).await.unwrap();
    tic.jobs().delete_job(delete("j1")).await.unwrap();
    assert_eq!(report(&tic, 0).await.rooms[1].most_nodes, 4);
}

#[tokio::test]
async fn the_report_names_the_moves_that_make_room() {
    let tic = Tic::on_memory().await;
    created(&tic, named("j1", &["h0"])).await.unwrap();
    created(&tic, named("j2", &["h4", "h5"])).await.unwrap();
    let found = report(&tic, 4).await;
    assert_eq!((found.live_nodes, found.free_nodes, found.has_room), (8, 5, true));
    let fitting: Vec<_> = found.rooms.iter().map(|room| room.fitting_nodes).collect();
    assert_eq!(fitting, [3, 5]);
    let moves = vec![v1::JobMove {
        job: "j1".to_owned(),
        from_nodes: vec!["h0".to_owned()],
        to_nodes: vec!["h6".to_owned()],
    }];
    assert_eq!(found.moves, moves);
    assert!(!report(&tic, 0).await.has_room);
}

#[tokio::test]
async fn jobs_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let tic = Tic::on_file(&file).await;
    let job = created(&tic, create("j1", 5)).await.unwrap();
    tic.kill().await;
    let tic = Tic::on_file(&file).await;
    let again = tic.jobs().get_job(v1::GetJobRequest { job: "j1".to_owned() }).await.unwrap();
    assert_eq!(again.into_inner().job.unwrap(), job);
    assert_eq!(created(&tic, create("j1", 5)).await.unwrap(), job);
    let beside = created(&tic, create("j2", 3)).await.unwrap();
    assert_eq!((beside.job_class(), beside.nodes.len()), (v1::JobClass::T0, 3));
    tic.stop().await;
}

#[tokio::test]
async fn jobs_are_refused_on_a_fabric_that_is_no_fat_tree() {
    let text = include_str!("../../../../data/quirks/loopback-cables.ibnetdiscover");
    let graph = fabricast_topology::ibnetdiscover::read(text).unwrap();
    let mut setup = setup(fabricast_tic::StoreLocation::Memory);
    setup.topology = fabricast_tic::TopologySource::File(text.into(), graph.into());
    let tic = Tic::start(setup).await;
    let refused = created(&tic, create("j1", 1)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_A_FAT_TREE");
}
