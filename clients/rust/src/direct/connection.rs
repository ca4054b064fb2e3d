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
//!
//! A length with the upper bit set is that of a key for the group's multicast connection, encrypted
//! with a key that follows from the greeting.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabricast_groups::{Gn, Pn};
use fabricast_messages::Body;
use parking_lot::Mutex;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::edge::Token;
use super::packet::GroupKey;

/// First bytes of a greeting.
const MARK: [u8; 8] = *b"\x89FCedge3";
/// Longest frame, in bytes; that of links between agents.
const MAX_FRAME: usize = 64 << 20;
/// Bytes that may wait for a neighbour that does not read.
const MAX_PENDING: usize = 2 * MAX_FRAME;
/// Time for connecting and greeting.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection over which nothing gets through is given up after this.
const SILENCE: Duration = Duration::from_secs(5);
/// Set in the length of what is no frame.
const KEY_FOLLOWS: u32 = 1 << 31;
/// Bytes of a key as it is sent.
const SEALED_KEY: usize = GroupKey::BYTES + 16;
/// Bytes of a proof (HMAC-SHA-256).
const PROOF: usize = 32;

/// Both secrets of an edge.
#[derive(Clone, Debug)]
pub(super) struct EdgeKey(hmac::Key);

/// The three proofs of a greeting, and the secret that follows from it; none can be taken for
/// another.
#[derive(Clone, Copy, Debug)]
enum Step {
    Greets,
    Answers,
    Confirms,
    Seals,
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

    /// The cipher for keys, after a whole greeting.
    fn seal(&self, said: &[u8]) -> io::Result<Seal> {
        let secret = self.prove(Step::Seals, said);
        let key = UnboundKey::new(&AES_256_GCM, secret.as_ref());
        let key = key.map_err(|_| io::Error::other("the cipher has another key length"))?;
        Ok(Seal(LessSafeKey::new(key)))
    }

    fn check(&self, step: Step, said: &[u8], proof: &[u8]) -> io::Result<()> {
        let checked = hmac::verify(&self.0, &[step.name(), said].concat(), proof);
        checked.map_err(|_| io::ErrorKind::PermissionDenied.into())
    }
}

/// Encrypts the keys on one connection.
#[derive(Debug)]
pub(super) struct Seal(LessSafeKey);

/// The two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the process of lower rank, which has connected.
    Up,
    Down,
}

impl Direction {
    fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

impl Seal {
    /// - `number`: of the key among those sent in this direction, from 0.
    fn nonce(direction: Direction, number: u64) -> Nonce {
        let mut bytes = [0; NONCE_LEN];
        bytes[0] = u8::from(direction == Direction::Down);
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        Nonce::assume_unique_for_key(bytes)
    }

    fn encrypt(&self, direction: Direction, number: u64, key: GroupKey) -> Option<Vec<u8>> {
        let mut bytes = key.to_bytes().to_vec();
        let nonce = Self::nonce(direction, number);
        self.0.seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes).ok()?;
        Some(bytes)
    }

    fn decrypt(&self, direction: Direction, number: u64, sealed: &[u8]) -> Option<GroupKey> {
        let mut bytes = sealed.to_vec();
        let nonce = Self::nonce(direction, number);
        let key = self.0.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
        GroupKey::from_bytes((&*key).try_into().ok()?)
    }
}

impl Step {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Greets => b"greets",
            Self::Answers => b"answers",
            Self::Confirms => b"confirms",
            Self::Seals => b"seals",
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

    /// Connects and greets; returns the connection and its number.
    ///
    /// # Errors
    ///
    /// The address cannot be reached, or who listens there does not know the secrets.
    pub(super) async fn send(&self, key: &EdgeKey, address: &str) -> io::Result<(Connection, u64)> {
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
        Ok((Connection::new(stream, key.seal(&said)?, Direction::Up)?, number))
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
    /// Answers with the number of the connection; returns it.
    ///
    /// # Errors
    ///
    /// The connection is broken, or its other end does not know the secrets.
    pub(super) async fn answer(
        &self,
        key: &EdgeKey,
        number: u64,
        mut stream: TcpStream,
    ) -> io::Result<Connection> {
        let mut said = self.greeting.encode();
        key.check(Step::Greets, &said, &self.proof)?;
        let mut answer = number.to_le_bytes().to_vec();
        answer.extend(Token::random()?.0);
        said.extend(&answer);
        answer.extend(key.prove(Step::Answers, &said).as_ref());
        stream.write_all(&answer).await?;
        let mut proof = [0; PROOF];
        stream.read_exact(&mut proof).await?;
        key.check(Step::Confirms, &said, &proof)?;
        Connection::new(stream, key.seal(&said)?, Direction::Down)
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

/// A frame or a key that a connection has brought.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    Frame(Body),
    /// The key of the group's multicast connection.
    Key(GroupKey),
}

/// Removes what has come as a whole from the beginning of `bytes`.
///
/// - `decrypt`: of a sealed key.
fn take_received(
    bytes: &mut Vec<u8>,
    mut decrypt: impl FnMut(&[u8]) -> Option<GroupKey>,
) -> io::Result<Vec<Received>> {
    let mut received = Vec::new();
    let mut rest = bytes.as_slice();
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length);
        let is_key = length & KEY_FOLLOWS != 0;
        let length = usize::try_from(length & !KEY_FOLLOWS).unwrap_or(usize::MAX);
        if length > MAX_FRAME || (is_key && length != SEALED_KEY) {
            return Err(invalid("a frame is too long, or a key is none"));
        }
        let Some((body, later)) = after.split_at_checked(length) else { break };
        received.push(if is_key {
            Received::Key(decrypt(body).ok_or_else(|| invalid("a key cannot be read"))?)
        } else {
            let body = Body::decode(body);
            Received::Frame(
                body.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
            )
        });
        rest = later;
    }
    let used = bytes.len() - rest.len();
    bytes.drain(..used);
    Ok(received)
}

/// A connection that has been greeted.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    seal: Seal,
    /// In which this process sends.
    direction: Direction,
    keys_sent: AtomicU64,
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
    fn new(stream: TcpStream, seal: Seal, direction: Direction) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let second = Duration::from_secs(1);
        let keepalive = TcpKeepalive::new().with_time(second).with_interval(second);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        let (pending, has_pending, has_written, keys_sent) = Default::default();
        Ok(Self { stream, seal, direction, keys_sent, pending, has_pending, has_written })
    }

    /// Appends a key as it is sent; each that is appended has to be sent, in order.
    pub(super) fn append_key(&self, bytes: &mut Vec<u8>, key: GroupKey) {
        let number = self.keys_sent.load(Ordering::Relaxed);
        let Some(sealed) = self.seal.encrypt(self.direction, number, key) else { return };
        self.keys_sent.store(number + 1, Ordering::Relaxed);
        let length = u32::try_from(SEALED_KEY).expect("a few bytes") | KEY_FOLLOWS;
        bytes.extend(length.to_le_bytes());
        bytes.extend(sealed);
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
    /// - `take`: gets what arrives; returns false to end it.
    pub(super) async fn serve(&self, take: impl FnMut(Vec<Received>) -> bool) -> io::Result<()> {
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

    async fn receive(&self, mut take: impl FnMut(Vec<Received>) -> bool) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut keys = 0..;
        let direction = self.direction.opposite();
        loop {
            self.stream.readable().await?;
            bytes.reserve(64 << 10);
            match self.stream.try_read_buf(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let received = take_received(&mut bytes, |sealed| {
                self.seal.decrypt(direction, keys.next()?, sealed)
            })?;
            if !received.is_empty() && !take(received) {
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
mod tests;
