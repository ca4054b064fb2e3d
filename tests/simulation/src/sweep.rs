//! Runs many scenarios in parallel on all processors.

use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::routing::RouteScenario;
use crate::run::Summary;
use crate::scenario::{FaultProfile, Scenario};
use crate::shrink::Play;

/// Result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// Runs without violation.
    pub runs: u64,
    /// Sums over these runs.
    pub total: Summary,
    /// First violation: seed, profile and broken rule.
    pub broken: Option<(u64, FaultProfile, String)>,
}

/// Runs seeds from `first` on, each with every profile, until `seeds` of them are done, the time is
/// over, or a rule is broken.
#[must_use]
pub fn sweep(first: u64, seeds: u64, profiles: &[FaultProfile], time: Option<Duration>) -> Swept {
    // The text of a broken rule is kept, so panics need not be printed.
    let before = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let end = time.map(|time| Instant::now() + time);
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let swept = Mutex::new(Swept::default());
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed - first >= seeds || end.is_some_and(|end| Instant::now() >= end) {
                return;
            }
            for profile in profiles {
                let outcome = match profile.is_routing() {
                    true => RouteScenario::draw(seed, *profile).play(),
                    false => Scenario::draw(seed, *profile).play(),
                };
                let mut swept = swept.lock().expect("no thread panics while holding it");
                match outcome {
                    Ok(summary) => {
                        swept.runs += 1;
                        swept.total.delivered += summary.delivered;
                        swept.total.decisions += summary.decisions;
                    }
                    Err(broken) => {
                        stop.store(true, Ordering::Relaxed);
                        swept.broken.get_or_insert((seed, *profile, broken));
                    }
                }
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    panic::set_hook(before);
    swept.into_inner().expect("no thread panics while holding it")
}
