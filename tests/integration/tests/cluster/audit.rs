//! Changes that parts make by themselves are in the audit log, with the part as the caller.

use std::io;

use fabricast_integration::{Cluster, Layout, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::disturb_switch_request::Disturbance;
use fabricast_rpc::{Authority, CertificateFiles};
use fabricast_telemetry::AUDIT_TARGET;
use fabricast_testing::Etcd;
use parking_lot::Mutex;
use serde_json::Value;
use time::OffsetDateTime;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::needs_etcd::kill_leader;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Takes what is logged; tests of the same process share it.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Listens to the audit of every part in this process.
fn listen() {
    let filter = Targets::new().with_target(AUDIT_TARGET, LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(|| Lines);
    // Another test of this process may have done it already.
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}

/// Requests in the lines with this caller and call, all of which succeeded.
fn requests(caller: &str, call: &str) -> Vec<Value> {
    let lines = LINES.lock().clone();
    let text = String::from_utf8(lines).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ours = lines.filter(|line| line["caller"] == caller && line["call"] == call);
    ours.map(|line| {
        assert_eq!(line["code"], "OK");
        assert_eq!(line["target"], AUDIT_TARGET);
        serde_json::from_str(line["request"].as_str().unwrap()).unwrap()
    })
    .collect()
}

/// Waits until a line with this caller and call satisfies a condition.
async fn is_told(caller: &str, call: &str, fits: impl Fn(&Value) -> bool) {
    eventually("the change stands in the audit", async || {
        let told = requests(caller, call);
        if told.iter().any(&fits) { Ok(()) } else { Err(format!("{call}: {told:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_died_its_groups_new_agent_and_a_repaired_table_are_told() {
    listen();
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let hosts = cluster.layout.hosts.clone();
    let (dies, lives) = (hosts[0][0].name.clone(), hosts[1][0].name.clone());
    cluster.client.join("audited", &dies).await.unwrap();
    cluster.client.join("audited", &lives).await.unwrap();
    assert_eq!(cluster.client.group("audited").await.agent_node, dies);
    is_told("tic", "GrantRouteTerm", |request| request["term"].as_u64() > Some(0)).await;
    let of_group = |request: &Value| request["groups"] == serde_json::json!(["audited"]);
    let told = requests("tic", "AppointGroupAgent");
    assert!(!told.iter().any(of_group), "a group's first agent is no change: {told:?}");

    cluster.client.settled().await;
    let switch = cluster.client.explain("audited").await.unwrap().root;
    let disturbance = Some(Disturbance::Wipe(v1::WipeTable {}));
    let request = v1::DisturbSwitchRequest { switch_name: switch.clone(), disturbance };
    cluster.client.fabric().disturb_switch(request).await.unwrap();
    is_told("router", "RepairTable", |request| {
        request["switch"] == switch.as_str() && request["missing"].as_u64() > Some(0)
    })
    .await;

    cluster.operating[0].kill();
    is_told("tic", "ExpelNode", |request| {
        request["node"] == dies.as_str() && !request["cause"].as_str().unwrap().is_empty()
    })
    .await;
    is_told("tic", "AppointGroupAgent", |request| {
        request["node"] == lives.as_str() && of_group(request)
    })
    .await;
}

mod needs_etcd {
    use super::*;

    /// Certificates of an etcd and its clients.
    fn store_certificates() -> tempfile::TempDir {
        const DAY: time::Duration = time::Duration::days(1);
        let from = OffsetDateTime::now_utc() - DAY;
        let authority = Authority::create(from, DAY * 3).unwrap();
        let own = authority.issue(&[], &["127.0.0.1".to_owned()], from, DAY * 2).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = CertificateFiles::in_folder(folder.path());
        std::fs::write(files.authority, &authority.credentials().certificate).unwrap();
        std::fs::write(files.certificate, own.certificate).unwrap();
        std::fs::write(files.key, own.key).unwrap();
        folder
    }

    /// The records lie in an etcd that wants certificates, besides.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_tic_that_takes_over_says_so() {
        listen();
        let certificates = store_certificates();
        let etcd = Etcd::start_secured(1, certificates.path()).await;
        let layout = Layout { tics: Some((2, etcd.url("audit"))), ..Layout::leaf_spine() };
        let mut cluster = Cluster::start(layout).await;
        is_told("tic", "BecomeLeader", |request| request["term"].as_u64() > Some(0)).await;
        let first = requests("tic", "BecomeLeader").len();
        kill_leader(std::iter::once(&mut cluster.tic).chain(&mut cluster.other_tics)).await;
        eventually("another TIC leads", async || {
            let told = requests("tic", "BecomeLeader").len();
            if told > first { Ok(()) } else { Err(format!("{told} times")) }
        })
        .await;
    }
}
