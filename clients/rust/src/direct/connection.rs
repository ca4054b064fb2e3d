//! A TCP connection between the processes of two neighbours: first a greeting, in which both prove
//! that they know the secrets of the edge without showing them, then frames, each with its length
//! before it.
//!
//! ```text
//! lower rank                                      higher rank
//!   group, ranks, number, nonce, proof ──────────►  does not answer without a valid proof
//!   ◄──────────────────────  number, nonce, proof
//!   proof ───────────────────────────────────────►  not a repetition of an earlier greeting
//! ```

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use fabricast_groups::{Gn, Pn};
use fabricast_messages::Body;
use parking_lot::Mutex;
use ring::hmac;
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
/// Bytes of a proof (HMAC-SHA-256).
const PROOF: usize = 32;

/// Both secrets of an edge.
#[derive(Clone, Debug)]
pub(super) struct EdgeKey(hmac::Key);

/// The three proofs of a greeting; none can be taken for another.
#[derive(Clone, Copy, Debug)]
enum Step {
    Greets,
    Answers,
    Confirms,
}

/// The first message of the process that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) gn: Gn,
    /// Rank of the sender, the lower one.
    pub(super) from: Pn,
    pub(super) to: Pn,
    /// Number of the connection as the sender counts; the answer is the number that both use.
    pub(super) number: u64,
    pub(super) nonce: Token,
}

/// A greeting as it has come, with a proof that is still to be checked.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) greeting: Greeting,
    proof: [u8; PROOF],
}

impl EdgeKey {
    /// - `lower`: secret of the process of lower rank for the other.
    pub(super) fn new(lower: &Token, higher: &Token) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &[lower.0, higher.0].concat()))
    }

    /// Proves knowledge of the key.
    ///
    /// - `said`: all bytes of the greeting before, without proofs.
    fn prove(&self, step: Step, said: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, &[step.name(), said].concat())
    }

    fn check(&self, step: Step, said: &[u8], proof: &[u8]) -> io::Result<()> {
        let checked = hmac::verify(&self.0, &[step.name(), said].concat(), proof);
        checked.map_err(|_| io::ErrorKind::PermissionDenied.into())
    }
}

impl Step {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Greets => b"greets",
            Self::Answers => b"answers",
            Self::Confirms => b"confirms",
        }
    }
}

impl Greeting {
    const BYTES: usize = MARK.len() + 8 + 4 + 4 + 8 + Token::BYTES;
    /// Bytes of the answer: number, nonce and proof.
    const ANSWER: usize = 8 + Token::BYTES + PROOF;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.extend(self.gn.0.to_le_bytes());
        bytes.extend(self.from.0.to_le_bytes());
        bytes.extend(self.to.0.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.nonce.0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&MARK)?;
        let greeting = Self {
            gn: Gn(u64::from_le_bytes(take(&mut rest)?)),
            from: Pn(u32::from_le_bytes(take(&mut rest)?)),
            to: Pn(u32::from_le_bytes(take(&mut rest)?)),
            number: u64::from_le_bytes(take(&mut rest)?),
            nonce: Token(take(&mut rest)?),
        };
        Some(greeting)
    }

    /// Connects and greets; returns the number of the connection.
    ///
    /// # Errors
    ///
    /// The address cannot be reached, or who listens there does not know the secrets.
    pub(super) async fn send(&self, key: &EdgeKey, address: &str) -> io::Result<(TcpStream, u64)> {
        let mut stream = TcpStream::connect(address).await?;
        let mut said = self.encode();
        stream.write_all(&[&said, key.prove(Step::Greets, &said).as_ref()].concat()).await?;
        let mut answer = [0; Self::ANSWER];
        stream.read_exact(&mut answer).await?;
        let (answer, proof) = answer.split_at(Self::ANSWER - PROOF);
        said.extend(answer);
        key.check(Step::Answers, &said, proof)?;
        stream.write_all(key.prove(Step::Confirms, &said).as_ref()).await?;
        let number = answer.first_chunk().copied().map_or(0, u64::from_le_bytes);
        Ok((stream, number))
    }

    /// Reads the greeting of a process that has connected; `None` if it is something else.
    pub(super) async fn receive(stream: &mut TcpStream) -> io::Result<Option<Greeted>> {
        let mut bytes = [0; Self::BYTES];
        stream.read_exact(&mut bytes).await?;
        let Some(greeting) = Self::decode(&bytes) else { return Ok(None) };
        let mut proof = [0; PROOF];
        stream.read_exact(&mut proof).await?;
        Ok(Some(Greeted { greeting, proof }))
    }
}

impl Greeted {
    /// Answers with the number of the connection.
    ///
    /// # Errors
    ///
    /// The connection is broken, or its other end does not know the secrets.
    pub(super) async fn answer(
        &self,
        key: &EdgeKey,
        number: u64,
        stream: &mut TcpStream,
    ) -> io::Result<()> {
        let mut said = self.greeting.encode();
        key.check(Step::Greets, &said, &self.proof)?;
        let mut answer = number.to_le_bytes().to_vec();
        answer.extend(Token::random()?.0);
        said.extend(&answer);
        answer.extend(key.prove(Step::Answers, &said).as_ref());
        stream.write_all(&answer).await?;
        let mut proof = [0; PROOF];
        stream.read_exact(&mut proof).await?;
        key.check(Step::Confirms, &said, &proof)
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
    pending: Mutex<Pending>,
    has_pending: Notify,
    has_written: Notify,
}

/// Bytes that a connection keeps until there is room.
#[derive(Debug, Default)]
struct Pending {
    bytes: VecDeque<u8>,
    /// Of all bytes, those that the system has.
    written: u64,
    is_over: bool,
}

impl Pending {
    fn add(&mut self, written: usize) {
        self.written += u64::try_from(written).unwrap_or(u64::MAX);
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let second = Duration::from_secs(1);
        let keepalive = TcpKeepalive::new().with_time(second).with_interval(second);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        let (pending, has_pending, has_written) = Default::default();
        Ok(Self { stream, pending, has_pending, has_written })
    }

    /// Sends bytes, or keeps them until there is room.
    ///
    /// # Errors
    ///
    /// The connection is broken, or too much waits already.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut pending = self.pending.lock();
        let mut rest = bytes;
        while pending.bytes.is_empty() && !rest.is_empty() {
            match self.stream.try_write(rest) {
                Ok(written) => {
                    rest = &rest[written..];
                    pending.add(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if pending.bytes.len() + rest.len() > MAX_PENDING {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if !rest.is_empty() {
            pending.bytes.extend(rest);
            self.has_pending.notify_one();
        }
        Ok(())
    }

    /// Waits until the system has all that is kept now, or the connection is over.
    pub(super) async fn wait_until_sent(&self) {
        let target = {
            let pending = self.pending.lock();
            pending.written + u64::try_from(pending.bytes.len()).unwrap_or(u64::MAX)
        };
        loop {
            let written = self.has_written.notified();
            let is_sent = {
                let pending = self.pending.lock();
                pending.is_over || pending.written >= target
            };
            if is_sent {
                return;
            }
            written.await;
        }
    }

    /// Serves the connection until it breaks.
    ///
    /// - `take`: gets the frames that arrive; returns false to end it.
    pub(super) async fn serve(&self, take: impl FnMut(Vec<Body>) -> bool) -> io::Result<()> {
        let served = tokio::select! {
            ended = self.receive(take) => ended,
            ended = self.send_pending() => ended,
        };
        self.pending.lock().is_over = true;
        self.has_written.notify_waiters();
        served
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
                match self.stream.try_write(pending.bytes.as_slices().0) {
                    Ok(written) => {
                        drop(pending.bytes.drain(..written));
                        pending.add(written);
                        self.has_written.notify_waiters();
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error),
                }
                if pending.bytes.is_empty() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const NUMBER: u64 = 9;

    fn greeting() -> Greeting {
        Greeting { gn: Gn(7), from: Pn(1), to: Pn(3), number: 4, nonce: Token([5; 16]) }
    }

    fn key(lower: u8, higher: u8) -> EdgeKey {
        EdgeKey::new(&Token([lower; 16]), &Token([higher; 16]))
    }

    /// Greets a process that knows one key with another; returns what both get.
    async fn greet(theirs: EdgeKey, own: EdgeKey) -> (io::Result<u64>, io::Result<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = async {
            let (mut stream, _) = listener.accept().await?;
            let greeted = Greeting::receive(&mut stream).await?.unwrap();
            assert_eq!(greeted.greeting, greeting());
            greeted.answer(&theirs, NUMBER, &mut stream).await
        };
        let greets = greeting();
        let (sent, answered) = tokio::join!(greets.send(&own, &address), answer);
        (sent.map(|(_, number)| number), answered)
    }

    #[tokio::test]
    async fn both_ends_must_know_both_secrets() {
        let (number, answered) = greet(key(1, 2), key(1, 2)).await;
        assert_eq!(number.unwrap(), NUMBER);
        answered.unwrap();
        for (theirs, own) in [((1, 2), (1, 3)), ((1, 2), (3, 2)), ((1, 2), (2, 1))] {
            let (number, answered) = greet(key(theirs.0, theirs.1), key(own.0, own.1)).await;
            assert_eq!(answered.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert!(number.is_err());
        }
    }

    #[tokio::test]
    async fn a_listener_without_the_secrets_is_not_believed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let repeats = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = [0; Greeting::BYTES + PROOF];
            stream.read_exact(&mut bytes).await.unwrap();
            stream.write_all(&bytes[bytes.len() - Greeting::ANSWER..]).await.unwrap();
            let confirmation = stream.read_u8().await;
            assert!(confirmation.is_err(), "it got a proof");
        };
        let (greets, key) = (greeting(), key(1, 2));
        let greeted = async { greets.send(&key, &address).await.map(|(_, number)| number) };
        let (sent, ()) = tokio::join!(greeted, repeats);
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[tokio::test]
    async fn a_greeting_that_was_overheard_is_of_no_use() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (key, said) = (key(1, 2), greeting().encode());
        let overheard = [said.as_slice(), key.prove(Step::Greets, &said).as_ref()].concat();
        let repeats = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&overheard).await.unwrap();
            let mut answer = [0; Greeting::ANSWER];
            stream.read_exact(&mut answer).await.unwrap();
            stream.write_all(&answer[Greeting::ANSWER - PROOF..]).await.unwrap();
        };
        let answers = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let greeted = Greeting::receive(&mut stream).await.unwrap().unwrap();
            greeted.answer(&key, NUMBER, &mut stream).await
        };
        let ((), answered) = tokio::join!(repeats, answers);
        assert_eq!(answered.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
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
