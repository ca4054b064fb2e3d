//! What may change while an operating agent runs.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::agent::GaConfig;
use fabricast_groups::detector::DetectorConfig;
use fabricast_groups::operating::OaConfig;
use tokio::sync::watch;

use crate::host::{Host, lock};

/// A question that is not answered is asked again after this, and not before half the interval of the
/// signs of life: where they are rare there is so much to ask that answers take their time.
const RETRY: Duration = Duration::from_millis(250);
/// A process's call fails after this.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls of processes of one node at one time.
const CALLS_PER_NODE: usize = 1024;

/// Signs of life, and how those of others are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Interval of the signs of life.
    pub report_interval: Duration,
    /// When a member's node is probed, and when it is reported to the TIC.
    pub detector: DetectorConfig,
}

impl Pacing {
    /// How long questions wait for an answer when a part begins with these.
    pub(crate) fn retry(self) -> Duration {
        RETRY.max(self.report_interval / 2)
    }

    /// - `retry`: as the part began with.
    pub(crate) fn operating(self, retry: Duration) -> OaConfig {
        OaConfig {
            retry,
            host_timeout: self.detector.worst_case() + self.report_interval * 2,
            call_timeout: CALL_TIMEOUT,
            calls: CALLS_PER_NODE,
        }
    }

    /// - `retry`: as the part began with.
    pub(crate) fn group(self, retry: Duration) -> GaConfig {
        GaConfig { detector: self.detector, resend: self.report_interval * 3, retry }
    }
}

/// Changes them; a clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    pub(crate) host: Host,
    pub(crate) retry: Duration,
    pub(crate) report_interval: Arc<watch::Sender<Duration>>,
}

impl LiveSettings {
    /// Works so from now on; whoever is watched has the new time in full.
    pub fn set_pacing(&self, pacing: Pacing) {
        let (host, config) = (&self.host, pacing.group(self.retry));
        *lock(&host.0.group_config) = config;
        let now = host.now();
        for node in host.state().nodes.values_mut() {
            node.operating.reconfigure(pacing.operating(self.retry));
            if let Some(agents) = &mut node.agents {
                agents.reconfigure(now, config);
            }
        }
        let names = host.nodes();
        host.state().touched.extend(names);
        host.0.stirred.notify_one();
        self.report_interval.send_if_modified(|interval| {
            std::mem::replace(interval, pacing.report_interval) != pacing.report_interval
        });
    }
}
