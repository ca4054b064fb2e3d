//! Traced requests whose changes are not in the switches yet.
//!
//! They come with the changes that they made. Every turn has a span for each of them, until a turn
//! succeeds: then the change is in the switches, or waits for another reason.

use fabricast_telemetry::traces::{Origin, Origins, Span};

/// Most turns with spans for the same requests, if no turn succeeds.
const MAX_TURNS: u32 = 16;

/// Requests whose changes are not in the switches yet.
#[derive(Debug, Default)]
pub(crate) struct TracedRequests {
    origins: Origins,
    /// Turns made for them so far.
    turns: u32,
}

/// Spans of one turn, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct TurnSpans(Vec<Span>);

impl TracedRequests {
    /// Adds the requests of a change, as W3C trace parents.
    pub(crate) fn add(&mut self, traceparents: &[String]) {
        traceparents.iter().for_each(|text| self.origins.add(Origin::from_text(text)));
    }

    /// Starts the spans of a turn.
    pub(crate) fn begin_turn(&mut self) -> TurnSpans {
        if self.turns == MAX_TURNS {
            self.clear();
        }
        self.turns += u32::from(!self.origins.is_empty());
        TurnSpans(self.origins.spans("route_groups"))
    }

    /// Forgets all requests, as their turn succeeded.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl TurnSpans {
    /// Origin of the work in the turn: the first of the requests.
    pub(crate) fn origin(&self) -> Origin {
        self.0.first().map(Span::origin).unwrap_or_default()
    }

    /// Ends the spans, with the revision of the records in the turn and the error that it ended
    /// with, if any.
    pub(crate) fn end(self, revision: u64, error: &str) {
        for span in &self.0 {
            span.set("fabricast.revision", i64::try_from(revision).unwrap_or(i64::MAX));
            if !error.is_empty() {
                span.fail(error.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_telemetry::traces::{LINKS, Settings, start};

    use super::*;

    fn parents(some: std::ops::Range<u32>) -> Vec<String> {
        some.map(|number| format!("00-{number:032x}-{number:016x}-01")).collect()
    }

    #[test]
    fn a_request_has_spans_until_a_turn_succeeds_up_to_a_bound() {
        let nowhere = Settings { collector: "http://127.0.0.1:9".to_owned(), share: 1.0 };
        let _exporting = start(&nowhere, "test").unwrap();
        let mut requests = TracedRequests::default();
        let spans = |requests: &mut TracedRequests| requests.begin_turn().0.len();
        for _ in 0..2 * MAX_TURNS {
            assert_eq!(spans(&mut requests), 0, "turns without requests are not counted");
        }
        requests.add(&parents(1..3));
        requests.add(&[parents(1..2), vec!["nonsense".to_owned()]].concat());
        assert_eq!(
            (spans(&mut requests), spans(&mut requests)),
            (2, 2),
            "each request once per turn"
        );
        requests.clear();
        assert_eq!(spans(&mut requests), 0);
        requests.add(&parents(1..100));
        for _ in 0..MAX_TURNS {
            assert_eq!(spans(&mut requests), LINKS);
        }
        assert_eq!(spans(&mut requests), 0, "after so many turns that failed");
        let turn = requests.begin_turn();
        assert!(turn.origin().is_none());
        turn.end(7, "");
    }
}
