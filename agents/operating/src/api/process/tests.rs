//! Calls at the socket: users, and the rules for their groups.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use fabricast_config::ProcessRule;
use fabricast_groups::token::JobToken;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_proto::v1::process_service_server::ProcessServiceServer;
use fabricast_rpc::{BoundSocket, Services, access_table, reason_of};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::{Channel, Endpoint};

use super::*;
use crate::processes::sessions::Attached;
use crate::testing::{TestAgent, agent, agent_with_nodes};

/// An agent whose socket is served, with one node, `n0`, that is up.
struct Served {
    test: TestAgent,
    folder: TempDir,
    _serving: AbortOnDropHandle<()>,
}

impl Served {
    fn start() -> Self {
        let test = agent();
        test.node_up();
        Self::of(test)
    }

    fn of(test: TestAgent) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = BoundSocket::bind(&folder.path().join("s"), 0o600).unwrap();
        let processes = ProcessServiceServer::new(ProcessServer::new(&test.agent));
        let services = Services::new("operating-agent").with(processes);
        let serving = tokio::spawn(async move {
            socket.serve(services, CancellationToken::new()).await.unwrap();
        });
        Self { test, folder, _serving: AbortOnDropHandle::new(serving) }
    }

    fn calls(&self) -> ProcessServiceClient<Channel> {
        let socket = format!("unix://{}", self.folder.path().join("s").display());
        ProcessServiceClient::new(Endpoint::from_shared(socket).unwrap().connect_lazy())
    }

    /// The user that this test runs as.
    fn own_user(&self) -> u32 {
        std::fs::metadata(self.folder.path()).unwrap().uid()
    }

    /// Gives processes of the test's user the groups of a tenant.
    fn only(&self, tenant: &str) {
        let tenant = Some(format!("tenant/{tenant}").parse().unwrap());
        let rule = ProcessRule { user: Some(self.own_user()), group: None, tenant };
        self.test.agent.user_rules.set(&[rule]);
    }

    async fn attach(&self, process: &str) -> (u64, Streaming<v1::AttachProcessResponse>) {
        let request =
            v1::AttachProcessRequest { process: process.to_owned(), ..Default::default() };
        let mut attached = self.calls().attach_process(request).await.unwrap().into_inner();
        (attached.message().await.unwrap().unwrap().session, attached)
    }
}

/// The reason of a refusal that must be one of permission.
fn forbidden<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let refused = answer.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
    reason_of(&refused).unwrap()
}

#[tokio::test]
async fn the_system_tells_the_user_of_a_process_at_the_socket() {
    let served = Served::start();
    let (number, _attached) = served.attach("p").await;
    let sessions = &served.test.agent.sessions;
    let owner = |user| Owner { user, ..Owner::default() };
    sessions.call(number, &owner(Some(served.own_user()))).unwrap();
    for other in [Some(served.own_user() + 1), None] {
        let refused = sessions.call(number, &owner(other)).unwrap_err();
        assert_eq!(refused, SessionError::NotYours);
    }
}

#[tokio::test]
async fn a_process_without_a_rule_is_refused_and_so_is_one_that_the_system_does_not_know() {
    let served = Served::start();
    let rule = |user| ProcessRule { user: Some(user), group: None, tenant: None };
    let rules = &served.test.agent.user_rules;
    rules.set(&[rule(served.own_user() + 1)]);
    assert!(rules.owner(None).is_err());
    let mut calls = served.calls();
    let listed = calls.list_local_nodes(v1::ListLocalNodesRequest {}).await;
    assert_eq!(forbidden(listed), "NOT_PERMITTED");
    let request = v1::AttachProcessRequest { process: "p".to_owned(), ..Default::default() };
    let refused = calls.attach_process(request).await.unwrap_err();
    let why = format!("process_rules is for a process of user {}", served.own_user());
    assert!(refused.message().contains(&why), "{refused}");
    rules.set(&[rule(served.own_user() + 1), rule(served.own_user())]);
    served.attach("p").await;
}

/// Reasons for which the calls that name a session and a group are refused, by call.
async fn refusals(served: &Served, session: u64, group: &str) -> BTreeMap<&'static str, String> {
    let mut calls = served.calls();
    let group = || group.to_owned();
    let join = v1::ProcessServiceJoinGroupRequest { session, group: group() };
    let processes = vec![v1::LocalProcess { process: "q".to_owned(), ..Default::default() }];
    let reserve = v1::ReserveMembersRequest { session, group: group(), processes, user: None };
    let leave = v1::ProcessServiceLeaveGroupRequest { session, group: group() };
    let list = v1::ListMembersRequest { session, group: group() };
    let watch = v1::WatchMembersRequest { session, group: group() };
    let part = v1::TakePartRequest { session, group: group(), ..Default::default() };
    let path = v1::OpenDirectPathRequest { session, group: group(), ..Default::default() };
    let participants = v1::ListParticipantsRequest { session, group: group() };
    let send = v1::SendMessageRequest { session, group: group(), ..Default::default() };
    let tree = v1::ProcessServiceRequestSwitchTreeRequest { session, group: group() };
    let run = v1::RunOperationRequest { session, group: group(), ..Default::default() };
    BTreeMap::from([
        ("JoinGroup", forbidden(calls.join_group(join).await)),
        ("ReserveMembers", forbidden(calls.reserve_members(reserve).await)),
        ("LeaveGroup", forbidden(calls.leave_group(leave).await)),
        ("ListMembers", forbidden(calls.list_members(list).await)),
        ("WatchMembers", forbidden(calls.watch_members(watch).await)),
        ("TakePart", forbidden(calls.take_part(tokio_stream::once(part)).await)),
        ("OpenDirectPath", forbidden(calls.open_direct_path(tokio_stream::once(path)).await)),
        ("ListParticipants", forbidden(calls.list_participants(participants).await)),
        ("SendMessage", forbidden(calls.send_message(send).await)),
        ("RequestSwitchTree", forbidden(calls.request_switch_tree(tree).await)),
        ("RunOperation", forbidden(calls.run_operation(run).await)),
    ])
}

#[tokio::test]
async fn every_call_that_names_a_group_of_another_tenant_is_refused() {
    let served = Served::start();
    served.only("acme");
    let (session, _attached) = served.attach("p").await;
    for group in ["rival/g", "acme", "acme2/g", "g"] {
        let refused = refusals(&served, session, group).await;
        assert!(refused.values().all(|reason| reason == "NOT_PERMITTED"), "{group}: {refused:?}");
    }
    let own = v1::ListMembersRequest { session, group: "acme/g".to_owned() };
    let refused = served.calls().list_members(own).await.unwrap_err();
    assert!(Reason::NotAMember.is_of(&refused), "{refused}");
    let group = "acme/g".to_owned();
    let own = v1::ProcessServiceRequestSwitchTreeRequest { session, group };
    let refused = served.calls().request_switch_tree(own).await.unwrap_err();
    assert!(Reason::NotAMember.is_of(&refused), "{refused}");
}

#[tokio::test]
async fn every_call_with_the_session_of_another_user_is_refused() {
    let served = Served::start();
    let agent = &served.test.agent;
    let process = named(&served, "theirs");
    let other = Owner { user: Some(served.own_user() + 1), ..Owner::default() };
    let theirs = agent.sessions.attach(process, other, None).await.unwrap();
    let session = theirs.session.number;
    let mut refused = refusals(&served, session, "g").await;
    let share = v1::ShareMemoryRequest { session, ..Default::default() };
    let shared = served.calls().share_memory(tokio_stream::once(share)).await;
    refused.insert("ShareMemory", forbidden(shared));
    assert!(refused.values().all(|reason| reason == "SESSION_NOT_YOURS"), "{refused:?}");
    // These two name no session.
    let others = ["ListLocalNodes", "AttachProcess"];
    let tried: BTreeSet<&str> = refused.into_keys().chain(others).collect();
    let calls = access_table().filter(|access| access.service == "ProcessService");
    assert_eq!(tried, calls.map(|access| access.call).collect::<BTreeSet<_>>());
}

#[tokio::test]
async fn changed_rules_end_the_sessions_that_they_decide_differently_about() {
    let served = Served::start();
    served.only("acme");
    let (session, mut attached) = served.attach("p").await;
    served.only("rival");
    let list = v1::ListMembersRequest { session, group: "rival/g".to_owned() };
    let refused = served.calls().list_members(list).await.unwrap_err();
    let reason = reason_of(&refused).unwrap();
    assert!(["SESSION_NOT_YOURS", "UNKNOWN_SESSION"].contains(&&*reason), "{refused}");
    assert_eq!(forbidden(attached.message().await), "NOT_PERMITTED");
}

#[test]
fn an_operation_in_shared_memory_is_bounded_as_one_in_a_request() {
    let memory = CallMemory::of(&tonic::Extensions::default());
    let operation = v1::GroupOperation { payload: vec![7; 1 << 20], ..Default::default() };
    assert_eq!(decode_shared(&memory, &operation.encode_to_vec()).unwrap(), operation);
    // Two bytes each, and 32 in memory.
    let parts = [7 << 3 | 2, 0].repeat(2 << 20);
    let refused = decode_shared(&memory, &parts).unwrap_err();
    assert!(Reason::LimitReached.is_of(&refused), "{refused}");
    let refused = decode_shared(&memory, &[0; 9]).unwrap_err();
    assert!(Reason::RangeInvalid.is_of(&refused), "{refused}");
}

fn named(served: &Served, name: &str) -> ProcessId {
    ProcessId { node: served.test.node.clone(), process: ProcessName::new(name).unwrap() }
}

/// Reserves a name for the processes of a launcher, as long as that is attached.
///
/// - `token`: of the launcher's job.
async fn reserved_by(served: &Served, user: u32, token: Option<&str>, name: &str) -> Attached {
    let sessions = &served.test.agent.sessions;
    let owner = Owner { user: Some(user), ..Owner::default() };
    let token = token.map(|token| JobToken::new(token).unwrap());
    let launcher =
        sessions.attach(named(served, &format!("launcher-{name}")), owner, token).await.unwrap();
    sessions.reserve(&launcher.session, &[named(served, name)], None).await.unwrap();
    launcher
}

#[tokio::test]
async fn a_name_that_another_user_has_reserved_is_neither_attached_nor_reserved() {
    let served = Served::start();
    let _launcher = reserved_by(&served, served.own_user() + 1, None, "p").await;
    let mut calls = served.calls();
    let request = v1::AttachProcessRequest { process: "p".to_owned(), ..Default::default() };
    let refused = calls.attach_process(request).await.unwrap_err();
    let why = format!("process: 'p' on node 'n0' is reserved for user {}", served.own_user() + 1);
    assert_eq!(refused.message(), why);
    assert_eq!(forbidden(Err::<(), _>(refused)), "NOT_PERMITTED");
    let (session, _attached) = served.attach("mine").await;
    let processes = vec![v1::LocalProcess { process: "p".to_owned(), ..Default::default() }];
    for user in [None, Some(served.own_user() + 2)] {
        let (group, processes) = ("g".to_owned(), processes.clone());
        let reserve = v1::ReserveMembersRequest { session, group, processes, user };
        let refused = calls.reserve_members(reserve).await.unwrap_err();
        // Only root may name another user, and the name is not free for that one.
        let holder = user.unwrap_or(served.own_user()).to_string();
        assert!(refused.message().contains(&holder), "{refused}");
        assert_eq!(forbidden(Err::<(), _>(refused)), "NOT_PERMITTED");
    }
}

#[tokio::test]
async fn a_name_that_a_job_has_reserved_is_attached_with_its_token() {
    let served = Served::start();
    let token = "aaaaaaaaaaaaaaaa";
    let _launcher = reserved_by(&served, served.own_user(), Some(token), "p").await;
    for (job_token, is_taken) in [("", false), ("bbbbbbbbbbbbbbbb", false), (token, true)] {
        let (process, job_token) = ("p".to_owned(), job_token.to_owned());
        let request = v1::AttachProcessRequest { process, job_token, ..Default::default() };
        let attached = served.calls().attach_process(request).await;
        match attached {
            Ok(_) => assert!(is_taken),
            refused => {
                assert_eq!((forbidden(refused).as_str(), is_taken), ("NOT_PERMITTED", false))
            }
        }
    }
}

#[tokio::test]
async fn joins_at_the_socket_are_those_of_a_client() {
    let test = agent_with_nodes(8);
    let nodes = test.agent.runtime.nodes.names();
    nodes.iter().for_each(|node| test.up(node));
    let served = Served::of(test);
    let owner = Owner { user: Some(served.own_user()), ..Owner::default() };
    let sessions = &served.test.agent.sessions;
    let launcher = sessions.attach(named(&served, "launcher"), owner, None).await.unwrap();
    // A node takes ten calls.
    let process = |at: usize| v1::LocalProcess {
        node: nodes[at / 10].to_string(),
        process: format!("p{at}"),
    };
    let (session, processes) = (launcher.session.number, (0..80).map(process).collect());
    let reserve =
        v1::ReserveMembersRequest { session, group: "g".to_owned(), processes, user: None };
    let mut calls = served.calls();
    let _reserving = AbortOnDropHandle::new(tokio::spawn(async move {
        calls.reserve_members(reserve).await.unwrap();
    }));
    // Nobody answers them.
    let begun = loop {
        let begun = served.test.agent.calls.in_progress();
        if !begun.is_empty() {
            break begun;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert!(!begun.contains_key(&0), "they are nobody's");
}
