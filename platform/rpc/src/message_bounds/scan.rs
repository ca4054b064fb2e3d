//! Reads the wire format of requests as they arrive, and adds up what they take once decoded.

use tonic::Status;

use fabricast_status::Reason;

use super::sizes::{Content, DEPTH, Fields, MESSAGES, MessageField, Messages, capacity};

/// Bytes in memory that a message may take for each byte of its length.
pub(super) const FACTOR: usize = 4;
/// Bytes in memory that a message of any length may take: as many as for the longest message of
/// most calls.
pub(super) const FREE_BYTES: usize = FACTOR * (4 << 20);
/// Calls whose messages may take more, since they are lists of short values: bytes in memory for
/// each byte, and in all.
pub(super) const LARGE: [(&str, usize, usize); 4] = [
    ("/fabricast.v1.GroupBatchService/FormGroups", 16, 128 << 20),
    ("/fabricast.v1.TicService/PlanMgids", 16, 64 << 20),
    ("/fabricast.v1.SwitchAgentService/WriteTables", 8, 128 << 20),
    ("/fabricast.v1.FabricService/WriteSwitchTables", 8, 128 << 20),
];
/// Most elements of the lists of these calls, as they check themselves once a message is decoded.
const MOST: [(&str, usize); 8] = [
    ("/fabricast.v1.GroupAgentService/RegisterMembers", 10_000),
    ("/fabricast.v1.GroupBatchService/GetMany", 10_000),
    ("/fabricast.v1.GroupBatchService/JoinMany", 10_000),
    ("/fabricast.v1.GroupBatchService/LeaveMany", 10_000),
    ("/fabricast.v1.OperatingAgentService/JoinMany", 10_000),
    ("/fabricast.v1.OperatingAgentService/LeaveMany", 10_000),
    ("/fabricast.v1.OperatingAgentService/MeasureOperations", 64),
    ("/fabricast.v1.ProcessService/ReserveMembers", 10_000),
];
/// Most bytes of a message without lists, as services without a limit of their own accept.
const LONGEST_WITHOUT_LISTS: usize = 4 << 20;
/// Most bytes of a message of texts and numbers: its texts are names of at most 256 characters and
/// the like, and it has few.
const LONGEST_OF_TEXTS: usize = 64 << 10;
/// Most bytes of calls with lists that need less than their services accept: one join goes on to
/// the TIC, which takes as many.
const SHORTER: [(&str, usize); 1] =
    [("/fabricast.v1.OperatingAgentService/JoinGroup", LONGEST_WITHOUT_LISTS)];
/// Bytes of flag and length before a message.
const FRAME_HEADER: usize = 5;
/// Bits for the number of a field in a path.
const FIELD_BITS: u32 = 16;
/// Bytes for which a text that is not empty has room.
const LEAST_TEXT: usize = 8;

/// Bounds of the memory of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes in memory for each byte of the message, up to `proportional`; [`FACTOR`] beyond.
    factor: usize,
    /// Bytes in memory up to which `factor` holds.
    proportional: usize,
    /// Number of elements of the request's own lists.
    count: usize,
    /// Bytes of a message.
    length: usize,
}

impl Bounds {
    /// The bounds of a call.
    pub(super) fn of(path: &str) -> Self {
        let large = LARGE.iter().find(|(call, ..)| *call == path);
        let most = MOST.iter().find(|(call, _)| *call == path);
        let shorter = SHORTER.iter().find(|(call, _)| *call == path);
        let fields = MESSAGES.requests.get(path).map_or(Fields::Lists, |request| request.fields);
        let length = match fields {
            Fields::Lists => shorter.map_or(usize::MAX, |(_, bytes)| *bytes),
            Fields::Texts => LONGEST_OF_TEXTS,
            Fields::Others => LONGEST_WITHOUT_LISTS,
        };
        Self {
            factor: large.map_or(FACTOR, |(_, factor, _)| *factor),
            proportional: large.map_or(usize::MAX, |(_, _, bytes)| *bytes),
            count: most.map_or(usize::MAX, |(_, count)| *count),
            length,
        }
    }

    /// The bounds of a message of any length that is no request.
    pub(super) fn of_unframed() -> Self {
        Self { factor: FACTOR, proportional: usize::MAX, count: usize::MAX, length: usize::MAX }
    }

    /// Most bytes of a message.
    #[cfg(test)]
    pub(super) fn longest(&self) -> usize {
        self.length
    }

    /// Bytes that a message of this length may take once decoded.
    fn bytes(&self, length: usize) -> usize {
        let more = length.saturating_mul(self.factor).min(self.proportional);
        FREE_BYTES.max(length.saturating_mul(FACTOR)).max(more)
    }
}

/// Reads the messages of one call as they arrive.
#[derive(Debug)]
pub(super) struct Scanner {
    messages: &'static Messages,
    request: usize,
    bounds: Bounds,
    state: State,
    /// Bytes of the present message that were read, and its length.
    read: usize,
    length: usize,
    memory: Memory,
    /// Length of the message before it, and what it took.
    pub(super) last_length: usize,
    last_memory: usize,
    pub(super) messages_read: u64,
    /// The messages around the present byte, from the outermost.
    around: Vec<Around>,
    /// Elements so far of the lists of the messages around: paths and counts.
    lists: Vec<(u64, usize)>,
    /// Number of elements of the message's own lists.
    own_elements: usize,
}

/// A message around the present byte.
#[derive(Clone, Copy, Debug)]
struct Around {
    end: usize,
    message: usize,
    /// Index of the first of its lists, and of those of the messages around it up to the nearest
    /// element of a list: a message that is no element and comes again goes on with its lists.
    lists: usize,
    /// Numbers of the fields that lead to it from that element.
    path: u64,
}

/// Bytes that the present message takes once decoded.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Room of all lists and texts.
    kept: usize,
    /// Room that the longest list had before it grew last: both exist while it is copied.
    copied: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Flag and length of a message, of which so many bytes were read.
    Header(usize),
    /// A number of many bytes: its value so far and the bits that it has.
    Number { of: Number, value: u64, bits: u32 },
    /// So many bytes of numbers of varying length.
    Packed { left: usize, field: u32, element: usize },
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
    pub(super) fn new(messages: &'static Messages, request: usize, bounds: Bounds) -> Self {
        Self {
            messages,
            request,
            bounds,
            state: State::Header(0),
            read: 0,
            length: 0,
            memory: Memory::default(),
            last_length: 0,
            last_memory: 0,
            messages_read: 0,
            around: Vec::new(),
            lists: Vec::new(),
            own_elements: 0,
        }
    }

    pub(super) fn is_within_message(&self) -> bool {
        !matches!(self.state, State::Header(0))
    }

    /// Bytes that the call is charged with: those of the present message and of the one before it,
    /// which may still be at work. They take at most [`FACTOR`] times as many in memory, as bytes
    /// of the wire and decoded.
    pub(super) fn held(&self) -> usize {
        let charged = |length: usize, memory: usize| length.max((length + memory) / FACTOR);
        let present = charged(self.read, self.memory.peak());
        charged(self.last_length, self.last_memory)
            + if self.is_within_message() { present } else { 0 }
    }

    /// Bytes that lists and texts of the present or last message take.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.memory.kept
    }

    /// Reads the next bytes of the call.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `LIMIT_REACHED` if a message would take too much memory.
    /// `OUT_OF_RANGE` if it is too long.
    /// `INVALID_ARGUMENT` / `REQUEST_UNREADABLE` at the first byte that belongs to no message, or
    /// to a group, which no message has: a decoder may read on, and find elements that were not
    /// counted here.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while let Some((first, rest)) = bytes.split_first() {
            match self.state {
                State::Header(have) => {
                    if have > 0 {
                        self.length = self.length << 8 | usize::from(*first);
                    }
                    self.state = State::Header(have + 1);
                    if have + 1 == FRAME_HEADER {
                        self.begin()?;
                    }
                    bytes = rest;
                }
                State::Skip(left) => {
                    let now = left.min(bytes.len());
                    bytes = &bytes[now..];
                    self.read += now;
                    self.state = if left == now { KEY } else { State::Skip(left - now) };
                    self.leave()?;
                }
                State::Packed { left, field, element } => {
                    let now = left.min(bytes.len());
                    let last_bytes = bytes[..now].iter().filter(|byte| **byte & 0x80 == 0);
                    self.add(field, element, last_bytes.count())?;
                    bytes = &bytes[now..];
                    self.read += now;
                    let left = left - now;
                    self.state =
                        if left == 0 { KEY } else { State::Packed { left, field, element } };
                    self.leave()?;
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
                        return Err(unreadable("a number has more than 10 bytes"));
                    }
                    self.leave()?;
                }
            }
        }
        Ok(())
    }

    /// Begins a message that comes without a header.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(super) fn begin_unframed(&mut self, length: usize) -> Result<(), Status> {
        self.length = length;
        self.begin()
    }

    /// Begins a message, whose length is known.
    fn begin(&mut self) -> Result<(), Status> {
        let most = self.bounds.length;
        if self.length > most {
            let text = format!("a message of {} bytes is too long: at most {most}", self.length);
            return Err(Status::out_of_range(text));
        }
        (self.read, self.memory, self.own_elements, self.state) = (0, Memory::default(), 0, KEY);
        self.around.clear();
        self.lists.clear();
        self.around.push(Around { end: self.length, message: self.request, lists: 0, path: 0 });
        self.leave()
    }

    /// Leaves the messages that end at the present byte.
    fn leave(&mut self) -> Result<(), Status> {
        while let Some(Around { end, lists, path, .. }) = self.around.last().copied()
            && end <= self.read
        {
            if !matches!(self.state, State::Number { of: Number::Key, bits: 0, .. }) {
                return Err(unreadable("a message ends within a field"));
            }
            if path == 0 {
                self.lists.truncate(lists);
            }
            self.around.pop();
        }
        if self.around.is_empty() {
            (self.last_length, self.messages_read) = (self.length, self.messages_read + 1);
            self.last_memory = self.memory.peak();
            (self.state, self.read, self.length) = (State::Header(0), 0, 0);
        }
        Ok(())
    }

    /// Forgets the last message, which is no longer at work.
    pub(super) fn forget_last(&mut self) {
        (self.last_length, self.last_memory) = (0, 0);
    }

    /// Skips bytes of the innermost message.
    fn skip(&mut self, count: usize) -> Result<(), Status> {
        if count > self.left() {
            return Err(unreadable("a field is longer than the message around it"));
        }
        self.state = if count == 0 { KEY } else { State::Skip(count) };
        Ok(())
    }

    /// Bytes of the innermost message that are left.
    fn left(&self) -> usize {
        self.around.last().map_or(0, |around| around.end.saturating_sub(self.read))
    }

    /// A field of the innermost message that takes memory of its own.
    fn field(&self, field: u64) -> Option<(u32, MessageField)> {
        let field = u32::try_from(field).ok()?;
        let message = self.around.last()?.message;
        Some((field, *self.messages.messages[message].0.get(&field)?))
    }

    fn number(&mut self, of: Number, value: u64) -> Result<(), Status> {
        match of {
            Number::Value => self.state = KEY,
            Number::Key => {
                if let (0 | 1 | 5, Some((field, known))) = (value & 7, self.field(value >> 3)) {
                    self.add(field, known.element, 1)?; // one number of a list
                }
                match value & 7 {
                    0 => self.state = State::Number { of: Number::Value, value: 0, bits: 0 },
                    1 => self.skip(8)?,
                    2 => {
                        let of = Number::Length { field: u32::try_from(value >> 3).unwrap_or(0) };
                        self.state = State::Number { of, value: 0, bits: 0 };
                    }
                    5 => self.skip(4)?,
                    _ => return Err(unreadable("a field is of a kind that no message has")),
                }
            }
            Number::Length { field } => {
                let length = usize::try_from(value).unwrap_or(usize::MAX);
                let fits = length <= self.left();
                match self.field(field.into()).filter(|_| fits) {
                    None => self.skip(length)?,
                    Some((field, known)) => self.content(field, known, length)?,
                }
            }
        }
        Ok(())
    }

    /// Begins a field of so many bytes.
    fn content(&mut self, field: u32, known: MessageField, length: usize) -> Result<(), Status> {
        let element = known.element;
        match known.content {
            Content::Varints if length > 0 => {
                self.state = State::Packed { left: length, field, element };
                return Ok(());
            }
            Content::Varints => {}
            Content::Fixed(bytes) => self.add(field, element, length / bytes)?,
            Content::Text => {
                self.add(field, element, 1)?;
                self.take(if length == 0 { 0 } else { length.max(LEAST_TEXT) }, 0)?;
            }
            Content::Message(message) => {
                self.add(field, element, 1)?;
                if self.around.len() <= DEPTH {
                    let (end, outer) = (self.read + length, self.around.last().copied());
                    let inner = Around { end, message, lists: self.lists.len(), path: 0 };
                    self.around.push(match outer.filter(|_| element == 0) {
                        Some(Around { lists, path, .. }) => {
                            Around { lists, path: path << FIELD_BITS | u64::from(field), ..inner }
                        }
                        None => inner,
                    });
                    self.state = KEY;
                    return Ok(());
                }
            }
        }
        self.skip(length)
    }

    /// Adds elements to a list of the innermost message.
    fn add(&mut self, field: u32, element: usize, more: usize) -> Result<(), Status> {
        if element == 0 || more == 0 {
            return Ok(());
        }
        if self.around.len() == 1 {
            self.own_elements += more;
            let most = self.bounds.count;
            if self.own_elements > most {
                let message = format!("at most {most} elements go into one call");
                return Err(Reason::LimitReached.status(message, &[]));
            }
        }
        let Some(Around { lists: first, path, .. }) = self.around.last().copied() else {
            return Ok(());
        };
        let path = path << FIELD_BITS | u64::from(field);
        let known = self.lists[first..].iter().position(|(one, _)| *one == path);
        let at = known.map_or(self.lists.len(), |known| first + known);
        if known.is_none() {
            self.lists.push((path, 0));
        }
        let had = capacity(self.lists[at].1, element);
        self.lists[at].1 += more;
        let room = capacity(self.lists[at].1, element);
        if room == had {
            return Ok(());
        }
        let copied = if room > capacity(1, element) { room / 2 } else { 0 };
        self.take((room - had) * element, copied * element)
    }

    /// Takes memory for what was read.
    fn take(&mut self, bytes: usize, copied: usize) -> Result<(), Status> {
        self.memory.kept += bytes;
        self.memory.copied = self.memory.copied.max(copied);
        let most = self.bounds.bytes(self.length);
        if self.memory.kept <= most {
            return Ok(());
        }
        let message = format!(
            "the request has so many elements that they take more than {most} bytes of memory: \
             send them in several calls"
        );
        Err(Reason::LimitReached.status(message, &[]))
    }
}

fn unreadable(problem: &str) -> Status {
    let text = format!("the request cannot be decoded: {problem}");
    Reason::RequestUnreadable.status(text, &[])
}

impl Memory {
    fn peak(self) -> usize {
        self.kept + self.copied
    }
}
