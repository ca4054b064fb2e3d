//! LLDP frames that a controller has switches send, to find the cables between them.
//!
//! A frame names the port that it was sent by, in the two TLVs that every frame has and once more
//! in a TLV of ours. That one ends with a code which only agents of the fabric can make: a frame
//! without it, of another program or of a host, names nothing.
//!
//! Source: IEEE Std 802.1AB-2016, clauses 7 (destination) and 8 (TLVs).

use crate::action::Action;
use crate::message::{Body, PacketOut};
use crate::neighbors::SwitchPort;
use crate::port::CONTROLLER_PORT;
use crate::wire::{DecodeError, Put, Reader};

/// Ethernet type of LLDP.
pub(crate) const LLDP: u16 = 0x88cc;
/// Bytes of the code at the end of a frame.
pub const CODE_BYTES: usize = 32;

/// Nearest bridge: no switch passes such a frame on by itself.
const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
/// Locally administered, and none of the marks of colors; the last bytes are those of the switch.
const SOURCE: [u8; 3] = [0x02, 0xfa, 0xb1];
/// Types of TLVs.
const END: u16 = 0;
const CHASSIS_ID: u16 = 1;
const PORT_ID: u16 = 2;
const TIME_TO_LIVE: u16 = 3;
const ORGANIZATION: u16 = 127;
/// Subtype of an id that is assigned locally, of a chassis and of a port.
const LOCAL: u8 = 7;
/// Our TLV: a locally administered organization, and the only subtype.
const OURS: [u8; 4] = [0x02, 0xfa, 0xb0, 1];
/// Bits of the head of a TLV for the length of its content.
const LENGTH_BITS: u32 = 9;

/// A frame out of a port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LldpFrame {
    /// Port that it was sent by.
    pub port: SwitchPort,
    /// Seconds for which its receivers may believe it.
    pub seconds: u16,
    /// Code over the port that tells frames of the fabric's agents from those of others.
    pub code: [u8; CODE_BYTES],
}

impl LldpFrame {
    /// Encodes the whole Ethernet frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let SwitchPort { datapath, number } = self.port;
        let mut out = Vec::with_capacity(128);
        out.bytes(&DESTINATION);
        out.bytes(&SOURCE);
        out.bytes(&datapath.to_be_bytes()[5..]);
        out.u16(LLDP);
        let local_id = |text: String| [&[LOCAL][..], text.as_bytes()].concat();
        tlv(&mut out, CHASSIS_ID, &local_id(format!("{datapath:016x}")));
        tlv(&mut out, PORT_ID, &local_id(number.to_string()));
        tlv(&mut out, TIME_TO_LIVE, &self.seconds.to_be_bytes());
        let mut ours = Vec::with_capacity(64);
        ours.bytes(&OURS);
        ours.u64(datapath);
        ours.u8(number);
        ours.bytes(&self.code);
        tlv(&mut out, ORGANIZATION, &ours);
        tlv(&mut out, END, &[]);
        out
    }

    /// Message that has the switch of the port send the frame.
    #[must_use]
    pub fn sending(&self) -> Body {
        let actions = vec![Action::Output(self.port.number.into())];
        Body::PacketOut(PacketOut { in_port: CONTROLLER_PORT, actions, data: self.encode() })
    }

    /// Decodes an Ethernet frame; `None` if it is no frame of ours, whatever else it is. The code
    /// is not checked.
    #[must_use]
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(frame, "LLDP frame");
        reader.skip(DESTINATION.len() + 6).ok()?;
        if reader.u16().ok()? != LLDP {
            return None;
        }
        let (mut seconds, mut place) = (None, 0);
        while let Some((kind, content)) = next_tlv(&mut reader).ok()? {
            place += 1;
            match kind {
                // Every frame begins with these three.
                CHASSIS_ID | PORT_ID | TIME_TO_LIVE if kind != place => return None,
                TIME_TO_LIVE => seconds = content.try_into().ok().map(u16::from_be_bytes),
                ORGANIZATION => {
                    if let Some((port, code)) = read_ours(content) {
                        return Some(Self { port, seconds: seconds?, code });
                    }
                }
                END => return None,
                _ => {}
            }
        }
        None
    }
}

/// Appends a TLV; its content is at most 511 bytes.
fn tlv(out: &mut Vec<u8>, kind: u16, content: &[u8]) {
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    out.u16(kind << LENGTH_BITS | length);
    out.bytes(content);
}

/// Takes the next TLV: its type and its content. `None` at the end of the frame.
fn next_tlv<'a>(reader: &mut Reader<'a>) -> Result<Option<(u16, &'a [u8])>, DecodeError> {
    if reader.is_empty() {
        return Ok(None);
    }
    let head = reader.u16()?;
    let length = head & ((1 << LENGTH_BITS) - 1);
    Ok(Some((head >> LENGTH_BITS, reader.take(usize::from(length))?)))
}

/// Reads the content of our TLV; `None` if it is one of another organization, or of another form.
fn read_ours(content: &[u8]) -> Option<(SwitchPort, [u8; CODE_BYTES])> {
    let mut reader = Reader::new(content.strip_prefix(&OURS)?, "LLDP port");
    let (datapath, number) = (reader.u64().ok()?, reader.u8().ok()?);
    let code = reader.rest().try_into().ok()?;
    (number > 0).then_some((SwitchPort { datapath, number }, code))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame() -> LldpFrame {
        let port = SwitchPort { datapath: 0x02fa_b000_0000_000b, number: 3 };
        LldpFrame { port, seconds: 6, code: [0xcc; CODE_BYTES] }
    }

    /// Place of our TLV in [`frame`].
    const OURS_AT: usize = 14 + 2 + 17 + 2 + 2 + 2 + 2;

    /// Clause 8: chassis id, port id and time to live come first, in this order, and an end last.
    #[test]
    fn a_frame_is_one_that_any_receiver_of_lldp_reads() {
        let bytes = frame().encode();
        let head = b"\x01\x80\xc2\0\0\x0e\x02\xfa\xb1\0\0\x0b\x88\xcc";
        assert_eq!(bytes[..14], *head);
        assert_eq!(bytes[14..33], *b"\x02\x11\x0702fab0000000000b");
        assert_eq!(bytes[33..37], *b"\x04\x02\x073");
        assert_eq!(bytes[37..41], [6, 2, 0, 6]);
        assert_eq!(bytes[OURS_AT..OURS_AT + 6], [0xfe, 45, 0x02, 0xfa, 0xb0, 1]);
        assert_eq!(bytes[OURS_AT + 6..OURS_AT + 15], [0x02, 0xfa, 0xb0, 0, 0, 0, 0, 0x0b, 3]);
        assert_eq!(bytes[OURS_AT + 15..], [&[0xcc; CODE_BYTES][..], &[0, 0]].concat());
        assert!(bytes.len() >= 60, "shorter ones are padded on the way");
        assert_eq!(LldpFrame::decode(&bytes), Some(frame()));
        let padded = [&bytes[..], &[0; 9]].concat();
        assert_eq!(LldpFrame::decode(&padded), Some(frame()));
    }

    #[test]
    fn frames_of_others_name_nothing() {
        let bytes = frame().encode();
        let altered = |at: usize, byte: u8| {
            let mut other = bytes.clone();
            other[at] = byte;
            LldpFrame::decode(&other)
        };
        assert_eq!(altered(13, 0xcd), None, "another type of frame");
        assert_eq!(altered(14, 4), None, "a port id comes before the chassis id");
        assert_eq!(altered(OURS_AT, 0), None, "the frame ends before our TLV");
        assert_eq!(altered(OURS_AT + 4, 0xb2), None, "another organization");
        assert_eq!(altered(OURS_AT + 5, 2), None, "another subtype");
        assert_eq!(altered(OURS_AT + 14, 0), None, "no switch has a port 0");
        for end in 0..bytes.len() - 2 {
            assert_eq!(LldpFrame::decode(&bytes[..end]), None, "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn a_frame_comes_back(
            datapath: u64,
            number in 1u8..,
            seconds: u16,
            code: [u8; CODE_BYTES],
        ) {
            let frame = LldpFrame { port: SwitchPort { datapath, number }, seconds, code };
            prop_assert_eq!(LldpFrame::decode(&frame.encode()), Some(frame));
        }

        #[test]
        fn any_bytes_are_a_frame_or_none(bytes: Vec<u8>) {
            let whole = [&frame().encode()[..14], &bytes[..]].concat();
            // Either is allowed, a panic is not.
            let _ = LldpFrame::decode(&whole);
        }
    }
}
