//! Vouchers: what one agent tells another counts at once if the TIC has vouched for it.
//!
//! An operating agent is told of memberships by group agents, and a group agent of new members by
//! operating agents, before the TIC has told them itself. A voucher is the TIC's word that comes
//! along: a tag over all that the receiver acts on, under a key that only the TIC and the receiving
//! node know. The TIC makes vouchers where it answers and keeps none; the sender passes them on.
//! See `docs/adr/0044-the-tic-vouches-for-what-agents-tell.md`.
//!
//! The tag is SipHash-2-4 (Aumasson and Bernstein 2012), a pseudorandom function of 64 bits:
//! without the key one can only try, message by message, and is right once in 2^64 times.
//!
//! Numbers go into a tag with the lowest byte first, texts after their length; each kind of voucher
//! begins with a text of its own. So no two claims have the same bytes.

use std::fmt;
use std::hash::Hasher;

use fabricast_topology::Mgid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use thiserror::Error;

use crate::hex;
use crate::ids::{Epoch, Gn, Incarnation, Pn, Revision};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName};

/// Bytes of a voucher key.
pub const VOUCHER_KEY_BYTES: usize = 16;

/// Random number of an agent's process, from which the keys of its nodes come. It is not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VoucherSeed(pub [u8; 16]);

/// Key of one start of a node, under which the TIC vouches to the node. It is not printed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VoucherKey([u8; VOUCHER_KEY_BYTES]);

/// Word of the TIC that a claim is what it has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voucher(pub u64);

/// A member, as a voucher covers it.
#[derive(Clone, Copy, Debug)]
pub struct MemberClaim<'a> {
    /// Number of the group.
    pub gn: Gn,
    /// The rank in it.
    pub pn: Pn,
    /// Revision of the join.
    pub joined: Revision,
    /// Node of the process.
    pub node: &'a NodeName,
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// Name of the process.
    pub process: &'a ProcessName,
    /// The adapter port it uses.
    pub endpoint: &'a EndpointName,
}

/// A membership and the agent of its group, for the node of the member.
#[derive(Clone, Copy, Debug)]
pub struct EnrolmentClaim<'a> {
    /// The member that it is about.
    pub member: MemberClaim<'a>,
    /// Name of the group.
    pub group: &'a GroupName,
    /// The group's address on the fabric.
    pub mgid: Mgid,
    /// Epoch of the agent.
    pub epoch: Epoch,
    /// The node of the group's agent.
    pub agent: &'a NodeName,
    /// Address at which the agent listens.
    pub agent_address: &'a Address,
}

/// A join, for the node of the group's agent.
#[derive(Clone, Copy, Debug)]
pub struct JoinClaim<'a> {
    /// The member that it is about.
    pub member: MemberClaim<'a>,
    /// Address at which the agents of its node listen.
    pub address: &'a Address,
    /// Epoch of the group's agent.
    pub epoch: Epoch,
}

impl VoucherSeed {
    /// Returns the key of one start of a node. Other nodes and other starts have other keys.
    pub fn key(&self, node: &NodeName, start_id: u64) -> VoucherKey {
        let mut hash = Sha256::new();
        hash.update(b"fabricast voucher key");
        hash.update(self.0);
        hash.update(start_id.to_le_bytes());
        hash.update(node.as_str()); // last: it needs no length
        let digest: [u8; 32] = hash.finalize().into();
        let mut key = [0; VOUCHER_KEY_BYTES];
        key.copy_from_slice(&digest[..VOUCHER_KEY_BYTES]);
        VoucherKey(key)
    }
}

impl VoucherKey {
    /// Takes bytes as a key.
    pub const fn new(bytes: [u8; VOUCHER_KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the key, to be sent to the TIC.
    pub const fn bytes(&self) -> [u8; VOUCHER_KEY_BYTES] {
        self.0
    }
}

impl EnrolmentClaim<'_> {
    /// Returns the voucher of the claim under the key of the member's node.
    pub fn voucher(&self, key: &VoucherKey) -> Voucher {
        let Self { member, group, mgid, epoch, agent, agent_address } = self;
        Tag::new(key, "enrolment")
            .member(member)
            .text(group.as_str())
            .number(mgid.0.into())
            .number(epoch.0)
            .text(agent.as_str())
            .text(agent_address.as_str())
            .voucher()
    }
}

impl JoinClaim<'_> {
    /// Returns the voucher of the claim under the key of the node of the group's agent.
    pub fn voucher(&self, key: &VoucherKey) -> Voucher {
        let Self { member, address, epoch } = self;
        let tag = Tag::new(key, "join").member(member);
        tag.text(address.as_str()).number(epoch.0).voucher()
    }
}

/// A tag that takes the parts of a claim one after the other.
struct Tag(SipHasher24);

impl Tag {
    fn new(key: &VoucherKey, kind: &str) -> Self {
        Self(SipHasher24::new_with_key(&key.0)).text(kind)
    }

    fn number(mut self, number: u64) -> Self {
        self.0.write(&number.to_le_bytes());
        self
    }

    fn text(self, text: &str) -> Self {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let mut tag = self.number(length);
        tag.0.write(text.as_bytes());
        tag
    }

    fn member(self, member: &MemberClaim<'_>) -> Self {
        let MemberClaim { gn, pn, joined, node, incarnation, process, endpoint } = member;
        self.number(gn.0)
            .number(pn.0.into())
            .number(joined.0)
            .number(incarnation.0)
            .text(node.as_str())
            .text(process.as_str())
            .text(endpoint.as_str())
    }

    fn voucher(self) -> Voucher {
        Voucher(self.0.finish())
    }
}

impl fmt::Debug for VoucherSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VoucherSeed(..)")
    }
}

impl fmt::Debug for VoucherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VoucherKey(..)")
    }
}

impl From<VoucherKey> for String {
    fn from(key: VoucherKey) -> Self {
        hex::encode(&key.0)
    }
}

impl TryFrom<String> for VoucherKey {
    type Error = VoucherKeyError;

    fn try_from(text: String) -> Result<Self, VoucherKeyError> {
        hex::decode(&text).map(Self).ok_or(VoucherKeyError)
    }
}

/// The text is no voucher key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a voucher key has 32 hexadecimal digits")]
pub struct VoucherKeyError;

#[cfg(test)]
mod tests;
