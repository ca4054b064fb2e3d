//! Calls that a process has answered: number, result and duration.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Counter;
use super::durations::BUCKETS;

/// Counts of calls by service, call and result.
#[derive(Debug)]
pub struct Calls {
    answered: Family<Answered, Counter>,
    seconds: Family<Call, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    service: &'static str,
    call: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    service: &'static str,
    call: &'static str,
}

/// The result of one call.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Its gRPC code, such as `OK`.
    pub code: &'static str,
    /// Time from its arrival until the answer began.
    pub elapsed: Duration,
}

impl Default for Calls {
    fn default() -> Self {
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> _);
        Self { answered: Family::default(), seconds }
    }
}

impl Calls {
    /// Counts one call.
    pub fn answered(&self, service: &'static str, call: &'static str, outcome: Outcome) {
        let Outcome { code, elapsed } = outcome;
        self.answered.get_or_create(&Answered { service, call, code }).inc();
        self.seconds.get_or_create(&Call { service, call }).observe(elapsed.as_secs_f64());
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Calls that were answered, by service, call and gRPC code";
        registry.register("fabricast_rpc_calls", help, self.answered.clone());
        let help = "Time from the arrival of a call until its answer began, by service and call";
        registry.register("fabricast_rpc_call_seconds", help, self.seconds.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::exposition;

    #[test]
    fn a_bucket_counts_all_faster_calls() {
        let calls = Calls::default();
        for (code, millis) in [("OK", 1), ("OK", 50), ("NOT_FOUND", 20_000)] {
            let outcome = Outcome { code, elapsed: Duration::from_millis(millis) };
            calls.answered("TicService", "GetGroup", outcome);
        }
        let mut registry = Registry::default();
        calls.register(&mut registry);
        let text = exposition(&registry);
        let labels = "service=\"TicService\",call=\"GetGroup\"";
        for line in [
            format!("fabricast_rpc_calls_total{{{labels},code=\"OK\"}} 2"),
            format!("fabricast_rpc_calls_total{{{labels},code=\"NOT_FOUND\"}} 1"),
            format!("fabricast_rpc_call_seconds_bucket{{le=\"0.001\",{labels}}} 1"),
            format!("fabricast_rpc_call_seconds_bucket{{le=\"0.1\",{labels}}} 2"),
            format!("fabricast_rpc_call_seconds_bucket{{le=\"10.0\",{labels}}} 2"),
            format!("fabricast_rpc_call_seconds_bucket{{le=\"+Inf\",{labels}}} 3"),
            format!("fabricast_rpc_call_seconds_count{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
