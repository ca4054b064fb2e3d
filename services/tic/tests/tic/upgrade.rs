//! Records of an earlier version: `data/layout-1.jsonl` is its export of a store with some groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fabricast_store::{
    EmbeddedStore, KeyValue, LeaseId, Limits, Options, Snapshot, Store, StoreError, StoreLocation,
    SystemClock, Txn, TxnOutcome, Watch,
};
use fabricast_tic::{App, backup};

use crate::harness::{Tic, setup};

const SAMPLE: &str = include_str!("../data/layout-1.jsonl");

/// Writes the sample as it was, key by key.
async fn fill(store: &Arc<dyn Store>) {
    for line in SAMPLE.lines().filter(|line| line.starts_with("{\"key\"")) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        store.txn(Txn::new().put(text("key"), text("value"))).await.unwrap();
    }
}

fn embedded(max_txn_ops: usize) -> Arc<dyn Store> {
    let options = Options { max_txn_ops, ..Options::default() };
    Arc::new(EmbeddedStore::in_memory_with(options, Arc::new(SystemClock::new())).unwrap())
}

async fn value(store: &Arc<dyn Store>, key: &str) -> String {
    let found = store.get(key.as_bytes()).await.unwrap().expect("the key is there");
    String::from_utf8(found.value).unwrap()
}

/// Checks that the store holds the sample in the newest layout, and nothing else.
async fn is_upgraded(store: &Arc<dyn Store>, tic: &Tic) {
    let group = tic.group("rows/1").await.unwrap();
    let members: Vec<(u32, &str, &str)> =
        group.members.iter().map(|one| (one.pn, one.node.as_str(), one.process.as_str())).collect();
    let expected = [(0, "h0", "p0"), (1, "h1", "p0"), (3, "h3", "p0"), (4, "h0", "p1")];
    assert_eq!(members, expected);
    assert_eq!(value(store, "tic/schema").await, "2");
    let member = value(store, "tic/records/member/0000000000000001/00000004").await;
    assert_eq!(member, r#"["h0","p1","h0",13]"#);
    assert!(store.range(b"tic/redo").await.unwrap().entries.is_empty());
    let summary = backup::export(Arc::clone(store), &mut Vec::new()).await.unwrap();
    assert_eq!((summary.layout, summary.members, summary.nodes), (2, 4, 4));
}

#[tokio::test]
async fn an_older_store_is_upgraded_at_the_start() {
    for narrow in [1 << 20, 8] {
        let store = embedded(narrow);
        fill(&store).await;
        for _start in 0..2 {
            let tic = Tic::on_store(Arc::clone(&store)).await;
            is_upgraded(&store, &tic).await;
            tic.stop().await;
        }
    }
}

mod needs_etcd {
    use fabricast_testing::Etcd;

    use super::*;

    #[tokio::test]
    async fn an_older_etcd_is_upgraded_by_the_leader() {
        let etcd = Etcd::start(1).await;
        let location: StoreLocation = etcd.url("upgrade").parse().unwrap();
        let store = backup::open(&location).await.unwrap();
        fill(&store).await;
        let mut settings = setup(location);
        settings.config.leader_lease = Duration::from_secs(2);
        let tic = Tic::run(App::bind(settings).await.unwrap());
        while tic.group("rows/1").await.is_err() {} // until it leads
        is_upgraded(&store, &tic).await;
    }
}

/// A store that fails after this many transactions.
struct Dying {
    inner: Arc<dyn Store>,
    left: AtomicUsize,
}

#[async_trait]
impl Store for Dying {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, StoreError> {
        self.inner.get(key).await
    }
    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError> {
        self.inner.range(prefix).await
    }
    async fn revision(&self) -> Result<u64, StoreError> {
        self.inner.revision().await
    }
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        let take = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => self.inner.txn(txn).await,
            Err(_) => Err(StoreError::Closed),
        }
    }
    async fn watch(&self, prefix: &[u8], from: u64) -> Result<Watch, StoreError> {
        self.inner.watch(prefix, from).await
    }
    async fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        self.inner.grant_lease(ttl).await
    }
    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.keep_alive(lease).await
    }
    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.revoke(lease).await
    }
    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.inner.compact(revision).await
    }
}

#[tokio::test]
async fn an_upgrade_cut_short_anywhere_is_finished_by_the_next_start() {
    let mut cut_short = 0;
    for transactions in 0.. {
        // Small transactions, so that the upgrade takes several.
        let store = embedded(4);
        fill(&store).await;
        let left = AtomicUsize::new(transactions);
        let dying = Arc::new(Dying { inner: Arc::clone(&store), left });
        let begun = App::bind_with_store(setup(StoreLocation::Memory), dying).await;
        let is_through = begun.is_ok();
        drop(begun);
        let tic = Tic::on_store(Arc::clone(&store)).await;
        is_upgraded(&store, &tic).await;
        if is_through {
            break;
        }
        cut_short += 1;
    }
    assert!(cut_short > 4, "it was cut short only {cut_short} times");
}

#[tokio::test]
async fn an_older_export_is_imported_in_the_newest_layout() {
    let summary = backup::check(&mut SAMPLE.as_bytes()).unwrap();
    assert_eq!((summary.layout, summary.groups, summary.members), (1, 1, 4));
    let store = embedded(8);
    backup::import(Arc::clone(&store), &mut SAMPLE.as_bytes()).await.unwrap();
    assert_eq!(value(&store, "tic/schema").await, "2");
    let tic = Tic::on_store(Arc::clone(&store)).await;
    is_upgraded(&store, &tic).await;
}

#[tokio::test]
async fn records_of_a_newer_version_are_refused_and_stay_as_they_are() {
    let store = embedded(1 << 20);
    fill(&store).await;
    store.txn(Txn::new().put("tic/schema", "3")).await.unwrap();
    store.txn(Txn::new().put("tic/redo/00000000", "not to be touched")).await.unwrap();
    let before = store.range(b"").await.unwrap();
    let error = App::bind_with_store(setup(StoreLocation::Memory), Arc::clone(&store)).await;
    let error = std::error::Error::source(&error.unwrap_err()).unwrap().to_string();
    assert!(error.starts_with("the records have layout 3, this program reads layouts 1 to 2"));
    assert_eq!(store.range(b"").await.unwrap().entries, before.entries);
}
