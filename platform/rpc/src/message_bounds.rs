//! Bounds the memory that a request takes once it is decoded.
//!
//! Two bytes on the wire can be an element of a list that takes hundreds of bytes in memory. This
//! layer reads the wire format as the bytes arrive, before anything is decoded, and adds up what
//! lists and texts will take: elements, numbers at their decoded size, and the room that lists have
//! for more. A message is refused once that is more than [`scan::FACTOR`] times its length and more
//! than [`scan::FREE_BYTES`]; calls of [`scan::LARGE`], whose messages are long lists of short
//! values, have a larger factor up to a number of bytes. The memory of a message is what its client
//! is charged with: [`RequestBytes`] holds its length, or a quarter of its memory if that is more.
//! A message without lists may have 4 MiB only, and one of texts and numbers 64 KiB, whatever its
//! service accepts. Sizes are computed from the descriptors, so that every message of every call is
//! bounded without a list to keep. Calls whose messages do not arrive in time are ended: a request
//! of one message has to be whole in this time after its call has begun, each message of a stream
//! after its own first byte.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

use crate::call_cost::{BoxFuture, CallCost, CallWork, LONG_MESSAGE, Turn};
use crate::middleware::{InnerService, Middleware};
use crate::request_bytes::{MESSAGE_TIMEOUT, RequestBytes};
use fabricast_status::Reason;

use scan::{Bounds, Scanner};
use sizes::{MESSAGES, RequestType};

mod scan;
mod sizes;

/// True if a call has a stream of requests, and so may last as long as its client.
pub(crate) fn has_request_stream(path: &str) -> bool {
    MESSAGES.requests.get(path).is_some_and(|request| request.is_stream)
}

/// True if a call has one request and one answer.
pub(crate) fn is_unary(path: &str) -> bool {
    let is_unary = |request: &RequestType| !request.is_stream && !request.has_answer_stream;
    MESSAGES.requests.get(path).is_some_and(is_unary)
}

/// Bytes that the client of a call is charged with for a message that is no request.
///
/// - `message`: its full name.
///
/// # Errors
///
/// As [`Scanner::read`].
pub(crate) fn charged_bytes(message: &str, bytes: &[u8]) -> Result<usize, Status> {
    let Some(message) = MESSAGES.indexes.get(message) else { return Ok(bytes.len()) };
    let mut scanner = Scanner::new(&MESSAGES, *message, Bounds::of_unframed());
    scanner.begin_unframed(bytes.len())?;
    scanner.read(bytes)?;
    Ok(scanner.held())
}

/// Refuses requests that would take too much memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundMessages;

impl Middleware for BoundMessages {
    async fn handle<S: InnerService>(
        self,
        request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let path = request.uri().path();
        let Some(RequestType { message, is_stream, .. }) = MESSAGES.requests.get(path).copied()
        else {
            return inner.call(request).await;
        };
        let is_unary = is_unary(path);
        let scanner = Scanner::new(&MESSAGES, message, Bounds::of(path));
        let bytes = request.extensions().get().cloned();
        let work = request.extensions().get().cloned();
        let request = request.map(|body| {
            let frames = BodyStream::new(body);
            let body = BoundedBody {
                frames,
                scanner,
                is_stream,
                is_unary,
                bytes,
                deadline: (!is_stream).then(|| Box::pin(sleep(MESSAGE_TIMEOUT))),
                work,
                end: None,
                room: None,
            };
            Body::new(StreamBody::new(body))
        });
        inner.call(request).await
    }
}

/// The body of a request, read as it arrives.
struct BoundedBody {
    frames: BodyStream<Body>,
    scanner: Scanner,
    is_stream: bool,
    is_unary: bool,
    /// None outside of a server.
    bytes: Option<Arc<RequestBytes>>,
    /// End of the time for the message of a stream that is arriving, or for the request.
    deadline: Option<Pin<Box<Sleep>>>,
    /// None outside of a server.
    work: Option<CallWork>,
    /// The end of a long message, which waits to be decoded.
    end: Option<MessageEnd>,
    /// Waits at the end of a request until its client has room for the answer.
    room: Option<BoxFuture<Result<(), Status>>>,
}

/// The last frame of a long message.
struct MessageEnd {
    frame: Frame<Bytes>,
    /// The turn of the client in which the message is decoded; `None` once it has begun.
    turn: Option<BoxFuture<Turn>>,
}

impl BoundedBody {
    fn read(&mut self, data: &[u8]) -> Result<(), Status> {
        let before = self.scanner.messages_read;
        self.scanner.read(data)?;
        self.hold()?;
        if !self.is_stream {
            // The time goes on to the end of the request: its call has to wait for that.
            return Ok(());
        }
        if !self.scanner.is_within_message() {
            self.deadline = None;
        } else if self.deadline.is_none() || self.scanner.messages_read > before {
            self.deadline = Some(Box::pin(sleep(MESSAGE_TIMEOUT)));
        }
        Ok(())
    }

    /// Reads a frame, and keeps it if it is the end of a long message.
    fn take(&mut self, frame: Frame<Bytes>) -> Result<Option<Frame<Bytes>>, Status> {
        let Some(data) = frame.data_ref() else { return Ok(Some(frame)) };
        let before = self.scanner.messages_read;
        self.read(data)?;
        let Some(work) = &self.work else { return Ok(Some(frame)) };
        if !self.is_stream {
            work.cost.charge_bytes(data.len());
        }
        let is_long = self.scanner.messages_read > before;
        let is_long = is_long && self.scanner.last_length >= LONG_MESSAGE;
        // Other tasks than that of the call decode what they read where they are.
        if !is_long || CallCost::current().client() == 0 {
            return Ok(Some(frame));
        }
        let cost = work.cost.clone();
        let turn: BoxFuture<Turn> = Box::pin(async move { cost.turn().await });
        self.end = Some(MessageEnd { frame, turn: Some(turn) });
        Ok(None)
    }

    /// Waits until a long message may be decoded; then the poll after this one gets its end.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        let Some(end) = &mut self.end else { return Poll::Ready(None) };
        let Some(turn) = &mut end.turn else {
            return Poll::Ready(self.end.take().map(|end| end.frame));
        };
        let turn = ready!(turn.as_mut().poll(context));
        end.turn = None;
        if let Some(work) = &self.work {
            work.begin(turn);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends a request once its client has room for the answer, which is made in the same poll. A
    /// request can end long after its call has begun.
    fn poll_room(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(work) = self.work.as_ref().filter(|_| self.is_unary) else {
            return Poll::Ready(None);
        };
        let cost = work.cost.clone();
        let room =
            self.room.get_or_insert_with(|| Box::pin(async move { cost.room_for_answer().await }));
        let found = ready!(room.as_mut().poll(context));
        self.room = None;
        Poll::Ready(found.err().map(Err))
    }

    fn hold(&self) -> Result<(), Status> {
        self.bytes.as_ref().map_or(Ok(()), |bytes| bytes.hold(self.scanner.held() as u64))
    }

    /// Forgets the last message of a stream once the next one is asked for. The only message of
    /// other calls is held until they are answered.
    fn forget_last(&mut self) -> Result<(), Status> {
        if self.is_stream && self.scanner.last_length > 0 && !self.scanner.is_within_message() {
            self.scanner.forget_last();
            return self.hold();
        }
        Ok(())
    }
}

impl Stream for BoundedBody {
    type Item = <BodyStream<Body> as Stream>::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(frame) = ready!(self.poll_end(context)) {
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.room.is_some() {
            return self.poll_room(context);
        }
        match Pin::new(&mut self.frames).poll_next(context) {
            // Requests have no trailers that anybody reads.
            Poll::Ready(Some(Ok(frame))) if self.is_unary && frame.is_trailers() => {
                self.poll_next(context)
            }
            Poll::Ready(Some(Ok(frame))) => match self.take(frame) {
                Ok(Some(frame)) => Poll::Ready(Some(Ok(frame))),
                Ok(None) => self.poll_next(context),
                Err(refused) => Poll::Ready(Some(Err(refused))),
            },
            Poll::Ready(None) => self.poll_room(context),
            Poll::Ready(Some(Err(failed))) => Poll::Ready(Some(Err(failed))),
            Poll::Pending => {
                if let Err(refused) = self.forget_last() {
                    return Poll::Ready(Some(Err(refused)));
                }
                let Some(deadline) = &mut self.deadline else { return Poll::Pending };
                deadline.as_mut().poll(context).map(|()| {
                    let most = MESSAGE_TIMEOUT.as_secs();
                    let text =
                        format!("a message, or the end of the request, has not come in {most} s");
                    Some(Err(Reason::RequestTooSlow.status(text, &[])))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
