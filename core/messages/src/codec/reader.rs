//! The reading half of the codec.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::{Pn, Revision};

use super::{DecodeError, IS_SEGMENT, value};
use crate::frame::{Announcement, Content, Part, Piece, Report, Source};
use crate::operation::{Call, Gathered, Item, Kind, OnFailure, OperationError, Outcome, Segment};
use crate::values::{Reduction, Values};

/// Most members that a set may name.
const MOST_MEMBERS: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let short = DecodeError::Short { at: self.bytes.len() };
        let taken = rest.get(..count).ok_or(short)?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(value("flag", other)),
        }
    }

    pub(super) fn word(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn pn(&mut self) -> Result<Pn, DecodeError> {
        self.word().map(Pn)
    }

    pub(super) fn source(&mut self) -> Result<Source, DecodeError> {
        Ok(Source { pn: self.pn()?, joined: Revision(self.long()?) })
    }

    pub(super) fn announcement(&mut self) -> Result<Announcement, DecodeError> {
        let number = self.long()?;
        let content = match self.byte()? {
            0 => Content::Outcome { round: self.long()? },
            1 => Content::Payload { source: self.source()?, digest: self.long()? },
            other => return Err(value("content of pieces", other)),
        };
        Ok(Announcement { number, content, pieces: self.word()? })
    }

    pub(super) fn piece(&mut self) -> Result<Piece, DecodeError> {
        let (of, index) = (self.announcement()?, self.word()?);
        Ok(Piece { of, index, payload: self.bytes()?.to_vec() })
    }

    pub(super) fn length(&mut self) -> Result<usize, DecodeError> {
        Ok(usize::try_from(self.word()?).unwrap_or(usize::MAX))
    }

    /// Reads a list; `width` is the least that one of its items takes.
    pub(super) fn many<T>(
        &mut self,
        width: usize,
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.at_most(usize::MAX, width, read)
    }

    /// As [`Reader::many`], for a list that names members.
    pub(super) fn members<T>(
        &mut self,
        width: usize,
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.at_most(MOST_MEMBERS, width, read)
    }

    fn at_most<T>(
        &mut self,
        most: usize,
        width: usize,
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let word = self.word()?;
        let count = usize::try_from(word).unwrap_or(usize::MAX);
        if count > most {
            return Err(value("number of members", word));
        }
        if count > (self.bytes.len() - self.at) / width {
            return Err(DecodeError::Short { at: self.bytes.len() });
        }
        (0..count).map(|_| read(self)).collect()
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.length()?;
        self.take(count)
    }

    pub(super) fn text(&mut self) -> Result<String, DecodeError> {
        // Replaced bytes would make the text longer when it is passed on.
        let text = str::from_utf8(self.bytes()?).map_err(|error| {
            value("byte of a text", u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX))
        })?;
        Ok(text.to_owned())
    }

    pub(super) fn part(&mut self) -> Result<Part, DecodeError> {
        Ok(Part {
            source: self.source()?,
            number: self.long()?,
            floor: self.long()?,
            first: self.flag()?,
            last: self.flag()?,
            payload: self.bytes()?.to_vec(),
        })
    }

    pub(super) fn set(&mut self) -> Result<BTreeSet<Pn>, DecodeError> {
        let ranges = self.many(8, |from| Ok((from.word()?, from.word()?)))?;
        let mut set = BTreeSet::new();
        for (first, last) in ranges {
            let count = u64::from(last).saturating_sub(u64::from(first));
            let room = u64::try_from(MOST_MEMBERS - set.len().min(MOST_MEMBERS));
            if last < first || room.is_ok_and(|room| count >= room) {
                return Err(value("end of a range", last));
            }
            set.extend((first..=last).map(Pn));
        }
        Ok(set)
    }

    pub(super) fn call(&mut self) -> Result<Call, DecodeError> {
        let kind = match self.byte()? {
            0 => Kind::Barrier,
            1 => Kind::Broadcast,
            2 => Kind::Reduce,
            3 => Kind::AllReduce,
            4 => Kind::Gather,
            5 => Kind::Scatter,
            6 => Kind::AllGather,
            7 => Kind::Scan,
            other => return Err(value("operation", other)),
        };
        let peer = self.pn()?;
        let byte = self.byte()?;
        let reduction = match byte & !IS_SEGMENT {
            0 => Reduction::Sum,
            1 => Reduction::Min,
            2 => Reduction::Max,
            3 => Reduction::And,
            4 => Reduction::Or,
            5 => Reduction::Xor,
            6 => Reduction::Product,
            7 => Reduction::LogicalAnd,
            8 => Reduction::LogicalOr,
            9 => Reduction::LogicalXor,
            10 => Reduction::MinLoc,
            11 => Reduction::MaxLoc,
            other => return Err(value("reduction", other)),
        };
        let on_failure = if self.flag()? { OnFailure::Survivors } else { OnFailure::Fail };
        let segment = match byte & IS_SEGMENT {
            0 => Segment::default(),
            _ => Segment { number: self.word()?, cut: self.word()? },
        };
        Ok(Call { kind, peer, reduction, on_failure, segment })
    }

    pub(super) fn values(&mut self) -> Result<Values, DecodeError> {
        Ok(match self.byte()? {
            0 => Values::I32(self.many(4, |from| from.array().map(i32::from_le_bytes))?),
            1 => Values::I64(self.many(8, |from| from.array().map(i64::from_le_bytes))?),
            2 => Values::U32(self.many(4, Self::word)?),
            3 => Values::U64(self.many(8, Self::long)?),
            4 => Values::F32(self.many(4, |from| from.array().map(f32::from_le_bytes))?),
            5 => Values::F64(self.many(8, |from| from.array().map(f64::from_le_bytes))?),
            other => return Err(value("type of numbers", other)),
        })
    }

    pub(super) fn item(&mut self) -> Result<(Pn, Item), DecodeError> {
        let pn = self.pn()?;
        let item = match self.byte()? {
            0 => Item::Bytes(Arc::from(self.bytes()?)),
            1 => Item::Values(self.values()?),
            other => return Err(value("kind of contribution", other)),
        };
        Ok((pn, item))
    }

    pub(super) fn gathered(&mut self) -> Result<Gathered, DecodeError> {
        Ok(match self.byte()? {
            0 => Gathered::Nothing,
            1 => Gathered::Folded(self.values()?),
            2 => Gathered::Listed(self.many(9, Self::item)?),
            3 => Gathered::TooLong,
            4 => Gathered::Announced(self.announcement()?),
            other => return Err(value("kind of contributions", other)),
        })
    }

    pub(super) fn report(&mut self) -> Result<Report, DecodeError> {
        let (number, round, call) = (self.long()?, self.long()?, self.call()?);
        let differs = self.flag()?;
        let other = self.text()?;
        Ok(Report {
            number,
            round,
            call,
            other: differs.then_some(other),
            included: self.set()?,
            newest: Revision(self.long()?),
            expected: Arc::new(self.set()?),
            lost: self.set()?,
            gathered: self.gathered()?,
        })
    }

    pub(super) fn outcome(&mut self) -> Result<Outcome, DecodeError> {
        let (number, participants) = (self.long()?, self.set()?);
        let newest = Revision(self.long()?);
        let verdict = match self.byte()? {
            0 => Ok(self.gathered()?),
            1 => Err(OperationError::MembersFailed { failed: self.set()? }),
            2 => Err(OperationError::Differ { one: self.text()?, other: self.text()? }),
            3 => Err(OperationError::TooLong { limit: self.length()? }),
            other => return Err(value("verdict", other)),
        };
        Ok(Outcome { number, participants, newest, verdict })
    }

    pub(super) fn end<T>(self, read: T) -> Result<T, DecodeError> {
        match self.bytes.len() - self.at {
            0 => Ok(read),
            bytes => Err(DecodeError::Long { bytes }),
        }
    }
}
