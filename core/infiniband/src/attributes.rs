//! Attributes of nodes, ports and switches: the fields of them that we use.
//!
//! Source: InfiniBand Architecture Specification, volume 1, §14.2.5.

use thiserror::Error;

use crate::smp::Data;

/// Reason why an attribute cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AttributeError {
    /// A node of a kind that does not exist.
    #[error("node type {value} is none of channel adapter, switch, router")]
    NodeType {
        /// Value in the packet.
        value: u8,
    },
    /// A port state that does not exist.
    #[error("port state {value} is not from 0 to 4")]
    PortState {
        /// Value in the packet.
        value: u8,
    },
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeType {
    /// A host's channel adapter.
    ChannelAdapter,
    /// A switch of any size.
    Switch,
    /// A router to another subnet.
    Router,
}

/// Attribute NodeInfo of a node (§14.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Kind of the node.
    pub kind: NodeType,
    /// Physical ports, without port 0 of a switch.
    pub ports: u8,
    /// GUID of the system.
    pub system_guid: u64,
    /// GUID of the node.
    pub guid: u64,
    /// GUID of the port the packet came to (port 0 of a switch).
    pub port_guid: u64,
    /// Device number given by the vendor.
    pub device: u32,
    /// Vendor number (OUI).
    pub vendor: u32,
    /// Port through which the packet arrived.
    pub local_port: u8,
}

impl NodeInfo {
    /// Decodes the attribute.
    ///
    /// # Errors
    ///
    /// [`AttributeError::NodeType`].
    pub fn read(data: &Data) -> Result<Self, AttributeError> {
        let kind = match data[2] {
            1 => NodeType::ChannelAdapter,
            2 => NodeType::Switch,
            3 => NodeType::Router,
            value => return Err(AttributeError::NodeType { value }),
        };
        Ok(Self {
            kind,
            ports: data[3],
            system_guid: wide(data, 4),
            guid: wide(data, 12),
            port_guid: wide(data, 20),
            device: u32::from(half(data, 30)),
            vendor: word(data, 36) & 0x00ff_ffff,
            local_port: data[36],
        })
    }
}

/// NodeDescription (§14.2.5.2): free text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription(pub String);

impl NodeDescription {
    /// Reads the text up to the first zero; what is not UTF-8 is replaced.
    #[must_use]
    pub fn read(data: &Data) -> Self {
        let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
        Self(String::from_utf8_lossy(&data[..end]).trim().to_owned())
    }
}

/// Attribute SwitchInfo of a switch (§14.2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchInfo {
    /// Entries of the multicast forwarding table.
    pub multicast_entries: u16,
    /// True if a port has changed its state since the flag was cleared.
    pub port_state_change: bool,
}

impl SwitchInfo {
    /// Decodes the attribute.
    #[must_use]
    pub fn read(data: &Data) -> Self {
        Self { multicast_entries: half(data, 4), port_state_change: data[11] & 0x04 != 0 }
    }
}

/// State of a port (§14.2.5.6, PortState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortState {
    /// The state is not reported.
    NoChange,
    /// The port has no link.
    Down,
    /// A link that carries management packets only.
    Initialize,
    /// A link that waits for activation.
    Armed,
    /// A link that carries everything.
    Active,
}

/// Attribute PortInfo of a port (§14.2.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Local identifier of the port; of a switch, that of port 0.
    pub lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// State of the port.
    pub state: PortState,
}

impl PortInfo {
    /// Decodes the attribute.
    ///
    /// # Errors
    ///
    /// [`AttributeError::PortState`].
    pub fn read(data: &Data) -> Result<Self, AttributeError> {
        let state = match data[32] & 0x0f {
            0 => PortState::NoChange,
            1 => PortState::Down,
            2 => PortState::Initialize,
            3 => PortState::Armed,
            4 => PortState::Active,
            value => return Err(AttributeError::PortState { value }),
        };
        Ok(Self { lid: half(data, 16), lmc: data[34] & 0x07, state })
    }

    /// True if management packets can cross the port.
    #[must_use]
    pub fn has_link(&self) -> bool {
        self.state >= PortState::Initialize
    }
}

fn half(data: &Data, at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

fn word(data: &Data, at: usize) -> u32 {
    u32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"))
}

fn wide(data: &Data, at: usize) -> u64 {
    u64::from_be_bytes(data[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_info_is_read_where_the_specification_has_it() {
        let mut data = [0; 64];
        data[2..4].copy_from_slice(&[2, 36]);
        data[4..12].copy_from_slice(&0x0a0b_u64.to_be_bytes());
        data[12..20].copy_from_slice(&0xec0d_9a03_00ec_8240_u64.to_be_bytes());
        data[20..28].copy_from_slice(&0x77_u64.to_be_bytes());
        data[30..32].copy_from_slice(&0xcb20_u16.to_be_bytes());
        data[36..40].copy_from_slice(&[19, 0x00, 0x02, 0xc9]);
        let expected = NodeInfo {
            kind: NodeType::Switch,
            ports: 36,
            system_guid: 0x0a0b,
            guid: 0xec0d_9a03_00ec_8240,
            port_guid: 0x77,
            device: 0xcb20,
            vendor: 0x2c9,
            local_port: 19,
        };
        assert_eq!(NodeInfo::read(&data), Ok(expected));
        data[2] = 9;
        assert_eq!(NodeInfo::read(&data), Err(AttributeError::NodeType { value: 9 }));
    }

    #[test]
    fn descriptions_end_at_the_first_zero() {
        let mut data = [0; 64];
        data[..9].copy_from_slice(b"node018 \0");
        data[10] = b'x';
        assert_eq!(NodeDescription::read(&data).0, "node018");
        assert_eq!(NodeDescription::read(&[b'a'; 64]).0.len(), 64);
    }

    #[test]
    fn a_port_has_a_link_from_initialize_on() {
        let mut data = [0; 64];
        data[16..18].copy_from_slice(&48_u16.to_be_bytes());
        for (value, link) in [(0x51, false), (0x52, true), (0x54, true)] {
            data[32] = value;
            let info = PortInfo::read(&data).unwrap();
            assert_eq!((info.lid, info.has_link()), (48, link));
        }
        data[32] = 0x0f;
        assert_eq!(PortInfo::read(&data), Err(AttributeError::PortState { value: 15 }));
    }

    #[test]
    fn switch_info_tells_the_size_of_the_table() {
        let mut data = [0; 64];
        data[4..6].copy_from_slice(&1024_u16.to_be_bytes());
        data[11] = 0x94;
        let info = SwitchInfo { multicast_entries: 1024, port_state_change: true };
        assert_eq!(SwitchInfo::read(&data), info);
    }
}
