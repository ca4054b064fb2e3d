//! Tests of decisions on jobs.

use fabricast_placement::JobClass;

use super::*;
use crate::job::{CreateJob, JobNode, JobRecord};

pub(super) fn create_job(id: &str, job: &str, nodes: &[u32]) -> Command {
    let node = |node: &u32| JobNode {
        name: node_name(*node),
        endpoints: vec![EndpointName::new(&format!("h{node}/0")).unwrap()],
    };
    let nodes: BTreeSet<u32> = nodes.iter().copied().collect();
    Command::CreateJob(CreateJob {
        request_id: RequestId::new(id).unwrap(),
        job: JobName::new(job).unwrap(),
        class: JobClass::T1,
        nodes: nodes.iter().map(node).collect(),
    })
}

pub(super) fn delete_job(id: &str, job: &str) -> Command {
    let request_id = RequestId::new(id).unwrap();
    Command::DeleteJob { request_id, job: JobName::new(job).unwrap() }
}

fn created(tic: &mut Tic, command: &Command) -> JobRecord {
    let answer = tic.run(command).unwrap();
    let Answer::JobCreated(job) = answer else { panic!("not a new job: {answer:?}") };
    job
}

#[test]
fn a_job_keeps_its_nodes_until_it_ends() {
    let mut tic = Tic::new(Limits::default());
    let job = created(&mut tic, &create_job("r1", "j1", &[0, 1]));
    assert_eq!((job.class, job.nodes.len()), (JobClass::T1, 2));
    let endpoint = EndpointName::new("h1/0").unwrap();
    assert_eq!(tic.directory.job_of_endpoint(&endpoint), Some(&job.name));
    assert_eq!(
        tic.run(&create_job("r2", "j2", &[1, 2])),
        Err(Refusal::EndpointInJob { endpoint: endpoint.clone(), job: job.name.clone() })
    );
    let exists = Err(Refusal::JobExists { job: job.name.clone() });
    assert_eq!(tic.run(&create_job("r3", "j1", &[3])), exists);
    tic.check();
    assert_eq!(tic.run(&delete_job("r4", "j1")), Ok(Answer::JobDeleted { revision: Revision(2) }));
    assert_eq!(tic.directory.job_of_endpoint(&endpoint), None);
    created(&mut tic, &create_job("r5", "j2", &[1, 2]));
    assert_eq!(tic.directory.jobs_after(Some(&job.name)).count(), 1);
    tic.check();
}

#[test]
fn a_repeated_job_request_gets_the_first_answer() {
    let mut tic = Tic::new(Limits::default());
    let create = create_job("r1", "j1", &[0]);
    let job = created(&mut tic, &create);
    assert_eq!(created(&mut tic, &create), job);
    let delete = delete_job("r2", "j1");
    assert_eq!(tic.run(&delete), tic.run(&delete));
    let id = RequestId::new("r1").unwrap();
    assert_eq!(tic.run(&create), Err(Refusal::JobEnded { request_id: id.clone() }));
    created(&mut tic, &create_job("r3", "j1", &[0]));
    assert_eq!(tic.run(&create), Err(Refusal::JobEnded { request_id: id.clone() }));
    let reused = Err(Refusal::RequestIdReused { request_id: id });
    assert_eq!(tic.run(&create_job("r1", "j9", &[1])), reused);
    assert_eq!(tic.run(&delete_job("r1", "j1")), reused);
    assert_eq!(
        tic.run(&delete_job("r8", "j7")),
        Err(Refusal::UnknownJob { job: JobName::new("j7").unwrap() })
    );
    tic.check();
}

#[test]
fn a_group_and_a_job_of_one_name_have_separate_requests() {
    let mut tic = Tic::with_nodes(1);
    tic.run(&join("r1", "same", 0, "p0")).unwrap();
    let reused = Err(Refusal::RequestIdReused { request_id: RequestId::new("r1").unwrap() });
    assert_eq!(tic.run(&create_job("r1", "same", &[0])), reused);
    created(&mut tic, &create_job("r2", "same", &[0]));
    let reused = Err(Refusal::RequestIdReused { request_id: RequestId::new("r2").unwrap() });
    assert_eq!(tic.run(&join("r2", "same", 0, "p1")), reused);
    assert_eq!(tic.run(&delete("r2", "same")), reused);
    let mut few = Tic::new(Limits { jobs: 0, ..Limits::default() });
    let refused = few.run(&create_job("r1", "j1", &[0]));
    assert_eq!(refused, Err(Refusal::LimitReached { what: "jobs", wanted: 1, limit: 0 }));
}
