//! A TCP connection between the processes of two neighbours: first a greeting that names the edge
//! and shows the secrets of both, then frames, each with its length before it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use fabricast_groups::{Gn, Pn};
use fabricast_messages::Body;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::edge::Token;

/// First bytes of a greeting.
const MARK: [u8; 8] = *b"\x89FCedge1";
/// Longest frame, in bytes; that of links between agents.
const MAX_FRAME: usize = 64 << 20;
/// Bytes that may wait for a neighbour that does not read.
const MAX_PENDING: usize = 2 * MAX_FRAME;
/// Time for connecting and greeting.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection over which nothing gets through is given up after this.
const SILENCE: Duration = Duration::from_secs(5);

/// The first message of the process that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) gn: Gn,
    pub(super) from: Pn,
    pub(super) to: Pn,
    /// Number of the connection as the sender counts; the answer is the number that both use.
    pub(super) number: u64,
    /// Secret of the sender for the receiver.
    pub(super) own: Token,
    /// Secret of the receiver for the sender.
    pub(super) theirs: Token,
}

impl Greeting {
    const BYTES: usize = MARK.len() + 8 + 4 + 4 + 8 + 2 * Token::BYTES;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.extend(self.gn.0.to_le_bytes());
        bytes.extend(self.from.0.to_le_bytes());
        bytes.extend(self.to.0.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.own.0);
        bytes.extend(self.theirs.0);
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&MARK)?;
        let greeting = Self {
            gn: Gn(u64::from_le_bytes(take(&mut rest)?)),
            from: Pn(u32::from_le_bytes(take(&mut rest)?)),
            to: Pn(u32::from_le_bytes(take(&mut rest)?)),
            number: u64::from_le_bytes(take(&mut rest)?),
            own: Token(take(&mut rest)?),
            theirs: Token(take(&mut rest)?),
        };
        Some(greeting)
    }

    /// Connects and greets; returns the number of the connection.
    pub(super) async fn send(&self, address: &str) -> io::Result<(TcpStream, u64)> {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&self.encode()).await?;
        let number = stream.read_u64_le().await?;
        Ok((stream, number))
    }

    /// Reads the greeting of a process that has connected; `None` if it is something else.
    pub(super) async fn receive(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut bytes = [0; Self::BYTES];
        stream.read_exact(&mut bytes).await?;
        Ok(Self::decode(&bytes))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

/// Appends a frame as it is sent.
pub(super) fn append_frame(bytes: &mut Vec<u8>, body: &Body) {
    let body = body.encode();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX); // the peer refuses such a one
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
}

/// Removes the whole frames from the beginning of `bytes`.
fn take_frames(bytes: &mut Vec<u8>) -> io::Result<Vec<Body>> {
    let mut frames = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
        }
        let Some((body, later)) = after.split_at_checked(length) else { break };
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        frames.push(Body::decode(body).map_err(invalid)?);
        rest = later;
    }
    let used = bytes.len() - rest.len();
    bytes.drain(..used);
    Ok(frames)
}

/// A connection that has been greeted.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    pending: Mutex<VecDeque<u8>>,
    has_pending: Notify,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let second = Duration::from_secs(1);
        let keepalive = TcpKeepalive::new().with_time(second).with_interval(second);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        Ok(Self { stream, pending: Mutex::default(), has_pending: Notify::new() })
    }

    /// Sends bytes, or keeps them until there is room.
    ///
    /// # Errors
    ///
    /// The connection is broken, or too much waits already.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut pending = self.pending.lock();
        let mut rest = bytes;
        while pending.is_empty() && !rest.is_empty() {
            match self.stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if pending.len() + rest.len() > MAX_PENDING {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if !rest.is_empty() {
            pending.extend(rest);
            self.has_pending.notify_one();
        }
        Ok(())
    }

    /// Serves the connection until it breaks.
    ///
    /// - `take`: gets the frames that arrive; returns false to end it.
    pub(super) async fn serve(&self, take: impl FnMut(Vec<Body>) -> bool) -> io::Result<()> {
        tokio::select! {
            ended = self.receive(take) => ended,
            ended = self.send_pending() => ended,
        }
    }

    /// Lets both ends see that the connection is not used any more.
    pub(super) fn close(&self) {
        // It may be broken already.
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Both);
    }

    async fn receive(&self, mut take: impl FnMut(Vec<Body>) -> bool) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            self.stream.readable().await?;
            bytes.reserve(64 << 10);
            match self.stream.try_read_buf(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let frames = take_frames(&mut bytes)?;
            if !frames.is_empty() && !take(frames) {
                return Ok(());
            }
        }
    }

    async fn send_pending(&self) -> io::Result<()> {
        loop {
            self.has_pending.notified().await;
            loop {
                self.stream.writable().await?;
                let mut pending = self.pending.lock();
                match self.stream.try_write(pending.as_slices().0) {
                    Ok(written) => _ = pending.drain(..written),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error),
                }
                if pending.is_empty() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_read_as_they_were_written() {
        let (own, theirs) = (Token([1; 16]), Token([2; 16]));
        let greeting = Greeting { gn: Gn(7), from: Pn(1), to: Pn(3), number: 4, own, theirs };
        let mut bytes: [u8; Greeting::BYTES] = greeting.encode().try_into().unwrap();
        assert_eq!(Greeting::decode(&bytes), Some(greeting));
        bytes[0] = b'G';
        assert_eq!(Greeting::decode(&bytes), None);
    }

    #[test]
    fn frames_are_taken_whole_and_in_order() {
        let queries: Vec<Body> = (0..3).map(|number| Body::Query { number }).collect();
        let mut bytes = Vec::new();
        queries.iter().for_each(|body| append_frame(&mut bytes, body));
        let rest = bytes.split_off(bytes.len() - 1);
        assert_eq!(take_frames(&mut bytes).unwrap(), queries[..2]);
        bytes.extend(rest);
        assert_eq!(take_frames(&mut bytes).unwrap(), queries[2..]);
        assert!(bytes.is_empty());
    }

    #[test]
    fn garbage_and_frames_that_are_too_long_break_the_connection() {
        let mut unknown = vec![1, 0, 0, 0, 200];
        assert!(take_frames(&mut unknown).is_err());
        let mut long = u32::MAX.to_le_bytes().to_vec();
        assert!(take_frames(&mut long).is_err());
    }
}
