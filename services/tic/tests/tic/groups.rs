//! Joining, leaving, deleting and listing.

use fabricast_proto::v1;
use fabricast_rpc::{BoundServer, Security};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::harness::{Tic, join, leave, reason, registration};

#[tokio::test]
async fn a_group_exists_from_its_first_join_to_its_last_leave() {
    let tic = Tic::on_memory().await;
    tic.register_at(0, "127.0.0.1:7000").await;
    tic.register_at(1, "127.0.0.1:7001").await;
    let mut client = tic.client.clone();
    let first = client.join_group(join("rows/1", 0, "p")).await.unwrap().into_inner();
    let group = first.group.unwrap();
    assert_eq!((group.name.as_str(), group.agent_node.as_str()), ("rows/1", "n0"));
    assert_eq!((group.agent_address.as_str(), group.member_count), ("127.0.0.1:7000", 1));
    assert!(group.create_time.unwrap().seconds > 1_600_000_000);
    let member = first.member.unwrap();
    assert_eq!((member.pn, member.endpoint.as_str()), (0, "h0"));
    let second = tic.join("rows/1", 1, "p").await;
    assert_eq!((second.pn, second.address.as_str()), (1, "127.0.0.1:7001"));
    assert_eq!((second.node.as_str(), second.incarnation), ("n1", 1));

    let whole = tic.group("rows/1").await.unwrap();
    assert_eq!(whole.members, vec![member, second]);
    assert!(whole.records_revision >= whole.members_revision);
    let by_gn =
        v1::GetGroupRequest { gn: whole.gn, group: "ignored".to_owned(), ..Default::default() };
    let by_gn = client.get_group(by_gn).await.unwrap().into_inner();
    assert_eq!((by_gn.group.unwrap(), by_gn.revision), (whole.clone(), tic.revision().await));

    let left = client.leave_group(leave("rows/1", 0, "p")).await.unwrap().into_inner();
    assert_eq!((left.gn, left.pn), (whole.gn, 0));
    let whole = tic.group("rows/1").await.unwrap();
    assert_eq!((whole.agent_node.as_str(), whole.member_count), ("n1", 1));
    client.leave_group(leave("rows/1", 1, "p")).await.unwrap();
    assert_eq!(reason(&tic.group("rows/1").await.unwrap_err()), "UNKNOWN_GROUP");
}

#[tokio::test]
async fn a_repeated_request_has_the_same_answer_and_changes_nothing() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let mut client = tic.client.clone();
    let mut request = join("g", 0, "p");
    request.persistent = true;
    let first = client.join_group(request.clone()).await.unwrap().into_inner();
    tic.join("g", 0, "q").await;
    let revision = tic.revision().await;
    let again = client.join_group(request).await.unwrap().into_inner();
    assert_eq!((again.member, again.revision), (first.member, first.revision));
    assert_eq!(tic.revision().await, revision);

    let left = client.leave_group(leave("g", 0, "p")).await.unwrap().into_inner();
    tic.join("g", 0, "r").await;
    assert_eq!(client.leave_group(leave("g", 0, "p")).await.unwrap().into_inner(), left);

    let delete = v1::DeleteGroupRequest { request_id: "d".to_owned(), group: "g".to_owned() };
    let deleted = client.delete_group(delete.clone()).await.unwrap().into_inner();
    let revision = tic.revision().await;
    assert_eq!(client.delete_group(delete).await.unwrap().into_inner(), deleted);
    assert_eq!(tic.revision().await, revision);
}

#[tokio::test]
async fn a_node_that_starts_anew_has_a_new_incarnation_and_no_memberships() {
    let tic = Tic::on_memory().await;
    let mut client = tic.client.clone();
    assert_eq!(tic.register(0).await, 1);
    assert_eq!(tic.register(0).await, 1, "the same start");
    tic.join("g", 0, "p").await;
    let again = client.register_node(registration(0, "127.0.0.1:2", 2)).await.unwrap();
    assert_eq!(again.into_inner().node.unwrap().incarnation, 2);
    assert_eq!(reason(&tic.group("g").await.unwrap_err()), "UNKNOWN_GROUP");
    let stale = client.join_group(join("g", 0, "q")).await.unwrap_err();
    assert_eq!(reason(&stale), "STALE_INCARNATION");
}

#[tokio::test]
async fn joins_at_the_same_time_get_different_process_numbers_and_mgids() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let mut joins = tokio::task::JoinSet::new();
    for process in 0..100 {
        let mut client = tic.client.clone();
        joins.spawn(async move {
            client.join_group(join("all", 0, &format!("p{process}"))).await.unwrap();
            client.join_group(join(&format!("g{process}"), 0, "p")).await.unwrap();
        });
    }
    joins.join_all().await;
    let all = tic.group("all").await.unwrap();
    let pns: Vec<u32> = all.members.iter().map(|member| member.pn).collect();
    assert_eq!(pns, (0..100).collect::<Vec<_>>());
    let mut mgids: Vec<u32> = tic.groups().await.iter().map(|group| group.mgid).collect();
    mgids.sort_unstable();
    mgids.dedup();
    assert_eq!(mgids.len(), 101);
}

#[tokio::test]
async fn pages_together_are_the_whole_list() {
    let tic = Tic::on_memory().await;
    let mut client = tic.client.clone();
    for number in 0..5 {
        tic.register(number).await;
        tic.join(&format!("g{number}"), number, "p").await;
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListGroupsRequest {
            page_size: 2,
            page_token: token,
            with_members: true,
            allow_stale: false,
        };
        let page = client.list_groups(request).await.unwrap().into_inner();
        assert!(page.groups.len() <= 2 && page.groups.iter().all(|g| g.members.len() == 1));
        names.extend(page.groups.into_iter().map(|group| group.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["g0", "g1", "g2", "g3", "g4"]);
    loop {
        let request = v1::ListNodesRequest { page_size: 3, page_token: token, allow_stale: false };
        let page = client.list_nodes(request).await.unwrap().into_inner();
        names.extend(page.nodes.into_iter().map(|node| node.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names[5..], ["n0", "n1", "n2", "n3", "n4"]);
}

#[tokio::test]
async fn the_topology_is_downloaded_as_it_was_given() {
    let long = "switch ä\n".repeat(300_000);
    let mut setup = crate::harness::setup(fabricast_tic::StoreLocation::Memory);
    let graph = std::sync::Arc::new(crate::harness::graph());
    setup.topology = fabricast_tic::TopologySource::File(long.as_str().into(), graph);
    let tic = Tic::start(setup).await;
    let request = v1::DownloadTopologyRequest {};
    let mut stream = tic.client.clone().download_topology(request).await.unwrap().into_inner();
    let mut bytes = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        assert!(message.chunk.len() <= 1 << 20);
        bytes.extend(message.chunk);
    }
    assert!(bytes == long.as_bytes(), "{} of {} bytes", bytes.len(), long.len());
}

#[tokio::test]
async fn a_fixed_mgid_is_kept_and_never_shared() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let mut client = tic.client.clone();
    let fixed = |group: &str, mgid| {
        let mut request = join(group, 0, "p");
        (request.mgid, request.request_id) = (Some(mgid), format!("{group} with {mgid}"));
        request
    };
    let group = client.join_group(fixed("a", 77)).await.unwrap().into_inner().group.unwrap();
    assert_eq!(group.mgid, 77);
    let taken = client.join_group(fixed("b", 77)).await.unwrap_err();
    assert_eq!((taken.code(), reason(&taken).as_str()), (Code::AlreadyExists, "MGID_IN_USE"));
    let differs = client.join_group(fixed("a", 78)).await.unwrap_err();
    assert_eq!(reason(&differs), "GROUP_DIFFERS");
    let outside = client.join_group(fixed("c", u32::MAX)).await.unwrap_err();
    assert_eq!(reason(&outside), "MGID_OUT_OF_RANGE");
}

#[tokio::test]
async fn the_services_may_be_served_at_one_more_address() {
    let setup = crate::harness::setup(fabricast_tic::StoreLocation::Memory);
    let app = fabricast_tic::App::bind(setup).await.unwrap();
    let services = app.services();
    let stop = CancellationToken::new();
    let running = tokio::spawn(app.run(stop.clone()));
    let other = BoundServer::bind("127.0.0.1:0".parse().unwrap(), Security::plaintext()).unwrap();
    let mut client = crate::harness::client(&other.address().to_string());
    let serving = tokio::spawn(other.serve(services, stop.clone()));
    let request = registration(0, "127.0.0.1:1", 1);
    assert!(client.register_node(request).await.is_ok());
    stop.cancel();
    serving.await.unwrap().unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn flags_apply_to_a_new_group_and_are_ignored_later() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    tic.join("g", 0, "p").await;
    let mut other = join("g", 0, "q");
    (other.persistent, other.exclusive) = (true, true);
    let group = tic.client.clone().join_group(other).await.unwrap().into_inner().group.unwrap();
    assert_eq!((group.persistent, group.exclusive, group.member_count), (false, false, 2));
}
