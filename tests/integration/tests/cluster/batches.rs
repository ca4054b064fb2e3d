//! Whole jobs through all parts: formed by a launcher, joined and left in one call, waited for.

use fabricast_integration::{Cluster, Layout, Traffic, eventually, member_tables_agree};
use fabricast_proto::v1;
use fabricast_proto::v1::OperatingAgentServiceJoinGroupRequest as JoinRequest;
use fabricast_proto::v1::OperatingAgentServiceLeaveGroupRequest as LeaveRequest;
use fabricast_topology::Faults;

fn join_request(group: &str, process: u32) -> JoinRequest {
    JoinRequest {
        group: group.to_owned(),
        node: "n0".to_owned(),
        process: format!("p{process}"),
        ..Default::default()
    }
}

#[tokio::test]
async fn what_a_launcher_formed_carries_packets_and_ends_with_its_job() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    let member = |endpoint: &str| v1::FormedMember {
        endpoint: endpoint.to_owned(),
        process: "p0".to_owned(),
        ..Default::default()
    };
    let nodes = client.nodes().await.unwrap();
    let endpoints: Vec<String> =
        nodes.iter().filter_map(|node| node.endpoints.first().cloned()).collect();
    let group = |name: String, some: &[String]| v1::FormedGroupSpec {
        group: name,
        members: some.iter().map(|endpoint| member(endpoint)).collect(),
        ..Default::default()
    };
    let rows = endpoints.chunks_exact(3).enumerate();
    let groups: Vec<_> = rows.map(|(n, some)| group(format!("row/{n}"), some)).collect();
    let count = groups.len();
    assert!(count > 2, "a job has several groups");
    let request = v1::FormGroupsRequest {
        request_id: "r".to_owned(),
        job: "j".to_owned(),
        groups,
        ..Default::default()
    };
    let formed = client.batches().form_groups(tokio_stream::iter([request])).await.unwrap();
    let answer = formed.into_inner().message().await.unwrap().unwrap();
    assert_eq!(answer.groups.len(), count);
    cluster.is_whole(&traffic, &Faults::new()).await;

    let end = v1::DeleteJobGroupsRequest { request_id: "e".to_owned(), job: "j".to_owned() };
    let ended = client.batches().delete_job_groups(end).await.unwrap().into_inner();
    assert_eq!(usize::try_from(ended.group_count).unwrap(), count);
    cluster.is_whole(&traffic, &Faults::new()).await;
    eventually("no table holds anything of the job", async || {
        let left = client.tables().await.iter().map(|table| table.entries.len()).sum::<usize>();
        if left == 0 { Ok(()) } else { Err(format!("{left} entries")) }
    })
    .await;
}

#[tokio::test]
async fn processes_of_a_node_join_and_leave_many_groups_in_one_call() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    client.join_all("g0", &["n3", "n7"]).await;
    let mut home = client.home("n0");
    let mut joins: Vec<_> = (0..40).map(|n| join_request(&format!("g{}", n % 8), n / 8)).collect();
    joins[11].endpoint = "nowhere".to_owned();
    let many = v1::OperatingAgentServiceJoinManyRequest { joins: joins.clone() };
    let ends = home.join_many(many).await.unwrap().into_inner().ends;
    let granted = |end: &v1::JoinEnd| matches!(end.end, Some(v1::join_end::End::Membership(_)));
    assert_eq!(ends.iter().filter(|end| granted(end)).count(), 39);
    let Some(v1::join_end::End::Refusal(refusal)) = &ends[11].end else { panic!("{ends:?}") };
    assert_eq!(refusal.reason, "UNKNOWN_ENDPOINT");
    cluster.is_whole(&traffic, &Faults::new()).await;

    joins[2].node = "stranger".to_owned();
    let many = v1::OperatingAgentServiceJoinManyRequest { joins };
    let refused = home.join_many(many).await.unwrap_err();
    assert!(refused.message().starts_with("joins[2].node: 'stranger'"), "{refused:?}");

    let leaves = (0..40).map(|n| LeaveRequest {
        group: format!("g{}", n % 8),
        node: "n0".to_owned(),
        process: format!("p{}", n / 8),
        request_id: String::new(),
    });
    let many = v1::OperatingAgentServiceLeaveManyRequest { leaves: leaves.collect() };
    let ends = home.leave_many(many).await.unwrap().into_inner().ends;
    let refused: Vec<_> = ends.iter().filter_map(|end| end.refusal.as_ref()).collect();
    assert!(matches!(refused[..], [one] if one.reason == "NOT_A_MEMBER"), "{refused:?}");
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert_eq!(client.groups().await.len(), 1);
}

#[tokio::test]
async fn a_group_that_waits_has_no_tree_before_all_are_there() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    let waits = |node: &str| JoinRequest {
        node: node.to_owned(),
        complete_at_member_count: 4,
        ..join_request("late", 0)
    };
    for node in ["n0", "n3", "n7"] {
        client.join_with(waits(node)).await.unwrap();
        client.settled().await;
        assert!(client.tables().await.iter().all(|table| table.entries.is_empty()), "{node}");
        let route = client.group("late").await.route.unwrap();
        assert_eq!(route.reason, "waits for its members");
    }
    client.join_with(waits("n10")).await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    client.leave("late", "n3").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    let group = client.group("late").await;
    assert_eq!((group.member_count, group.incomplete), (3, false));
}

/// The small form of `cli/benches/paper_scale`.
#[tokio::test]
async fn thousands_of_memberships_at_once_reach_everybody_and_expel_no_node() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let nodes = client.nodes().await.unwrap();
    let endpoints: Vec<&String> = nodes.iter().filter_map(|node| node.endpoints.first()).collect();
    let member = |number: usize| v1::FormedMember {
        endpoint: endpoints[number % endpoints.len()].clone(),
        process: format!("p{}", number / endpoints.len()),
        ..Default::default()
    };
    let group = |number: usize| v1::FormedGroupSpec {
        group: format!("row/{number}"),
        members: (number..number + 40).map(member).collect(),
        ..Default::default()
    };
    let groups: Vec<v1::FormedGroupSpec> = (0..60).map(group).collect();
    let messages: Vec<v1::FormGroupsRequest> = groups
        .chunks(20)
        .map(|some| v1::FormGroupsRequest {
            request_id: "r".to_owned(),
            groups: some.to_vec(),
            ..Default::default()
        })
        .collect();
    let formed = client.batches().form_groups(tokio_stream::iter(messages)).await.unwrap();
    let (mut formed, mut count) = (formed.into_inner(), 0);
    while let Some(answer) = formed.message().await.unwrap() {
        count = answer.formed_count;
    }
    assert_eq!(count, 60);
    client.settled().await;
    eventually("every member has its place", async || member_tables_agree(client).await).await;
    assert_eq!(client.nodes().await.unwrap(), nodes, "all of them in their first incarnation");
}
