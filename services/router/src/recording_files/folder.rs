//! The folder with the files of a recording: begins, extends and deletes segments, within bounds.
//!
//! The segments are numbered; the oldest ones go when there are too many bytes or segments. The
//! topology, which many of them share, has a file of its own, and goes with the last of them.
//! Somebody else may delete files at any time: the folder is listed for each segment.
//! Nothing is synchronized with the disk: a killed process loses nothing by that, a machine without
//! power the last seconds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fabricast_reconciler::{SectionPart, SegmentName, SegmentOrigin};
use fabricast_topology::{Graph, ibnetdiscover};

/// Most segments of a folder. Each term begins one, however short it is.
const MOST_SEGMENTS: usize = 1_000;
/// End of the name of a topology's file that is not complete.
const DRAFT: &str = ".draft";
/// Permissions of the folder and its files, which have the names of groups and nodes: nobody but
/// the user of the route service reads them.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

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
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&path)?;
        let lock = File::open(&path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other("another route service writes there"),
            TryLockError::Error(error) => error,
        })?;
        let mut folder = Self {
            path,
            limit,
            bytes: 0,
            segments: VecDeque::new(),
            next: 0,
            topologies: BTreeMap::new(),
            present: None,
            _lock: lock,
        };
        folder.list(None)?;
        folder.make_room(0, None)?;
        Ok(folder)
    }

    /// Returns the bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
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
        self.present = None;
        self.list(Some(topology.digest))?;
        let origin = SegmentOrigin { began_ms, topology: topology.digest };
        let bytes = part.to_bytes(origin);
        let has_topology = self.topologies.get(&topology.digest) == Some(&topology.bytes);
        let needed = length(&bytes) + if has_topology { 0 } else { topology.bytes };
        self.make_room(needed, Some(topology.digest))?;
        if !has_topology {
            self.write_topology(topology)?;
        }
        let name = SegmentName { number: self.next, topology: topology.digest };
        // A name that is taken by something else is taken only once.
        self.next = self.next.saturating_add(1);
        let file = create(&self.path.join(name.file()))?;
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
        let origin = present.origin;
        let bytes = part.to_bytes(origin);
        self.make_room(length(&bytes), Some(origin.topology))?;
        self.append(&bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((present, stored)) = self.present.as_mut().zip(self.segments.back_mut()) else {
            return Ok(());
        };
        if let Err(error) = present.file.write_all(bytes) {
            // A part of them would look like the end of a killed writer.
            let _ = present.file.set_len(stored.bytes);
            return Err(error);
        }
        stored.bytes += length(bytes);
        self.bytes += length(bytes);
        Ok(())
    }

    fn write_topology(&mut self, topology: &SegmentTopology) -> io::Result<()> {
        let file = SegmentName { number: 0, topology: topology.digest }.topology_file();
        let draft = self.path.join(format!("{file}{DRAFT}"));
        let text = ibnetdiscover::write(&topology.graph);
        let written = create(&draft)
            .and_then(|mut to| to.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&draft, self.path.join(file)));
        if written.is_err() {
            // If this fails too, the next list deletes it.
            let _ = fs::remove_file(&draft);
        }
        written?;
        let old = self.topologies.insert(topology.digest, topology.bytes).unwrap_or(0);
        self.bytes = self.bytes.saturating_sub(old) + topology.bytes;
        Ok(())
    }

    /// Lists the files of recordings, and deletes those that no segment needs.
    ///
    /// - `kept`: topology that is not deleted although no segment has it yet.
    fn list(&mut self, kept: Option<u64>) -> io::Result<()> {
        let (mut segments, mut topologies) = (Vec::new(), BTreeMap::new());
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let Some(file) = file_name.to_str() else { continue };
            // Links, which are not followed here, and folders are of somebody else.
            let Some(about) = entry.metadata().ok().filter(fs::Metadata::is_file) else { continue };
            if let Some(name) = SegmentName::parse(file) {
                segments.push(StoredSegment { name, bytes: about.len() });
            } else if let Some(digest) = SegmentName::parse_topology(file) {
                topologies.insert(digest, about.len());
            } else if file.strip_suffix(DRAFT).and_then(SegmentName::parse_topology).is_some() {
                delete(&entry.path())?;
            }
        }
        segments.sort_by_key(|segment: &StoredSegment| segment.name);
        let after = segments.last().map_or(0, |last| last.name.number.saturating_add(1));
        self.next = self.next.max(after);
        let lengths = segments.iter().map(|segment| segment.bytes);
        self.bytes = lengths.chain(topologies.values().copied()).sum();
        self.segments = segments.into();
        self.topologies = topologies;
        self.delete_unused(kept)
    }

    /// Deletes the oldest segments until so many bytes more have room, and one segment more if none
    /// is extended. Deletes nothing if there can be no room.
    ///
    /// - `kept`: topology that is not deleted although no segment has it yet.
    fn make_room(&mut self, needed: u64, kept: Option<u64>) -> io::Result<()> {
        let present = self.segments.back().filter(|_| self.present.is_some());
        let present = present.map_or(0, |segment| segment.bytes);
        let topology = kept.and_then(|digest| self.topologies.get(&digest)).copied().unwrap_or(0);
        if present.saturating_add(topology).saturating_add(needed) > self.limit {
            let limit = self.limit;
            let why = format!("a segment needs more than the {limit} bytes of the folder");
            return Err(io::Error::other(why));
        }
        let most = MOST_SEGMENTS - usize::from(self.present.is_none());
        while self.bytes.saturating_add(needed) > self.limit || self.segments.len() > most {
            let Some(StoredSegment { name, bytes }) = self.segments.front().copied() else { break };
            delete(&self.path.join(name.file()))?;
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
            delete(&self.path.join(SegmentName { number: 0, topology }.topology_file()))?;
            let bytes = self.topologies.remove(&topology).unwrap_or(0);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        Ok(())
    }
}

/// Creates a file; follows no link, and takes no file that is there.
fn create(file: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(FILE_MODE).open(file)
}

/// Deletes a file; one that somebody else has deleted is as good.
fn delete(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
