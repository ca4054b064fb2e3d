//! Frames and packets as bytes: fixed widths, little endian, lengths before contents.
//!
//! Sets of ranks are encoded as ranges, because a side of a tree has few ranges however large the
//! group is. Malformed bytes are refused; a length is never trusted beyond the bytes that follow.

use std::sync::Arc;

use fabricast_groups::{Gn, Revision};
use thiserror::Error;

use crate::frame::{Ack, Body, Hello, Missing, Notice, Packet, RosterChange};

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use reader::Reader;
use writer::Writer;

/// First bytes of every packet; packets without it belong to others.
const MARK: [u8; 8] = *b"\x89FCmsg1\n";

/// Bit of the byte of a call's reduction: the place in a long operation follows.
const IS_SEGMENT: u8 = 0x80;

/// Reason why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the bytes end too early, after {at}")]
    Short {
        /// Number of bytes.
        at: usize,
    },
    /// A field has an undefined value.
    #[error("{what} cannot be {value}")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// The undefined value.
        value: u64,
    },
    /// Bytes follow the end.
    #[error("{bytes} bytes follow the end")]
    Long {
        /// Number of surplus bytes.
        bytes: usize,
    },
}

impl Body {
    /// Encodes the body; the frame's addresses are the link's to carry.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Hello(hello) => {
                out.byte(0).long(hello.joined.0).flag(hello.reply).flag(hello.hears);
                out.long(hello.round).long(hello.decided);
            }
            Self::Roster(change) => {
                out.byte(1).flag(change.whole).count(change.gone.len());
                change.gone.iter().for_each(|pn| _ = out.pn(*pn));
                out.count(change.here.len());
                change.here.iter().for_each(|(pn, joined)| _ = out.pn(*pn).long(joined.0));
            }
            Self::Floor { source, floor } => _ = out.byte(2).source(*source).long(*floor),
            Self::Part(part) => _ = out.byte(3).part(part),
            Self::BestEffort(part) => _ = out.byte(4).part(part),
            Self::Ack { source, ack } => {
                out.byte(5).source(*source).long(ack.have).long(ack.side);
            }
            Self::Round { round, decided } => _ = out.byte(6).long(*round).long(*decided),
            Self::Report(report) => _ = out.byte(7).report(report),
            Self::Decided { round, outcome } => _ = out.byte(8).long(*round).outcome(outcome),
            Self::Query { number } => _ = out.byte(9).long(*number),
            Self::Piece(piece) => _ = out.byte(10).piece(piece),
            Self::Collected { of, have } => _ = out.byte(11).announcement(*of).word(*have),
            Self::Lacks { source, from, to } => {
                out.byte(13).source(*source).long(*from).long(*to);
            }
            Self::Missing(Missing { of, from, to, heard }) => {
                out.byte(12).announcement(*of).word(*from).word(*to).flag(*heard);
            }
        }
        out.0
    }

    /// Decodes a body.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if [`Body::encode`] writes no such bytes; the sender is at fault.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let body = match from.byte()? {
            0 => Self::Hello(Hello {
                joined: Revision(from.long()?),
                reply: from.flag()?,
                hears: from.flag()?,
                round: from.long()?,
                decided: from.long()?,
            }),
            1 => {
                let whole = from.flag()?;
                let gone = from.members(4, Reader::pn)?;
                let here = from.members(12, |from| Ok((from.pn()?, Revision(from.long()?))))?;
                Self::Roster(RosterChange { whole, gone, here })
            }
            2 => Self::Floor { source: from.source()?, floor: from.long()? },
            3 => Self::Part(Arc::new(from.part()?)),
            4 => Self::BestEffort(Arc::new(from.part()?)),
            5 => Self::Ack {
                source: from.source()?,
                ack: Ack { have: from.long()?, side: from.long()? },
            },
            6 => Self::Round { round: from.long()?, decided: from.long()? },
            7 => Self::Report(from.report()?),
            8 => Self::Decided { round: from.long()?, outcome: Arc::new(from.outcome()?) },
            9 => Self::Query { number: from.long()? },
            10 => Self::Piece(Arc::new(from.piece()?)),
            11 => Self::Collected { of: from.announcement()?, have: from.word()? },
            12 => Self::Missing(Missing {
                of: from.announcement()?,
                from: from.word()?,
                to: from.word()?,
                heard: from.flag()?,
            }),
            13 => Self::Lacks { source: from.source()?, from: from.long()?, to: from.long()? },
            other => return Err(value("kind of frame", other)),
        };
        from.end(body)
    }
}

impl Packet {
    /// Encodes the packet with its mark and group.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(MARK.to_vec());
        out.long(self.gn.0);
        match &self.notice {
            Notice::Part(part) => out.byte(0).part(part),
            Notice::BestEffort(part) => out.byte(1).part(part),
            Notice::Decided { round, outcome } => out.byte(2).long(*round).outcome(outcome),
            Notice::Piece(piece) => out.byte(3).piece(piece),
        };
        out.0
    }

    /// Decodes a packet; `Ok(None)` if the bytes lack the mark of this layer.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the bytes have the mark and are malformed.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let Some(bytes) = bytes.strip_prefix(&MARK) else { return Ok(None) };
        let mut from = Reader::new(bytes);
        let gn = Gn(from.long()?);
        let notice = match from.byte()? {
            0 => Notice::Part(Arc::new(from.part()?)),
            1 => Notice::BestEffort(Arc::new(from.part()?)),
            2 => Notice::Decided { round: from.long()?, outcome: Arc::new(from.outcome()?) },
            3 => Notice::Piece(Arc::new(from.piece()?)),
            other => return Err(value("kind of packet", other)),
        };
        from.end(Some(Self { gn, notice }))
    }
}

fn value(what: &'static str, value: impl Into<u64>) -> DecodeError {
    DecodeError::Value { what, value: value.into() }
}
