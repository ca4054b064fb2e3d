//! Settings of failure detection, which the TIC and operating agents share.

use std::time::Duration;

use fabricast_groups::detector::{Adaptive, DetectorConfig, PHI, Policy, Probing};
use fabricast_groups::flaps::{FlapDamping, FlapPolicy};
use serde::Deserialize;

use crate::problem::Problems;
use crate::value::{check_attempts, check_positive};

/// Reaction to a node that seems to have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expel {
    /// Ask it first, and expel it if it does not answer.
    #[default]
    Probe,
    /// Expel it without asking.
    Expel,
}

impl From<Expel> for Policy {
    fn from(expel: Expel) -> Self {
        match expel {
            Expel::Probe => Self::Probe,
            Expel::Expel => Self::ExpelAtOnce,
        }
    }
}

/// Section `[tic.adaptive]` or `[operating_agent.adaptive]` as written: timeouts that follow the
/// pace at which each peer has reported. They are never longer than `report_timeout`. Left out,
/// that is the timeout.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawAdaptive {
    /// The level of suspicion at which a report is overdue, 0.5 to 16: at 8, one report in 10^8
    /// that still comes. Default 8: what the paper's authors and others found neither hasty nor
    /// slow.
    pub phi: f64,
    /// No timeout is shorter, however evenly a peer reports; at most `report_timeout`. Default 1s:
    /// two reports of an operating agent at its default interval, so that a lost one makes nobody
    /// suspect.
    #[serde(with = "humantime_serde")]
    pub shortest: Duration,
}

impl Default for RawAdaptive {
    fn default() -> Self {
        Self { phi: 8.0, shortest: Duration::from_secs(1) }
    }
}

/// Settings that both sections have, as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawDetection {
    pub(crate) report_timeout: Duration,
    pub(crate) adaptive: Option<RawAdaptive>,
    pub(crate) on_silence: Expel,
    pub(crate) probe_timeout: Duration,
    pub(crate) probe_attempts: u32,
}

impl RawDetection {
    pub(crate) fn check(self, problems: &mut Problems) -> Option<DetectorConfig> {
        let Self { report_timeout, adaptive, on_silence, probe_timeout, probe_attempts } = self;
        check_positive(problems, "report_timeout", report_timeout);
        check_positive(problems, "probe_timeout", probe_timeout);
        check_attempts(problems, probe_attempts);
        let adaptive = match adaptive {
            None => None,
            Some(raw) => Some(raw.check(problems, report_timeout)?),
        };
        let probing = Probing { timeout: probe_timeout, attempts: probe_attempts };
        Some(DetectorConfig { report_timeout, adaptive, policy: on_silence.into(), probing })
    }
}

impl RawAdaptive {
    fn check(self, problems: &mut Problems, report_timeout: Duration) -> Option<Adaptive> {
        let Self { phi, shortest } = self;
        let adaptive = Adaptive::new(phi, shortest);
        if adaptive.is_none() {
            let what = format!("{phi} is not from {} to {}", PHI.start(), PHI.end());
            problems.add("adaptive.phi", what);
        }
        if shortest > report_timeout {
            let what = format!("{shortest:?} is longer than report_timeout, {report_timeout:?}");
            problems.add("adaptive.shortest", what);
        }
        adaptive
    }
}

/// Restriction of a node that has come and gone too often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlapPolicyName {
    /// Nothing is held against it.
    Off,
    /// It hosts no group agents while another member's node can.
    #[default]
    NoHost,
    /// It is not readmitted.
    Refuse,
}

/// Section `[tic.flapping]` as written: nodes that come and go are held off. Every flap, an
/// expulsion or a new start of a node, counts 1, half of which is forgotten in every half-life.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawFlapping {
    /// `no-host`: such a node hosts no group agents while another member's node can; `refuse`: it
    /// is not readmitted; `off`. Default `no-host`: its processes can still work, and disturb only
    /// themselves.
    pub policy: FlapPolicyName,
    /// A node is suppressed when more than this counts, until half of it does; 1 to 1000. Default
    /// 3: the fourth flap in a short time, so that no single repair of a node brings it there.
    pub limit: u32,
    /// The time in which half is forgotten. Nobody is suppressed for longer than three of them
    /// after the last flap. Default 1m: a few minutes of quiet show that a node is well.
    #[serde(with = "humantime_serde")]
    pub half_life: Duration,
}

impl Default for RawFlapping {
    fn default() -> Self {
        let (limit, half_life) = (3, Duration::from_mins(1));
        Self { policy: FlapPolicyName::default(), limit, half_life }
    }
}

impl RawFlapping {
    pub(crate) fn check(self, problems: &mut Problems) -> FlapDamping {
        check_positive(problems, "flapping.half_life", self.half_life);
        if !(1..=1_000).contains(&self.limit) {
            problems.add("flapping.limit", format!("{} is not from 1 to 1000", self.limit));
        }
        let policy = match self.policy {
            FlapPolicyName::Off => FlapPolicy::Off,
            FlapPolicyName::NoHost => FlapPolicy::NoHost,
            FlapPolicyName::Refuse => FlapPolicy::Refuse,
        };
        FlapDamping { policy, limit: self.limit, half_life: self.half_life }
    }
}
