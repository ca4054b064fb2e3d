//! Groups: lists of buckets that one packet is processed by.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.3.4.3 (changes), §7.3.5.6 to §7.3.5.8 (reading).

use crate::action::Action;
use crate::port::ANY_PORT;
use crate::wire::{DecodeError, Put, Reader};

/// Stands for any group in a filter, and for none in a bucket.
pub const ANY_GROUP: u32 = 0xffff_ffff;
/// Bytes of a bucket without actions.
const BUCKET_BYTES: usize = 16;

/// Change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// Adds a group; refused if it is there.
    Add,
    /// Replaces type and buckets of a group; refused if it is not there.
    Modify,
    /// Removes a group, and the flows that lead to it.
    Delete,
}

/// Buckets of a group that process a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupType {
    /// All of them, each a copy.
    All,
    /// One, chosen by the switch.
    Select,
    /// The only one.
    Indirect,
    /// The first live one.
    FastFailover,
    /// A type of the vendor.
    Other(u8),
}

impl GroupType {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::All => 0,
            Self::Select => 1,
            Self::Indirect => 2,
            Self::FastFailover => 3,
            Self::Other(number) => number,
        }
    }

    const fn of(number: u8) -> Self {
        match number {
            0 => Self::All,
            1 => Self::Select,
            2 => Self::Indirect,
            3 => Self::FastFailover,
            _ => Self::Other(number),
        }
    }
}

/// Actions for one copy of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Share of the packets in a group of type select; 0 otherwise.
    pub weight: u16,
    /// Port that must be up for the bucket to be live.
    pub watch_port: u32,
    /// Group that must be live for the bucket to be live.
    pub watch_group: u32,
    /// Actions on the copy of the packet, in this order.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// Makes a bucket that sends the packet out by a port.
    #[must_use]
    pub fn output(port: u32) -> Self {
        let actions = vec![Action::Output(port)];
        Self { weight: 0, watch_port: ANY_PORT, watch_group: ANY_GROUP, actions }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.sized(0, |out| {
            out.u16(0); // length
            out.u16(self.weight);
            out.u32(self.watch_port);
            out.u32(self.watch_group);
            out.zeros(4);
            self.actions.iter().for_each(|action| action.write(out));
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut part = reader.sized(BUCKET_BYTES, "bucket")?;
        let (weight, watch_port, watch_group) = (part.u16()?, part.u32()?, part.u32()?);
        part.skip(4)?;
        Ok(Self { weight, watch_port, watch_group, actions: part.all(Action::read)? })
    }
}

/// A change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// Change to make: add, modify or delete.
    pub command: GroupCommand,
    /// Type of the group; does not matter when it is deleted.
    pub kind: GroupType,
    /// Id of the group.
    pub group: u32,
    /// The new buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupMod {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u16(match self.command {
            GroupCommand::Add => 0,
            GroupCommand::Modify => 1,
            GroupCommand::Delete => 2,
        });
        out.u8(self.kind.number());
        out.zeros(1);
        out.u32(self.group);
        self.buckets.iter().for_each(|bucket| bucket.write(out));
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let command = match reader.u16()? {
            0 => GroupCommand::Add,
            1 => GroupCommand::Modify,
            2 => GroupCommand::Delete,
            value => {
                return Err(DecodeError::Value { what: "group command", value: value.into() });
            }
        };
        let kind = GroupType::of(reader.u8()?);
        reader.skip(1)?;
        Ok(Self { command, kind, group: reader.u32()?, buckets: reader.all(Bucket::read)? })
    }
}

/// A group as a switch describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// Type of the group.
    pub kind: GroupType,
    /// Id of the group.
    pub group: u32,
    /// One for each copy; in a group of type all, each makes one.
    pub buckets: Vec<Bucket>,
}

impl GroupDesc {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.sized(0, |out| {
            out.u16(0); // length
            out.u8(self.kind.number());
            out.zeros(1);
            out.u32(self.group);
            self.buckets.iter().for_each(|bucket| bucket.write(out));
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut part = reader.sized(8, "group description")?;
        let kind = GroupType::of(part.u8()?);
        part.skip(1)?;
        Ok(Self { kind, group: part.u32()?, buckets: part.all(Bucket::read)? })
    }
}

/// Counters of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Id of the group.
    pub group: u32,
    /// Flows and groups that lead to it.
    pub references: u32,
    /// Packets that it processed.
    pub packets: u64,
    /// Bytes that it processed.
    pub bytes: u64,
    /// Seconds since it was added.
    pub seconds: u32,
    /// Nanoseconds beyond the seconds.
    pub nanoseconds: u32,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

impl GroupStats {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.sized(0, |out| {
            out.zeros(4); // length, padding
            out.u32(self.group);
            out.u32(self.references);
            out.zeros(4);
            out.u64(self.packets);
            out.u64(self.bytes);
            out.u32(self.seconds);
            out.u32(self.nanoseconds);
            for (packets, bytes) in &self.buckets {
                out.u64(*packets);
                out.u64(*bytes);
            }
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut part = reader.sized(40, "group counters")?;
        part.skip(2)?;
        let (group, references) = (part.u32()?, part.u32()?);
        part.skip(4)?;
        Ok(Self {
            group,
            references,
            packets: part.u64()?,
            bytes: part.u64()?,
            seconds: part.u32()?,
            nanoseconds: part.u32()?,
            buckets: part.all(|part| Ok((part.u64()?, part.u64()?)))?,
        })
    }
}
