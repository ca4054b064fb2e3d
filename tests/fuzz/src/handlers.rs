//! Calls of every service, made to a complete cluster in this process.
//!
//! An input is a sequence of requests: the call, whether its message is the raw bytes or built by
//! descriptors, and its contents. No call may cause a panic or end with `INTERNAL`, no part may
//! exit, and a refused call must not change a record.

use std::sync::{LazyLock, Mutex, Once, PoisonError};
use std::time::Duration;

use fabricast_integration::{Cluster, Layout};
use fabricast_proto::{BytesCodec, FILE_DESCRIPTOR_SET};
use fabricast_rpc::{Channel, Peer, reason_of};
use prost::Message;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

use crate::calls::{Names, message};
use crate::entropy::Entropy;

/// Timeout of a call; calls that wait for something are abandoned.
const PATIENCE: Duration = Duration::from_millis(150);
/// Time within which the effects of granted calls are over.
const QUIET: Duration = Duration::from_millis(400);
/// Limit on requests of one input.
const MOST_REQUESTS: usize = 8;

/// Calls of the TIC.
pub(crate) fn tic(data: &[u8]) {
    attempt(Part::Tic, data);
}

/// Calls of the route service.
pub(crate) fn router(data: &[u8]) {
    attempt(Part::Router, data);
}

/// Calls of the switch agent.
pub(crate) fn switch_agent(data: &[u8]) {
    attempt(Part::SwitchAgent, data);
}

/// Calls of operating agents, from elsewhere and at the socket.
pub(crate) fn operating_agent(data: &[u8]) {
    attempt(Part::OperatingAgent, data);
}

/// Calls of the emulated fabric.
pub(crate) fn fabric(data: &[u8]) {
    attempt(Part::Fabric, data);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Tic,
    Router,
    SwitchAgent,
    OperatingAgent,
    Fabric,
}

impl Part {
    /// Returns the part that serves a service.
    fn of(service: &str) -> Self {
        match service {
            "FabricService" | "FabricAggregationService" => Self::Fabric,
            "RouteService" => Self::Router,
            "SwitchAgentService" | "SwitchAggregationService" => Self::SwitchAgent,
            "OperatingAgentService"
            | "GroupAgentService"
            | "CollectiveAgentService"
            | "ProcessService" => Self::OperatingAgent,
            _ => Self::Tic,
        }
    }
}

/// A cluster under test, and its calls.
struct Stage {
    runtime: Runtime,
    cluster: Mutex<Cluster>,
    methods: Vec<(MethodDescriptor, Channel)>,
    names: Names,
}

/// Messages of panics in this process.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
            before(panic);
        }));
    });
    let runtime = Runtime::new().expect("a runtime");
    let cluster = runtime.block_on(Cluster::start(Layout::leaf_spine()));
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("our own descriptors");
    let ours = pool.services().filter(|one| one.package_name() == "fabricast.v1");
    let methods: Vec<_> = runtime.block_on(async {
        ours.flat_map(|service| {
            let channel = channel(&cluster, service.name());
            service.methods().map(move |method| (method, channel.clone())).collect::<Vec<_>>()
        })
        .collect()
    });
    let names = names(&cluster);
    Stage { runtime, cluster: Mutex::new(cluster), methods, names }
});

fn channel(cluster: &Cluster, service: &str) -> Channel {
    let address = match Part::of(service) {
        Part::OperatingAgent if service == "ProcessService" => {
            let socket = format!("unix://{}", cluster.socket(0).display());
            let endpoint = Endpoint::from_shared(socket.clone()).expect("a path");
            return Channel::new(endpoint.connect_lazy(), socket.into());
        }
        Part::Fabric => cluster.fabric.address(),
        Part::Tic => cluster.tic.address(),
        Part::Router => cluster.router.address(),
        Part::SwitchAgent => cluster.switches[0].address(),
        Part::OperatingAgent => cluster.operating[0].address(),
    };
    Peer::new(&address.to_string()).expect("an address").channel()
}

fn names(cluster: &Cluster) -> Names {
    let graph = &cluster.layout.graph;
    let hosts = cluster.layout.hosts.iter().flatten();
    let mut names: Vec<String> = hosts.map(|node| node.name.clone()).take(6).collect();
    names.extend(graph.endpoints().take(6).map(|one| graph.endpoint_name(one).to_owned()));
    names.extend(graph.switches().map(|one| graph.switch_name(one).to_owned()));
    names.push(fabricast_integration::MANAGEMENT_KEY.to_owned());
    names.push(cluster.operating[0].address().to_string());
    names.push(cluster.tic.address().to_string());
    let more = ["g", "h", "a/b", "p0", "p1", "j", "r1", "r2", "router", "", "1", "0", "\u{7f}"];
    names.extend(more.map(str::to_owned));
    Names(names)
}

fn attempt(part: Part, data: &[u8]) {
    let stage = &*STAGE;
    let mine: Vec<&(MethodDescriptor, Channel)> = stage
        .methods
        .iter()
        .filter(|(method, _)| Part::of(method.parent_service().name()) == part)
        .collect();
    let mut entropy = Entropy(data);
    for _ in 0..MOST_REQUESTS {
        if entropy.0.is_empty() {
            break;
        }
        let (method, channel) = mine[entropy.below(mine.len())];
        let as_it_is = entropy.byte() % 8 == 0;
        let bytes = if as_it_is {
            entropy.bytes(500).to_vec()
        } else {
            message(&method.input(), &stage.names, &mut entropy).encode_to_vec()
        };
        stage.runtime.block_on(stage.call(method, channel, &bytes));
    }
    stage.is_well();
}

impl Stage {
    /// Makes a call and checks its result.
    async fn call(&self, method: &MethodDescriptor, channel: &Channel, bytes: &[u8]) {
        let before = self.records().await;
        let Some(refused) = ended(method, channel, bytes).await else { return };
        let told = format!("{} with {bytes:?}: {refused:?}", method.full_name());
        assert!(refused.code() != Code::Internal, "{told}");
        assert!(refused.code() != Code::Unknown, "{told}");
        if self.records().await == before || reason_of(&refused).is_none() {
            return;
        }
        // Effects of an earlier call may still be going on.
        for _ in 0..5 {
            tokio::time::sleep(QUIET).await;
            let before = self.records().await;
            if ended(method, channel, bytes).await.is_none() || self.records().await == before {
                return;
            }
        }
        panic!("was refused and changed records: {told}");
    }

    /// Returns the revision of the records and all groups.
    async fn records(&self) -> Option<String> {
        let client = self.cluster.lock().unwrap_or_else(PoisonError::into_inner).client.clone();
        client.records().await.ok().map(|records| format!("{records:?}"))
    }

    fn is_well(&self) {
        let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
        assert!(panics.is_empty(), "{panics}");
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        self.runtime.block_on(async {
            let Cluster { fabric, tic, router, switches, operating, .. } = &mut *cluster;
            let parts = [fabric, tic, router].into_iter().chain(switches).chain(operating);
            for part in parts {
                assert_eq!(part.ended().await, None);
            }
        });
    }
}

/// Returns the status of a refused call; `None` if it was granted or is still open.
async fn ended(method: &MethodDescriptor, channel: &Channel, bytes: &[u8]) -> Option<Status> {
    let call = async {
        let mut client = Grpc::new(channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let request = Request::new(tokio_stream::once(bytes.to_vec()));
        let path = path.parse().expect("the name of a call");
        let answers = client.streaming(request, path, BytesCodec).await?;
        answers.into_inner().message().await.map(|_| ())
    };
    tokio::time::timeout(PATIENCE, call).await.ok()?.err()
}

/// Initial inputs: each byte pattern is another sequence of calls.
pub(crate) fn made() -> Vec<Vec<u8>> {
    let pattern =
        |step: u8| (0..200_u8).map(|at| at.wrapping_mul(step).wrapping_add(step)).collect();
    [1, 3, 7, 13, 29, 61, 113].map(pattern).to_vec()
}
