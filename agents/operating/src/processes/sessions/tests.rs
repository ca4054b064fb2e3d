//! Tests of sessions and of the names that they reserve.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use super::*;
use crate::testing::agent;

fn named(node: &NodeName, name: &str) -> ProcessId {
    ProcessId { node: node.clone(), process: ProcessName::new(name).unwrap() }
}

fn user(number: u32) -> Owner {
    Owner { user: Some(number), ..Owner::default() }
}

#[tokio::test]
async fn a_name_is_attached_once_and_free_again_after_the_end() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let process = named(&test.node, "p0");
    let first = sessions.attach(process.clone(), user(7), None).await.unwrap();
    let refused = sessions.attach(process.clone(), user(7), None).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::ProcessAttached);
    let number = first.session.number;
    let call = sessions.call(number, &user(7)).unwrap();
    drop(first);
    assert_eq!(sessions.call(number, &user(7)).unwrap_err(), SessionError::Unknown);
    // A call of the first is still in flight, so the next of the name waits.
    let next = sessions.attach(process, user(7), None);
    tokio::pin!(next);
    let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
    assert!(early.is_err(), "{early:?}");
    drop(call);
    assert_ne!(next.await.unwrap().session.number, number);
}

#[tokio::test]
async fn no_user_attaches_so_many_processes_that_another_cannot() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let process = |at: usize| named(&test.node, &format!("p{at}"));
    for at in 0..MAX_SESSIONS / 2 {
        sessions.insert(&process(at), &user(7), None).unwrap().unwrap();
    }
    let next = process(MAX_SESSIONS);
    let refused = sessions.insert(&next, &user(7), None).unwrap_err();
    let share = NoShare::User { what: "processes are attached", count: MAX_SESSIONS / 2 };
    assert_eq!(refused, SessionError::NoShare(share));
    assert_eq!(refused.reason(), Reason::LimitReached);
    drop(sessions.attach(next.clone(), user(8), None).await.unwrap());
    sessions.attach(next, user(8), None).await.unwrap();
}

#[tokio::test]
async fn a_session_reserves_a_bounded_number_of_processes() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let attached = sessions.attach(named(&test.node, "p0"), user(7), None).await.unwrap();
    let session = &attached.session;
    let reserved = |count: usize| -> Vec<ProcessId> {
        (0..count).map(|number| named(&test.node, &format!("r{number}"))).collect()
    };
    // The same ones count once.
    sessions.reserve(session, &reserved(MAX_RESERVED), None).await.unwrap();
    sessions.reserve(session, &reserved(MAX_RESERVED), None).await.unwrap();
    let refused = sessions.reserve(session, &reserved(MAX_RESERVED + 1), None).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::LimitReached);
}

#[tokio::test]
async fn no_user_reserves_so_many_names_that_another_cannot() {
    let test = agent();
    let sessions = &test.agent.sessions;
    sessions.0.table.lock().reserved = UserShares::new("names are reserved", 12);
    let process = |name: &str| named(&test.node, name);
    let [one, next, other] = ["one", "next", "other"].map(process);
    let names = |user: u32, count: usize| -> Vec<ProcessId> {
        (0..count).map(|number| process(&format!("{user}-{number}"))).collect()
    };
    let first = sessions.attach(one.clone(), user(7), None).await.unwrap();
    sessions.reserve(&first.session, &names(7, 5), None).await.unwrap();
    // Another session has no share of its own, and names that are reserved again count once.
    let second = sessions.attach(next, user(7), None).await.unwrap();
    sessions.reserve(&first.session, &names(7, 6), None).await.unwrap();
    let refused = sessions.reserve(&second.session, &names(7, 1), None).await.unwrap_err();
    let share = NoShare::User { what: "names are reserved", count: 6 };
    assert_eq!(refused, SessionError::NoShare(share));
    assert_eq!(refused.reason(), Reason::LimitReached);
    let launcher = sessions.attach(other, user(8), None).await.unwrap();
    sessions.reserve(&launcher.session, &names(8, 3), None).await.unwrap();
    drop(first);
    drop(sessions.attach(one, user(7), None).await.unwrap());
    sessions.reserve(&second.session, &names(7, 4), None).await.unwrap();
}

#[tokio::test]
async fn a_session_of_another_user_is_refused() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let attached = sessions.attach(named(&test.node, "p0"), user(7), None).await.unwrap();
    for other in [user(8), Owner::default()] {
        let refused = sessions.call(attached.session.number, &other).unwrap_err();
        assert_eq!(refused, SessionError::NotYours);
    }
}

/// Asserts that a call is not answered yet.
async fn waits(mut call: Pin<&mut impl Future>) {
    let is_pending = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
    assert!(is_pending);
}

fn token(text: &str) -> Option<JobToken> {
    Some(JobToken::new(text).unwrap())
}

/// Asserts that a name is refused to a process as one that is reserved for others.
async fn is_kept_from(
    sessions: &Sessions,
    process: &ProcessId,
    owner: Owner,
    token: Option<JobToken>,
) {
    let refused = sessions.attach(process.clone(), owner, token).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::NotPermitted);
    let ProcessId { node, process } = process;
    let named = format!("process: '{process}' on node '{node}' is reserved for user");
    assert!(refused.to_string().starts_with(&named), "{refused}");
}

#[tokio::test]
async fn a_reserved_name_is_kept_for_the_user_of_the_launcher_until_its_end() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let [launching, process] = ["launcher", "p0"].map(|name| named(&test.node, name));
    let launcher = sessions.attach(launching.clone(), user(7), None).await.unwrap();
    sessions.reserve(&launcher.session, std::slice::from_ref(&process), None).await.unwrap();
    for other in [user(8), user(ROOT), Owner::default()] {
        is_kept_from(sessions, &process, other, None).await;
    }
    // The name was not used up, and is kept when its process has gone.
    let first = sessions.attach(process.clone(), user(7), None).await.unwrap();
    drop(first);
    is_kept_from(sessions, &process, user(8), None).await;
    drop(sessions.attach(process.clone(), user(7), None).await.unwrap());
    // While the launcher's session ends, the memberships may still be there.
    let call = sessions.call(launcher.session.number, &user(7)).unwrap();
    drop(launcher);
    let mut next = pin!(sessions.attach(process, user(8), None));
    waits(next.as_mut()).await;
    drop(call);
    next.await.unwrap();
    // The name of the launcher is free, too.
    sessions.attach(launching, user(8), None).await.unwrap();
}

#[tokio::test]
async fn a_name_is_kept_until_the_last_session_that_reserves_it_has_ended() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let [one, other, process] = ["one", "other", "p0"].map(|name| named(&test.node, name));
    let first = sessions.attach(one.clone(), user(7), None).await.unwrap();
    let second = sessions.attach(other.clone(), user(7), None).await.unwrap();
    let names = std::slice::from_ref(&process);
    for launcher in [&first, &first, &second] {
        sessions.reserve(&launcher.session, names, None).await.unwrap();
    }
    drop(first);
    drop(sessions.attach(one, user(7), None).await.unwrap());
    is_kept_from(sessions, &process, user(8), None).await;
    drop(second);
    let _next = sessions.attach(other, user(7), None).await.unwrap();
    sessions.attach(process, user(8), None).await.unwrap();
}

#[tokio::test]
async fn only_root_reserves_for_another_user() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let [one, other, process] = ["one", "other", "p0"].map(|name| named(&test.node, name));
    let names = std::slice::from_ref(&process);
    for (launching, owner) in [(one.clone(), user(8)), (one, Owner::default())] {
        let launcher = sessions.attach(launching, owner, None).await.unwrap();
        let refused = sessions.reserve(&launcher.session, names, Some(7)).await.unwrap_err();
        assert_eq!(refused, SessionError::ForeignUser { user: 7 });
        assert_eq!(refused.reason(), Reason::NotPermitted);
    }
    let root = sessions.attach(other, user(ROOT), None).await.unwrap();
    sessions.reserve(&root.session, names, Some(7)).await.unwrap();
    for other in [user(8), user(ROOT), Owner::default()] {
        is_kept_from(sessions, &process, other, None).await;
    }
    sessions.attach(process, user(7), None).await.unwrap();
}

#[tokio::test]
async fn a_name_that_another_user_has_is_reserved_for_nobody_else_and_nothing_is_noted() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let process = |name| named(&test.node, name);
    let _squatter = sessions.attach(process("p1"), user(8), None).await.unwrap();
    let other = sessions.attach(process("other"), user(8), None).await.unwrap();
    sessions.reserve(&other.session, &[process("p2")], None).await.unwrap();
    let launcher = sessions.attach(process("launcher"), user(7), None).await.unwrap();
    for taken in ["p1", "p2"] {
        let names = [process("p0"), process(taken)];
        let refused = sessions.reserve(&launcher.session, &names, None).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::NotPermitted);
        let named = format!("processes: '{taken}' on node 'n0' is not free for user 7");
        assert!(refused.to_string().starts_with(&named), "{refused}");
    }
    assert!(launcher.session.reserved.lock().is_empty());
    sessions.attach(process("p0"), user(8), None).await.unwrap();
}

#[tokio::test]
async fn a_launcher_with_a_jobs_token_keeps_its_names_for_processes_with_that_token() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let [launching, process] = ["launcher", "p0"].map(|name| named(&test.node, name));
    let job = || token("aaaaaaaaaaaaaaaa");
    let launcher = sessions.attach(launching, user(7), job()).await.unwrap();
    sessions.reserve(&launcher.session, std::slice::from_ref(&process), None).await.unwrap();
    for other in [None, token("bbbbbbbbbbbbbbbb")] {
        is_kept_from(sessions, &process, user(7), other).await;
    }
    is_kept_from(sessions, &process, user(8), job()).await;
    sessions.attach(process, user(7), job()).await.unwrap();
}

/// The ends of both take the process out of its groups.
#[tokio::test]
async fn a_name_is_reserved_again_once_the_session_that_had_it_has_ended() {
    // For the same user, too.
    for next in [7, 8] {
        let test = agent();
        let sessions = &test.agent.sessions;
        let process = |name| named(&test.node, name);
        let names = [process("reserved"), process("attached")];
        let ending = [
            sessions.attach(process("launcher"), user(7), None).await.unwrap(),
            sessions.attach(process("attached"), user(7), None).await.unwrap(),
        ];
        sessions.reserve(&ending[0].session, &names[..1], None).await.unwrap();
        let launcher = sessions.attach(process("next"), user(next), None).await.unwrap();
        for (attached, name) in ending.into_iter().zip(&names) {
            let call = sessions.call(attached.session.number, &user(7)).unwrap();
            drop(attached);
            let name = std::slice::from_ref(name);
            let mut reserving = pin!(sessions.reserve(&launcher.session, name, None));
            waits(reserving.as_mut()).await;
            assert!(launcher.session.reserved.lock().iter().all(|reserved| *reserved != name[0]));
            drop(call);
            reserving.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_launcher_that_ends_waits_for_no_names() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let process = |name| named(&test.node, name);
    let ending = sessions.attach(process("p0"), user(7), None).await.unwrap();
    let _call = sessions.call(ending.session.number, &user(7)).unwrap();
    drop(ending);
    let launcher = sessions.attach(process("launcher"), user(7), None).await.unwrap();
    let (session, names) = (Arc::clone(&launcher.session), [process("p0")]);
    let mut reserving = pin!(sessions.reserve(&session, &names, None));
    waits(reserving.as_mut()).await;
    drop(launcher);
    assert_eq!(reserving.await.unwrap_err(), SessionError::Unknown);
}

/// Returns whether the end of a session takes a process out of a group.
fn takes_out(sessions: &Sessions, ending: &Session, process: &ProcessId) -> bool {
    let group = GroupName::new("g").unwrap();
    sessions.0.table.lock().takes_out(ending, process, &group)
}

#[tokio::test]
async fn the_end_of_a_launcher_takes_nobody_out_whom_another_one_has_reserved() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let [one, other, process] = ["one", "other", "p0"].map(|name| named(&test.node, name));
    let first = sessions.attach(one.clone(), user(7), None).await.unwrap();
    let second = sessions.attach(other, user(7), None).await.unwrap();
    for launcher in [&first, &second] {
        let names = std::slice::from_ref(&process);
        sessions.reserve(&launcher.session, names, None).await.unwrap();
    }
    let [ends, stays] =
        [&first, &second].map(|one| sessions.call(one.session.number, &user(7)).unwrap());
    drop(first);
    assert!(takes_out(sessions, &ends.session, &one));
    assert!(!takes_out(sessions, &ends.session, &process));
    drop(second);
    assert!(takes_out(sessions, &stays.session, &process));
}

#[tokio::test]
async fn what_a_process_has_joined_ends_with_it_though_a_launcher_keeps_its_name() {
    let test = agent();
    let sessions = &test.agent.sessions;
    let [launching, process] = ["launcher", "p0"].map(|name| named(&test.node, name));
    let launcher = sessions.attach(launching, user(7), None).await.unwrap();
    let names = std::slice::from_ref(&process);
    sessions.reserve(&launcher.session, names, None).await.unwrap();
    let member = sessions.attach(process.clone(), user(7), None).await.unwrap();
    let call = sessions.call(member.session.number, &user(7)).unwrap();
    drop(member);
    assert!(takes_out(sessions, &call.session, &process));
}
