//! Appends the ids of the current trace and span to log lines.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::traces;

/// Format of the lines that the ids are appended to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Text,
    Json,
}

/// Writes lines as another format does, and adds `trace_id` and `span_id`.
#[derive(Debug)]
pub(crate) struct Stamped<F> {
    inner: F,
    shape: Shape,
}

impl<F> Stamped<F> {
    pub(crate) fn new(inner: F, shape: Shape) -> Self {
        Self { inner, shape }
    }
}

impl<S, N, F> FormatEvent<S, N> for Stamped<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some((trace, span)) = traces::current_ids() else {
            return self.inner.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        writer.write_str(&stamped(line, self.shape, &trace, &span))
    }
}

fn stamped(mut line: String, shape: Shape, trace: &str, span: &str) -> String {
    line.truncate(line.trim_end().len());
    match shape {
        Shape::Text => line + &format!(" trace_id={trace} span_id={span}\n"),
        Shape::Json => {
            line.truncate(line.strip_suffix('}').map_or(line.len(), str::len));
            line + &format!(",\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"}}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_of_its_kind() {
        assert_eq!(
            stamped("INFO x: y\n".to_owned(), Shape::Text, "aa", "bb"),
            "INFO x: y trace_id=aa span_id=bb\n"
        );
        assert_eq!(
            stamped("{\"message\":\"y\"}\n".to_owned(), Shape::Json, "aa", "bb"),
            "{\"message\":\"y\",\"trace_id\":\"aa\",\"span_id\":\"bb\"}\n"
        );
    }
}
