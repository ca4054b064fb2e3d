//! Bad input to every call of every service: a clear refusal, and nothing has changed.
//!
//! The calls are taken from the descriptors, so a new one is tested from its first day.

use std::time::Duration;

use fabricast_integration::{Cluster, Layout, Traffic, soon};
use fabricast_proto::{BytesCodec, FILE_DESCRIPTOR_SET};
use fabricast_rpc::{Channel, Peer, reason_of};
use fabricast_topology::Faults;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    Value,
};
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

/// Fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing is in it.
    Empty,
    /// It is no message at all.
    Garbage,
    /// Every name is longer than allowed, every number as large as can be.
    TooLong,
    /// Every name is longer than what fits into an answer's header.
    Huge,
    /// Every name could be one, but there is no such thing.
    Unknown,
}

impl Fault {
    const ALL: [Self; 5] = [Self::Empty, Self::Garbage, Self::TooLong, Self::Huge, Self::Unknown];

    /// Messages with this fault, one for each alternative of a `oneof`.
    fn messages(self, descriptor: &MessageDescriptor) -> Vec<Vec<u8>> {
        match self {
            Self::Empty => vec![Vec::new()],
            Self::Garbage => vec![vec![0xff; 64]],
            Self::TooLong | Self::Huge | Self::Unknown => {
                (0..3).map(|turn| self.filled(descriptor, turn, 4).encode_to_vec()).collect()
            }
        }
    }

    /// - `turn`: which alternative of a `oneof`.
    fn filled(self, descriptor: &MessageDescriptor, turn: usize, depth: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields() {
            let chosen = field.containing_oneof().is_none_or(|alternatives| {
                let count = alternatives.fields().count();
                alternatives.fields().nth(turn % count).as_ref() == Some(&field)
            });
            if !chosen || (depth == 0 && matches!(field.kind(), Kind::Message(_))) {
                continue;
            }
            let value = self.value(&field, turn, depth);
            let value = if field.is_list() { Value::List(vec![value; 2]) } else { value };
            message.set_field(&field, value);
        }
        message
    }

    fn value(self, field: &FieldDescriptor, turn: usize, depth: usize) -> Value {
        let small = self == Self::Unknown;
        match field.kind() {
            Kind::Message(inner) => Value::Message(self.filled(&inner, turn, depth - 1)),
            Kind::String => Value::String(match self {
                Self::Huge => "x".repeat(100_000),
                Self::TooLong => "x".repeat(300),
                _ => "no such thing".to_owned(),
            }),
            Kind::Bytes => Value::Bytes(vec![7; if small { 1 } else { 5_000 }].into()),
            Kind::Bool => Value::Bool(!small),
            Kind::Enum(_) => Value::EnumNumber(if small { 1 } else { 99 }),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(if small { 999_999 } else { u32::MAX }),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(if small { 999_999 } else { u64::MAX }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(i32::MIN),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(i64::MIN),
            Kind::Float => Value::F32(f32::NAN),
            Kind::Double => Value::F64(f64::NAN),
        }
    }
}

/// Sends one message; answers what came first: an answer, the end, or a refusal.
pub(crate) async fn call(
    channel: &Channel,
    method: &MethodDescriptor,
    message: Vec<u8>,
) -> Result<(), Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let request = Request::new(tokio_stream::once(message));
    let answers = client.streaming(request, path.parse().unwrap(), BytesCodec).await?;
    let mut answers = answers.into_inner();
    // A stream of news has none to tell.
    let first = tokio::time::timeout(Duration::from_millis(50), answers.message()).await;
    first.map_or(Ok(()), |answer| answer.map(|_| ()))
}

/// True if a refusal tells its reader what to do.
fn is_clear(fault: Fault, status: &Status) -> bool {
    let by_transport = match fault {
        Fault::Huge => status.code() == Code::OutOfRange,
        Fault::Garbage | Fault::Empty | Fault::TooLong | Fault::Unknown => false,
    };
    let blames_the_caller = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::PermissionDenied
            | Code::ResourceExhausted
    );
    by_transport
        || (blames_the_caller && reason_of(status).is_some() && !status.message().is_empty())
}

pub(crate) fn channel(cluster: &Cluster, service: &str) -> Channel {
    let address = match service {
        "ProcessService" => {
            let socket = format!("unix://{}", cluster.socket(0).display());
            let channel = Endpoint::from_shared(socket).unwrap().connect_lazy();
            return Channel::new(channel, service.into());
        }
        "FabricService" | "FabricAggregationService" => cluster.fabric.address(),
        "TicService"
        | "JobService"
        | "GroupBatchService"
        | "RouteChoiceService"
        | "TopologyService"
        | "CollectiveService"
        | "AdministrationService" => cluster.tic.address(),
        "RouteService" => cluster.router.address(),
        "SwitchAgentService" | "SwitchAggregationService" => cluster.switches[0].address(),
        "OperatingAgentService" | "GroupAgentService" | "CollectiveAgentService" => {
            cluster.operating[0].address()
        }
        other => panic!("say which part serves {other}"),
    };
    Peer::new(&address.to_string()).unwrap().channel()
}

#[tokio::test]
async fn bad_input_to_any_call_is_refused_with_a_reason_and_changes_nothing() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = cluster.client.clone();
    client.join_all("g", &["n0", "n6", "n12"]).await;
    let traffic = Traffic::listen(&client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let (groups, revision) = client.records().await.unwrap();
    let (nodes, tables) = (client.nodes().await.unwrap(), client.tables().await);

    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut unclear = Vec::new();
    let mut calls = 0;
    for service in pool.services().filter(|one| one.package_name() == "fabricast.v1") {
        let channel = channel(&cluster, service.name());
        for method in service.methods() {
            for fault in Fault::ALL {
                // A caller that can name itself may be the new route service; that is no bad input.
                if method.name() == "AcquireRouteTerm" && fault == Fault::Unknown {
                    continue;
                }
                for message in fault.messages(&method.input()) {
                    calls += 1;
                    if let Err(status) = soon(call(&channel, &method, message)).await
                        && !is_clear(fault, &status)
                    {
                        let text = status.message().chars().take(200).collect::<String>();
                        let code = status.code();
                        unclear.push(format!("{} {fault:?}: {code:?} {text}", method.name()));
                    }
                }
            }
        }
        let now = client.records().await.unwrap();
        assert_eq!(now, (groups.clone(), revision), "after {}", service.name());
        assert_eq!(client.nodes().await.unwrap(), nodes, "after {}", service.name());
        assert_eq!(client.tables().await, tables, "after {}", service.name());
    }
    assert!(calls > 400, "{calls} calls were tried");
    assert!(unclear.is_empty(), "{} unclear:\n{}", unclear.len(), unclear.join("\n"));

    for part in [&mut cluster.fabric, &mut cluster.tic, &mut cluster.router] {
        assert_eq!(part.ended().await, None);
    }
    client.join_all("after", &["n3", "n9"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}
