//! The least and the greatest numbers in every 64-bit field of the TIC's requests: none of them may
//! shut out what comes after.
//!
//! All other fields name things that there are, so that a request gets as far as it can. The
//! descriptors tell if a field is left out.

use std::collections::BTreeSet;

use fabricast_proto::{FILE_DESCRIPTOR_SET, v1};
use fabricast_tic::{App, StoreLocation};
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value,
};
use prost_types::{Duration, Timestamp};

use crate::batches::batches;
use crate::choices;
use crate::harness::{Tic, join, leave, registration, setup};
use crate::jobs::delete;
use crate::liveness::report_agents;
use crate::shares::{reserve, reserved};

/// As signed numbers: 0, 1, the greatest, the least, and -1.
const NUMBERS: [u64; 5] = [0, 1, (1 << 63) - 1, 1 << 63, u64::MAX];
const ADDRESS: &str = "127.0.0.1:1";

fn pool() -> DescriptorPool {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap()
}

/// Paths of all 64-bit fields of a message.
fn fields(message: &MessageDescriptor, path: &str) -> Vec<String> {
    let of_field = |field: FieldDescriptor| {
        let path = format!("{path}.{}", field.name());
        match field.kind() {
            Kind::Message(inner) => fields(&inner, &path),
            Kind::Uint64 | Kind::Int64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => {
                vec![path]
            }
            _ => Vec::new(),
        }
    };
    message.fields().flat_map(of_field).collect()
}

/// Paths of the 64-bit fields of a message that have a number.
fn fields_with(number: u64, message: &DynamicMessage, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (field, value) in message.fields() {
        let path = format!("{path}.{}", field.name());
        for one in value.as_list().unwrap_or(std::slice::from_ref(value)) {
            match one {
                Value::Message(inner) => found.extend(fields_with(number, inner, &path)),
                Value::U64(sent) if *sent == number => found.push(path.clone()),
                Value::I64(sent) if sent.cast_unsigned() == number => found.push(path.clone()),
                _ => {}
            }
        }
    }
    found
}

/// Paths of all 64-bit fields of the requests that a TIC serves.
async fn served_fields() -> BTreeSet<String> {
    let app = App::bind(setup(StoreLocation::Memory)).await.unwrap();
    let names = format!("{:?}", app.services());
    let pool = pool();
    let is_served = |name: &str| names.contains(&format!("{name:?}"));
    let served = pool.services().filter(|service| is_served(service.full_name()));
    let served: Vec<_> = served.collect();
    assert!(served.len() >= 6, "{names}");
    let methods = served.iter().flat_map(|service| service.methods());
    let requests = methods.map(|method| method.input());
    requests.flat_map(|request| fields(&request, request.name())).collect()
}

/// Fields of requests that had a number.
struct Sent {
    number: u64,
    pool: DescriptorPool,
    fields: BTreeSet<String>,
}

impl Sent {
    fn new(number: u64) -> Self {
        Self { number, pool: pool(), fields: BTreeSet::new() }
    }

    /// Notes the fields of a request that have the number; returns the request.
    fn note<M: Message>(&mut self, request: M) -> M {
        let name = std::any::type_name::<M>().rsplit("::").next().unwrap();
        let descriptor = self.pool.get_message_by_name(&format!("fabricast.v1.{name}")).unwrap();
        let bytes = request.encode_to_vec();
        let message = DynamicMessage::decode(descriptor, bytes.as_slice()).unwrap();
        self.fields.extend(fields_with(self.number, &message, name));
        request
    }

    /// Fields of these that did not have the number, and others that had.
    fn differing<'a>(&'a self, all: &'a BTreeSet<String>) -> Vec<&'a str> {
        self.fields.symmetric_difference(all).map(String::as_str).collect()
    }
}

fn route(revision: u64, virtual_group: u64) -> v1::Route {
    v1::Route {
        routed_revision: revision,
        state: v1::RouteState::Routed.into(),
        color: 3,
        virtual_group,
        ..Default::default()
    }
}

fn report(term: u64, generation: u64) -> v1::ReportRoutesRequest {
    let fence = Some(v1::Fence { term, generation });
    v1::ReportRoutesRequest { term, fence, ..Default::default() }
}

fn routes(gn: u64, route: v1::Route) -> Vec<v1::GroupRoute> {
    vec![v1::GroupRoute { gn, route: Some(route) }]
}

fn constants(set_time: Option<Timestamp>) -> v1::SetTreeConstantsRequest {
    let constants = v1::TreeConstants {
        path_link_count: 4.0,
        link_us: 15.0,
        matching_us: 10.0,
        store_us_per_byte: 0.001,
        reduce_us_per_byte: 0.002,
        software_us: 20.0,
        set_time,
        ..Default::default()
    };
    v1::SetTreeConstantsRequest { constants: Some(constants) }
}

fn membership(number: u64) -> (v1::JoinGroupRequest, v1::LeaveGroupRequest) {
    let joins = v1::JoinGroupRequest { incarnation: number, ..join("g", 0, "q") };
    let leaves = v1::LeaveGroupRequest { incarnation: number, ..leave("g", 0, "q") };
    (joins, leaves)
}

fn gets(number: u64) -> Vec<v1::GetGroupRequest> {
    let by_name = v1::GetGroupRequest { group: "g".to_owned(), ..Default::default() };
    vec![
        v1::GetGroupRequest { gn: number, ..Default::default() },
        v1::GetGroupRequest { unless_members_revision: number, ..by_name },
    ]
}

/// The requests with one number, and what else they name.
struct Requests<'a> {
    tic: &'a Tic,
    sent: Sent,
    /// Term of the route service.
    term: u64,
    /// The group `g`, whose agent is on `n0`.
    group: v1::Group,
    /// Number of a node in its first incarnation and in no group, which may be expelled.
    spare_node: u32,
    /// Number of the nodes' last start; `n7` has not had it yet.
    start_id: u64,
}

impl Requests<'_> {
    /// Sends every request of the TIC with the number in one 64-bit field after the other. Most
    /// are refused; what counts is what the TIC does afterwards.
    async fn send_all(&mut self) {
        self.send_registrations().await;
        self.send_memberships().await;
        self.send_agent_reports().await;
        self.send_failures().await;
        self.send_route_reports().await;
        self.send_choices().await;
        self.send_of_collectives().await;
        self.send_reservations().await;
        self.send_batches().await;
    }

    fn time(&self) -> Timestamp {
        Timestamp { seconds: self.sent.number.cast_signed(), nanos: 0 }
    }

    async fn send_registrations(&mut self) {
        let (mut client, number) = (self.tic.client.clone(), self.sent.number);
        let request = registration(0, ADDRESS, number);
        let _ = client.register_node(self.sent.note(request)).await;
        let (time, node) = (Some(self.time()), registration(7, ADDRESS, 1).node.unwrap());
        let nodes = [
            v1::Node { incarnation: number, ..node.clone() },
            v1::Node { suppressed_until: time, ..node.clone() },
            v1::Node { last_contact_time: time, ..node },
        ];
        for (node, start_id) in nodes.into_iter().zip(self.start_id..) {
            let node = Some(node);
            let request = v1::RegisterNodeRequest { node, start_id, ..Default::default() };
            let admitted = client.register_node(self.sent.note(request)).await;
            let node = admitted.unwrap().into_inner().node.unwrap();
            assert_eq!((node.suppressed_until, node.last_contact_time), (None, None));
        }
    }

    async fn send_memberships(&mut self) {
        let mut client = self.tic.client.clone();
        let (joins, leaves) = membership(self.sent.number);
        let _ = client.join_group(self.sent.note(joins)).await;
        let _ = client.leave_group(self.sent.note(leaves)).await;
        for get in gets(self.sent.number) {
            let _ = client.get_group(self.sent.note(get)).await;
        }
    }

    async fn send_agent_reports(&mut self) {
        let (mut client, number) = (self.tic.client.clone(), self.sent.number);
        for field in 0..4 {
            let incarnation = self.group.members[0].incarnation;
            let mut numbers = [incarnation, self.group.gn, self.group.epoch, 1];
            numbers[field] = number;
            let [incarnation, gn, epoch, known_revision] = numbers;
            let groups = vec![v1::HostedGroup { gn, epoch, known_revision }];
            let node = "n0".to_owned();
            let status = v1::GroupAgentStatus { node, incarnation, groups, ..Default::default() };
            let request = v1::ReportGroupAgentsRequest { statuses: vec![status] };
            let _ = client.report_group_agents(self.sent.note(request)).await;
        }
        for nanos in [0, i32::MIN, i32::MAX] {
            let next_report_in = Some(Duration { seconds: number.cast_signed(), nanos });
            let node = format!("n{}", self.spare_node);
            let status =
                v1::GroupAgentStatus { node, incarnation: 1, next_report_in, groups: vec![] };
            let request = v1::ReportGroupAgentsRequest { statuses: vec![status] };
            let heard = client.report_group_agents(self.sent.note(request)).await.unwrap();
            assert!(!heard.into_inner().verdicts[0].expelled);
        }
    }

    /// With 0 and 1, which mean its present incarnation, the node is expelled. No other request
    /// names it after that.
    async fn send_failures(&mut self) {
        let (mut client, incarnation) = (self.tic.client.clone(), self.sent.number);
        for probe_first in [true, false] {
            let (node, reporter) = (format!("n{}", self.spare_node), "test".to_owned());
            let request = v1::ReportNodeFailureRequest { node, incarnation, reporter, probe_first };
            let reported = client.report_node_failure(self.sent.note(request)).await;
            assert_eq!(reported.is_ok(), incarnation <= 1, "{reported:?}");
        }
    }

    async fn send_route_reports(&mut self) {
        let (mut client, term, number) = (self.tic.client.clone(), self.term, self.sent.number);
        let router = "impostor".to_owned();
        let renew = v1::RenewRouteTermRequest { router, term: number, ..Default::default() };
        let _ = client.renew_route_term(self.sent.note(renew)).await;
        if number != term {
            let release = v1::ReleaseRouteTermRequest { term: number };
            let _ = client.release_route_term(self.sent.note(release)).await;
        }
        let (gn, fence) = (self.group.gn, Some(v1::Fence { term: number, generation: 1 }));
        let of = |routes| v1::ReportRoutesRequest { routes, ..report(term, 1) };
        for request in [
            report(number, 1),
            v1::ReportRoutesRequest { term: number, ..report(term, 1) },
            v1::ReportRoutesRequest { fence, ..report(term, 1) },
            v1::ReportRoutesRequest { clean_revision: number, ..report(term, 1) },
            of(routes(gn, route(number, 1))),
            of(routes(gn, route(1, number))),
            of(routes(number, route(1, 1))),
            report(term, number),
        ] {
            let _ = client.report_routes(self.sent.note(request)).await;
        }
    }

    async fn send_choices(&mut self) {
        let (mut records, number) = (choices::client(&self.tic.address), self.sent.number);
        let (term, gn) = (self.term, self.group.gn);
        let choice = || vec![choices::choice(gn, 0)];
        let of_gn = v1::RouteChoice { gn: number, ..choices::choice(gn, 0) };
        let mut of_ports = choices::choice(gn, 0);
        of_ports.trees[0].ports_gn = number;
        let usual = || choices::request(term, 1, choice());
        for request in [
            choices::request(number, 1, choice()),
            choices::request(term, 1, vec![of_gn]),
            choices::request(term, 1, vec![of_ports]),
            v1::RecordRouteChoicesRequest { seen_revision: number, ..usual() },
            v1::RecordRouteChoicesRequest { removed_gns: vec![number], ..usual() },
            choices::request(term, number, choice()),
        ] {
            let request = self.sent.note(request);
            let _ = records.record_route_choices(tokio_stream::iter([request])).await;
        }
    }

    async fn send_of_collectives(&mut self) {
        let (mut client, number) = (self.tic.collectives(), self.sent.number);
        let request = v1::ListCollectivesRequest { unless_revision: number, ..Default::default() };
        let _ = client.list_collectives(self.sent.note(request)).await;
        for (term, revision) in [(number, 0), (self.term, number)] {
            let missing_trees = vec![];
            let trees = v1::ReportAggregationTreesRequest { term, revision, missing_trees };
            let _ = client.report_aggregation_trees(self.sent.note(trees)).await;
        }
        let constants = constants(Some(self.time()));
        client.set_tree_constants(self.sent.note(constants)).await.unwrap();
        let request = v1::GetTreeConstantsRequest {};
        let kept = client.get_tree_constants(request).await.unwrap().into_inner().constants;
        let set = kept.unwrap().set_time.unwrap().seconds;
        assert!((1_600_000_000..10_000_000_000).contains(&set), "{set}: not the TIC's own time");
    }

    async fn send_reservations(&mut self) {
        let (number, end_time) = (self.sent.number, Some(self.time()));
        let lease = Some(Duration { seconds: number.cast_signed(), nanos: 0 });
        let of_job = |job: &str| {
            let job = format!("{job} {number}");
            v1::ReserveJobRequest { group_count: 1, ..reserve(&job, &["n1"]) }
        };
        for request in [
            v1::ReserveJobRequest { end_time, ..of_job("ends") },
            v1::ReserveJobRequest { lease, ..of_job("leased") },
        ] {
            reserved(self.tic, self.sent.note(request)).await.unwrap();
        }
    }

    async fn send_batches(&mut self) {
        let (mut client, number) = (batches(self.tic), self.sent.number);
        let (joins, leaves) = membership(number);
        let request = v1::JoinManyRequest { joins: vec![joins] };
        let _ = client.join_many(self.sent.note(request)).await;
        let request = v1::LeaveManyRequest { leaves: vec![leaves] };
        let _ = client.leave_many(self.sent.note(request)).await;
        let request = v1::GetManyRequest { gets: gets(number) };
        let _ = client.get_many(self.sent.note(request)).await;
        let member = v1::FormedMember {
            endpoint: "h1".to_owned(),
            process: "formed".to_owned(),
            node: String::new(),
            incarnation: number,
        };
        let formed = v1::FormedGroupSpec {
            group: format!("formed {number}"),
            members: vec![member],
            ..Default::default()
        };
        let batch = v1::FormGroupsRequest {
            request_id: format!("batch {number}"),
            groups: vec![formed],
            ..Default::default()
        };
        let batch = self.sent.note(batch);
        let _ = client.form_groups(tokio_stream::iter([batch])).await;
    }
}

/// Begins a new incarnation of a node, which is up then.
async fn start_node(tic: &Tic, number: u32, start_id: u64) -> v1::Node {
    let request = registration(number, ADDRESS, start_id);
    let admitted = tic.client.clone().register_node(request).await.unwrap().into_inner();
    assert_eq!(admitted.start_id, start_id);
    let node = admitted.node.unwrap();
    assert_eq!(node.state(), v1::NodeState::Up);
    node
}

/// All works as if nothing had been sent before.
async fn all_works(tic: &Tic, spare_node: u32, start_id: u64) {
    start_node(tic, spare_node, start_id).await;
    let node = start_node(tic, 0, start_id).await;
    let mut client = tic.client.clone();
    let joined = v1::JoinGroupRequest {
        request_id: format!("after {start_id}"),
        incarnation: node.incarnation,
        ..join("g", 0, "after")
    };
    client.join_group(joined).await.unwrap();
    let group = tic.group("g").await.unwrap();
    let (gn, epoch, known_revision) = (group.gn, group.epoch, group.records_revision);
    let status = v1::GroupAgentStatus {
        node: node.name,
        incarnation: node.incarnation,
        groups: vec![v1::HostedGroup { gn, epoch, known_revision }],
        next_report_in: None,
    };
    let verdict = report_agents(tic, vec![status]).await.remove(0);
    assert!(!verdict.expelled && verdict.drop_gns.is_empty(), "{verdict:?}");
    let term = choices::acquire(tic).await;
    let now = tic.revision().await;
    let wanted = route(now, 1);
    let routes = routes(gn, wanted.clone());
    let request = v1::ReportRoutesRequest { routes, clean_revision: now, ..report(term, 1) };
    client.report_routes(request).await.unwrap();
    assert_eq!(
        tic.group("g").await.unwrap().route.unwrap().routed_revision,
        wanted.routed_revision
    );
    let mut records = choices::client(&tic.address);
    let choice = choices::request(term, 1, vec![choices::choice(gn, 0)]);
    records.record_route_choices(tokio_stream::iter([choice])).await.unwrap();
    let trees = v1::ReportAggregationTreesRequest { term, revision: 0, missing_trees: vec![] };
    tic.collectives().report_aggregation_trees(trees).await.unwrap();
    tic.collectives().set_tree_constants(constants(None)).await.unwrap();
    let job = format!("after {start_id}");
    let request = v1::ReserveJobRequest { group_count: 1, ..reserve(&job, &["n1"]) };
    reserved(tic, request).await.unwrap();
    tic.jobs().list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    tic.jobs().delete_job(delete(&job)).await.unwrap();
}

#[tokio::test]
async fn a_field_that_no_request_has_sent_is_named() {
    let all = served_fields().await;
    let mut sent = Sent::new(u64::MAX);
    sent.note(registration(0, ADDRESS, u64::MAX));
    sent.note(registration(0, ADDRESS, 1));
    assert_eq!(sent.fields, BTreeSet::from(["RegisterNodeRequest.start_id".to_owned()]));
    let differing = sent.differing(&all);
    assert_eq!(differing.len(), all.len() - 1);
    for field in [
        "RegisterNodeRequest.node.incarnation",
        "RecordRouteChoicesRequest.changed.trees.ports_gn",
        "RecordRouteChoicesRequest.removed_gns",
        "ReportGroupAgentsRequest.statuses.next_report_in.seconds",
        "ReserveJobRequest.end_time.seconds",
    ] {
        assert!(differing.contains(&field), "{field}: {differing:?}");
    }
    let lease = Some(Duration { seconds: -1, nanos: 0 });
    sent.note(v1::ReserveJobRequest { lease, ..Default::default() });
    assert!(!sent.differing(&all).contains(&"ReserveJobRequest.lease.seconds"));
}

#[tokio::test]
async fn no_number_shuts_out_later_ones_not_even_after_a_restart() {
    let all = served_fields().await;
    let folder = tempfile::tempdir().unwrap();
    let file = StoreLocation::File(folder.path().join("tic.redb"));
    let mut start_id = 1;
    for (number, spare_node) in NUMBERS.into_iter().zip(2..) {
        let tic = Tic::start(setup(file.clone())).await;
        for node in [1, spare_node] {
            start_node(&tic, node, start_id).await;
        }
        let request = v1::JoinGroupRequest {
            request_id: format!("before {number}"),
            incarnation: start_node(&tic, 0, start_id).await.incarnation,
            persistent: true,
            ..join("g", 0, "p")
        };
        tic.client.clone().join_group(request).await.unwrap();
        let group = tic.group("g").await.unwrap();
        let term = choices::acquire(&tic).await;
        let sent = Sent::new(number);
        let mut requests = Requests { tic: &tic, sent, term, group, spare_node, start_id };
        requests.send_all().await;
        // 0 is in all fields that are left out, and 1 in many others.
        let differing = if number > 1 { requests.sent.differing(&all) } else { Vec::new() };
        assert!(differing.is_empty(), "{number} was not sent in {differing:?}");
        start_id += 1;
        all_works(&tic, spare_node, start_id).await;
        tic.stop().await;
        let again = Tic::start(setup(file.clone())).await;
        start_id += 1;
        all_works(&again, spare_node, start_id).await;
        again.stop().await;
        start_id += 1;
    }
}
