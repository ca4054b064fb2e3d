//! Calls that a process has answered: how many, how they ended, and how long they took.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::header;

/// Upper ends of the classes of durations, in seconds; the last class has no end.
const BOUNDS: [f64; 8] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0];

/// Counts of calls by service, call and result.
#[derive(Debug)]
pub struct Calls(Mutex<BTreeMap<(&'static str, &'static str), Count>>);

/// How one call ended.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Its gRPC code, such as `OK`.
    pub code: &'static str,
    /// From its arrival until the answer began.
    pub elapsed: Duration,
}

#[derive(Debug, Default)]
struct Count {
    codes: BTreeMap<&'static str, u64>,
    /// Calls in each class, and slower ones.
    classes: [u64; BOUNDS.len() + 1],
    total: Duration,
}

impl Calls {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Counts one call.
    pub fn answered(&self, service: &'static str, call: &'static str, outcome: Outcome) {
        let seconds = outcome.elapsed.as_secs_f64();
        let class = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((service, call)).or_default();
        *count.codes.entry(outcome.code).or_default() += 1;
        count.classes[class] += 1;
        count.total += outcome.elapsed;
    }

    pub(super) fn write(&self, text: &mut String) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "fabricast_rpc_calls_total";
        header(text, name, "Calls that were answered, by service, call and gRPC code.", "counter");
        for ((service, call), count) in counts.iter() {
            for (code, number) in &count.codes {
                let labels = format!("service=\"{service}\",call=\"{call}\",code=\"{code}\"");
                let _ = writeln!(text, "{name}{{{labels}}} {number}");
            }
        }
        let name = "fabricast_rpc_call_seconds";
        let help = "Time from the arrival of a call until its answer began, by service and call.";
        header(text, name, help, "histogram");
        for ((service, call), count) in counts.iter() {
            let labels = format!("service=\"{service}\",call=\"{call}\"");
            let mut sum = 0;
            let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
            for (bound, class) in bounds.zip(count.classes) {
                sum += class;
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {sum}");
            }
            let _ = writeln!(text, "{name}_sum{{{labels}}} {}", count.total.as_secs_f64());
            let _ = writeln!(text, "{name}_count{{{labels}}} {sum}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_all_faster_calls_too() {
        let calls = Calls::new();
        for (code, millis) in [("OK", 1), ("OK", 50), ("NOT_FOUND", 20_000)] {
            let outcome = Outcome { code, elapsed: Duration::from_millis(millis) };
            calls.answered("TicService", "GetGroup", outcome);
        }
        let mut text = String::new();
        calls.write(&mut text);
        let labels = "service=\"TicService\",call=\"GetGroup\"";
        for line in [
            format!("fabricast_rpc_calls_total{{{labels},code=\"OK\"}} 2"),
            format!("fabricast_rpc_calls_total{{{labels},code=\"NOT_FOUND\"}} 1"),
            format!("fabricast_rpc_call_seconds_bucket{{{labels},le=\"0.001\"}} 1"),
            format!("fabricast_rpc_call_seconds_bucket{{{labels},le=\"0.1\"}} 2"),
            format!("fabricast_rpc_call_seconds_bucket{{{labels},le=\"10\"}} 2"),
            format!("fabricast_rpc_call_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("fabricast_rpc_call_seconds_count{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
