//! Match fields of flows (OXM).
//!
//! Source: OpenFlow Switch Specification 1.3.5, §7.2.2.

use std::net::Ipv4Addr;

use crate::wire::{DecodeError, Put, Reader, padding};

/// Type of the only match format.
const OXM: u16 = 1;
/// Class of the standard fields.
const BASIC: u16 = 0x8000;
/// Ethernet type of IPv4.
pub(crate) const IPV4: u16 = 0x0800;
const IN_PORT: u8 = 0;
const ETH_SRC: u8 = 4;
const ETH_TYPE: u8 = 5;
const IPV4_DST: u8 = 12;

/// Conditions on a packet, all of which must hold. Empty: every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The conditions; a field comes after those that it depends on.
    pub fields: Vec<Field>,
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// Port by which the packet came in.
    InPort(u32),
    /// Ethernet source address.
    EthSrc {
        /// Address to compare with.
        address: [u8; 6],
        /// Bits of the address that count; `None` for all.
        mask: Option<[u8; 6]>,
    },
    /// Ethernet type, such as 0x0800 for IPv4.
    EthType(u16),
    /// IPv4 destination address.
    Ipv4Dst {
        /// Address to compare with.
        address: Ipv4Addr,
        /// Bits of the address that count; `None` for all.
        mask: Option<Ipv4Addr>,
    },
    /// Field that is not read.
    Other {
        /// Class of the field.
        class: u16,
        /// Number of the field within its class, 7 bits.
        field: u8,
        /// True if the second half of the value is a mask.
        has_mask: bool,
        /// Value, with the mask if there is one; at most 255 bytes.
        value: Vec<u8>,
    },
}

impl Field {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut put = |class, field: u8, has_mask: bool, value: &[u8]| {
            out.u16(class);
            out.u8(field << 1 | u8::from(has_mask));
            out.u8(u8::try_from(value.len()).unwrap_or(u8::MAX));
            out.bytes(&value[..value.len().min(usize::from(u8::MAX))]);
        };
        match self {
            Self::InPort(port) => put(BASIC, IN_PORT, false, &port.to_be_bytes()),
            Self::EthSrc { address, mask: None } => put(BASIC, ETH_SRC, false, address),
            Self::EthSrc { address, mask: Some(mask) } => {
                put(BASIC, ETH_SRC, true, &[*address, *mask].concat());
            }
            Self::EthType(kind) => put(BASIC, ETH_TYPE, false, &kind.to_be_bytes()),
            Self::Ipv4Dst { address, mask: None } => {
                put(BASIC, IPV4_DST, false, &address.octets());
            }
            Self::Ipv4Dst { address, mask: Some(mask) } => {
                put(BASIC, IPV4_DST, true, &[address.octets(), mask.octets()].concat());
            }
            Self::Other { class, field, has_mask, value } => put(*class, *field, *has_mask, value),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let class = reader.u16()?;
        let kind = reader.u8()?;
        let (field, has_mask) = (kind >> 1, kind & 1 == 1);
        let length = usize::from(reader.u8()?);
        let value = reader.take(length)?;
        let word = |at: usize| {
            let bytes: Option<[u8; 4]> = value.get(at..at + 4)?.try_into().ok();
            bytes.map(u32::from_be_bytes)
        };
        let mac = |at: usize| -> Option<[u8; 6]> { value.get(at..at + 6)?.try_into().ok() };
        let known = match (class, field, has_mask, length) {
            (BASIC, IN_PORT, false, 4) => word(0).map(Self::InPort),
            (BASIC, ETH_SRC, false, 6) => {
                mac(0).map(|address| Self::EthSrc { address, mask: None })
            }
            (BASIC, ETH_SRC, true, 12) => {
                mac(0).zip(mac(6)).map(|(address, mask)| Self::EthSrc { address, mask: Some(mask) })
            }
            (BASIC, ETH_TYPE, false, 2) => {
                Some(Self::EthType(u16::from_be_bytes([value[0], value[1]])))
            }
            (BASIC, IPV4_DST, false, 4) => {
                word(0).map(|address| Self::Ipv4Dst { address: address.into(), mask: None })
            }
            (BASIC, IPV4_DST, true, 8) => word(0).zip(word(4)).map(|(address, mask)| {
                Self::Ipv4Dst { address: address.into(), mask: Some(mask.into()) }
            }),
            _ => None,
        };
        Ok(known.unwrap_or_else(|| Self::Other { class, field, has_mask, value: value.to_vec() }))
    }
}

impl Match {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.sized(2, |out| {
            out.u16(OXM);
            out.u16(0); // length
            self.fields.iter().for_each(|field| field.write(out));
        });
    }

    /// Reads a match with its padding.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "match";
        let kind = reader.u16()?;
        if kind != OXM {
            return Err(DecodeError::Value { what: "match type", value: kind.into() });
        }
        let length = usize::from(reader.u16()?);
        let Some(content) = length.checked_sub(4) else {
            return Err(DecodeError::Length { what, length });
        };
        let fields = reader.part(content, what)?.all(Field::read)?;
        reader.skip(padding(length))?;
        Ok(Self { fields })
    }
}

impl FromIterator<Field> for Match {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        Self { fields: fields.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of `ovs-ofctl -O OpenFlow13 add-flow br in_port=3,ip,nw_dst=239.192.0.5/32`.
    #[test]
    fn a_match_is_padded_and_its_length_is_not() {
        let address = Ipv4Addr::new(239, 192, 0, 5);
        let fields =
            [Field::InPort(3), Field::EthType(0x0800), Field::Ipv4Dst { address, mask: None }];
        let mut bytes = Vec::new();
        Match::from_iter(fields.clone()).write(&mut bytes);
        let golden = [
            0, 1, 0, 26, // type, length
            0x80, 0, 0, 4, 0, 0, 0, 3, // in_port
            0x80, 0, 10, 2, 8, 0, // eth_type
            0x80, 0, 24, 4, 239, 192, 0, 5, // ipv4_dst
            0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes, golden);
        let read = Match::read(&mut Reader::new(&bytes, "match"));
        assert_eq!(read, Ok(Match::from_iter(fields)));
    }

    #[test]
    fn a_length_below_its_own_header_is_refused() {
        let short = Match::read(&mut Reader::new(&[0, 1, 0, 3, 0, 0, 0, 0], "match"));
        assert_eq!(short, Err(DecodeError::Length { what: "match", length: 3 }));
    }
}
