//! The decisions of the TIC's writer, by kind of request, as the writer logs them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Module that logs decisions.
pub(super) const WRITER: &str = "fabricast_tic::writer";
/// Processor time that a decision may take.
pub(super) const LONGEST: Duration = Duration::from_millis(50);

/// Decisions on requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    pub(super) count: usize,
    /// Those that took more than [`LONGEST`].
    pub(super) too_long: usize,
    pub(super) longest: Duration,
}

impl Decisions {
    fn add(&mut self, spent: Duration) {
        self.count += 1;
        self.too_long += usize::from(spent > LONGEST);
        self.longest = self.longest.max(spent);
    }
}

/// Collects the decisions; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct DecisionLog(Arc<Mutex<BTreeMap<String, Decisions>>>);

impl DecisionLog {
    /// The decisions so far, by the type of the request.
    pub(super) fn by_kind(&self) -> BTreeMap<String, Decisions> {
        self.0.lock().clone()
    }
}

impl Subscriber for DecisionLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == WRITER
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let (Some(request), Some(spent)) = (fields.request, fields.spent) {
            self.0.lock().entry(request).or_default().add(spent);
        }
    }

    // Spans are not enabled.
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// Fields of an event about a decision.
#[derive(Default)]
struct Fields {
    request: Option<String>,
    spent: Option<Duration>,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "elapsed_us" {
            self.spent = Some(Duration::from_micros(value));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "request" {
            self.request = Some(without_modules(value));
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}

/// Shortens a type such as `a::b::Own<c::Leave>` to `Own<Leave>`.
fn without_modules(name: &str) -> String {
    let parts = name.split('<').map(|part| part.rsplit("::").next().unwrap_or(part));
    parts.collect::<Vec<_>>().join("<")
}
