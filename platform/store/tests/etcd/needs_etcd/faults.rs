//! A store in etcd while members die and freeze, and at etcd's limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabricast_store::{
    EtcdLocation, EtcdOptions, EtcdStore, Expected, OpenError, Store, StoreError, Txn, TxnOutcome,
};
use fabricast_testing::Etcd;
use tokio::task::JoinSet;

/// Time limit for events that must happen.
const SOON: Duration = Duration::from_secs(60);

fn location(etcd: &Etcd) -> EtcdLocation {
    EtcdLocation { endpoints: etcd.endpoints(), prefix: "test".to_owned(), certificates: None }
}

async fn open(etcd: &Etcd) -> Arc<EtcdStore> {
    // Longer than anything that a test does to etcd, on a busy machine.
    let options = EtcdOptions { patience: Duration::from_secs(30), ..EtcdOptions::default() };
    Arc::new(EtcdStore::open_with(&location(etcd), options).await.unwrap())
}

async fn commit(store: &EtcdStore, txn: Txn) -> u64 {
    match store.txn(txn).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        TxnOutcome::Conflict { key } => panic!("conflict on {}", String::from_utf8_lossy(&key)),
    }
}

async fn number(store: &EtcdStore, key: &str) -> (u64, u64) {
    let entry = store.get(key.as_bytes()).await.unwrap().unwrap();
    (String::from_utf8(entry.value).unwrap().parse().unwrap(), entry.mod_revision)
}

/// Kills, freezes and restarts one member after the other while writers are at work.
async fn harass(etcd: &mut Etcd) {
    for member in 0..3 {
        etcd.kill(member).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        etcd.restart(member).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let frozen = (member + 1) % 3;
        etcd.pause(frozen);
        tokio::time::sleep(Duration::from_secs(3)).await;
        etcd.resume(frozen);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Adds 1 to a shared number again and again; returns the acknowledged revisions.
async fn add(store: Arc<EtcdStore>, stop: Arc<AtomicBool>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let (value, revision) = number(&store, "n").await;
        let txn = Txn::new().when("n", Expected::ModRevision(revision));
        match store.txn(txn.put("n", (value + 1).to_string())).await.unwrap() {
            TxnOutcome::Committed { revision } => acknowledged.push(revision),
            TxnOutcome::Conflict { .. } => {}
        }
    }
    acknowledged
}

#[tokio::test]
async fn every_acknowledged_write_happens_once_while_members_die_and_freeze() {
    let mut etcd = Etcd::start(3).await;
    let store = open(&etcd).await;
    let first = commit(&store, Txn::new().put("n", "0")).await;
    let mut watch = store.watch(b"n", first + 1).await.unwrap();
    let lease = store.grant_lease(Duration::from_secs(10)).await.unwrap();
    commit(&store, Txn::new().put_leased("alive", "", lease)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut adders = JoinSet::new();
    for _ in 0..3 {
        adders.spawn(add(Arc::clone(&store), Arc::clone(&stop)));
    }
    let (beating, stopped) = (Arc::clone(&store), Arc::clone(&stop));
    let heart = tokio::spawn(async move {
        while !stopped.load(Ordering::SeqCst) {
            beating.keep_alive(lease).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    harass(&mut etcd).await;
    stop.store(true, Ordering::SeqCst);
    let mut acknowledged: Vec<u64> = adders.join_all().await.into_iter().flatten().collect();
    acknowledged.sort_unstable();
    heart.await.unwrap();
    assert!(acknowledged.len() > 50, "{} writes got through", acknowledged.len());
    assert_eq!(number(&store, "n").await.0, acknowledged.len() as u64, "each counts once");
    for revision in &acknowledged {
        let batch = tokio::time::timeout(SOON, watch.next()).await.unwrap().unwrap();
        assert_eq!(batch.revision, *revision, "the watch has seen each once, in order");
    }
    assert!(store.get(b"alive").await.unwrap().is_some(), "the lease was kept alive");
}

#[tokio::test]
async fn without_a_majority_a_write_is_given_up_and_later_ones_succeed() {
    let etcd = Etcd::start(3).await;
    let options = EtcdOptions { patience: Duration::from_secs(2), ..EtcdOptions::default() };
    let store = EtcdStore::open_with(&location(&etcd), options).await.unwrap();
    let before = commit(&store, Txn::new().put("a", "1")).await;
    etcd.pause(1);
    etcd.pause(2);
    let given_up = store.txn(Txn::new().put("a", "2")).await;
    assert!(matches!(given_up, Err(StoreError::Unavailable { .. })), "{given_up:?}");
    etcd.resume(1);
    etcd.resume(2);
    let patient = open(&etcd).await;
    let after = commit(&patient, Txn::new().put("a", "3")).await;
    assert!(after > before);
    assert_eq!(number(&patient, "a").await.0, 3);
}

#[tokio::test]
async fn keys_of_another_layout_are_refused_and_prefixes_are_separate() {
    let etcd = Etcd::start(1).await;
    let parent = EtcdLocation { prefix: "a".into(), ..location(&etcd) };
    let store = EtcdStore::open(&parent).await.unwrap();
    commit(&store, Txn::new().put("k", "1")).await;
    let child = EtcdStore::open(&EtcdLocation { prefix: "b".into(), ..parent.clone() }).await;
    assert_eq!(child.unwrap().get(b"k").await.unwrap(), None);
    // The layout's own key as a caller's key of a store one level up.
    let odd = EtcdLocation { prefix: "a/data".into(), ..parent };
    commit(&store, Txn::new().put("layout", "7")).await;
    let error = EtcdStore::open(&odd).await.unwrap_err();
    assert!(matches!(error, OpenError::EtcdLayout { .. }), "{error:?}");
    let told = "etcd has store layout 7 at 'a/data', this program reads layout 1";
    assert_eq!(error.to_string(), told);
}

#[tokio::test]
async fn transactions_up_to_the_limits_are_accepted_and_larger_ones_refused() {
    let etcd = Etcd::start(1).await;
    let store = open(&etcd).await;
    let limits = store.limits();
    let puts = |count: usize, bytes: usize| {
        (0..count).fold(Txn::new(), |txn, n| txn.put(format!("l/{n:03}"), vec![7; bytes]))
    };
    let first = commit(&store, puts(limits.txn_ops, 0)).await;
    let key_bytes = "l/000".len();
    let most = limits.txn_bytes / limits.txn_ops - key_bytes;
    let mut expected = Vec::new();
    for _ in 0..4 {
        expected.push(commit(&store, puts(limits.txn_ops, most)).await);
    }
    let whole = commit(&store, Txn::new().put("l/000", vec![7; limits.txn_bytes - 5])).await;
    for (txn, unit) in [
        (puts(limits.txn_ops + 1, 0), "operations"),
        (Txn::new().put("l/000", vec![7; limits.txn_bytes]), "bytes"),
    ] {
        let refused = store.txn(txn).await.unwrap_err();
        assert!(matches!(refused, StoreError::TooLarge { unit: told, .. } if told == unit));
    }
    // The same comes back: in pages, and from a watch that has much to catch up with.
    let snapshot = store.range(b"l/").await.unwrap();
    assert_eq!((snapshot.entries.len(), snapshot.revision), (limits.txn_ops, whole));
    let mut watch = store.watch(b"l/", first + 1).await.unwrap();
    for revision in expected {
        let batch = tokio::time::timeout(SOON, watch.next()).await.unwrap().unwrap();
        assert_eq!((batch.revision, batch.changes.len()), (revision, limits.txn_ops));
    }
}

#[tokio::test]
async fn old_receipts_are_swept() {
    let etcd = Etcd::start(1).await;
    let store = EtcdStore::open(&location(&etcd)).await.unwrap();
    commit(&store, Txn::new().put("a", "1")).await;
    // A key that a client left in 1970, seen from a store one level up.
    let old = format!("{:020} 7", 3);
    let above = EtcdLocation { prefix: "over".into(), ..location(&etcd) };
    let below = EtcdLocation { prefix: "over/data".into(), ..above.clone() };
    let above = EtcdStore::open(&above).await.unwrap();
    commit(&above, Txn::new().put("receipts/gone/0", old).put("layout", "1")).await;
    drop(EtcdStore::open(&below).await.unwrap());
    assert_eq!(above.get(b"receipts/gone/0").await.unwrap(), None);
    commit(&store, Txn::new().put("a", "2")).await;
}

#[tokio::test]
async fn without_space_what_adds_is_refused_and_what_frees_goes_on() {
    let etcd = Etcd::start_small(1, 8 << 20).await;
    let store = open(&etcd).await;
    let value = "x".repeat(64 << 10);
    let put = |number: usize| Txn::new().put(format!("n{number}"), value.clone());
    let mut written = 0;
    let refused = loop {
        match store.txn(put(written)).await {
            Ok(_) if written < 1_000 => written += 1,
            ended => break ended,
        }
    };
    assert!(matches!(refused, Err(StoreError::NoSpace)), "{written} written, {refused:?}");
    assert!(store.get(b"n0").await.unwrap().is_some());
    assert_eq!(store.range(b"n").await.unwrap().entries.len(), written);
    let revision = commit(&store, Txn::new().delete("n0")).await;
    let freeing = Txn::new().when("n0", Expected::Absent).delete("n1").put("count", "1");
    let refused = store.txn(freeing.clone()).await;
    assert!(matches!(refused, Err(StoreError::NoSpace)), "{refused:?}");
    assert!(commit(&store, freeing.essential()).await > revision);
    assert_eq!(store.range(b"n").await.unwrap().entries.len(), written - 2);
    store.compact(revision).await.unwrap();
    let again = open(&etcd).await;
    assert!(again.get(b"count").await.unwrap().is_some());
}
