//! Connections that are opened and not used shut nobody out, and leave few log lines.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]
#![expect(clippy::print_stderr, reason = "figures are told that do not fail the test")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_rpc::{Authority, BoundServer, CertificateFiles, Limits, Peer, Security, Services};
use fabricast_telemetry::{FILTER_VARIABLE, Format};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

const DAY: time::Duration = time::Duration::days(1);
/// The beginning of HTTP/2: preface and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Least half-open connections in a second of a flood.
const LEAST_RATE: f64 = 1_000.0;
/// Interval between two of them: 1,250 in a second.
const FLOOD_INTERVAL: Duration = Duration::from_micros(800);
/// Interval in which those that are due are begun together.
const FLOOD_TICK: Duration = Duration::from_millis(10);
/// A flood that was held up for longer does not catch up: it would be more than its rate.
const MOST_BEHIND: Duration = Duration::from_millis(100);
/// Most connections of a flood that are being made.
const PENDING: usize = 512;
/// Connections of a flood that are kept: twice as many as the server has handshakes at a time.
const KEPT: u32 = 2_048;
/// Files that a flood takes, those of the server among them.
const FLOOD_FILES: u64 = 4_096;
/// Timeout of a flood that has to reach its rate, or to make its next connections.
const FLOOD_TIMEOUT: Duration = Duration::from_secs(60);
/// Calls that are measured beside a flood, each on a connection of its own.
const FIRST_CALLS: usize = 100;
/// Bound of the 99th percentile of their times.
const FIRST_CALL_BOUND: Duration = Duration::from_secs(1);
/// Set in the process whose log is read.
const LOGS: &str = "FABRICAST_TEST_WRITES_LOG";
/// Most log lines about connections in an interval.
const LINES: u64 = 10;
const INTERVAL: Duration = Duration::from_secs(10);
/// Connections without a certificate.
const UNCERTIFIED: u32 = 300;

fn serve(security: Security) -> (SocketAddr, DropGuard) {
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), security).unwrap();
    let (address, stop) = (bound.address(), CancellationToken::new());
    let serving = bound.serve(Services::new("tic"), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    (address, stop.drop_guard())
}

/// Certificates of a part that is both server and client.
fn certificates(folder: &Path) -> CertificateFiles {
    let from = OffsetDateTime::now_utc() - DAY;
    let authority = Authority::create(from, DAY * 3).unwrap();
    let hosts = ["127.0.0.1".to_owned()];
    let own = authority.issue(&["tic/a".parse().unwrap()], &hosts, from, DAY * 2).unwrap();
    let files = CertificateFiles::in_folder(folder);
    files.write(&authority, &own).unwrap();
    files
}

async fn ask(peer: &Peer) -> Result<(), Status> {
    let mut client = AdministrationServiceClient::new(peer.channel());
    client.get_server_info(v1::GetServerInfoRequest {}).await.map(|_| ())
}

/// Connects from one of 256 addresses of this machine.
async fn connect(to: SocketAddr, number: u32) -> std::io::Result<TcpStream> {
    let [.., from] = number.to_be_bytes();
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 2, from], 0).into())?;
    socket.connect(to).await
}

/// Lets this process open the files that a flood takes.
fn allow_files() {
    let own = getrlimit(Resource::Nofile);
    if own.current.is_some_and(|files| files < FLOOD_FILES) {
        let more = Rlimit { current: Some(FLOOD_FILES), maximum: own.maximum };
        let allowed = setrlimit(Resource::Nofile, more);
        allowed.unwrap_or_else(|error| panic!("{FLOOD_FILES} open files are needed: {error}"));
    }
}

/// Connects and says nothing, or begins a handshake: the header of a record that does not come.
async fn half_open(to: SocketAddr, number: u32) -> std::io::Result<TcpStream> {
    let mut stream = connect(to, number).await?;
    if number.is_multiple_of(2) {
        // The server may have closed it to make room.
        let _ = stream.write_all(&[0x16, 3, 1, 2, 0]).await;
    }
    Ok(stream)
}

/// Half-open connections that are made at a steady rate, whatever the server does with them.
struct HalfOpenFlood {
    to: SocketAddr,
    /// Number of connections that were made.
    made: Arc<AtomicU32>,
    pending: JoinSet<std::io::Result<TcpStream>>,
    /// The oldest first.
    kept: VecDeque<TcpStream>,
}

impl HalfOpenFlood {
    fn new(to: SocketAddr) -> Self {
        Self { to, made: Arc::default(), pending: JoinSet::new(), kept: VecDeque::new() }
    }

    /// Goes on until it is aborted; a connection that cannot be made is a panic.
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(FLOOD_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut next, mut number) = (Instant::now(), 0);
        loop {
            ticks.tick().await;
            let now = Instant::now();
            next = next.max(now - MOST_BEHIND);
            while next <= now && self.pending.len() < PENDING {
                self.pending.spawn(half_open(self.to, number));
                next += FLOOD_INTERVAL;
                number += 1;
            }
            while let Some(made) = self.pending.try_join_next() {
                self.kept.push_back(made.unwrap().unwrap());
                self.made.fetch_add(1, Ordering::Relaxed);
            }
            while self.kept.len() > KEPT as usize {
                self.kept.pop_front();
            }
        }
    }
}

/// Waits until so many connections were made; false if that takes too long.
async fn has_made(made: &AtomicU32, count: u32) -> bool {
    let makes = async {
        while made.load(Ordering::Relaxed) < count {
            tokio::time::sleep(FLOOD_TICK).await;
        }
    };
    tokio::time::timeout(FLOOD_TIMEOUT, makes).await.is_ok()
}

/// Time of a client's first call, with a full handshake: the client has no session to resume. A
/// call that fails has the longest of all times.
async fn first_call(files: &CertificateFiles, to: SocketAddr) -> Duration {
    let client = Security::mutual(files.clone()).unwrap();
    let (peer, began) = (client.peer(&to.to_string()).unwrap(), Instant::now());
    match tokio::time::timeout(FIRST_CALL_BOUND * 2, ask(&peer)).await {
        Ok(Ok(())) => began.elapsed(),
        failed => {
            eprintln!("a call failed after {:?}: {failed:?}", began.elapsed());
            Duration::MAX
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_open_connections_delay_nobody() {
    allow_files();
    let folder = TempDir::new().unwrap();
    let files = certificates(folder.path());
    let (address, _serving) = serve(Security::mutual(files.clone()).unwrap());
    let flood = HalfOpenFlood::new(address);
    let made = Arc::clone(&flood.made);
    let flooding = tokio::spawn(flood.run());
    assert!(has_made(&made, KEPT).await, "too few connections were made in {FLOOD_TIMEOUT:?}");
    let (began, before) = (Instant::now(), made.load(Ordering::Relaxed));
    let mut delays = Vec::new();
    // More calls than these are measured while the flood is slower than it has to be.
    let rate = loop {
        delays.push(first_call(&files, address).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let elapsed = began.elapsed();
        let rate = f64::from(made.load(Ordering::Relaxed) - before) / elapsed.as_secs_f64();
        let is_over = rate >= LEAST_RATE || elapsed >= FLOOD_TIMEOUT;
        if delays.len() >= FIRST_CALLS && is_over {
            break rate;
        }
    };
    let at_end = made.load(Ordering::Relaxed);
    assert!(has_made(&made, at_end + 1).await, "the flood has stopped");
    assert!(!flooding.is_finished(), "the flood has ended");
    flooding.abort();
    delays.sort();
    let p99 = delays[(delays.len() * 99).div_ceil(100) - 1];
    let told = format!("p99 {p99:?} of {} calls beside {rate:.0} connections/s", delays.len());
    if rate < LEAST_RATE {
        eprintln!("this machine is too busy for {LEAST_RATE:.0} connections/s: {told}");
    }
    assert!(p99 < FIRST_CALL_BOUND, "{told}: {delays:?}");
}

#[tokio::test]
async fn idle_connections_make_room_for_others() {
    let limits = Limits { connections: 256, client_connections: 256, ..Limits::default() };
    let (address, _serving) = serve(Security::plaintext().limited(limits));
    let used = Peer::new(&address.to_string()).unwrap();
    ask(&used).await.unwrap();
    let mut idle = Vec::new();
    for number in 0..1_000 {
        let mut stream = connect(address, number).await.unwrap();
        // Refused ones are closed at once.
        let _ = stream.write_all(PREFACE).await;
        idle.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..20 {
        ask(&Peer::new(&address.to_string()).unwrap()).await.unwrap();
    }
    ask(&used).await.unwrap();
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let (address, _serving) = serve(Security::plaintext());
    let mut silent = connect(address, 1).await.unwrap();
    let mut half = connect(address, 1).await.unwrap();
    half.write_all(&PREFACE[..10]).await.unwrap();
    let mut speaks = connect(address, 1).await.unwrap();
    speaks.write_all(PREFACE).await.unwrap();
    let limit = Duration::from_secs(9);
    for stream in [&mut silent, &mut half] {
        let ended = tokio::time::timeout(limit, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "it stands after {limit:?}");
    }
    let mut answer = [0; 9];
    speaks.read_exact(&mut answer).await.unwrap();
    let mut more = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(1), speaks.read_to_end(&mut more)).await;
    assert!(ended.is_err(), "it has spoken");
}

/// TLS of a client that trusts the authority and has no certificate.
fn uncertified(files: &CertificateFiles) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Connects without a certificate, in one of three ways, and stays until the server refuses.
async fn be_refused(to: SocketAddr, number: u32, tls: TlsConnector) {
    let mut stream = connect(to, number).await.unwrap();
    let mut answer = Vec::new();
    match number % 3 {
        0 => drop(stream),
        1 => {
            let _ = stream.write_all(PREFACE).await;
            let _ = stream.read_to_end(&mut answer).await;
        }
        _ => {
            let server = ServerName::try_from("127.0.0.1").unwrap();
            // The server asks for a certificate once the client's side of the handshake is done.
            if let Ok(mut stream) = tls.connect(server, stream).await {
                let _ = stream.read_to_end(&mut answer).await;
            }
        }
    }
}

/// Serves while many connect without a certificate, and one more an interval later.
async fn flood() {
    let folder = TempDir::new().unwrap();
    let files = certificates(folder.path());
    let tls = uncertified(&files);
    let security = Security::mutual(files).unwrap();
    let (address, _serving) = serve(security.clone());
    let connecting =
        (0..UNCERTIFIED).map(|number| tokio::spawn(be_refused(address, number, tls.clone())));
    for refused in connecting.collect::<Vec<_>>() {
        refused.await.unwrap();
    }
    ask(&security.peer(&address.to_string()).unwrap()).await.unwrap();
    // The next line is written in another interval.
    tokio::time::sleep(INTERVAL + Duration::from_secs(1)).await;
    be_refused(address, 1, tls).await;
}

#[test]
fn a_flood_of_connections_without_certificates_leaves_few_log_lines() {
    if std::env::var_os(LOGS).is_some() {
        let _logging = fabricast_telemetry::init("tic", Format::Json, "info").unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(flood());
        return;
    }
    let name = std::thread::current().name().expect("a test has a name").to_owned();
    let mut process = Command::new(std::env::current_exe().unwrap());
    let process = process.args(["--exact", &name, "--nocapture"]);
    let process = process.env(LOGS, "1").env_remove(FILTER_VARIABLE);
    let began = Instant::now();
    let output = process.output().unwrap();
    let flooded = began.elapsed().saturating_sub(INTERVAL);
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    let lines = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_of_server = |line: &Value| {
        line["target"].as_str().is_some_and(|target| target.starts_with("fabricast_rpc"))
    };
    let lines: Vec<Value> = lines.filter(is_of_server).collect();
    // One of them is that of the last connection.
    let most = LINES * (1 + flooded.as_secs() / INTERVAL.as_secs()) + 1;
    assert!(u64::try_from(lines.len()).unwrap() <= most, "more than {most} lines: {told}");
    // Each tells how many were left out before it, so that the last one completes the sum.
    let refused = lines.iter().map(|line| 1 + line["unlogged"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(refused, u64::from(UNCERTIFIED) + 1, "{told}");
}
