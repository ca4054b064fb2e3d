//! Logs, audit, traces and metrics of a process: one call to [`init`] at the top of `main`.
//!
//! Logs go to standard error; standard output is for data. [`audit()`] logs changes and their
//! callers, [`traces`] follow a request across processes, [`metrics`] count.
//!
//! Invariants
//! - LOG-1: one process has one subscriber; a second [`init`] is refused and changes nothing.

mod audit;
pub mod metrics;
mod stamp;
pub mod traces;

use std::io::{self, IsTerminal};
use std::time::Instant;

use thiserror::Error;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use stamp::{Shape, Stamped};

pub use audit::{AuditLine, TARGET as AUDIT_TARGET, audit, latest as latest_audit};

/// Environment variable that overrides the filter given to [`init`].
pub const FILTER_VARIABLE: &str = "FABRICAST_LOG";

/// Starts logging for this process.
///
/// - `service`: the part that runs, such as `tic`; named in the first and the last line.
/// - `filter`: what to log if `FABRICAST_LOG` is not set, such as `info` or
///   `warn,fabricast_router=debug`.
///
/// Keep the [`Guard`] until the process has drained.
///
/// # Errors
///
/// [`InitError::BadFilter`] and [`InitError::UnsupportedFilter`] have to be corrected by the
/// operator; [`InitError::AlreadyStarted`] is a fault of the program.
pub fn init(service: &'static str, format: Format, filter: &str) -> Result<Guard, InitError> {
    metrics::name_service(service);
    let from_environment = std::env::var(FILTER_VARIABLE).ok().filter(|text| !text.is_empty());
    let fixed = from_environment.is_some();
    let filter = parse_filter(from_environment.as_deref().unwrap_or(filter))?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer()
        .with_writer(io::stderr)
        // A closed standard error must not end a service.
        .log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Text => {
            let lines = lines.with_ansi(wants_color());
            registry
                .with(lines.map_event_format(|inner| Stamped::new(inner, Shape::Text)))
                .try_init()
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true);
            registry
                .with(lines.map_event_format(|inner| Stamped::new(inner, Shape::Json)))
                .try_init()
        }
    }
    .map_err(|_| InitError::AlreadyStarted)?;
    tracing::info!(service.name = service, service.version = env!("CARGO_PKG_VERSION"), "started");
    Ok(Guard { service, since: Instant::now(), filter: handle, fixed })
}

/// Checks that a text is a filter, such as `info` or `warn,fabricast_router=debug`.
///
/// # Errors
///
/// [`InitError::BadFilter`] and [`InitError::UnsupportedFilter`].
pub fn check_filter(filter: &str) -> Result<(), InitError> {
    parse_filter(filter).map(drop)
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Readable text with columns.
    #[default]
    Text,
    /// One JSON object on each line, for log collectors.
    Json,
}

/// Proof that logging runs. Its end is the last line of a process that drained; a log without
/// that line belongs to a process that was killed.
#[derive(Debug)]
#[must_use = "dropped at once, it reports the end of the process"]
pub struct Guard {
    service: &'static str,
    since: Instant,
    filter: reload::Handle<Targets, Registry>,
    fixed: bool, // by the environment
}

impl Guard {
    /// True if `FABRICAST_LOG` is set, which overrides the setting.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Replaces the filter, unless `FABRICAST_LOG` is set.
    ///
    /// # Errors
    ///
    /// As [`check_filter`]; then the old one stays.
    pub fn set_filter(&self, filter: &str) -> Result<(), InitError> {
        let filter = parse_filter(filter)?;
        if !self.fixed {
            // It fails only if the subscriber is gone, and then there is no log.
            let _ = self.filter.reload(filter);
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let elapsed_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(service.name = self.service, elapsed_ms, "ended");
    }
}

/// Reason why logging could not be started.
#[derive(Debug, Error)]
pub enum InitError {
    /// The filter is no filter.
    #[error("cannot read log filter '{filter}'")]
    BadFilter {
        /// The filter as given.
        filter: String,
        /// The error of the parser.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The filter selects spans or fields.
    #[error("log filter '{filter}': only levels and targets are supported, no spans or fields")]
    UnsupportedFilter {
        /// The filter as given.
        filter: String,
    },
    /// This process logs already.
    #[error("logging is already set up in this process")]
    AlreadyStarted,
}

/// Parses a filter; an empty one logs errors only.
///
/// [`Targets`] would take an empty part of the list for every target, and a span for a target.
fn parse_filter(filter: &str) -> Result<Targets, InitError> {
    if filter.contains('[') {
        return Err(InitError::UnsupportedFilter { filter: filter.to_owned() });
    }
    let parts: Vec<&str> =
        filter.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Ok(Targets::new().with_default(LevelFilter::ERROR));
    }
    parts
        .join(",")
        .parse()
        .map_err(|source| InitError::BadFilter { filter: filter.to_owned(), source })
}

fn wants_color() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_start_is_refused_and_the_first_goes_on() {
        let guard = init("first", Format::Json, "off").unwrap();
        assert!(matches!(init("second", Format::Text, "info"), Err(InitError::AlreadyStarted)));
        drop(guard);
    }

    #[test]
    fn a_bad_filter_is_quoted_back() {
        let error = parse_filter("fabricast_tic=loud").unwrap_err();
        assert_eq!(error.to_string(), "cannot read log filter 'fabricast_tic=loud'");
    }

    #[test]
    fn empty_parts_of_a_filter_select_nothing() {
        assert_eq!(
            parse_filter("info, fabricast_tic=debug ,").unwrap(),
            parse_filter("info,fabricast_tic=debug").unwrap()
        );
        assert_eq!(parse_filter("").unwrap(), parse_filter("error").unwrap());
    }

    #[test]
    fn a_filter_of_spans_is_refused() {
        let error = parse_filter("fabricast_tic[rpc]=debug").unwrap_err();
        assert!(matches!(error, InitError::UnsupportedFilter { .. }), "{error}");
    }

    #[test]
    fn a_filter_may_name_a_level_or_single_crates() {
        for filter in ["warn", "info,fabricast_router=debug"] {
            assert_eq!(
                parse_filter(filter).unwrap().to_string().split(',').count(),
                filter.split(',').count()
            );
        }
    }
}
