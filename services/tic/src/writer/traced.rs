//! The traced requests that one commit is made for.
//!
//! Each has a span of its own for the commit, in its own trace. Everything that follows from the
//! commit elsewhere continues from these spans: through the watches at the route service, and
//! through hints at the hosts of group agents.

use fabricast_telemetry::traces::{Origin, Origins, Span};

/// Requests whose decisions wait for one commit.
#[derive(Debug, Default)]
pub(crate) struct TracedRequests {
    changes: Origins,
    /// Reports of the route service, whose changes are not news to it.
    route_reports: Origins,
}

/// The spans of one commit; they end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct CommitSpans {
    changes: Vec<Span>,
    route_reports: Vec<Span>,
}

impl TracedRequests {
    /// Adds the origin of a request.
    pub(crate) fn add(&mut self, origin: Origin, is_route_report: bool) {
        if is_route_report {
            self.route_reports.add(origin);
        } else {
            self.changes.add(origin);
        }
    }

    /// Begins the commit.
    ///
    /// - `requests`, `changes`: their number in it.
    pub(crate) fn commit(&self, requests: usize, changes: usize) -> CommitSpans {
        let spans = CommitSpans {
            changes: self.changes.spans("commit"),
            route_reports: self.route_reports.spans("commit"),
        };
        for span in spans.changes.iter().chain(&spans.route_reports) {
            span.set("fabricast.orders", i64::try_from(requests).unwrap_or(i64::MAX));
            span.set("fabricast.changes", i64::try_from(changes).unwrap_or(i64::MAX));
        }
        spans
    }
}

impl CommitSpans {
    /// The origins of everything that follows from the commit.
    pub(crate) fn origins(&self) -> impl Iterator<Item = Origin> {
        self.changes.iter().chain(&self.route_reports).map(Span::origin)
    }

    /// The origins that watchers are sent, as text: all but those of route reports.
    pub(crate) fn watch_origins(&self) -> Vec<String> {
        self.changes.iter().filter_map(|span| span.origin().to_text()).collect()
    }
}

#[cfg(test)]
mod tests {
    use fabricast_telemetry::traces::{Settings, start};

    use super::*;

    #[test]
    fn watchers_do_not_get_the_origins_of_route_reports_and_hints_get_all() {
        let nowhere = Settings { collector: "http://127.0.0.1:9".to_owned(), share: 1.0 };
        let _exporting = start(&nowhere, "test").unwrap();
        let origin = |number: u32| Origin::from_text(&format!("00-{number:032x}-{number:016x}-01"));
        let mut requests = TracedRequests::default();
        requests.add(origin(1), false);
        requests.add(origin(1), false);
        requests.add(origin(2), true);
        requests.add(Origin::default(), false);
        let spans = requests.commit(4, 0);
        let sent = spans.watch_origins();
        let trace = format!("00-{:032x}-", 1);
        assert!(sent.len() == 1 && sent[0].starts_with(&trace), "{sent:?}");
        assert_eq!(spans.origins().count(), 2);
        assert!(TracedRequests::default().commit(9, 9).watch_origins().is_empty());
    }
}
