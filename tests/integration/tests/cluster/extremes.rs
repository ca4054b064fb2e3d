//! The least and the greatest numbers in every 64-bit field of the calls of all parts but the TIC:
//! none of them may shut out what comes after, also not after a restart.
//!
//! The calls and their fields are taken from the descriptors. All other fields name things that
//! there are, so that a call gets as far as it can. Each request is read back from its bytes, and a
//! test fails if a field did not have each of the numbers in one of them.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_integration::{Cluster, Layout, MANAGEMENT_KEY, Traffic, eventually, soon};
use fabricast_proto::FILE_DESCRIPTOR_SET;
use fabricast_proto::v1;
use fabricast_proto::v1::disturb_switch_request::Disturbance;
use fabricast_proto::v1::element::Kind as Element;
use fabricast_topology::Faults;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ReflectMessage, Value,
};

use crate::bad_input::{call, channel};

const NUMBERS: [u64; 4] = [0, 1, 1 << 63, u64::MAX];
const DEPTH: usize = 6;
/// Services of the TIC, to which `services/tic/tests/tic/extremes.rs` sends.
const OF_TIC: [&str; 6] = [
    "TicService",
    "GroupBatchService",
    "JobService",
    "CollectiveService",
    "RouteChoiceService",
    "TopologyService",
];
/// Services whose callers need no remedy.
const OF_GROUPS: [&str; 5] = [
    "RouteService",
    "CollectiveAgentService",
    "GroupAgentService",
    "OperatingAgentService",
    "ProcessService",
];
/// Services whose callers hold the management key, or stand for the switches.
const OF_SWITCHES: [&str; 4] =
    ["SwitchAgentService", "SwitchAggregationService", "FabricService", "FabricAggregationService"];

/// Values of fields by name that a call accepts.
#[derive(Debug)]
struct Real {
    texts: BTreeMap<&'static str, String>,
    numbers: BTreeMap<&'static str, u64>,
}

impl Real {
    async fn of(cluster: &Cluster) -> Self {
        let client = &cluster.client;
        let group = client.group("g").await;
        let node = client.node("n0").await.unwrap();
        let member = group.members.iter().find(|member| member.node == "n0").unwrap();
        let graph = &cluster.layout.graph;
        let switch = graph.switch_name(graph.switches().next().unwrap()).to_owned();
        let fences = client.tables().await.into_iter().filter_map(|table| table.fence);
        let term = fences.map(|fence| fence.term).filter(|term| *term < 1 << 32).max();
        let texts = [
            ("node", "n0".to_owned()),
            ("agent_node", group.agent_node.clone()),
            ("agent", group.agent_node.clone()),
            ("group", "g".to_owned()),
            ("process", "p0".to_owned()),
            ("switch_name", switch),
            ("endpoint", node.endpoints[0].clone()),
            ("address", node.address.clone()),
            ("management_key", MANAGEMENT_KEY.to_owned()),
        ];
        let numbers = [
            ("gn", group.gn),
            ("epoch", group.epoch),
            ("pn", member.pn.into()),
            ("incarnation", node.incarnation),
            ("joined_revision", member.joined_revision),
            ("term", term.unwrap_or(1)),
            ("generation", 1),
            ("version", 1),
            ("mgid", group.mgid.into()),
        ];
        Self { texts: texts.into_iter().collect(), numbers: numbers.into_iter().collect() }
    }

    fn message(
        &self,
        descriptor: &MessageDescriptor,
        at: &Extreme<'_>,
        depth: usize,
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields() {
            let path = at.path.split_first().filter(|(first, _)| **first == field.number());
            let is_chosen = field.containing_oneof().is_none_or(|choice| {
                choice.fields().count() == 1
                    || choice.fields().all(|one| one.number() >= field.number())
            });
            let is_deep = depth == 0 && matches!(field.kind(), Kind::Message(_));
            if path.is_none() && (!is_chosen || is_deep) {
                continue;
            }
            // The alternative that leads to the number is set last, and so stays.
            let rest = path.map(|(_, rest)| Extreme { path: rest, ..*at });
            let value = self.value(&field, rest.as_ref(), at, depth);
            let value = if field.is_list() { Value::List(vec![value]) } else { value };
            let chosen_else = at.path.first().is_some_and(|first| {
                field.number() != *first
                    && field
                        .containing_oneof()
                        .is_some_and(|choice| choice.fields().any(|one| one.number() == *first))
            });
            if !chosen_else {
                message.set_field(&field, value);
            }
        }
        message
    }

    fn value(
        &self,
        field: &FieldDescriptor,
        rest: Option<&Extreme<'_>>,
        at: &Extreme<'_>,
        depth: usize,
    ) -> Value {
        let known = self.numbers.get(field.name()).copied().unwrap_or(1);
        let number = rest.filter(|rest| rest.path.is_empty()).and_then(|rest| rest.number);
        let number = number.unwrap_or(known);
        match field.kind() {
            Kind::Message(inner) => {
                let nothing = Extreme { path: &[], ..*at };
                Value::Message(self.message(
                    &inner,
                    rest.unwrap_or(&nothing),
                    depth.saturating_sub(1),
                ))
            }
            Kind::String => {
                let name = field.name();
                let one = name.strip_suffix('s').unwrap_or(name);
                let known = self.texts.get(name).or_else(|| self.texts.get(one));
                Value::String(known.cloned().unwrap_or_else(|| "x".to_owned()))
            }
            Kind::Bytes => Value::Bytes(vec![7].into()),
            Kind::Bool => Value::Bool(false),
            Kind::Enum(_) => Value::EnumNumber(1),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(u32::try_from(known).unwrap_or(1)),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(number),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(1),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number.cast_signed()),
            Kind::Float => Value::F32(1.0),
            Kind::Double => Value::F64(1.0),
        }
    }
}

/// A number in one field.
#[derive(Clone, Copy, Debug)]
struct Extreme<'a> {
    /// Numbers of the fields that lead to it.
    path: &'a [u32],
    /// `None` for the number that there is.
    number: Option<u64>,
}

#[derive(Debug, Default)]
struct Sent {
    /// Fields that had the number in the bytes of a request.
    fields: BTreeSet<String>,
    /// Methods that accepted one.
    accepted: BTreeSet<String>,
}

impl Sent {
    /// Notes the field at a path if it has the number in a request, or any number for `None`.
    fn note(&mut self, method: &MethodDescriptor, request: &[u8], at: &Extreme<'_>) {
        let request = DynamicMessage::decode(method.input(), request).unwrap();
        let found = number_at(&request, method.input().name(), at.path);
        let has_number = |(_, found): &(String, u64)| at.number.is_none_or(|one| one == *found);
        self.fields.extend(found.filter(has_number).map(|(name, _)| name));
    }

    /// Fields of requests to these services that did not have the number, and others that had.
    fn differing(&self, services: &[&str]) -> Vec<String> {
        self.fields.symmetric_difference(&all_fields(services)).cloned().collect()
    }
}

/// Name and number of the 64-bit field at a path; `None` if it, or a message around it, is not
/// there.
fn number_at(message: &DynamicMessage, name: &str, path: &[u32]) -> Option<(String, u64)> {
    let (first, rest) = path.split_first()?;
    let field = message.descriptor().get_field(*first)?;
    if field.supports_presence() && !message.has_field(&field) {
        return None;
    }
    let name = format!("{name}.{}", field.name());
    let value = message.get_field(&field);
    let one = match value.as_list() {
        Some(list) => list.first()?,
        None => &*value,
    };
    match one {
        Value::Message(inner) => number_at(inner, &name, rest),
        Value::U64(number) => Some((name, *number)),
        Value::I64(number) => Some((name, number.cast_unsigned())),
        _ => None,
    }
}

/// Names of all 64-bit fields of a message, however deep.
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

/// Names of all 64-bit fields of requests to some services.
fn all_fields(services: &[&str]) -> BTreeSet<String> {
    let requests = methods(services).into_iter().map(|method| method.input());
    requests.flat_map(|request| fields(&request, request.name())).collect()
}

/// Paths of all 64-bit fields of a message.
fn paths(descriptor: &MessageDescriptor, depth: usize) -> Vec<Vec<u32>> {
    let of_field = |field: FieldDescriptor| match field.kind() {
        Kind::Message(inner) if depth > 0 => paths(&inner, depth - 1)
            .into_iter()
            .map(|path| [vec![field.number()], path].concat())
            .collect(),
        Kind::Uint64 | Kind::Int64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => {
            vec![vec![field.number()]]
        }
        _ => Vec::new(),
    };
    descriptor.fields().flat_map(of_field).collect()
}

fn methods(services: &[&str]) -> Vec<MethodDescriptor> {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let found: Vec<_> =
        pool.services().filter(|service| services.contains(&service.name())).collect();
    assert_eq!(found.len(), services.len());
    found.iter().flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

/// Sends a number in every field, one after the other; `None` for the number that there is. Most
/// extreme ones are refused; what counts is how the parts work afterwards.
async fn send_all(cluster: &Cluster, services: &[&str], number: Option<u64>) -> Sent {
    let mut sent = Sent::default();
    for method in methods(services) {
        let channel = channel(cluster, method.parent_service().name());
        for path in paths(&method.input(), DEPTH) {
            let real = Real::of(cluster).await;
            let extreme = Extreme { path: &path, number };
            let request = real.message(&method.input(), &extreme, DEPTH).encode_to_vec();
            sent.note(&method, &request, &extreme);
            if soon(call(&channel, &method, request)).await.is_ok() {
                sent.accepted.insert(method.name().to_owned());
            }
        }
    }
    sent
}

/// The remedy of an administrator against a fence that switches have taken from a holder of the
/// management key: a power cycle, after which they have none.
async fn repair(cluster: &Cluster) {
    let (client, graph) = (&cluster.client, &cluster.layout.graph);
    for switch in graph.switches() {
        let name = graph.switch_name(switch).to_owned();
        let usual = v1::DisturbSwitchRequest {
            switch_name: name.clone(),
            disturbance: Some(Disturbance::Programming(v1::Programming::default())),
        };
        client.fabric().disturb_switch(usual).await.unwrap();
        let element = || Some(v1::Element { kind: Some(Element::SwitchName(name.clone())) });
        let failed = v1::FailElementRequest { element: element() };
        client.fabric().fail_element(failed).await.unwrap();
        let healed = v1::HealElementRequest { element: element() };
        client.fabric().heal_element(healed).await.unwrap();
    }
}

/// Restarts all operating agents, which begins a new incarnation of every node.
async fn restart_agents(cluster: &mut Cluster) {
    let before = cluster.client.nodes().await.unwrap();
    for agent in &mut cluster.operating {
        agent.stop().await;
        agent.restart().await;
    }
    eventually("all nodes have a new incarnation", async || {
        let now = cluster.client.nodes().await.map_err(|status| status.to_string())?;
        let is_new = |node: &v1::Node| {
            let known = before.iter().find(|known| known.name == node.name);
            let is_later = known.is_some_and(|known| node.incarnation > known.incarnation);
            is_later && node.state() == v1::NodeState::Up
        };
        let has_all = now.len() == before.len() && now.iter().all(is_new);
        if has_all { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

async fn groups_form(cluster: &Cluster, traffic: &Traffic, name: &str) {
    cluster.client.join_all(name, &["n0", "n9"]).await;
    cluster.is_whole(traffic, &Faults::new()).await;
}

#[test]
fn every_service_with_64_bit_fields_is_sent_to() {
    let sent_to = [&OF_TIC[..], &OF_GROUPS, &OF_SWITCHES].concat();
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let names: Vec<String> = pool.services().map(|service| service.name().to_owned()).collect();
    assert!(sent_to.iter().all(|name| names.iter().any(|one| one == name)), "{names:?}");
    for name in names.iter().map(String::as_str).filter(|name| !sent_to.contains(name)) {
        assert_eq!(all_fields(&[name]), BTreeSet::new(), "{name}");
    }
}

#[test]
fn a_field_that_no_request_has_sent_is_named() {
    const SERVICE: [&str; 1] = ["CollectiveAgentService"];
    let all = all_fields(&SERVICE);
    let method = methods(&SERVICE).into_iter().find(|one| one.name() == "RunCollective").unwrap();
    let (mut sent, paths) = (Sent::default(), paths(&method.input(), DEPTH));
    assert_eq!((sent.differing(&SERVICE).len(), paths.len()), (all.len(), 4));
    // Nothing is in it but the number 0 of the field that is not optional.
    for path in &paths {
        sent.note(&method, &[], &Extreme { path, number: Some(0) });
        sent.note(&method, &[], &Extreme { path, number: Some(1) });
    }
    assert_eq!(sent.fields, BTreeSet::from(["RunCollectiveRequest.sequence".to_owned()]));
    for field in [
        "RunCollectiveRequest.values.signed_values.values",
        "RunCollectiveRequest.values.unsigned_values.values",
        "RunCollectiveRequest.timeout.seconds",
    ] {
        assert!(sent.differing(&SERVICE).contains(&field.to_owned()), "{field}");
    }
    for name in ["OpenLinkRequest.frames.direct.connections", "NotifyGroupsRequest.gns"] {
        assert!(all_fields(&OF_GROUPS).contains(name), "{name}");
    }
}

#[tokio::test]
async fn no_number_to_agents_or_route_services_shuts_out_later_ones() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    cluster.client.join_all("g", &["n0", "n6", "n12"]).await;
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let sent = send_all(&cluster, &OF_GROUPS, None).await;
    assert!(sent.accepted.len() >= 7, "what there is is accepted: {sent:?}");
    for number in NUMBERS {
        let differing = send_all(&cluster, &OF_GROUPS, Some(number)).await.differing(&OF_GROUPS);
        assert!(differing.is_empty(), "{number} was not sent in {differing:?}");
        cluster.client.join_all("g", &["n0", "n6", "n12"]).await;
        groups_form(&cluster, &traffic, &format!("after {number}")).await;
        cluster.router.stop().await;
        cluster.router.restart().await;
        groups_form(&cluster, &traffic, &format!("restarted {number}")).await;
        restart_agents(&mut cluster).await;
        cluster.client.join_all("g", &["n0", "n6", "n12"]).await;
        groups_form(&cluster, &traffic, &format!("new incarnation {number}")).await;
    }
}

#[tokio::test]
async fn no_number_to_switches_or_their_agents_shuts_out_later_ones() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    cluster.client.join_all("g", &["n0", "n6", "n12"]).await;
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let sent = send_all(&cluster, &OF_SWITCHES, None).await;
    assert!(sent.accepted.len() >= 5, "what there is is accepted: {sent:?}");
    for number in NUMBERS {
        let differing =
            send_all(&cluster, &OF_SWITCHES, Some(number)).await.differing(&OF_SWITCHES);
        assert!(differing.is_empty(), "{number} was not sent in {differing:?}");
        repair(&cluster).await;
        groups_form(&cluster, &traffic, &format!("after {number}")).await;
        for agent in &mut cluster.switches {
            agent.stop().await;
            agent.restart().await;
        }
        groups_form(&cluster, &traffic, &format!("restarted {number}")).await;
    }
}
