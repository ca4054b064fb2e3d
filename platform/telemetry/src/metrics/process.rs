//! Resources of this process, under the names that Prometheus clients of all
//! languages use; see proc(5).

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads `/proc/self` whenever metrics are read. Values that cannot be read are left out.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let usage = Usage::of_this_process().unwrap_or_default();
        if let Some(seconds) = usage.cpu_seconds {
            let (name, help) = ("process_cpu_seconds", "Processor time of this process");
            show(&mut encoder, name, help, &ConstCounter::new(seconds))?;
        }
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Memory that this process occupies",
                usage.resident_bytes,
            ),
            ("process_open_fds", "Open files and sockets", usage.open_files),
            ("process_max_fds", "Most files and sockets that may be open", usage.max_files),
        ] {
            if let Some(value) = value {
                show(&mut encoder, name, help, &ConstGauge::new(value))?;
            }
        }
        if let Some(seconds) = usage.start_seconds {
            let help = "When this process began, as Unix time";
            show(&mut encoder, "process_start_time_seconds", help, &ConstGauge::new(seconds))?;
        }
        Ok(())
    }
}

fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), fmt::Error> {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// Resources of one process.
#[derive(Debug, Default)]
struct Usage {
    cpu_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    open_files: Option<u64>,
    max_files: Option<u64>,
    start_seconds: Option<f64>,
}

/// Units of the kernel's numbers.
#[derive(Clone, Copy, Debug)]
struct Units {
    ticks_per_second: u64,
    page_bytes: u64,
}

impl Usage {
    fn of_this_process() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let system = fs::read_to_string("/proc/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let files = fs::read_dir("/proc/self/fd").ok();
        let units = Units {
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            page_bytes: rustix::param::page_size() as u64,
        };
        let mut usage = Self::parse(&stat, &system, units);
        // One of them is the folder itself, which is closed again.
        usage.open_files = files.map(|files| (files.count() as u64).saturating_sub(1));
        usage.max_files = max_files(&limits);
        Some(usage)
    }

    /// - `stat`: of the process.
    /// - `system`: `/proc/stat`, which says when the machine was started.
    fn parse(stat: &str, system: &str, units: Units) -> Self {
        // The name of the program may have spaces and brackets in it. The next field is the third.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let seconds = |ticks: u64| ticks as f64 / units.ticks_per_second as f64;
        let boot = system.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok());
        Self {
            cpu_seconds: field(14).zip(field(15)).map(|(user, kernel)| seconds(user + kernel)),
            resident_bytes: field(24).map(|pages| pages * units.page_bytes),
            start_seconds: boot.zip(field(22)).map(|(boot, ticks): (f64, _)| boot + seconds(ticks)),
            ..Self::default()
        }
    }
}

/// The soft limit; `None` if there is none.
fn max_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 1200 4096 300 18446744073709551615";
        let units = Units { ticks_per_second: 100, page_bytes: 4096 };
        let usage = Usage::parse(stat, "cpu 1 2\nbtime 1000\n", units);
        assert_eq!(usage.cpu_seconds, Some(2.0));
        assert_eq!(usage.resident_bytes, Some(300 * 4096));
        assert_eq!(usage.start_seconds, Some(1012.0));
        assert!(Usage::parse("7 (a)", "", units).cpu_seconds.is_none());
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\n";
        assert_eq!(max_files(limits), Some(1024));
        assert_eq!(max_files("Max open files   unlimited  unlimited  files\n"), None);
    }

    #[test]
    fn this_process_has_begun_and_holds_something() {
        let usage = Usage::of_this_process().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let start = usage.start_seconds.unwrap();
        assert!(start > 0.0 && start <= now + 1.0, "{start} {now}");
        assert!(usage.cpu_seconds.unwrap() >= 0.0);
        assert!(usage.resident_bytes.unwrap() > 100_000);
        assert!(usage.open_files.unwrap() > 0);
    }
}
