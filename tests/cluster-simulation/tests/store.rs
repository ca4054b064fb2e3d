//! The simulated store behaves as every store must, and fails as its faults say.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

#[path = "../../../platform/store/tests/conformance/suite.rs"]
mod suite;

use std::sync::Arc;
use std::time::Duration;

use fabricast_cluster_simulation::{SharedStore, SimulatedClock};
use fabricast_store::{Clock, Store, StoreError, Txn};

#[tokio::test(start_paused = true)]
async fn simulated_store_conforms() {
    let clock = SimulatedClock::default();
    let store = SharedStore::new(Arc::new(clock.clone()));
    let link = Arc::new(store.link());
    suite::run(link, async |time| {
        clock.set(clock.now() + time);
        store.expire();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_faulty_link_loses_requests_or_answers() {
    let store = SharedStore::new(Arc::new(SimulatedClock::default()));
    let (link, other) = (store.link(), store.link());
    link.set(|faults| faults.failing = 1);
    let lost = link.txn(Txn::new().put("a", "1")).await;
    assert!(matches!(lost, Err(StoreError::Unavailable { .. })), "{lost:?}");
    assert_eq!(other.get(b"a").await.unwrap(), None);
    link.set(|faults| (faults.failing, faults.lose_answers) = (1, true));
    let lost = link.txn(Txn::new().put("a", "2")).await;
    assert!(matches!(lost, Err(StoreError::Unavailable { .. })), "{lost:?}");
    assert_eq!(other.get(b"a").await.unwrap().unwrap().value, b"2");
    link.set(|faults| faults.cut = true);
    assert!(link.revision().await.is_err());
    link.set(|faults| faults.cut = false);
    let lease = link.grant_lease(Duration::from_secs(1)).await.unwrap();
    link.keep_alive(lease).await.unwrap();
}
