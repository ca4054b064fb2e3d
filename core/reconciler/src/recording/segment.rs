//! Sections as files that grow: segments.
//!
//! A segment is [`MAGIC`] and blocks of bytes, each with its length and a digest. The bytes of all
//! blocks together are frames, as in memory; the first one is the head, with the start of the
//! section. So a segment is played by itself, with the file of its topology. A writer that is
//! killed leaves a block that ends early, and a reader finds that, and bytes that changed later.

use std::sync::Arc;

use fabricast_topology::{Graph, ibnetdiscover};
use serde::{Deserialize, Serialize};

use super::codec::{LENGTH, RecordingError, digest_of, encode, push_frame};
use super::{Section, Start};

/// First bytes of a segment. The number changes with that of a recording, which has the same
/// frames.
const MAGIC: &[u8] = b"fabricast segment 2\n";
/// Most bytes of a block, without its length and digest.
const BLOCK: usize = 1 << 20;
/// Bytes of the digest of a block.
const DIGEST: usize = 8;

/// The next bytes of a recording, to be appended to the file of its section.
#[derive(Clone, Debug)]
pub struct SectionPart {
    /// Start of the section, in its first part.
    start: Option<Vec<u8>>,
    frames: Vec<u8>,
}

/// Origin of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentOrigin {
    /// Time when the section began, in milliseconds of Unix time.
    pub began_ms: u64,
    /// Digest of the text of its topology.
    pub topology: u64,
}

/// Names of the files of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Place in the order of the segments of a folder.
    pub number: u64,
    /// Digest of the text of its topology.
    pub topology: u64,
}

/// A segment that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Time and topology.
    pub origin: SegmentOrigin,
    /// All frames that can be read.
    pub section: Section,
    /// State of the last bytes.
    pub end: SegmentEnd,
}

/// End of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentEnd {
    /// All bytes could be read.
    Whole,
    /// The writer was stopped while it wrote the last bytes.
    Torn {
        /// Number of the bytes that are left out.
        bytes: usize,
    },
    /// Bytes are not what was written.
    Damaged {
        /// Number of the bytes that are left out, from the damage to the end.
        bytes: usize,
    },
}

/// The first frame of a segment.
#[derive(Deserialize)]
struct Head {
    origin: SegmentOrigin,
    start: Start,
}

/// Frames of a file, as far as they can be read.
struct Content {
    frames: Vec<u8>,
    end: SegmentEnd,
}

impl SectionPart {
    pub(super) fn new(start: Option<Vec<u8>>, frames: Vec<u8>) -> Self {
        Self { start, frames }
    }

    /// Returns true if a section begins, which needs a file of its own.
    pub fn begins_section(&self) -> bool {
        self.start.is_some()
    }

    /// Returns the bytes that the part takes in memory.
    pub fn len(&self) -> usize {
        self.frames.len() + self.start.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether there is nothing to be written.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.start.is_none()
    }

    /// Counts the inputs and outputs. Cost: one step each.
    pub fn records(&self) -> u64 {
        let (mut at, mut count) = (0, 0);
        while let Some(next) = after_frame(&self.frames, at) {
            (at, count) = (next, count + 1);
        }
        count
    }

    /// Returns the bytes to be appended to the file; those of the first part begin it.
    ///
    /// - `origin`: the same for all parts of a section.
    pub fn to_bytes(&self, origin: SegmentOrigin) -> Vec<u8> {
        let Some(start) = &self.start else { return blocks(&self.frames) };
        // The fields of a value follow one another, with nothing between them.
        let head = [encode(&origin), start.clone()].concat();
        let mut frames = Vec::with_capacity(LENGTH + head.len() + self.frames.len());
        push_frame(&mut frames, &head);
        frames.extend_from_slice(&self.frames);
        [MAGIC, &blocks(&frames)].concat()
    }
}

impl SegmentOrigin {
    /// Returns the digest of a topology, by which segments name it.
    ///
    /// - `text`: the fabric as ibnetdiscover prints it.
    pub fn digest(text: &str) -> u64 {
        digest_of(text.as_bytes())
    }
}

impl SegmentName {
    /// Reads the name of a segment's file; `None` if it is another file.
    pub fn parse(file: &str) -> Option<Self> {
        let (number, topology) = file.strip_suffix(".segment")?.split_once('-')?;
        let number = number.parse().ok()?;
        let name = Self { number, topology: u64::from_str_radix(topology, 16).ok()? };
        (name.file() == file).then_some(name)
    }

    /// Reads the name of a topology's file; `None` if it is another file.
    pub fn parse_topology(file: &str) -> Option<u64> {
        let digest = u64::from_str_radix(file.strip_suffix(".topology")?, 16).ok()?;
        (topology_file(digest) == file).then_some(digest)
    }

    /// Returns true if a file is of a recording, by its name: a segment or a topology.
    pub fn is_of_recording(file: &str) -> bool {
        Self::parse(file).is_some() || Self::parse_topology(file).is_some()
    }

    /// Returns the name of the file. Names are in the order of the numbers.
    pub fn file(&self) -> String {
        format!("{:010}-{:016x}.segment", self.number, self.topology)
    }

    /// Returns the name of the file with the topology.
    pub fn topology_file(&self) -> String {
        topology_file(self.topology)
    }
}

impl Segment {
    /// Returns true if a file is a segment, perhaps a damaged one.
    pub fn is_segment(file: &[u8]) -> bool {
        file.starts_with(MAGIC)
    }

    /// Reads a segment as far as possible.
    ///
    /// # Errors
    ///
    /// [`RecordingError::NoRecording`]; [`RecordingError::Unbegun`] if the writer was stopped
    /// before it had begun; [`RecordingError::Damaged`] if even the head cannot be read.
    pub fn from_bytes(file: &[u8]) -> Result<Self, RecordingError> {
        if MAGIC.starts_with(file) {
            return Err(RecordingError::Unbegun);
        }
        let blocks = file.strip_prefix(MAGIC).ok_or(RecordingError::NoRecording)?;
        let Content { mut frames, end } = content(blocks);
        let Some(head_end) = after_frame(&frames, 0) else {
            return Err(match end {
                SegmentEnd::Damaged { .. } => RecordingError::Damaged("its head".to_owned()),
                SegmentEnd::Whole | SegmentEnd::Torn { .. } => RecordingError::Unbegun,
            });
        };
        let head = frames.get(LENGTH..head_end).unwrap_or_default();
        let Head { origin, start } = postcard::from_bytes(head)
            .map_err(|error| RecordingError::Damaged(error.to_string()))?;
        frames.drain(..head_end);
        Ok(Self { origin, section: Section { start, frames }, end })
    }

    /// Makes the graph of the fabric.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Damaged`] for another topology than the segment's, and
    /// [`RecordingError::Topology`] for a text that is none.
    pub fn graph(&self, topology: &str) -> Result<Arc<Graph>, RecordingError> {
        if SegmentOrigin::digest(topology) != self.origin.topology {
            return Err(RecordingError::Damaged("its topology is another one".to_owned()));
        }
        Ok(Arc::new(ibnetdiscover::read(topology)?))
    }
}

fn topology_file(digest: u64) -> String {
    format!("{digest:016x}.topology")
}

/// Puts the length and digest of each block before it.
fn blocks(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len() + LENGTH + DIGEST);
    for block in bytes.chunks(BLOCK) {
        let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
        all.extend_from_slice(&length.to_le_bytes());
        all.extend_from_slice(&digest_of(block).to_le_bytes());
        all.extend_from_slice(block);
    }
    all
}

/// Reads blocks until one ends early or is damaged, and leaves out a frame that ends early then.
fn content(mut rest: &[u8]) -> Content {
    let mut frames = Vec::new();
    let mut is_damaged = false;
    while !rest.is_empty() {
        let Some((length, after)) = rest.split_first_chunk::<LENGTH>() else { break };
        let Some((digest, after)) = after.split_first_chunk::<DIGEST>() else { break };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        // No writer makes such a block.
        is_damaged = length == 0 || length > BLOCK;
        if is_damaged {
            break;
        }
        let Some((block, after)) = after.split_at_checked(length) else { break };
        is_damaged = digest_of(block) != u64::from_le_bytes(*digest);
        if is_damaged {
            break;
        }
        frames.extend_from_slice(block);
        rest = after;
    }
    let mut whole = 0;
    while let Some(next) = after_frame(&frames, whole) {
        whole = next;
    }
    let bytes = rest.len() + (frames.len() - whole);
    frames.truncate(whole);
    let end = match (is_damaged, bytes) {
        (true, _) => SegmentEnd::Damaged { bytes },
        (false, 0) => SegmentEnd::Whole,
        (false, _) => SegmentEnd::Torn { bytes },
    };
    Content { frames, end }
}

/// Offset after the frame at an offset; `None` if there is no whole one.
fn after_frame(frames: &[u8], at: usize) -> Option<usize> {
    let (length, rest) = frames.get(at..)?.split_first_chunk::<LENGTH>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    (length <= rest.len()).then_some(at + LENGTH + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(contents: &[&[u8]]) -> Vec<u8> {
        let mut frames = Vec::new();
        for content in contents {
            push_frame(&mut frames, content);
        }
        frames
    }

    #[test]
    fn names_are_read_back_and_other_files_are_not_taken() {
        let name = SegmentName { number: 17, topology: 0xab };
        assert_eq!(name.file(), "0000000017-00000000000000ab.segment");
        assert_eq!(SegmentName::parse(&name.file()), Some(name));
        assert_eq!(name.topology_file(), "00000000000000ab.topology");
        assert_eq!(SegmentName::parse_topology(&name.topology_file()), Some(0xab));
        let late = SegmentName { number: u64::MAX, ..name };
        assert_eq!(SegmentName::parse(&late.file()), Some(late));
        for other in ["", "x", "17-ab.segment", "+000000017-00000000000000ab.segment", "a.topology"]
        {
            assert_eq!(
                (SegmentName::parse(other), SegmentName::parse_topology(other)),
                (None, None)
            );
        }
    }

    #[test]
    fn long_parts_are_split_into_blocks_and_read_back() {
        let frames = frames(&[&vec![7_u8; 2 * BLOCK], &[1, 2, 3]]);
        let bytes = blocks(&frames);
        assert_eq!(bytes.len(), frames.len() + 3 * (LENGTH + DIGEST));
        let read = content(&bytes);
        assert_eq!((read.frames == frames, read.end), (true, SegmentEnd::Whole));
        // Whole blocks of a frame that goes on in the next one.
        let read = content(&bytes[..2 * (BLOCK + LENGTH + DIGEST)]);
        assert_eq!((read.frames.len(), read.end), (0, SegmentEnd::Torn { bytes: 2 * BLOCK }));
    }

    #[test]
    fn records_are_counted() {
        let frames = frames(&[&[1, 2], &[], &[3]]);
        assert_eq!(SectionPart::new(None, frames).records(), 3);
        assert_eq!(SectionPart::new(Some(vec![1]), Vec::new()).records(), 0);
    }
}
