//! Actions on packets, and the instructions of flows that carry them.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.2.3 and §7.2.4.

use crate::wire::{DecodeError, Put, Reader};

const OUTPUT: u16 = 0;
const GROUP: u16 = 22;
const WRITE_ACTIONS: u16 = 3;
const APPLY_ACTIONS: u16 = 4;

/// Something that is done to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends the packet out by a port; never by the one it came in by.
    Output(u32),
    /// Processes the packet by a group.
    Group(u32),
    /// Another action.
    Other {
        /// Type of the action.
        kind: u16,
        /// Content after type and length; with them a multiple of 8 bytes.
        content: Vec<u8>,
    },
}

impl Action {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.sized(2, |out| match self {
            Self::Output(port) => {
                out.u16(OUTPUT);
                out.u16(0); // length
                out.u32(*port);
                out.zeros(8); // bytes for the controller, padding
            }
            Self::Group(group) => {
                out.u16(GROUP);
                out.u16(0); // length
                out.u32(*group);
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
                let port = content.u32()?;
                content.skip(8)?;
                Ok(Self::Output(port))
            }
            GROUP => Ok(Self::Group(content.u32()?)),
            _ => Ok(Self::Other { kind, content: content.rest().to_vec() }),
        }
    }
}

/// Something that a flow does with the packets that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Does the actions at once, in their order.
    Apply(Vec<Action>),
    /// Adds the actions to those that are done when the packet leaves the tables.
    Write(Vec<Action>),
    /// Another instruction.
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

    #[test]
    fn an_unknown_action_is_kept() {
        let bytes = [0, 18, 0, 8, 1, 2, 3, 4]; // pop_vlan's neighbour
        let read = Action::read(&mut Reader::new(&bytes, "action")).unwrap();
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(again, bytes);
    }
}
