//! Messages between a controller and a switch.
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.1 (header) and §7.5.1 (hello).

use crate::bundle::BundleControl;
use crate::error::ErrorMessage;
use crate::fields::{Field, Match};
use crate::flow::FlowMod;
use crate::group::GroupMod;
use crate::multipart::{MultipartReply, MultipartRequest};
use crate::port::PortStatus;
use crate::switch::{AsyncMessages, Features, RoleMessage, RoleStatus};
use crate::version::Version;
use crate::wire::{DecodeError, Put, Reader};

/// Bytes of the header of every message.
pub(crate) const HEADER: usize = 8;
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const EXPERIMENTER: u8 = 4;
/// Experimenter id of the Open Networking Foundation.
const ONF: u32 = 0x4f4e_4600;
/// Messages of extension 230.
const ONF_BUNDLE_CONTROL: u32 = 2300;
const ONF_BUNDLE_ADD: u32 = 2301;
const BUNDLE_CONTROL: u8 = 33;
const BUNDLE_ADD: u8 = 34;
/// Hello element with a set of versions.
const VERSION_BITMAP: u16 = 1;

/// First message of both sides: the versions that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Bit `n` is set if wire version `n` is spoken.
    pub versions: u32,
}

impl Hello {
    /// The versions that this crate speaks.
    pub const OURS: Self = Self { versions: 1 << 4 | 1 << 5 };

    /// The newest version that both sides speak.
    #[must_use]
    pub fn agreed(self, other: Self) -> Option<Version> {
        let common = self.versions & other.versions;
        [Version::V14, Version::V13].into_iter().find(|one| common >> one.number() & 1 == 1)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.u16(VERSION_BITMAP);
        out.u16(8);
        out.u32(self.versions);
    }

    /// - `header`: version in the header, the newest one that the sender speaks; without a set of
    ///   versions it speaks all older ones, too.
    fn read(header: u8, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        while reader.left() >= 4 {
            let kind = reader.u16()?;
            let length = usize::from(reader.u16()?);
            let what = "hello element";
            let content = length.checked_sub(4).ok_or(DecodeError::Length { what, length })?;
            let mut content = reader.part(content, what)?;
            if kind == VERSION_BITMAP {
                return Ok(Self { versions: content.u32()? });
            }
            let padding = length.next_multiple_of(8) - length;
            reader.skip(padding.min(reader.left()))?;
        }
        Ok(Self { versions: u32::MAX >> (31 - u32::from(header.min(31))) & !1 })
    }
}

/// A packet that a switch hands to its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Buffer in which the switch keeps the packet, or all ones.
    pub buffer: u32,
    /// Length of the packet in bytes; the data may be shorter.
    pub total_length: u16,
    /// Reason why it was sent.
    pub reason: u8,
    /// Table of the flow that sent it.
    pub table: u8,
    /// Cookie of the flow that sent it.
    pub cookie: u64,
    /// Fields of the packet, the input port among them.
    pub conditions: Match,
    /// The packet, or its start.
    pub data: Vec<u8>,
}

/// A packet that a controller has a switch send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Port that it counts as having come in by, such as
    /// [`CONTROLLER_PORT`](crate::CONTROLLER_PORT).
    pub in_port: u32,
    /// Actions on the packet.
    pub actions: Vec<crate::Action>,
    /// Whole Ethernet frame.
    pub data: Vec<u8>,
}

/// Adds a change to a bundle. It has the transaction id of the message that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// Id of the bundle.
    pub bundle: u32,
    /// Flags, see [`bundle_flags`](crate::bundle_flags); the same in all messages of a bundle.
    pub flags: u16,
    /// Message that changes flows or groups.
    pub change: Box<Body>,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Versions that a side speaks.
    Hello(Hello),
    /// Refusal of a message.
    Error(ErrorMessage),
    /// Asks for a sign of life.
    EchoRequest(Vec<u8>),
    /// Sign of life with the data of the request.
    EchoReply(Vec<u8>),
    /// Asks for the features.
    FeaturesRequest,
    /// Features of a switch.
    FeaturesReply(Features),
    /// Packet for the controller.
    PacketIn(PacketIn),
    /// A port changed.
    PortStatus(PortStatus),
    /// Packet to be sent.
    PacketOut(PacketOut),
    /// Change of flows.
    FlowMod(FlowMod),
    /// Change of a group.
    GroupMod(GroupMod),
    /// Asks for descriptions or counters.
    MultipartRequest(MultipartRequest),
    /// Descriptions or counters.
    MultipartReply(MultipartReply),
    /// Asks for a reply once all messages before are processed.
    BarrierRequest,
    /// All messages before the request are processed.
    BarrierReply,
    /// Asks for a role.
    RoleRequest(RoleMessage),
    /// Role that the controller has now.
    RoleReply(RoleMessage),
    /// Messages that the switch is to send unasked.
    SetAsync(AsyncMessages),
    /// A controller has another role now; 1.4.
    RoleStatus(RoleStatus),
    /// Step of a bundle.
    BundleControl(BundleControl),
    /// Change that is added to a bundle.
    BundleAdd(BundleAdd),
    /// Message of a type that is not read.
    Other {
        /// Type of the message.
        kind: u8,
        /// Content after the header.
        content: Vec<u8>,
    },
}

/// A message of either side, without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Transaction id: an answer or refusal has that of the message it answers.
    pub xid: u32,
    /// Kind and content of the message.
    pub body: Body,
}

impl Message {
    /// Encodes the message for the wire.
    ///
    /// A message longer than [`MAX_MESSAGE`](crate::MAX_MESSAGE) has a length field of that size,
    /// so it must not be sent: the sender checks its length.
    #[must_use]
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        self.body.write_message(version, self.xid, &mut bytes);
        bytes
    }

    /// Decodes one message, as [`Framer`](crate::Framer) cuts it out, and its version. A hello or
    /// error of a version that is not spoken here counts as the nearest one.
    ///
    /// # Errors
    ///
    /// [`DecodeError`]: the sender is at fault; the connection is of no further use.
    pub fn decode(bytes: &[u8]) -> Result<(Version, Self), DecodeError> {
        Self::decode_at(bytes, 0)
    }

    /// - `depth`: bundles that the message is nested in.
    pub(crate) fn decode_at(bytes: &[u8], depth: u32) -> Result<(Version, Self), DecodeError> {
        let mut reader = Reader::new(bytes, "message");
        let (number, kind) = (reader.u8()?, reader.u8()?);
        let length = usize::from(reader.u16()?);
        if length != bytes.len() {
            return Err(DecodeError::Length { what: "message", length });
        }
        let xid = reader.u32()?;
        let version = match Version::of(number) {
            Some(version) => version,
            None if kind == HELLO || kind == ERROR => {
                if number < Version::V13.number() {
                    Version::V13
                } else {
                    Version::V14
                }
            }
            None => return Err(DecodeError::Version { version: number }),
        };
        let body = match kind {
            HELLO => Body::Hello(Hello::read(number, reader.named("hello"))?),
            BUNDLE_ADD if version == Version::V14 => {
                let reader = reader.named("bundle add");
                Body::BundleAdd(BundleAdd::read(reader, version, xid, depth)?)
            }
            EXPERIMENTER if version == Version::V13 => {
                extension(reader.named("experimenter"), xid, depth)?
            }
            _ => Body::read(version, kind, reader)?,
        };
        Ok((version, Self { xid, body }))
    }
}

/// Reads a message of an extension to 1.3.
fn extension(reader: Reader<'_>, xid: u32, depth: u32) -> Result<Body, DecodeError> {
    let mut content = reader;
    match (content.u32()?, content.u32()?) {
        (ONF, ONF_BUNDLE_CONTROL) => Ok(Body::BundleControl(BundleControl::read(content)?)),
        (ONF, ONF_BUNDLE_ADD) => {
            Ok(Body::BundleAdd(BundleAdd::read(content, Version::V13, xid, depth)?))
        }
        _ => {
            let mut whole = reader;
            Ok(Body::Other { kind: EXPERIMENTER, content: whole.rest().to_vec() })
        }
    }
}

impl Body {
    fn kind(&self, version: Version) -> u8 {
        match self {
            Self::Hello(_) => HELLO,
            Self::Error(_) => ERROR,
            Self::EchoRequest(_) => 2,
            Self::EchoReply(_) => 3,
            Self::FeaturesRequest => 5,
            Self::FeaturesReply(_) => 6,
            Self::PacketIn(_) => 10,
            Self::PortStatus(_) => 12,
            Self::PacketOut(_) => 13,
            Self::FlowMod(_) => 14,
            Self::GroupMod(_) => 15,
            Self::MultipartRequest(_) => 18,
            Self::MultipartReply(_) => 19,
            Self::BarrierRequest => 20,
            Self::BarrierReply => 21,
            Self::RoleRequest(_) => 24,
            Self::RoleReply(_) => 25,
            Self::SetAsync(_) => 28,
            Self::RoleStatus(_) => 30,
            Self::BundleControl(_) | Self::BundleAdd(_) if version == Version::V13 => EXPERIMENTER,
            Self::BundleControl(_) => BUNDLE_CONTROL,
            Self::BundleAdd(_) => BUNDLE_ADD,
            Self::Other { kind, .. } => *kind,
        }
    }

    pub(crate) fn write_message(&self, version: Version, xid: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.u8(version.number());
        out.u8(self.kind(version));
        out.u16(0); // length
        out.u32(xid);
        self.write_content(version, xid, out);
        let length = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
        out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn write_content(&self, version: Version, xid: u32, out: &mut Vec<u8>) {
        let extension = |out: &mut Vec<u8>, number| {
            if version == Version::V13 {
                out.u32(ONF);
                out.u32(number);
            }
        };
        match self {
            Self::Hello(hello) => hello.write(out),
            Self::Error(error) => {
                out.u16(error.kind);
                out.u16(error.code);
                out.bytes(&error.data);
            }
            Self::EchoRequest(data) | Self::EchoReply(data) | Self::Other { content: data, .. } => {
                out.bytes(data);
            }
            Self::FeaturesRequest | Self::BarrierRequest | Self::BarrierReply => {}
            Self::FeaturesReply(features) => features.write(out),
            Self::PacketIn(packet) => {
                out.u32(packet.buffer);
                out.u16(packet.total_length);
                out.u8(packet.reason);
                out.u8(packet.table);
                out.u64(packet.cookie);
                packet.conditions.write(out);
                out.zeros(2);
                out.bytes(&packet.data);
            }
            Self::PortStatus(status) => status.write(version, out),
            Self::PacketOut(packet) => packet.write(out),
            Self::FlowMod(change) => change.write(out),
            Self::GroupMod(change) => change.write(out),
            Self::MultipartRequest(request) => request.write(out),
            Self::MultipartReply(reply) => reply.write(version, out),
            Self::RoleRequest(role) | Self::RoleReply(role) => role.write(out),
            Self::SetAsync(messages) => messages.write(version, out),
            Self::RoleStatus(status) => status.write(out),
            Self::BundleControl(control) => {
                extension(out, ONF_BUNDLE_CONTROL);
                control.write(out);
            }
            Self::BundleAdd(add) => {
                extension(out, ONF_BUNDLE_ADD);
                add.write(version, xid, out);
            }
        }
    }

    fn read(version: Version, kind: u8, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match (kind, version) {
            (ERROR, _) => {
                let (kind, code) = (reader.u16()?, reader.u16()?);
                Self::Error(ErrorMessage { kind, code, data: reader.rest().to_vec() })
            }
            (2, _) => Self::EchoRequest(reader.rest().to_vec()),
            (3, _) => Self::EchoReply(reader.rest().to_vec()),
            (5, _) => Self::FeaturesRequest,
            (6, _) => Self::FeaturesReply(Features::read(reader.named("features"))?),
            (10, _) => Self::PacketIn(PacketIn::read(reader.named("packet in"))?),
            (12, _) => Self::PortStatus(PortStatus::read(version, reader.named("port status"))?),
            (13, _) => Self::PacketOut(PacketOut::read(reader.named("packet out"))?),
            (14, _) => Self::FlowMod(FlowMod::read(reader.named("flow change"))?),
            (15, _) => Self::GroupMod(GroupMod::read(reader.named("group change"))?),
            (18, _) => Self::MultipartRequest(MultipartRequest::read(reader.named("request"))?),
            (19, _) => Self::MultipartReply(MultipartReply::read(version, reader.named("reply"))?),
            (20, _) => Self::BarrierRequest,
            (21, _) => Self::BarrierReply,
            (24, _) => Self::RoleRequest(RoleMessage::read(reader.named("role request"))?),
            (25, _) => Self::RoleReply(RoleMessage::read(reader.named("role reply"))?),
            (28, _) => Self::SetAsync(AsyncMessages::read(version, reader.named("asynchronous"))?),
            (30, Version::V14) => Self::RoleStatus(RoleStatus::read(reader.named("role status"))?),
            (BUNDLE_CONTROL, Version::V14) => {
                Self::BundleControl(BundleControl::read(reader.named("bundle control"))?)
            }
            _ => Self::Other { kind, content: reader.rest().to_vec() },
        })
    }
}

impl BundleAdd {
    pub(crate) fn write(&self, version: Version, xid: u32, out: &mut Vec<u8>) {
        out.u32(self.bundle);
        out.zeros(2);
        out.u16(self.flags);
        self.change.write_message(version, xid, out);
    }

    /// - `depth`: bundles that this one is nested in.
    pub(crate) fn read(
        mut reader: Reader<'_>,
        version: Version,
        outer: u32,
        depth: u32,
    ) -> Result<Self, DecodeError> {
        if depth > 0 {
            return Err(DecodeError::Value { what: "bundle within a bundle", value: depth });
        }
        let bundle = reader.u32()?;
        reader.skip(2)?;
        let flags = reader.u16()?;
        // Properties may follow the message.
        let mut header = reader;
        header.skip(2)?;
        let length = usize::from(header.u16()?);
        let (inner, message) = Message::decode_at(reader.take(length)?, depth + 1)?;
        if inner != version {
            return Err(DecodeError::Version { version: inner.number() });
        }
        if message.xid != outer {
            return Err(DecodeError::BundleXid { inner: message.xid, outer });
        }
        Ok(Self { bundle, flags, change: Box::new(message.body) })
    }
}

impl PacketIn {
    /// Number of the port that the packet came in by.
    #[must_use]
    pub fn in_port(&self) -> Option<u32> {
        self.conditions.fields.iter().find_map(|field| match field {
            Field::InPort(port) => Some(*port),
            Field::EthSrc { .. }
            | Field::EthType(_)
            | Field::Ipv4Dst { .. }
            | Field::Other { .. } => None,
        })
    }

    fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (buffer, total_length) = (reader.u32()?, reader.u16()?);
        let (reason, table, cookie) = (reader.u8()?, reader.u8()?, reader.u64()?);
        let conditions = Match::read(&mut reader)?;
        reader.skip(2)?;
        let data = reader.rest().to_vec();
        Ok(Self { buffer, total_length, reason, table, cookie, conditions, data })
    }
}

impl PacketOut {
    fn write(&self, out: &mut Vec<u8>) {
        out.u32(u32::MAX); // no buffer
        out.u32(self.in_port);
        let place = out.len();
        out.zeros(8); // length of the actions, padding
        self.actions.iter().for_each(|action| action.write(out));
        let length = u16::try_from(out.len() - place - 8).unwrap_or(u16::MAX);
        out[place..place + 2].copy_from_slice(&length.to_be_bytes());
        out.bytes(&self.data);
    }

    fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        reader.skip(4)?; // buffer
        let in_port = reader.u32()?;
        let length = usize::from(reader.u16()?);
        reader.skip(6)?;
        let actions = reader.part(length, "actions")?.all(crate::Action::read)?;
        Ok(Self { in_port, actions, data: reader.rest().to_vec() })
    }
}

#[cfg(test)]
mod tests;
