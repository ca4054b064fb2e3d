//! Rules for processes: each uses the groups of its tenant only.

use std::os::unix::fs::MetadataExt as _;

use fabricast_client::{Client, Error, Settings};
use fabricast_config::ProcessRule;
use fabricast_integration::{Cluster, Layout, eventually, soon};
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_rpc::reason_of;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

/// A rule for the processes of one user; no tenant means all groups.
pub(crate) fn rule(user: u32, tenant: Option<&str>) -> ProcessRule {
    let tenant = tenant.map(|name| format!("tenant/{name}").parse().unwrap());
    ProcessRule { user: Some(user), group: None, tenant }
}

/// The user that the tests run as.
pub(crate) fn own_user() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// The processes of every member of a group, as the TIC records them.
pub(crate) async fn recorded(cluster: &Cluster, group: &str) -> Vec<String> {
    let groups = cluster.client.groups().await;
    let group = groups.into_iter().find(|one| one.name == group);
    let members = group.map(|group| group.members).unwrap_or_default();
    members.into_iter().map(|member| member.process).collect()
}

async fn attach(cluster: &Cluster, process: &str) -> Result<Client, Error> {
    let settings = Settings::at(cluster.socket(0)).node("n0").process(process);
    soon(Client::attach(settings)).await
}

fn forbidden<T: std::fmt::Debug>(answer: Result<T, Error>) {
    match answer {
        Err(Error::Refused { reason, .. }) => assert_eq!(reason, "NOT_PERMITTED"),
        other => panic!("{other:?}"),
    }
}

async fn cluster(rules: Vec<ProcessRule>) -> Cluster {
    Cluster::start(Layout { process_rules: rules, ..Layout::leaf_spine() }).await
}

#[tokio::test]
async fn a_process_creates_joins_and_reserves_in_groups_of_its_tenant_only() {
    let cluster = cluster(vec![rule(own_user(), Some("acme"))]).await;
    let process = attach(&cluster, "p").await.unwrap();
    let ours = process.join("acme/g").await.unwrap();
    assert_eq!(ours.size().await.unwrap(), 1);
    let reserved = [("q".to_owned(), "n1".to_owned())];
    for group in ["rival/g", "g"] {
        forbidden(process.join(group).await);
        forbidden(process.reserve(group, &reserved).await);
    }
    process.reserve("acme/g", &reserved).await.unwrap();
    let groups = cluster.client.groups().await;
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["acme/g"]);
    drop((ours, process));
    eventually("the group is empty", async || match recorded(&cluster, "acme/g").await {
        members if members.is_empty() => Ok(()),
        members => Err(format!("{members:?}")),
    })
    .await;
}

#[tokio::test]
async fn a_name_with_memberships_of_another_tenant_is_refused_and_keeps_them() {
    let cluster = cluster(vec![rule(own_user(), Some("acme"))]).await;
    cluster.client.join_as("rival/g", "n0", "p").await.unwrap();
    forbidden(attach(&cluster, "p").await);
    // The refused session has ended once the name is refused for the same reason again.
    forbidden(attach(&cluster, "p").await);
    assert_eq!(recorded(&cluster, "rival/g").await, ["p"]);
    // A membership that others give a name which is attached is not ended with the session.
    let other = attach(&cluster, "q").await.unwrap();
    other.join("acme/g").await.unwrap();
    cluster.client.join_as("rival/g", "n0", "q").await.unwrap();
    drop(other);
    eventually("its own membership has ended", async || match recorded(&cluster, "acme/g").await {
        members if members.is_empty() => Ok(()),
        members => Err(format!("{members:?}")),
    })
    .await;
    assert_eq!(recorded(&cluster, "rival/g").await, ["p", "q"]);
}

/// Token of job `a`.
const TOKEN_A: &str = "aaaaaaaaaaaaaaaa";
/// Token of job `b`.
const TOKEN_B: &str = "bbbbbbbbbbbbbbbb";
/// Token of no job.
const FALSE_TOKEN: &str = "cccccccccccccccc";

/// A process that may name groups which it is no member of.
struct JobProcess {
    calls: ProcessServiceClient<Channel>,
    session: u64,
    _attached: Streaming<v1::AttachProcessResponse>,
}

impl JobProcess {
    async fn attach(cluster: &Cluster, process: &str, token: &str) -> Self {
        let socket = format!("unix://{}", cluster.socket(0).display());
        let channel = Endpoint::from_shared(socket).unwrap().connect_lazy();
        let mut calls = ProcessServiceClient::new(channel);
        let request = v1::AttachProcessRequest {
            process: process.to_owned(),
            node: "n0".to_owned(),
            job_token: token.to_owned(),
        };
        let mut attached = calls.attach_process(request).await.unwrap().into_inner();
        let session = attached.message().await.unwrap().unwrap().session;
        Self { calls, session, _attached: attached }
    }

    async fn join(&mut self, group: &str) -> Result<(), Status> {
        let (session, group) = (self.session, group.to_owned());
        let request = v1::ProcessServiceJoinGroupRequest { session, group };
        soon(self.calls.join_group(request)).await.map(|_| ())
    }

    /// Joins a process that is to attach later.
    async fn reserve(&mut self, group: &str) -> Result<(), Status> {
        let later = v1::LocalProcess { process: "later".to_owned(), node: "n0".to_owned() };
        let (session, group) = (self.session, group.to_owned());
        let processes = vec![later];
        let request = v1::ReserveMembersRequest { session, group, processes, user: None };
        soon(self.calls.reserve_members(request)).await.map(|_| ())
    }

    async fn list(&mut self, group: &str) -> Result<Vec<String>, Status> {
        let (session, group) = (self.session, group.to_owned());
        let request = v1::ListMembersRequest { session, group };
        let members = soon(self.calls.list_members(request)).await?.into_inner().members;
        Ok(members.into_iter().map(|member| member.process).collect())
    }

    async fn watch(&mut self, group: &str) -> Result<(), Status> {
        let (session, group) = (self.session, group.to_owned());
        let request = v1::WatchMembersRequest { session, group };
        soon(self.calls.watch_members(request)).await.map(|_| ())
    }
}

/// Code and reason of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let refused = answer.unwrap_err();
    (refused.code(), reason_of(&refused).unwrap_or_default())
}

/// A rule by job has one tenant for the groups of all jobs, so the token tells them apart.
#[tokio::test]
async fn a_rule_by_job_lets_a_process_into_the_groups_of_its_own_job_only() {
    let cluster = cluster(vec![rule(own_user(), Some("job"))]).await;
    for (job, token) in [("a", TOKEN_A), ("b", TOKEN_B)] {
        let request = v1::ReserveJobRequest {
            job: job.to_owned(),
            token: token.to_owned(),
            nodes: vec!["n0".to_owned()],
            group_count: 1,
            ..Default::default()
        };
        cluster.client.jobs().reserve_job(request).await.unwrap();
    }
    let mut ours = JobProcess::attach(&cluster, "a0", TOKEN_A).await;
    let mut theirs = JobProcess::attach(&cluster, "b0", TOKEN_B).await;
    ours.join("job/a/g").await.unwrap();
    theirs.join("job/b/g").await.unwrap();
    assert_eq!(ours.list("job/a/g").await.unwrap(), ["a0"]);

    let not_the_jobs = (Code::PermissionDenied, "TOKEN_REFUSED".to_owned());
    for group in ["job/b/g", "job/b/new"] {
        assert_eq!(refusal(ours.join(group).await), not_the_jobs, "{group}");
        assert_eq!(refusal(ours.reserve(group).await), not_the_jobs, "{group}");
    }
    let no_member = (Code::NotFound, "NOT_A_MEMBER".to_owned());
    assert_eq!(refusal(ours.list("job/b/g").await), no_member);
    assert_eq!(refusal(ours.watch("job/b/g").await), no_member);
    let of_others = (Code::PermissionDenied, "NOT_PERMITTED".to_owned());
    for group in ["acme/g", "g", "jobs/a/g", "job"] {
        assert_eq!(refusal(ours.join(group).await), of_others, "{group}");
        assert_eq!(refusal(ours.list(group).await), of_others, "{group}");
    }
    for (process, token) in [("false", FALSE_TOKEN), ("none", "")] {
        let mut stranger = JobProcess::attach(&cluster, process, token).await;
        for group in ["job/a/g", "job/b/g", "job/a/new"] {
            assert_eq!(refusal(stranger.join(group).await), not_the_jobs, "{process}: {group}");
        }
        assert_eq!(refusal(stranger.list("job/a/g").await), no_member, "{process}");
    }
    let groups = cluster.client.groups().await;
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["job/a/g", "job/b/g"]);
    assert_eq!(recorded(&cluster, "job/a/g").await, ["a0"]);
    assert_eq!(recorded(&cluster, "job/b/g").await, ["b0"]);
}
