//! Memory that forbidden calls take, measured in a process without other tests.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

#[path = "support/known.rs"]
mod known;

use fabricast_rpc::{Authority, BoundServer, Peer, Services};
use http_body_util::Full;
use peak_alloc::PeakAlloc;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::{Code, Status};
use tower::ServiceExt;

use self::known::{DAY, known};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Length of the longest request of most services.
const LENGTH: usize = 4 << 20;
/// Length of the longest request of all.
const LONGEST: usize = 64 << 20;
/// Bytes that all forbidden calls together may take, in the server and in the clients.
const MOST: usize = 16 << 20;

/// A frame with a message of this length, in a field that nobody knows.
fn frame(length: usize) -> Bytes {
    let mut message = Vec::new();
    // Its key has two bytes, its length has four.
    prost::encoding::bytes::encode(1_000, &vec![0_u8; length - 6], &mut message);
    let length = u32::try_from(message.len()).unwrap();
    Bytes::from([&[0][..], &length.to_be_bytes(), &message[..]].concat())
}

/// Makes so many calls at once, distributed over these clients. Answers their codes, `None` for a
/// call that is served, and the most memory that they took.
async fn call_at_once(
    peers: &[Peer],
    count: usize,
    call: &str,
    frame: &Bytes,
) -> (Vec<Option<Code>>, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let begin = |peer: &Peer| {
        let request = http::Request::post(format!("http://{}/fabricast.v1.{call}", peer.address()))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Body::new(Full::new(frame.clone())))
            .unwrap();
        tokio::spawn(peer.channel().oneshot(request))
    };
    let begun: Vec<_> = peers.iter().cycle().take(count).map(begin).collect();
    let mut codes = Vec::new();
    for answer in begun {
        let answer = answer.await.unwrap().unwrap();
        codes.push(Status::from_header_map(answer.headers()).map(|status| status.code()));
    }
    (codes, ALLOCATOR.peak_usage().saturating_sub(before))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_forbidden_calls_of_the_longest_messages_take_little_memory() {
    let ours = Authority::create(OffsetDateTime::now_utc() - DAY, DAY * 3).unwrap();
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), known(&ours, "tic/a")).unwrap();
    let (address, stop) = (bound.address().to_string(), CancellationToken::new());
    let serving = bound.serve(Services::new("tic"), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    // The roles whose changes are audited.
    let people = ["admin/a", "reader/r", "tenant-admin/t", "tenant/t"];
    let peers = people.map(|identity| known(&ours, identity).peer(&address).unwrap());
    let forbidden = "TicService/RegisterNode";
    // Connections are made before anything is measured.
    call_at_once(&peers, 60, forbidden, &Bytes::from_static(&[0; 5])).await;
    for length in [LENGTH, LONGEST] {
        let (codes, taken) = call_at_once(&peers, 60, forbidden, &frame(length)).await;
        assert_eq!(codes, [Some(Code::PermissionDenied); 60]);
        assert!(taken <= MOST, "{taken} bytes beside messages of {length}");
    }
    // The same bytes are measured if a call is allowed and read.
    let allowed = "AdministrationService/GetServerInfo";
    let (codes, taken) = call_at_once(&peers, 4, allowed, &frame(LENGTH)).await;
    assert_eq!(codes, [None; 4]);
    assert!(taken >= LENGTH, "{taken} bytes");
}
