//! Settings of the TIC.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{StoreLocation, check_listen, check_positive};

/// Checked settings of the TIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Where groups, members and nodes are kept.
    pub store: StoreLocation,
    /// A node that has not reported for this time is probed.
    pub report_timeout: Duration,
    /// A probed node that has not answered for this time is expelled.
    pub probe_timeout: Duration,
}

/// Section `[tic]` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawTicConfig {
    /// Address to serve on; port 0 takes a free one. Default 127.0.0.1:7401: not reachable from
    /// other machines until someone decides so.
    pub listen: SocketAddr,
    /// Serve without encryption to other machines. Default false: only loopback is safe.
    pub allow_plaintext: bool,
    /// `memory`, or the path of the store's file. No default: records that vanish with the
    /// process must be a choice.
    pub store: Option<String>,
    /// Default 2s: four reports of an operating agent at its default interval, so that one lost
    /// report or a pause of a second expels nobody.
    #[serde(with = "humantime_serde")]
    pub report_timeout: Duration,
    /// Default 500ms: a thousand times a round trip in a cluster, so only the dead miss it.
    #[serde(with = "humantime_serde")]
    pub probe_timeout: Duration,
}

impl Default for RawTicConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::TIC),
            allow_plaintext: false,
            store: None,
            report_timeout: Duration::from_secs(2),
            probe_timeout: Duration::from_millis(500),
        }
    }
}

impl Role for TicConfig {
    type Raw = RawTicConfig;
    const SECTION: &'static str = "tic";

    fn check(raw: RawTicConfig, problems: &mut Problems) -> Option<Self> {
        check_listen(problems, raw.listen, raw.allow_plaintext);
        check_positive(problems, "report_timeout", raw.report_timeout);
        check_positive(problems, "probe_timeout", raw.probe_timeout);
        Some(Self {
            listen: raw.listen,
            store: StoreLocation::check(problems, "store", raw.store)?,
            report_timeout: raw.report_timeout,
            probe_timeout: raw.probe_timeout,
        })
    }
}
