//! Features of a switch, the roles of its controllers, and what they are told.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.3.1, §7.3.9 and §7.3.10; 1.4.1, §7.4.4, for the
//! message about a lost role.

use crate::version::Version;
use crate::wire::{DecodeError, Put, Reader};

/// Features of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Identity of the switch; the lower 48 bits are as a rule an Ethernet address of it.
    pub datapath: u64,
    /// Packets that it can keep for the controller.
    pub buffers: u32,
    /// Tables of flows.
    pub tables: u8,
    /// 0 for the main connection, others carry nothing that matters here.
    pub auxiliary: u8,
    /// Abilities by bits.
    pub capabilities: u32,
}

impl Features {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u64(self.datapath);
        out.u32(self.buffers);
        out.u8(self.tables);
        out.u8(self.auxiliary);
        out.zeros(2);
        out.u32(self.capabilities);
        out.zeros(4);
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (datapath, buffers) = (reader.u64()?, reader.u32()?);
        let (tables, auxiliary) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        Ok(Self { datapath, buffers, tables, auxiliary, capabilities: reader.u32()? })
    }
}

/// Role of a controller at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Asks for the present role and changes nothing.
    NoChange,
    /// May write, beside others of this role.
    Equal,
    /// May write; the master before becomes a slave.
    Master,
    /// May read only.
    Slave,
}

impl Role {
    const fn number(self) -> u32 {
        match self {
            Self::NoChange => 0,
            Self::Equal => 1,
            Self::Master => 2,
            Self::Slave => 3,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u32()? {
            0 => Ok(Self::NoChange),
            1 => Ok(Self::Equal),
            2 => Ok(Self::Master),
            3 => Ok(Self::Slave),
            value => Err(DecodeError::Value { what: "role", value }),
        }
    }
}

/// Request for a role, or the answer to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// Role asked for, or the one that the controller has.
    pub role: Role,
    /// Number of the mastership; a switch refuses one older than it has seen. In an answer, the
    /// newest one seen, or all ones if there was none.
    pub generation: u64,
}

impl RoleMessage {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.role.number());
        out.zeros(4);
        out.u64(self.generation);
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let role = Role::read(&mut reader)?;
        reader.skip(4)?;
        Ok(Self { role, generation: reader.u64()? })
    }
}

/// Reason why a controller has another role than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleChange {
    /// Another controller became the master.
    MasterRequest,
    /// The settings of the switch changed.
    Config,
    /// A reason of the vendor.
    Other(u8),
}

/// Message of a 1.4 switch: a controller has another role now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleStatus {
    /// The role now.
    pub role: Role,
    /// Cause of the new role.
    pub change: RoleChange,
    /// Number of the mastership.
    pub generation: u64,
}

impl RoleStatus {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.role.number());
        out.u8(match self.change {
            RoleChange::MasterRequest => 0,
            RoleChange::Config => 1,
            RoleChange::Other(number) => number,
        });
        out.zeros(3);
        out.u64(self.generation);
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let role = Role::read(&mut reader)?;
        let change = match reader.u8()? {
            0 => RoleChange::MasterRequest,
            1 => RoleChange::Config,
            number => RoleChange::Other(number),
        };
        reader.skip(3)?;
        Ok(Self { role, change, generation: reader.u64()? })
    }
}

/// Messages that a switch sends a controller without being asked: a bit for each reason, first for
/// a master or equal, then for a slave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncMessages {
    /// Packets for the controller.
    pub packet_in: [u32; 2],
    /// Changes of ports.
    pub port_status: [u32; 2],
    /// Flows that have timed out or were removed.
    pub flow_removed: [u32; 2],
    /// Changes of the role; 1.4.
    pub role_status: [u32; 2],
}

impl AsyncMessages {
    /// All changes of ports and roles, and nothing else.
    pub const PORTS_AND_ROLES: Self = Self {
        packet_in: [0; 2],
        port_status: [0b111; 2],
        flow_removed: [0; 2],
        role_status: [0b111; 2],
    };

    /// The same, and packets that a flow hands to the controllers.
    pub const WITH_PACKETS: Self = Self { packet_in: [0b10; 2], ..Self::PORTS_AND_ROLES };

    /// Number of a property of 1.4 for a slave; that for a master or equal is one more.
    const PROPERTIES: [u16; 4] = [0, 2, 4, 6];

    pub(crate) fn write(&self, version: Version, out: &mut Vec<u8>) {
        let masks = [self.packet_in, self.port_status, self.flow_removed, self.role_status];
        match version {
            Version::V13 => masks[..3].iter().flatten().for_each(|mask| out.u32(*mask)),
            Version::V14 => {
                for ([master, slave], number) in masks.into_iter().zip(Self::PROPERTIES) {
                    for (number, mask) in [(number, slave), (number + 1, master)] {
                        out.u16(number);
                        out.u16(8);
                        out.u32(mask);
                    }
                }
            }
        }
    }

    pub(crate) fn read(version: Version, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let mut masks = [[0; 2]; 4];
        if version == Version::V13 {
            for mask in masks[..3].iter_mut().flatten() {
                *mask = reader.u32()?;
            }
        }
        while !reader.is_empty() {
            let (number, length) = (reader.u16()?, usize::from(reader.u16()?));
            let what = "property of asynchronous messages";
            let content = length.checked_sub(4).ok_or(DecodeError::Length { what, length })?;
            let mut content = reader.part(content, what)?;
            if let Some(mask) = masks.get_mut(usize::from(number / 2)) {
                mask[usize::from(number.is_multiple_of(2))] = content.u32()?;
            }
        }
        let [packet_in, port_status, flow_removed, role_status] = masks;
        Ok(Self { packet_in, port_status, flow_removed, role_status })
    }
}
