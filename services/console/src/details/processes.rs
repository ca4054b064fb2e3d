//! Metrics and audit of the processes of the control plane.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;

use crate::calls::{Calls, Server, text};

/// Most calls whose figures are kept.
const MAX_CALLS: usize = 200;

/// A process, with the parts that run in it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Addresses of its parts.
    pub(crate) addresses: Vec<String>,
    /// Parts that run in it.
    pub(crate) roles: BTreeSet<String>,
    /// Its metrics, or why they are not known.
    pub(crate) metrics: Result<Metrics, String>,
    /// The latest lines of its audit, oldest first.
    pub(crate) audit: Vec<v1::AuditLine>,
}

/// Metrics of a process, those with labels added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    /// Values by the name of the metric.
    values: BTreeMap<String, f64>,
    /// Calls that were answered, by service and call.
    pub(crate) calls: BTreeMap<String, Call>,
}

/// Figures of one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) count: f64,
    pub(crate) failed: f64,
    /// Sum of the times, in seconds.
    pub(crate) seconds: f64,
}

impl Metrics {
    /// Reads the OpenMetrics text format.
    pub(crate) fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((key, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = key.split_once('{').unwrap_or((key, ""));
            found.add_call(name, labels, value);
            if !name.ends_with("_bucket") {
                *found.values.entry(name.to_owned()).or_default() += value;
            }
        }
        found
    }

    fn add_call(&mut self, name: &str, labels: &str, value: f64) {
        let label = |wanted: &str| {
            let rest = labels.split_once(&format!("{wanted}=\""))?.1;
            rest.split('"').next()
        };
        let (Some(service), Some(call)) = (label("service"), label("call")) else { return };
        let key = format!("{service}.{call}");
        if self.calls.len() >= MAX_CALLS && !self.calls.contains_key(&key) {
            return;
        }
        let of = self.calls.entry(key).or_default();
        match name {
            "fabricast_rpc_calls_total" => {
                of.count += value;
                if label("code") != Some("OK") {
                    of.failed += value;
                }
            }
            "fabricast_rpc_call_seconds_sum" => of.seconds += value,
            _ => {}
        }
    }

    /// A metric; 0 if there is none.
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    /// Mean of a metric of times, in seconds; `None` if nothing was measured.
    pub(crate) fn mean(&self, name: &str) -> Option<f64> {
        let count = self.get(&format!("{name}_count"));
        (count > 0.0).then(|| self.get(&format!("{name}_sum")) / count)
    }
}

/// Asks every server, and joins those that are in one process.
pub(super) async fn ask(calls: &Calls, servers: &[Server]) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::new();
    for server in servers {
        let Ok(info) = &server.info else { continue };
        let metrics = calls.metrics(&server.address).await.map_err(|error| text(&error));
        let metrics = metrics.map(|text| Metrics::parse(&text));
        let same = processes.iter_mut().find(|known| is_same(&known.metrics, &metrics));
        if let Some(known) = same {
            known.addresses.push(server.address.clone());
            known.roles.extend(info.roles.iter().cloned());
            continue;
        }
        let audit = calls.audit(&server.address).await.unwrap_or_default();
        processes.push(Process {
            addresses: vec![server.address.clone()],
            roles: info.roles.iter().cloned().collect(),
            metrics,
            audit,
        });
    }
    processes
}

/// True if two answers are of one process: it began once.
fn is_same(one: &Result<Metrics, String>, other: &Result<Metrics, String>) -> bool {
    let begin = |metrics: &Result<Metrics, String>| {
        let metrics = metrics.as_ref().ok()?;
        Some(metrics.get("process_start_time_seconds").to_bits()).filter(|start| *start != 0)
    };
    begin(one).is_some_and(|start| begin(other) == Some(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP fabricast_rpc_calls Calls.
fabricast_tic_transactions_total 7
fabricast_tic_commit_seconds_sum 0.5
fabricast_tic_commit_seconds_count 10
fabricast_tic_commit_seconds_bucket{le=\"0.1\"} 10
fabricast_tic_nodes{state=\"up\"} 90
fabricast_tic_nodes{state=\"failed\"} 6
fabricast_rpc_calls_total{service=\"TicService\",call=\"GetGroup\",code=\"OK\"} 4
fabricast_rpc_calls_total{service=\"TicService\",call=\"GetGroup\",code=\"NOT_FOUND\"} 1
fabricast_rpc_call_seconds_sum{service=\"TicService\",call=\"GetGroup\"} 0.25
nonsense
# EOF
";

    #[test]
    fn metrics_are_read_and_added_up() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(metrics.get("fabricast_tic_transactions_total").to_string(), "7");
        assert_eq!(metrics.get("fabricast_tic_nodes").to_string(), "96");
        assert_eq!(metrics.mean("fabricast_tic_commit_seconds"), Some(0.05));
        assert_eq!(metrics.mean("fabricast_tic_nodes"), None);
        let call = Call { count: 5.0, failed: 1.0, seconds: 0.25 };
        assert_eq!(metrics.calls, BTreeMap::from([("TicService.GetGroup".to_owned(), call)]));
    }

    #[test]
    fn parts_of_one_process_are_told_by_its_start() {
        let started = |text: &str| Ok(Metrics::parse(text));
        let one = started("process_start_time_seconds 1700000000.5");
        assert!(is_same(&one, &started("process_start_time_seconds 1700000000.5\nx 1")));
        assert!(!is_same(&one, &started("process_start_time_seconds 1700000001.5")));
        assert!(!is_same(&Err("no".to_owned()), &Err("no".to_owned())));
    }
}
