//! A gauge with one label.

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Gauge;

/// A number for each value of one label.
#[derive(Debug)]
pub struct LabelledGauge {
    label: &'static str,
    values: Family<[(&'static str, String); 1], Gauge>,
}

impl LabelledGauge {
    pub(super) fn new(label: &'static str) -> Self {
        Self { label, values: Family::default() }
    }

    /// Sets the number of one value of the label.
    pub fn set(&self, value: &str, number: u64) {
        self.values.get_or_create(&[(self.label, value.to_owned())]).set(number);
    }

    /// The number of one value of the label; `None` if it was never set.
    #[must_use]
    pub fn get(&self, value: &str) -> Option<u64> {
        Some(self.values.get(&[(self.label, value.to_owned())])?.get())
    }

    pub(super) fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.values.clone());
    }
}
