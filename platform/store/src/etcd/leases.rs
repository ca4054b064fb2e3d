//! Keep-alives of all leases over one stream.
//!
//! ```text
//!   keep_alive ──bounded queue──► task: one stream to etcd ──► answers, to each lease in its order
//! ```
//!
//! When the stream breaks, what was asked and not answered is asked again over the next one: it
//! cannot do harm, because a lease that has expired in the meantime stays expired.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::error::StoreError;
use crate::etcd::client::Client;
use crate::etcd::keys::to_signed;
use crate::etcd::wire::{self, LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use crate::store::LeaseId;

/// Keep-alives that may wait for the task; one more is refused.
const QUEUE: usize = 1_024;
/// Pause before the stream is opened again.
const PAUSE: Duration = Duration::from_millis(50);
/// A keep-alive without an answer for this long makes the stream suspect.
const STUCK: Duration = Duration::from_secs(1);

type Reply = oneshot::Sender<Result<(), StoreError>>;

/// The way to the task.
#[derive(Debug)]
pub(crate) struct KeepAlives {
    queue: mpsc::Sender<(LeaseId, Reply)>,
    patience: Duration,
}

impl KeepAlives {
    /// Starts the task, which ends when this handle is dropped.
    pub(crate) fn start(client: Arc<Client>, patience: Duration) -> Self {
        let (queue, asked) = mpsc::channel(QUEUE);
        tokio::spawn(Task { client, asked, waiting: BTreeMap::new() }.run());
        Self { queue, patience }
    }

    /// Gives a lease its full time again.
    pub(crate) async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.try_send((lease, reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                StoreError::Overloaded { queue: "keep-alives", limit: QUEUE }
            }
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })?;
        match tokio::time::timeout(self.patience, answer).await {
            Ok(answer) => answer.unwrap_or(Err(StoreError::Closed)),
            Err(_elapsed) => {
                let source = Arc::new(Status::deadline_exceeded("keep-alive not answered"));
                Err(StoreError::Unavailable { source })
            }
        }
    }
}

struct Task {
    client: Arc<Client>,
    asked: mpsc::Receiver<(LeaseId, Reply)>,
    /// Who waits for which lease, in the order in which they asked.
    waiting: BTreeMap<LeaseId, VecDeque<Reply>>,
}

impl Task {
    async fn run(mut self) {
        // Nothing is opened before somebody asks.
        while self.waiting.is_empty() {
            match self.asked.recv().await {
                Some((lease, reply)) => self.wait(lease, reply),
                None => return,
            }
        }
        loop {
            let member = self.client.member();
            match self.serve().await {
                Ok(()) => return,
                Err(status) => {
                    tracing::debug!(error = status.message(), "etcd keep-alive stream broken");
                    self.client.leave(member);
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn wait(&mut self, lease: LeaseId, reply: Reply) {
        self.waiting.entry(lease).or_default().push_back(reply);
    }

    /// Works over one stream until it breaks; `Ok` when nobody can ask any more.
    async fn serve(&mut self) -> Result<(), Status> {
        let (requests, outbound) = mpsc::channel(QUEUE);
        let ask = async |lease: LeaseId| {
            let request = LeaseKeepAliveRequest { id: to_signed(lease.0) };
            let sent = requests.send(request).await;
            sent.map_err(|_| Status::unavailable("the stream ended"))
        };
        let outbound = ReceiverStream::new(outbound);
        // etcd answers the opening with the first keep-alive only, so there must be one.
        self.waiting.retain(|_, replies| {
            replies.retain(|reply| !reply.is_closed());
            !replies.is_empty()
        });
        let repeated: Vec<LeaseId> = self
            .waiting
            .iter()
            .flat_map(|(lease, replies)| std::iter::repeat_n(*lease, replies.len()))
            .collect();
        for lease in repeated {
            ask(lease).await?;
        }
        if self.waiting.is_empty() {
            let Some((lease, reply)) = self.asked.recv().await else { return Ok(()) };
            self.wait(lease, reply);
            ask(lease).await?;
        }
        let answers = self.client.stream(wire::path::LEASE_KEEP_ALIVE, outbound).await;
        let mut answers: Streaming<LeaseKeepAliveResponse> = answers?;
        let mut suspect_at = Instant::now() + STUCK;
        loop {
            tokio::select! {
                asked = self.asked.recv() => {
                    let Some((lease, reply)) = asked else { return Ok(()) };
                    if self.waiting.is_empty() {
                        suspect_at = Instant::now() + STUCK;
                    }
                    self.wait(lease, reply);
                    ask(lease).await?;
                }
                answer = answers.message() => {
                    let ended = || Status::unavailable("the stream ended");
                    self.answer(&answer?.ok_or_else(ended)?);
                    suspect_at = Instant::now() + STUCK;
                }
                () = sleep_until(suspect_at), if !self.waiting.is_empty() => {
                    return Err(Status::deadline_exceeded("no answer in time"));
                }
            }
        }
    }

    fn answer(&mut self, answer: &LeaseKeepAliveResponse) {
        let lease = LeaseId(u64::try_from(answer.id).unwrap_or(0));
        let Some(replies) = self.waiting.get_mut(&lease) else { return };
        let result = if answer.ttl > 0 { Ok(()) } else { Err(StoreError::LeaseNotFound { lease }) };
        if let Some(reply) = replies.pop_front() {
            // A caller that is gone is not missed.
            let _ = reply.send(result);
        }
        if replies.is_empty() {
            self.waiting.remove(&lease);
        }
    }
}
