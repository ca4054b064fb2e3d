//! What a process says about itself: its log, and the traces that it writes.

use anyhow::Context;
use fabricast_config::{LogFormat, Sources, TelemetryConfig, load};
use fabricast_telemetry::metrics::TRACES_DROPPED;
use fabricast_telemetry::traces::{self, Entered, Exporting, Side, Span};
use fabricast_telemetry::{Format, Guard};

use crate::args::{Command, FabricArgs, TraceArgs};
use crate::failure::Failure;
use crate::output;

/// How the variables of these settings begin.
const VARIABLES: &str = "FABRICAST_TELEMETRY__";

/// Log and traces of a part; dropped, it says its last word.
#[derive(Debug)]
pub(crate) struct Voice {
    _traces: Option<Exporting>, // before the log ends
    pub(crate) log: Guard,
}

impl Voice {
    /// Begins to log, and to write traces if that is set.
    ///
    /// # Errors
    ///
    /// A log that is set up already, or no thread for traces.
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

/// Begins to write traces, if that is set.
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

/// Adds to where settings come from what the arguments say of traces.
pub(crate) fn with_flags(sources: Sources, args: &TraceArgs) -> Sources {
    match &args.traces {
        Some(url) => sources.telemetry_flag("traces", url, "--traces"),
        None => sources,
    }
}

/// What the environment and the arguments say, for whoever has no file of settings.
///
/// # Errors
///
/// All that is wrong with it.
pub(crate) fn settings(args: &TraceArgs) -> Result<TelemetryConfig, Failure> {
    let mut sources = Sources::of_this_process(None);
    sources.variables.retain(|(name, _)| name.starts_with(VARIABLES));
    load(&with_flags(sources, args)).map_err(|errors| Failure::BadConfig(errors.into()))
}

/// The trace of one command; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct CommandTrace {
    entered: Option<Entered>,
    span: Option<Span>,
    exporting: Option<Exporting>,
    collector: String,
}

/// Begins a trace of what a verb does, if it asks running parts for something and traces are set.
///
/// # Errors
///
/// Settings of traces that are none.
pub(crate) fn trace(
    args: &TraceArgs,
    verb: &str,
    command: &Command,
) -> Result<Option<CommandTrace>, Failure> {
    if !asks(command) {
        return Ok(None);
    }
    let settings = settings(args)?;
    let Some(exporting) = exporting("fabricast-cli", &settings)? else { return Ok(None) };
    let span = Span::root(format!("fabricast {verb}"), Side::Inner);
    if let Some(id) = span.trace_id().filter(|_| args.trace_id) {
        output::say(&format!("fabricast: trace {id}"));
    }
    let entered = Some(span.origin().enter());
    let collector = settings.traces.unwrap_or_default();
    Ok(Some(CommandTrace { entered, span: Some(span), exporting: Some(exporting), collector }))
}

impl Drop for CommandTrace {
    fn drop(&mut self) {
        drop(self.entered.take());
        drop(self.span.take());
        let taken = self.exporting.take().is_none_or(Exporting::finish);
        if !taken || TRACES_DROPPED.get() > 0 {
            let Self { collector, .. } = self;
            output::say(&format!("fabricast: the collector at {collector} does not take traces"));
        }
    }
}

/// Whether a command calls parts that run, once and not for as long as it lasts.
fn asks(command: &Command) -> bool {
    match command {
        Command::Topology(_)
        | Command::Route(_)
        | Command::Job(_)
        | Command::Collective(_)
        | Command::Group(_)
        | Command::Node(_)
        | Command::Switch(_) => true,
        Command::Fabric(FabricArgs { command, .. }) => command.is_some(),
        Command::Demo(_)
        | Command::Up(_)
        | Command::Run(_)
        | Command::RunKeeper
        | Command::Tic(_)
        | Command::Router(_)
        | Command::OperatingAgent(_)
        | Command::SwitchAgent(_)
        | Command::Plan(_)
        | Command::Eval(_)
        | Command::Store(_)
        | Command::Health(_)
        | Command::Debug(_)
        | Command::Certs(_) => false,
    }
}
