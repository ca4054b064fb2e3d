//! Aggregation entries of jobs: kept while the job lasts, within quotas, on whatever topology.

use std::path::Path;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_tic::StoreLocation;
use tonic::{Code, Status};

use crate::harness::{Tic, link, reason};
use crate::jobs::{create, created, delete};
use crate::shares::{job, reserve, reserved};
use crate::topology::{leaves, patiently, start};

/// Holder, number of entries and endpoints of each reservation.
type Kept = (String, String, u32, Vec<String>);

fn one(account: &str, job: &str, entries: u32, endpoints: &[&str]) -> Kept {
    let endpoints = endpoints.iter().map(|one| (*one).to_owned()).collect();
    (account.to_owned(), job.to_owned(), entries, endpoints)
}

async fn kept(tic: &Tic) -> Vec<Kept> {
    let usage = patiently(async || {
        tic.collectives().get_entry_usage(v1::GetEntryUsageRequest::default()).await
    });
    let reservations = usage.await.unwrap().into_inner().reservations.into_iter();
    let row = |one: v1::CollectiveReservation| {
        let v1::CollectiveHolder { tenant, job } = one.holder.unwrap();
        (tenant, job.unwrap_or_default(), one.entries, one.endpoints)
    };
    reservations.map(row).collect()
}

fn asks(job: &str, nodes: &[&str], entries: u32) -> v1::ReserveJobRequest {
    v1::ReserveJobRequest {
        account: "physics".to_owned(),
        aggregation_entries: entries,
        ..reserve(job, nodes)
    }
}

async fn entries_of(tic: &Tic, name: &str) -> u32 {
    let found = patiently(async || job(tic, name).await).await.unwrap();
    found.share.unwrap().aggregation_entries
}

async fn ended(tic: &Tic, name: &str) {
    patiently(async || tic.jobs().delete_job(delete(name)).await).await.unwrap();
}

async fn reserve_entries(tic: &Tic, job: Option<&str>) -> Result<(), Status> {
    let (tenant, job) = ("physics".to_owned(), job.map(str::to_owned));
    let reservation = v1::CollectiveReservation {
        holder: Some(v1::CollectiveHolder { tenant, job }),
        entries: 1,
        endpoints: vec!["h0".to_owned()],
        ..Default::default()
    };
    let request = v1::ReserveEntriesRequest { reservation: Some(reservation) };
    tic.collectives().reserve_entries(request).await.map(|_| ())
}

async fn limit(tic: &Tic, job: Option<&str>, entries: Option<u32>, per_switch: Option<u32>) {
    let (tenant, job) = ("physics".to_owned(), job.map(str::to_owned));
    let quota = v1::CollectiveQuota {
        holder: Some(v1::CollectiveHolder { tenant, job }),
        collectives: None,
        entries,
        entries_per_switch: per_switch,
    };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    tic.collectives().set_collective_quota(request).await.unwrap();
}

#[tokio::test]
async fn aggregation_entries_are_kept_for_a_job_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let tic = Tic::on_file(&file).await;
    tic.register(0).await;
    // Somebody else's reservation, which happens to be for the same job.
    reserve_entries(&tic, Some("slurm-7")).await.unwrap();
    let others = one("physics", "slurm-7", 1, &["h0"]);

    let request = asks("slurm-7", &["n0", "h1"], 3);
    let all = one("physics", "slurm-7", 3, &["h1", "h0"]);
    let first = reserved(&tic, request.clone()).await.unwrap();
    assert_eq!(first.share.as_ref().unwrap().aggregation_entries, 3);
    assert_eq!(kept(&tic).await, [others.clone(), all.clone()]);
    let less = v1::ReserveJobRequest { aggregation_entries: 0, ..request.clone() };
    assert_eq!(reserved(&tic, less).await.unwrap(), first, "a heartbeat need not repeat it");
    let more = v1::ReserveJobRequest { aggregation_entries: 4, ..request.clone() };
    assert_eq!(reason(&reserved(&tic, more).await.unwrap_err()), "JOB_EXISTS");

    for (entries, why) in [(1_000, "NO_ROOM"), (70_000, "COLLECTIVE_INVALID")] {
        let refused = reserved(&tic, asks("greedy", &["n0"], entries)).await.unwrap_err();
        assert_eq!(reason(&refused), why);
        assert!(refused.message().starts_with("aggregation_entries: "), "{}", refused.message());
        assert_eq!(job(&tic, "greedy").await.unwrap_err().code(), Code::NotFound);
    }
    created(&tic, create("placed", 1)).await.unwrap();
    let moved = asks("placed", &["h3", "h2"], 2);
    assert_eq!(reason(&reserved(&tic, moved).await.unwrap_err()), "JOB_EXISTS");
    assert_eq!(kept(&tic).await, [others.clone(), all.clone()], "refused calls keep nothing");
    tic.kill().await;

    let tic = Tic::on_file(&file).await;
    assert_eq!(kept(&tic).await, [others.clone(), all]);
    ended(&tic, "slurm-7").await;
    assert_eq!(kept(&tic).await, [others], "the job's own ends with it");
}

#[tokio::test]
async fn a_placed_job_and_one_with_a_lease_give_their_entries_back() {
    let tic = Tic::on_memory().await;
    created(&tic, create("placed", 4)).await.unwrap();
    let job = reserved(&tic, asks("placed", &[], 2)).await.unwrap();
    assert_eq!(job.share.unwrap().aggregation_entries, 2);
    let placed = one("physics", "placed", 2, &["h0", "h1", "h2", "h3"]);
    let lease = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let leased = v1::ReserveJobRequest { lease, ..asks("leased", &["h4"], 3) };
    reserved(&tic, leased).await.unwrap();
    let leased = one("physics", "leased", 3, &["h4"]);
    assert_eq!(kept(&tic).await, [placed.clone(), leased]);
    let gone = async {
        while kept(&tic).await.len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    assert_eq!(kept(&tic).await, [placed]);
    ended(&tic, "placed").await;
    assert_eq!(kept(&tic).await, []);
}

#[tokio::test]
async fn quotas_of_account_and_job_limit_what_jobs_reserve() {
    let tic = Tic::on_memory().await;
    let message = async |request| {
        let refused = reserved(&tic, request).await.unwrap_err();
        assert_eq!(reason(&refused), "QUOTA_REACHED");
        refused.message().to_owned()
    };
    limit(&tic, None, Some(6), None).await;
    // A leaf switch and the spine.
    reserved(&tic, asks("1", &["h0"], 2)).await.unwrap();
    assert_eq!(
        message(asks("2", &["h0"], 2)).await,
        "aggregation_entries: tenant 'physics' may hold 6 entries, and would have 8"
    );
    let other = v1::ReserveJobRequest { account: "chemistry".to_owned(), ..asks("3", &["h0"], 2) };
    reserved(&tic, other).await.unwrap();
    limit(&tic, None, None, None).await;
    limit(&tic, Some("2"), None, Some(1)).await;
    assert_eq!(
        message(asks("2", &["h0"], 2)).await,
        "aggregation_entries: job '2' of tenant 'physics' may hold 1 entries of switch S-0, \
         and would have 2"
    );
    assert_eq!(job(&tic, "2").await.unwrap_err().code(), Code::NotFound);
    reserved(&tic, asks("2", &["h0"], 1)).await.unwrap();
    limit(&tic, None, Some(0), None).await;
    let refused = reserve_entries(&tic, None).await.unwrap_err();
    assert_eq!(reason(&refused), "QUOTA_REACHED");
    assert!(refused.message().starts_with("reservation.entries: "), "{}", refused.message());
}

#[tokio::test]
async fn a_dead_port_is_left_out_of_a_share() {
    let tic = Tic::on_memory().await;
    let reporter = "agent".to_owned();
    let down = v1::ReportFailedElementsRequest { reporter, elements: vec![link("S-0", 2)] };
    tic.client.clone().report_failed_elements(down).await.unwrap();
    reserved(&tic, asks("7", &["h0", "h1", "h4"], 2)).await.unwrap();
    assert_eq!(kept(&tic).await, [one("physics", "7", 2, &["h0", "h4"])]);
    let refused = reserved(&tic, asks("8", &["h1"], 2)).await.unwrap_err();
    assert_eq!(reason(&refused), "MEMBER_CUT_OFF");
    assert_eq!(refused.message(), "nodes: h1 is not connected to a leaf switch");
}

#[tokio::test]
async fn a_change_of_the_topology_keeps_what_fits_and_shares_say_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = || StoreLocation::File(Path::join(folder.path(), "tic.redb"));
    let tic = start(file()).await;
    tic.replace(&leaves(3)).await.unwrap();
    for request in [asks("gone", &["h11"], 2), asks("stays", &["h4", "h8"], 3)] {
        patiently(async || reserved(&tic, request.clone()).await).await.unwrap();
    }
    let all = [one("physics", "gone", 2, &["h11"]), one("physics", "stays", 3, &["h4", "h8"])];
    assert_eq!(kept(&tic).await, all);
    tic.replace(&leaves(2)).await.unwrap();
    let rest = [one("physics", "stays", 3, &["h4"])];
    assert_eq!(kept(&tic).await, rest);
    assert_eq!((entries_of(&tic, "stays").await, entries_of(&tic, "gone").await), (3, 0));
    tic.stop().await;

    let tic = start(file()).await;
    assert_eq!(kept(&tic).await, rest);
    assert_eq!((entries_of(&tic, "stays").await, entries_of(&tic, "gone").await), (3, 0));
    let again = reserved(&tic, asks("gone", &["h11"], 2)).await.unwrap();
    assert_eq!(again.share.unwrap().aggregation_entries, 0, "a heartbeat says so, too");
    ended(&tic, "gone").await;
    ended(&tic, "stays").await;
    assert_eq!(kept(&tic).await, []);
}
