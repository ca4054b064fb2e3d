//! The bounded queue of the writer: each request has a reply of its own type.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fabricast_rpc::{CallCost, measured};
use fabricast_telemetry::traces::Origin;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::writer::error::WriteError;
use crate::writer::fair_queue::FairQueue;
use crate::writer::state::{BatchWrites, WriterState};

/// A change or a question that the writer decides, with the type of its reply.
pub(crate) trait WriteRequest: Send + 'static {
    /// Sent once the changes of the whole batch are durable.
    type Reply: Send + 'static;

    /// Set if the route service caused the change, which is then no news to it.
    const IS_ROUTE_REPORT: bool = false;

    /// Decides the request against the records, which run ahead of the store by one batch.
    ///
    /// # Errors
    ///
    /// [`WriteError`]; the request must have changed nothing then.
    fn decide(
        self,
        state: &mut WriterState,
        writes: &mut BatchWrites,
    ) -> Result<Self::Reply, WriteError>;
}

/// Sends a reply once the outcome of its batch is known: the result of the request, or the error
/// of the commit.
pub(crate) type HeldReply = Box<dyn FnOnce(Result<(), WriteError>) + Send>;

type ReplySender<T> = oneshot::Sender<Result<T, WriteError>>;

/// A [`WriteRequest`] of any type on its way to the writer.
pub(crate) trait QueuedRequest: Send {
    /// Type of the request.
    fn kind(&self) -> &'static str;
    fn is_route_report(&self) -> bool;
    fn decide(self: Box<Self>, state: &mut WriterState, writes: &mut BatchWrites) -> HeldReply;
    fn refuse(self: Box<Self>, error: WriteError) -> HeldReply;
}

struct Queued<R: WriteRequest> {
    request: R,
    reply: ReplySender<R::Reply>,
}

impl<R: WriteRequest> QueuedRequest for Queued<R> {
    fn kind(&self) -> &'static str {
        std::any::type_name::<R>()
    }

    fn is_route_report(&self) -> bool {
        R::IS_ROUTE_REPORT
    }

    fn decide(self: Box<Self>, state: &mut WriterState, writes: &mut BatchWrites) -> HeldReply {
        let result = self.request.decide(state, writes);
        hold(self.reply, result)
    }

    fn refuse(self: Box<Self>, error: WriteError) -> HeldReply {
        hold(self.reply, Err(error))
    }
}

fn hold<T: Send + 'static>(reply: ReplySender<T>, result: Result<T, WriteError>) -> HeldReply {
    Box::new(move |committed| {
        // A caller that is gone is not missed.
        let _ = reply.send(committed.and(result));
    })
}

/// A request in the queue.
pub(crate) struct QueuedWrite {
    pub(crate) request: Box<dyn QueuedRequest>,
    /// The traced call that it comes from.
    pub(crate) origin: Origin,
    /// The client that pays for the decision.
    pub(crate) cost: CallCost,
}

/// The callers' end of the queue; a clone is another handle.
#[derive(Clone, Debug)]
pub(crate) struct WriterQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Tells the writer of a request, and that the queue is closed.
    news: Notify,
    /// Requests that may wait.
    limit: usize,
    end: OnceLock<WriteError>,
}

#[derive(Debug, Default)]
struct State {
    queue: FairQueue<QueuedWrite>,
    is_closed: bool,
}

impl WriterQueue {
    /// Opens a queue.
    ///
    /// - `limit`: requests that may wait; those of one client may be half of them.
    pub(crate) fn open(limit: usize) -> (Self, WriteReceiver) {
        let (state, news, end) = (Mutex::default(), Notify::new(), OnceLock::new());
        let shared = Arc::new(Shared { state, news, limit, end });
        (Self(Arc::clone(&shared)), WriteReceiver(shared))
    }

    /// True if the writer takes another request.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.0.state.lock();
        !state.is_closed && state.queue.len() < self.0.limit
    }

    /// Sends a request and waits for its reply. The request may be carried out even if this future
    /// is dropped.
    pub(crate) async fn write<R: WriteRequest>(&self, request: R) -> Result<R::Reply, WriteError> {
        self.send(request)?.reply().await
    }

    /// Sends a request and leaves it to the caller when to wait for the reply.
    pub(crate) fn send<R: WriteRequest>(
        &self,
        request: R,
    ) -> Result<PendingWrite<R::Reply>, WriteError> {
        let (reply, receiver) = oneshot::channel();
        let request = Box::new(Queued { request, reply });
        let cost = CallCost::current();
        let client = cost.client();
        let queued = QueuedWrite { request, origin: Origin::kept(), cost };
        let Shared { limit, .. } = *self.0;
        let mut state = self.0.state.lock();
        if state.is_closed {
            return Err(ended(&self.0.end));
        }
        let share = if client == 0 { limit } else { (limit / 2).max(1) };
        if state.queue.len() >= limit || state.queue.of(client) >= share {
            return Err(WriteError::QueueFull { limit });
        }
        state.queue.push(client, queued);
        drop(state);
        self.0.news.notify_one();
        Ok(PendingWrite { receiver, queue: Arc::clone(&self.0) })
    }
}

/// A request that was sent.
#[derive(Debug)]
pub(crate) struct PendingWrite<T> {
    receiver: oneshot::Receiver<Result<T, WriteError>>,
    queue: Arc<Shared>,
}

impl<T> PendingWrite<T> {
    /// Waits for the reply.
    pub(crate) async fn reply(self) -> Result<T, WriteError> {
        self.receiver.await.unwrap_or_else(|_dropped| Err(ended(&self.queue.end)))
    }
}

fn ended(end: &OnceLock<WriteError>) -> WriteError {
    end.get().cloned().unwrap_or(WriteError::Stopping)
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(crate) struct WriteReceiver(Arc<Shared>);

impl WriteReceiver {
    /// Waits for a request; false if the queue is closed and empty.
    pub(crate) async fn wait(&self) -> bool {
        loop {
            {
                let state = self.0.state.lock();
                if state.queue.len() > 0 || state.is_closed {
                    return state.queue.len() > 0;
                }
            }
            self.0.news.notified().await;
        }
    }

    /// Takes the next request, has it decided, and charges its client; `None` if there is none.
    pub(crate) fn decide_next(&self, decide: impl FnOnce(QueuedWrite)) -> Option<Duration> {
        let (client, queued) = self.0.state.lock().queue.pop()?;
        let cost = queued.cost.clone();
        let ((), spent) = measured(|| decide(queued));
        cost.charge(spent);
        self.0.state.lock().queue.spent(client, spent);
        Some(spent)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.state.lock().is_closed
    }

    /// Takes no further requests; those that wait stay.
    pub(crate) fn close(&self) {
        self.0.state.lock().is_closed = true;
        self.0.news.notify_one();
    }

    /// Closes the queue: requests that wait, and later ones, are refused with this error.
    pub(crate) fn refuse_all(self, error: WriteError) {
        // The writer ends once.
        let _ = self.0.end.set(error);
    }
}

impl Drop for WriteReceiver {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        let dropped = std::mem::take(&mut state.queue);
        drop(state);
        drop(dropped); // their callers are told then
    }
}

impl std::fmt::Debug for QueuedWrite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("QueuedWrite").field("origin", &self.origin).finish_non_exhaustive()
    }
}
