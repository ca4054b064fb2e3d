//! Recordings as bytes.

use fabricast_groups::Moment;
use fabricast_routing::UnknownEngine;
use fabricast_topology::{SwitchId, ibnetdiscover};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Recording, Section};
use crate::interface::{Input, Output, SwitchTable};
use crate::reconciler::Reconciler;

/// First bytes of a file with a recording. Segments have a number of their own, which changes with
/// this one.
const MAGIC: &[u8] = b"fabricast recording 2\n";
/// Bytes of the length before a frame.
pub(super) const LENGTH: usize = 4;

/// Reason why a recording cannot be read or played.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The file is something else, or of another version.
    #[error("this is no recording of this version of Fabricast")]
    NoRecording,
    /// The file is damaged.
    #[error("the recording is damaged: {0}")]
    Damaged(String),
    /// The writer of the file was stopped before its head was written.
    #[error("the recording ends before its first record")]
    Unbegun,
    /// The topology in the file cannot be read.
    #[error("the topology of the recording cannot be read")]
    Topology(#[from] ibnetdiscover::ReadError),
    /// The recording is of an engine that this version does not have.
    #[error(transparent)]
    Engine(UnknownEngine),
}

/// One element of a section.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Frame<I> {
    Input(Moment, I),
    /// A table arrived that was as the reconciler knew it.
    SameTable(Moment, SwitchId),
    /// Digest of an output.
    Output(u64),
}

impl<'a> Frame<&'a Input> {
    /// The shortest form of an input that a reconciler is about to take.
    pub(super) fn of(reconciler: &Reconciler, at: Moment, input: &'a Input) -> Self {
        if let Input::Table(table) = input
            && reconciler.holds(table)
        {
            return Self::SameTable(at, table.switch);
        }
        Self::Input(at, input)
    }
}

/// A digest of an output.
pub(super) fn digest(output: &Output) -> u64 {
    digest_of(&encode(output))
}

/// A digest of bytes.
pub(super) fn digest_of(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub(super) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Values of these types can always be written; a lost one would be found when it is read.
    postcard::to_stdvec(value).unwrap_or_default()
}

/// Appends a frame, with its length before it.
pub(super) fn push_frame(frames: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    frames.extend_from_slice(&length.to_le_bytes());
    frames.extend_from_slice(bytes);
}

impl Section {
    pub(super) fn push(&mut self, frame: &Frame<&Input>) {
        push_frame(&mut self.frames, &encode(frame));
    }

    /// The frame at an offset, and the offset of the next one; `None` at the end.
    pub(super) fn frame(&self, at: usize) -> Result<Option<(Frame<Input>, usize)>, RecordingError> {
        let rest = self.frames.get(at..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let damaged = |why: String| {
            RecordingError::Damaged(format!("{why} at byte {at} of the frames of a section"))
        };
        let bytes = rest.get(..length).ok_or_else(|| damaged("a frame ends early".to_owned()))?;
        let frame = postcard::from_bytes(bytes).map_err(|error| damaged(error.to_string()))?;
        Ok(Some((frame, at + LENGTH + length)))
    }
}

impl Recording {
    /// Writes the recording as a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        [MAGIC, &encode(self)].concat()
    }

    /// Reads a file that [`Self::to_bytes`] has made.
    ///
    /// # Errors
    ///
    /// [`RecordingError::NoRecording`] or [`RecordingError::Damaged`].
    pub fn from_bytes(file: &[u8]) -> Result<Self, RecordingError> {
        let rest = file.strip_prefix(MAGIC).ok_or(RecordingError::NoRecording)?;
        postcard::from_bytes(rest).map_err(|error| RecordingError::Damaged(error.to_string()))
    }
}

/// A table as the reconciler knows it.
pub(super) fn known_table(reconciler: &Reconciler, switch: SwitchId) -> SwitchTable {
    SwitchTable { switch, entries: reconciler.held(switch) }
}
