//! Batches over gRPC: formed, refused as a whole, repeated, and cut short by a crash.

use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use v1::group_batch_service_client::GroupBatchServiceClient;

use crate::durability::Failing;
use crate::harness::{Tic, join, leave, reason, registration};

pub(crate) fn batches(tic: &Tic) -> GroupBatchServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", tic.address)).unwrap();
    GroupBatchServiceClient::new(endpoint.connect_lazy())
}

fn member(host: u32, process: &str) -> v1::FormedMember {
    let (endpoint, process) = (format!("h{host}"), process.to_owned());
    v1::FormedMember { endpoint, process, ..Default::default() }
}

pub(crate) fn group(name: &str, hosts: &[u32]) -> v1::FormedGroupSpec {
    let members = hosts.iter().map(|host| member(*host, "p")).collect();
    v1::FormedGroupSpec { group: name.to_owned(), members, ..Default::default() }
}

pub(crate) fn request(id: &str, groups: Vec<v1::FormedGroupSpec>) -> v1::FormGroupsRequest {
    v1::FormGroupsRequest {
        request_id: id.to_owned(),
        job: "j".to_owned(),
        groups,
        ..Default::default()
    }
}

/// The portions that were answered, and how the stream ended.
pub(crate) async fn form(
    tic: &Tic,
    messages: Vec<v1::FormGroupsRequest>,
) -> (Vec<v1::FormGroupsResponse>, Result<(), Status>) {
    form_by(batches(tic), messages).await
}

async fn form_by(
    mut client: GroupBatchServiceClient<Channel>,
    messages: Vec<v1::FormGroupsRequest>,
) -> (Vec<v1::FormGroupsResponse>, Result<(), Status>) {
    let mut portions = Vec::new();
    let begun = client.form_groups(tokio_stream::iter(messages)).await;
    let mut stream = match begun {
        Ok(begun) => begun.into_inner(),
        Err(status) => return (portions, Err(status)),
    };
    loop {
        match stream.message().await {
            Ok(Some(portion)) => portions.push(portion),
            Ok(None) => return (portions, Ok(())),
            Err(status) => return (portions, Err(status)),
        }
    }
}

async fn with_nodes() -> Tic {
    with_nodes_on(Tic::on_memory().await).await
}

async fn with_nodes_on(tic: Tic) -> Tic {
    for number in 0..8 {
        tic.register(number).await;
    }
    tic
}

/// More groups than fit into one portion.
fn many() -> Vec<v1::FormGroupsRequest> {
    let some = |range: std::ops::Range<u32>| {
        request("many", range.map(|n| group(&format!("g{n}"), &[0, 1, 2, 3])).collect())
    };
    vec![some(0..900), some(900..2_000)]
}

#[tokio::test]
async fn a_batch_of_many_portions_is_formed_once() {
    let tic = with_nodes().await;
    let (portions, ended) = form(&tic, many()).await;
    ended.unwrap();
    assert!(portions.len() > 1, "one portion is no test");
    let last = portions.last().unwrap();
    assert_eq!((last.formed_count, last.group_count), (2_000, 2_000));
    let formed: Vec<_> = portions.iter().flat_map(|portion| &portion.groups).collect();
    assert!(formed.iter().enumerate().all(|(n, one)| one.group == format!("g{n}")));
    assert!(formed.iter().all(|one| one.pns == [0, 1, 2, 3]));
    let held = tic.group("g1999").await.unwrap();
    assert_eq!((held.gn, held.mgid), (formed[1999].gn, formed[1999].mgid));
    assert_eq!((held.job.as_str(), held.agent_node.as_str()), ("j", "n0"));

    tic.client.clone().leave_group(leave("g7", 2, "p")).await.unwrap();
    let revision = tic.revision().await;
    assert_eq!(form(&tic, many()).await.0, portions, "a repetition has the same answers");
    assert_eq!(tic.revision().await, revision);
    assert_eq!(tic.group("g7").await.unwrap().member_count, 3, "nobody is brought back");
}

/// No decision of the writer is about more than a few thousand members, so that others do not wait
/// long for it.
#[tokio::test]
async fn a_group_of_many_members_is_formed_and_deleted_in_many_decisions() {
    const MEMBERS: u32 = 20_000;
    let tic = with_nodes().await;
    let mut large = group("large", &[]);
    large.members = (0..MEMBERS).map(|n| member(n % 8, &format!("p{n}"))).collect();
    let messages = vec![request("large", vec![group("a", &[0]), large, group("z", &[1])])];
    let (portions, ended) = form(&tic, messages.clone()).await;
    ended.unwrap();
    assert!(portions.len() >= 5, "{} portions", portions.len());
    let counts: Vec<u32> = portions.iter().map(|portion| portion.formed_count).collect();
    assert_eq!((counts[0], *counts.last().unwrap()), (1, 3), "{counts:?}");
    let parts = portions.iter().flat_map(|portion| &portion.groups);
    let parts: Vec<_> = parts.filter(|part| part.group == "large").collect();
    assert!(parts.iter().all(|part| part.pns.len() <= 4_096));
    let pns: Vec<u32> = parts.iter().flat_map(|part| part.pns.clone()).collect();
    assert_eq!(pns, (0..MEMBERS).collect::<Vec<_>>());
    let formed = tic.group("large").await.unwrap();
    assert_eq!((formed.member_count, formed.incomplete), (MEMBERS, false));
    assert_eq!(form(&tic, messages).await.0, portions, "a repetition has the same answers");

    let before = tic.revision().await;
    let delete =
        |id: &str| v1::DeleteGroupRequest { request_id: id.to_owned(), group: "large".to_owned() };
    let mut client = tic.client.clone();
    let deleted = client.delete_group(delete("delete")).await.unwrap().into_inner();
    assert!(deleted.revision >= before + 5, "{} decisions", deleted.revision - before);
    assert_eq!(reason(&tic.group("large").await.unwrap_err()), "UNKNOWN_GROUP");
    // A repetition after another one was formed by that name leaves it alone.
    form(&tic, vec![request("again", vec![group("large", &[0, 1])])]).await.1.unwrap();
    let again = client.delete_group(delete("delete")).await.unwrap().into_inner();
    assert_eq!(again.revision, deleted.revision);
    assert_eq!(tic.group("large").await.unwrap().member_count, 2);
}

/// Invariants G3 and S3.
#[tokio::test]
async fn acknowledged_portions_survive_a_crash_and_a_repetition_forms_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let tic = Tic::on_file(&path).await;
    for number in 0..8 {
        tic.register(number).await;
    }
    let mut stream =
        batches(&tic).form_groups(tokio_stream::iter(many())).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    tic.kill().await;
    drop(stream);

    let tic = Tic::on_file(&path).await;
    for formed in &first.groups {
        let held = tic.group(&formed.group).await.unwrap();
        assert_eq!((held.gn, held.mgid, held.member_count), (formed.gn, formed.mgid, 4));
    }
    let (portions, ended) = form(&tic, many()).await;
    ended.unwrap();
    assert_eq!(portions[0], first);
    let mut client = tic.client.clone();
    for name in ["g0", "g999", "g1999"] {
        let request = v1::GetGroupRequest {
            group: name.to_owned(),
            members_on_node: "n2".to_owned(),
            ..Default::default()
        };
        let held = client.get_group(request).await.unwrap().into_inner().group.unwrap();
        let pns: Vec<u32> = held.members.iter().map(|member| member.pn).collect();
        assert_eq!((held.member_count, pns), (4, vec![2]));
    }
}

/// The portions after the one that the store refuses wait for the writer already.
#[tokio::test]
async fn a_batch_ends_with_the_portion_that_is_not_stored() {
    const GROUPS: u32 = 6_000;
    let store = Failing::new();
    let tic = with_nodes_on(Tic::on_store(Arc::<Failing>::clone(&store)).await).await;
    let groups: Vec<_> = (0..GROUPS).map(|n| group(&format!("g{n}"), &[0, 1, 2, 3])).collect();
    let messages: Vec<_> =
        groups.chunks(1_000).map(|groups| request("r", groups.to_vec())).collect();
    store.refuse_one_after(1);
    let (portions, ended) = form(&tic, messages.clone()).await;
    assert_eq!(reason(&ended.unwrap_err()), "LIMIT_REACHED");
    let formed = portions.last().expect("the first is stored").formed_count;
    assert!(formed < GROUPS, "{formed}");
    tic.group(&format!("g{}", formed - 1)).await.unwrap();
    for later in (formed..GROUPS).step_by(100).chain([GROUPS - 1]) {
        let missing = tic.group(&format!("g{later}")).await.unwrap_err();
        assert_eq!(reason(&missing), "UNKNOWN_GROUP", "g{later}");
    }
    let (again, ended) = form(&tic, messages).await;
    ended.unwrap();
    assert_eq!(again[..portions.len()], portions, "those that were stored are not formed again");
    assert_eq!(again.last().unwrap().formed_count, GROUPS);
}

/// Each of two clients has as many calls open as there are permits for the batches of all clients.
#[tokio::test]
async fn calls_without_a_message_keep_no_batch_waiting() {
    // Shorter than any time after which the TIC ends a call without a message.
    const AT_ONCE: Duration = Duration::from_millis(4_500);
    let tic = with_nodes().await;
    let silent_clients = [batches(&tic), batches(&tic)];
    let mut silent = JoinSet::new();
    for client in &silent_clients {
        for _ in 0..4 {
            let mut client = client.clone();
            silent.spawn(async move {
                client.form_groups(tokio_stream::pending::<v1::FormGroupsRequest>()).await.err()
            });
        }
    }
    tokio::task::yield_now().await;
    for client in &silent_clients {
        // Calls of one connection arrive in the order in which they were made.
        let gets = vec![v1::GetGroupRequest { group: "none".to_owned(), ..Default::default() }];
        client.clone().get_many(v1::GetManyRequest { gets }).await.unwrap();
    }

    let [same_client, _] = silent_clients;
    for (name, client) in [("other", batches(&tic)), ("same", same_client)] {
        let formed = form_by(client, vec![request(name, vec![group(name, &[0, 1])])]);
        let (portions, ended) = timeout(AT_ONCE, formed).await.expect(name);
        ended.expect(name);
        assert_eq!(portions.last().unwrap().formed_count, 1, "{name}");
        let ended = silent.try_join_next();
        assert!(ended.is_none(), "{name}: a call without a message has ended: {ended:?}");
    }
}

/// Invariant S2: a refused request changes nothing.
#[tokio::test]
async fn a_refused_batch_names_the_field_and_forms_nothing() {
    let tic = with_nodes().await;
    tic.join("there", 0, "q").await;
    let mut stranger = group("x", &[1]);
    stranger.members[0].endpoint = "h77".to_owned();
    let mut elsewhere = group("x", &[1, 2]);
    elsewhere.members[1].node = "n1".to_owned();
    let mut old = group("x", &[1, 2]);
    old.members[1].incarnation = 9;
    let mut nameless = group("x", &[1, 2]);
    nameless.members[1].process.clear();
    let fixed = |name: &str, mgid| v1::FormedGroupSpec { mgid: Some(mgid), ..group(name, &[1]) };
    let taken = tic.group("there").await.unwrap().mgid;
    let cases = [
        (stranger, "UNKNOWN_ENDPOINT", "groups[900].members[0].endpoint: no endpoint 'h77'"),
        (elsewhere, "UNKNOWN_ENDPOINT", "groups[900] 'x': endpoint \"h2\" does not belong to"),
        (old, "STALE_INCARNATION", "groups[900] 'x': incarnation 9 of node \"n2\""),
        (nameless, "NAME_INVALID", "groups[900].members[1].process: process name is empty"),
        (group("x", &[]), "FIELD_MISSING", "groups[900].members: required"),
        (group("", &[1]), "NAME_INVALID", "groups[900].group: group name is empty"),
        (group("g5", &[1]), "GROUP_DIFFERS", "groups[900].group: 'g5' is named twice"),
        (fixed("x", taken), "MGID_IN_USE", "groups[900] 'x': mgid"),
        (fixed("there", taken + 1), "GROUP_DIFFERS", "groups[900] 'there': group"),
    ];
    let revision = tic.revision().await;
    for (bad, why, text) in cases {
        let mut messages = many();
        messages[1].groups.insert(0, bad);
        let (portions, ended) = form(&tic, messages).await;
        let status = ended.unwrap_err();
        assert_eq!(reason(&status), why, "{status:?}");
        assert!(status.message().starts_with(text), "{}", status.message());
        assert!(portions.is_empty());
    }
    for (messages, why) in [
        (Vec::new(), "FIELD_MISSING"),
        (vec![request("r", Vec::new())], "FIELD_MISSING"),
        (vec![request("", vec![group("x", &[1])])], "NAME_INVALID"),
        (vec![request(&"i".repeat(256), vec![group("x", &[1])])], "NAME_INVALID"),
    ] {
        assert_eq!(reason(&form(&tic, messages).await.1.unwrap_err()), why);
    }
    let both = request("r", vec![fixed("x", 900), fixed("y", 900)]);
    let status = form(&tic, vec![both]).await.1.unwrap_err();
    assert_eq!(status.message(), "groups[1].mgid: groups[0] has the same");
    assert_eq!(tic.revision().await, revision, "nothing has changed");

    let (first, second) =
        (request("r", vec![group("x", &[1])]), request("r", vec![group("x", &[2])]));
    form(&tic, vec![first]).await.1.unwrap();
    assert_eq!(reason(&form(&tic, vec![second]).await.1.unwrap_err()), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn the_groups_of_a_job_end_in_many_decisions_and_with_one_answer() {
    let tic = with_nodes().await;
    tic.join("stays", 0, "p").await;
    form(&tic, many()).await.1.unwrap();
    let end =
        |id: &str| v1::DeleteJobGroupsRequest { request_id: id.to_owned(), job: "j".to_owned() };
    let ended = batches(&tic).delete_job_groups(end("e")).await.unwrap().into_inner();
    assert_eq!((ended.group_count, ended.membership_count), (2_000, 8_000));
    let names: Vec<_> = tic.groups().await.into_iter().map(|group| group.name).collect();
    assert_eq!(names, ["stays"]);
    assert_eq!(batches(&tic).delete_job_groups(end("e")).await.unwrap().into_inner(), ended);
    let none = batches(&tic).delete_job_groups(end("f")).await.unwrap_err();
    assert_eq!((none.code(), reason(&none).as_str()), (Code::NotFound, "UNKNOWN_JOB"));
}

#[tokio::test]
async fn each_of_many_joins_and_leaves_has_its_own_outcome() {
    use v1::join_answer::Answer as Joined;
    use v1::leave_answer::Answer as Left;
    let tic = with_nodes().await;
    let mut client = batches(&tic);
    let bad = v1::JoinGroupRequest { process: String::new(), ..join("g", 2, "p") };
    let joins = vec![join("g", 0, "p"), join("g", 9, "p"), bad, join("g", 1, "p")];
    let many = v1::JoinManyRequest { joins };
    let answers = client.join_many(many.clone()).await.unwrap().into_inner().answers;
    let ends: Vec<_> = answers
        .iter()
        .map(|answer| match answer.answer.as_ref().unwrap() {
            Joined::Joined(joined) => joined.member.as_ref().unwrap().pn.to_string(),
            Joined::Refusal(refusal) => refusal.reason.clone(),
        })
        .collect();
    assert_eq!(ends, ["0", "UNKNOWN_NODE", "NAME_INVALID", "1"]);
    let again = client.join_many(many).await.unwrap().into_inner().answers;
    for (one, other) in [(&again[0], &answers[0]), (&again[3], &answers[3])] {
        let (Some(Joined::Joined(one)), Some(Joined::Joined(other))) = (&one.answer, &other.answer)
        else {
            panic!("{one:?} {other:?}");
        };
        assert_eq!((&one.member, one.revision), (&other.member, other.revision));
    }

    let leaves = vec![leave("g", 0, "p"), leave("g", 3, "p")];
    let answers = client.leave_many(v1::LeaveManyRequest { leaves }).await.unwrap().into_inner();
    let [left, never] = &answers.answers[..] else { panic!("{answers:?}") };
    assert!(matches!(left.answer, Some(Left::Left(v1::LeaveGroupResponse { pn: 0, .. }))));
    let Some(Left::Refusal(refusal)) = &never.answer else { panic!("{never:?}") };
    assert_eq!((refusal.code, refusal.reason.as_str()), (5, "NOT_A_MEMBER"));

    let none = client.join_many(v1::JoinManyRequest::default()).await.unwrap_err();
    assert_eq!(reason(&none), "FIELD_MISSING");
    let leaves = vec![leave("g", 1, "p"); 10_001];
    let refused = client.leave_many(v1::LeaveManyRequest { leaves }).await.unwrap_err();
    assert_eq!(reason(&refused), "LIMIT_REACHED");
    assert_eq!(tic.group("g").await.unwrap().member_count, 1);
}

#[tokio::test]
async fn an_incomplete_group_is_complete_in_the_commit_of_its_last_member() {
    let tic = with_nodes().await;
    let waits =
        |number| v1::JoinGroupRequest { complete_at_member_count: 3, ..join("g", number, "p") };
    let mut client = tic.client.clone();
    for number in [0, 1] {
        let joined = client.join_group(waits(number)).await.unwrap().into_inner().group.unwrap();
        assert!(joined.incomplete);
    }
    let new_start = registration(1, "127.0.0.1:1", 2);
    client.register_node(new_start).await.unwrap();
    for number in [2, 3] {
        assert!(tic.group("g").await.unwrap().incomplete);
        tic.join("g", number, "p").await;
    }
    let group = tic.group("g").await.unwrap();
    assert_eq!((group.incomplete, group.complete_at_member_count), (false, 3));
}
