//! Settings of the simulated parts, derived from the seed so that all variants are covered.

use std::time::Duration;

use fabricast_groups::agent::GaConfig;
use fabricast_groups::detector::{Adaptive, DetectorConfig, Probing};
use fabricast_groups::directory::Limits;
use fabricast_groups::flaps::{FlapDamping, FlapPolicy};
use fabricast_groups::operating::OaConfig;

pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

const RETRY: Duration = Duration::from_millis(700);

/// Memberships of a failed node that one decision ends: so few that most nodes take several.
const ENDS: usize = 2;

/// Failure detection with fixed timeouts, for group agents and the TIC; no other setting may take
/// longer.
pub(crate) const DETECTOR: DetectorConfig = DetectorConfig::new(
    Duration::from_secs(3),
    Probing { timeout: Duration::from_millis(500), attempts: 3 },
);

pub(crate) const OA: OaConfig = OaConfig {
    retry: RETRY,
    host_timeout: Duration::from_secs(8),
    call_timeout: Duration::from_secs(5),
    calls: 64,
};

/// Settings that differ between runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// True if timeouts adapt to the report intervals.
    pub(crate) adaptive: bool,
    pub(crate) damping: FlapDamping,
}

impl Settings {
    /// Returns the settings of a run with this seed.
    pub(crate) fn of(seed: u64) -> Self {
        let policy = match seed % 3 {
            0 => FlapPolicy::Off,
            1 => FlapPolicy::NoHost,
            _ => FlapPolicy::Refuse,
        };
        let damping = FlapDamping { policy, limit: 2, half_life: Duration::from_secs(2) };
        Self { adaptive: seed / 3 % 2 == 1, damping }
    }

    /// Returns the failure detection of this run.
    pub(crate) fn detector(&self) -> DetectorConfig {
        let adaptive = Adaptive::new(4.0, Duration::from_millis(1_200));
        DetectorConfig { adaptive: adaptive.filter(|_| self.adaptive), ..DETECTOR }
    }

    pub(crate) fn agents(&self) -> GaConfig {
        let resend = Duration::from_millis(2_500);
        GaConfig { detector: self.detector(), resend, retry: RETRY }
    }

    /// Returns the limits on the records.
    pub(crate) fn limits(&self) -> Limits {
        Limits { damping: self.damping, ends: ENDS, ..Limits::default() }
    }
}
