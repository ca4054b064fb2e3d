//! Limits of clients, over real sockets.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

#[path = "limits/answers.rs"]
mod answers;
#[path = "support/known.rs"]
mod known;
#[path = "limits/withheld.rs"]
mod withheld;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::{BytesCodec, v1};
use fabricast_rpc::{
    AskReadiness, Authority, BoundServer, BoundSocket, Channel, Limits, Peer, Reason, Role,
    Security, Services, measured, reason_of, retry_after,
};
use fabricast_telemetry::metrics::LIMITED;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service};
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use self::known::{DAY, known};

/// So slow that nothing is earned back while a test runs.
const FEW: Limits = Limits {
    calls_per_second: 1,
    burst: 5,
    processor_percent: 50,
    open_calls: 3,
    client_connections: 2,
    connections: 4,
    client_request_bytes: 6 << 20,
    request_bytes: 1 << 30,
};

/// Serves until the guard is dropped; answers the address.
fn serve(security: Security) -> (String, DropGuard) {
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), security).unwrap();
    let (address, stop) = (bound.address().to_string(), CancellationToken::new());
    let serving = bound.serve(Services::new("tic"), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    (address, stop.drop_guard())
}

fn authority() -> Authority {
    Authority::create(OffsetDateTime::now_utc() - DAY, DAY * 3).unwrap()
}

async fn ask(channel: Channel) -> Result<(), Status> {
    let mut client = AdministrationServiceClient::new(channel);
    client.get_server_info(v1::GetServerInfoRequest {}).await.map(|_| ())
}

/// Opens a stream that does not end by itself.
async fn watch(channel: Channel) -> Result<Streaming<HealthCheckResponse>, Status> {
    let request = HealthCheckRequest::default();
    Ok(HealthClient::new(channel).watch(request).await?.into_inner())
}

/// Opens a stream over a connection of its own.
async fn open_connection(
    security: Security,
    address: &str,
) -> Result<(Peer, Streaming<HealthCheckResponse>), Status> {
    let peer = security.peer(address).unwrap();
    let stream = watch(peer.channel()).await?;
    Ok((peer, stream))
}

/// Calls with a message of one field, which nobody knows and which has so many bytes.
async fn send(channel: Channel, bytes: usize) -> Result<(), Status> {
    let mut message = Vec::new();
    prost::encoding::bytes::encode(1_000, &vec![0_u8; bytes], &mut message);
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = "/fabricast.v1.AdministrationService/GetServerInfo".parse().unwrap();
    client.unary(tonic::Request::new(message), path, BytesCodec).await.map(|_| ())
}

/// Repeats a call until no limit refuses it.
async fn in_time<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> T {
    let patience = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(status) => assert!(tokio::time::Instant::now() < patience, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_client_that_calls_too_often_is_refused_and_no_other_is() {
    let ours = authority();
    let (address, _serving) = serve(known(&ours, "tic/a").limited(FEW));
    let noisy = known(&ours, "tenant/noisy").peer(&address).unwrap();
    let again = known(&ours, "tenant/noisy").peer(&address).unwrap();
    for _ in 0..5 {
        ask(noisy.channel()).await.unwrap();
    }
    // Another connection, and another certificate with the same name, are the same client.
    for peer in [&noisy, &again] {
        let refused = ask(peer.channel()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(Reason::RateLimited.is_of(&refused), "{refused}");
        assert!(refused.message().contains("tenant/noisy makes more than 1 calls"), "{refused}");
        let wait = retry_after(&refused).unwrap();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1), "{wait:?}");
    }
    let counted = LIMITED.count("AdministrationService", "tenant", "calls_per_second");
    assert_eq!(counted, 2);
    let quiet = known(&ours, "tenant/quiet").peer(&address).unwrap();
    for _ in 0..5 {
        ask(quiet.channel()).await.unwrap();
    }
}

#[tokio::test]
async fn every_role_is_held_to_the_limits() {
    let ours = authority();
    let limits = Limits { connections: 100, open_calls: 2, ..FEW };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    let refusal = |status: Status| reason_of(&status).unwrap_or_default();
    for role in Role::ALL {
        let peer = known(&ours, &format!("{}/x", role.word())).peer(&address).unwrap();
        let _open = [watch(peer.channel()).await.unwrap(), watch(peer.channel()).await.unwrap()];
        let third = watch(peer.channel()).await.unwrap_err();
        assert_eq!(refusal(third), Reason::TooManyOpenCalls.text(), "{role:?}");
        let peer = known(&ours, &format!("{}/y", role.word())).peer(&address).unwrap();
        for _ in 0..5 {
            ask(peer.channel()).await.unwrap();
        }
        let sixth = ask(peer.channel()).await.unwrap_err();
        assert_eq!(refusal(sixth), Reason::RateLimited.text(), "{role:?}");
    }
}

#[tokio::test]
async fn every_role_has_a_bounded_number_of_connections() {
    let ours = authority();
    let limits = Limits { connections: 100, burst: 100, open_calls: 100, ..FEW };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    for role in Role::ALL {
        let own = known(&ours, &format!("{}/x", role.word()));
        let _first = open_connection(own.clone(), &address).await.unwrap();
        let _second = open_connection(own.clone(), &address).await.unwrap();
        // The connection is closed, so no call is refused with a reason.
        let third = open_connection(own, &address).await.unwrap_err();
        assert_eq!(reason_of(&third), None, "{role:?}: {third}");
        assert!(LIMITED.count("-", role.word(), "client_connections") > 0, "{role:?}");
    }
}

#[tokio::test]
async fn every_role_has_bounded_bytes_of_requests() {
    let ours = authority();
    let limits = Limits { connections: 100, ..FEW };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    for role in Role::ALL {
        let peer = known(&ours, &format!("{}/x", role.word())).peer(&address).unwrap();
        let (refused, _open) = exceed_bytes(&peer).await;
        assert_eq!(refused.code(), Code::ResourceExhausted, "{role:?}: {refused}");
        assert!(Reason::TooManyRequestBytes.is_of(&refused), "{role:?}: {refused}");
        assert!(retry_after(&refused).is_some(), "{role:?}");
    }
}

#[tokio::test]
async fn every_role_sends_messages_of_up_to_four_mebibytes() {
    let ours = authority();
    let limits = Limits { connections: 100, ..FEW };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    // Key and length of the field have 6 bytes.
    let longest = (4 << 20) - 6;
    for role in Role::ALL {
        let peer = known(&ours, &format!("{}/x", role.word())).peer(&address).unwrap();
        let served = send(peer.channel(), longest).await;
        assert!(served.is_ok(), "{role:?}: {served:?}");
        let refused = send(peer.channel(), longest + 1).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{role:?}: {refused}");
    }
}

#[tokio::test]
async fn streams_are_open_calls_until_they_end() {
    let limits = Limits { burst: 1_000, ..FEW };
    let (address, _serving) = serve(Security::plaintext().limited(limits));
    let peer = Peer::new(&address).unwrap();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(watch(peer.channel()).await.unwrap());
    }
    let refused = watch(peer.channel()).await.unwrap_err();
    assert!(Reason::TooManyOpenCalls.is_of(&refused), "{refused}");
    assert!(retry_after(&refused).is_some());
    let refused = ask(peer.channel()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "a short call is one more, too");
    // In plain text on one machine another connection is another client.
    ask(Peer::new(&address).unwrap().channel()).await.unwrap();
    open.pop();
    in_time(async || watch(peer.channel()).await).await;
}

/// Begins a call with a message of 4 MiB less a byte, of which so many bytes are sent.
async fn send_part(
    mut channel: Channel,
    bytes: usize,
) -> (mpsc::Sender<Bytes>, JoinHandle<Option<Status>>) {
    let (parts, received) = mpsc::channel(2);
    let frames = ReceiverStream::new(received).map(|data| Ok::<_, Status>(Frame::data(data)));
    let request = http::Request::post("/fabricast.v1.AdministrationService/GetServerInfo")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(StreamBody::new(frames)))
        .unwrap();
    // A field that nobody knows, with texts of any length.
    let head = [&[0][..], &((4_u32 << 20) - 1).to_be_bytes(), &[15 << 3 | 2, 250, 255, 255, 1]];
    parts.send(Bytes::from(head.concat())).await.unwrap();
    parts.send(Bytes::from(vec![b'x'; bytes])).await.unwrap();
    let answer = tokio::spawn(async move {
        std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
        let answer = channel.call(request).await.unwrap();
        Status::from_header_map(answer.headers())
    });
    (parts, answer)
}

/// Begins two requests that together have more bytes than a client may have. Answers the refusal of
/// one of them, and what keeps both from ending by themselves.
async fn exceed_bytes(peer: &Peer) -> (Status, [mpsc::Sender<Bytes>; 2]) {
    let (parts, first) = send_part(peer.channel(), 7 << 19).await;
    let (more_parts, second) = send_part(peer.channel(), 7 << 19).await;
    // One of the two, whichever comes second.
    let either = async {
        tokio::select! { one = first => one, one = second => one }
    };
    let refused = tokio::time::timeout(Duration::from_secs(30), either).await;
    let refused = refused.expect("one is refused").unwrap().expect("none is complete");
    (refused, [parts, more_parts])
}

#[tokio::test]
async fn a_client_cannot_begin_more_requests_than_its_share_of_memory() {
    let ours = authority();
    let limits = Limits { burst: 100, ..FEW };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    let noisy = known(&ours, "tenant/noisy").peer(&address).unwrap();
    let (refused, parts) = exceed_bytes(&noisy).await;
    assert!(Reason::TooManyRequestBytes.is_of(&refused), "{refused}");
    assert!(refused.message().contains("tenant/noisy has more than 6291456 bytes"), "{refused}");
    assert!(retry_after(&refused).is_some());
    assert!(LIMITED.count("AdministrationService", "tenant", "client_request_bytes") > 0);
    let quiet = known(&ours, "tenant/quiet").peer(&address).unwrap();
    let (_open, still) = send_part(quiet.channel(), 7 << 19).await;
    ask(quiet.channel()).await.unwrap();
    assert!(!still.is_finished(), "another client has its own share");
    drop(parts);
}

#[tokio::test]
async fn connections_are_bounded_for_a_client_and_for_all() {
    let ours = authority();
    let (address, _serving) = serve(known(&ours, "tic/a").limited(FEW));
    let connect = async |identity: &str| open_connection(known(&ours, identity), &address).await;
    let first = connect("admin/a").await.unwrap();
    let second = connect("admin/a").await.unwrap();
    assert!(connect("admin/a").await.is_err(), "one more than a client may have");
    drop(second);
    let mut others = Vec::new();
    for identity in ["admin/b", "admin/c", "admin/d"] {
        others.push(connect(identity).await.unwrap());
    }
    assert!(connect("admin/e").await.is_err(), "one more than there may be");
    assert!(LIMITED.count("-", "admin", "client_connections") > 0);
    assert!(LIMITED.count("-", "anyone", "connections") > 0);
    drop(first);
    in_time(async || connect("admin/e").await).await;
}

#[tokio::test]
async fn connections_in_use_by_few_clients_shut_nobody_out() {
    let ours = authority();
    let limits = Limits { connections: 32, client_connections: 32, burst: 1_000, ..FEW };
    let limits = Limits { calls_per_second: 1_000, open_calls: 1_000, ..limits };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    let connect = async |identity: &str| open_connection(known(&ours, identity), &address).await;
    let mut held = Vec::new();
    for _ in 0..16 {
        for identity in ["tenant/a", "tenant/b"] {
            held.push(connect(identity).await.unwrap());
        }
    }
    // All are in use, and there is no more room.
    let mut others = Vec::new();
    for number in 0..6 {
        others.push(connect(&format!("tenant/other-{number}")).await.unwrap());
    }
    // The oldest of the two go on.
    for (_, stream) in held.iter_mut().take(2).chain(&mut others) {
        stream.message().await.unwrap().unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(20), stream.message()).await;
        assert!(ended.is_err(), "{ended:?}");
    }
}

#[tokio::test]
async fn a_leader_channel_comes_again_when_it_was_asked_to() {
    let limits = Limits { calls_per_second: 20, burst: 1, ..FEW };
    for count in [1, 2] {
        let (address, _serving) = serve(Security::plaintext().limited(limits));
        let addresses = vec![address; count];
        let leader = Security::plaintext().leader(&addresses).unwrap();
        let mut client = AdministrationServiceClient::new(leader.channel());
        for _ in 0..5 {
            client.get_server_info(v1::GetServerInfoRequest {}).await.unwrap();
        }
    }
    assert!(LIMITED.count("AdministrationService", "anyone", "calls_per_second") > 0);
}

#[tokio::test]
async fn whoever_shows_no_certificate_has_no_connection_in_use_closed() {
    let ours = authority();
    let limits = Limits { connections: 4, client_connections: 4, open_calls: 8, ..FEW };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    let connect = async |identity: &str| open_connection(known(&ours, identity), &address).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(connect("tenant/a").await.unwrap());
    }
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    // The newest connection makes room for one that shows another certificate.
    in_time(async || connect("tenant/b").await).await;
    for (_, stream) in held.iter_mut().take(3) {
        stream.message().await.unwrap().unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(20), stream.message()).await;
        assert!(ended.is_err(), "{ended:?}");
    }
}

#[tokio::test]
async fn processes_at_a_socket_are_limited_too() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("agent.sock");
    let security = Security::plaintext().limited(FEW);
    let (bound, stop) =
        (BoundSocket::bind(&path, 0o600).unwrap().limited(&security), CancellationToken::new());
    let serving = bound.serve(Services::new("operating-agent"), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    let (first, second) = (at_socket(&path), at_socket(&path));
    // A user may make the calls of 16 clients.
    let (allowed, _) = until_refused(first).await;
    assert!(allowed >= 16 * FEW.burst, "{allowed}");
    // Both are connections of one user, which has earned some calls meanwhile.
    let (allowed, refused) = until_refused(second).await;
    assert!(allowed < 16 * FEW.burst, "{allowed}");
    assert!(Reason::RateLimited.is_of(&refused), "{refused}");
    let who = format!("user {} makes more than 16 calls", path.metadata().unwrap().uid());
    assert!(refused.message().starts_with(&who), "{refused}");
}

fn at_socket(path: &Path) -> Channel {
    let socket = Endpoint::from_shared(format!("unix://{}", path.display())).unwrap();
    Channel::new(socket.connect_lazy(), "socket".into())
}

/// Calls until a call is refused; gives the number of those that were not.
async fn until_refused(channel: Channel) -> (u32, Status) {
    for allowed in 0..100_000 {
        if let Err(refused) = ask(channel.clone()).await {
            return (allowed, refused);
        }
    }
    panic!("no call is refused");
}

/// Names the socket to the process that a test starts.
const SOCKET: &str = "FABRICAST_TEST_SOCKET";

#[tokio::test]
async fn processes_of_one_user_have_no_more_than_one_of_them() {
    if let Some(path) = std::env::var_os(SOCKET) {
        // This is the other process, and its connection the third of the user.
        ask(at_socket(Path::new(&path))).await.unwrap_err();
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("agent.sock");
    let security = Security::plaintext().limited(FEW);
    let (bound, stop) =
        (BoundSocket::bind(&path, 0o600).unwrap().limited(&security), CancellationToken::new());
    let serving = bound.serve(Services::new("operating-agent"), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    let channels = [at_socket(&path), at_socket(&path)];
    let first = watch(channels[0].clone()).await.unwrap();
    let run = || {
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "processes_of_one_user_have_no_more_than_one_of_them"]);
        other.env(SOCKET, &path);
        tokio::task::spawn_blocking(move || other.output().unwrap())
    };
    let allowed = run().await.unwrap();
    assert!(!allowed.status.success(), "there was room for a second connection: {allowed:?}");
    // The server may not have noticed yet that the other process is gone.
    let second = in_time(async || watch(channels[1].clone()).await).await;
    let refused = run().await.unwrap();
    assert!(refused.status.success(), "{refused:?}");
    drop((first, second));
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_and_the_connection_goes_on() {
    let (address, _serving) = serve(Security::plaintext());
    let peer = Peer::new(&address).unwrap();
    let service = "x".repeat(5 << 20);
    let checked = HealthClient::new(peer.channel()).check(HealthCheckRequest { service }).await;
    assert_eq!(checked.unwrap_err().code(), Code::OutOfRange);
    ask(peer.channel()).await.unwrap();
}

#[tokio::test]
async fn health_tells_if_a_part_is_ready() {
    let is_ready = Arc::<AtomicBool>::default();
    let asked = Arc::clone(&is_ready);
    let ask: AskReadiness = Arc::new(move || {
        let asked = Arc::clone(&asked);
        Box::pin(async move { asked.load(Ordering::Relaxed) })
    });
    let (bound, stop) = (
        BoundServer::bind(([127, 0, 0, 1], 0).into(), Security::plaintext()).unwrap(),
        CancellationToken::new(),
    );
    let address = bound.address().to_string();
    let (_, server) = tonic_health::server::health_reporter();
    // Any service will do; this one is named like those of others.
    let services = Services::new("tic").with(Named(server, Duration::ZERO)).with_readiness(ask);
    let serving = bound.serve(services, stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    let peer = Peer::new(&address).unwrap();
    for ready in [false, true, false] {
        is_ready.store(ready, Ordering::Relaxed);
        in_time(async || match peer.is_serving("test.Named").await? {
            serving if serving == ready => Ok(()),
            other => Err(Status::unknown(format!("{other}, not {ready}"))),
        })
        .await;
        assert!(peer.is_serving("").await.unwrap(), "it runs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_calls_cost_too_much_is_refused_and_another_is_served() {
    let ours = authority();
    let limits = Limits { burst: 1_000, processor_percent: 1, open_calls: 100, ..FEW };
    let security = known(&ours, "tic/a").limited(limits);
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), security).unwrap();
    let (address, stop) = (bound.address().to_string(), CancellationToken::new());
    let (_, server) = tonic_health::server::health_reporter();
    // One call takes more than a burst and the debt that is waited for.
    let costly = Named(server, Duration::from_millis(1_500));
    let serving = bound.serve(Services::new("tic").with(costly), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    let noisy = known(&ours, "tenant/noisy").peer(&address).unwrap();
    let mut client = tonic::client::Grpc::new(noisy.channel());
    client.ready().await.unwrap();
    let path = "/test.Named/Any".parse().unwrap();
    // There is no such call, which is found out after the work.
    let missing = client.unary(tonic::Request::new(Vec::new()), path, BytesCodec).await;
    assert!(missing.is_err());
    let again = known(&ours, "tenant/noisy").peer(&address).unwrap();
    for peer in [&noisy, &again] {
        // On a busy machine the client may have given up before the work was done.
        let refused = in_time(async || match ask(peer.channel()).await {
            Ok(()) => Err(Status::unknown("served")),
            Err(refused) => Ok(refused),
        });
        let refused = refused.await;
        assert!(Reason::RateLimited.is_of(&refused), "{refused}");
        assert!(refused.message().contains("tenant/noisy uses more than 1 %"), "{refused}");
        assert!(retry_after(&refused).unwrap() > Duration::from_secs(1), "{refused:?}");
    }
    assert!(LIMITED.count("AdministrationService", "tenant", "processor_percent") >= 2);
    let quiet = known(&ours, "tenant/quiet").peer(&address).unwrap();
    for _ in 0..20 {
        ask(quiet.channel()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_messages_of_one_client_take_turns_and_all_are_answered() {
    let ours = authority();
    let limits = Limits { client_request_bytes: 64 << 20, ..Limits::default() };
    let (address, _serving) = serve(known(&ours, "tic/a").limited(limits));
    let peer = known(&ours, "tenant/a").peer(&address).unwrap();
    let calls = (0..24).map(|_| tokio::spawn(send(peer.channel(), 1 << 20)));
    for call in calls.collect::<Vec<_>>() {
        let ended = tokio::time::timeout(Duration::from_secs(60), call).await;
        ended.expect("it has its turn").unwrap().unwrap();
    }
}

/// A service under another name, whose calls take so much processor time.
#[derive(Clone)]
struct Named<S>(S, Duration);

impl<S> tonic::server::NamedService for Named<S> {
    const NAME: &'static str = "test.Named";
}

impl<S: Service<R>, R> Service<R> for Named<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        let mut spent = Duration::ZERO;
        while spent < self.1 {
            spent += measured(|| std::hint::black_box((0..10_000).sum::<u64>())).1;
        }
        self.0.call(request)
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_are_the_callers_fault() {
    let (address, _serving) = serve(Security::plaintext());
    let mut client = tonic::client::Grpc::new(Peer::new(&address).unwrap().channel());
    for call in ["fabricast.v1.AdministrationService/GetServerInfo", "grpc.health.v1.Health/Check"]
    {
        client.ready().await.unwrap();
        let path = format!("/{call}").parse().unwrap();
        let refused = client.unary(tonic::Request::new(vec![0xff; 9]), path, BytesCodec).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{call}: {refused}");
        assert!(Reason::RequestUnreadable.is_of(&refused), "{refused}");
        assert!(refused.message().contains("decode"), "{refused}");
    }
}

#[tokio::test]
async fn whoever_shows_no_certificate_keeps_nobody_waiting() {
    let ours = authority();
    let (address, _serving) = serve(known(&ours, "tic/a"));
    let mut silent = Vec::new();
    for _ in 0..300 {
        // Closed by the server, or kept in its handshake.
        silent.extend(TcpStream::connect(&address).await);
    }
    // From the same machine a place has to come free first, which takes a handshake's time at most.
    let friend = known(&ours, "admin/a").peer(&address).unwrap();
    in_time(async || ask(friend.channel()).await).await;
    drop(silent);
}
