//! Groups that are reserved for jobs: shares, tokens, and what happens to both after a crash.

use std::time::Duration;

use fabricast_proto::v1;
use fabricast_tic::{Setup, StoreLocation};
use tonic::{Code, Status};

use crate::batches;
use crate::harness::{Tic, join, reason, setup};
use crate::jobs::{create, created, delete, nodes};

const TOKEN: &str = "0123456789abcdef";
const OTHER: &str = "0123456789abcdeF";

pub(crate) fn reserve(job: &str, nodes: &[&str]) -> v1::ReserveJobRequest {
    v1::ReserveJobRequest {
        job: job.to_owned(),
        token: TOKEN.to_owned(),
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        ..Default::default()
    }
}

pub(crate) async fn reserved(tic: &Tic, request: v1::ReserveJobRequest) -> Result<v1::Job, Status> {
    Ok(tic.jobs().reserve_job(request).await?.into_inner().job.unwrap())
}

pub(crate) async fn job(tic: &Tic, job: &str) -> Result<v1::Job, Status> {
    let request = v1::GetJobRequest { job: job.to_owned() };
    Ok(tic.jobs().get_job(request).await?.into_inner().job.unwrap())
}

fn groups_of(job: &v1::Job) -> (u32, u32) {
    let share = job.share.as_ref().unwrap();
    (share.used_group_count, share.group_count)
}

fn with_token(group: &str, node: u32, token: &str) -> v1::JoinGroupRequest {
    let request_id = format!("{group} {node} {}", token == TOKEN); // ids are stored
    v1::JoinGroupRequest { job_token: token.to_owned(), request_id, ..join(group, node, "p") }
}

async fn joined(tic: &Tic, request: v1::JoinGroupRequest) -> Result<v1::JoinGroupResponse, Status> {
    Ok(tic.client.clone().join_group(request).await?.into_inner())
}

async fn refused_join(tic: &Tic, request: v1::JoinGroupRequest) -> (Code, String) {
    let refused = joined(tic, request).await.unwrap_err();
    (refused.code(), reason(&refused))
}

async fn with_rules(rules: fn(&mut fabricast_config::RawJobShares)) -> Tic {
    let mut setup: Setup = setup(StoreLocation::Memory);
    rules(&mut setup.config.job_shares);
    Tic::start(setup).await
}

#[tokio::test]
async fn a_share_and_its_groups_survive_a_crash_and_end_together() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let tic = Tic::on_file(&file).await;
    tic.register(0).await;
    let request = v1::ReserveJobRequest {
        user: "ann".to_owned(),
        account: "physics".to_owned(),
        step_count: 4,
        ..reserve("slurm-7", &["n0", "h1"])
    };
    let first = reserved(&tic, request.clone()).await.unwrap();
    assert_eq!((first.job_class(), nodes(&first)), (v1::JobClass::Unspecified, vec!["h1", "n0"]));
    let share = first.share.clone().unwrap();
    assert_eq!((share.user.as_str(), share.account.as_str()), ("ann", "physics"));
    // Two of four endpoints of the leaf switch, which has 32 entries.
    assert_eq!((share.group_count, share.groups_per_step), (16, 4));
    assert_eq!(reserved(&tic, request.clone()).await.unwrap(), first, "the answer is repeated");

    assert_eq!(
        refused_join(&tic, with_token("job/slurm-7/a", 0, "")).await,
        (Code::PermissionDenied, "TOKEN_REFUSED".to_owned())
    );
    let refused = joined(&tic, with_token("job/slurm-7/a", 0, OTHER)).await.unwrap_err();
    assert_eq!(
        refused.message(),
        "group \"job/slurm-7/a\" belongs to job \"slurm-7\": the token is not that of the job"
    );
    joined(&tic, with_token("job/slurm-7/a", 0, TOKEN)).await.unwrap();
    tic.kill().await;

    let stored = std::fs::read(&file).unwrap();
    let has = |text: &str| stored.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has("slurm-7") && !has(TOKEN), "the store has the token's hash only");
    let tic = Tic::on_file(&file).await;
    assert_eq!(reserved(&tic, request).await.unwrap().name, "slurm-7");
    assert_eq!(groups_of(&job(&tic, "slurm-7").await.unwrap()), (1, 16));
    joined(&tic, with_token("job/slurm-7/b", 0, TOKEN)).await.unwrap();
    let ended = tic.jobs().delete_job(delete("slurm-7")).await.unwrap().into_inner();
    assert_eq!((ended.group_count, ended.membership_count), (2, 2));
    let again = tic.jobs().delete_job(delete("slurm-7")).await.unwrap().into_inner();
    assert_eq!(again, ended, "the answer is repeated");
    assert!(tic.groups().await.is_empty());
    assert_eq!(reason(&job(&tic, "slurm-7").await.unwrap_err()), "UNKNOWN_JOB");
    assert_eq!(
        refused_join(&tic, with_token("job/slurm-7/c", 0, TOKEN)).await.1,
        "UNKNOWN_JOB",
        "the token ends with the job"
    );
}

#[tokio::test]
async fn nobody_uses_the_job_of_another() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    reserved(&tic, v1::ReserveJobRequest { group_count: 1, ..reserve("7", &["n0"]) })
        .await
        .unwrap();
    let theirs = v1::ReserveJobRequest { token: OTHER.to_owned(), ..reserve("8", &["n0"]) };
    reserved(&tic, theirs).await.unwrap();
    joined(&tic, with_token("job/8/a", 0, OTHER)).await.unwrap();
    let named = v1::JoinGroupRequest { job: "8".to_owned(), ..with_token("free", 0, TOKEN) };
    for request in [with_token("job/8/a", 0, TOKEN), with_token("job/8/b", 0, TOKEN), named] {
        assert_eq!(refused_join(&tic, request).await.1, "TOKEN_REFUSED");
    }
    let taken = v1::ReserveJobRequest { group_count: 1, ..reserve("8", &["n0"]) };
    assert_eq!(reason(&reserved(&tic, taken).await.unwrap_err()), "JOB_EXISTS");
    joined(&tic, with_token("job/7/a", 0, TOKEN)).await.unwrap();
    assert_eq!(refused_join(&tic, with_token("job/7/b", 0, TOKEN)).await.1, "QUOTA_REACHED");
    let batch = v1::FormGroupsRequest {
        request_id: "batch".to_owned(),
        job_token: TOKEN.to_owned(),
        groups: vec![v1::FormedGroupSpec {
            group: "job/8/formed".to_owned(),
            members: vec![v1::FormedMember {
                endpoint: "h0".to_owned(),
                process: "q".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let (_, refused) = batches::form(&tic, vec![batch.clone()]).await;
    assert_eq!(reason(&refused.unwrap_err()), "TOKEN_REFUSED");
    let own = v1::FormGroupsRequest { job_token: OTHER.to_owned(), ..batch };
    batches::form(&tic, vec![own]).await.1.unwrap();
    assert_eq!(groups_of(&job(&tic, "8").await.unwrap()).0, 2);
}

#[tokio::test]
async fn too_many_groups_are_refused_with_the_rule_and_the_time_to_wait() {
    let tic = with_rules(|rules| {
        rules.entries_per_switch = Some(8);
        rules.accounts.insert("physics".to_owned(), 3);
    })
    .await;
    let sized = |job: &str, nodes: &[&str], group_count| v1::ReserveJobRequest {
        group_count,
        ..reserve(job, nodes)
    };
    let refused = reserved(&tic, sized("1", &["h0", "h1"], 5)).await.unwrap_err();
    assert_eq!(reason(&refused), "QUOTA_REACHED");
    assert_eq!(
        refused.message(),
        "group_count: 5 groups, 4 are free within the part of the entries that goes with its nodes"
    );
    let of_account = |request| v1::ReserveJobRequest { account: "physics".to_owned(), ..request };
    reserved(&tic, of_account(sized("2", &["h4"], 2))).await.unwrap();
    let refused = reserved(&tic, of_account(sized("3", &["h5"], 2))).await.unwrap_err();
    assert_eq!(reason(&refused), "QUOTA_REACHED");
    assert_eq!(
        refused.message(),
        "group_count: 2 groups, 1 are free within the limit of account 'physics'"
    );
    // Two jobs on the same nodes: there is nothing left for the second until the first has ended.
    let in_an_hour = std::time::SystemTime::now() + Duration::from_secs(3_600);
    let all = v1::ReserveJobRequest {
        end_time: Some(in_an_hour.into()),
        ..sized("4", &["h0", "h1", "h2", "h3"], 8)
    };
    reserved(&tic, all).await.unwrap();
    let refused = reserved(&tic, sized("5", &["h0"], 1)).await.unwrap_err();
    assert_eq!(reason(&refused), "NO_ROOM");
    assert!(refused.message().contains("the entries of switch 'S-0'"), "{}", refused.message());
    let wait = fabricast_rpc::retry_after(&refused).unwrap();
    assert!((3_500..=3_600).contains(&wait.as_secs()), "{wait:?}");
    tic.jobs().delete_job(delete("4")).await.unwrap();
    assert_eq!(groups_of(&reserved(&tic, sized("5", &["h0"], 0)).await.unwrap()), (0, 2));
}

#[tokio::test]
async fn a_placed_job_gets_a_share_and_one_release_frees_both() {
    let tic = Tic::on_memory().await;
    created(&tic, create("7", 4)).await.unwrap();
    let job = reserved(&tic, reserve("7", &[])).await.unwrap();
    assert_eq!((job.job_class(), groups_of(&job)), (v1::JobClass::T0, (0, 32)));
    reserved(&tic, reserve("8", &["h4"])).await.unwrap(); // a scheduler's choice keeps nobody out
    created(&tic, create("9", 4)).await.unwrap();
    tic.jobs().delete_job(delete("7")).await.unwrap();
    created(&tic, create("10", 4)).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_not_extended_releases_the_job() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let lease = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    reserved(&tic, v1::ReserveJobRequest { lease, ..reserve("7", &["n0"]) }).await.unwrap();
    let others = v1::ReserveJobRequest { group_count: 1, ..reserve("9", &["h4"]) };
    reserved(&tic, others).await.unwrap();
    joined(&tic, with_token("job/7/a", 0, TOKEN)).await.unwrap();
    let gone = async {
        while job(&tic, "7").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    assert!(tic.groups().await.is_empty());
    assert!(job(&tic, "9").await.is_ok(), "its scheduler has not released it");
}

#[tokio::test]
async fn bad_requests_are_refused_and_shut_out_nothing() {
    let tic = Tic::on_memory().await;
    let base = || reserve("7", &["h0"]);
    let many: Vec<String> = (0..70_000).map(|number| format!("n{number}")).collect();
    for (request, expected) in [
        (v1::ReserveJobRequest { job: String::new(), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { job: "a/b".to_owned(), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { job: "j".repeat(257), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { token: String::new(), ..base() }, "FIELD_MISSING"),
        (v1::ReserveJobRequest { token: "short".to_owned(), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { token: "t".repeat(257), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { token: "é".repeat(16), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { nodes: Vec::new(), ..base() }, "FIELD_MISSING"),
        (v1::ReserveJobRequest { nodes: vec!["h99".to_owned()], ..base() }, "UNKNOWN_NODE"),
        (v1::ReserveJobRequest { nodes: vec!["h0".to_owned(); 2], ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { nodes: many, ..base() }, "LIMIT_REACHED"),
        (v1::ReserveJobRequest { account: "a".repeat(257), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { user: "a\nb".to_owned(), ..base() }, "NAME_INVALID"),
        (v1::ReserveJobRequest { group_count: u32::MAX, ..base() }, "QUOTA_REACHED"),
    ] {
        let refused = reserved(&tic, request).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{}", refused.message());
    }
    for (at, number) in [i64::MIN, -1, 0, 1, i64::MAX].into_iter().enumerate() {
        for nanos in [i32::MIN, 0, i32::MAX] {
            let request = v1::ReserveJobRequest {
                end_time: Some(prost_types::Timestamp { seconds: number, nanos }),
                lease: Some(prost_types::Duration { seconds: number, nanos }),
                step_count: u32::MAX,
                group_count: 1,
                ..reserve(&format!("extreme {at}"), &["h0"])
            };
            let share = reserved(&tic, request).await.unwrap().share.unwrap();
            let left = share.expire_time.unwrap().seconds - 1_600_000_000;
            assert!(left > 0 && share.groups_per_step == 1, "{share:?}");
        }
    }
    reserved(&tic, v1::ReserveJobRequest { group_count: 8, ..base() }).await.unwrap();
    let unknown = tic.jobs().delete_job(delete("nobody's")).await.unwrap_err();
    assert_eq!(reason(&unknown), "UNKNOWN_JOB");
}
