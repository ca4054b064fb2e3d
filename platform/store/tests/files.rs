//! Errors of the embedded store for files it cannot open, and its state across a restart.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use fabricast_store::{
    Clock, EmbeddedStore, ManualClock, OpenError, Options, Store, StoreError, Txn, TxnOutcome,
};
use redb::{Database, TableDefinition};
use tokio::task::JoinSet;

const TEXT: &str = "[tic]\nlisten = \"127.0.0.1:1\"\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("store")
    }
}

fn text(error: &OpenError, path: &Path) -> String {
    error.to_string().replace(&path.display().to_string(), "FILE")
}

async fn put(store: &EmbeddedStore, key: &str, value: &str) -> u64 {
    match store.txn(Txn::new().put(key, value)).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        TxnOutcome::Conflict { .. } => unreachable!("nothing was compared"),
    }
}

#[tokio::test]
async fn a_file_in_use_is_named() {
    let folder = Folder::new();
    let store = EmbeddedStore::open(folder.file()).unwrap();
    let error = EmbeddedStore::open(folder.file()).expect_err("locked");
    assert_eq!(text(&error, &folder.file()), "FILE is in use by another process");
    drop(store);
    EmbeddedStore::open(folder.file()).expect("freed by the drop");
}

#[test]
fn other_files_are_not_stores() {
    let folder = Folder::new();
    let path = folder.file();
    fs::write(&path, TEXT).unwrap();
    let error = EmbeddedStore::open(&path).expect_err("text");
    assert_eq!(text(&error, &path), "FILE is not a fabricast store");
    assert_eq!(fs::read(&path).unwrap(), TEXT.as_bytes(), "left as it was");

    fs::remove_file(&path).unwrap();
    let db = Database::create(&path).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(TableDefinition::<u64, u64>::new("somebody_elses")).unwrap();
    txn.commit().unwrap();
    drop(db);
    let error = EmbeddedStore::open(&path).expect_err("another program's database");
    assert!(matches!(error, OpenError::NotAStore { .. }), "{error:?}");
}

#[test]
fn another_layout_is_refused_with_both_versions() {
    let folder = Folder::new();
    drop(EmbeddedStore::open(folder.file()).unwrap());
    let db = Database::create(folder.file()).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(TableDefinition::<&str, u64>::new("fabricast_store"))
        .unwrap()
        .insert("schema_version", 7)
        .unwrap();
    txn.commit().unwrap();
    drop(db);
    let error = EmbeddedStore::open(folder.file()).expect_err("version 7");
    let expected = "FILE has store layout 7, this program reads layout 1";
    assert_eq!(text(&error, &folder.file()), expected);
}

#[test]
fn a_missing_folder_is_an_io_error_with_its_cause() {
    let folder = Folder::new();
    let path = folder.0.path().join("none/store");
    let error = EmbeddedStore::open(&path).expect_err("no folder");
    assert_eq!(text(&error, &path), "cannot open store FILE");
    assert!(error.source().unwrap().to_string().contains("No such file"), "{error:?}");
}

#[tokio::test]
async fn damage_is_reported_and_never_served() {
    let folder = Folder::new();
    let path = folder.file();
    let store = EmbeddedStore::open(&path).unwrap();
    for key in 0..200 {
        put(&store, &format!("key/{key:03}"), &"v".repeat(100)).await;
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let expected = contents(&path).await.unwrap();

    for keep in [whole.len() / 2, 4096, 600] {
        fs::write(&path, &whole[..keep]).unwrap();
        let error = contents(&path).await.expect_err("truncated");
        assert!(matches!(error, OpenError::Corrupted { .. }), "cut to {keep}: {error:?}");
    }
    let mut refused = 0;
    for start in (64..whole.len()).step_by(whole.len() / 96) {
        let mut damaged = whole.clone();
        for byte in damaged.iter_mut().skip(start).take(512) {
            *byte ^= 0x5a;
        }
        fs::write(&path, &damaged).unwrap();
        match contents(&path).await {
            Ok(found) => assert_eq!(found, expected, "damage at {start} was served"),
            Err(error) => {
                assert!(matches!(error, OpenError::Corrupted { .. }), "at {start}: {error:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "some damage must have hit something in use");
}

async fn contents(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>, OpenError> {
    let store = EmbeddedStore::open(path)?;
    let snapshot = store.range(b"").await.unwrap();
    Ok(snapshot.entries.into_iter().map(|entry| (entry.key, entry.value)).collect())
}

#[tokio::test]
async fn a_restart_keeps_values_history_and_leases() {
    let folder = Folder::new();
    let clock = Arc::new(ManualClock::default());
    let open =
        || EmbeddedStore::open_with(folder.file(), Options::default(), clock.clone()).unwrap();
    let store = open();
    let first = put(&store, "a", "1").await;
    let lease = store.grant_lease(Duration::from_secs(10)).await.unwrap();
    store.txn(Txn::new().put_leased("b", "1", lease)).await.unwrap();
    drop(store);

    clock.advance(Duration::from_secs(60));
    let store = open();
    let mut watch = store.watch(b"", first).await.unwrap();
    assert_eq!(watch.next().await.unwrap().revision, first);
    assert_eq!(watch.next().await.unwrap().revision, first + 1);
    store.keep_alive(lease).await.expect("its time began again with the restart");
    let other = store.grant_lease(Duration::from_secs(90)).await.unwrap();
    assert!(other > lease, "a lease is never used twice");
    clock.advance(Duration::from_secs(11));
    store.sweep().await.unwrap();
    assert_eq!(store.get(b"b").await.unwrap(), None);
    assert_eq!(put(&store, "a", "2").await, first + 3);
}

#[tokio::test]
async fn the_change_log_stays_within_its_bound() {
    let options = Options { keep_revisions: 10, ..Options::default() };
    let store = EmbeddedStore::in_memory_with(options, Arc::new(ManualClock::default())).unwrap();
    let mut slow = store.watch(b"", 1).await.unwrap();
    for number in 0..100 {
        put(&store, "a", &number.to_string()).await;
    }
    let oldest = match store.watch(b"", 1).await {
        Err(StoreError::Compacted { oldest, .. }) => oldest,
        other => panic!("{other:?}"),
    };
    assert_eq!(oldest, 91);
    let mut last = 0;
    let end = loop {
        match slow.next().await {
            Ok(batch) if batch.revision == 100 => break None,
            Ok(batch) => {
                assert_eq!(batch.revision, last + 1, "nothing is skipped silently");
                last = batch.revision;
            }
            Err(error) => break Some(error),
        }
    };
    assert!(matches!(end, None | Some(StoreError::Compacted { .. })), "{end:?}");
}

/// Stops the writer whenever it looks at the time, until the gate is open.
#[derive(Debug, Default)]
struct GateClock {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Clock for GateClock {
    fn now(&self) -> Duration {
        if thread::current().name() == Some("store-writer") {
            drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        }
        Duration::ZERO
    }
}

#[tokio::test]
async fn a_full_write_queue_refuses_and_recovers() {
    let clock = Arc::new(GateClock::default());
    let options = Options { max_queue: 1, ..Options::default() };
    let store = Arc::new(EmbeddedStore::in_memory_with(options, clock.clone()).unwrap());
    let mut tasks = JoinSet::new();
    for number in 0..10 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.txn(Txn::new().put(format!("{number}"), "")).await });
    }
    // One write may be in the writer's hands and one in its queue.
    for _ in 0..8 {
        let refused = tasks.join_next().await.unwrap().unwrap().expect_err("full");
        assert_eq!(refused.to_string(), "store is overloaded: write queue holds its limit of 1");
    }
    *clock.open.lock().unwrap() = true;
    clock.opened.notify_all();
    let mut written = 0;
    while let Some(task) = tasks.join_next().await {
        written += usize::from(task.unwrap().is_ok());
    }
    assert!(written > 0);
    assert_eq!(store.range(b"").await.unwrap().entries.len(), written);
}

#[tokio::test]
async fn a_read_beyond_the_bound_is_refused() {
    let options = Options { max_reads: 0, ..Options::default() };
    let store = EmbeddedStore::in_memory_with(options, Arc::new(ManualClock::default())).unwrap();
    let refused = store.get(b"a").await.unwrap_err();
    assert_eq!(refused.to_string(), "store is overloaded: reads under way holds its limit of 0");
}

#[tokio::test]
async fn too_large_a_transaction_is_refused_with_its_size() {
    let options = Options { max_txn_ops: 2, max_txn_bytes: 10, ..Options::default() };
    let store = EmbeddedStore::in_memory_with(options, Arc::new(ManualClock::default())).unwrap();
    let many = store.txn(Txn::new().delete("a").delete("b").delete("c")).await.unwrap_err();
    assert_eq!(many.to_string(), "transaction has 3 operations, the limit is 2");
    let long = store.txn(Txn::new().put("a", vec![0; 10])).await.unwrap_err();
    assert_eq!(long.to_string(), "transaction has 11 bytes, the limit is 10");
}

#[tokio::test]
async fn a_watch_ends_when_the_store_closes() {
    let store = EmbeddedStore::in_memory().unwrap();
    let mut watch = store.watch(b"", 1).await.unwrap();
    drop(store);
    assert!(matches!(watch.next().await, Err(StoreError::Closed)));
}
