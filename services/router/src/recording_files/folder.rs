//! The folder with the files of a recording: begins, extends and deletes segments, within bounds.
//!
//! The segments are numbered; the oldest ones go when there are too many bytes or segments. The
//! topology, which many of them share, has a file of its own, and goes with the last of them.
//! Nothing is synchronized with the disk: a killed process loses nothing by that, a machine without
//! power the last seconds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use fabricast_reconciler::{SectionPart, SegmentName, SegmentOrigin};
use fabricast_topology::{Graph, ibnetdiscover};

/// Most segments of a folder. Each term begins one, however short it is.
const MOST_SEGMENTS: usize = 1_000;
/// End of the name of a topology's file that is not complete.
const DRAFT: &str = ".draft";

/// The folder of one route service.
#[derive(Debug)]
pub(super) struct SegmentFolder {
    path: PathBuf,
    /// Bytes that all files may have.
    limit: u64,
    bytes: u64,
    /// Oldest first. The last one may be extended.
    segments: VecDeque<StoredSegment>,
    /// Number of the next segment.
    next: u64,
    /// Lengths of the files with topologies, by digest.
    topologies: BTreeMap<u64, u64>,
    present: Option<PresentSegment>,
    /// The folder itself, locked until this is closed.
    _lock: File,
}

/// The topology of segments.
#[derive(Debug)]
pub(super) struct SegmentTopology {
    pub(super) graph: Arc<Graph>,
    pub(super) digest: u64,
    /// Length of its text.
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct StoredSegment {
    name: SegmentName,
    bytes: u64,
}

/// The segment that is extended: the last one.
#[derive(Debug)]
struct PresentSegment {
    file: File,
    origin: SegmentOrigin,
}

impl SegmentTopology {
    pub(super) fn of(graph: &Arc<Graph>) -> Self {
        let text = ibnetdiscover::write(graph);
        let digest = SegmentOrigin::digest(&text);
        Self { graph: Arc::clone(graph), digest, bytes: length(text.as_bytes()) }
    }
}

impl SegmentFolder {
    /// Opens a folder, which is made if it is missing, and keeps the segments that it has.
    ///
    /// # Errors
    ///
    /// A folder that cannot be read or written, or that another route service has open.
    pub(super) fn open(path: PathBuf, limit: u64) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        let lock = File::open(&path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other("another route service writes there"),
            TryLockError::Error(error) => error,
        })?;
        let (mut segments, mut topologies) = (Vec::new(), BTreeMap::new());
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let Some(file) = file_name.to_str() else { continue };
            if let Some(name) = SegmentName::parse(file) {
                segments.push(StoredSegment { name, bytes: entry.metadata()?.len() });
            } else if let Some(digest) = SegmentName::parse_topology(file) {
                topologies.insert(digest, entry.metadata()?.len());
            } else if file.strip_suffix(DRAFT).and_then(SegmentName::parse_topology).is_some() {
                delete(entry.path())?;
            }
        }
        segments.sort_by_key(|segment: &StoredSegment| segment.name);
        let lengths = segments.iter().map(|segment| segment.bytes);
        let bytes = lengths.chain(topologies.values().copied()).sum();
        let next = segments.last().map_or(0, |last| last.name.number.saturating_add(1));
        let segments = VecDeque::from(segments);
        let present = None;
        let mut folder =
            Self { path, limit, bytes, segments, next, topologies, present, _lock: lock };
        folder.delete_unused(None)?;
        folder.make_room(0, None)?;
        Ok(folder)
    }

    /// Returns the bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if there is a segment to be extended.
    pub(super) fn is_writing(&self) -> bool {
        self.present.is_some()
    }

    /// Begins the next segment with the first part of a section.
    ///
    /// # Errors
    ///
    /// Files that cannot be written or deleted, or more bytes than the folder may have.
    pub(super) fn begin(
        &mut self,
        part: &SectionPart,
        topology: &SegmentTopology,
        began_ms: u64,
    ) -> io::Result<()> {
        self.end();
        let origin = SegmentOrigin { began_ms, topology: topology.digest };
        let bytes = part.to_bytes(origin);
        let has_topology = self.topologies.get(&topology.digest) == Some(&topology.bytes);
        let needed = length(&bytes) + if has_topology { 0 } else { topology.bytes };
        self.delete_unused(Some(topology.digest))?;
        self.make_room(needed, Some(topology.digest))?;
        if !has_topology {
            self.write_topology(topology)?;
        }
        let name = SegmentName { number: self.next, topology: topology.digest };
        let place = self.path.join(name.file());
        let file = OpenOptions::new().append(true).create_new(true).open(place)?;
        self.next = self.next.saturating_add(1);
        self.segments.push_back(StoredSegment { name, bytes: 0 });
        self.present = Some(PresentSegment { file, origin });
        self.append(&bytes)
    }

    /// Extends the present segment, if there is one.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`].
    pub(super) fn extend(&mut self, part: &SectionPart) -> io::Result<()> {
        let Some(present) = &self.present else { return Ok(()) };
        let bytes = part.to_bytes(present.origin);
        self.make_room(length(&bytes), None)?;
        self.append(&bytes)
    }

    /// Extends the present segment no more.
    pub(super) fn end(&mut self) {
        self.present = None;
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((present, stored)) = self.present.as_mut().zip(self.segments.back_mut()) else {
            return Ok(());
        };
        let written = present.file.write_all(bytes);
        let now = match &written {
            Ok(()) => stored.bytes + length(bytes),
            // Some of them may have been written.
            Err(_) => present.file.metadata().map_or(stored.bytes, |about| about.len()),
        };
        self.bytes += now.saturating_sub(stored.bytes);
        stored.bytes = now;
        written
    }

    fn write_topology(&mut self, topology: &SegmentTopology) -> io::Result<()> {
        let file = SegmentName { number: 0, topology: topology.digest }.topology_file();
        let draft = self.path.join(format!("{file}{DRAFT}"));
        let written = fs::write(&draft, ibnetdiscover::write(&topology.graph))
            .and_then(|()| fs::rename(&draft, self.path.join(file)));
        if written.is_err() {
            // If this fails too, the next start deletes it.
            let _ = fs::remove_file(&draft);
        }
        written?;
        let old = self.topologies.insert(topology.digest, topology.bytes).unwrap_or(0);
        self.bytes = self.bytes.saturating_sub(old) + topology.bytes;
        Ok(())
    }

    /// Deletes the oldest segments until so many bytes more have room, and one segment more if none
    /// is extended.
    ///
    /// - `kept`: topology that is not deleted although no segment has it yet.
    fn make_room(&mut self, needed: u64, kept: Option<u64>) -> io::Result<()> {
        let most = MOST_SEGMENTS - usize::from(self.present.is_none());
        while self.bytes.saturating_add(needed) > self.limit || self.segments.len() > most {
            let is_last = self.present.is_some() && self.segments.len() == 1;
            let oldest = self.segments.front().filter(|_| !is_last).copied();
            let Some(StoredSegment { name, bytes }) = oldest else {
                let limit = self.limit;
                let why = format!("a segment needs more than the {limit} bytes of the folder");
                return Err(io::Error::other(why));
            };
            delete(self.path.join(name.file()))?;
            self.segments.pop_front();
            self.bytes = self.bytes.saturating_sub(bytes);
            self.delete_unused(kept)?;
        }
        Ok(())
    }

    /// Deletes the files of topologies that no segment has, but for one.
    fn delete_unused(&mut self, kept: Option<u64>) -> io::Result<()> {
        let segments = self.segments.iter().map(|segment| segment.name.topology);
        let used: BTreeSet<u64> = segments.chain(kept).collect();
        let unused: Vec<u64> =
            self.topologies.keys().copied().filter(|digest| !used.contains(digest)).collect();
        for topology in unused {
            delete(self.path.join(SegmentName { number: 0, topology }.topology_file()))?;
            let bytes = self.topologies.remove(&topology).unwrap_or(0);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        Ok(())
    }
}

/// Deletes a file; one that somebody else has deleted is as good.
fn delete(file: PathBuf) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
