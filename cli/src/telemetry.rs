//! Log and traces of a process.

use anyhow::Context;
use fabricast_config::{LogFormat, Sources, TelemetryConfig, load};
use fabricast_telemetry::metrics::TRACES_DROPPED;
use fabricast_telemetry::traces::{self, Entered, Exporting, Side, Span};
use fabricast_telemetry::{Format, Guard};

use crate::args::TraceArgs;
use crate::failure::Failure;
use crate::output;

/// Prefix of the environment variables of these settings.
const VARIABLES: &str = "FABRICAST_TELEMETRY__";

/// Log and traces of a part; dropping it flushes both.
#[derive(Debug)]
pub(crate) struct Telemetry {
    _traces: Option<Exporting>, // before the log ends
    pub(crate) log: Guard,
}

impl Telemetry {
    /// Starts the log, and traces if they are configured.
    ///
    /// # Errors
    ///
    /// The log is set up already, or no thread for traces can be started.
    pub(crate) fn begin(
        service: &'static str,
        settings: &TelemetryConfig,
    ) -> Result<Self, Failure> {
        let format = match settings.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        let log = fabricast_telemetry::init(service, format, &settings.log);
        let log = log.context("start logging")?;
        let _traces = exporting(service, settings)?;
        Ok(Self { _traces, log })
    }
}

/// Starts traces, if they are configured.
fn exporting(
    service: &'static str,
    settings: &TelemetryConfig,
) -> Result<Option<Exporting>, Failure> {
    let Some(collector) = settings.traces.clone() else { return Ok(None) };
    let settings = traces::Settings { collector, share: settings.trace_share };
    let exporting = traces::start(&settings, service).context("write traces")?;
    tracing::info!(peer = settings.collector, "traces are written");
    Ok(Some(exporting))
}

/// Adds the arguments about traces to the sources of settings.
pub(crate) fn with_flags(sources: Sources, args: &TraceArgs) -> Sources {
    match &args.traces {
        Some(url) => sources.telemetry_flag("traces", url, "--traces"),
        None => sources,
    }
}

/// Reads settings from environment and arguments, for commands without a file of settings.
///
/// # Errors
///
/// Lists everything that is wrong with them.
pub(crate) fn settings(args: &TraceArgs) -> Result<TelemetryConfig, Failure> {
    let mut sources = Sources::of_this_process(None);
    sources.variables.retain(|(name, _)| name.starts_with(VARIABLES));
    load(&with_flags(sources, args)).map_err(|errors| Failure::BadConfig(errors.into()))
}

/// Trace of one command; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct CommandTrace {
    entered: Option<Entered>,
    span: Option<Span>,
    exporting: Option<Exporting>,
    collector: String,
}

impl CommandTrace {
    /// Begins the trace of a command, if traces are configured.
    ///
    /// - `verb`: names of the subcommands, such as `group join`.
    ///
    /// # Errors
    ///
    /// Bad settings of traces.
    pub(crate) fn begin(args: &TraceArgs, verb: &str) -> Result<Option<Self>, Failure> {
        let settings = settings(args)?;
        let Some(exporting) = exporting("fabricast-cli", &settings)? else { return Ok(None) };
        let span = Span::root(format!("fabricast {verb}"), Side::Inner);
        if let Some(id) = span.trace_id().filter(|_| args.trace_id) {
            output::notice(&format!("fabricast: trace {id}"));
        }
        let entered = Some(span.origin().enter());
        let collector = settings.traces.unwrap_or_default();
        Ok(Some(Self { entered, span: Some(span), exporting: Some(exporting), collector }))
    }
}

impl Drop for CommandTrace {
    fn drop(&mut self) {
        drop(self.entered.take());
        drop(self.span.take());
        let taken = self.exporting.take().is_none_or(Exporting::finish);
        if !taken || TRACES_DROPPED.get() > 0 {
            let Self { collector, .. } = self;
            output::notice(&format!(
                "fabricast: the collector at {collector} does not take traces"
            ));
        }
    }
}
