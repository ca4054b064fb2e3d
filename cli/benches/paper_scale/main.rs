//! The paper's fabric with 8 900 groups and 390 000 memberships, all parts in one process: how long
//! changes take until the switches forward by them, and what the process costs.
//!
//! 1. A job is formed with one call: the groups of a grid of 100 x 50 x 26 processes, four on each
//!    endpoint. Timed from the call to its last answer, and until all switches hold all trees. No
//!    node may be expelled meanwhile, no membership lost.
//! 2. The process rests: its processor time and memory.
//! 3. Processes join one by one: from each acknowledgement to the first packet that arrives.
//! 4. Processes join and leave at a rate: from each acknowledgement to the report of the route.
//! 5. `fabric fail --dry-run` lists the groups that would move: from the start of the command on.
//! 6. The link is cut: from the cut to the first packet that arrives, in every group that used it.
//! 7. A new system forms the groups with one process of each group at an endpoint: 292 500 members.
//!
//! Launcher, TIC, its file, route service, switch agent, 7 680 switches and 32 768 nodes share the
//! machine.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

mod changes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_cli::Topology;
use fabricast_cli::cluster::{Cluster, Layout};
use fabricast_proto::v1;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_rpc::Peer;
use fabricast_tic::StoreLocation;
use fabricast_topology::{Graph, TableKind};

/// Processes in each direction, and on each endpoint.
const GRID: [usize; 3] = [100, 50, 26];
const PER_ENDPOINT: usize = 4;
const GROUPS: usize = 50 * 26 + 100 * 26 + 100 * 50;
/// Memberships in one message of the call.
const PER_MESSAGE: usize = 4_096;
/// Interval between two checks of a condition.
const ASK: Duration = Duration::from_millis(10);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    runtime.block_on(async {
        let (cluster, graph) = start(folder.path().join("processes.redb")).await;
        form(&cluster, messages(&graph), "form").await;
        changes::measure(&cluster, &graph).await;
        let up = nodes_up(TicServiceClient::new(channel(cluster.tic))).await;
        assert_eq!(up, cluster.node_count(), "nobody was expelled");
        cluster.stop().await;

        let (cluster, graph) = start(folder.path().join("endpoints.redb")).await;
        let mut messages = messages(&graph);
        for group in messages.iter_mut().flat_map(|message| &mut message.groups) {
            group.members.dedup_by(|one, other| one.endpoint == other.endpoint);
        }
        form(&cluster, messages, "form_endpoints").await;
        cluster.stop().await;
    });
}

/// Starts all parts, and waits until all nodes are up.
async fn start(store: PathBuf) -> (Cluster, Arc<Graph>) {
    let topology = Topology::read("paper").expect("a preset");
    let graph = Arc::clone(&topology.graph);
    let layout = Layout {
        topology,
        engine: EngineKind::CMr4lmsFixed,
        options: EngineOptions::new(32, TableKind::PerPort),
        store: StoreLocation::File(store),
        agent_hosts: 1,
        switch_agents: 1,
        socket: None,
        strict: true,
    };
    let begun = Instant::now();
    let cluster = Cluster::start(layout).await.expect("all parts start");
    let tic = TicServiceClient::new(channel(cluster.tic));
    while nodes_up(tic.clone()).await < cluster.node_count() {
        tokio::time::sleep(ASK * 10).await;
    }
    println!("{} nodes were up after {:?}", cluster.node_count(), begun.elapsed());
    (cluster, graph)
}

/// Forms all groups, and waits until they are programmed.
async fn form(cluster: &Cluster, messages: Vec<v1::FormGroupsRequest>, path: &str) {
    let groups = messages.iter().flat_map(|message| &message.groups);
    let asked: usize = groups.map(|group| group.members.len()).sum();
    let started = Instant::now();
    let mut batches = GroupBatchServiceClient::new(channel(cluster.tic));
    let answers = batches.form_groups(tokio_stream::iter(messages)).await;
    let mut answers = answers.expect("the batch is taken").into_inner();
    let mut members = 0;
    while let Some(answer) = answers.message().await.expect("the batch is formed") {
        members += answer.groups.iter().map(|group| group.pns.len()).sum::<usize>();
    }
    println!("figure paper_scale/{path}/until_answered {} ms", millis(started));
    assert_eq!(members, asked);

    let mut router = RouteServiceClient::new(channel(cluster.router));
    loop {
        let status = router.get_route_status(v1::GetRouteStatusRequest {}).await;
        let status = status.expect("the route service answers").into_inner();
        if status.settled && status.routed_groups as usize == GROUPS {
            break;
        }
        tokio::time::sleep(ASK).await;
    }
    println!("figure paper_scale/{path}/until_programmed {} ms", millis(started));
}

fn channel(address: std::net::SocketAddr) -> fabricast_rpc::Channel {
    Peer::new(&address.to_string()).expect("an address").channel()
}

fn millis(since: Instant) -> u128 {
    since.elapsed().as_millis()
}

/// Nodes that are up in their first incarnation.
async fn nodes_up(mut tic: TicServiceClient<fabricast_rpc::Channel>) -> usize {
    let mut request = v1::ListNodesRequest::default();
    let mut count = 0;
    loop {
        let page = tic.list_nodes(request.clone()).await.expect("the TIC answers").into_inner();
        let up = |node: &&v1::Node| node.state() == v1::NodeState::Up && node.incarnation == 1;
        count += page.nodes.iter().filter(up).count();
        if page.next_page_token.is_empty() {
            return count;
        }
        request.page_token = page.next_page_token;
    }
}

/// Number of the process at a place of the grid.
fn process(a: usize, b: usize, c: usize) -> usize {
    let [x, y, _] = GRID;
    a + x * (b + y * c)
}

/// The call: every line of the grid is a group of all processes on it.
fn messages(graph: &Graph) -> Vec<v1::FormGroupsRequest> {
    let endpoints: Vec<_> = graph.endpoints().collect();
    let [x, y, z] = GRID;
    let member = |a: usize, b: usize, c: usize| {
        let process = process(a, b, c);
        v1::FormedMember {
            endpoint: graph.endpoint_name(endpoints[process / PER_ENDPOINT]).to_owned(),
            process: format!("p{}", process % PER_ENDPOINT),
            ..Default::default()
        }
    };
    let group = |group: String, members: Vec<v1::FormedMember>| v1::FormedGroupSpec {
        group,
        members,
        ..Default::default()
    };
    let mut groups = Vec::with_capacity(GROUPS);
    for c in 0..z {
        for b in 0..y {
            groups.push(group(format!("x/{b}/{c}"), (0..x).map(|a| member(a, b, c)).collect()));
        }
    }
    for a in 0..x {
        for c in 0..z {
            groups.push(group(format!("y/{a}/{c}"), (0..y).map(|b| member(a, b, c)).collect()));
        }
        for b in 0..y {
            groups.push(group(format!("z/{a}/{b}"), (0..z).map(|c| member(a, b, c)).collect()));
        }
    }
    let message = |groups: &[v1::FormedGroupSpec]| v1::FormGroupsRequest {
        request_id: "job".to_owned(),
        job: "job".to_owned(),
        groups: groups.to_vec(),
        ..Default::default()
    };
    groups.chunks(PER_MESSAGE / GRID[0]).map(message).collect()
}
