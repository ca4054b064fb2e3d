//! Watching the directory: snapshot, deltas, and how a watch ends.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_tic::StoreLocation;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};
use v1::directory_change::Kind;

use crate::harness::{Client, Tic, endpoint, join, leave, link, reason, setup, switch};

/// The records as a reader of the watch knows them.
#[derive(Debug, Default, PartialEq)]
struct Mirror {
    revision: u64,
    groups: BTreeMap<u64, v1::Group>,
    members: BTreeMap<(u64, u32), v1::Member>,
    nodes: BTreeMap<String, v1::Node>,
    failed: Vec<v1::Element>,
}

impl Mirror {
    fn apply(&mut self, message: v1::WatchDirectoryResponse) {
        assert!(message.revision >= self.revision);
        self.revision = message.revision;
        for change in message.changes {
            match change.kind.unwrap() {
                Kind::Group(group) => {
                    assert!(group.members.is_empty());
                    self.groups.insert(group.gn, group);
                }
                Kind::DeletedGn(gn) => {
                    self.groups.remove(&gn).expect("a group that is known");
                    assert!(self.members.range((gn, 0)..=(gn, u32::MAX)).next().is_none());
                }
                Kind::Joined(joined) => {
                    assert!(self.groups.contains_key(&joined.gn), "its group came first");
                    let member = joined.member.unwrap();
                    self.members.insert((joined.gn, member.pn), member);
                }
                Kind::Left(left) => {
                    let key = (left.gn, left.member.unwrap().pn);
                    self.members.remove(&key).expect("a member that is known");
                }
                Kind::Node(node) => {
                    self.nodes.insert(node.name.clone(), node);
                }
                Kind::RemovedNode(node) => {
                    self.nodes.remove(&node).expect("a node that is known");
                }
                Kind::FailedElements(failed) => self.failed = failed.elements,
            }
        }
    }

    async fn snapshot(stream: &mut Streaming<v1::WatchDirectoryResponse>) -> Self {
        let mut mirror = Self::default();
        loop {
            let message = stream.message().await.unwrap().unwrap();
            assert!(message.snapshot);
            let last = message.snapshot_end;
            mirror.apply(message);
            if last {
                return mirror;
            }
        }
    }

    async fn follow(&mut self, stream: &mut Streaming<v1::WatchDirectoryResponse>, until: u64) {
        while self.revision < until {
            let message = stream.message().await.unwrap().unwrap();
            assert!(!message.snapshot);
            self.apply(message);
        }
    }
}

async fn report(tic: &Tic, reporter: &str, elements: Vec<v1::Element>) -> u32 {
    let request = v1::ReportFailedElementsRequest { reporter: reporter.to_owned(), elements };
    tic.client.clone().report_failed_elements(request).await.unwrap().into_inner().failed_count
}

#[tokio::test]
async fn a_snapshot_with_its_deltas_equals_a_later_snapshot() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    tic.join("early", 0, "p").await;
    let mut watch = tic.watch().await;
    let mut mirror = Mirror::snapshot(&mut watch).await;
    assert_eq!((mirror.groups.len(), mirror.members.len(), mirror.nodes.len()), (1, 1, 1));

    let mut client = tic.client.clone();
    for number in 1..6 {
        tic.register(number).await;
    }
    let mut joins = tokio::task::JoinSet::new();
    for number in 0..60 {
        let mut client = tic.client.clone();
        joins.spawn(async move {
            let request = join(&format!("g{}", number % 7), number % 6, &format!("p{number}"));
            client.join_group(request).await.unwrap();
        });
    }
    joins.join_all().await;
    client.leave_group(leave("g0", 0, "p0")).await.unwrap();
    let delete = v1::DeleteGroupRequest { request_id: "d".to_owned(), group: "g1".to_owned() };
    client.delete_group(delete).await.unwrap();
    report(&tic, "agent", vec![switch("S-2")]).await;
    let failure = v1::ReportNodeFailureRequest {
        node: "n2".to_owned(),
        incarnation: 1,
        reporter: "test".to_owned(),
        probe_first: false,
    };
    let revision = client.report_node_failure(failure).await.unwrap().into_inner().revision;
    mirror.follow(&mut watch, revision).await;
    assert_eq!(mirror.nodes["n2"].state(), v1::NodeState::Failed);
    assert!(mirror.members.values().all(|member| member.node != "n2"));
    assert_eq!(mirror.failed, [switch("S-2")]);
    let later = Mirror::snapshot(&mut tic.watch().await).await;
    assert_eq!(mirror, later);

    // A watch shows the same as the lists.
    let mut groups = tic.groups().await;
    for group in &mut groups {
        for member in group.members.drain(..) {
            assert_eq!(later.members[&(group.gn, member.pn)], member);
        }
        assert_eq!(&later.groups[&group.gn], group);
    }
    assert_eq!(groups.len(), later.groups.len());
}

#[tokio::test]
async fn a_member_that_only_sends_is_told_as_such() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let mut client = tic.client.clone();
    let only_sends = v1::JoinGroupRequest { sends_only: true, ..join("g", 0, "sender") };
    let joined = client.join_group(only_sends).await.unwrap().into_inner();
    assert!(joined.member.unwrap().sends_only);
    assert!(!tic.join("g", 0, "receiver").await.sends_only);
    let again = v1::JoinGroupRequest { request_id: "again".to_owned(), ..join("g", 0, "sender") };
    let joined = client.join_group(again).await.unwrap().into_inner();
    assert!(joined.member.unwrap().sends_only, "it is a member already");
    let told = Mirror::snapshot(&mut tic.watch().await).await.members;
    assert_eq!(told.values().map(|one| one.sends_only).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn only_a_reader_that_does_not_read_is_cut_off() {
    let mut setup = setup(StoreLocation::Memory);
    setup.watch_queue = 4;
    let tic = Tic::start(setup).await;
    tic.register(0).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", tic.address)).unwrap();
    let narrow = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    let mut slow = Client::new(narrow.connect_lazy());
    let mut slow = slow.watch_directory(v1::WatchDirectoryRequest {}).await.unwrap().into_inner();
    let mut watch = tic.watch().await;
    let mut mirror = Mirror::snapshot(&mut watch).await;
    let (group, process) = ("g".repeat(120), "p".repeat(100));
    for number in 0..1_200 {
        let member = tic.join(&format!("{group}{number}"), 0, &process).await;
        mirror.follow(&mut watch, member.joined_revision).await;
    }
    let mut read = 0;
    let end = loop {
        match slow.message().await {
            Ok(Some(_)) => read += 1,
            Ok(None) => panic!("a watch does not end without a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!((end.code(), reason(&end).as_str()), (Code::Unavailable, "READER_TOO_SLOW"));
    assert!(read < 1_200);
    assert_eq!(mirror, Mirror::snapshot(&mut tic.watch().await).await);
}

#[tokio::test]
async fn failed_elements_are_the_union_over_the_reporters() {
    let tic = Tic::on_memory().await;
    let mut watch = tic.watch().await;
    let mut mirror = Mirror::snapshot(&mut watch).await;
    assert_eq!(report(&tic, "a", vec![link("S-0", 5), endpoint("h3")]).await, 2);
    mirror.apply(watch.message().await.unwrap().unwrap());
    assert_eq!(mirror.failed, [link("S-0", 5), endpoint("h3")]);
    // The other end of the same link is the same link.
    assert_eq!(report(&tic, "b", vec![link("S-2", 1), switch("S-1")]).await, 3);
    mirror.apply(watch.message().await.unwrap().unwrap());
    assert_eq!(report(&tic, "a", vec![]).await, 2);
    mirror.apply(watch.message().await.unwrap().unwrap());
    assert_eq!(mirror.failed, [switch("S-1"), link("S-0", 5)]);
    assert_eq!(report(&tic, "b", vec![]).await, 0);
    mirror.apply(watch.message().await.unwrap().unwrap());
    assert!(mirror.failed.is_empty());
}

#[tokio::test]
async fn a_stopping_tic_ends_its_watches_with_a_reason() {
    let tic = Tic::on_memory().await;
    let mut watch = tic.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    tic.stop().await;
    let end = watch.message().await.unwrap_err();
    assert_eq!((end.code(), reason(&end).as_str()), (Code::Unavailable, "SHUTTING_DOWN"));
}
