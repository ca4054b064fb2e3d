//! Operations longer than a message may be: they run in segments, and what happens between two.

use fabricast_client::{Client, Error, Group, Reduction};
use fabricast_integration::{Cluster, Layout, soon};
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_rpc::reason_of;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::talking::{NODES, all, form, settings};

/// Bytes of a full segment.
const SEGMENT: usize = 1 << 20;

/// Bytes that tell a wrong place from the right one.
fn pattern(length: usize, rank: u32) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at / 251 + at + rank as usize) % 256).unwrap_or(0);
    (0..length).map(byte).collect()
}

/// Length of a member's payload: less than a segment, exactly one, and more.
fn length(rank: u32) -> usize {
    [100, SEGMENT, SEGMENT + 1, 2 * SEGMENT + 9][rank as usize]
}

async fn check_long_operations(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let groups = form(&cluster, "g", &NODES).await;
    let ranks = 0..u32::try_from(NODES.len()).unwrap();
    for source in ranks.clone() {
        let sent = all(&groups, |group| async move {
            group.broadcast(source, &pattern(length(group.rank()), group.rank())).await
        });
        assert!(sent.await.iter().all(|came| *came == pattern(length(source), source)), "{source}");
    }
    let wanted: Vec<_> = ranks.clone().map(|rank| (rank, pattern(length(rank), rank))).collect();
    let gathered = all(&groups, |group| async move {
        let own = pattern(length(group.rank()), group.rank());
        Ok((group.all_gather(&own).await?, group.gather(2, &own).await?))
    });
    for ((everywhere, at_root), rank) in gathered.await.into_iter().zip(ranks.clone()) {
        assert!(everywhere == wanted, "{rank}");
        assert!(at_root == (rank == 2).then(|| wanted.clone()), "{rank}");
    }
    let parts: Vec<_> = wanted.iter().filter(|(rank, _)| *rank != 1).cloned().collect();
    let scattered = all(&groups, |group| {
        let parts = parts.clone();
        async move { group.scatter(3, &parts).await }
    });
    for (mine, (rank, part)) in scattered.await.into_iter().zip(&wanted) {
        assert!(mine == (*rank != 1).then(|| part.clone()), "{rank}");
    }
    check_long_reductions(&groups).await;
}

async fn check_long_reductions(groups: &[Group]) {
    const COUNT: u32 = 131_072 + 7;
    let whole = |rank: u32| (0..COUNT).map(|at| u64::from(at) * (u64::from(rank) + 1)).collect();
    let real = |at: u32, rank: u32| 0.1 * f64::from(at) + f64::from(rank);
    let found = all(groups, |group| async move {
        let rank = group.rank();
        let (numbers, reals): (Vec<u64>, Vec<f64>) =
            (whole(rank), (0..COUNT).map(|at| real(at, rank)).collect());
        let sum = group.all_reduce(Reduction::Sum, &numbers).await?;
        let most = group.reduce(1, Reduction::Max, &numbers).await?;
        let reals = group.all_reduce(Reduction::Sum, &reals).await?;
        Ok((sum, most, reals, group.scan(Reduction::Sum, &numbers).await?))
    });
    for ((sum, most, reals, up_to), rank) in found.await.into_iter().zip(0_u64..) {
        let factor = |at: u64, factor: u64| at * factor;
        assert!(sum.iter().zip(0..).all(|(sum, at)| *sum == factor(at, 10)), "{rank}");
        assert_eq!(most.is_some(), rank == 1);
        assert!(most.iter().flatten().zip(0..).all(|(most, at)| *most == factor(at, 4)));
        assert_eq!([sum.len(), reals.len(), up_to.len()], [COUNT as usize; 3]);
        assert!((0..COUNT).zip(&reals).all(|(at, sum)| {
            let wanted = (0..4).map(|rank| real(at, rank)).reduce(|one, two| one + two);
            wanted.map(f64::to_bits) == Some(sum.to_bits())
        }));
        let ranks = (rank + 1) * (rank + 2) / 2;
        assert!(up_to.iter().zip(0..).all(|(sum, at)| *sum == factor(at, ranks)), "{rank}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_operations_give_what_a_plain_computation_gives() {
    check_long_operations(Layout::leaf_spine()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_operations_give_the_same_on_the_direct_path() {
    check_long_operations(Layout::leaf_spine().with_direct_paths()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_that_are_too_long_in_all_members_together_are_cut_further() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let nodes: Vec<&str> = NODES.iter().copied().cycle().take(33).collect();
    let mut groups = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let settings = settings(&cluster, node).process(format!("many-{number}"));
        groups.push(soon(Client::attach(settings)).await.unwrap().join("g").await.unwrap());
    }
    for group in &groups {
        group.take_part().await.unwrap();
    }
    for group in &groups {
        soon(group.wait_for(nodes.len())).await.unwrap();
    }
    // More than the 32 MiB that one operation of the message layer carries.
    let sums = all(&groups, |group| async move {
        let sums = group.all_reduce(Reduction::Sum, &[0.5; SEGMENT / 8]).await?;
        Ok(sums == [16.5; SEGMENT / 8])
    });
    assert_eq!(sums.await, vec![true; nodes.len()]);
}

/// A member on node `n0` that calls the operations of single segments, as a client does.
struct RawMember {
    calls: ProcessServiceClient<Channel>,
    session: u64,
    _attached: Streaming<v1::AttachProcessResponse>,
    _asks: mpsc::UnboundedSender<v1::TakePartRequest>,
    _news: Streaming<v1::TakePartResponse>,
}

impl RawMember {
    async fn take_part(cluster: &Cluster, process: &str) -> Self {
        let socket = format!("unix://{}", cluster.socket(0).display());
        let channel = Endpoint::from_shared(socket).unwrap().connect().await.unwrap();
        let mut calls = ProcessServiceClient::new(channel);
        let (process, node) = (process.to_owned(), "n0".to_owned());
        let request = v1::AttachProcessRequest { process, node, ..<_>::default() };
        let mut attached = calls.attach_process(request).await.unwrap().into_inner();
        let session = attached.message().await.unwrap().unwrap().session;
        let group = "g".to_owned();
        let join = v1::ProcessServiceJoinGroupRequest { session, group: group.clone() };
        soon(calls.join_group(join)).await.unwrap();
        let (asks, asked) = mpsc::unbounded_channel();
        asks.send(v1::TakePartRequest { session, group, more: 9, part: 0 }).unwrap();
        let news = soon(calls.take_part(UnboundedReceiverStream::new(asked))).await.unwrap();
        let mut news = news.into_inner();
        soon(news.message()).await.unwrap().unwrap();
        Self { calls, session, _attached: attached, _asks: asks, _news: news }
    }

    /// Runs a segment of an all-reduce of two.
    async fn add(
        &mut self,
        segment: u32,
        policy: v1::FailurePolicy,
    ) -> Result<v1::OperationResult, Status> {
        let kind = v1::numbers::Kind::U64(v1::Uint64Numbers { numbers: vec![1; SEGMENT / 8] });
        let operation = v1::GroupOperation {
            kind: v1::OperationKind::AllReduce.into(),
            reduction: v1::Reduction::Sum.into(),
            on_failure: policy.into(),
            numbers: Some(v1::Numbers { kind: Some(kind) }),
            segment,
            segment_cut: 2,
            ..Default::default()
        };
        let request = v1::RunOperationRequest {
            session: self.session,
            group: "g".to_owned(),
            operation: Some(operation),
            ..Default::default()
        };
        let ended = soon(self.calls.run_operation(request)).await?;
        Ok(ended.into_inner().result.unwrap())
    }
}

/// Two members that add up two segments of ones, and one whose segments the test calls. The members
/// live as long as the groups: one that ended with its own error would fail the others' operation.
async fn with_a_raw_member(
    cluster: &Cluster,
    survivors: bool,
) -> (RawMember, Vec<Group>, Vec<tokio::task::JoinHandle<Result<Vec<u64>, Error>>>) {
    let groups = form(cluster, "g", &["n0", "n9"]).await;
    let raw = RawMember::take_part(cluster, "raw").await;
    for group in &groups {
        soon(group.wait_for(3)).await.unwrap();
    }
    let add = |group: Group| async move {
        let group = if survivors { group.among_survivors() } else { group };
        group.all_reduce(Reduction::Sum, &[1_u64; 2 * SEGMENT / 8]).await
    };
    let running = groups.iter().map(|group| tokio::spawn(add(group.clone()))).collect();
    (raw, groups, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_gone_between_two_segments_fails_the_operation() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let (mut raw, _members, running) = with_a_raw_member(&cluster, false).await;
    let first = raw.add(0, v1::FailurePolicy::Fail).await.unwrap();
    assert_eq!(first.participants, [0, 1, 2]);
    assert_eq!(first.longest_contribution_bytes, SEGMENT as u64);
    drop(raw);
    for one in running {
        let error = soon(one).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::MembersFailed { failed } if *failed == [2]), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn survivors_begin_again_without_the_first_segments_of_a_member_that_is_gone() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let (mut raw, _members, running) = with_a_raw_member(&cluster, true).await;
    raw.add(0, v1::FailurePolicy::Survivors).await.unwrap();
    drop(raw);
    for one in running {
        let sums = soon(one).await.unwrap().unwrap();
        assert!(sums.len() == 2 * SEGMENT / 8 && sums.iter().all(|sum| *sum == 2), "a mix");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_begins_while_others_are_at_the_next_segment_gets_an_error_like_them() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let (mut raw, _members, running) = with_a_raw_member(&cluster, false).await;
    raw.add(0, v1::FailurePolicy::Fail).await.unwrap();
    let refused = raw.add(0, v1::FailurePolicy::Fail).await.unwrap_err();
    assert_eq!(reason_of(&refused).unwrap(), "OPERATIONS_DIFFER");
    assert!(refused.message().contains("segment 1"), "{}", refused.message());
    for one in running {
        let error = soon(one).await.unwrap().unwrap_err();
        let Error::Refused { reason, .. } = &error else { panic!("{error}") };
        assert_eq!(reason, "OPERATIONS_DIFFER", "{error}");
    }
}
