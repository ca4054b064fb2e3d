//! Durable transactions per second, one and many at a time, and the speed of reads.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the bench")]

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use fabricast_store::{EmbeddedStore, Store, Txn};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

fn main() {
    divan::main();
}

struct Bench {
    runtime: Runtime,
    store: Arc<EmbeddedStore>,
    _folder: tempfile::TempDir,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store")).unwrap());
    Bench { runtime: Runtime::new().unwrap(), store, _folder: folder }
}

/// Transactions of two small values, this many callers at once.
#[divan::bench(args = [1, 64, 1024], sample_count = 20)]
fn transactions(bencher: Bencher<'_, '_>, callers: usize) {
    let Bench { runtime, store, _folder } = bench();
    bencher.counter(ItemsCount::new(callers)).bench_local(|| {
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for caller in 0..callers {
                let store = Arc::clone(&store);
                let txn = Txn::new().put(format!("a/{caller}"), vec![1; 128]);
                let txn = txn.put(format!("b/{caller}"), vec![2; 128]);
                tasks.spawn(async move { store.txn(txn).await });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap().unwrap();
            }
        });
    });
}

/// Transactions of many values each, one after the other: forming groups in bulk.
#[divan::bench(args = [1_000, 40_000], sample_count = 10)]
fn bulk_puts(bencher: Bencher<'_, '_>, puts: usize) {
    let Bench { runtime, store, _folder } = bench();
    bencher.counter(ItemsCount::new(puts)).bench_local(|| {
        let txn = (0..puts).fold(Txn::new(), |txn, n| txn.put(format!("m/{n:08}"), vec![3; 32]));
        runtime.block_on(store.txn(txn)).unwrap();
    });
}

/// Reads of a store of 40 000 keys: one key, then all of them.
#[divan::bench(args = ["m/00012345", "m/"])]
fn reads(bencher: Bencher<'_, '_>, prefix: &str) {
    let Bench { runtime, store, _folder } = bench();
    let txn = (0..40_000).fold(Txn::new(), |txn, n| txn.put(format!("m/{n:08}"), vec![3; 32]));
    runtime.block_on(store.txn(txn)).unwrap();
    let keys = runtime.block_on(store.range(prefix.as_bytes())).unwrap().entries.len();
    bencher
        .counter(ItemsCount::new(keys))
        .bench_local(|| runtime.block_on(store.range(prefix.as_bytes())).unwrap());
}
