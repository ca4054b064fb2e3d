//! Requests to nodes of the subnet: asked from anywhere, sent by one thread.
//!
//! libibumad blocks, so the port lives in a thread of its own that keeps a window of requests under
//! way and gives every answer to whoever asked. The thread ends when nobody can ask any more.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_infiniband::{CountersQuery, Data, Route, Smp, SmpError};
use fabricast_telemetry::metrics::{SWITCH_DIRECTED_ANSWERS, SWITCH_LID_ANSWERS};
use fabricast_umad::{PACKET_BYTES, Port, Received, To, UmadError};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// Requests under way at once.
const WINDOW: usize = 32;
/// Requests that may wait for their turn.
const QUEUE: usize = 4096;
/// How long the thread looks for answers before it looks for requests again.
const LOOK: Duration = Duration::from_millis(20);

/// Where packets come from and go to; a port, or a subnet made for a test.
pub(crate) trait Packets: Send + 'static {
    fn send(&mut self, to: To, packet: &[u8; PACKET_BYTES]) -> Result<(), UmadError>;
    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, UmadError>;
}

/// A port with its patience.
#[derive(Debug)]
pub(crate) struct PatientPort {
    pub(crate) port: Port,
    pub(crate) timeout: Duration,
    pub(crate) retries: u16,
}

impl Packets for PatientPort {
    fn send(&mut self, to: To, packet: &[u8; PACKET_BYTES]) -> Result<(), UmadError> {
        self.port.send((to, packet), self.timeout, self.retries)
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, UmadError> {
        self.port.receive(timeout)
    }
}

/// Why there is no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum WireError {
    #[error("no answer")]
    NoAnswer,
    #[error(transparent)]
    Refused(#[from] SmpError),
    #[error("the InfiniBand port is gone")]
    Gone,
}

/// A question to a node.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Subnet(Smp),
    Counters(CountersQuery),
}

impl From<Smp> for Question {
    fn from(smp: Smp) -> Self {
        Self::Subnet(smp)
    }
}

impl From<CountersQuery> for Question {
    fn from(query: CountersQuery) -> Self {
        Self::Counters(query)
    }
}

impl Question {
    /// The packet, and where it goes.
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

pub(crate) type Answer = Result<Data, WireError>;
/// How the answer to a question is read.
type Read = fn(&[u8; PACKET_BYTES]) -> Result<Data, SmpError>;
type Asked = (Question, oneshot::Sender<Answer>);

/// Asks nodes; clones ask through the same port.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    requests: mpsc::Sender<Asked>,
}

impl Wire {
    /// Starts the thread.
    pub(crate) fn start(packets: impl Packets) -> Self {
        let (requests, asked) = mpsc::channel(QUEUE);
        std::thread::spawn(move || {
            Sender { packets, waiting: BTreeMap::new(), next: 0 }.run(asked)
        });
        Self { requests }
    }

    /// Asks all at once; the answers come in the order of the requests.
    pub(crate) async fn ask(
        &self,
        requests: impl IntoIterator<Item = impl Into<Question>>,
    ) -> Vec<Answer> {
        let mut coming = Vec::new();
        for request in requests {
            let (reply, answer) = oneshot::channel();
            // Without a thread the reply is dropped with the request.
            let _ = self.requests.send((request.into(), reply)).await;
            coming.push(answer);
        }
        let mut answers = Vec::with_capacity(coming.len());
        for answer in coming {
            answers.push(answer.await.unwrap_or(Err(WireError::Gone)));
        }
        answers
    }
}

/// The thread's own state.
struct Sender<P> {
    packets: P,
    waiting: BTreeMap<u32, (To, Read, oneshot::Sender<Answer>)>,
    next: u32,
}

impl<P: Packets> Sender<P> {
    fn run(mut self, mut asked: mpsc::Receiver<Asked>) {
        loop {
            while self.waiting.len() < WINDOW {
                let request = match self.waiting.is_empty() {
                    true => asked.blocking_recv(),
                    false => asked.try_recv().ok(),
                };
                match request {
                    Some((question, reply)) => self.send(question, reply),
                    None if self.waiting.is_empty() => return,
                    None => break,
                }
            }
            match self.packets.receive(LOOK) {
                Ok(Some(received)) => self.received(&received),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "the InfiniBand port is gone");
                    return; // whoever waits or asks learns it from the closed channels
                }
            }
        }
    }

    fn send(&mut self, question: Question, reply: oneshot::Sender<Answer>) {
        // The upper half belongs to the kernel.
        self.next = self.next.wrapping_add(1);
        let read: Read = match question {
            Question::Subnet(_) => Smp::answer,
            Question::Counters(_) => CountersQuery::answer,
        };
        let (to, packet) = question.packet(self.next.into());
        match self.packets.send(to, &packet) {
            Ok(()) => drop(self.waiting.insert(self.next, (to, read, reply))),
            Err(error) => {
                tracing::debug!(%error, "request not sent");
                // Whoever asked may have gone.
                let _ = reply.send(Err(WireError::NoAnswer));
            }
        }
    }

    fn received(&mut self, received: &Received) {
        let (Received::Packet(packet) | Received::Unanswered(packet)) = received;
        let transaction = Smp::transaction_of(packet) & u64::from(u32::MAX);
        let transaction = u32::try_from(transaction).expect("the lower half");
        if let Some((to, read, reply)) = self.waiting.remove(&transaction) {
            let answer = match received {
                Received::Packet(packet) => {
                    count(to);
                    read(packet).map_err(WireError::from)
                }
                Received::Unanswered(_) => Err(WireError::NoAnswer),
            };
            let _ = reply.send(answer); // as above
        }
    }
}

fn count(answered: To) {
    match answered {
        To::Route => SWITCH_DIRECTED_ANSWERS.add(1),
        To::SubnetLid(_) => SWITCH_LID_ANSWERS.add(1),
        To::Lid(_) => {} // no subnet management
    }
}
