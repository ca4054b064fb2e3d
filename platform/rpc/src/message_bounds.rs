//! Bounds the memory that a request takes once it is decoded.
//!
//! Two bytes on the wire can be an element of a list that takes hundreds of bytes in memory. This
//! layer reads the wire format as the bytes arrive, before anything is decoded, and adds up the
//! elements of lists. A message is refused once they take more than [`FACTOR`] times its length
//! and more than [`FREE_BYTES`]. Sizes are computed from the descriptors, so that every message of
//! every call is bounded without a list to keep. It also tells [`RequestBytes`] how many bytes have
//! arrived, and ends calls whose messages do not arrive in time.
//!
//! Not counted: what texts and bytes hold, which takes what it has on the wire, and lists of
//! numbers, which take at most eight bytes for each byte.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

use crate::call_cost::{CallCost, CallWork, LONG_MESSAGE, Turn};
use crate::middleware::{InnerService, Middleware};
use crate::request_bytes::{MESSAGE_TIMEOUT, RequestBytes};
use fabricast_status::Reason;

/// Bytes of elements that a message may have for each byte of its length.
const FACTOR: usize = 4;
/// Bytes of elements that a message of any length may have: as many as for the longest message of
/// most calls.
const FREE_BYTES: usize = FACTOR * (4 << 20);
/// Calls whose messages may have more, since they hold whole groups of short names and there are
/// few of them at one time: bytes of elements for each byte, and in all.
const LARGE: [(&str, usize, usize); 1] =
    [("/fabricast.v1.GroupBatchService/FormGroups", 12, 128 << 20)];
/// Most elements of the lists of these calls, as they check themselves once a message is decoded.
const MOST: [(&str, usize); 6] = [
    ("/fabricast.v1.GroupAgentService/RegisterMembers", 10_000),
    ("/fabricast.v1.GroupBatchService/GetMany", 10_000),
    ("/fabricast.v1.GroupBatchService/JoinMany", 10_000),
    ("/fabricast.v1.GroupBatchService/LeaveMany", 10_000),
    ("/fabricast.v1.OperatingAgentService/JoinMany", 10_000),
    ("/fabricast.v1.OperatingAgentService/LeaveMany", 10_000),
];
/// Bytes of flag and length before a message.
const FRAME_HEADER: usize = 5;
/// Levels of messages in messages; decoders refuse more.
const DEPTH: usize = 100;
/// Bytes of a `String`, a `Vec` or a map in memory.
const CONTAINER: usize = 24;
/// Bytes of a pointer, or of the tag beside a part that may be absent.
const WORD: usize = 8;

static MESSAGES: LazyLock<Messages> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(fabricast_proto::FILE_DESCRIPTOR_SET);
    pool.map(|pool| Messages::new(&pool)).unwrap_or_default()
});

/// The messages of the services.
#[derive(Debug, Default)]
struct Messages {
    messages: Vec<MessageFields>,
    /// By path of a call: its request, and if it is a stream of them.
    requests: BTreeMap<String, (usize, bool)>,
}

/// The fields of one message that are messages themselves or lists of texts, by number.
#[derive(Debug, Default)]
struct MessageFields(BTreeMap<u32, MessageField>);

#[derive(Clone, Copy, Debug)]
struct MessageField {
    /// `None` for texts.
    message: Option<usize>,
    /// Bytes of one element in memory; 0 for a field that is no list, which is part of its message.
    element: usize,
}

impl Messages {
    fn new(pool: &DescriptorPool) -> Self {
        let numbers: BTreeMap<String, usize> = pool
            .all_messages()
            .enumerate()
            .map(|(at, one)| (one.full_name().to_owned(), at))
            .collect();
        let field = |field: FieldDescriptor| {
            let is_list = field.is_list() || field.is_map();
            let of_list = |bytes| if is_list { bytes } else { 0 };
            let counted = match field.kind() {
                Kind::Message(message) => MessageField {
                    message: Some(numbers[message.full_name()]),
                    element: of_list(size_of_message(&message, 0)),
                },
                Kind::String | Kind::Bytes if is_list => {
                    MessageField { message: None, element: CONTAINER }
                }
                _ => return None,
            };
            Some((field.number(), counted))
        };
        let fields = |message: MessageDescriptor| {
            MessageFields(message.fields().filter_map(field).collect())
        };
        let calls = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let request = |method: prost_reflect::MethodDescriptor| {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            (path, (numbers[method.input().full_name()], method.is_client_streaming()))
        };
        Self {
            messages: pool.all_messages().map(fields).collect(),
            requests: calls.map(request).collect(),
        }
    }
}

/// Bytes of a message in memory, without what its lists and texts hold.
fn size_of_message(message: &MessageDescriptor, depth: usize) -> usize {
    let of_field = |field: &FieldDescriptor| {
        if field.is_list() || field.is_map() {
            return CONTAINER;
        }
        match field.kind() {
            Kind::String | Kind::Bytes => CONTAINER,
            Kind::Message(_) if depth >= DEPTH => WORD, // a message in itself is boxed
            Kind::Message(inner) => size_of_message(&inner, depth + 1) + WORD,
            Kind::Double | Kind::Int64 | Kind::Uint64 | Kind::Sint64 => WORD,
            Kind::Fixed64 | Kind::Sfixed64 => WORD,
            _ if field.supports_presence() => WORD,
            Kind::Bool => 1,
            _ => WORD / 2,
        }
    };
    let alone = message.fields().filter(|field| field.containing_oneof().is_none());
    let alone: usize = alone.map(|field| of_field(&field)).sum();
    let choices = message
        .oneofs()
        .map(|choice| choice.fields().map(|field| of_field(&field)).max().unwrap_or(0) + WORD);
    (alone + choices.sum::<usize>()).next_multiple_of(WORD)
}

/// True if a call has a stream of requests, and so may last as long as its client.
pub(crate) fn has_request_stream(path: &str) -> bool {
    MESSAGES.requests.get(path).is_some_and(|(_, is_stream)| *is_stream)
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
        let Some((message, is_stream)) = MESSAGES.requests.get(path).copied() else {
            return inner.call(request).await;
        };
        let scanner = Scanner::new(&MESSAGES, message, Bounds::of(path));
        let bytes = request.extensions().get().cloned();
        let work = request.extensions().get().cloned();
        let request = request.map(|body| {
            let frames = BodyStream::new(body);
            let (deadline, end) = (None, None);
            let body = BoundedBody { frames, scanner, is_stream, bytes, deadline, work, end };
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
    /// None outside of a server.
    bytes: Option<Arc<RequestBytes>>,
    /// End of the time for the message that is arriving.
    deadline: Option<Pin<Box<Sleep>>>,
    /// None outside of a server.
    work: Option<CallWork>,
    /// The end of a long message, which waits to be decoded.
    end: Option<MessageEnd>,
}

/// The last frame of a long message.
struct MessageEnd {
    frame: Frame<Bytes>,
    /// The turn of the client in which the message is decoded; `None` once it has begun.
    turn: Option<Pin<Box<dyn Future<Output = Turn> + Send>>>,
}

impl BoundedBody {
    fn read(&mut self, data: &[u8]) -> Result<(), Status> {
        let before = self.scanner.messages_read;
        self.scanner.read(data)?;
        self.hold()?;
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
        let turn: Pin<Box<dyn Future<Output = Turn> + Send>> =
            Box::pin(async move { cost.turn().await });
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

    fn hold(&self) -> Result<(), Status> {
        self.bytes.as_ref().map_or(Ok(()), |bytes| bytes.hold(self.scanner.held() as u64))
    }

    /// Forgets the last message of a stream once the next one is asked for. The only message of
    /// other calls is held until they are answered.
    fn forget_last(&mut self) -> Result<(), Status> {
        if self.is_stream && self.scanner.last_length > 0 && !self.scanner.is_within_message() {
            self.scanner.last_length = 0;
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
        match Pin::new(&mut self.frames).poll_next(context) {
            Poll::Ready(Some(Ok(frame))) => match self.take(frame) {
                Ok(Some(frame)) => Poll::Ready(Some(Ok(frame))),
                Ok(None) => self.poll_next(context),
                Err(refused) => Poll::Ready(Some(Err(refused))),
            },
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending => {
                if let Err(refused) = self.forget_last() {
                    return Poll::Ready(Some(Err(refused)));
                }
                let Some(deadline) = &mut self.deadline else { return Poll::Pending };
                deadline.as_mut().poll(context).map(|()| {
                    let most = MESSAGE_TIMEOUT.as_secs();
                    let text = format!("a message of the request has not arrived within {most} s");
                    Some(Err(Reason::RequestTooSlow.status(text, &[])))
                })
            }
        }
    }
}

/// Bounds of the elements of a message.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Bytes of elements for each byte of the message, up to `proportional`; [`FACTOR`] beyond.
    factor: usize,
    /// Bytes of elements up to which `factor` holds.
    proportional: usize,
    /// Number of elements of the request's own lists.
    count: usize,
}

impl Bounds {
    /// The bounds of a call.
    fn of(path: &str) -> Self {
        let large = LARGE.iter().find(|(call, ..)| *call == path);
        let most = MOST.iter().find(|(call, _)| *call == path);
        Self {
            factor: large.map_or(FACTOR, |(_, factor, _)| *factor),
            proportional: large.map_or(usize::MAX, |(_, _, bytes)| *bytes),
            count: most.map_or(usize::MAX, |(_, count)| *count),
        }
    }

    /// Bytes that the elements of a message of this length may take.
    fn bytes(&self, length: usize) -> usize {
        let more = length.saturating_mul(self.factor).min(self.proportional);
        FREE_BYTES.max(length.saturating_mul(FACTOR)).max(more)
    }
}

/// Reads the messages of one call as they arrive.
#[derive(Debug)]
struct Scanner {
    messages: &'static Messages,
    request: usize,
    bounds: Bounds,
    state: State,
    /// Bytes of the present message that were read, and its length.
    read: usize,
    length: usize,
    /// Length of the message before it.
    last_length: usize,
    messages_read: u64,
    /// The messages around the present byte, from the outermost: their ends and their fields.
    around: Vec<(usize, usize)>,
    /// Bytes of the elements of all lists in the present message.
    elements: usize,
    /// Number of elements of the message's own lists.
    own_elements: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Flag and length of a message, of which so many bytes were read.
    Header(usize),
    /// A number of many bytes: its value so far and the bits that it has.
    Number { of: Number, value: u64, bits: u32 },
    /// So many bytes that do not matter.
    Skip(usize),
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Key,
    Value,
    Length { field: u32 },
}

const KEY: State = State::Number { of: Number::Key, value: 0, bits: 0 };

impl Scanner {
    fn new(messages: &'static Messages, request: usize, bounds: Bounds) -> Self {
        Self {
            messages,
            request,
            bounds,
            state: State::Header(0),
            read: 0,
            length: 0,
            last_length: 0,
            messages_read: 0,
            around: Vec::new(),
            elements: 0,
            own_elements: 0,
        }
    }

    fn is_within_message(&self) -> bool {
        !matches!(self.state, State::Header(0))
    }

    /// Bytes of the present message and of the one before it, which may still be at work.
    fn held(&self) -> usize {
        self.last_length + if self.is_within_message() { self.read } else { 0 }
    }

    /// Reads the next bytes of the call.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `LIMIT_REACHED` if a message would take too much memory. Bytes that
    /// are no message are left to the decoder.
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while let Some((first, rest)) = bytes.split_first() {
            match self.state {
                State::Header(have) => {
                    if have > 0 {
                        self.length = self.length << 8 | usize::from(*first);
                    }
                    self.state = State::Header(have + 1);
                    if have + 1 == FRAME_HEADER {
                        self.begin();
                    }
                    bytes = rest;
                }
                State::Skip(left) => {
                    let now = left.min(bytes.len());
                    bytes = &bytes[now..];
                    self.read += now;
                    self.state = if left == now { KEY } else { State::Skip(left - now) };
                    self.leave();
                }
                State::Number { of, value, bits } => {
                    bytes = rest;
                    self.read += 1;
                    let value = value | u64::from(first & 0x7f).checked_shl(bits).unwrap_or(0);
                    if first & 0x80 == 0 {
                        self.number(of, value)?;
                    } else if bits < 63 {
                        self.state = State::Number { of, value, bits: bits + 7 };
                    } else {
                        self.give_up();
                    }
                    self.leave();
                }
            }
        }
        Ok(())
    }

    /// Begins a message, whose length is known.
    fn begin(&mut self) {
        (self.read, self.elements, self.own_elements, self.state) = (0, 0, 0, KEY);
        self.around.clear();
        self.around.push((self.length, self.request));
        self.leave();
    }

    /// Leaves the messages that end at the present byte.
    fn leave(&mut self) {
        while self.around.last().is_some_and(|(end, _)| *end <= self.read) {
            self.around.pop();
        }
        if self.around.is_empty() {
            (self.last_length, self.messages_read) = (self.length, self.messages_read + 1);
            (self.state, self.read, self.length) = (State::Header(0), 0, 0);
        }
    }

    /// Leaves the rest of the message to the decoder, which will refuse it.
    fn give_up(&mut self) {
        self.around.truncate(1);
        self.skip(usize::MAX);
    }

    /// Skips bytes of the innermost message; if it does not have so many, the rest of all.
    fn skip(&mut self, count: usize) {
        let left = |around: Option<&(usize, usize)>| around.map_or(0, |(end, _)| end - self.read);
        let skipped =
            if count <= left(self.around.last()) { count } else { left(self.around.first()) };
        self.state = if skipped == 0 { KEY } else { State::Skip(skipped) };
    }

    fn number(&mut self, of: Number, value: u64) -> Result<(), Status> {
        match of {
            Number::Value => self.state = KEY,
            Number::Key => match value & 7 {
                0 => self.state = State::Number { of: Number::Value, value: 0, bits: 0 },
                1 => self.skip(8),
                2 => {
                    let field = u32::try_from(value >> 3).unwrap_or(0);
                    self.state = State::Number { of: Number::Length { field }, value: 0, bits: 0 };
                }
                3 | 4 => self.state = KEY, // the ends of a group, whose fields are read as any
                5 => self.skip(4),
                _ => self.give_up(),
            },
            Number::Length { field } => {
                let length = usize::try_from(value).unwrap_or(usize::MAX);
                let Some((end, message)) = self.around.last().copied() else { return Ok(()) };
                let fits = length <= end - self.read;
                let known = self.messages.messages[message].0.get(&field).filter(|_| fits);
                let Some(known) = known else {
                    self.skip(length);
                    return Ok(());
                };
                self.count(known.element)?;
                match known.message.filter(|_| self.around.len() <= DEPTH) {
                    None => self.skip(length),
                    Some(inner) => {
                        self.around.push((self.read + length, inner));
                        self.state = KEY;
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, element: usize) -> Result<(), Status> {
        self.elements += element;
        if element > 0 && self.around.len() == 1 {
            self.own_elements += 1;
            let most = self.bounds.count;
            if self.own_elements > most {
                let message = format!("at most {most} elements go into one call");
                return Err(Reason::LimitReached.status(message, &[]));
            }
        }
        let most = self.bounds.bytes(self.length);
        if self.elements <= most {
            return Ok(());
        }
        let message = format!(
            "the request has so many elements that they take more than {most} bytes of memory: \
             send them in several calls"
        );
        Err(Reason::LimitReached.status(message, &[]))
    }
}

#[cfg(test)]
mod tests;
