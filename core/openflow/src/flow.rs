//! Flows: conditions on packets and what is done with those that meet them.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.3.4.2 (changes), §7.3.5.2 (reading).

use crate::action::Instruction;
use crate::fields::Match;
use crate::group::ANY_GROUP;
use crate::port::ANY_PORT;
use crate::wire::{DecodeError, Put, Reader};

/// Cookie mask that filters nothing.
pub const NO_COOKIE_MASK: u64 = 0;
/// No packet of a buffer is processed with a change.
const NO_BUFFER: u32 = 0xffff_ffff;

/// Change of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Adds a flow, or replaces that of the same match and priority.
    Add,
    /// Changes the instructions of all flows that the match covers.
    Modify,
    /// Changes the instructions of the flow with this very match and priority.
    ModifyStrict,
    /// Removes all flows that the match covers.
    Delete,
    /// Removes the flow with this very match and priority.
    DeleteStrict,
}

/// A change of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// Free number of the controller, kept with the flow.
    pub cookie: u64,
    /// Bits of the cookie that flows to be changed or removed must have.
    pub cookie_mask: u64,
    /// Table; 255 for all, when flows are removed.
    pub table: u8,
    /// Change to make: add, modify or delete.
    pub command: FlowCommand,
    /// Seconds without a packet after which the flow is removed; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which the flow is removed; 0 for never.
    pub hard_timeout: u16,
    /// Priority; of several matching flows the highest counts.
    pub priority: u16,
    /// Port that flows to be removed must lead to, or [`ANY_PORT`].
    pub out_port: u32,
    /// Group that flows to be removed must lead to, or [`ANY_GROUP`].
    pub out_group: u32,
    /// Bits of `ofp_flow_mod_flags`.
    pub flags: u16,
    /// Order in which a full 1.4 switch gives up flows; 0 in 1.3.
    pub importance: u16,
    /// Conditions of a packet that the flow is for.
    pub conditions: Match,
    /// Instructions for matching packets; without any they are dropped.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// Makes a change with everything else at its usual value.
    #[must_use]
    pub fn new(command: FlowCommand, table: u8, priority: u16, conditions: Match) -> Self {
        Self {
            cookie: 0,
            cookie_mask: NO_COOKIE_MASK,
            table,
            command,
            idle_timeout: 0,
            hard_timeout: 0,
            priority,
            out_port: ANY_PORT,
            out_group: ANY_GROUP,
            flags: 0,
            importance: 0,
            conditions,
            instructions: Vec::new(),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u64(self.cookie);
        out.u64(self.cookie_mask);
        out.u8(self.table);
        out.u8(match self.command {
            FlowCommand::Add => 0,
            FlowCommand::Modify => 1,
            FlowCommand::ModifyStrict => 2,
            FlowCommand::Delete => 3,
            FlowCommand::DeleteStrict => 4,
        });
        out.u16(self.idle_timeout);
        out.u16(self.hard_timeout);
        out.u16(self.priority);
        out.u32(NO_BUFFER);
        out.u32(self.out_port);
        out.u32(self.out_group);
        out.u16(self.flags);
        out.u16(self.importance);
        self.conditions.write(out);
        self.instructions.iter().for_each(|instruction| instruction.write(out));
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (cookie, cookie_mask, table) = (reader.u64()?, reader.u64()?, reader.u8()?);
        let command = match reader.u8()? {
            0 => FlowCommand::Add,
            1 => FlowCommand::Modify,
            2 => FlowCommand::ModifyStrict,
            3 => FlowCommand::Delete,
            4 => FlowCommand::DeleteStrict,
            value => return Err(DecodeError::Value { what: "flow command", value: value.into() }),
        };
        let (idle_timeout, hard_timeout, priority) = (reader.u16()?, reader.u16()?, reader.u16()?);
        reader.skip(4)?; // buffer
        Ok(Self {
            cookie,
            cookie_mask,
            table,
            command,
            idle_timeout,
            hard_timeout,
            priority,
            out_port: reader.u32()?,
            out_group: reader.u32()?,
            flags: reader.u16()?,
            importance: reader.u16()?,
            conditions: Match::read(&mut reader)?,
            instructions: reader.all(Instruction::read)?,
        })
    }
}

/// Filter of a request for flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRequest {
    /// Table; 255 for all.
    pub table: u8,
    /// Port that the flows must lead to, or [`ANY_PORT`].
    pub out_port: u32,
    /// Group that the flows must lead to, or [`ANY_GROUP`].
    pub out_group: u32,
    /// Cookie that the flows must have.
    pub cookie: u64,
    /// Bits of the cookie that count.
    pub cookie_mask: u64,
    /// Conditions that the flows must contain.
    pub conditions: Match,
}

impl FlowRequest {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.out_port);
        out.u32(self.out_group);
        out.zeros(4);
        out.u64(self.cookie);
        out.u64(self.cookie_mask);
        self.conditions.write(out);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let (out_port, out_group) = (reader.u32()?, reader.u32()?);
        reader.skip(4)?;
        let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
        let conditions = Match::read(reader)?;
        Ok(Self { table, out_port, out_group, cookie, cookie_mask, conditions })
    }
}

/// A flow as a switch describes it, with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Number of its table, from 0.
    pub table: u8,
    /// Seconds since it was added.
    pub seconds: u32,
    /// Nanoseconds beyond the seconds.
    pub nanoseconds: u32,
    /// The highest of the matching flows counts.
    pub priority: u16,
    /// Seconds without a packet after which it is removed; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it is removed; 0 for never.
    pub hard_timeout: u16,
    /// Bits of `ofp_flow_mod_flags`.
    pub flags: u16,
    /// Order in which a full 1.4 switch gives up flows; 0 in 1.3.
    pub importance: u16,
    /// Number of the controller that added it.
    pub cookie: u64,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes that it matched.
    pub bytes: u64,
    /// Conditions of a packet that the flow is for.
    pub conditions: Match,
    /// Instructions for matching packets.
    pub instructions: Vec<Instruction>,
}

impl FlowStats {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.sized(0, |out| {
            out.u16(0); // length
            out.u8(self.table);
            out.zeros(1);
            out.u32(self.seconds);
            out.u32(self.nanoseconds);
            out.u16(self.priority);
            out.u16(self.idle_timeout);
            out.u16(self.hard_timeout);
            out.u16(self.flags);
            out.u16(self.importance);
            out.zeros(2);
            out.u64(self.cookie);
            out.u64(self.packets);
            out.u64(self.bytes);
            self.conditions.write(out);
            self.instructions.iter().for_each(|instruction| instruction.write(out));
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut part = reader.sized(56, "flow description")?;
        let table = part.u8()?;
        part.skip(1)?;
        let (seconds, nanoseconds, priority) = (part.u32()?, part.u32()?, part.u16()?);
        let (idle_timeout, hard_timeout) = (part.u16()?, part.u16()?);
        let (flags, importance) = (part.u16()?, part.u16()?);
        part.skip(2)?;
        Ok(Self {
            table,
            seconds,
            nanoseconds,
            priority,
            idle_timeout,
            hard_timeout,
            flags,
            importance,
            cookie: part.u64()?,
            packets: part.u64()?,
            bytes: part.u64()?,
            conditions: Match::read(&mut part)?,
            instructions: part.all(Instruction::read)?,
        })
    }
}
