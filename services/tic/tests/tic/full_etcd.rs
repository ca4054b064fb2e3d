//! TICs on an etcd that has used its quota.

mod needs_etcd {
    use std::time::Duration;

    use fabricast_store::{EtcdLocation, EtcdStore, Store, StoreError, Txn};
    use fabricast_testing::Etcd;
    use fabricast_tic::{App, StoreLocation};

    use crate::durability::check_store_full;
    use crate::harness::{Tic, join, leave, reason, setup};

    async fn tic(location: &StoreLocation) -> Tic {
        let mut settings = setup(location.clone());
        settings.config.leader_lease = Duration::from_secs(2);
        Tic::run(App::bind(settings).await.unwrap())
    }

    /// Waits until a TIC answers a read of a group as this.
    async fn until(tic: &Tic, expected: &str) {
        let answer = |answered: Result<_, _>| match answered {
            Ok(_) => String::new(),
            Err(status) => reason(&status),
        };
        while answer(tic.group("g").await) != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes beside the records until etcd has no space left.
    async fn fill(etcd: &Etcd) {
        let endpoints = etcd.endpoints();
        let prefix = "other".to_owned();
        let location = EtcdLocation { endpoints, prefix, certificates: None };
        let store = EtcdStore::open(&location).await.unwrap();
        for number in 0.. {
            assert!(number < 1_000, "there is still space");
            let write = Txn::new().put(format!("n{number}"), vec![7; 64 << 10]);
            match store.txn(write).await {
                Ok(_) => {}
                Err(StoreError::NoSpace) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[tokio::test]
    async fn another_tic_follows_a_leader_that_dies_while_etcd_has_no_space() {
        let etcd = Etcd::start_small(1, 8 << 20).await;
        let location: StoreLocation = etcd.url("full").parse().unwrap();
        let first = tic(&location).await;
        until(&first, "UNKNOWN_GROUP").await;
        first.register(0).await;
        for process in ["p", "q"] {
            first.join("g", 0, process).await;
        }
        let second = tic(&location).await;
        until(&second, "NOT_LEADER").await;
        fill(&etcd).await;
        let refused = first.client.clone().join_group(join("g", 0, "r")).await.unwrap_err();
        check_store_full(&refused);

        first.kill().await;
        until(&second, "").await;
        assert_eq!(second.group("g").await.unwrap().members.len(), 2);
        let mut client = second.client.clone();
        check_store_full(&client.join_group(join("g", 0, "r")).await.unwrap_err());
        client.leave_group(leave("g", 0, "p")).await.unwrap();
        assert_eq!(second.group("g").await.unwrap().members.len(), 1);
    }
}
