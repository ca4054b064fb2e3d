//! Origins as they travel: the W3C trace context, in headers of calls and in fields of messages.

use http::{HeaderMap, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use super::{Origin, is_on};

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// A longer text is no origin.
const LONGEST: usize = 256;

/// Key of a header or field.
struct Carrier<'a>(&'a dyn Fn(&str) -> Option<&'a str>);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (self.0)(key)
    }

    fn keys(&self) -> Vec<&str> {
        vec![PARENT, STATE]
    }
}

impl Origin {
    /// Reads it from the headers of a call; empty if there is none, or nobody traces here.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Self {
        if !is_on() || !headers.contains_key(PARENT) {
            return Self(None);
        }
        extract(&|key| headers.get(key)?.to_str().ok().filter(|text| text.len() <= LONGEST))
    }

    /// Writes it to the headers of a call, in place of what was there.
    pub fn write(&self, headers: &mut HeaderMap) {
        let Some(parent) = self.to_text() else { return };
        if let Ok(value) = HeaderValue::from_str(&parent) {
            headers.insert(PARENT, value);
        }
        let state =
            self.0.as_ref().map(|context| context.span().span_context().trace_state().header());
        match state.filter(|state| !state.is_empty()).map(HeaderValue::try_from) {
            Some(Ok(state)) => drop(headers.insert(STATE, state)),
            Some(Err(_)) | None => drop(headers.remove(STATE)),
        }
    }

    /// Reads it from a field of a message, as [`Origin::to_text`] wrote it; empty if it is none.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        if !is_on() || text.is_empty() || text.len() > LONGEST {
            return Self(None);
        }
        extract(&|key| (key == PARENT).then_some(text))
    }

    /// The `traceparent` of what comes of it.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        let context = self.0.as_ref()?;
        Some(text(context.span().span_context()))
    }
}

fn text(span: &SpanContext) -> String {
    let flags = (span.trace_flags() & TraceFlags::SAMPLED).to_u8();
    format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id())
}

fn extract<'a>(get: &'a dyn Fn(&str) -> Option<&'a str>) -> Origin {
    let context =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &Carrier(get));
    let known = context.span().span_context().is_valid();
    Origin(known.then_some(context))
}
