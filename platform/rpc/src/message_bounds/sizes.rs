//! Sizes of messages in memory, computed from their descriptors.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};

/// Levels of messages in messages; decoders refuse more.
pub(super) const DEPTH: usize = 100;
/// Bytes of a `String`, a `Vec` or a map in memory.
const CONTAINER: usize = 24;
/// Bytes of a pointer, or of the tag beside a part that may be absent.
const WORD: usize = 8;

pub(super) static MESSAGES: LazyLock<Messages> = LazyLock::new(|| {
    let mut pool = DescriptorPool::new();
    for services in [
        fabricast_proto::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(services).expect("they were made together with the code");
    }
    Messages::new(&pool)
});

/// The messages of the services, health and reflection included.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) messages: Vec<MessageFields>,
    /// By path of a call.
    pub(super) requests: BTreeMap<String, RequestType>,
    /// Indexes by the full name of a message.
    pub(super) indexes: BTreeMap<String, usize>,
}

/// The request of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestType {
    /// The message, by its index.
    pub(super) message: usize,
    pub(super) is_stream: bool,
    /// The call has a stream of answers.
    pub(super) has_answer_stream: bool,
    pub(super) fields: Fields,
}

/// The fields of a request and of the messages in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// Lists, and others.
    Lists,
    /// Texts and numbers only.
    Texts,
    /// Bytes but no lists, or neither lists nor texts.
    Others,
}

/// The fields of one message that take more memory than the message itself, by number.
#[derive(Debug, Default)]
pub(super) struct MessageFields(pub(super) BTreeMap<u32, MessageField>);

#[derive(Clone, Copy, Debug)]
pub(super) struct MessageField {
    pub(super) content: Content,
    /// Bytes of one element in memory; 0 for a field that is no list, which is part of its message.
    pub(super) element: usize,
}

/// Contents of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// A message, by its index.
    Message(usize),
    /// Text or bytes.
    Text,
    /// Numbers of a list, of varying length on the wire.
    Varints,
    /// Numbers of a list, each with so many bytes on the wire.
    Fixed(usize),
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
            let kind = field.kind();
            let content = match &kind {
                Kind::Message(message) => Content::Message(numbers[message.full_name()]),
                Kind::String | Kind::Bytes => Content::Text,
                _ if !is_list => return None,
                Kind::Fixed32 | Kind::Sfixed32 | Kind::Float => Content::Fixed(4),
                Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => Content::Fixed(8),
                _ => Content::Varints,
            };
            let bytes = match &kind {
                Kind::Message(message) => size_of_message(message, 0),
                _ => size_of_value(&kind),
            };
            let element = if is_list { bytes } else { 0 };
            Some((field.number(), MessageField { content, element }))
        };
        let fields = |message: MessageDescriptor| {
            MessageFields(message.fields().filter_map(field).collect())
        };
        let calls = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let request = |method: MethodDescriptor| {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            let input = method.input();
            let request = RequestType {
                message: numbers[input.full_name()],
                is_stream: method.is_client_streaming(),
                has_answer_stream: method.is_server_streaming(),
                fields: Fields::of(&input),
            };
            (path, request)
        };
        Self {
            messages: pool.all_messages().map(fields).collect(),
            requests: calls.map(request).collect(),
            indexes: numbers,
        }
    }
}

impl Fields {
    fn of(message: &MessageDescriptor) -> Self {
        let has_lists = has_field(message, |field| field.is_list() || field.is_map(), 0);
        let has_texts = has_field(message, |field| matches!(field.kind(), Kind::String), 0);
        let has_bytes = has_field(message, |field| matches!(field.kind(), Kind::Bytes), 0);
        match (has_lists, has_texts, has_bytes) {
            (true, _, _) => Self::Lists,
            (false, true, false) => Self::Texts,
            (false, _, _) => Self::Others,
        }
    }
}

/// True if a message has such a field, or messages in it have.
fn has_field(
    message: &MessageDescriptor,
    is_one: fn(&FieldDescriptor) -> bool,
    depth: usize,
) -> bool {
    message.fields().any(|field| {
        let inner =
            |inner: &MessageDescriptor| depth < DEPTH && has_field(inner, is_one, depth + 1);
        is_one(&field) || field.kind().as_message().is_some_and(inner)
    })
}

/// Bytes of a message in memory, without what its lists and texts hold.
fn size_of_message(message: &MessageDescriptor, depth: usize) -> usize {
    let of_field = |field: &FieldDescriptor| {
        if field.is_list() || field.is_map() {
            return CONTAINER;
        }
        match field.kind() {
            Kind::Message(_) if depth >= DEPTH => WORD, // a message in itself is boxed
            Kind::Message(inner) => size_of_message(&inner, depth + 1) + WORD,
            kind if field.supports_presence() => size_of_value(&kind).max(WORD),
            kind => size_of_value(&kind),
        }
    };
    let alone = message.fields().filter(|field| field.containing_oneof().is_none());
    let alone: usize = alone.map(|field| of_field(&field)).sum();
    let choices = message
        .oneofs()
        .map(|choice| choice.fields().map(|field| of_field(&field)).max().unwrap_or(0) + WORD);
    (alone + choices.sum::<usize>()).next_multiple_of(WORD)
}

/// Bytes of a value in memory that is no message.
fn size_of_value(kind: &Kind) -> usize {
    match kind {
        Kind::String | Kind::Bytes => CONTAINER,
        Kind::Double | Kind::Int64 | Kind::Uint64 | Kind::Sint64 => WORD,
        Kind::Fixed64 | Kind::Sfixed64 => WORD,
        Kind::Bool => 1,
        _ => WORD / 2,
    }
}

/// Elements for which a list has room once so many were added, one after the other.
pub(super) fn capacity(count: usize, element: usize) -> usize {
    let least = match element {
        0 | 1 => 8,
        2..=1_024 => 4,
        _ => 1,
    };
    if count == 0 { 0 } else { count.next_power_of_two().max(least) }
}
