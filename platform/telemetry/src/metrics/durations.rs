//! A histogram of times.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets, in seconds.
pub(super) const BUCKETS: [f64; 9] = [0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.3, 1.0, 10.0];

/// Times of one kind of work.
#[derive(Clone, Debug)]
pub struct Durations(Histogram);

impl Default for Durations {
    fn default() -> Self {
        Self(Histogram::new(BUCKETS))
    }
}

impl Durations {
    /// Counts one piece of work.
    pub fn observe(&self, elapsed: Duration) {
        self.0.observe(elapsed.as_secs_f64());
    }

    pub(super) fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0.clone());
    }
}
