//! Ports of a switch: description, state, changes, counters.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.2.1, §7.3.5.5, §7.4.3; 1.4.1 for the forms with
//! properties.

use crate::version::Version;
use crate::wire::{DecodeError, Put, Reader};

/// Stands for any port in a filter, and for none in a bucket.
pub const ANY_PORT: u32 = 0xffff_ffff;
/// Stands for the controller: as an output, and as the input of a packet that it has made.
pub const CONTROLLER_PORT: u32 = 0xffff_fffd;
/// Bit of `config`: the administrator took the port down.
const PORT_DOWN: u32 = 1;
/// Bit of `state`: there is no link.
const LINK_DOWN: u32 = 1;
const NAME_BYTES: usize = 16;
/// Bytes of a 1.4 port without properties.
const PORT_BYTES: usize = 40;
/// Bytes of 1.4 port counters without properties.
const STATS_BYTES: usize = 80;

/// A port as a switch describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Number; those from 0xffffff00 on are reserved for ports that are no sockets.
    pub number: u32,
    /// Ethernet address of the port.
    pub address: [u8; 6],
    /// Name, at most 16 bytes.
    pub name: String,
    /// Settings by bits.
    pub config: u32,
    /// State by bits.
    pub state: u32,
}

impl Port {
    /// True if packets can cross: the administrator has it up, and there is a link.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.config & PORT_DOWN == 0 && self.state & LINK_DOWN == 0
    }

    pub(crate) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.u32(self.number);
        match version {
            Version::V13 => out.zeros(4),
            Version::V14 => {
                out.u16(40);
                out.zeros(2);
            }
        }
        out.bytes(&self.address);
        out.zeros(2);
        out.text(&self.name, NAME_BYTES);
        out.u32(self.config);
        out.u32(self.state);
        if version == Version::V13 {
            out.zeros(24); // features and speeds
        }
    }

    pub(crate) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u32()?;
        let more = match version {
            Version::V13 => {
                reader.skip(4)?;
                24 // features and speeds
            }
            Version::V14 => {
                let length = usize::from(reader.u16()?);
                reader.skip(2)?;
                length
                    .checked_sub(PORT_BYTES)
                    .ok_or(DecodeError::Length { what: "port", length })?
            }
        };
        let address = reader.address()?;
        reader.skip(2)?;
        let name = reader.text(NAME_BYTES)?;
        let (config, state) = (reader.u32()?, reader.u32()?);
        reader.skip(more)?;
        Ok(Self { number, address, name, config, state })
    }
}

/// Kind of change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// It was added.
    Added,
    /// It was removed.
    Removed,
    /// Its settings or its state changed.
    Modified,
}

/// Message of a switch about one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Kind of the change.
    pub change: PortChange,
    /// The port as it is now.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.u8(match self.change {
            PortChange::Added => 0,
            PortChange::Removed => 1,
            PortChange::Modified => 2,
        });
        out.zeros(7);
        self.port.write(version, out);
    }

    pub(crate) fn read(version: Version, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let change = match reader.u8()? {
            0 => PortChange::Added,
            1 => PortChange::Removed,
            2 => PortChange::Modified,
            value => return Err(DecodeError::Value { what: "port change", value: value.into() }),
        };
        reader.skip(7)?;
        Ok(Self { change, port: Port::read(version, &mut reader)? })
    }
}

/// Counters of a port; all ones where the switch does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Number of the port.
    pub number: u32,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Received packets that were dropped.
    pub received_dropped: u64,
    /// Packets that could not be sent.
    pub sent_dropped: u64,
    /// Received packets with errors.
    pub received_errors: u64,
    /// Packets with errors in sending.
    pub sent_errors: u64,
}

impl PortStats {
    pub(crate) fn write(&self, version: Version, out: &mut Vec<u8>) {
        if version == Version::V14 {
            out.u16(80);
            out.zeros(2);
            out.u32(self.number);
            out.zeros(8); // age of the port
        } else {
            out.u32(self.number);
            out.zeros(4);
        }
        for count in [
            self.received_packets,
            self.sent_packets,
            self.received_bytes,
            self.sent_bytes,
            self.received_dropped,
            self.sent_dropped,
            self.received_errors,
            self.sent_errors,
        ] {
            out.u64(count);
        }
        if version == Version::V13 {
            out.zeros(40); // kinds of errors, age of the port
        }
    }

    pub(crate) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut part = match version {
            Version::V13 => reader.part(112, "port counters")?,
            Version::V14 => {
                let mut part = reader.sized(STATS_BYTES, "port counters")?;
                part.skip(2)?;
                part
            }
        };
        let number = part.u32()?;
        part.skip(if version == Version::V13 { 4 } else { 8 })?;
        Ok(Self {
            number,
            received_packets: part.u64()?,
            sent_packets: part.u64()?,
            received_bytes: part.u64()?,
            sent_bytes: part.u64()?,
            received_dropped: part.u64()?,
            sent_dropped: part.u64()?,
            received_errors: part.u64()?,
            sent_errors: part.u64()?,
        })
    }
}
