//! The traced requests behind what a turn deals with.
//!
//! They come with the changes that they have made, and are named until a turn has come to its end: then what was asked
//! for is in the switches, or is waiting for something that has a reason of its own.

use fabricast_telemetry::traces::{Origin, Origins, Span};

/// Requests are not named in more turns than so many, if no turn comes to its end.
const TURNS: u32 = 16;

/// Requests whose changes are not in the switches yet.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    origins: Origins,
    /// Turns that were made for them.
    turns: u32,
}

/// A turn for them; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Round(Vec<Span>);

impl Causes {
    /// Adds those that came with changes.
    pub(crate) fn note(&mut self, traceparents: &[String]) {
        traceparents.iter().for_each(|text| self.origins.add(Origin::from_text(text)));
    }

    /// Begins a turn.
    pub(crate) fn begin(&mut self) -> Round {
        if self.turns == TURNS {
            self.settled();
        }
        self.turns += u32::from(!self.origins.is_empty());
        Round(self.origins.spans("route_groups"))
    }

    /// Forgets them: their turn is over.
    pub(crate) fn settled(&mut self) {
        *self = Self::default();
    }
}

impl Round {
    /// What is done in the turn comes of this: the first of the requests.
    pub(crate) fn origin(&self) -> Origin {
        self.0.first().map(Span::origin).unwrap_or_default()
    }

    /// Says up to which revision the records are taken in, and why the turn did not come to its end.
    pub(crate) fn ended(self, revision: u64, why_not: &str) {
        for span in &self.0 {
            span.set("fabricast.revision", i64::try_from(revision).unwrap_or(i64::MAX));
            if !why_not.is_empty() {
                span.fail(why_not.to_owned());
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
    fn requests_are_named_until_their_turn_has_ended_and_not_for_ever() {
        let nowhere = Settings { collector: "http://127.0.0.1:9".to_owned(), share: 1.0 };
        let _exporting = start(&nowhere, "test").unwrap();
        let mut causes = Causes::default();
        let spans = |causes: &mut Causes| causes.begin().0.len();
        for _ in 0..2 * TURNS {
            assert_eq!(spans(&mut causes), 0, "turns for nobody count for nothing");
        }
        causes.note(&parents(1..3));
        causes.note(&[parents(1..2), vec!["nonsense".to_owned()]].concat());
        assert_eq!((spans(&mut causes), spans(&mut causes)), (2, 2), "each once, again and again");
        causes.settled();
        assert_eq!(spans(&mut causes), 0);
        causes.note(&parents(1..100));
        for _ in 0..TURNS {
            assert_eq!(spans(&mut causes), LINKS);
        }
        assert_eq!(spans(&mut causes), 0, "no turn came to its end");
        let round = causes.begin();
        assert!(round.origin().is_none());
        round.ended(7, "");
    }
}
