//! Calls that are made as fast as can be, and joins that are measured beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fabricast_proto::BytesCodec;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::{
    OperatingAgentServiceJoinGroupRequest, OperatingAgentServiceLeaveGroupRequest,
};
use fabricast_rpc::{Channel, reason_of};
use prost::bytes::Bytes;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::Value;
use tokio::runtime::{Builder, Handle, Runtime};
use tonic::client::Grpc;
use tonic::{Code, Request, Status};

use super::messages::{deep, large};
use crate::calls::encoded;

/// Connections of the attacker.
pub(super) const CONNECTIONS: usize = 4;
/// Calls of one connection that are open at a time.
const OPEN: usize = 4;
/// Messages of a call that differ in their names.
const VARIANTS: usize = 4;
/// Calls with a stream of requests whose first message has all that they need.
const IN_ONE_MESSAGE: [&str; 1] = ["ReplaceTopology"];
/// Timeout of a call; one that waits for something is made anew.
const LONGEST: Duration = Duration::from_secs(1);
/// Time after which joins that are measured end, even if there are too few.
const LONGEST_LOAD: Duration = Duration::from_secs(10);
/// Time after which a join or leave that is refused again and again is given up.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two attempts of one that is refused.
const REFUSED_INTERVAL: Duration = Duration::from_millis(5);
/// Sizes of messages, of which the largest that is accepted is sent.
const SIZES: [usize; 17] = {
    let mut sizes = [64 << 20; 17];
    let mut at = 1;
    while at < sizes.len() {
        sizes[at] = sizes[at - 1] / 2;
        at += 1;
    }
    sizes
};

/// The client whose joins are measured.
pub(super) struct Victim {
    pub(super) address: String,
    client: OperatingAgentServiceClient<Channel>,
    /// Number of the next group.
    group: u64,
    /// Refusals of joins and leaves.
    refused: Vec<Status>,
}

/// Joins of some time.
pub(super) struct Joins {
    /// In order of their length.
    times: Vec<Duration>,
    /// Refusals of joins and leaves.
    refused: Vec<Status>,
}

impl Victim {
    pub(super) fn connect(address: String, channel: Channel) -> Self {
        let client = OperatingAgentServiceClient::new(channel);
        Self { address, client, group: 0, refused: Vec::new() }
    }

    /// Joins a group and leaves it. The time of a join that is refused is that of all attempts, the
    /// last of which succeeds or is given up.
    async fn join(&mut self) -> Duration {
        self.group += 1;
        let (node, group, process) = ("node002", format!("victim/{}", self.group), "p");
        let join = OperatingAgentServiceJoinGroupRequest {
            node: node.to_owned(),
            group: group.clone(),
            process: process.to_owned(),
            ..Default::default()
        };
        let begun = Instant::now();
        while let Err(status) = self.client.join_group(join.clone()).await {
            if !self.repeats(status, begun).await {
                break;
            }
        }
        let elapsed = begun.elapsed();
        let leave = OperatingAgentServiceLeaveGroupRequest {
            node: node.to_owned(),
            group,
            process: process.to_owned(),
            ..Default::default()
        };
        let begun = Instant::now();
        while let Err(status) = self.client.leave_group(leave.clone()).await {
            if !self.repeats(status, begun).await {
                break;
            }
        }
        elapsed
    }

    /// Notes a refusal, and waits until the next attempt; false if there is none.
    async fn repeats(&mut self, status: Status, begun: Instant) -> bool {
        self.refused.push(status);
        tokio::time::sleep(REFUSED_INTERVAL).await;
        begun.elapsed() < REFUSED_TIMEOUT
    }

    /// Joins groups for a time, and on until there are enough joins, but not above
    /// [`LONGEST_LOAD`].
    pub(super) async fn join_for(&mut self, time: Duration, enough: usize) -> Joins {
        let begun = Instant::now();
        let mut times = Vec::new();
        while begun.elapsed() < time || times.len() < enough && begun.elapsed() < LONGEST_LOAD {
            times.push(self.join().await);
        }
        times.sort_unstable();
        Joins { times, refused: std::mem::take(&mut self.refused) }
    }

    /// Waits until joins are as quick as without load; false if they stay slow.
    pub(super) async fn recovers(&mut self) -> bool {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) {
            let joins = self.join_for(Duration::from_millis(300), 0).await;
            if joins.percentile(90) < Duration::from_millis(30) {
                return true;
            }
        }
        false
    }
}

impl Joins {
    fn percentile(&self, percent: usize) -> Duration {
        let at = (self.times.len() * percent).div_ceil(100).max(1) - 1;
        self.times.get(at).copied().unwrap_or(Duration::MAX)
    }
}

/// Threads of the lowest priority, as if they ran on another machine; their tasks end with them.
pub(super) struct Threads(Option<Runtime>);

impl Threads {
    pub(super) fn start() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(|| {
                // In Linux each thread has a priority of its own.
                let lowered = rustix::process::setpriority_process(None, 19);
                lowered.expect("it may be lowered");
            })
            .enable_all()
            .build()
            .expect("threads can be had");
        Self(Some(runtime))
    }

    pub(super) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is taken at the end only").handle()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Nobody may wait for a runtime within another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A call that is made again and again, and its requests.
pub(super) struct Target {
    pub(super) method: MethodDescriptor,
    /// Short requests. The first one is what long ones are made from.
    pub(super) requests: Vec<Value>,
    /// Fields that each connection adds to its requests; none if there are none here.
    pub(super) of_connections: Vec<Value>,
    /// A stream of answers is given up after its first message, to begin another.
    pub(super) gives_up_streams: bool,
}

/// One call, made from several connections.
pub(super) struct Attack {
    threads: Threads,
    counts: Arc<Counts>,
    begun: Instant,
    bytes: usize,
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
}

/// Outcome of an attack.
pub(super) struct Attacked {
    bytes: usize,
    answered_per_s: f64,
    refused_per_s: f64,
    joins: Joins,
}

/// A connection, and the call that is made on it.
#[derive(Clone)]
struct Connection {
    channel: Channel,
    method: MethodDescriptor,
    /// Encoded fields that end each of its requests.
    own_fields: Vec<u8>,
    gives_up_streams: bool,
}

impl Connection {
    /// Makes the call, and reads its answers.
    async fn call(self, message: Bytes) -> Result<(), Status> {
        let Self { channel, method, own_fields, gives_up_streams } = self;
        let mut client = Grpc::new(channel);
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let service = method.parent_service();
        let path = format!("/{}/{}", service.full_name(), method.name()).parse().expect("a path");
        let is_in_parts = method.is_client_streaming() && !IN_ONE_MESSAGE.contains(&method.name());
        let count = if is_in_parts { 4 } else { 1 };
        let request = move |_| [&message[..], &own_fields[..]].concat();
        let requests = tokio_stream::iter((0..count).map(request));
        let answers = client.streaming(Request::new(requests), path, BytesCodec).await?;
        let mut answers = answers.into_inner();
        while answers.message().await?.is_some() {
            if gives_up_streams && method.is_server_streaming() {
                break;
            }
        }
        Ok(())
    }
}

/// True if a message was refused for its length.
fn is_too_long(status: &Status) -> bool {
    status.code() == Code::OutOfRange
        || status.code() == Code::ResourceExhausted
            && reason_of(status).is_none_or(|reason| reason == "LIMIT_REACHED")
}

impl Attack {
    /// Finds the largest message that is not refused for its length. Half of the calls have it, the
    /// others those that it was made from, whose answers may be long.
    pub(super) async fn begin(
        threads: Threads,
        channel: impl Fn() -> Channel,
        target: &Target,
    ) -> Self {
        let input = target.method.input();
        let connections: Vec<Connection> = {
            let _entered = threads.handle().enter();
            let encode = |fields| encoded(&input, fields);
            let connect = |at: usize| Connection {
                channel: channel(),
                method: target.method.clone(),
                own_fields: target.of_connections.get(at).map(encode).unwrap_or_default(),
                gives_up_streams: target.gives_up_streams,
            };
            (0..CONNECTIONS).map(connect).collect()
        };
        let short = target.requests.iter().map(|request| Bytes::from(encoded(&input, request)));
        let short: Vec<Bytes> = short.collect();
        let base = DynamicMessage::decode(input, &*short[0]).expect("it was just encoded");
        let mut message = Bytes::new();
        for size in SIZES {
            // The last element goes beyond.
            message = large(&base, size - (size >> 6), 0).into();
            let made = connections[0].clone().call(message.clone());
            let made = threads.handle().spawn(tokio::time::timeout(5 * LONGEST, made)).await;
            if !matches!(&made, Ok(Ok(Err(status))) if is_too_long(status)) {
                break;
            }
        }
        let bytes = message.len();
        let variant = |at| large(&base, bytes, at * 10_000_000).into();
        let mut variants: Vec<Bytes> = (1..VARIANTS).map(variant).collect();
        variants.push(message);
        variants.extend(deep(&base, bytes, 0).map(Bytes::from));
        let attack = Self { threads, counts: Arc::default(), begun: Instant::now(), bytes };
        for at in 0..OPEN {
            let messages = if at % 2 == 0 { &variants } else { &short };
            connections.iter().for_each(|connection| attack.go_on(connection, messages));
        }
        attack
    }

    /// Makes the call again and again, with one message after the other.
    fn go_on(&self, connection: &Connection, messages: &[Bytes]) {
        let connection = connection.clone();
        let (messages, counts) = (messages.to_vec(), Arc::clone(&self.counts));
        self.threads.handle().spawn(async move {
            for message in messages.iter().cycle() {
                let made = connection.clone().call(message.clone());
                let made = tokio::time::timeout(LONGEST, made).await;
                let is_refused = matches!(&made, Ok(Err(_)));
                let count = if is_refused { &counts.refused } else { &counts.answered };
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    pub(super) fn end(self, joins: Joins) -> Attacked {
        let per_s = |count: &AtomicU64| {
            let count = u32::try_from(count.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
            f64::from(count) / self.begun.elapsed().as_secs_f64()
        };
        let Self { counts, bytes, .. } = &self;
        let (answered_per_s, refused_per_s) = (per_s(&counts.answered), per_s(&counts.refused));
        Attacked { bytes: *bytes, answered_per_s, refused_per_s, joins }
    }
}

impl Attacked {
    pub(super) fn p99(&self) -> Duration {
        self.joins.percentile(99)
    }

    /// Refusals of joins and leaves.
    pub(super) fn refused(&self) -> &[Status] {
        &self.joins.refused
    }

    /// Cells of its row.
    pub(super) fn cells(&self) -> String {
        let Self { bytes, answered_per_s, refused_per_s, joins } = self;
        let ms = |percent| joins.percentile(percent).as_secs_f64() * 1_000.0;
        let (count, p50, p99) = (joins.times.len(), ms(50), ms(99));
        format!(
            "{bytes} | {answered_per_s:.0} | {refused_per_s:.0} | {count} | {p50:.1} | {p99:.1}"
        )
    }
}
