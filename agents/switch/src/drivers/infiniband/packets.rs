//! Sends requests to nodes of the subnet, from one thread.
//!
//! libibumad blocks, so the port belongs to a thread of its own. The thread keeps a bounded number
//! of requests in flight and sends every answer to its requester. It ends when the last
//! [`PacketSender`] is dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_infiniband::{CountersQuery, Data, Route, Smp, SmpError};
use fabricast_telemetry::metrics::{SWITCH_DIRECTED_ANSWERS, SWITCH_LID_ANSWERS};
use fabricast_umad::{PACKET_BYTES, Port, Received, To, UmadError};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// Most requests in flight.
const MAX_IN_FLIGHT: usize = 32;
/// Bound of the channel to the thread.
const QUEUE: usize = 4096;
/// Longest wait for an answer before the thread looks for new requests.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// A port that sends and receives packets, or the simulated subnet of a test.
pub(crate) trait Packets: Send + 'static {
    fn send(&mut self, to: To, packet: &[u8; PACKET_BYTES]) -> Result<(), UmadError>;
    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, UmadError>;
}

/// A port that repeats requests without an answer.
#[derive(Debug)]
pub(crate) struct RetryingPort {
    pub(crate) port: Port,
    pub(crate) timeout: Duration,
    pub(crate) retries: u16,
}

impl Packets for RetryingPort {
    fn send(&mut self, to: To, packet: &[u8; PACKET_BYTES]) -> Result<(), UmadError> {
        self.port.send(to, packet, self.timeout, self.retries)
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, UmadError> {
        self.port.receive(timeout)
    }
}

/// Reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum RequestError {
    #[error("no answer")]
    NoAnswer,
    #[error(transparent)]
    Refused(#[from] SmpError),
    #[error("the InfiniBand port is gone")]
    Gone,
}

/// A request to a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeRequest {
    Subnet(Smp),
    Counters(CountersQuery),
}

impl From<Smp> for NodeRequest {
    fn from(smp: Smp) -> Self {
        Self::Subnet(smp)
    }
}

impl From<CountersQuery> for NodeRequest {
    fn from(query: CountersQuery) -> Self {
        Self::Counters(query)
    }
}

impl NodeRequest {
    /// Encodes the packet and its address.
    fn packet(self, transaction: u64) -> (To, [u8; PACKET_BYTES]) {
        match self {
            Self::Subnet(smp) => {
                let to = match smp.route {
                    Route::Directed(_) => To::Route,
                    Route::Lid(lid) => To::SubnetLid(lid),
                };
                (to, Smp { transaction, ..smp }.request())
            }
            Self::Counters(query) => {
                (To::Lid(query.lid), CountersQuery { transaction, ..query }.request())
            }
        }
    }
}

pub(crate) type Answer = Result<Data, RequestError>;
/// Decoder of an answer.
type Decode = fn(&[u8; PACKET_BYTES]) -> Result<Data, SmpError>;
type Queued = (NodeRequest, oneshot::Sender<Answer>);

/// Sends requests to nodes; clones use the same port.
#[derive(Clone, Debug)]
pub(crate) struct PacketSender {
    requests: mpsc::Sender<Queued>,
}

impl PacketSender {
    /// Starts the thread.
    pub(crate) fn start(packets: impl Packets) -> Self {
        let (requests, queue) = mpsc::channel(QUEUE);
        std::thread::spawn(move || {
            Worker { packets, in_flight: BTreeMap::new(), next: 0 }.run(queue)
        });
        Self { requests }
    }

    /// Sends all requests at once; the answers are in the order of the requests.
    pub(crate) async fn request(
        &self,
        requests: impl IntoIterator<Item = impl Into<NodeRequest>>,
    ) -> Vec<Answer> {
        let mut pending = Vec::new();
        for request in requests {
            let (reply, answer) = oneshot::channel();
            // If the thread has ended, the reply channel is dropped with the request.
            let _ = self.requests.send((request.into(), reply)).await;
            pending.push(answer);
        }
        let mut answers = Vec::with_capacity(pending.len());
        for answer in pending {
            answers.push(answer.await.unwrap_or(Err(RequestError::Gone)));
        }
        answers
    }
}

/// State of the thread.
struct Worker<P> {
    packets: P,
    in_flight: BTreeMap<u32, (To, Decode, oneshot::Sender<Answer>)>,
    next: u32,
}

impl<P: Packets> Worker<P> {
    fn run(mut self, mut queue: mpsc::Receiver<Queued>) {
        loop {
            while self.in_flight.len() < MAX_IN_FLIGHT {
                let request = match self.in_flight.is_empty() {
                    true => queue.blocking_recv(),
                    false => queue.try_recv().ok(),
                };
                match request {
                    Some((request, reply)) => self.send(request, reply),
                    None if self.in_flight.is_empty() => return,
                    None => break,
                }
            }
            match self.packets.receive(RECEIVE_TIMEOUT) {
                Ok(Some(received)) => self.received(&received),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "the InfiniBand port is gone");
                    return; // requesters learn it from the closed channels
                }
            }
        }
    }

    fn send(&mut self, request: NodeRequest, reply: oneshot::Sender<Answer>) {
        // The upper half belongs to the kernel.
        self.next = self.next.wrapping_add(1);
        let read: Decode = match request {
            NodeRequest::Subnet(_) => Smp::answer,
            NodeRequest::Counters(_) => CountersQuery::answer,
        };
        let (to, packet) = request.packet(self.next.into());
        match self.packets.send(to, &packet) {
            Ok(()) => drop(self.in_flight.insert(self.next, (to, read, reply))),
            Err(error) => {
                tracing::debug!(%error, "request not sent");
                // The requester may have gone away.
                let _ = reply.send(Err(RequestError::NoAnswer));
            }
        }
    }

    fn received(&mut self, received: &Received) {
        let (Received::Packet(packet) | Received::Unanswered(packet)) = received;
        let transaction = Smp::transaction_of(packet) & u64::from(u32::MAX);
        let transaction = u32::try_from(transaction).expect("the lower half");
        if let Some((to, read, reply)) = self.in_flight.remove(&transaction) {
            let answer = match received {
                Received::Packet(packet) => {
                    count_answer(to);
                    read(packet).map_err(RequestError::from)
                }
                Received::Unanswered(_) => Err(RequestError::NoAnswer),
            };
            let _ = reply.send(answer); // as above
        }
    }
}

fn count_answer(answered: To) {
    match answered {
        To::Route => {
            SWITCH_DIRECTED_ANSWERS.inc();
        }
        To::SubnetLid(_) => {
            SWITCH_LID_ANSWERS.inc();
        }
        To::Lid(_) => {} // counters, which are not subnet management
    }
}
