//! The embedded store, in memory and in a file.

use std::sync::Arc;

use fabricast_store::{EmbeddedStore, ManualClock, Options};

use crate::suite;

#[tokio::test]
async fn embedded_store_in_memory_conforms() {
    let clock = Arc::new(ManualClock::default());
    let store = EmbeddedStore::in_memory_with(Options::default(), clock.clone()).unwrap();
    check(Arc::new(store), clock).await;
}

#[tokio::test]
async fn embedded_store_in_a_file_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let store =
        EmbeddedStore::open_with(folder.path().join("s"), Options::default(), clock.clone())
            .unwrap();
    check(Arc::new(store), clock).await;
}

async fn check(store: Arc<EmbeddedStore>, clock: Arc<ManualClock>) {
    suite::run(store.clone(), async move |time| {
        clock.advance(time);
        store.sweep().await.unwrap();
    })
    .await;
}
