//! Behaviour that every store must have.
//!
//! The store may be shared and have a past: each case keeps to a prefix of its own and never
//! assumes a revision.

use std::sync::Arc;
use std::time::Duration;

use fabricast_store::{
    Change, Expected, KeyValue, LeaseId, Store, StoreError, Txn, TxnOutcome, WatchBatch,
};

/// Longer than the shortest lease that any store grants.
const TTL: Duration = Duration::from_secs(3);

/// Runs every case. `pass` lets time pass, by a clock that can be moved or by waiting.
pub(crate) async fn run(store: Arc<dyn Store>, pass: impl AsyncFn(Duration)) {
    let store = store.as_ref();
    writes_are_read_back(store).await;
    ranges_hold_exactly_their_prefix(store).await;
    transactions_are_whole(store).await;
    comparisons_decide(store).await;
    nothing_to_do_makes_no_revision(store).await;
    overlapping_operations_are_refused(store).await;
    watch_replays_then_follows(store).await;
    watch_waits_for_the_future(store).await;
    contended_counter_loses_no_increment(store).await;
    revoked_lease_takes_its_keys_along(store).await;
    rewritten_key_leaves_its_lease(store).await;
    unknown_leases_are_refused(store).await;
    lease_lives_while_kept_alive(store, &pass).await;
    compaction_ends_old_watches(store).await; // last: it takes the history of the others
}

async fn commit(store: &dyn Store, txn: Txn) -> u64 {
    match store.txn(txn).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        TxnOutcome::Conflict { key } => panic!("conflict on {}", String::from_utf8_lossy(&key)),
    }
}

async fn value(store: &dyn Store, key: &str) -> Option<String> {
    let found = store.get(key.as_bytes()).await.unwrap();
    found.map(|entry| String::from_utf8(entry.value).unwrap())
}

async fn keys(store: &dyn Store, prefix: &str) -> Vec<String> {
    let snapshot = store.range(prefix.as_bytes()).await.unwrap();
    snapshot.entries.into_iter().map(|entry| String::from_utf8(entry.key).unwrap()).collect()
}

fn change(key: &str, value: Option<&str>) -> Change {
    Change { key: key.into(), value: value.map(Into::into) }
}

async fn writes_are_read_back(store: &dyn Store) {
    assert_eq!(store.get(b"rw/a").await.unwrap(), None);
    let first = commit(store, Txn::new().put("rw/a", "1")).await;
    let entry = |value: &str, mod_revision| KeyValue {
        key: b"rw/a".to_vec(),
        value: value.into(),
        mod_revision,
        lease: None,
    };
    assert_eq!(store.get(b"rw/a").await.unwrap(), Some(entry("1", first)));
    let second = commit(store, Txn::new().put("rw/a", "")).await;
    assert!(second > first);
    assert_eq!(store.get(b"rw/a").await.unwrap(), Some(entry("", second)));
    commit(store, Txn::new().delete("rw/a")).await;
    assert_eq!(store.get(b"rw/a").await.unwrap(), None);
    assert!(store.revision().await.unwrap() > second);
}

async fn ranges_hold_exactly_their_prefix(store: &dyn Store) {
    let txn = Txn::new().put("rg/a/2", "").put("rg/a/1", "").put("rg/b", "").put("rg/a", "");
    let revision = commit(store, txn).await;
    assert_eq!(keys(store, "rg/a/").await, ["rg/a/1", "rg/a/2"]);
    assert_eq!(keys(store, "rg/a").await, ["rg/a", "rg/a/1", "rg/a/2"]);
    assert!(keys(store, "rg/c").await.is_empty());
    assert!(store.range(b"rg/").await.unwrap().revision >= revision);
    commit(store, Txn::new().delete_prefix("rg/a/")).await;
    assert_eq!(keys(store, "rg/").await, ["rg/a", "rg/b"]);
}

async fn transactions_are_whole(store: &dyn Store) {
    commit(store, Txn::new().put("tw/a", "1").put("tw/b", "1")).await;
    let both = Txn::new().when("tw/c", Expected::Absent).when("tw/a", Expected::Absent);
    let outcome = store.txn(both.put("tw/c", "2").delete("tw/b")).await.unwrap();
    assert_eq!(outcome, TxnOutcome::Conflict { key: b"tw/a".to_vec() });
    assert_eq!(keys(store, "tw/").await, ["tw/a", "tw/b"]);
    let done = commit(store, Txn::new().put("tw/c", "2").delete("tw/b").put("tw/a", "2")).await;
    let snapshot = store.range(b"tw/").await.unwrap();
    assert!(snapshot.entries.iter().all(|entry| entry.mod_revision == done));
    assert_eq!(keys(store, "tw/").await, ["tw/a", "tw/c"]);
}

async fn comparisons_decide(store: &dyn Store) {
    let revision = commit(store, Txn::new().put("cd/a", "x")).await;
    let cases = [
        ("cd/a", Expected::Absent, false),
        ("cd/a", Expected::ModRevision(revision), true),
        ("cd/a", Expected::ModRevision(revision + 1), false),
        ("cd/a", Expected::Value(b"x".to_vec()), true),
        ("cd/a", Expected::Value(b"".to_vec()), false),
        ("cd/none", Expected::Absent, true),
        ("cd/none", Expected::ModRevision(revision), false),
        ("cd/none", Expected::Value(b"".to_vec()), false),
    ];
    for (key, expected, holds) in cases {
        let outcome = store.txn(Txn::new().when(key, expected.clone())).await.unwrap();
        let committed = matches!(outcome, TxnOutcome::Committed { .. });
        assert_eq!(committed, holds, "{key} {expected:?}");
    }
}

async fn nothing_to_do_makes_no_revision(store: &dyn Store) {
    let before = commit(store, Txn::new().put("nn/a", "")).await;
    let idle = Txn::new().when("nn/a", Expected::ModRevision(before)).delete("nn/b");
    assert!(commit(store, idle.delete_prefix("nn/c/")).await >= before);
    let entry = store.get(b"nn/a").await.unwrap().unwrap();
    assert_eq!(entry.mod_revision, before);
    let after = commit(store, Txn::new().put("nn/a", "")).await;
    assert!(after > before, "a put of the same value is a change");
}

async fn overlapping_operations_are_refused(store: &dyn Store) {
    let twice = Txn::new().put("oo/a", "1").delete_prefix("oo/");
    let refused = store.txn(twice).await;
    assert!(matches!(refused, Err(StoreError::OverlappingOps { key }) if key == b"oo/a"));
    assert!(keys(store, "oo/").await.is_empty());
}

async fn watch_replays_then_follows(store: &dyn Store) {
    let first = commit(store, Txn::new().put("wr/a", "1").put("wr/b", "1")).await;
    commit(store, Txn::new().put("other", "1")).await;
    let second = commit(store, Txn::new().delete("wr/a").put("other", "2")).await;
    let mut whole = store.watch(b"wr/", first).await.unwrap();
    let mut tail = store.watch(b"wr/", first + 1).await.unwrap();
    let third = commit(store, Txn::new().delete_prefix("wr/")).await;
    let mut batch = whole.next().await.unwrap();
    batch.changes.sort_by(|a, b| a.key.cmp(&b.key));
    let changes = vec![change("wr/a", Some("1")), change("wr/b", Some("1"))];
    assert_eq!(batch, WatchBatch { revision: first, changes });
    for watch in [&mut whole, &mut tail] {
        let changes = vec![change("wr/a", None)];
        assert_eq!(watch.next().await.unwrap(), WatchBatch { revision: second, changes });
        let changes = vec![change("wr/b", None)];
        assert_eq!(watch.next().await.unwrap(), WatchBatch { revision: third, changes });
    }
}

async fn watch_waits_for_the_future(store: &dyn Store) {
    let now = store.revision().await.unwrap();
    let mut watch = store.watch(b"wf/", now + 2).await.unwrap();
    commit(store, Txn::new().put("wf/a", "unseen")).await;
    commit(store, Txn::new().put("wf/a", "seen")).await;
    assert_eq!(watch.next().await.unwrap().changes, [change("wf/a", Some("seen"))]);
}

async fn contended_counter_loses_no_increment(store: &dyn Store) {
    commit(store, Txn::new().put("cc/n", "0")).await;
    let increment = async || {
        for _ in 0..10 {
            loop {
                let entry = store.get(b"cc/n").await.unwrap().unwrap();
                let number: u32 = String::from_utf8(entry.value).unwrap().parse().unwrap();
                let txn = Txn::new().when("cc/n", Expected::ModRevision(entry.mod_revision));
                let outcome = store.txn(txn.put("cc/n", (number + 1).to_string())).await.unwrap();
                if matches!(outcome, TxnOutcome::Committed { .. }) {
                    break;
                }
            }
        }
    };
    tokio::join!(increment(), increment(), increment(), increment());
    assert_eq!(value(store, "cc/n").await.unwrap(), "40");
}

async fn revoked_lease_takes_its_keys_along(store: &dyn Store) {
    let lease = store.grant_lease(TTL).await.unwrap();
    let other = store.grant_lease(TTL).await.unwrap();
    let txn = Txn::new().put_leased("rl/a", "", lease).put_leased("rl/b", "", lease);
    let put = commit(store, txn.put_leased("rl/c", "", other).put("rl/d", "")).await;
    assert_eq!(store.get(b"rl/a").await.unwrap().unwrap().lease, Some(lease));
    let mut watch = store.watch(b"rl/", put + 1).await.unwrap();
    store.revoke(lease).await.unwrap();
    assert_eq!(keys(store, "rl/").await, ["rl/c", "rl/d"]);
    let mut changes = watch.next().await.unwrap().changes;
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(changes, [change("rl/a", None), change("rl/b", None)]);
    assert!(matches!(store.revoke(lease).await, Err(StoreError::LeaseNotFound { .. })));
    store.revoke(other).await.unwrap();
}

async fn rewritten_key_leaves_its_lease(store: &dyn Store) {
    let lease = store.grant_lease(TTL).await.unwrap();
    let other = store.grant_lease(TTL).await.unwrap();
    let txn = Txn::new().put_leased("rk/a", "1", lease).put_leased("rk/b", "1", lease);
    commit(store, txn.put_leased("rk/c", "1", lease)).await;
    let rewrite = Txn::new().put("rk/a", "2").put_leased("rk/b", "2", other).delete("rk/c");
    commit(store, rewrite).await;
    commit(store, Txn::new().put("rk/c", "2")).await;
    store.revoke(lease).await.unwrap();
    assert_eq!(keys(store, "rk/").await, ["rk/a", "rk/b", "rk/c"]);
    store.revoke(other).await.unwrap();
    assert_eq!(keys(store, "rk/").await, ["rk/a", "rk/c"]);
}

async fn unknown_leases_are_refused(store: &dyn Store) {
    let unknown = LeaseId(i64::MAX.unsigned_abs());
    let is_refused =
        |result| matches!(result, Err(StoreError::LeaseNotFound { lease }) if lease == unknown);
    assert!(is_refused(store.keep_alive(unknown).await));
    assert!(is_refused(store.revoke(unknown).await));
    let txn = Txn::new().put("ul/a", "").put_leased("ul/b", "", unknown);
    assert!(is_refused(store.txn(txn).await.map(|_| ())));
    assert!(keys(store, "ul/").await.is_empty());
    assert!(matches!(store.grant_lease(Duration::ZERO).await, Err(StoreError::LeaseTooShort)));
}

async fn lease_lives_while_kept_alive(store: &dyn Store, pass: &impl AsyncFn(Duration)) {
    let kept = store.grant_lease(TTL).await.unwrap();
    let left = store.grant_lease(TTL).await.unwrap();
    let txn = Txn::new().put_leased("ll/kept", "", kept).put_leased("ll/left", "", left);
    commit(store, txn).await;
    for _ in 0..4 {
        pass(TTL / 2).await;
        store.keep_alive(kept).await.unwrap();
    }
    assert_eq!(keys(store, "ll/").await, ["ll/kept"]);
    assert!(matches!(store.keep_alive(left).await, Err(StoreError::LeaseNotFound { .. })));
    pass(TTL * 2).await;
    assert!(keys(store, "ll/").await.is_empty());
}

async fn compaction_ends_old_watches(store: &dyn Store) {
    let first = commit(store, Txn::new().put("ce/a", "1")).await;
    let second = commit(store, Txn::new().put("ce/a", "2")).await;
    store.compact(first).await.unwrap();
    store.compact(first).await.unwrap();
    let oldest = match store.watch(b"ce/", first).await {
        Err(StoreError::Compacted { asked, oldest }) if asked == first => oldest,
        other => panic!("{other:?}"),
    };
    assert_eq!(oldest, second);
    let mut watch = store.watch(b"ce/", second).await.unwrap();
    assert_eq!(watch.next().await.unwrap().changes, [change("ce/a", Some("2"))]);
    assert_eq!(value(store, "ce/a").await.unwrap(), "2");
    let future = store.revision().await.unwrap() + 1;
    let refused = store.compact(future).await;
    assert!(matches!(refused, Err(StoreError::FutureRevision { asked, .. }) if asked == future));
}
