//! Settings of the switch agent's InfiniBand driver.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::problem::Problems;
use crate::value::check_positive;

/// Routing of packets to switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingName {
    /// Directed routes, hop by hop from the agent.
    #[default]
    Directed,
    /// LIDs, where a switch has one and answers by it.
    Lid,
}

/// Checked settings of the InfiniBand driver.
#[derive(Clone, PartialEq, Eq)]
pub struct InfinibandConfig {
    /// Adapter; `None` for the first with an active port.
    pub adapter: Option<String>,
    /// Port of the adapter, 0 for the first active one.
    pub port: u8,
    /// Management key of the switches, 0 without one.
    pub management_key: u64,
    /// Table entry of color 0.
    pub first_entry: u16,
    /// Entries to use at most; `None` for all.
    pub colors: Option<u16>,
    /// Path of the expected fabric; `None` to expect the first one discovered.
    pub topology: Option<PathBuf>,
    /// If true, discovered topologies are reported to the TIC.
    pub report_topology: bool,
    /// Time between two discoveries of the fabric.
    pub sweep: Duration,
    /// Timeout of a packet to a switch.
    pub timeout: Duration,
    /// Retries after a timeout.
    pub retries: u16,
    /// Routing of packets to switches.
    pub routing: RoutingName,
}

impl Default for InfinibandConfig {
    fn default() -> Self {
        let checked = RawInfinibandConfig::default().check(&mut Problems::new("switch_agent"));
        checked.expect("the defaults are good")
    }
}

impl fmt::Debug for InfinibandConfig {
    // The management key stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InfinibandConfig").field("adapter", &self.adapter).finish_non_exhaustive()
    }
}

/// Section `[switch_agent.infiniband]` as written.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawInfinibandConfig {
    /// Adapter, such as `mlx5_0`. Left out: the first that has an active port.
    pub adapter: Option<String>,
    /// Port of the adapter. Default 0: its first active one.
    pub port: u8,
    /// Management key (M_Key) of the switches, as `"0x1122334455667788"`. Left out: they have none.
    pub management_key: Option<String>,
    /// Table entry of color 0, 0 to 16383. Default 1: entry 0, multicast LID 0xC000, is the
    /// IPoIB broadcast group's wherever a subnet manager runs.
    pub first_entry: u16,
    /// Entries to use at most, at least 1. Left out: all that a switch has.
    pub colors: Option<u16>,
    /// File with the fabric as it ought to be, as the TIC's own; what is missing of it counts as
    /// failed. Left out: what is found at the start, so a part that is dead then is not missed.
    pub topology: Option<PathBuf>,
    /// Report the discovered topology to the TIC, for a TIC with `topology = "discovered"`; what it
    /// knows then is the fabric as it ought to be. Default false.
    pub report_topology: bool,
    /// Time between two looks at the whole fabric for parts that failed or came back. Default 2s: a
    /// look costs about 40 packets a switch.
    #[serde(with = "humantime_serde")]
    pub sweep: Duration,
    /// Timeout of a packet to a switch. Default 200ms: it takes well under 1ms where
    /// nothing is lost.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Retries of a packet. Default 3.
    pub retries: u16,
    /// Routing of packets to switches: `directed` or `lid`. Default `directed`: it
    /// needs no subnet manager. With `lid` no switch on the way handles the packets itself; a
    /// switch that has no LID or does not answer by it is asked along the directed route all the
    /// same.
    pub routing: RoutingName,
}

impl Default for RawInfinibandConfig {
    fn default() -> Self {
        Self {
            adapter: None,
            port: 0,
            management_key: None,
            first_entry: 1,
            colors: None,
            topology: None,
            report_topology: false,
            sweep: Duration::from_secs(2),
            timeout: Duration::from_millis(200),
            retries: 3,
            routing: RoutingName::default(),
        }
    }
}

impl RawInfinibandConfig {
    pub(crate) fn check(self, problems: &mut Problems) -> Option<InfinibandConfig> {
        check_positive(problems, "infiniband.sweep", self.sweep);
        check_positive(problems, "infiniband.timeout", self.timeout);
        if self.first_entry > 16_383 {
            problems.add("infiniband.first_entry", "a multicast table has entries 0 to 16383");
        }
        if self.colors == Some(0) {
            problems
                .add("infiniband.colors", "must be at least 1; leave it out to use all entries");
        }
        if self.report_topology && self.topology.is_some() {
            let why = "the TIC says what ought to be there; leave out one of topology and report_topology";
            problems.add("infiniband.report_topology", why);
        }
        let key = self.management_key.as_deref().map(|text| check_key(problems, text));
        Some(InfinibandConfig {
            adapter: self.adapter,
            port: self.port,
            management_key: key.unwrap_or(Some(0))?,
            first_entry: self.first_entry,
            colors: self.colors,
            topology: self.topology,
            report_topology: self.report_topology,
            sweep: self.sweep,
            timeout: self.timeout,
            retries: self.retries,
            routing: self.routing,
        })
    }
}

fn check_key(problems: &mut Problems, text: &str) -> Option<u64> {
    let key = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    if key.is_none() {
        // Not the text itself: it may be most of a key.
        problems.add("infiniband.management_key", "not 0x and at most 16 hexadecimal digits");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hexadecimal_and_never_shown() {
        let mut problems = Problems::new("switch_agent");
        assert_eq!(check_key(&mut problems, "0x1122334455667788"), Some(0x1122_3344_5566_7788));
        for bad in ["1122", "0x", "0xg", "0x11223344556677889"] {
            assert_eq!(check_key(&mut problems, bad), None, "{bad}");
        }
        let raw = RawInfinibandConfig {
            management_key: Some("0x1122334455667788".to_owned()),
            ..RawInfinibandConfig::default()
        };
        let config = raw.check(&mut problems).unwrap();
        assert!(!format!("{config:?}").contains("1122"));
    }
}
