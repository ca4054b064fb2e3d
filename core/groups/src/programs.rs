//! Programs that use IP multicast by themselves: what they have joined, as Linux lists it.
//!
//! The list (`/proc/net/igmp`) has what programs hold at this moment, whatever they did before, so
//! a program that died is not in it. What they send to without having joined is in no list: that is
//! [`ProgramSenders`].

mod senders;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use thiserror::Error;

pub use senders::{ProgramSenders, SenderLimits, Watched};

/// Addresses of one network only, which no router forwards (RFC 5771).
const LINK_LOCAL: AddressRange = AddressRange { first: Ipv4Addr::new(224, 0, 0, 0), length: 24 };

/// A range of IPv4 multicast addresses, as `239.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: Ipv4Addr,
    length: u32,
}

/// Reason why a text is no range of multicast addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// It has another form.
    #[error("'{0}' is not of the form 239.1.0.0/16")]
    Form(String),
    /// The first address is not that of the range.
    #[error("'{text}' begins at {first}")]
    Start {
        /// The range as it was written.
        text: String,
        /// The first address of the range.
        first: Ipv4Addr,
    },
    /// It has addresses that are not for groups.
    #[error(
        "'{0}' is not in 224.0.0.0/4, or has addresses of 224.0.0.0/24, which no switch forwards"
    )]
    NotMulticast(String),
}

impl AddressRange {
    /// True if the address is in the range.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask() == u32::from(self.first)
    }

    /// Returns the lowest address.
    pub fn first(self) -> Ipv4Addr {
        self.first
    }

    /// Returns the highest address.
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first) | !self.mask())
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - self.length).unwrap_or(0)
    }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let form = || RangeError::Form(text.to_owned());
        let (first, length) = text.split_once('/').ok_or_else(form)?;
        let range = Self {
            first: first.parse().map_err(|_| form())?,
            length: length.parse().ok().filter(|length| *length <= 32).ok_or_else(form)?,
        };
        let first = Ipv4Addr::from(u32::from(range.first) & range.mask());
        if range.length < 4
            || !first.is_multicast()
            || range.contains(LINK_LOCAL.first)
            || LINK_LOCAL.contains(first)
        {
            return Err(RangeError::NotMulticast(text.to_owned()));
        }
        if first != range.first {
            return Err(RangeError::Start { text: text.to_owned(), first });
        }
        Ok(range)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

/// Addresses that programs have joined on one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Number of the interface.
    pub index: u32,
    /// IP multicast addresses of all its programs.
    pub addresses: BTreeSet<Ipv4Addr>,
}

/// Reads the list, by the name of the interface. Lines of another form are skipped.
///
/// - `list`: content of `/proc/net/igmp`, written by the kernel of this machine.
pub fn read_joined(list: &str) -> BTreeMap<String, Joined> {
    let mut interfaces = BTreeMap::new();
    let mut current = None;
    for line in list.lines() {
        // Addresses of an interface are indented below it.
        if line.starts_with(['\t', ' ']) {
            let text = line.split_whitespace().next().unwrap_or_default();
            // The kernel prints the four bytes as a number of its own order.
            let address = u32::from_str_radix(text, 16).map(|number| number.to_ne_bytes());
            if let (Ok(address), Some(name)) = (address, &current)
                && let Some(Joined { addresses, .. }) = interfaces.get_mut(name)
            {
                addresses.insert(Ipv4Addr::from(address));
            }
            continue;
        }
        let interface = line.rsplit_once(':').and_then(|(left, _)| left.split_once('\t'));
        current = interface.and_then(|(index, name)| {
            let (index, name) = (index.trim().parse().ok()?, name.trim().to_owned());
            interfaces.insert(name.clone(), Joined { index, ..Joined::default() });
            Some(name)
        });
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_kernel_is_read_by_interface() {
        let number = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let (one, other) = (number([239, 7, 7, 7]), number([224, 0, 0, 1]));
        let list = format!(
            "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
             1\tlo        :     1      V3\n\t\t\t\t{other}     1 0:00000000\t\t0\n\
             12\teth0      :     2      V3\n\t\t\t\t{one}     2 0:00000000\t\t0\n\
             \t\t\t\t{other}     1 0:00000000\t\t0\nnonsense\n\t\t\t\t{one}     1\n"
        );
        let read = read_joined(&list);
        let joined = |index, addresses: &[[u8; 4]]| Joined {
            index,
            addresses: addresses.iter().copied().map(Ipv4Addr::from).collect(),
        };
        assert_eq!(read.keys().collect::<Vec<_>>(), ["eth0", "lo"]);
        assert_eq!(read["lo"], joined(1, &[[224, 0, 0, 1]]));
        assert_eq!(read["eth0"], joined(12, &[[239, 7, 7, 7], [224, 0, 0, 1]]));
    }

    #[test]
    fn a_range_has_its_addresses_and_no_others() {
        let range: AddressRange = "239.128.0.0/10".parse().unwrap();
        assert!(range.contains(Ipv4Addr::new(239, 191, 255, 255)));
        assert!(!range.contains(Ipv4Addr::new(239, 192, 0, 0)));
        assert_eq!(range.to_string(), "239.128.0.0/10");
        let ends = (range.first(), range.last());
        assert_eq!(ends, (Ipv4Addr::new(239, 128, 0, 0), Ipv4Addr::new(239, 191, 255, 255)));
        let one: AddressRange = "232.0.0.1/32".parse().unwrap();
        assert!(
            one.contains(Ipv4Addr::new(232, 0, 0, 1)) && !one.contains(Ipv4Addr::new(232, 0, 0, 2))
        );
        let refused = |text: &str| text.parse::<AddressRange>().unwrap_err().to_string();
        for text in ["", "239.0.0.0", "239.0.0/8", "239.0.0.0/33", "239.0.0.0/x"] {
            assert!(refused(text).contains("is not of the form"), "{text}");
        }
        assert_eq!(refused("239.1.0.0/8"), "'239.1.0.0/8' begins at 239.0.0.0");
        for text in ["10.0.0.0/8", "224.0.0.0/4", "224.0.0.0/24", "224.0.0.22/32", "0.0.0.0/0"] {
            assert!(refused(text).contains("is not in 224.0.0.0/4"), "{text}");
        }
    }
}
