//! The bounded queue of the writer: each request has a reply of its own type.

use std::sync::{Arc, OnceLock};

use fabricast_telemetry::traces::Origin;
use tokio::sync::{mpsc, oneshot};

use crate::writer::error::WriteError;
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
    fn is_route_report(&self) -> bool;
    fn decide(self: Box<Self>, state: &mut WriterState, writes: &mut BatchWrites) -> HeldReply;
    fn refuse(self: Box<Self>, error: WriteError) -> HeldReply;
}

struct Queued<R: WriteRequest> {
    request: R,
    reply: ReplySender<R::Reply>,
}

impl<R: WriteRequest> QueuedRequest for Queued<R> {
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
}

/// The callers' end of the queue; a clone is another handle.
#[derive(Clone, Debug)]
pub(crate) struct WriterQueue {
    sender: mpsc::Sender<QueuedWrite>,
    end: Arc<OnceLock<WriteError>>,
}

impl WriterQueue {
    /// Opens a queue.
    ///
    /// - `limit`: requests that may wait.
    pub(crate) fn open(limit: usize) -> (Self, WriteReceiver) {
        let (sender, requests) = mpsc::channel(limit);
        let end = Arc::new(OnceLock::new());
        (Self { sender, end: Arc::clone(&end) }, WriteReceiver { requests, end })
    }

    /// True if the writer takes another request.
    pub(crate) fn has_room(&self) -> bool {
        !self.sender.is_closed() && self.sender.capacity() > 0
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
        let queued = QueuedWrite { request, origin: Origin::kept() };
        self.sender.try_send(queued).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                WriteError::QueueFull { limit: self.sender.max_capacity() }
            }
            mpsc::error::TrySendError::Closed(_) => ended(&self.end),
        })?;
        Ok(PendingWrite { receiver, end: Arc::clone(&self.end) })
    }
}

/// A request that was sent.
#[derive(Debug)]
pub(crate) struct PendingWrite<T> {
    receiver: oneshot::Receiver<Result<T, WriteError>>,
    end: Arc<OnceLock<WriteError>>,
}

impl<T> PendingWrite<T> {
    /// Waits for the reply.
    pub(crate) async fn reply(self) -> Result<T, WriteError> {
        self.receiver.await.unwrap_or_else(|_dropped| Err(ended(&self.end)))
    }
}

fn ended(end: &OnceLock<WriteError>) -> WriteError {
    end.get().cloned().unwrap_or(WriteError::Stopping)
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(crate) struct WriteReceiver {
    pub(crate) requests: mpsc::Receiver<QueuedWrite>,
    end: Arc<OnceLock<WriteError>>,
}

impl WriteReceiver {
    /// Closes the queue: requests that wait, and later ones, are refused with this error.
    pub(crate) fn refuse_all(self, error: WriteError) {
        // The writer ends once.
        let _ = self.end.set(error);
    }
}

impl std::fmt::Debug for QueuedWrite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("QueuedWrite").field("origin", &self.origin).finish_non_exhaustive()
    }
}
