//! Builds requests from bytes by protobuf descriptors, and sends them.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use crate::entropy::Entropy;

/// Limit on the nesting of messages.
const DEPTH: usize = 5;
/// Limit on the length of lists.
const LENGTH: usize = 4;

/// Names that exist in the cluster under test, and some that exist nowhere.
#[derive(Debug, Default)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl Names {
    fn pick(&self, entropy: &mut Entropy<'_>) -> String {
        match entropy.byte() {
            0..200 => {
                let at = entropy.below(self.0.len());
                self.0.get(at).cloned().unwrap_or_default()
            }
            200..220 => "x".repeat(entropy.below(2_000)),
            220.. => String::from_utf8_lossy(entropy.bytes(40)).into_owned(),
        }
    }
}

/// Builds a message of a type with values chosen by the bytes.
pub(crate) fn message(
    descriptor: &MessageDescriptor,
    names: &Names,
    entropy: &mut Entropy<'_>,
) -> DynamicMessage {
    filled(descriptor, names, entropy, DEPTH)
}

fn filled(
    descriptor: &MessageDescriptor,
    names: &Names,
    entropy: &mut Entropy<'_>,
    depth: usize,
) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        // Most fields are set, since a request without any is refused at once.
        if entropy.byte() % 8 == 7 || (depth == 0 && matches!(field.kind(), Kind::Message(_))) {
            continue;
        }
        let value = if field.is_list() {
            let length = entropy.below(LENGTH + 1);
            Value::List((0..length).map(|_| one(&field, names, entropy, depth)).collect())
        } else if field.is_map() {
            map(&field, names, entropy, depth)
        } else {
            one(&field, names, entropy, depth)
        };
        message.set_field(&field, value);
    }
    message
}

fn map(field: &FieldDescriptor, names: &Names, entropy: &mut Entropy<'_>, depth: usize) -> Value {
    let Kind::Message(entry) = field.kind() else { return Value::Map(HashMap::new()) };
    let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
    let entries = (0..entropy.below(LENGTH + 1)).filter_map(|_| {
        let key: Option<MapKey> = one(&key, names, entropy, depth).into_map_key();
        Some((key?, one(&value, names, entropy, depth)))
    });
    Value::Map(entries.collect())
}

fn one(field: &FieldDescriptor, names: &Names, entropy: &mut Entropy<'_>, depth: usize) -> Value {
    match field.kind() {
        Kind::Message(inner) => {
            Value::Message(filled(&inner, names, entropy, depth.saturating_sub(1)))
        }
        Kind::String => Value::String(names.pick(entropy)),
        Kind::Bytes => Value::Bytes(entropy.bytes(300).to_vec().into()),
        Kind::Bool => Value::Bool(entropy.byte() % 2 == 1),
        Kind::Enum(kind) => {
            let known: Vec<i32> = kind.values().map(|value| value.number()).collect();
            let unknown = entropy.byte() % 16 == 15;
            let number = if unknown { Some(99) } else { entropy.pick(&known) };
            Value::EnumNumber(number.unwrap_or_default())
        }
        Kind::Uint32 | Kind::Fixed32 => Value::U32(narrow(entropy.number())),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(entropy.number()),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            Value::I32(narrow(entropy.number()).cast_signed())
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(entropy.number().cast_signed()),
        Kind::Float => Value::F32(f32::from_bits(narrow(entropy.number()))),
        Kind::Double => Value::F64(f64::from_bits(entropy.number())),
    }
}

/// Truncates to the lower 32 bits.
fn narrow(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
