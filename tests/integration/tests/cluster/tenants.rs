//! Rules for processes: each uses the groups of its tenant only.

use std::os::unix::fs::MetadataExt as _;

use fabricast_client::{Client, Error, Settings};
use fabricast_config::ProcessRule;
use fabricast_integration::{Cluster, Layout, eventually, soon};

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
