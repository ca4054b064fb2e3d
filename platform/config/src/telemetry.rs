//! Settings of what a part says about itself; the same section for all parts.

use fabricast_telemetry::{check_filter, traces};
use serde::Deserialize;

use crate::load::Role;
use crate::problem::Problems;

/// Checked settings of log and traces.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryConfig {
    /// Log filter, unless `FABRICAST_LOG` is set.
    pub log: String,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// The collector that traces are sent to, `http://host:port`; `None` if there are to be none.
    pub traces: Option<String>,
    /// The share of traces that are kept, of those that begin here: 0 to 1.
    pub trace_share: f64,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Readable text with columns.
    #[default]
    Text,
    /// One JSON object on each line, for log collectors.
    Json,
}

/// Section `[telemetry]` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawTelemetryConfig {
    /// Log filter: a level, or levels of single crates, such as `info` or
    /// `warn,fabricast_router=debug`. The variable `FABRICAST_LOG` overrides it. Default `info`:
    /// what changes, and what goes wrong.
    pub log: String,
    /// `text` or `json`. Default `text`: somebody reads it.
    pub log_format: LogFormat,
    /// Collector of traces that speaks OTLP over gRPC, in plain text, as `http://host:port`. Left
    /// out: no traces.
    pub traces: Option<String>,
    /// Share of the traces that begin here to keep, 0 to 1; one that another process has begun is
    /// kept as that says. Default 1: all, so that a trace which somebody looks for is there.
    pub trace_share: f64,
}

impl Default for RawTelemetryConfig {
    fn default() -> Self {
        let (log, log_format) = ("info".to_owned(), LogFormat::default());
        Self { log, log_format, traces: None, trace_share: 1.0 }
    }
}

impl Role for TelemetryConfig {
    type Raw = RawTelemetryConfig;
    const SECTION: &'static str = "telemetry";

    fn check(raw: RawTelemetryConfig, problems: &mut Problems) -> Option<Self> {
        let RawTelemetryConfig { log, log_format, traces, trace_share } = raw;
        if let Err(error) = check_filter(&log) {
            problems.add(
                "log",
                format!("{error}; expected one such as info or warn,fabricast_router=debug"),
            );
        }
        if let Some(address) = &traces
            && traces::collector(address).is_none()
        {
            let what = format!("'{address}' is not an address of the form http://host:port");
            problems.add("traces", what);
        }
        if !(0.0..=1.0).contains(&trace_share) {
            problems.add("trace_share", format!("{trace_share} is not from 0 to 1"));
        }
        Some(Self { log, log_format, traces, trace_share })
    }
}
