//! Traces: which work came of which request, in whichever process it was done.
//!
//! A [`Span`] is a piece of work with a beginning and an end; an [`Origin`] is what further work comes of, and is what
//! travels: along with a call, in a queue, on a stream. Both are empty, and everything done with them costs a look at one
//! number, until [`start`] has been called, and for work that nobody asked to trace.
//!
//! Read [`Origin::cover`] first: what is called while a covered future runs belongs to its origin.
//!
//! Invariants
//! - TRACE-1: nothing waits for a collector; what it does not take is dropped and counted.

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

/// Other origins that a piece of work names at most.
pub const LINKS: usize = 16;

/// Set once, when traces begin.
static TRACING: OnceLock<Tracing> = OnceLock::new();

#[derive(Debug)]
struct Tracing {
    tracer: SdkTracer,
    share: Share,
}

/// Where spans go, and how many.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Address of a collector that speaks OTLP over gRPC in plain text, such as `http://127.0.0.1:4317`.
    pub collector: String,
    /// The share of traces that are kept, of those that begin here: 0 to 1.
    pub share: f64,
}

/// Why traces cannot be had.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The address is none.
    #[error("'{address}' is not an address of the form http://host:port")]
    BadAddress {
        /// As given.
        address: String,
    },
    /// They are written already.
    #[error("traces have begun in this process already")]
    AlreadyStarted,
    /// The system gives no thread.
    #[error("cannot start the thread that sends traces")]
    NoThread(#[source] std::io::Error),
}

/// Begins to write traces, which nobody reads before the collector is there.
///
/// - `service`: what the spans are said to be of.
///
/// Keep what is returned until the end of the process: dropped, it sends what is left, for two seconds at most.
///
/// # Errors
///
/// [`TraceError::BadAddress`] is the operator's to mend.
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

/// Reads the address of a collector: `http://host:port`, nothing behind it.
#[must_use]
pub fn collector(text: &str) -> Option<http::Uri> {
    let uri: http::Uri = text.parse().ok()?;
    let plain = uri.scheme_str() == Some("http") && uri.query().is_none() && uri.path() == "/";
    let authority = uri.authority()?;
    let named = !authority.host().is_empty() && !authority.as_str().contains('@');
    (plain && named && uri.port_u16().is_some_and(|port| port > 0)).then_some(uri)
}

/// Whether traces are written at all.
#[must_use]
pub fn is_on() -> bool {
    TRACING.get().is_some()
}

/// Keeps another share of the traces that begin here from now on; says whether there are any.
pub fn set_share(share: f64) -> bool {
    let tracing = TRACING.get();
    tracing.inspect(|tracing| tracing.share.set(share)).is_some()
}

/// Sends what is left when it is dropped.
#[derive(Debug)]
#[must_use = "dropped at once, it waits for nothing"]
pub struct Exporting(Option<export::Flush>);

impl Exporting {
    /// How long the end of a process is held up at most.
    const LAST_WORD: Duration = Duration::from_secs(2);

    /// Sends what is left, for two seconds at most; whether that was enough.
    #[must_use]
    pub fn finish(mut self) -> bool {
        self.flush()
    }

    fn flush(&mut self) -> bool {
        self.0.take().is_none_or(|left| left.flush(Self::LAST_WORD))
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        if !self.flush() {
            tracing::warn!("the collector has not taken the last traces in time");
        }
    }
}

/// Which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It answers the call.
    Server,
    /// It makes the call.
    Client,
    /// It is no call.
    Inner,
}

/// A piece of work; it ends when this is dropped.
#[derive(Debug, Default)]
pub struct Span(Option<Context>);

impl Span {
    /// Begins work that comes of `origin`; nothing if that is nothing.
    pub fn begin(name: impl Into<Cow<'static, str>>, side: Side, origin: &Origin) -> Self {
        Self::gather(name, side, origin, &[])
    }

    /// As [`Span::begin`], and names others that the work is done for as well, at most [`LINKS`].
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

    /// Begins work that nothing came before: a new trace, if the share that is kept allows it.
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

    /// Says something of the work.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Says that the work failed, and why.
    pub fn fail(&self, why: impl Into<Cow<'static, str>>) {
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(why));
        }
    }

    /// What comes of this work.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin(self.0.clone())
    }

    /// The number of the trace, in hexadecimal digits; nothing if it is not written.
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

/// What work comes of; empty for work that nobody traces.
#[derive(Clone, Debug, Default)]
pub struct Origin(Option<Context>);

/// What is done on this thread comes of an origin until this is dropped.
#[derive(Debug)]
pub struct Entered(Option<ContextGuard>);

impl Origin {
    /// What the work that runs now comes of.
    #[must_use]
    pub fn current() -> Self {
        if !is_on() {
            return Self(None);
        }
        let context = Context::current();
        Self(context.has_active_span().then_some(context))
    }

    /// As [`Origin::current`], but empty if it is not written down: for what is kept for later.
    #[must_use]
    pub fn kept() -> Self {
        let current = Self::current();
        if current.is_kept() { current } else { Self(None) }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it belongs to a trace that is written down.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.0.as_ref().is_some_and(|context| context.span().span_context().is_sampled())
    }

    /// Whether two belong to the same piece of work.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let ids = |origin: &Self| {
            let context = origin.0.as_ref()?;
            let span = context.span();
            Some((span.span_context().trace_id(), span.span_context().span_id()))
        };
        ids(self) == ids(other)
    }

    /// Has everything that a future does come of this; an empty one leaves it as it is.
    pub async fn cover<F: Future>(self, work: F) -> F::Output {
        match self.0 {
            Some(context) => work.with_context(context).await,
            None => work.await,
        }
    }

    /// Has everything that this thread does come of this, for a while; not to be held over an await.
    #[must_use]
    pub fn enter(&self) -> Entered {
        Entered(self.0.clone().map(Context::attach))
    }
}

impl Entered {
    /// Whether there was anything to enter.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// Origins of work that is done together: at most [`LINKS`], each once.
#[derive(Clone, Debug, Default)]
pub struct Origins(Vec<Origin>);

impl Origins {
    /// Adds one, unless it is empty or there or there is no more room.
    pub fn add(&mut self, origin: Origin) {
        if origin.is_kept()
            && self.0.len() < LINKS
            && !self.0.iter().any(|one| one.is_same(&origin))
        {
            self.0.push(origin);
        }
    }

    /// Begins what is done for all of them: in the trace of the first, and naming the others.
    #[must_use]
    pub fn span(&self, name: &'static str) -> Span {
        match self.0.split_first() {
            Some((first, others)) => Span::gather(name, Side::Inner, first, others),
            None => Span::default(),
        }
    }

    /// Begins a piece of work for each: the first does it, the others name that one.
    #[must_use]
    pub fn spans(&self, name: &'static str) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::with_capacity(self.0.len());
        for origin in &self.0 {
            let doing: Vec<Origin> = spans.first().map(Span::origin).into_iter().collect();
            spans.push(Span::gather(name, Side::Inner, origin, &doing));
        }
        spans
    }

    /// Whether there are none.
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

/// Says something of the work that runs now.
pub fn note(key: &'static str, value: &str) {
    if is_on() {
        Context::map_current(|context| {
            context.span().set_attribute(KeyValue::new(key, value.to_owned()));
        });
    }
}

/// Trace and span that the work that runs now belongs to, if they are written down.
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
