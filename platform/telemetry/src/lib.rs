//! Sets up what a process says about itself: one call to [`init`] at the top of `main`.
//!
//! Everything goes to the standard error stream; standard output belongs to data. Who changed what is written down by
//! [`audit()`], what came of which request, across processes, is told by [`traces`]; how much there is of what by [`metrics`].
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
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use stamp::{Shape, Stamped};

pub use audit::{TARGET as AUDIT_TARGET, audit};

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
/// [`InitError::BadFilter`] is the operator's to mend; [`InitError::AlreadyStarted`] is a fault
/// of the program.
pub fn init(service: &'static str, format: Format, filter: &str) -> Result<Guard, InitError> {
    let from_environment = std::env::var(FILTER_VARIABLE).ok().filter(|text| !text.is_empty());
    let fixed = from_environment.is_some();
    let filter = parse_filter(from_environment.as_deref().unwrap_or(filter))?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer()
        .with_writer(io::stderr)
        // Who reads standard error may go away; that must not end a service.
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
/// [`InitError::BadFilter`].
pub fn check_filter(filter: &str) -> Result<(), InitError> {
    parse_filter(filter).map(drop)
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
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
    filter: reload::Handle<EnvFilter, Registry>,
    fixed: bool, // by the environment
}

impl Guard {
    /// Whether `FABRICAST_LOG` says what is logged, so that no setting does.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Logs what another filter lets through from now on, unless `FABRICAST_LOG` says what is logged.
    ///
    /// # Errors
    ///
    /// [`InitError::BadFilter`]; then the old one stays.
    pub fn set_filter(&self, filter: &str) -> Result<(), InitError> {
        let filter = parse_filter(filter)?;
        if !self.fixed {
            // It fails only if there is no log any more, which nobody could be told of.
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

/// Why logging could not be started.
#[derive(Debug, Error)]
pub enum InitError {
    /// The filter is no filter.
    #[error("cannot read log filter '{filter}'")]
    BadFilter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// This process logs already.
    #[error("logging is already set up in this process")]
    AlreadyStarted,
}

fn parse_filter(filter: &str) -> Result<EnvFilter, InitError> {
    EnvFilter::try_new(filter)
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
    fn a_filter_may_name_a_level_or_single_crates() {
        for filter in ["warn", "info,fabricast_router=debug"] {
            assert_eq!(
                parse_filter(filter).unwrap().to_string().split(',').count(),
                filter.split(',').count()
            );
        }
    }
}
