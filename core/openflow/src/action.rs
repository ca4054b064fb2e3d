//! Actions on packets, and the instructions of flows that carry them.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.2.3 and §7.2.4.

use crate::fields::Field;
use crate::port::CONTROLLER_PORT;
use crate::wire::{DecodeError, Put, Reader, padding};

const OUTPUT: u16 = 0;
const GROUP: u16 = 22;
const SET_FIELD: u16 = 25;
const WRITE_ACTIONS: u16 = 3;
const APPLY_ACTIONS: u16 = 4;
/// Bytes of a packet that go to the controllers: all, and the switch keeps none in a buffer.
const WHOLE_PACKET: u16 = 0xffff;

/// Something that is done to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends the packet out by a port; never by the one it came in by.
    Output(u32),
    /// Hands the whole packet to the controllers.
    Controller,
    /// Processes the packet by a group.
    Group(u32),
    /// Sets a field of the packet; the field has no mask.
    SetField(Field),
    /// Action that is not read.
    Other {
        /// Type of the action.
        kind: u16,
        /// Content after type and length; with them a multiple of 8 bytes.
        content: Vec<u8>,
    },
}

impl Action {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.sized(2, |out| match self {
            Self::Output(port) => {
                out.u16(OUTPUT);
                out.u16(0); // length
                out.u32(*port);
                out.zeros(8); // bytes for the controller, padding
            }
            Self::Controller => {
                out.u16(OUTPUT);
                out.u16(0); // length
                out.u32(CONTROLLER_PORT);
                out.u16(WHOLE_PACKET);
                out.zeros(6);
            }
            Self::Group(group) => {
                out.u16(GROUP);
                out.u16(0); // length
                out.u32(*group);
            }
            Self::SetField(field) => {
                out.u16(SET_FIELD);
                out.u16(0); // length, which includes the padding
                field.write(out);
                out.zeros(padding(out.len() - start));
            }
            Self::Other { kind, content } => {
                out.u16(*kind);
                out.u16(0); // length
                out.bytes(content);
            }
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, mut content) = tagged(reader, "action")?;
        match kind {
            OUTPUT => {
                let (port, most) = (content.u32()?, content.u16()?);
                content.skip(6)?;
                let is_whole = (port, most) == (CONTROLLER_PORT, WHOLE_PACKET);
                Ok(if is_whole { Self::Controller } else { Self::Output(port) })
            }
            GROUP => Ok(Self::Group(content.u32()?)),
            _ => {
                let content = content.rest().to_vec();
                Ok(set_field(kind, &content).unwrap_or(Self::Other { kind, content }))
            }
        }
    }
}

/// Reads an action that sets a field; `None` if it is another one, or not as it is written here.
fn set_field(kind: u16, content: &[u8]) -> Option<Action> {
    if kind != SET_FIELD {
        return None;
    }
    let action = Action::SetField(Field::read(&mut Reader::new(content, "action")).ok()?);
    let mut again = Vec::new();
    action.write(&mut again);
    (again.get(4..) == Some(content)).then_some(action)
}

/// Something that a flow does with the packets that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Does the actions at once, in their order.
    Apply(Vec<Action>),
    /// Adds the actions to those that are done when the packet leaves the tables.
    Write(Vec<Action>),
    /// Instruction that is not read.
    Other {
        /// Type of the instruction.
        kind: u16,
        /// Content after type and length; with them a multiple of 8 bytes.
        content: Vec<u8>,
    },
}

impl Instruction {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (kind, actions) = match self {
            Self::Apply(actions) => (APPLY_ACTIONS, actions),
            Self::Write(actions) => (WRITE_ACTIONS, actions),
            Self::Other { kind, content } => {
                return out.sized(2, |out| {
                    out.u16(*kind);
                    out.u16(0); // length
                    out.bytes(content);
                });
            }
        };
        out.sized(2, |out| {
            out.u16(kind);
            out.u16(0); // length
            out.zeros(4);
            actions.iter().for_each(|action| action.write(out));
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, mut content) = tagged(reader, "instruction")?;
        if kind != APPLY_ACTIONS && kind != WRITE_ACTIONS {
            return Ok(Self::Other { kind, content: content.rest().to_vec() });
        }
        content.skip(4)?;
        let actions = content.all(Action::read)?;
        Ok(if kind == APPLY_ACTIONS { Self::Apply(actions) } else { Self::Write(actions) })
    }
}

/// Reads a type and a length, which spans both and is a multiple of 8, and the content.
fn tagged<'a>(
    reader: &mut Reader<'a>,
    what: &'static str,
) -> Result<(u16, Reader<'a>), DecodeError> {
    let kind = reader.u16()?;
    let length = usize::from(reader.u16()?);
    match length.checked_sub(4) {
        Some(content) if length.is_multiple_of(8) => Ok((kind, reader.part(content, what)?)),
        Some(_) | None => Err(DecodeError::Length { what, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_of_length_0_is_refused_and_does_not_loop() {
        let read = Reader::new(&[0, 0, 0, 0, 0, 0, 0, 0], "actions").all(Action::read);
        assert_eq!(read, Err(DecodeError::Length { what: "action", length: 0 }));
    }

    /// The bytes of `set_field:02:fa:b0:00:01:02->eth_src`, as Open vSwitch sends them.
    #[test]
    fn a_field_that_is_set_is_padded_within_the_length() {
        let address = [2, 0xfa, 0xb0, 0, 1, 2];
        let action = Action::SetField(Field::EthSrc { address, mask: None });
        let golden = [0, 25, 0, 16, 0x80, 0, 8, 6, 2, 0xfa, 0xb0, 0, 1, 2, 0, 0];
        let mut bytes = Vec::new();
        action.write(&mut bytes);
        assert_eq!(bytes, golden);
        assert_eq!(Action::read(&mut Reader::new(&bytes, "action")), Ok(action));
        bytes[15] = 1; // no padding: kept as it is
        let kept = Action::read(&mut Reader::new(&bytes, "action")).unwrap();
        assert!(matches!(&kept, Action::Other { kind: 25, .. }), "{kept:?}");
    }

    /// The bytes of `CONTROLLER:65535`, as Open vSwitch sends them.
    #[test]
    fn a_packet_goes_to_the_controllers_as_a_whole() {
        let mut bytes = Vec::new();
        Action::Controller.write(&mut bytes);
        let golden = [0, 0, 0, 16, 0xff, 0xff, 0xff, 0xfd, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes, golden);
        assert_eq!(Action::read(&mut Reader::new(&bytes, "action")), Ok(Action::Controller));
        bytes[9] = 0; // a part of it only
        let part = Action::read(&mut Reader::new(&bytes, "action"));
        assert_eq!(part, Ok(Action::Output(CONTROLLER_PORT)));
    }

    #[test]
    fn an_unknown_action_is_kept() {
        let bytes = [0, 18, 0, 8, 1, 2, 3, 4]; // pop_vlan's neighbour
        let read = Action::read(&mut Reader::new(&bytes, "action")).unwrap();
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(again, bytes);
    }
}
