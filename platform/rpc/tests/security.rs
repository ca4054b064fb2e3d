//! Servers and clients with certificates, over real sockets.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{
    Authority, BoundServer, BrowserTls, CertificateFiles, Channel, Credentials, ExternalTls, Peer,
    Reason, Security, Services,
};
use fabricast_telemetry::metrics::CERTIFICATE_EXPIRY;
use http_body_util::{BodyStream, Full, StreamBody};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::ServiceExt;

const DAY: time::Duration = time::Duration::days(1);

fn authority() -> Authority {
    Authority::create(OffsetDateTime::now_utc() - DAY, DAY * 3).expect("a key")
}

fn issue(authority: &Authority, identity: &str, hosts: &[&str]) -> Credentials {
    issue_until(authority, identity, hosts, DAY * 2)
}

fn issue_until(
    authority: &Authority,
    identity: &str,
    hosts: &[&str],
    lifetime: time::Duration,
) -> Credentials {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let identities = [identity.parse().expect("an identity")];
    let from = OffsetDateTime::now_utc() - DAY;
    authority.issue(&identities, &hosts, from, lifetime).expect("a certificate")
}

/// Writes what a process needs into a folder.
fn write(folder: &Path, authority: &Authority, own: &Credentials) -> CertificateFiles {
    let files = CertificateFiles {
        authority: folder.join("ca.pem"),
        certificate: folder.join("cert.pem"),
        key: folder.join("key.pem"),
    };
    files.write(authority, own).expect("room");
    files
}

fn security(authority: &Authority, own: &Credentials) -> Security {
    let folder = TempDir::new().expect("room");
    let files = write(folder.path(), authority, own);
    Security::mutual(files).expect("good files")
}

/// A server that says what it is, until dropped.
struct Server {
    address: SocketAddr,
    _stop: tokio_util::sync::DropGuard,
}

fn serve(security: Security) -> Server {
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), security).expect("a port");
    let (address, stop) = (bound.address(), CancellationToken::new());
    let serving = bound.serve(Services::new("tic"), stop.clone());
    tokio::spawn(async move { serving.await.expect("serves") });
    Server { address, _stop: stop.drop_guard() }
}

async fn ask(peer: &Peer) -> Result<v1::GetServerInfoResponse, Status> {
    let mut client = AdministrationServiceClient::new(peer.channel());
    client.get_server_info(v1::GetServerInfoRequest {}).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn both_ends_show_certificates_of_one_authority() {
    let ours = authority();
    let server = serve(security(&ours, &issue(&ours, "tic/a", &["127.0.0.1", "localhost"])));
    let port = server.address.port();
    let client = security(&ours, &issue(&ours, "router/b", &[]));
    for host in ["127.0.0.1", "localhost"] {
        let peer = client.peer(&format!("{host}:{port}")).unwrap();
        assert_eq!(ask(&peer).await.unwrap().roles, ["tic"], "{host}");
    }
    let leader = client.leader(&[server.address.to_string()]).unwrap();
    let mut calls = AdministrationServiceClient::new(leader.channel());
    assert!(calls.get_server_info(v1::GetServerInfoRequest {}).await.is_ok());
}

#[tokio::test]
async fn strangers_are_turned_away_by_either_end() {
    let (ours, theirs) = (authority(), authority());
    let own = issue(&ours, "tic/a", &["127.0.0.1"]);
    let server = serve(security(&ours, &own));
    let address = server.address.to_string();

    let plain = Peer::new(&address).unwrap();
    assert!(ask(&plain).await.is_err(), "no certificate shown");

    let stranger = issue(&theirs, "admin/eve", &[]);
    let peer = security(&theirs, &stranger).peer(&address).unwrap();
    assert!(ask(&peer).await.is_err(), "the client does not know the server");
    // Somebody who knows our authority, but has a certificate of another.
    let peer = security(&ours, &stranger).peer(&address).unwrap();
    assert!(ask(&peer).await.is_err(), "the server does not know the client");

    let expired = issue_until(&ours, "admin/old", &[], DAY - time::Duration::hours(1));
    let peer = security(&ours, &expired).peer(&address).unwrap();
    assert!(ask(&peer).await.is_err(), "the certificate is too old");

    let friend = issue(&ours, "admin/a", &[]);
    let peer = security(&ours, &friend).peer(&format!("localhost:{}", server.address.port()));
    assert!(ask(&peer.unwrap()).await.is_err(), "the server's certificate is for another name");

    // An administrator's certificate, stolen, serves nobody.
    let thief = serve(security(&ours, &issue(&ours, "admin/a", &["127.0.0.1"])));
    let peer = security(&ours, &friend).peer(&thief.address.to_string()).unwrap();
    let refused = ask(&peer).await.unwrap_err();
    assert!(format!("{refused:?}").contains("admin/a is no server"), "{refused:?}");

    let peer = security(&ours, &friend).peer(&address).unwrap();
    assert!(ask(&peer).await.is_ok(), "all of that changed nothing");
}

#[tokio::test]
async fn a_role_makes_its_own_calls_only() {
    let ours = authority();
    let server = serve(security(&ours, &issue(&ours, "switch-agent/a", &["127.0.0.1"])));
    let write = async |identity: &str| {
        let peer = security(&ours, &issue(&ours, identity, &[]));
        let peer = peer.peer(&server.address.to_string()).unwrap();
        let mut client = SwitchAgentServiceClient::new(peer.channel());
        client.write_tables(v1::WriteTablesRequest::default()).await.unwrap_err()
    };
    for identity in ["admin/a", "tic/b", "operating-agent/h0", "tenant/t", "switch-agent/s"] {
        let refused = write(identity).await;
        assert_eq!(refused.code(), Code::PermissionDenied, "{identity}");
        assert!(Reason::NotPermitted.is_of(&refused), "{refused}");
        assert!(refused.message().contains(identity), "{}", refused.message());
    }
    // Let through, to a server that does not have the service.
    assert_eq!(write("router/r").await.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_call_reaches_only_servers_of_its_role() {
    let ours = authority();
    let server = serve(security(&ours, &issue(&ours, "tic/a", &["127.0.0.1"])));
    let router = security(&ours, &issue(&ours, "router/r", &[]));
    let peer = router.peer(&server.address.to_string()).unwrap();
    let mut client = SwitchAgentServiceClient::new(peer.channel());
    let refused = client.write_tables(v1::WriteTablesRequest::default()).await.unwrap_err();
    assert!(format!("{refused:?}").contains("tic/a is no switch-agent"), "{refused:?}");
    assert!(ask(&peer).await.is_ok(), "every server says what it is");
}

/// Asks over a new connection when one has just ended.
async fn ask_anew(peer: &Peer) -> Result<v1::GetServerInfoResponse, Status> {
    // This one may still meet the end of the old connection.
    let _ = ask(peer).await;
    ask(peer).await
}

/// A stream that stands until its connection ends.
async fn watch(peer: &Peer) -> tonic::Streaming<HealthCheckResponse> {
    watch_over(peer.channel()).await
}

async fn watch_over(channel: Channel) -> tonic::Streaming<HealthCheckResponse> {
    let mut client = HealthClient::new(channel);
    let watching = client.watch(HealthCheckRequest::default()).await.expect("it serves");
    let mut stream = watching.into_inner();
    assert!(stream.message().await.expect("it serves").is_some());
    stream
}

/// True if the connection of a stream ends in time.
async fn is_cut(stream: &mut tonic::Streaming<HealthCheckResponse>, limit: Duration) -> bool {
    tokio::time::timeout(limit, stream.message()).await.is_ok_and(|ended| ended.is_err())
}

#[tokio::test]
async fn a_certificate_that_expires_ends_its_connections() {
    let ours = authority();
    let server = serve(security(&ours, &issue(&ours, "tic/a", &["127.0.0.1"])));
    let own = issue_until(&ours, "admin/a", &[], DAY + time::Duration::seconds(4));
    let peer = security(&ours, &own).peer(&server.address.to_string()).unwrap();
    let mut stream = watch(&peer).await;
    assert!(is_cut(&mut stream, Duration::from_secs(10)).await);
    assert!(ask_anew(&peer).await.is_err(), "though TLS would resume its session");
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_without_a_restart() {
    let (ours, folder) = (authority(), TempDir::new().unwrap());
    let files = write(folder.path(), &ours, &issue(&ours, "tic/a", &["127.0.0.1"]));
    let server = serve(Security::mutual(files.clone()).unwrap());
    let address = server.address.to_string();
    let stolen = [issue(&ours, "admin/eve", &[]), issue(&ours, "admin/mallory", &[])];
    let friend = security(&ours, &issue(&ours, "admin/a", &[])).peer(&address).unwrap();
    let mut friends = watch(&friend).await;
    let mut list = None;
    for own in &stolen {
        let peer = security(&ours, own).peer(&address).unwrap();
        let mut stream = watch(&peer).await;
        let now = OffsetDateTime::now_utc();
        list = Some(ours.revoke(&own.certificate, list.as_deref(), now).unwrap());
        std::fs::write(files.revocations(), list.as_deref().unwrap_or_default()).unwrap();
        assert!(is_cut(&mut stream, Duration::from_secs(10)).await);
        assert!(ask(&peer).await.is_err());
    }
    let peer = security(&ours, &stolen[0]).peer(&address).unwrap();
    assert!(ask(&peer).await.is_err(), "the list has both");
    assert!(!is_cut(&mut friends, Duration::from_millis(1)).await);
    assert!(ask(&friend).await.is_ok());
}

#[tokio::test]
async fn a_standing_connection_is_checked_again_when_it_is_old() {
    let (old, new, folder) = (authority(), authority(), TempDir::new().unwrap());
    let files = write(folder.path(), &old, &issue(&old, "tic/a", &["127.0.0.1"]));
    let age = Duration::from_secs(2);
    let server = serve(Security::mutual(files).unwrap().with_certificate_age(age));
    let peer = security(&old, &issue(&old, "admin/a", &[]));
    let peer = peer.peer(&server.address.to_string()).unwrap();
    let mut stream = watch(&peer).await;
    assert!(!is_cut(&mut stream, 2 * age).await, "its authority is trusted");
    write(folder.path(), &new, &issue(&new, "tic/a", &["127.0.0.1"]));
    assert!(is_cut(&mut stream, 5 * age).await);
}

#[tokio::test]
async fn a_client_ends_the_connection_to_a_server_whose_certificate_expires() {
    let ours = authority();
    let own = issue_until(&ours, "tic/a", &["127.0.0.1"], DAY + time::Duration::seconds(8));
    let server = serve(security(&ours, &own));
    let peer = security(&ours, &issue(&ours, "admin/a", &[]));
    let peer = peer.peer(&server.address.to_string()).unwrap();
    let mut stream = watch(&peer).await;
    assert!(is_cut(&mut stream, Duration::from_secs(20)).await);
    let refused = ask_anew(&peer).await.unwrap_err();
    assert!(format!("{refused:?}").contains("InvalidCertificate"), "{refused:?}");
}

#[tokio::test]
async fn a_client_ends_the_connection_to_a_server_whose_certificate_is_revoked() {
    let (ours, folder) = (authority(), TempDir::new().unwrap());
    let stolen = issue(&ours, "tic/a", &["127.0.0.1"]);
    let server = serve(security(&ours, &stolen));
    let files = write(folder.path(), &ours, &issue(&ours, "admin/a", &[]));
    let peer = Security::mutual(files.clone()).unwrap();
    let peer = peer.peer(&server.address.to_string()).unwrap();
    let mut stream = watch(&peer).await;
    let (another, now) = (issue(&ours, "tic/b", &[]), OffsetDateTime::now_utc());
    let list = ours.revoke(&another.certificate, None, now).unwrap();
    std::fs::write(files.revocations(), &list).unwrap();
    assert!(!is_cut(&mut stream, Duration::from_secs(3)).await, "another one is revoked");
    let list = ours.revoke(&stolen.certificate, Some(&list), now).unwrap();
    std::fs::write(files.revocations(), &list).unwrap();
    assert!(is_cut(&mut stream, Duration::from_secs(10)).await);
    let refused = ask_anew(&peer).await.unwrap_err();
    assert!(format!("{refused:?}").contains("InvalidCertificate"), "{refused:?}");
}

#[tokio::test]
async fn a_client_ends_the_connection_to_a_server_of_a_former_authority() {
    let (old, new) = (authority(), authority());
    let (servers, clients) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let files = write(servers.path(), &old, &issue(&old, "tic/a", &["127.0.0.1"]));
    let server = serve(Security::mutual(files).unwrap());
    let files = write(clients.path(), &old, &issue(&old, "admin/a", &[]));
    let age = Duration::from_secs(2);
    let peer = Security::mutual(files).unwrap().with_certificate_age(age);
    let peer = peer.peer(&server.address.to_string()).unwrap();
    let mut stream = watch(&peer).await;
    // The server has 5 minutes for its own check.
    write(servers.path(), &new, &issue(&new, "tic/a", &["127.0.0.1"]));
    assert!(!is_cut(&mut stream, 2 * age).await, "the client trusts the former authority");
    write(clients.path(), &new, &issue(&new, "admin/a", &[]));
    assert!(is_cut(&mut stream, 5 * age).await);
    assert!(ask_anew(&peer).await.is_ok(), "the next connection is one of the new authority");
}

#[tokio::test]
async fn a_client_keeps_a_connection_whose_certificate_stays_good() {
    let ours = authority();
    let server = serve(security(&ours, &issue(&ours, "tic/a", &["127.0.0.1"])));
    let peer = security(&ours, &issue(&ours, "admin/a", &[]));
    let peer = peer.with_certificate_age(Duration::from_millis(500));
    let peer = peer.peer(&server.address.to_string()).unwrap();
    let mut stream = watch(&peer).await;
    for _ in 0..5 {
        assert!(!is_cut(&mut stream, Duration::from_secs(1)).await, "each check succeeds");
        assert!(ask(&peer).await.is_ok());
    }
}

#[tokio::test]
async fn a_connection_to_another_program_ends_when_its_certificate_is_revoked() {
    let (ours, folder) = (authority(), TempDir::new().unwrap());
    let stolen = issue(&ours, "tic/a", &["127.0.0.1"]);
    let server = serve(security(&ours, &stolen));
    let files = CertificateFiles::in_folder(folder.path());
    files.write(&ours, &issue(&ours, "tic/b", &[])).unwrap();
    let servers = ExternalTls::new(folder.path()).unwrap();
    let address = server.address.to_string();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let connecting = servers.clone();
    let connect = move |uri| connecting.clone().connect(uri);
    let channel = endpoint.connect_with_connector_lazy(tower::service_fn(connect));
    let mut stream = watch_over(Channel::new(channel, address.into())).await;
    assert_eq!(servers.fault(), None);
    let list = ours.revoke(&stolen.certificate, None, OffsetDateTime::now_utc()).unwrap();
    std::fs::write(files.revocations(), list).unwrap();
    assert!(is_cut(&mut stream, Duration::from_secs(10)).await);
    let fault = servers.fault().expect("it is named");
    assert!(fault.ends_with("invalid peer certificate: Revoked"), "{fault}");
}

/// The kind of a handshake with a server for browsers, once the client has what came after it.
async fn handshake_kind(tls: &BrowserTls, client: &TlsConnector) -> Option<HandshakeKind> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let serving = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (mut stream, _) = tls.accept(stream).await.expect("a handshake");
        stream.write_all(b"x").await.expect("it is read");
        stream.flush().await.expect("it is read");
        stream.get_ref().1.handshake_kind()
    };
    let calling = async {
        let stream = TcpStream::connect(address).await.expect("it listens");
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let mut stream = client.connect(name, stream).await.expect("a handshake");
        stream.read_u8().await.expect("it is written")
    };
    let (kind, _) = tokio::join!(serving, calling);
    kind
}

#[tokio::test]
async fn a_browser_shows_its_certificate_with_every_connection() {
    let (ours, folder) = (authority(), TempDir::new().unwrap());
    let files = CertificateFiles::in_folder(folder.path());
    files.write(&ours, &issue(&ours, "tic/a", &["127.0.0.1"])).unwrap();
    let tls = BrowserTls::new(folder.path()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = TlsConnector::from(Arc::new(config));
    for _ in 0..2 {
        assert_eq!(handshake_kind(&tls, &client).await, Some(HandshakeKind::Full));
    }
}

/// Sends a frame of 4 MiB, of which only the first half comes, and waits for the answer.
async fn send_half(peer: &Peer, call: &str) -> Option<Status> {
    let header = [&[0][..], &(4_u32 << 20).to_be_bytes()].concat();
    let half = [header, vec![0; 2 << 20]].concat();
    let frames = BodyStream::new(Full::from(half));
    let frames = frames.map(|frame| frame.map_err(|never| match never {}));
    let frames = frames.chain(tokio_stream::pending::<Result<_, Status>>());
    let request = http::Request::post(format!("http://{}/fabricast.v1.{call}", peer.address()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(StreamBody::new(frames)))
        .expect("a request");
    let answer = tokio::time::timeout(Duration::from_secs(5), peer.channel().oneshot(request));
    let answer = answer.await.ok()?.expect("an answer");
    Some(Status::from_header_map(answer.headers()).expect("a status"))
}

#[tokio::test]
async fn a_forbidden_call_is_refused_by_its_headers() {
    let ours = authority();
    let server = serve(security(&ours, &issue(&ours, "tic/a", &["127.0.0.1"])));
    for (identity, call) in [
        ("admin/a", "TicService/RegisterNode"),
        ("tenant/t", "TicService/ReadmitNode"),
        ("operating-agent/h0", "TicService/DeleteGroup"),
        ("admin/a", "TicService/NoSuchCall"),
    ] {
        let peer = security(&ours, &issue(&ours, identity, &[]));
        let peer = peer.peer(&server.address.to_string()).unwrap();
        let answer = send_half(&peer, call).await;
        let refused = answer.unwrap_or_else(|| panic!("{identity} {call}: no answer"));
        assert_eq!(refused.code(), Code::PermissionDenied, "{identity} {call}: {refused}");
    }
}

#[tokio::test]
async fn certificates_are_exchanged_while_all_goes_on() {
    let (old, new) = (authority(), authority());
    let folder = TempDir::new().unwrap();
    let files = write(folder.path(), &old, &issue(&old, "tic/a", &["127.0.0.1"]));
    let shown = || CERTIFICATE_EXPIRY.get(&folder.path().join("cert.pem").display().to_string());
    let server = serve(Security::mutual(files).unwrap());
    let address = server.address.to_string();
    let before = security(&old, &issue(&old, "admin/a", &[])).peer(&address).unwrap();
    assert!(ask(&before).await.is_ok());
    let expires = shown().unwrap();
    let in_a_day = (OffsetDateTime::now_utc() + DAY).unix_timestamp();
    assert!(expires.abs_diff(u64::try_from(in_a_day).unwrap()) < 60, "{expires}");

    // Half of an exchange changes nothing: the key is not that of the certificate.
    let own = issue_until(&new, "tic/a", &["127.0.0.1"], DAY * 3);
    std::fs::write(folder.path().join("cert.pem"), &own.certificate).unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let another = security(&old, &issue(&old, "admin/b", &[])).peer(&address).unwrap();
    assert!(ask(&another).await.is_ok());
    assert_eq!(shown(), Some(expires));

    write(folder.path(), &new, &own);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let after = security(&new, &issue(&new, "admin/a", &[])).peer(&address).unwrap();
    assert!(ask(&after).await.is_ok());
    let in_two_days = expires + u64::try_from(DAY.whole_seconds()).unwrap();
    assert!(shown().unwrap().abs_diff(in_two_days) < 60, "{:?}", shown());
    let late = security(&old, &issue(&old, "admin/c", &[])).peer(&address).unwrap();
    assert!(ask(&late).await.is_err(), "the old authority is believed no more");
    assert!(ask(&before).await.is_ok(), "a connection that stands is not cut");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (ours, folder) = (authority(), TempDir::new().unwrap());
    let own = issue(&ours, "tic/a", &[]);
    let files = write(folder.path(), &ours, &own);
    let fault = |change: &dyn Fn(&mut CertificateFiles)| {
        let mut files = files.clone();
        change(&mut files);
        Security::mutual(files).unwrap_err().to_string()
    };
    let missing = fault(&|files| files.key = "/nowhere/key.pem".into());
    assert_eq!(missing, "/nowhere/key.pem: no such file");
    let swapped = fault(&|files| files.certificate = files.key.clone());
    assert!(swapped.ends_with("key.pem: no certificate in it"), "{swapped}");
    let swapped = fault(&|files| files.key = files.certificate.clone());
    assert!(swapped.ends_with("cert.pem: no private key in it"), "{swapped}");
    let nameless = ours.issue(&[], &[], OffsetDateTime::now_utc(), DAY).unwrap();
    std::fs::write(folder.path().join("nameless.pem"), nameless.certificate).unwrap();
    let nameless = fault(&|files| files.certificate = folder.path().join("nameless.pem"));
    assert!(nameless.contains("no name of the form spiffe://fabricast/"), "{nameless}");
    let foreign = issue(&ours, "tic/a", &[]);
    std::fs::write(folder.path().join("other.pem"), foreign.key).unwrap();
    let foreign = fault(&|files| files.key = folder.path().join("other.pem"));
    assert!(foreign.contains("cert.pem with "), "{foreign}");
}
