//! The longest message of a call that a part accepts.

use prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value,
};

/// First lines of the table.
pub(super) const TABLE_HEAD: &str = "\
# Joins beside every call

For readers who want to know how much one client can hold up another. Each row is a role that makes a call as
often as it can, from 16 tasks on 4 connections: half of them send the largest message that is accepted (its lists
are as long as fit), half a short one, which names objects that exist. Beside it a tenant joins and leaves groups
through an operating agent, one after the other; the times are those of the joins. This lasts two seconds, or until
there are 200 joins, but not more than ten seconds. A call that waits for a second is given up, and counts as
answered. The cluster has a process for each part, certificates, 96 nodes and 2 000 groups, all on one machine; the
caller's threads have the lowest priority there.

The role `process` has no certificate: it is a process at the socket of the operating agent that the joins go
through, attached four times, as members of one group of its tenant. Its short messages and contributions have
1 MiB, the longest that there may be, and it gives up a stream after the first message, to begin another. The last
column counts the decisions of the TIC's writer, which makes one after the other, that took more than 50 ms of
processor time, from the beginning of the calls until joins are quick again. The run fails if there is one, or if
a join was refused. Written by `cargo xtask fairness`.

| call | role | message, bytes | calls/s | refused/s | joins | p50, ms | p99, ms | decisions > 50 ms |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// Fields that tell the elements of a list apart.
const NAMES: [&str; 6] = ["request_id", "group", "job", "name", "process", "reporter"];
/// Levels of messages in messages that are filled.
const DEPTH: usize = 3;

/// A message of about so many bytes: what the base has, and as many more elements as fit in one of
/// its lists.
///
/// - `first`: number of the first element, which tells it apart from others.
pub(super) fn large(base: &DynamicMessage, bytes: usize, first: usize) -> Vec<u8> {
    let mut text = base.encode_to_vec();
    grow(base, bytes, first, &mut text);
    text
}

/// A message of about so many bytes with one element in its list, whose own list is as long as that
/// allows; `None` if it has none.
pub(super) fn deep(base: &DynamicMessage, bytes: usize, first: usize) -> Option<Vec<u8>> {
    let (field, message) = base.descriptor().fields().find_map(|field| match field.kind() {
        Kind::Message(message) if field.is_list() && !field.is_map() => Some((field, message)),
        _ => None,
    })?;
    let element = element(base, &field, &message);
    if !message.fields().any(|field| field.is_list() && element.has_field(&field)) {
        return None;
    }
    // The element of the base would be there, too.
    let mut alone = base.clone();
    alone.clear_field(&field);
    let mut text = alone.encode_to_vec();
    append(&field, &large(&element, bytes, first), &mut text);
    Some(text)
}

/// Appends to the encoding of a message; false if it has nothing that can be longer.
fn grow(base: &DynamicMessage, bytes: usize, first: usize, text: &mut Vec<u8>) -> bool {
    let rank = |field: &FieldDescriptor| {
        let is_message = matches!(field.kind(), Kind::Message(_));
        match (field.is_list(), is_message) {
            _ if field.is_map() => 5,
            (true, _) if base.has_field(field) => 0,
            (true, true) => 1,
            (true, false) => 2,
            (false, true) => 3,
            (false, false) => 4,
        }
    };
    let mut fields: Vec<FieldDescriptor> = base.descriptor().fields().collect();
    fields.sort_by_key(rank);
    fields.iter().any(|field| {
        let mut one = Vec::new();
        match field.kind() {
            _ if field.is_map() => return false,
            Kind::Message(message) if field.is_list() => {
                let mut element = Element::of(&element(base, field, &message));
                let mut number = first;
                while text.len() < bytes {
                    append(field, element.numbered(number), text);
                    number += 1;
                }
            }
            Kind::Message(message) => {
                let inner = match base.get_field(field).as_message() {
                    Some(inner) if base.has_field(field) => inner.clone(),
                    _ => filled(&message, DEPTH),
                };
                if !grow(&inner, bytes, first, &mut one) {
                    return false;
                }
                append(field, &one, text);
            }
            Kind::String if field.is_list() => {
                let mut number = first;
                while text.len() < bytes {
                    append(field, format!("x{number}").as_bytes(), text);
                    number += 1;
                }
            }
            Kind::String | Kind::Bytes => append(field, &vec![b'x'; bytes], text),
            _ if field.is_list() => append(field, &vec![1; bytes], text),
            _ => return false,
        }
        true
    })
}

/// Appends a field of some length.
fn append(field: &FieldDescriptor, content: &[u8], text: &mut Vec<u8>) {
    prost::encoding::encode_varint(u64::from(field.number()) << 3 | 2, text);
    prost::encoding::encode_varint(content.len() as u64, text);
    text.extend_from_slice(content);
}

/// The element of a list to be repeated: its first, or one with all fields.
fn element(
    base: &DynamicMessage,
    field: &FieldDescriptor,
    message: &MessageDescriptor,
) -> DynamicMessage {
    let list = base.get_field(field);
    let first = list.as_list().and_then(|list| list.first()).and_then(Value::as_message);
    first.cloned().unwrap_or_else(|| filled(message, DEPTH))
}

/// A message with a value in each field.
fn filled(message: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut made = DynamicMessage::new(message.clone());
    for field in message.fields() {
        let one = match field.kind() {
            Kind::Message(_) if depth == 0 || field.is_map() => continue,
            Kind::Message(inner) => Value::Message(filled(&inner, depth - 1)),
            Kind::String => Value::String("acme/x".to_owned()),
            Kind::Enum(_) => Value::EnumNumber(1),
            _ => continue,
        };
        made.set_field(&field, if field.is_list() { Value::List(vec![one]) } else { one });
    }
    made
}

/// An encoded element of a list, whose names end with a number.
struct Element {
    text: Vec<u8>,
    /// Places of the numbers.
    at: Vec<usize>,
}

/// End of a name before it has its number.
const NUMBER: &str = "-00000000";

impl Element {
    fn of(element: &DynamicMessage) -> Self {
        let mut named = element.clone();
        for field in element.descriptor().fields() {
            if NAMES.contains(&field.name())
                && let Some(text) = element.get_field(&field).as_str()
                && !field.is_list()
            {
                named.set_field(&field, Value::String(format!("{text}{NUMBER}")));
            }
        }
        let text = named.encode_to_vec();
        let windows = text.windows(NUMBER.len()).enumerate();
        let at = windows.filter(|(_, part)| *part == NUMBER.as_bytes()).map(|(at, _)| at);
        Self { at: at.collect(), text }
    }

    fn numbered(&mut self, number: usize) -> &[u8] {
        let number = format!("-{number:08}");
        for at in &self.at {
            self.text[*at..at + number.len()].copy_from_slice(number.as_bytes());
        }
        &self.text
    }
}
