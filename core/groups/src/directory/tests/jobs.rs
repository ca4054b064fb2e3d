//! Tests of decisions on jobs.

use fabricast_placement::JobClass;

use super::*;
use crate::command::{DeleteJob, JobEnd};
use crate::job::{CreateJob, JobNode, JobNodes, JobRecord, JobShare, ReserveJob};
use crate::token::JobToken;

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
    release(id, job, 4_096, JobEnd::default())
}

fn release(id: &str, job: &str, most: usize, ended: JobEnd) -> Command {
    let request_id = RequestId::new(id).unwrap();
    Command::DeleteJob(DeleteJob { request_id, job: JobName::new(job).unwrap(), most, ended })
}

const TOKEN: &str = "0123456789abcdef";

fn token(text: &str) -> JobToken {
    JobToken::new(text).unwrap()
}

/// Request for a share of two groups for a job on node 0.
pub(super) fn reserve_job(job: &str) -> ReserveJob {
    let endpoints = vec![EndpointName::new("h0/0").unwrap()];
    ReserveJob {
        job: JobName::new(job).unwrap(),
        nodes: JobNodes::new(vec![JobNode { name: node_name(0), endpoints }]),
        share: JobShare {
            user: None,
            account: None,
            groups: 2,
            aggregation_entries: 3,
            reservation: None,
            steps: 1,
            token: token(TOKEN).hash(),
            ends: None,
            expires: None,
            ending: false,
        },
    }
}

/// A join with a token, by a process of node 0.
fn join_with(group: &str, given: Option<&str>) -> Command {
    let group = GroupSpec { token: given.map(token), ..spec(group) };
    let id = format!("{}/{given:?}", group.name);
    Command::Join(Join { request_id: RequestId::new(&id).unwrap(), group, member: joiner(0, "p") })
}

fn refused_token(group: &str, job: &str, given: bool) -> Result<Answer, Refusal> {
    let (group, job) = (GroupName::new(group).unwrap(), JobName::new(job).unwrap());
    Err(Refusal::TokenRefused { group, job, given })
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
    assert_eq!((job.class, job.nodes.len()), (Some(JobClass::T1), 2));
    let endpoint = EndpointName::new("h1/0").unwrap();
    assert_eq!(tic.directory.job_of_endpoint(&endpoint), Some(&job.name));
    assert_eq!(
        tic.run(&create_job("r2", "j2", &[1, 2])),
        Err(Refusal::EndpointInJob { endpoint: endpoint.clone(), job: job.name.clone() })
    );
    let exists = Err(Refusal::JobExists { job: job.name.clone() });
    assert_eq!(tic.run(&create_job("r3", "j1", &[3])), exists);
    tic.check();
    let done = Some(Revision(2));
    let ended = JobEnd::default();
    assert_eq!(tic.run(&delete_job("r4", "j1")), Ok(Answer::JobDeleted { ended, done }));
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

#[test]
fn groups_of_a_job_are_formed_with_its_token_up_to_its_share() {
    let mut tic = Tic::with_nodes(1);
    let unknown = Refusal::UnknownJob { job: JobName::new("7").unwrap() };
    assert_eq!(tic.run(&join_with("job/7/a", Some(TOKEN))), Err(unknown));
    tic.run(&Command::ReserveJob(reserve_job("7"))).unwrap();
    tic.run(&Command::ReserveJob(reserve_job("8"))).unwrap();
    assert_eq!(tic.run(&join_with("job/7/a", None)), refused_token("job/7/a", "7", false));
    let wrong = Some("0123456789abcdeF");
    assert_eq!(tic.run(&join_with("job/7/a", wrong)), refused_token("job/7/a", "7", true));
    tic.run(&join_with("job/7/a", Some(TOKEN))).unwrap();
    assert_eq!(tic.group("job/7/a").job, Some(JobName::new("7").unwrap()));
    // Nobody uses up the share of a job by naming it, or joins a group of it.
    let named = GroupSpec { job: Some(JobName::new("7").unwrap()), ..spec("x") };
    let named = Command::Join(Join {
        request_id: RequestId::new("named").unwrap(),
        group: named,
        member: joiner(0, "p"),
    });
    assert_eq!(tic.run(&named), refused_token("x", "7", false));
    assert_eq!(tic.run(&join_with("job/7/a", None)), refused_token("job/7/a", "7", false));
    tic.run(&join_with("job/7/b", Some(TOKEN))).unwrap();
    let used = Refusal::ShareUsed { job: JobName::new("7").unwrap(), limit: 2 };
    assert_eq!(tic.run(&join_with("job/7/c", Some(TOKEN))), Err(used));
    tic.run(&join_with("job/8/c", Some(TOKEN))).unwrap();
    tic.check();
}

#[test]
fn a_batch_forms_no_more_groups_than_were_reserved() {
    let mut tic = Tic::with_nodes(1);
    tic.run(&Command::ReserveJob(reserve_job("7"))).unwrap();
    let group = |name: &str| FormGroup {
        group: GroupSpec { token: Some(token(TOKEN)), ..spec(name) },
        members: vec![joiner(0, "p").into()],
    };
    let form = Command::FormGroups(Arc::new(FormGroups {
        request_id: RequestId::new("f").unwrap(),
        groups: ["job/7/a", "job/7/b", "job/7/c"].map(group).to_vec(),
    }));
    let Ok(Answer::Formed(formed)) = tic.run(&form) else { panic!("a batch is answered") };
    let formed: Vec<bool> = formed.iter().map(Result::is_ok).collect();
    assert_eq!(formed, [true, true, false]);
    tic.check();
}

#[test]
fn a_repeated_reservation_is_the_same_and_extended() {
    let mut tic = Tic::with_nodes(1);
    let first = reserve_job("7");
    let answer = tic.run(&Command::ReserveJob(first.clone())).unwrap();
    let revision = tic.directory.revision();
    assert_eq!(tic.run(&Command::ReserveJob(first.clone())), Ok(answer));
    assert_eq!(tic.directory.revision(), revision, "nothing has changed");
    let expires = Some(Moment(5));
    let later = ReserveJob { share: JobShare { expires, ..first.share.clone() }, ..first.clone() };
    let Ok(Answer::JobReserved(job)) = tic.run(&Command::ReserveJob(later)) else {
        panic!("a reservation is repeated")
    };
    assert_eq!(job.share.unwrap().expires, expires);
    let exists = Err(Refusal::JobExists { job: first.job.clone() });
    let other = token("0123456789abcdeF").hash();
    for share in [
        JobShare { token: other, ..first.share.clone() },
        JobShare { groups: 3, ..first.share.clone() },
        JobShare { steps: 3, ..first.share.clone() },
    ] {
        let differs = ReserveJob { share, ..first.clone() };
        assert_eq!(tic.run(&Command::ReserveJob(differs)), exists);
    }
    tic.check();
}

#[test]
fn a_job_that_was_placed_gets_a_share_and_keeps_its_nodes() {
    let mut tic = Tic::with_nodes(1);
    created(&mut tic, &create_job("r", "7", &[0]));
    let reserve = ReserveJob { nodes: JobNodes::default(), ..reserve_job("7") };
    let Ok(Answer::JobReserved(job)) = tic.run(&Command::ReserveJob(reserve)) else {
        panic!("a placed job gets a share")
    };
    assert_eq!((job.class, job.nodes.len()), (Some(JobClass::T1), 1));
    tic.run(&Command::ReserveJob(reserve_job("8"))).unwrap(); // on the same node
    let endpoint = EndpointName::new("h0/0").unwrap();
    tic.run(&delete_job("d", "8")).unwrap();
    assert_eq!(tic.directory.job_of_endpoint(&endpoint), Some(&job.name));
    tic.check();
}

#[test]
fn a_job_ends_with_its_groups_in_bounded_steps_and_forms_none_meanwhile() {
    let mut tic = Tic::with_nodes(1);
    tic.run(&Command::ReserveJob(reserve_job("7"))).unwrap();
    for group in ["job/7/a", "job/7/b"] {
        tic.run(&join_with(group, Some(TOKEN))).unwrap();
    }
    let mut ended = JobEnd::default();
    let Ok(Answer::JobDeleted { ended: first, done: None }) = tic.run(&release("d", "7", 1, ended))
    else {
        panic!("one group is left")
    };
    assert_eq!(first, JobEnd { groups: 1, memberships: 1 });
    tic.check();
    let ending = Err(Refusal::JobEnding { job: JobName::new("7").unwrap() });
    assert_eq!(tic.run(&join_with("job/7/c", Some(TOKEN))), ending);
    assert_eq!(tic.run(&Command::ReserveJob(reserve_job("7"))), ending);
    ended = first;
    let last = tic.run(&release("d", "7", 1, ended)).unwrap();
    let Answer::JobDeleted { ended, done: Some(_) } = last else { panic!("nothing is left") };
    assert_eq!(ended, JobEnd { groups: 2, memberships: 2 });
    assert_eq!(tic.run(&delete_job("d", "7")), Ok(last), "the answer is repeated");
    assert_eq!(tic.directory.groups_from(Gn(0)).count(), 0);
    tic.run(&Command::ReserveJob(reserve_job("7"))).unwrap();
    tic.check();
}

#[test]
fn the_record_of_an_ending_job_is_written_once() {
    let mut tic = Tic::with_nodes(1);
    let reserve = reserve_job("7");
    let share = JobShare { groups: 3, ..reserve.share.clone() };
    tic.run(&Command::ReserveJob(ReserveJob { share, ..reserve })).unwrap();
    for group in ["job/7/a", "job/7/b", "job/7/c"] {
        tic.run(&join_with(group, Some(TOKEN))).unwrap();
    }
    let mut ended = JobEnd::default();
    for (writes, is_done) in [(1, false), (0, false), (0, true)] {
        let delete = release("d", "7", 1, ended);
        let decided = tic.directory.decide(tic.now, &delete, &mut |_: &NewGroup<'_>| None).unwrap();
        let is_write = |change: &&Change| matches!(change, Change::JobPut(_));
        assert_eq!(decided.changes.iter().filter(is_write).count(), writes);
        let answer = tic.run(&delete).unwrap();
        let Answer::JobDeleted { ended: so_far, done } = answer else { panic!("{answer:?}") };
        assert_eq!(done.is_some(), is_done);
        ended = so_far;
        tic.check();
    }
}

/// They need no token either, so nothing else limits them.
#[test]
fn groups_that_are_named_as_of_jobs_but_are_of_none_leave_room_for_others() {
    let mut tic = Tic::new(Limits { groups: 12, ..Limits::default() });
    tic.run(&register(0, 1)).unwrap();
    let create = |number: u32| join(&format!("job/{number}"), &format!("job/{number}"), 0, "p");
    assert_eq!((0..20).find(|number| tic.run(&create(*number)).is_err()), Some(6));
    tic.check();
}
