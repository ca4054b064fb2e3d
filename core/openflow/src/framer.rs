//! Cuts a byte stream into messages.

use crate::message::HEADER;
use crate::wire::DecodeError;

/// Most bytes of a message: its length field has 16 bits.
pub const MAX_MESSAGE: usize = 0xffff;

/// Collects bytes of a connection until a message is complete.
///
/// Call [`push`](Self::push) with what was received, then [`next_message`](Self::next_message)
/// until it returns `None`. Keeps at most one incomplete message and what was pushed last.
#[derive(Debug, Default)]
pub struct Framer {
    bytes: Vec<u8>,
    /// Bytes at the front that were given out already.
    used: usize,
}

impl Framer {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.used);
        self.used = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next complete message; `None` until more bytes come.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Length`] if a length field is below the size of a header: the rest of the
    /// stream cannot be read.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, DecodeError> {
        let waiting = &self.bytes[self.used..];
        let Some(field) = waiting.get(2..4) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([field[0], field[1]]));
        if length < HEADER {
            return Err(DecodeError::Length { what: "message", length });
        }
        if waiting.len() < length {
            return Ok(None);
        }
        let start = self.used;
        self.used += length;
        Ok(Some(&self.bytes[start..self.used]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_below_the_header_ends_the_stream() {
        let mut framer = Framer::default();
        framer.push(&[4, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(framer.next_message(), Err(DecodeError::Length { what: "message", length: 7 }));
    }

    proptest! {
        #[test]
        fn messages_come_out_whole_however_the_stream_is_cut(
            sizes in proptest::collection::vec(8u16..300, 1..20),
            cut in 1usize..100,
        ) {
            let mut stream = Vec::new();
            let mut messages = Vec::new();
            for (at, size) in (0u8..).zip(&sizes) {
                let mut message = vec![at; usize::from(*size)];
                message[2..4].copy_from_slice(&size.to_be_bytes());
                stream.extend_from_slice(&message);
                messages.push(message);
            }
            let (mut framer, mut found) = (Framer::default(), Vec::new());
            for piece in stream.chunks(cut) {
                framer.push(piece);
                while let Some(message) = framer.next_message().unwrap() {
                    found.push(message.to_vec());
                }
            }
            prop_assert_eq!(found, messages);
        }
    }
}
