//! The alias of a bridge, by which an agent tells the next one what it leaves there, as
//! `fabricast-term-7-of-239.192.0.0/22,239.0.0.0/9`. It lives as long as the entries do.

use std::fmt;

use fabricast_groups::programs::AddressRange;

const TERM: &str = "fabricast-term-";
const RANGES: &str = "-of-";
/// Most ranges in an alias. Linux takes 255 bytes: 39 beside the ranges, and 19 for each.
pub(super) const MOST_RANGES: usize = 9;

/// Content of the alias of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Alias {
    /// Term of the newest writer; 0 if nobody has written.
    pub(super) term: u64,
    /// Ranges of addresses whose written entries are ours; empty if no agent has said so.
    pub(super) ranges: Vec<AddressRange>,
}

impl Alias {
    /// Reads the alias of a bridge; that of somebody else says nothing.
    pub(super) fn read(text: &str) -> Self {
        let Some(rest) = text.strip_prefix(TERM) else { return Self::default() };
        let (term, ranges) = rest.split_once(RANGES).unwrap_or((rest, ""));
        let ranges = ranges.split(',').filter_map(|range| range.parse().ok()).collect();
        Self { term: term.parse().unwrap_or(0), ranges }
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { term, ranges } = self;
        let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        write!(f, "{TERM}{term}{RANGES}{}", ranges.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_read_as_it_was_written() {
        let ranges = ["239.192.0.0/22", "239.0.0.0/9"].map(|text| text.parse().unwrap()).to_vec();
        let alias = Alias { term: 7, ranges };
        assert_eq!(alias.to_string(), "fabricast-term-7-of-239.192.0.0/22,239.0.0.0/9");
        assert_eq!(Alias::read(&alias.to_string()), alias);
    }

    #[test]
    fn an_alias_without_ranges_has_the_term_and_another_one_nothing() {
        assert_eq!(Alias::read("fabricast-term-7"), Alias { term: 7, ranges: Vec::new() });
        for other in ["", "uplink", "uplink-of-239.0.0.0/9"] {
            assert_eq!(Alias::read(other), Alias::default(), "{other}");
        }
    }

    #[test]
    fn the_longest_alias_is_one_that_linux_takes() {
        let range = "239.255.255.255/32".parse().unwrap();
        let longest = Alias { term: u64::MAX, ranges: vec![range; MOST_RANGES] };
        assert!(longest.to_string().len() <= 255, "{longest}");
    }
}
