//! Descriptions and counters, which come in several parts if they are long.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.3.5; 1.4.1 for table descriptions.

use crate::flow::{FlowRequest, FlowStats};
use crate::group::{GroupDesc, GroupStats, GroupType};
use crate::port::{Port, PortStats};
use crate::version::Version;
use crate::wire::{DecodeError, Put, Reader};

const DESC: u16 = 0;
const FLOW: u16 = 1;
const TABLE: u16 = 3;
const PORT_STATS: u16 = 4;
const GROUP: u16 = 6;
const GROUP_DESC: u16 = 7;
const GROUP_FEATURES: u16 = 8;
const TABLE_FEATURES: u16 = 12;
const PORT_DESC: u16 = 13;
const TABLE_DESC: u16 = 14;
/// Flag: more parts follow.
const MORE: u16 = 1;
const LONG_TEXT: usize = 256;
const SHORT_TEXT: usize = 32;

/// A request for descriptions or counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartRequest {
    /// Flags; 1 if more parts of the request follow.
    pub flags: u16,
    /// Subject of the request.
    pub request: Request,
}

impl From<Request> for MultipartRequest {
    fn from(request: Request) -> Self {
        Self { flags: 0, request }
    }
}

/// Subject of a request for descriptions or counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Maker and model of the switch.
    Desc,
    /// Flows with their counters.
    Flows(FlowRequest),
    /// Counters of all tables.
    Tables,
    /// Counters of a port, or of all.
    PortStats(u32),
    /// Counters of a group, or of all.
    GroupStats(u32),
    /// Descriptions of all groups.
    Groups,
    /// Abilities of groups.
    GroupFeatures,
    /// Features of all tables.
    TableFeatures,
    /// Descriptions of all ports.
    Ports,
    /// All tables; 1.4.
    TableDescs,
    /// Request of a type that is not read.
    Other {
        /// Type of the request.
        kind: u16,
        /// Bytes after the header of the request.
        content: Vec<u8>,
    },
}

impl MultipartRequest {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let kind = match &self.request {
            Request::Desc => DESC,
            Request::Flows(_) => FLOW,
            Request::Tables => TABLE,
            Request::PortStats(_) => PORT_STATS,
            Request::GroupStats(_) => GROUP,
            Request::Groups => GROUP_DESC,
            Request::GroupFeatures => GROUP_FEATURES,
            Request::TableFeatures => TABLE_FEATURES,
            Request::Ports => PORT_DESC,
            Request::TableDescs => TABLE_DESC,
            Request::Other { kind, .. } => *kind,
        };
        out.u16(kind);
        out.u16(self.flags);
        out.zeros(4);
        match &self.request {
            Request::Flows(filter) => filter.write(out),
            Request::PortStats(number) | Request::GroupStats(number) => {
                out.u32(*number);
                out.zeros(4);
            }
            Request::Other { content, .. } => out.bytes(content),
            Request::Desc
            | Request::Tables
            | Request::Groups
            | Request::GroupFeatures
            | Request::TableFeatures
            | Request::Ports
            | Request::TableDescs => {}
        }
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        let request = match kind {
            DESC => Request::Desc,
            FLOW => Request::Flows(FlowRequest::read(&mut reader)?),
            TABLE => Request::Tables,
            PORT_STATS => Request::PortStats(reader.u32()?),
            GROUP => Request::GroupStats(reader.u32()?),
            GROUP_DESC => Request::Groups,
            GROUP_FEATURES => Request::GroupFeatures,
            TABLE_FEATURES if reader.is_empty() => Request::TableFeatures,
            PORT_DESC => Request::Ports,
            TABLE_DESC => Request::TableDescs,
            _ => Request::Other { kind, content: reader.rest().to_vec() },
        };
        Ok(Self { flags, request })
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartReply {
    /// True if more parts follow.
    pub more: bool,
    /// Content, to be joined with that of the other parts.
    pub reply: Reply,
}

/// Descriptions or counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Maker and model of the switch.
    Desc(SwitchDesc),
    /// Flows with their counters.
    Flows(Vec<FlowStats>),
    /// Counters of tables.
    Tables(Vec<TableStats>),
    /// Counters of ports.
    PortStats(Vec<PortStats>),
    /// Counters of groups.
    GroupStats(Vec<GroupStats>),
    /// Descriptions of groups.
    Groups(Vec<GroupDesc>),
    /// Abilities of groups.
    GroupFeatures(GroupFeatures),
    /// Features of tables.
    TableFeatures(Vec<TableFeatures>),
    /// Descriptions of ports.
    Ports(Vec<Port>),
    /// Descriptions of tables; 1.4.
    TableDescs(Vec<TableDesc>),
    /// Answer of a type that is not read.
    Other {
        /// Type of the answer.
        kind: u16,
        /// Bytes after the header of the answer.
        content: Vec<u8>,
    },
}

/// Maker and model of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDesc {
    /// Maker, at most 256 bytes.
    pub manufacturer: String,
    /// Model, at most 256 bytes.
    pub hardware: String,
    /// Software and its version.
    pub software: String,
    /// Serial number, at most 32 bytes.
    pub serial: String,
    /// Name that people gave the datapath.
    pub datapath: String,
}

/// Counters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Number of the table.
    pub table: u8,
    /// Flows in it.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched a flow.
    pub matched: u64,
}

/// Features of a table; its properties are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// Number of the table.
    pub table: u8,
    /// Name, at most 32 bytes.
    pub name: String,
    /// Most flows in it.
    pub max_entries: u32,
}

/// Settings of a table; its properties are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableDesc {
    /// Number of the table.
    pub table: u8,
    /// Settings by bits.
    pub config: u32,
}

/// Abilities of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bit `n` is set if groups of type `n` are offered.
    pub types: u32,
    /// Abilities by bits.
    pub capabilities: u32,
    /// Most groups of each type.
    pub max_groups: [u32; 4],
    /// Actions in buckets of each type, by bits.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    /// Most groups of a type; 0 if the type is not offered.
    #[must_use]
    pub fn limit(&self, kind: GroupType) -> u32 {
        let number = kind.number();
        let most = self.max_groups.get(usize::from(number)).copied().unwrap_or(0);
        if self.types.checked_shr(number.into()).unwrap_or(0) & 1 == 1 { most } else { 0 }
    }
}

impl MultipartReply {
    pub(crate) fn write(&self, version: Version, out: &mut Vec<u8>) {
        let kind = match &self.reply {
            Reply::Desc(_) => DESC,
            Reply::Flows(_) => FLOW,
            Reply::Tables(_) => TABLE,
            Reply::PortStats(_) => PORT_STATS,
            Reply::GroupStats(_) => GROUP,
            Reply::Groups(_) => GROUP_DESC,
            Reply::GroupFeatures(_) => GROUP_FEATURES,
            Reply::TableFeatures(_) => TABLE_FEATURES,
            Reply::Ports(_) => PORT_DESC,
            Reply::TableDescs(_) => TABLE_DESC,
            Reply::Other { kind, .. } => *kind,
        };
        out.u16(kind);
        out.u16(if self.more { MORE } else { 0 });
        out.zeros(4);
        match &self.reply {
            Reply::Desc(desc) => desc.write(out),
            Reply::Flows(flows) => flows.iter().for_each(|flow| flow.write(out)),
            Reply::Tables(tables) => tables.iter().for_each(|table| table.write(out)),
            Reply::PortStats(ports) => ports.iter().for_each(|port| port.write(version, out)),
            Reply::GroupStats(groups) => groups.iter().for_each(|group| group.write(out)),
            Reply::Groups(groups) => groups.iter().for_each(|group| group.write(out)),
            Reply::GroupFeatures(features) => features.write(out),
            Reply::TableFeatures(tables) => tables.iter().for_each(|table| table.write(out)),
            Reply::Ports(ports) => ports.iter().for_each(|port| port.write(version, out)),
            Reply::TableDescs(tables) => tables.iter().for_each(|table| table.write(out)),
            Reply::Other { content, .. } => out.bytes(content),
        }
    }

    pub(crate) fn read(version: Version, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        let reply = match (kind, version) {
            (DESC, _) => Reply::Desc(SwitchDesc::read(reader)?),
            (FLOW, _) => Reply::Flows(reader.all(FlowStats::read)?),
            (TABLE, _) => Reply::Tables(reader.all(TableStats::read)?),
            (PORT_STATS, _) => {
                Reply::PortStats(reader.all(|reader| PortStats::read(version, reader))?)
            }
            (GROUP, _) => Reply::GroupStats(reader.all(GroupStats::read)?),
            (GROUP_DESC, _) => Reply::Groups(reader.all(GroupDesc::read)?),
            (GROUP_FEATURES, _) => Reply::GroupFeatures(GroupFeatures::read(reader)?),
            (TABLE_FEATURES, _) => Reply::TableFeatures(reader.all(TableFeatures::read)?),
            (PORT_DESC, _) => Reply::Ports(reader.all(|reader| Port::read(version, reader))?),
            (TABLE_DESC, Version::V14) => Reply::TableDescs(reader.all(TableDesc::read)?),
            _ => Reply::Other { kind, content: reader.rest().to_vec() },
        };
        Ok(Self { more: flags & MORE != 0, reply })
    }
}

impl SwitchDesc {
    fn write(&self, out: &mut Vec<u8>) {
        out.text(&self.manufacturer, LONG_TEXT);
        out.text(&self.hardware, LONG_TEXT);
        out.text(&self.software, LONG_TEXT);
        out.text(&self.serial, SHORT_TEXT);
        out.text(&self.datapath, LONG_TEXT);
    }

    fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            manufacturer: reader.text(LONG_TEXT)?,
            hardware: reader.text(LONG_TEXT)?,
            software: reader.text(LONG_TEXT)?,
            serial: reader.text(SHORT_TEXT)?,
            datapath: reader.text(LONG_TEXT)?,
        })
    }
}

impl TableStats {
    fn write(&self, out: &mut Vec<u8>) {
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.active);
        out.u64(self.lookups);
        out.u64(self.matched);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let active = reader.u32()?;
        Ok(Self { table, active, lookups: reader.u64()?, matched: reader.u64()? })
    }
}

impl TableFeatures {
    fn write(&self, out: &mut Vec<u8>) {
        out.sized(0, |out| {
            out.u16(0); // length
            out.u8(self.table);
            out.zeros(5);
            out.text(&self.name, SHORT_TEXT);
            out.zeros(20); // metadata, settings
            out.u32(self.max_entries);
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut part = reader.sized(64, "table features")?;
        let table = part.u8()?;
        part.skip(5)?;
        let name = part.text(SHORT_TEXT)?;
        part.skip(20)?;
        Ok(Self { table, name, max_entries: part.u32()? })
    }
}

impl TableDesc {
    fn write(&self, out: &mut Vec<u8>) {
        out.sized(0, |out| {
            out.u16(0); // length
            out.u8(self.table);
            out.zeros(1);
            out.u32(self.config);
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut part = reader.sized(8, "table description")?;
        let table = part.u8()?;
        part.skip(1)?;
        Ok(Self { table, config: part.u32()? })
    }
}

impl GroupFeatures {
    fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.types);
        out.u32(self.capabilities);
        self.max_groups.iter().chain(&self.actions).for_each(|number| out.u32(*number));
    }

    fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let mut features =
            Self { types: reader.u32()?, capabilities: reader.u32()?, ..Self::default() };
        for number in features.max_groups.iter_mut().chain(&mut features.actions) {
            *number = reader.u32()?;
        }
        Ok(features)
    }
}
