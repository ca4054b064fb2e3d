//! Measures rates of packets, only while somebody looks at them, by one task for all viewers.

use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::calls::{Calls, text};
use crate::poller::Shared;
use crate::rates::{Reading, rates};

/// Time between two readings of the counters.
const INTERVAL: Duration = Duration::from_secs(3);
/// Time for which rates are measured after somebody has looked at them.
const WANTED: Duration = Duration::from_secs(20);

/// Notes that somebody looks at rates; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RateDemand(Arc<Demand>);

#[derive(Debug)]
struct Demand {
    until: Mutex<Instant>,
    begins: Notify,
}

impl RateDemand {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Demand { until: Mutex::new(Instant::now()), begins: Notify::new() }))
    }

    /// Has rates measured for a while.
    pub(crate) fn renew(&self) {
        *self.0.until.lock() = Instant::now() + WANTED;
        self.0.begins.notify_one();
    }

    fn is_over(&self) -> bool {
        *self.0.until.lock() <= Instant::now()
    }
}

/// Measures rates while they are wanted, without end.
pub(crate) async fn measure(calls: Calls, shared: Shared, demand: RateDemand) {
    loop {
        demand.0.begins.notified().await;
        let mut last = None;
        while !demand.is_over() {
            let now = read(&calls, &shared).await;
            let rates = match (&last, &now) {
                (Some(last), Ok(now)) => Some(Ok(rates(last, now))),
                (_, Err(problem)) => Some(Err(problem.clone())),
                (None, Ok(_)) => None,
            };
            if let Some(rates) = rates {
                shared.change(|snapshot| snapshot.rates = Some(Arc::new(rates)));
            }
            last = now.ok();
            sleep(INTERVAL).await;
        }
        shared.change(|snapshot| snapshot.rates = None);
    }
}

async fn read(calls: &Calls, shared: &Shared) -> Result<Reading, String> {
    let snapshot = shared.now();
    let fabric = snapshot.fabric.as_ref().ok_or("no TIC has answered")?;
    let mut reading = Reading::new(fabric.graph());
    let take = |switch: v1::SwitchCounters| reading.add(fabric.graph(), &switch);
    let read = calls.take_counters(&snapshot.switch_agents(), &[], take).await;
    read.map_err(|error| text(&error))?;
    reading.at = Instant::now();
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_wanted_once_nobody_looks() {
        let demand = RateDemand::new();
        assert!(demand.is_over());
        demand.renew();
        assert!(!demand.is_over());
        tokio::time::advance(WANTED).await;
        assert!(demand.is_over());
    }
}
