//! Stores in an etcd that requires certificates.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use fabricast_rpc::{Authority, CertificateFiles};
use fabricast_store::{EtcdLocation, EtcdOptions, EtcdStore, OpenError, Store, Txn, TxnOutcome};
use fabricast_testing::Etcd;
use tempfile::TempDir;
use time::OffsetDateTime;

const DAY: time::Duration = time::Duration::days(1);

fn authority() -> Authority {
    Authority::create(OffsetDateTime::now_utc() - DAY, DAY * 3).unwrap()
}

/// Writes a certificate of `authority` into a folder that trusts `believed`.
fn write(folder: &Path, authority: &Authority, believed: &Authority) {
    let from = OffsetDateTime::now_utc() - DAY;
    let own = authority.issue(&[], &["127.0.0.1".to_owned()], from, DAY * 2).unwrap();
    CertificateFiles::in_folder(folder).write(believed, &own).unwrap();
}

fn folder(authority: &Authority, believed: &Authority) -> TempDir {
    let folder = TempDir::new().unwrap();
    write(folder.path(), authority, believed);
    folder
}

fn location(etcd: &Etcd, certificates: Option<&Path>) -> EtcdLocation {
    let certificates = certificates.map(Path::to_owned);
    EtcdLocation { endpoints: etcd.endpoints(), prefix: "test".to_owned(), certificates }
}

async fn open(location: &EtcdLocation, patience: Duration) -> Result<EtcdStore, OpenError> {
    EtcdStore::open_with(location, EtcdOptions { patience, ..EtcdOptions::default() }).await
}

async fn put(store: &EtcdStore, value: &str) -> u64 {
    match store.txn(Txn::new().put("k", value)).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        TxnOutcome::Conflict { .. } => panic!("nothing was compared"),
    }
}

/// Prints an error with all its causes.
fn chain(error: &OpenError) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Longer than anything that a test does to etcd, on a busy machine.
const PATIENT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn records_watches_and_leases_go_over_connections_with_certificates() {
    let ours = authority();
    let members = folder(&ours, &ours);
    let mut etcd = Etcd::start_secured(3, members.path()).await;
    let own = folder(&ours, &ours);
    let store = open(&location(&etcd, Some(own.path())), PATIENT).await.unwrap();
    let first = put(&store, "1").await;
    let lease = store.grant_lease(Duration::from_secs(20)).await.unwrap();
    let mut watch = store.watch(b"k", first).await.unwrap();
    assert_eq!(watch.next().await.unwrap().revision, first);
    etcd.kill(0).await;
    let second = put(&store, "2").await;
    assert_eq!(watch.next().await.unwrap().revision, second);
    store.keep_alive(lease).await.unwrap();
    // A URL says the same.
    let url: fabricast_store::StoreLocation = etcd.url("test").parse().unwrap();
    let again = url.open(fabricast_store::Options::default()).await.unwrap();
    assert_eq!(again.get(b"k").await.unwrap().unwrap().value, b"2");
}

#[tokio::test]
async fn errors_name_the_bad_certificate() {
    let (ours, theirs) = (authority(), authority());
    let members = folder(&ours, &ours);
    let etcd = Etcd::start_secured(1, members.path()).await;
    let address = etcd.endpoints().remove(0);
    // Every wrong connection is tried for so long: on a busy machine one handshake takes a second.
    let quick = Duration::from_secs(3);

    let plain = open(&location(&etcd, None), quick).await.unwrap_err();
    assert!(plain.to_string().ends_with("does not answer in plain text"), "{plain}");

    let stranger = folder(&ours, &theirs);
    let error = open(&location(&etcd, Some(stranger.path())), quick).await.unwrap_err();
    let expected = format!(
        "the certificate of {address} is not good by {}: invalid peer certificate: ",
        stranger.path().join("ca.crt").display()
    );
    assert!(chain(&error).contains(&expected), "{}", chain(&error));

    let unknown = folder(&theirs, &ours);
    let error = open(&location(&etcd, Some(unknown.path())), quick).await.unwrap_err();
    let expected =
        format!("{address} does not accept {}: ", unknown.path().join("tls.crt").display());
    assert!(chain(&error).contains(&expected), "{}", chain(&error));

    std::fs::remove_file(unknown.path().join("tls.key")).unwrap();
    let error = open(&location(&etcd, Some(unknown.path())), quick).await.unwrap_err();
    assert!(matches!(error, OpenError::Certificates { .. }), "{error:?}");
    assert!(chain(&error).ends_with("tls.key: no such file"), "{}", chain(&error));

    let open_to_all = Etcd::start(1).await;
    let friend = folder(&ours, &ours);
    let error = open(&location(&open_to_all, Some(friend.path())), quick).await.unwrap_err();
    let expected = format!("no TLS with {}: ", open_to_all.endpoints()[0]);
    assert!(chain(&error).contains(&expected), "{}", chain(&error));
}

#[tokio::test]
async fn certificates_are_exchanged_while_the_store_is_open() {
    let (old, new) = (authority(), authority());
    let (members, own) = (folder(&old, &old), folder(&old, &old));
    let mut etcd = Etcd::start_secured(1, members.path()).await;
    let store = open(&location(&etcd, Some(own.path())), PATIENT).await.unwrap();
    put(&store, "1").await;
    etcd.kill(0).await;
    write(members.path(), &new, &new);
    write(own.path(), &new, &new);
    etcd.restart(0).await;
    put(&store, "2").await;
    let late =
        open(&location(&etcd, Some(folder(&old, &new).path())), Duration::from_secs(1)).await;
    assert!(late.is_err(), "the old authority is no longer trusted");
}
