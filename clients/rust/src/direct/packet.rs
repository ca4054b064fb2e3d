//! Packets of processes on a multicast connection, which anyone on the network may send to: each
//! proves that its sender knows the key of the group.
//!
//! ```text
//! mark 8 | key 8 | sender's rank 4 | counter 8 | proof 16 | content
//! ```
//!
//! The root of the tree makes the key, and each process sends it to those below it over its
//! connections to them. The proof is an AES-GCM tag of everything else (GMAC); rank and counter
//! are its nonce. Content is not encrypted, as on connections. A repeated packet is no harm: the
//! message layer numbers what it sends.

use std::fmt;

use fabricast_groups::Pn;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

/// First bytes of every packet.
const MARK: [u8; 8] = *b"\x89FCcast1";
const TAG: usize = 16;
/// Bytes before the proof.
const BEFORE: usize = MARK.len() + 8 + 4 + 8;
/// Bytes of a packet beside its content.
pub(super) const HEADER: usize = BEFORE + TAG;
/// Longest packet that is looked at, in bytes.
pub(super) const MAX_PACKET: usize = 16 << 10;

/// Key of a group, as it is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupKey {
    /// Tells keys apart; not secret.
    pub(super) id: u64,
    secret: [u8; Self::SECRET],
}

/// The keys with which packets are sent and believed.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The present one, and the one before: others may still use that.
    current: Option<Key>,
    previous: Option<Key>,
    counter: u64,
}

#[derive(Debug)]
struct Key {
    key: GroupKey,
    cipher: LessSafeKey,
}

impl GroupKey {
    const SECRET: usize = 16;
    pub(super) const BYTES: usize = 8 + Self::SECRET;

    /// Makes a key that nobody can guess; `None` if the system gives no random numbers.
    pub(super) fn random() -> Option<Self> {
        Self::from_bytes(random_bytes()?)
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (id, secret) = bytes.split_at_mut(8);
        id.copy_from_slice(&self.id.to_le_bytes());
        secret.copy_from_slice(&self.secret);
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let (id, secret) = bytes.split_first_chunk()?;
        Some(Self { id: u64::from_le_bytes(*id), secret: secret.try_into().ok()? })
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Keys {
    pub(super) fn current(&self) -> Option<GroupKey> {
        self.current.as_ref().map(|key| key.key)
    }

    /// Uses another key from now on. The counter begins anywhere, so that no two processes that had
    /// one rank one after the other use a nonce twice; without random numbers there is no key.
    pub(super) fn adopt(&mut self, key: GroupKey) {
        if self.current() == Some(key) {
            return;
        }
        let cipher = UnboundKey::new(&AES_128_GCM, &key.secret).map(LessSafeKey::new);
        let (Ok(cipher), Some(counter)) = (cipher, random_bytes()) else { return };
        self.counter = u64::from_le_bytes(counter);
        self.previous = self.current.replace(Key { key, cipher });
    }

    /// Makes a packet; `None` without a key.
    pub(super) fn seal(&mut self, sender: Pn, content: &[u8]) -> Option<Vec<u8>> {
        let Key { key, cipher } = self.current.as_ref()?;
        self.counter = self.counter.wrapping_add(1);
        let mut packet = Vec::with_capacity(HEADER + content.len());
        packet.extend(MARK);
        packet.extend(key.id.to_le_bytes());
        packet.extend(sender.0.to_le_bytes());
        packet.extend(self.counter.to_le_bytes());
        let nonce = nonce(&packet)?;
        packet.extend_from_slice(content);
        let tag = cipher.seal_in_place_separate_tag(nonce, Aad::from(&packet), &mut []).ok()?;
        packet.splice(BEFORE..BEFORE, tag.as_ref().iter().copied());
        Some(packet)
    }

    /// Returns sender and content of a packet of another member; `None` for anything else.
    pub(super) fn open(&self, own: Pn, packet: &[u8]) -> Option<(Pn, Vec<u8>)> {
        let (before, rest) = packet.split_at_checked(BEFORE)?;
        let (tag, content) = rest.split_first_chunk::<TAG>()?;
        let mut fields = before.strip_prefix(&MARK)?;
        let id = u64::from_le_bytes(take(&mut fields)?);
        let sender = Pn(u32::from_le_bytes(take(&mut fields)?));
        if packet.len() > MAX_PACKET || sender == own {
            return None;
        }
        let keys = [&self.current, &self.previous].into_iter().flatten();
        let key = keys.into_iter().find(|key| key.key.id == id)?;
        let said = [before, content].concat();
        let mut tag = *tag;
        key.cipher.open_in_place(nonce(before)?, Aad::from(&said), &mut tag).ok()?;
        Some((sender, said[BEFORE..].to_vec()))
    }
}

/// The nonce of a packet: its last fields before the proof.
fn nonce(before: &[u8]) -> Option<Nonce> {
    Nonce::try_assume_unique_for_key(before.get(BEFORE - NONCE_LEN..BEFORE)?).ok()
}

fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(key: GroupKey) -> Keys {
        let mut keys = Keys::default();
        keys.adopt(key);
        keys
    }

    #[test]
    fn members_read_each_others_packets_and_not_their_own() {
        let key = GroupKey::random().unwrap();
        let (mut sender, receiver) = (keys(key), keys(key));
        let packet = sender.seal(Pn(3), b"content").unwrap();
        assert_eq!(receiver.open(Pn(4), &packet), Some((Pn(3), b"content".to_vec())));
        assert_eq!(receiver.open(Pn(3), &packet), None);
        let (empty, again) = (sender.seal(Pn(3), b"").unwrap(), sender.seal(Pn(3), b"").unwrap());
        assert_eq!(receiver.open(Pn(4), &empty), Some((Pn(3), Vec::new())));
        assert!(empty.len() == HEADER && empty != again, "each has its own nonce");
    }

    #[test]
    fn a_packet_of_a_stranger_or_a_changed_one_is_not_read() {
        let key = GroupKey::random().unwrap();
        let receiver = keys(key);
        let packet = keys(key).seal(Pn(3), b"content").unwrap();
        for at in 0..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            assert_eq!(receiver.open(Pn(4), &changed), None, "byte {at}");
            assert_eq!(receiver.open(Pn(4), &packet[..at]), None, "{at} bytes");
        }
        let guessed = GroupKey { secret: [0; GroupKey::SECRET], ..key };
        let forged = keys(guessed).seal(Pn(3), b"content").unwrap();
        assert_eq!(receiver.open(Pn(4), &forged), None);
        let long = keys(key).seal(Pn(3), &vec![0; MAX_PACKET]).unwrap();
        assert_eq!(receiver.open(Pn(4), &long), None);
        assert_eq!(Keys::default().open(Pn(4), &packet), None);
        assert_eq!(Keys::default().seal(Pn(4), b""), None);
    }

    #[test]
    fn packets_with_the_key_before_are_read_and_those_with_older_ones_are_not() {
        let all: [GroupKey; 3] = std::array::from_fn(|_| GroupKey::random().unwrap());
        let mut receiver = Keys::default();
        all.iter().for_each(|key| receiver.adopt(*key));
        receiver.adopt(all[2]); // the same again drops none
        let read = all.map(|key| {
            let packet = keys(key).seal(Pn(1), b"x").unwrap();
            receiver.open(Pn(0), &packet).is_some()
        });
        assert_eq!(read, [false, true, true]);
        let same = GroupKey::from_bytes(all[2].to_bytes()).unwrap();
        assert!(same == all[2] && !format!("{same:?}").contains("secret: ["));
    }
}
