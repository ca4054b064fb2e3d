//! A store with something for every call, and the requests about it.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::flaps::{FlapDamping, FlapPolicy};
use fabricast_proto::v1;
use fabricast_tic::{App, StoreLocation, TopologySource};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Faults, Graph, Peer, SwitchId, ibnetdiscover};

use crate::batches;
use crate::choices;
use crate::durability::Failing;
use crate::harness::{Tic, join, link, setup};
use crate::jobs::{created as job_created, named};
use crate::requested_trees::{asked, asks, created, form};
use crate::routes::{report, shared};
use crate::shares::{reserve, reserved};

/// A store that was filled, and what has to be known of it.
pub(super) struct Prepared {
    pub(super) store: Arc<Failing>,
    pub(super) known: Known,
}

/// Numbers that the TIC gave to what the store holds.
#[derive(Clone)]
pub(super) struct Known {
    /// SHA-256 of the topology.
    topology: Vec<u8>,
    /// Term of the route service.
    pub(super) term: u64,
    /// Number of the group `g`, which has a route.
    pub(super) routed: u64,
    /// Number of the group `alone`, which is exclusive and was moved.
    pub(super) exclusive: u64,
    /// Number of a reservation.
    pub(super) reservation: u32,
    /// Moves the group `moved`, which was moved before.
    pub(super) next_move: v1::GroupMove,
}

impl Known {
    /// A report of choices with this number.
    pub(super) fn choices(
        &self,
        number: u64,
        gns: impl IntoIterator<Item = u64>,
    ) -> v1::RecordRouteChoicesRequest {
        let [small, _] = fabrics();
        let switch_name = small.switch_name(SwitchId(0)).to_owned();
        let ports = vec![v1::SwitchPorts { switch_name, ports: vec![1] }];
        let root = u32::try_from(number).unwrap();
        let tree = v1::TreeChoice { tree: 0, part: 0, root, ports, ports_gn: 0 };
        let choice = |gn| v1::RouteChoice { gn, trees: vec![tree.clone()] };
        let changed = gns.into_iter().map(choice).collect();
        let scheme = choices::scheme();
        let scheme = v1::RouteChoiceScheme { topology_sha256: self.topology.clone(), ..scheme };
        let request = choices::request(self.term, number, changed);
        v1::RecordRouteChoicesRequest { scheme: Some(scheme), ..request }
    }
}

/// The topology, and the same with a third leaf switch.
pub(super) fn fabrics() -> [Graph; 2] {
    let text = "kind = 'leaf-spine'\nleaves = 3\nspines = 3\nendpoints_per_leaf = 4";
    let large = TopologySpec::parse(text).unwrap().generate().unwrap();
    let mut faults = Faults::new();
    faults.fail_switch(SwitchId(2));
    [large.without(&faults), large]
}

/// The links of an endpoint's leaf switch to the three switches above it, in the order of these.
fn links(endpoint: &str) -> Vec<v1::DrainLinkRequest> {
    let [graph, _] = fabrics();
    let leaf = graph.switch_of(graph.attachment(graph.find_endpoint(endpoint).unwrap()).unwrap());
    let link = |port| match graph.peer(port) {
        Peer::Switch(peer) => Some(v1::DrainLinkRequest {
            switch_name: graph.switch_name(leaf).to_owned(),
            peer_switch_name: graph.switch_name(graph.switch_of(peer)).to_owned(),
            port: u32::from(graph.port_number(port)),
            validate_only: false,
        }),
        Peer::Endpoint(_) | Peer::None => None,
    };
    let mut links: Vec<_> = graph.ports(leaf).filter_map(link).collect();
    links.sort_by(|a, b| a.peer_switch_name.cmp(&b.peer_switch_name));
    assert_eq!(links.len(), 3);
    links
}

/// Drains another link than the one that is drained.
pub(super) fn drain() -> v1::DrainLinkRequest {
    links("h0").swap_remove(1)
}

/// Resumes the link that is drained.
pub(super) fn resume() -> v1::ResumeLinkRequest {
    let v1::DrainLinkRequest { switch_name, peer_switch_name, port, .. } = drained();
    v1::ResumeLinkRequest { switch_name, peer_switch_name, port }
}

fn drained() -> v1::DrainLinkRequest {
    links("h4").swap_remove(0)
}

/// The list of a switch agent with one link. The store has that of `gone`, with link 0.
pub(super) fn failures(reporter: &str, number: usize) -> v1::ReportFailedElementsRequest {
    let end = links(["h0", "h4"][number]).swap_remove(number);
    let elements = vec![link(&end.switch_name, end.port)];
    v1::ReportFailedElementsRequest { reporter: reporter.to_owned(), elements }
}

pub(super) fn failed(node: &str) -> v1::ReportNodeFailureRequest {
    let (node, reporter) = (node.to_owned(), "test".to_owned());
    v1::ReportNodeFailureRequest { node, reporter, ..Default::default() }
}

pub(super) fn quota(tenant: &str, entries: Option<u32>) -> v1::SetCollectiveQuotaRequest {
    let holder = Some(v1::CollectiveHolder { tenant: tenant.to_owned(), job: None });
    let quota = v1::CollectiveQuota { holder, entries, ..Default::default() };
    v1::SetCollectiveQuotaRequest { quota: Some(quota) }
}

pub(super) fn reservation() -> v1::ReserveEntriesRequest {
    let reservation = v1::CollectiveReservation {
        holder: Some(v1::CollectiveHolder { tenant: "reserves".to_owned(), job: None }),
        entries: 1,
        endpoints: vec!["h0".to_owned()],
        ..Default::default()
    };
    v1::ReserveEntriesRequest { reservation: Some(reservation) }
}

pub(super) fn constants(link_us: f64) -> v1::SetTreeConstantsRequest {
    let constants = v1::TreeConstants {
        path_link_count: 4.0,
        link_us,
        matching_us: 10.0,
        store_us_per_byte: 0.001,
        reduce_us_per_byte: 0.002,
        software_us: 20.0,
        ..Default::default()
    };
    v1::SetTreeConstantsRequest { constants: Some(constants) }
}

/// The share of the job `7`.
pub(super) fn share(seconds: i64) -> v1::ReserveJobRequest {
    v1::ReserveJobRequest {
        account: "physics".to_owned(),
        group_count: 1,
        aggregation_entries: 2,
        lease: Some(prost_types::Duration { seconds, nanos: 0 }),
        ..reserve("7", &["n0"])
    }
}

/// Starts a TIC that reads its topology from the store, and counts flaps.
pub(super) async fn start(store: &Arc<Failing>) -> Tic {
    let mut setup = setup(StoreLocation::Memory);
    setup.topology = TopologySource::Discovered;
    let half_life = Duration::from_secs(3_600);
    setup.config.damping = FlapDamping { policy: FlapPolicy::NoHost, limit: 3, half_life };
    let store = Arc::<Failing>::clone(store);
    Tic::run(App::bind_with_store(setup, store).await.unwrap())
}

/// Fills a store.
pub(super) async fn prepare() -> Prepared {
    let store = Failing::new();
    let tic = start(&store).await;
    let [small, _] = fabrics();
    let reported = tic.report(&ibnetdiscover::write(&small)).await.unwrap();
    add_nodes(&tic).await;
    add_groups(&tic).await;
    add_jobs(&tic).await;
    let reservation = add_collectives(&tic).await;
    let next_move = move_group(&tic).await;
    let term = choices::acquire(&tic).await;
    let [routed, exclusive] = ["g", "alone"];
    let known = Known {
        topology: reported.topology.unwrap().sha256,
        term,
        routed: tic.group(routed).await.unwrap().gn,
        exclusive: tic.group(exclusive).await.unwrap().gn,
        reservation,
        next_move,
    };
    let mut client = tic.client.clone();
    client.report_routes(report(term, known.routed, 3)).await.unwrap();
    client.report_routes(shared(term, known.exclusive, 1)).await.unwrap();
    assert!(tic.group(exclusive).await.unwrap().home_mgid.is_some(), "it was moved");
    let chosen = tokio_stream::once(known.choices(1, [known.routed]));
    choices::client(&tic.address).record_route_choices(chosen).await.unwrap();
    tic.stop().await;
    Prepared { store, known }
}

/// `n0` to `n5`, of which `n3` is drained and `n5` has failed, and failed and drained links.
async fn add_nodes(tic: &Tic) {
    for number in 0..6 {
        tic.announce(number).await.unwrap();
    }
    let mut client = tic.client.clone();
    client.drain_node(v1::DrainNodeRequest { node: "n3".to_owned() }).await.unwrap();
    client.report_node_failure(failed("n5")).await.unwrap();
    client.report_failed_elements(failures("gone", 0)).await.unwrap();
    tic.topologies().await.drain_link(drained()).await.unwrap();
}

async fn add_groups(tic: &Tic) {
    form(tic, "g", &[0, 1, 4]).await;
    for group in ["trees", "plain"] {
        form(tic, group, &[0, 4]).await;
    }
    form(tic, "left", &[0, 1]).await;
    for group in ["deleted", "moved"] {
        form(tic, group, &[0]).await;
    }
    let alone = v1::JoinGroupRequest { exclusive: true, ..join("alone", 0, "p") };
    tic.client.clone().join_group(alone).await.unwrap();
    let batch = vec![batches::request("batch", vec![batches::group("formed", &[0])])];
    batches::form(tic, batch).await.1.unwrap();
}

/// One on a node of its own, and one with a share and a group.
async fn add_jobs(tic: &Tic) {
    job_created(tic, named("placed", &["h6"])).await.unwrap();
    let request = share(1_000);
    reserved(tic, request.clone()).await.unwrap();
    let join = v1::JoinGroupRequest { job_token: request.token, ..join("job/7/a", 0, "p") };
    tic.client.clone().join_group(join).await.unwrap();
}

/// Collectives `kept` and `ended` of `g`, and one that members of `trees` asked for; returns the
/// number of a reservation.
async fn add_collectives(tic: &Tic) -> u32 {
    for name in ["kept", "ended"] {
        created(tic, name).await.unwrap();
    }
    asked(tic, asks("trees", 0)).await.unwrap();
    let mut collectives = tic.collectives();
    collectives.set_collective_quota(quota("limited", Some(3))).await.unwrap();
    collectives.set_tree_constants(constants(15.0)).await.unwrap();
    let reserved = collectives.reserve_entries(reservation()).await.unwrap().into_inner();
    reserved.reservation.unwrap().id
}

/// Moves the group `moved`, and returns a second move of it.
async fn move_group(tic: &Tic) -> v1::GroupMove {
    let mgid = async |group: &str| tic.group(group).await.unwrap().mgid;
    let to = |from_mgid, to_mgid| v1::GroupMove { group: "moved".to_owned(), from_mgid, to_mgid };
    let moves = vec![to(mgid("moved").await, mgid("g").await)];
    let request = v1::MoveGroupsRequest { moves };
    tic.client.clone().move_groups(request).await.unwrap();
    let home = tic.group("moved").await.unwrap().home_mgid;
    to(home.expect("it was moved"), mgid("plain").await)
}
