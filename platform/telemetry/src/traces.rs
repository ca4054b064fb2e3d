//! Traces: the work that each request causes, in all processes.
//!
//! A [`Span`] is a piece of work with a beginning and an end. An [`Origin`] is the span that causes
//! further work; it is passed on with calls, in queues and on streams. Both are empty for work that
//! is not traced and before [`start`] was called; operations on them then cost one atomic read.
//!
//! Read [`Origin::cover`] first: calls made while a covered future runs belong to its origin.
//!
//! Invariants
//! - TRACE-1: nothing waits for a collector; spans that it does not take are dropped and counted.

mod export;
mod propagation;
mod sampling;

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::{
    FutureExt, Link, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, ContextGuard, InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use thiserror::Error;

use export::Exporter;
use sampling::Share;

/// Most links of a span to other origins.
pub const LINKS: usize = 16;

/// Set once, by [`start`].
static TRACING: OnceLock<Tracing> = OnceLock::new();

#[derive(Debug)]
struct Tracing {
    tracer: SdkTracer,
    share: Share,
}

/// The collector, and the share of traces that it gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Address of a collector that speaks OTLP over gRPC in plain text, such as
    /// `http://127.0.0.1:4317`.
    pub collector: String,
    /// The share of traces that are kept, of those that begin here: 0 to 1.
    pub share: f64,
}

/// An error of [`start`].
#[derive(Debug, Error)]
pub enum TraceError {
    /// The address of the collector is invalid.
    #[error("'{address}' is not an address of the form http://host:port")]
    BadAddress {
        /// The URL as it was given.
        address: String,
    },
    /// [`start`] was called before.
    #[error("traces have begun in this process already")]
    AlreadyStarted,
    /// The system refuses a thread.
    #[error("cannot start the thread that sends traces")]
    NoThread(#[source] std::io::Error),
}

/// Starts to export traces. The collector need not be reachable yet.
///
/// - `service`: name of the service in all spans.
///
/// Keep the result until the end of the process: when it is dropped, it sends the waiting spans,
/// for two seconds at most.
///
/// # Errors
///
/// [`TraceError::BadAddress`] has to be corrected by the operator.
pub fn start(settings: &Settings, service: &'static str) -> Result<Exporting, TraceError> {
    let uri = collector(&settings.collector)
        .ok_or_else(|| TraceError::BadAddress { address: settings.collector.clone() })?;
    if TRACING.get().is_some() {
        return Err(TraceError::AlreadyStarted);
    }
    let resource = Resource::builder_empty()
        .with_service_name(service)
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .build();
    let (exporter, exporting) = Exporter::start(uri, &resource).map_err(TraceError::NoThread)?;
    let share = Share::new(settings.share);
    let provider = SdkTracerProvider::builder()
        .with_span_processor(exporter)
        .with_sampler(share.sampler())
        .with_resource(resource)
        .build();
    let scope = InstrumentationScope::builder("fabricast").with_version(env!("CARGO_PKG_VERSION"));
    let tracing = Tracing { tracer: provider.tracer_with_scope(scope.build()), share };
    TRACING.set(tracing).map_err(|_| TraceError::AlreadyStarted)?;
    Ok(Exporting(Some(exporting)))
}

/// Parses the address of a collector: `http://host:port` without a path.
#[must_use]
pub fn collector(text: &str) -> Option<http::Uri> {
    let uri: http::Uri = text.parse().ok()?;
    let plain = uri.scheme_str() == Some("http") && uri.query().is_none() && uri.path() == "/";
    let authority = uri.authority()?;
    let named = !authority.host().is_empty() && !authority.as_str().contains('@');
    (plain && named && uri.port_u16().is_some_and(|port| port > 0)).then_some(uri)
}

/// True if traces are exported.
#[must_use]
pub fn is_on() -> bool {
    TRACING.get().is_some()
}

/// Changes the share of traces that are kept of those that begin here; `false` if traces are off.
pub fn set_share(share: f64) -> bool {
    let tracing = TRACING.get();
    tracing.inspect(|tracing| tracing.share.set(share)).is_some()
}

/// Sends the waiting spans when it is dropped.
#[derive(Debug)]
#[must_use = "dropped at once, it sends nothing"]
pub struct Exporting(Option<export::Flush>);

impl Exporting {
    /// Longest delay of the end of a process.
    const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

    /// Sends the waiting spans, for two seconds at most; `false` if that was too short.
    #[must_use]
    pub fn finish(mut self) -> bool {
        self.flush()
    }

    fn flush(&mut self) -> bool {
        self.0.take().is_none_or(|left| left.flush(Self::FLUSH_TIMEOUT))
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        if !self.flush() {
            tracing::warn!("the collector has not taken the last traces in time");
        }
    }
}

/// The side of a call that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It answers the call.
    Server,
    /// It makes the call.
    Client,
    /// It is no call.
    Inner,
}

/// A piece of work, which ends when this is dropped.
#[derive(Debug, Default)]
pub struct Span(Option<Context>);

impl Span {
    /// Begins a span caused by `origin`; an empty one if `origin` is empty.
    pub fn begin(name: impl Into<Cow<'static, str>>, side: Side, origin: &Origin) -> Self {
        Self::gather(name, side, origin, &[])
    }

    /// As [`Span::begin`], with links to other origins of the work, at most [`LINKS`].
    pub fn gather(
        name: impl Into<Cow<'static, str>>,
        side: Side,
        origin: &Origin,
        others: &[Origin],
    ) -> Self {
        match &origin.0 {
            Some(context) => Self::build(name.into(), side, context, others),
            None => Self(None),
        }
    }

    /// Begins a new trace, subject to the share of traces that are kept.
    pub fn root(name: impl Into<Cow<'static, str>>, side: Side) -> Self {
        Self::build(name.into(), side, &Context::new(), &[])
    }

    fn build(name: Cow<'static, str>, side: Side, context: &Context, others: &[Origin]) -> Self {
        let Some(tracing) = TRACING.get() else { return Self(None) };
        let kind = match side {
            Side::Server => SpanKind::Server,
            Side::Client => SpanKind::Client,
            Side::Inner => SpanKind::Internal,
        };
        let mut builder = SpanBuilder::from_name(name).with_kind(kind);
        let linked = others.iter().filter_map(|other| other.0.as_ref()).take(LINKS);
        let links: Vec<Link> =
            linked.map(|other| Link::with_context(other.span().span_context().clone())).collect();
        if !links.is_empty() {
            builder = builder.with_links(links);
        }
        Self(Some(context.with_span(tracing.tracer.build_with_context(builder, context))))
    }

    /// Sets an attribute.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Marks the span as failed.
    pub fn fail(&self, why: impl Into<Cow<'static, str>>) {
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(why));
        }
    }

    /// The origin for work that this span causes.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin(self.0.clone())
    }

    /// The trace id in hexadecimal digits; `None` if the trace is not sampled.
    #[must_use]
    pub fn trace_id(&self) -> Option<String> {
        let context = self.0.as_ref()?;
        let span = context.span();
        let known = span.span_context();
        known.is_sampled().then(|| known.trace_id().to_string())
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }
}

/// The span that caused some work; empty for work that is not traced.
#[derive(Clone, Debug, Default)]
pub struct Origin(Option<Context>);

/// Sets the origin of the work of this thread until it is dropped.
#[derive(Debug)]
pub struct Entered(Option<ContextGuard>);

impl Origin {
    /// The origin of the work that runs now.
    #[must_use]
    pub fn current() -> Self {
        if !is_on() {
            return Self(None);
        }
        let context = Context::current();
        Self(context.has_active_span().then_some(context))
    }

    /// As [`Origin::current`], but empty if the trace is not sampled: for origins that are stored.
    #[must_use]
    pub fn kept() -> Self {
        let current = Self::current();
        if current.is_kept() { current } else { Self(None) }
    }

    /// True if it is empty.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// True if it belongs to a sampled trace.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.0.as_ref().is_some_and(|context| context.span().span_context().is_sampled())
    }

    /// True if both are the same span.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let ids = |origin: &Self| {
            let context = origin.0.as_ref()?;
            let span = context.span();
            Some((span.span_context().trace_id(), span.span_context().span_id()))
        };
        ids(self) == ids(other)
    }

    /// Runs a future with this as its origin; an empty one changes nothing.
    pub async fn cover<F: Future>(self, work: F) -> F::Output {
        match self.0 {
            Some(context) => work.with_context(context).await,
            None => work.await,
        }
    }

    /// Makes this the origin of the thread's work until the result is dropped. Not to be held over
    /// an await.
    #[must_use]
    pub fn enter(&self) -> Entered {
        Entered(self.0.clone().map(Context::attach))
    }
}

impl Entered {
    /// True if there was an origin to enter.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// Origins of work that is done together: at most [`LINKS`], each once.
#[derive(Clone, Debug, Default)]
pub struct Origins(Vec<Origin>);

impl Origins {
    /// Adds one, unless it is empty, already there, or there are [`LINKS`].
    pub fn add(&mut self, origin: Origin) {
        if origin.is_kept()
            && self.0.len() < LINKS
            && !self.0.iter().any(|one| one.is_same(&origin))
        {
            self.0.push(origin);
        }
    }

    /// Begins one span for all of them: in the trace of the first, with links to the others.
    #[must_use]
    pub fn span(&self, name: &'static str) -> Span {
        match self.0.split_first() {
            Some((first, others)) => Span::gather(name, Side::Inner, first, others),
            None => Span::default(),
        }
    }

    /// Begins a span for each: the first is the work, the others link to it.
    #[must_use]
    pub fn spans(&self, name: &'static str) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::with_capacity(self.0.len());
        for origin in &self.0 {
            let doing: Vec<Origin> = spans.first().map(Span::origin).into_iter().collect();
            spans.push(Span::gather(name, Side::Inner, origin, &doing));
        }
        spans
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Origin> for Origins {
    fn from_iter<I: IntoIterator<Item = Origin>>(origins: I) -> Self {
        let mut some = Self::default();
        origins.into_iter().for_each(|origin| some.add(origin));
        some
    }
}

/// Sets an attribute of the current span.
pub fn note(key: &'static str, value: &str) {
    if is_on() {
        Context::map_current(|context| {
            context.span().set_attribute(KeyValue::new(key, value.to_owned()));
        });
    }
}

/// Ids of the current trace and span, if the trace is sampled.
pub(crate) fn current_ids() -> Option<(String, String)> {
    if !is_on() {
        return None;
    }
    Context::map_current(|context| {
        let span = context.span();
        let known = span.span_context();
        known.is_sampled().then(|| (known.trace_id().to_string(), known.span_id().to_string()))
    })
}

#[cfg(test)]
mod tests;
