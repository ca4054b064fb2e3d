//! Addresses that programs of a host send to without having joined them.
//!
//! Packets are not counted: one of each address is enough, for some time. So the owner looks at
//! packets to those addresses that [`ProgramSenders::watched`] names. It leaves out those that were
//! seen in the present period, and all new ones once the number of addresses is reached.
//!
//! Call [`ProgramSenders::handle_packet`] for each packet that was seen, and then
//! [`ProgramSenders::tick`], which also has to be called several times in each timeout; then read
//! [`ProgramSenders::addresses`] and [`ProgramSenders::watched`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use super::AddressRange;
use crate::ids::Moment;

/// Parts of the timeout in which each address is looked at once.
const PERIODS: u32 = 4;
/// Most addresses that are looked at in one period, be they joined or not.
const MOST_SEEN: usize = 1000;

/// Limits for what programs of an interface send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderLimits {
    /// Most addresses at a time; 0 to look at no packets.
    pub addresses: usize,
    /// Time without a packet after which an address is given up.
    pub timeout: Duration,
}

/// The addresses of one interface.
#[derive(Clone, Debug)]
pub struct ProgramSenders {
    limits: SenderLimits,
    ranges: Vec<AddressRange>,
    /// Time of the last packet that was seen, by address.
    heard: BTreeMap<Ipv4Addr, Moment>,
    joined: BTreeSet<Ipv4Addr>,
    /// Addresses that were seen in this period.
    seen: BTreeSet<Ipv4Addr>,
    period_ends: Moment,
}

/// Addresses whose packets are to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// All of the ranges, but for these.
    AllBut(BTreeSet<Ipv4Addr>),
    /// Only these addresses.
    Only(BTreeSet<Ipv4Addr>),
}

impl ProgramSenders {
    /// Creates the list, with nothing in it.
    ///
    /// - `ranges`: addresses that are groups; packets to others are ignored.
    #[must_use]
    pub fn new(limits: SenderLimits, ranges: Vec<AddressRange>) -> Self {
        Self {
            limits,
            ranges,
            heard: BTreeMap::new(),
            joined: BTreeSet::new(),
            seen: BTreeSet::new(),
            period_ends: Moment(0),
        }
    }

    /// Takes note of a packet to an address.
    pub fn handle_packet(&mut self, now: Moment, address: Ipv4Addr) {
        if !self.ranges.iter().any(|range| range.contains(address)) {
            return;
        }
        if self.seen.len() < MOST_SEEN || self.heard.contains_key(&address) {
            self.seen.insert(address);
        }
        let has_room = self.heard.len() < self.limits.addresses;
        if self.heard.contains_key(&address) || (has_room && !self.joined.contains(&address)) {
            self.heard.insert(address, now);
        }
    }

    /// Gives up the addresses that are joined now, and those that were silent for the timeout.
    ///
    /// - `joined`: what programs of the interface have joined.
    pub fn tick(&mut self, now: Moment, joined: &BTreeSet<Ipv4Addr>) {
        // Addresses that are not joined any more are news again.
        for address in self.joined.difference(joined) {
            self.seen.remove(address);
        }
        self.joined.clone_from(joined);
        let timeout = self.limits.timeout;
        self.heard.retain(|address, at| !joined.contains(address) && now.since(*at) < timeout);
        if now >= self.period_ends {
            self.seen.clear();
            self.period_ends = now.after(timeout / PERIODS);
        }
    }

    /// Addresses that programs send to and have not joined, ascending.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.heard.keys().copied()
    }

    /// True if there is no room for another address.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.heard.len() >= self.limits.addresses
    }

    /// Addresses whose packets are to be looked at from now on.
    #[must_use]
    pub fn watched(&self) -> Watched {
        if self.is_full() || self.seen.len() >= MOST_SEEN {
            let due = self.addresses().filter(|address| !self.seen.contains(address));
            return Watched::Only(due.collect());
        }
        Watched::AllBut(self.seen.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(239, 0, 0, last)
    }

    fn set(list: &[u8]) -> BTreeSet<Ipv4Addr> {
        list.iter().copied().map(address).collect()
    }

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    /// Room for two addresses, and a timeout of 60 s: a period is 15 s.
    fn senders() -> ProgramSenders {
        let limits = SenderLimits { addresses: 2, timeout: Duration::from_secs(60) };
        let mut senders = ProgramSenders::new(limits, vec!["239.0.0.0/24".parse().unwrap()]);
        senders.tick(at(100), &set(&[]));
        senders
    }

    fn addresses(senders: &ProgramSenders) -> BTreeSet<Ipv4Addr> {
        senders.addresses().collect()
    }

    #[test]
    fn an_address_stays_until_it_was_silent_for_the_timeout() {
        let mut senders = senders();
        senders.handle_packet(at(100), address(1));
        senders.handle_packet(at(100), Ipv4Addr::new(239, 9, 9, 9));
        assert_eq!(addresses(&senders), set(&[1]), "and not one of other ranges");
        senders.tick(at(150), &set(&[]));
        senders.handle_packet(at(150), address(1));
        senders.tick(at(209), &set(&[]));
        assert_eq!(addresses(&senders), set(&[1]));
        senders.tick(at(210), &set(&[]));
        assert_eq!(addresses(&senders), set(&[]));
    }

    #[test]
    fn an_address_that_is_joined_is_given_up_and_found_again_later() {
        let mut senders = senders();
        senders.handle_packet(at(100), address(1));
        senders.tick(at(101), &set(&[1]));
        assert_eq!(addresses(&senders), set(&[]));
        senders.handle_packet(at(102), address(1));
        assert_eq!(addresses(&senders), set(&[]), "members send, too");
        senders.tick(at(103), &set(&[]));
        assert_eq!(senders.watched(), Watched::AllBut(set(&[])), "its next packet is news");
        senders.handle_packet(at(104), address(1));
        assert_eq!(addresses(&senders), set(&[1]));
    }

    #[test]
    fn each_address_is_looked_at_once_in_a_period() {
        let mut senders = senders();
        senders.handle_packet(at(101), address(1));
        assert_eq!(senders.watched(), Watched::AllBut(set(&[1])));
        senders.tick(at(114), &set(&[]));
        assert_eq!(senders.watched(), Watched::AllBut(set(&[1])));
        senders.tick(at(115), &set(&[]));
        assert_eq!(senders.watched(), Watched::AllBut(set(&[])));
    }

    #[test]
    fn a_program_that_sends_to_many_addresses_takes_a_bounded_number() {
        let mut senders = senders();
        for last in 1..=9 {
            senders.handle_packet(at(101), address(last));
        }
        assert!(senders.is_full());
        assert_eq!(addresses(&senders), set(&[1, 2]));
        assert_eq!(senders.watched(), Watched::Only(set(&[])), "nothing more in this period");
        senders.tick(at(116), &set(&[]));
        assert_eq!(senders.watched(), Watched::Only(set(&[1, 2])));
        // Packets that were already queued are no reason to lose sight of them.
        senders.handle_packet(at(117), address(3));
        senders.handle_packet(at(117), address(2));
        assert_eq!(senders.watched(), Watched::Only(set(&[1])));
        senders.tick(at(162), &set(&[]));
        assert_eq!(addresses(&senders), set(&[2]));
        assert!(matches!(senders.watched(), Watched::AllBut(_)));
    }

    #[test]
    fn no_more_than_a_number_of_addresses_is_looked_at_in_a_period() {
        let limits = SenderLimits { addresses: 9, timeout: Duration::from_secs(60) };
        let mut senders = ProgramSenders::new(limits, vec!["239.0.0.0/8".parse().unwrap()]);
        let many = (0..=u16::MAX).map(|low| Ipv4Addr::from(0xef00_0000 + u32::from(low)));
        let joined: BTreeSet<Ipv4Addr> = many.take(2 * MOST_SEEN).collect();
        senders.tick(at(100), &joined);
        joined.iter().for_each(|one| senders.handle_packet(at(101), *one));
        assert_eq!(senders.seen.len(), MOST_SEEN);
        assert_eq!(senders.watched(), Watched::Only(set(&[])));
    }
}
