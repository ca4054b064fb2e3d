//! Groups formed together, groups that wait for their members, and the end of a whole job.

use std::num::NonZeroU32;

use super::*;
use crate::command::{DeleteJobGroups, FormMember, JobEnd};
use crate::record::Expected;

fn form(name: &str, nodes: &[u32]) -> FormGroup {
    let members = nodes.iter().map(|node| joiner(*node, "p").into()).collect();
    FormGroup { group: spec(name), members }
}

fn of_job(name: &str, job: &str, nodes: &[u32]) -> FormGroup {
    let mut asked = form(name, nodes);
    asked.group.job = Some(JobName::new(job).unwrap());
    asked
}

fn batch(id: &str, groups: Vec<FormGroup>) -> Command {
    Command::FormGroups(Arc::new(FormGroups { request_id: RequestId::new(id).unwrap(), groups }))
}

/// Ends groups of a job that have a number below `before`, all in one decision.
pub(super) fn teardown(id: &str, job: &str, before: u64) -> DeleteJobGroups {
    DeleteJobGroups {
        request_id: RequestId::new(id).unwrap(),
        job: JobName::new(job).unwrap(),
        before: Gn(before),
        most: usize::MAX,
        ended: JobEnd::default(),
    }
}

#[test]
fn a_batch_forms_each_group_wholly_or_not_at_all() {
    let mut tic = Tic::with_nodes(3);
    let groups = vec![
        form("a", &[0, 1, 2]),
        form("bad", &[0, 9]),
        form("b", &[2, 1, 2]),
        form("a", &[1]),
        form("none", &[]),
    ];
    let command = batch("r", groups);
    let Ok(Answer::Formed(formed)) = tic.run(&command) else { panic!("a batch is answered") };
    assert_eq!(formed[0].as_ref().unwrap().pns, [Pn(0), Pn(1), Pn(2)]);
    assert!(matches!(formed[1], Err(Refusal::UnknownNode { .. })));
    assert_eq!(formed[2].as_ref().unwrap().pns, [Pn(0), Pn(1), Pn(0)]);
    assert_eq!(tic.group("b").agent, Some(node_name(2)));
    assert!(matches!(formed[3], Err(Refusal::GroupNamedTwice { .. })));
    assert!(matches!(formed[4], Err(Refusal::NoMembers { .. })));
    assert_eq!(tic.directory.groups.len(), 2);
    tic.check();
    let revision = tic.directory.revision();
    tic.run(&command).unwrap();
    assert_eq!(tic.directory.revision(), revision, "a repeated batch changes nothing");
}

#[test]
fn a_repeated_batch_gets_the_first_answer_and_restores_no_member() {
    let mut tic = Tic::with_nodes(3);
    tic.join("a", 1, "first");
    let command = batch("r", vec![form("a", &[2, 0]), form("b", &[1])]);
    let first = tic.run(&command);
    let Ok(Answer::Formed(formed)) = &first else { panic!("{first:?}") };
    assert_eq!(formed[0].as_ref().unwrap().pns, [Pn(1), Pn(2)]);
    tic.run(&leave("l", "a", 2, "p")).unwrap();
    tic.run(&delete("d", "b")).unwrap();
    tic.run(&Command::NodeFailed { node: node_name(0), incarnation: None }).unwrap();
    let revision = tic.directory.revision();
    assert_eq!(tic.run(&command), first);
    assert_eq!(tic.directory.revision(), revision);
    tic.check();
}

#[test]
fn a_request_name_is_for_one_batch_only() {
    let mut tic = Tic::with_nodes(3);
    tic.run(&batch("r", vec![form("a", &[0, 1])])).unwrap();
    let mut exclusive = form("a", &[0, 1]);
    exclusive.group.exclusive = true;
    for other in [form("a", &[0, 2]), form("b", &[0, 1]), of_job("a", "j", &[0, 1]), exclusive] {
        let refused = tic.run(&batch("r", vec![other])).unwrap_err();
        assert!(matches!(refused, Refusal::RequestIdReused { .. }), "{refused}");
    }
}

#[test]
fn a_batch_may_leave_nodes_open() {
    let mut tic = Tic::with_nodes(2);
    let open = |endpoint: &str| FormMember {
        endpoint: EndpointName::new(endpoint).unwrap(),
        process: ProcessName::new("p").unwrap(),
        node: None,
        incarnation: None,
    };
    let asked = |members: &[&str]| FormGroup {
        group: spec("g"),
        members: members.iter().map(|name| open(name)).collect(),
    };
    let lost = tic.run(&batch("r", vec![asked(&["h0/1", "h7/0"])])).unwrap();
    let Answer::Formed(lost) = lost else { panic!("{lost:?}") };
    assert!(matches!(&lost[..], [Err(Refusal::EndpointUnowned { .. })]));
    tic.run(&register(1, 2)).unwrap();
    tic.run(&batch("r", vec![asked(&["h0/1", "h1/0"])])).unwrap();
    let nodes: Vec<_> = tic.directory.members(Gn(1)).map(|m| m.node.clone()).collect();
    assert_eq!(nodes, [node_name(0), node_name(1)]);
    tic.check();
}

#[test]
fn a_group_waits_for_its_members_again_once_it_is_empty() {
    let mut tic = Tic::with_nodes(3);
    let joins = |node: u32, id: &str| {
        Command::Join(Join {
            request_id: RequestId::new(id).unwrap(),
            group: GroupSpec { complete_at: NonZeroU32::new(2), persistent: true, ..spec("g") },
            member: joiner(node, "p"),
        })
    };
    let is_complete = |tic: &Tic| tic.group("g").is_complete();
    tic.run(&joins(0, "a")).unwrap();
    assert!(!is_complete(&tic));
    tic.run(&joins(0, "a")).unwrap();
    tic.run(&joins(0, "again")).unwrap();
    assert!(!is_complete(&tic), "one process is one member");
    tic.run(&joins(1, "b")).unwrap();
    let members = NonZeroU32::new(2).unwrap();
    assert_eq!(tic.group("g").expected, Some(Expected { members, met: true }));
    tic.run(&leave("l", "g", 0, "p")).unwrap();
    assert!(is_complete(&tic), "it was whole once, and goes on without the one that left");
    tic.check();
    tic.run(&leave("m", "g", 1, "p")).unwrap();
    assert!(!is_complete(&tic));
    let whole = FormGroup { group: spec("g"), ..form("g", &[0, 1, 2]) };
    tic.run(&batch("r", vec![whole])).unwrap();
    assert!(is_complete(&tic));
    tic.check();
}

#[test]
fn a_group_that_waits_for_more_than_it_may_have_is_refused() {
    let mut tic = Tic::new(Limits { members_per_group: 2, ..Limits::default() });
    tic.run(&register(0, 1)).unwrap();
    let mut asked = form("g", &[0]);
    asked.group.complete_at = NonZeroU32::new(3);
    let Ok(Answer::Formed(formed)) = tic.run(&batch("r", vec![asked])) else { panic!("answered") };
    assert!(matches!(&formed[..], [Err(Refusal::LimitReached { wanted: 3, limit: 2, .. })]));
}

#[test]
fn a_batch_forms_no_more_groups_than_its_tenant_may_have() {
    let mut tic = Tic::new(Limits { groups: 12, ..Limits::default() });
    tic.run(&register(0, 1)).unwrap();
    let groups = (0..20).map(|number| form(&format!("acme/{number}"), &[0])).collect();
    let Ok(Answer::Formed(formed)) = tic.run(&batch("r", groups)) else { panic!("answered") };
    assert!(formed[..6].iter().all(Result::is_ok) && formed[6..].iter().all(Result::is_err));
    assert_eq!(tic.directory.groups.len(), 6);
    tic.check();
}

#[test]
fn a_job_ends_with_all_its_groups_and_with_no_other() {
    let mut tic = Tic::with_nodes(3);
    let groups = vec![
        of_job("a", "j", &[0, 1]),
        of_job("b", "j", &[2]),
        of_job("c", "k", &[0]),
        form("d", &[1]),
    ];
    tic.run(&batch("r", groups)).unwrap();
    let some = DeleteJobGroups { most: 2, ..teardown("t", "j", 5) };
    let answer = tic.run(&Command::DeleteJobGroups(some.clone())).unwrap();
    let ended = JobEnd { groups: 1, memberships: 2 };
    assert_eq!(answer, Answer::JobGroupsDeleted { ended, done: None });
    tic.check();
    tic.run(&batch("late", vec![of_job("e", "j", &[1])])).unwrap(); // gn 5
    let rest = Command::DeleteJobGroups(DeleteJobGroups { ended, ..some });
    let last = tic.run(&rest).unwrap();
    let at = tic.directory.revision();
    let ended = JobEnd { groups: 2, memberships: 3 };
    assert_eq!(last, Answer::JobGroupsDeleted { ended, done: Some(at) });
    assert_eq!(tic.run(&rest).unwrap(), last, "repeated, it has the same answer");
    assert_eq!(tic.directory.revision(), at);
    assert_eq!(tic.directory.groups.len(), 3, "c, d and what came after the request");
    tic.check();
    let unknown = tic.run(&Command::DeleteJobGroups(teardown("u", "nobody", 9))).unwrap_err();
    assert!(matches!(unknown, Refusal::UnknownJob { .. }));
    let reused = tic.run(&Command::DeleteJobGroups(teardown("t", "k", 9))).unwrap_err();
    assert!(matches!(reused, Refusal::RequestIdReused { .. }));
}

#[test]
fn a_large_group_of_a_job_is_taken_apart_in_several_decisions() {
    let mut tic = Tic::with_nodes(3);
    let groups = vec![of_job("a", "j", &[0, 1, 2]), of_job("b", "j", &[2])];
    tic.run(&batch("r", groups)).unwrap();
    let (mut ended, mut steps) = (JobEnd::default(), Vec::new());
    loop {
        let step = DeleteJobGroups { most: 2, ended, ..teardown("t", "j", 5) };
        let answer = tic.run(&Command::DeleteJobGroups(step)).unwrap();
        let Answer::JobGroupsDeleted { ended: now, done } = answer else { panic!("{answer:?}") };
        tic.check();
        steps.push((now.groups, now.memberships));
        ended = now;
        if done.is_some() {
            break;
        }
    }
    assert_eq!(steps, [(0, 2), (1, 3), (2, 4)]);
}
