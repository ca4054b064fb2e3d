//! Write behavior of switches: delays and failures set by a test or an administrator.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_topology::SwitchId;
use parking_lot::Mutex;

/// Longest delay that can be set.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Write behavior of the switches that are not healthy.
#[derive(Debug, Default)]
pub(crate) struct WriteBehaviors {
    by_switch: Mutex<BTreeMap<SwitchId, WriteBehavior>>,
}

#[derive(Clone, Copy, Debug)]
struct WriteBehavior {
    delay: Duration,
    fails: bool,
}

impl WriteBehaviors {
    /// Sets the behavior of a switch; no delay and no failure makes it healthy.
    pub(crate) fn set(&self, switch: SwitchId, wanted: v1::Programming) {
        let delay = wanted.delay.and_then(|delay| Duration::try_from(delay).ok());
        let delay = delay.unwrap_or_default().min(MAX_DELAY);
        let mut by_switch = self.by_switch.lock();
        if wanted.fails || !delay.is_zero() {
            by_switch.insert(switch, WriteBehavior { delay, fails: wanted.fails });
        } else {
            by_switch.remove(&switch);
        }
    }

    /// Time that a write to some switches takes: that of the slowest.
    pub(crate) fn delay(&self, switches: impl Iterator<Item = SwitchId>) -> Duration {
        let by_switch = self.by_switch.lock();
        switches.filter_map(|at| Some(by_switch.get(&at)?.delay)).max().unwrap_or_default()
    }

    /// True if a switch takes no writes.
    pub(crate) fn fails(&self, switch: SwitchId) -> bool {
        self.by_switch.lock().get(&switch).is_some_and(|behavior| behavior.fails)
    }
}
