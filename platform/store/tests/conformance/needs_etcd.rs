//! A store in a real etcd. What happens while members die and freeze is in `tests/etcd`.

use std::sync::Arc;

use fabricast_store::{EtcdLocation, EtcdStore};
use fabricast_testing::Etcd;

use crate::suite;

async fn store(etcd: &Etcd, prefix: &str) -> Arc<EtcdStore> {
    let (endpoints, prefix) = (etcd.endpoints(), prefix.to_owned());
    let location = EtcdLocation { endpoints, prefix, certificates: None };
    Arc::new(EtcdStore::open(&location).await.unwrap())
}

#[tokio::test]
async fn store_in_a_single_etcd_conforms() {
    let etcd = Etcd::start(1).await;
    let store = store(&etcd, "conformance").await;
    suite::run(store, async |time| tokio::time::sleep(time).await).await;
}

#[tokio::test]
async fn store_in_an_etcd_of_three_conforms() {
    let etcd = Etcd::start(3).await;
    let store = store(&etcd, "conformance/three").await;
    suite::run(store, async |time| tokio::time::sleep(time).await).await;
}
