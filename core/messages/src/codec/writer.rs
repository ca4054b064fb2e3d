//! The writing half of the codec.

use std::collections::BTreeSet;

use fabricast_groups::Pn;

use super::IS_SEGMENT;
use crate::frame::{Announcement, Content, Part, Piece, Report, Source};
use crate::operation::{Call, Gathered, Item, Kind, OnFailure, OperationError, Outcome, Segment};
use crate::values::{Reduction, Values};

#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.byte(u8::from(flag))
    }

    pub(super) fn word(&mut self, word: u32) -> &mut Self {
        self.0.extend(word.to_le_bytes());
        self
    }

    pub(super) fn long(&mut self, long: u64) -> &mut Self {
        self.0.extend(long.to_le_bytes());
        self
    }

    pub(super) fn count(&mut self, count: usize) -> &mut Self {
        self.word(u32::try_from(count).expect("limits keep lengths far below 4 GiB"))
    }

    pub(super) fn pn(&mut self, pn: Pn) -> &mut Self {
        self.word(pn.0)
    }

    pub(super) fn source(&mut self, source: Source) -> &mut Self {
        self.pn(source.pn).long(source.joined.0)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).0.extend(bytes);
        self
    }

    pub(super) fn part(&mut self, part: &Part) -> &mut Self {
        self.source(part.source)
            .long(part.number)
            .long(part.floor)
            .flag(part.first)
            .flag(part.last);
        self.bytes(&part.payload)
    }

    pub(super) fn announcement(&mut self, of: Announcement) -> &mut Self {
        self.long(of.number);
        match of.content {
            Content::Outcome { round } => self.byte(0).long(round),
            Content::Payload { source, digest } => self.byte(1).source(source).long(digest),
        };
        self.word(of.pieces)
    }

    pub(super) fn piece(&mut self, piece: &Piece) -> &mut Self {
        self.announcement(piece.of).word(piece.index).bytes(&piece.payload)
    }

    pub(super) fn set(&mut self, set: &BTreeSet<Pn>) -> &mut Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for pn in set {
            match ranges.last_mut() {
                Some((_, end)) if end.checked_add(1) == Some(pn.0) => *end = pn.0,
                Some(_) | None => ranges.push((pn.0, pn.0)),
            }
        }
        self.count(ranges.len());
        ranges.into_iter().for_each(|(first, last)| _ = self.word(first).word(last));
        self
    }

    pub(super) fn call(&mut self, call: &Call) -> &mut Self {
        let kind = match call.kind {
            Kind::Barrier => 0,
            Kind::Broadcast => 1,
            Kind::Reduce => 2,
            Kind::AllReduce => 3,
            Kind::Gather => 4,
            Kind::Scatter => 5,
            Kind::AllGather => 6,
            Kind::Scan => 7,
        };
        let reduction = match call.reduction {
            Reduction::Sum => 0,
            Reduction::Min => 1,
            Reduction::Max => 2,
            Reduction::And => 3,
            Reduction::Or => 4,
            Reduction::Xor => 5,
            Reduction::Product => 6,
            Reduction::LogicalAnd => 7,
            Reduction::LogicalOr => 8,
            Reduction::LogicalXor => 9,
            Reduction::MinLoc => 10,
            Reduction::MaxLoc => 11,
        };
        let survivors = call.on_failure == OnFailure::Survivors;
        let Segment { number, cut } = call.segment;
        if call.segment == Segment::default() {
            // As versions without segments write it.
            return self.byte(kind).pn(call.peer).byte(reduction).flag(survivors);
        }
        self.byte(kind).pn(call.peer).byte(reduction | IS_SEGMENT).flag(survivors);
        self.word(number).word(cut)
    }

    pub(super) fn values(&mut self, values: &Values) -> &mut Self {
        macro_rules! numbers {
            ($kind:literal, $numbers:expr) => {{
                self.byte($kind).count($numbers.len());
                $numbers.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
            }};
        }
        match values {
            Values::I32(numbers) => numbers!(0, numbers),
            Values::I64(numbers) => numbers!(1, numbers),
            Values::U32(numbers) => numbers!(2, numbers),
            Values::U64(numbers) => numbers!(3, numbers),
            Values::F32(numbers) => numbers!(4, numbers),
            Values::F64(numbers) => numbers!(5, numbers),
        }
        self
    }

    pub(super) fn gathered(&mut self, gathered: &Gathered) -> &mut Self {
        match gathered {
            Gathered::Nothing => self.byte(0),
            Gathered::TooLong => self.byte(3),
            Gathered::Announced(of) => self.byte(4).announcement(*of),
            Gathered::Folded(values) => self.byte(1).values(values),
            Gathered::Listed(items) => {
                self.byte(2).count(items.len());
                for (pn, item) in items {
                    match item {
                        Item::Bytes(bytes) => self.pn(*pn).byte(0).bytes(bytes),
                        Item::Values(values) => self.pn(*pn).byte(1).values(values),
                    };
                }
                self
            }
        }
    }

    pub(super) fn report(&mut self, report: &Report) -> &mut Self {
        self.long(report.number).long(report.round).call(&report.call);
        self.flag(report.other.is_some());
        self.bytes(report.other.as_deref().unwrap_or_default().as_bytes());
        self.set(&report.included).long(report.newest.0).set(&report.expected).set(&report.lost);
        self.gathered(&report.gathered)
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) -> &mut Self {
        self.long(outcome.number).set(&outcome.participants).long(outcome.newest.0);
        match &outcome.verdict {
            Ok(gathered) => self.byte(0).gathered(gathered),
            Err(OperationError::MembersFailed { failed }) => self.byte(1).set(failed),
            Err(OperationError::Differ { one, other }) => {
                self.byte(2).bytes(one.as_bytes()).bytes(other.as_bytes())
            }
            Err(OperationError::TooLong { limit }) => self.byte(3).count(*limit),
        }
    }
}
