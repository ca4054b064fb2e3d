//! Datagrams by which hosts say which endpoints their interfaces are.
//!
//! A switch sees a port and no name; the operating agent of a host knows the name and not the port.
//! So the agent sends a datagram by the interface, and the first switch hands it to its controller
//! with the port that it came in by. It goes to an address of the local network, which nobody has
//! joined and no router forwards.
//!
//! Source: RFC 791 (IPv4), RFC 768 (UDP); RFC 4727 (the address).

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::fields::IPV4;
use crate::wire::{DecodeError, Reader};

/// Protocol number of UDP.
const UDP: u8 = 17;
/// Begin of every announcement, with the number of its format.
const MAGIC: [u8; 8] = *b"FCendpt1";
/// Most bytes of a name, of 256 characters.
const MOST_BYTES: usize = 4 * 256;

/// Statement of a host: the endpoint that one of its interfaces is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Name of the endpoint, as the settings of the host's operating agent have it.
    pub endpoint: String,
}

impl Announcement {
    /// Address that announcements are sent to: one for experiments, of the local network.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 254);
    /// UDP port that announcements are sent to.
    pub const PORT: u16 = 7406;
    /// Time between two announcements of an interface.
    pub const INTERVAL: Duration = Duration::from_secs(2);

    /// Encodes the content of the datagram.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], self.endpoint.as_bytes()].concat()
    }

    /// Decodes an Ethernet frame: the Ethernet address of the interface, and its announcement.
    /// `None` if the frame is none, or the name is none that an endpoint may have.
    #[must_use]
    pub fn decode(frame: &[u8]) -> Option<([u8; 6], Self)> {
        let (address, content) = datagram(frame).ok()??;
        let name = str::from_utf8(content.strip_prefix(&MAGIC)?).ok()?;
        let is_name = !name.trim().is_empty()
            && name.len() <= MOST_BYTES
            && !name.chars().any(char::is_control);
        is_name.then(|| (address, Self { endpoint: name.to_owned() }))
    }
}

/// Source address and content.
type Datagram<'a> = ([u8; 6], &'a [u8]);

/// Source address and content of a frame with an announcement's datagram; `None` for other frames.
fn datagram(frame: &[u8]) -> Result<Option<Datagram<'_>>, DecodeError> {
    let mut reader = Reader::new(frame, "announcement");
    reader.skip(6)?;
    let (source, kind) = (reader.address()?, reader.u16()?);
    let head = reader.u8()?;
    let (version, options) = (head >> 4, usize::from(head & 0xf).checked_sub(5));
    let (IPV4, 4, Some(options)) = (kind, version, options) else { return Ok(None) };
    reader.skip(8)?;
    let protocol = reader.u8()?;
    reader.skip(2 + 4)?; // checksum, source
    let destination = Ipv4Addr::from(reader.u32()?);
    reader.skip(4 * options + 2)?; // source port
    let port = reader.u16()?;
    let length = usize::from(reader.u16()?).checked_sub(8);
    reader.skip(2)?; // checksum
    let is_ours = (protocol, destination, port) == (UDP, Announcement::ADDRESS, Announcement::PORT);
    match length.filter(|_| is_ours) {
        // A short frame is padded.
        Some(length) => Ok(Some((source, reader.take(length)?))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 9];

    /// The frame that Linux makes of a datagram.
    fn frame(content: &[u8]) -> Vec<u8> {
        let length = |more: usize| u16::try_from(content.len() + more).unwrap().to_be_bytes();
        let mut frame = [[1, 0, 0x5e, 0, 0, 0xfe], ADDRESS].concat();
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(length(28));
        frame.extend([0, 0, 0x40, 0, 1, 17, 0, 0, 10, 0, 0, 7, 224, 0, 0, 254]);
        frame.extend([0xab, 0xcd, 28, 238]);
        frame.extend(length(8));
        frame.extend([0, 0]);
        frame.extend(content);
        frame
    }

    fn announced(name: &str) -> Announcement {
        Announcement { endpoint: name.to_owned() }
    }

    #[test]
    fn an_announcement_is_read_from_the_frame_that_carries_it() {
        let one = announced("node001 HCA-1/P2");
        let mut bytes = frame(&one.encode());
        assert_eq!(Announcement::decode(&bytes), Some((ADDRESS, one.clone())));
        bytes.extend([0; 30]);
        assert_eq!(Announcement::decode(&bytes), Some((ADDRESS, one)), "padded on the way");
    }

    #[test]
    fn other_frames_and_impossible_names_are_none() {
        let good = frame(&announced("h0").encode());
        // Type, version, protocol, destination, port, length, format.
        for at in [12, 14, 23, 33, 37, 39, 42] {
            let mut other = good.clone();
            other[at] ^= 0x40;
            assert_eq!(Announcement::decode(&other), None, "byte {at}");
        }
        for end in 0..good.len() {
            assert_eq!(Announcement::decode(&good[..end]), None, "{end} bytes");
        }
        for name in ["", " ", "a\nb", &"x".repeat(MOST_BYTES + 1)] {
            assert_eq!(Announcement::decode(&frame(&announced(name).encode())), None);
        }
        let broken = [&MAGIC[..], &[0xff]].concat();
        assert_eq!(Announcement::decode(&frame(&broken)), None, "not UTF-8");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_announcement_or_none(bytes: Vec<u8>) {
            let whole = [&frame(&[])[..14], &bytes[..]].concat();
            // Either is allowed, a panic is not.
            let _ = Announcement::decode(&whole);
        }
    }
}
