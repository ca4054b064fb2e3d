//! Connections that are opened and not used shut nobody out.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_rpc::{Authority, BoundServer, CertificateFiles, Limits, Peer, Security, Services};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

const DAY: time::Duration = time::Duration::days(1);
/// The beginning of HTTP/2: preface and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn serve(security: Security) -> (SocketAddr, DropGuard) {
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), security).unwrap();
    let (address, stop) = (bound.address(), CancellationToken::new());
    let serving = bound.serve(Services::new("tic"), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    (address, stop.drop_guard())
}

/// Security of a part that is both server and client.
fn security() -> Security {
    let from = OffsetDateTime::now_utc() - DAY;
    let authority = Authority::create(from, DAY * 3).unwrap();
    let hosts = ["127.0.0.1".to_owned()];
    let own = authority.issue(&["tic/a".parse().unwrap()], &hosts, from, DAY * 2).unwrap();
    let folder = TempDir::new().unwrap();
    let files = CertificateFiles::in_folder(folder.path());
    for (path, text) in [
        (&files.authority, &authority.credentials().certificate),
        (&files.certificate, &own.certificate),
        (&files.key, &own.key),
    ] {
        std::fs::write(path, text).unwrap();
    }
    Security::mutual(files).unwrap()
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

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_delay_nobody() {
    let security = security();
    let (address, _serving) = serve(security.clone());
    let flood = tokio::spawn(async move {
        let mut open = Vec::new();
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for number in 0.. {
            if number % 10 == 0 {
                ticks.tick().await;
            }
            let Ok(mut stream) = connect(address, number).await else { continue };
            // Some begin a handshake: the header of a record that does not come.
            if number % 2 == 0 {
                let _ = stream.write_all(&[0x16, 3, 1, 2, 0]).await;
            }
            open.push(stream);
        }
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut delays = Vec::new();
    for _ in 0..100 {
        let (peer, began) = (security.peer(&address.to_string()).unwrap(), Instant::now());
        ask(&peer).await.unwrap();
        delays.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    flood.abort();
    delays.sort();
    assert!(delays[98] < Duration::from_secs(1), "p99 {:?} of {delays:?}", delays[98]);
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
