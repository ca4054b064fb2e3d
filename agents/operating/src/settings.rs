//! Settings that may change while an operating agent runs.

use std::sync::Arc;
use std::time::Duration;

use fabricast_config::OperatingAgentConfig;
use fabricast_groups::agent::GaConfig;
use fabricast_groups::operating::OaConfig;
use tokio::sync::watch;

use crate::nodes::Nodes;
use crate::processes::user_rules::UserRules;

/// Delay before a request is repeated, but no less than half the report interval: where reports are
/// rare there is so much to ask that answers take their time.
const RETRY: Duration = Duration::from_millis(250);
/// A process's call fails after this.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls for processes of one node at one time.
pub(crate) const CALLS_PER_NODE: usize = 2_048;

/// Delay before requests are repeated, for an agent that starts with these settings.
pub(crate) fn retry(config: &OperatingAgentConfig) -> Duration {
    RETRY.max(config.report_interval / 2)
}

/// Settings of the operating agents.
///
/// - `retry`: as the agent started with.
pub(crate) fn operating(config: &OperatingAgentConfig, retry: Duration) -> OaConfig {
    OaConfig {
        retry,
        host_timeout: config.detector.worst_case() + config.report_interval * 2,
        call_timeout: CALL_TIMEOUT,
        calls: CALLS_PER_NODE,
    }
}

/// Settings of the group agents.
///
/// - `retry`: as the agent started with.
pub(crate) fn group(config: &OperatingAgentConfig, retry: Duration) -> GaConfig {
    GaConfig { detector: config.detector, resend: config.report_interval * 3, retry }
}

/// Changes the settings of a running agent; clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    pub(crate) nodes: Nodes,
    pub(crate) retry: Duration,
    pub(crate) report_interval: Arc<watch::Sender<Duration>>,
    pub(crate) user_rules: UserRules,
}

impl LiveSettings {
    /// Replaces the settings; nodes that are watched get the new time in full. `config` may differ
    /// only where [`fabricast_config::Reload`] allows it.
    pub fn set(&self, config: &OperatingAgentConfig) {
        self.nodes.reconfigure(operating(config, self.retry), group(config, self.retry));
        self.user_rules.set(&config.process_rules);
        let next = config.report_interval;
        self.report_interval.send_if_modified(|now| std::mem::replace(now, next) != next);
    }
}
