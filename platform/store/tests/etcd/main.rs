//! A store in etcd: while members die and freeze, at etcd's limits, with certificates.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod needs_etcd {
    mod certificates;
    mod faults;
}

use std::time::Duration;

use fabricast_store::{EtcdLocation, EtcdOptions, EtcdStore};

#[tokio::test]
async fn an_etcd_that_does_not_answer_is_named() {
    let endpoints = vec!["127.0.0.1:1".to_owned()];
    let location = EtcdLocation { endpoints, prefix: "p".into(), certificates: None };
    let options = EtcdOptions { patience: Duration::from_millis(50), ..EtcdOptions::default() };
    let error = EtcdStore::open_with(&location, options).await.unwrap_err();
    assert_eq!(error.to_string(), "etcd at 127.0.0.1:1 does not answer in plain text");
}
