//! Collectives and jobs while the store has no space. All calls: `full_store_calls`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_tic::{App, StoreLocation, TopologySource};

use crate::durability::{Failing, IS_FULL, WORKS, check_store_full};
use crate::harness::{Tic, graph, join, setup, switch};
use crate::jobs::{self, delete, named};
use crate::requested_trees::{asked, asks, created, fails, form, names};
use crate::shares::{reserve, reserved};

/// Everything that adds records of collectives is refused.
async fn refused(tic: &Tic) {
    check_store_full(&created(tic, "new").await.unwrap_err());
    check_store_full(&asked(tic, asks("other", 0)).await.unwrap_err());
    let holder = Some(v1::CollectiveHolder { tenant: "t".to_owned(), job: None });
    let reservation = v1::CollectiveReservation {
        holder: holder.clone(),
        entries: 1,
        endpoints: vec!["h0".to_owned()],
        ..Default::default()
    };
    let request = v1::ReserveEntriesRequest { reservation: Some(reservation) };
    check_store_full(&tic.collectives().reserve_entries(request).await.unwrap_err());
    let quota = v1::CollectiveQuota { holder, entries: Some(3), ..Default::default() };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    check_store_full(&tic.collectives().set_collective_quota(request).await.unwrap_err());
}

async fn released(tic: &Tic, name: &str) -> bool {
    let request = v1::ReleaseCollectiveRequest { name: name.to_owned() };
    tic.collectives().release_collective(request).await.unwrap().into_inner().released
}

#[tokio::test]
async fn without_space_no_collective_is_decided_and_those_there_are_end() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    form(&tic, "g", &[0, 1, 4]).await;
    form(&tic, "other", &[0, 4]).await;
    for name in ["ended", "kept"] {
        created(&tic, name).await.unwrap();
    }
    store.set(IS_FULL);
    check_store_full(&created(&tic, "new").await.unwrap_err());
    // The store is asked about once a second, however many try.
    let (begun, asked) = (Instant::now(), store.had_no_space.load(Ordering::SeqCst));
    for _ in 0..20 {
        refused(&tic).await;
    }
    let asked = store.had_no_space.load(Ordering::SeqCst) - asked;
    assert!(u64::from(asked) <= begun.elapsed().as_secs() + 1, "{asked} times");

    // New trees would need space, and keep none from ending.
    fails(&tic, vec![switch("S-2")]).await;
    assert!(released(&tic, "ended").await);
    assert_eq!(created(&tic, "kept").await.unwrap().name, "kept", "what is stored is answered");
    let usage = v1::GetEntryUsageRequest::default();
    tic.collectives().get_entry_usage(usage).await.unwrap();
    assert_eq!(names(&tic).await, ["kept"]);

    store.set(WORKS);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let new = created(&tic, "new").await.unwrap();
    assert_ne!(new.state(), v1::CollectiveState::SwitchTree, "the spine has failed");
    assert_eq!(names(&tic).await, ["kept", "new"]);
}

#[tokio::test]
async fn without_space_no_job_begins_and_those_there_are_keep_their_leases_and_end() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    let leased = async |seconds: i64| {
        let request = v1::ReserveJobRequest {
            account: "physics".to_owned(),
            group_count: 1,
            aggregation_entries: 2,
            lease: Some(prost_types::Duration { seconds, nanos: 0 }),
            ..reserve("7", &["n0"])
        };
        let share = reserved(&tic, request).await.unwrap().share.unwrap();
        share.expire_time.unwrap().seconds
    };
    let first = leased(1_000).await;
    let job_token = reserve("7", &[]).token;
    let request = v1::JoinGroupRequest { job_token, ..join("job/7/a", 0, "p") };
    tic.client.clone().join_group(request).await.unwrap();
    jobs::created(&tic, named("placed", &["h4"])).await.unwrap();

    store.set(IS_FULL);
    check_store_full(&reserved(&tic, reserve("8", &["h5"])).await.unwrap_err());
    check_store_full(&jobs::created(&tic, named("new", &["h6"])).await.unwrap_err());
    assert!(leased(5_000).await > first + 3_000, "else the job would end");
    let ended = tic.jobs().delete_job(delete("7")).await.unwrap().into_inner();
    assert_eq!((ended.group_count, ended.membership_count), (1, 1));
    tic.jobs().delete_job(delete("placed")).await.unwrap();
    let listed = tic.jobs().list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    assert_eq!((listed.into_inner().jobs.len(), tic.groups().await.len()), (0, 0));
}

/// All collectives that are left are written with the end of one.
#[tokio::test]
async fn without_space_collectives_end_also_if_all_have_new_trees_on_another_topology() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    form(&tic, "g", &[0, 1, 4]).await;
    for name in ["a", "ended", "z"] {
        created(&tic, name).await.unwrap();
    }
    tic.stop().await;

    store.set(IS_FULL);
    let start = async || {
        let mut setup = setup(StoreLocation::Memory);
        setup.topology = TopologySource::File("another\n".into(), Arc::new(graph()));
        let store = Arc::<Failing>::clone(&store);
        Tic::run(App::bind_with_store(setup, store).await.unwrap())
    };
    let tic = start().await;
    assert!(released(&tic, "ended").await);
    tic.kill().await;
    assert_eq!(names(&start().await).await, ["a", "z"]);
}
