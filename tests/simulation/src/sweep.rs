//! Many scenarios, side by side on all processors.

use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::routing::RouteScenario;
use crate::run::Summary;
use crate::scenario::{Mix, Scenario};
use crate::shrink::Play;

/// What a sweep found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Runs without violation.
    pub runs: u64,
    /// What these came to, added up.
    pub total: Summary,
    /// The first violation: seed, mix, and the rule that was broken.
    pub broken: Option<(u64, Mix, String)>,
}

/// Runs seeds from `first` on, each with every mix, until `seeds` of them are done, the time is over, or a rule
/// is broken.
#[must_use]
pub fn sweep(first: u64, seeds: u64, mixes: &[Mix], time: Option<Duration>) -> Swept {
    // What a broken rule says is kept; it need not be printed by every thread that finds one.
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
            for mix in mixes {
                let outcome = match mix.is_of_routes() {
                    true => RouteScenario::draw(seed, *mix).play(),
                    false => Scenario::draw(seed, *mix).play(),
                };
                let mut swept = swept.lock().expect("nobody panics while holding it");
                match outcome {
                    Ok(summary) => {
                        swept.runs += 1;
                        swept.total.delivered += summary.delivered;
                        swept.total.decisions += summary.decisions;
                    }
                    Err(broken) => {
                        stop.store(true, Ordering::Relaxed);
                        swept.broken.get_or_insert((seed, *mix, broken));
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
    swept.into_inner().expect("nobody panics while holding it")
}
