//! Sections to be played: those of a recording that was in memory, or those of segments in a
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec::IntoIter;

use anyhow::Context;
use fabricast_groups::Moment;
use fabricast_reconciler::{Recording, RecordingError, Section, Segment, SegmentEnd, SegmentName};
use fabricast_topology::Graph;
use prost_types::Timestamp;

use crate::failure::Failure;

/// Sections in the order in which they are played. Of segments, one is in memory at a time.
pub(super) enum Sections {
    Recording { sections: IntoIter<Section>, graph: Arc<Graph>, exported: Moment },
    Segments { files: IntoIter<PathBuf>, topology: Option<KnownTopology> },
}

/// The topology of the segment before, which most often is that of the next one, too.
pub(super) struct KnownTopology {
    digest: u64,
    graph: Arc<Graph>,
}

/// A section that was read, as far as that was possible.
pub(super) struct ReadSection {
    pub(super) section: Option<SectionToPlay>,
    pub(super) problem: Option<Problem>,
}

/// A section and what its lines need.
pub(super) struct SectionToPlay {
    pub(super) section: Section,
    pub(super) graph: Arc<Graph>,
    /// Moment from which the seconds of its lines count.
    pub(super) zero: Moment,
    /// Time of its beginning and its file, as the end of a sentence; empty if they are not known.
    pub(super) began: String,
}

/// Reason why a file is not played, or not to its end.
pub(super) enum Problem {
    /// The route service was killed while it wrote, or it is writing now.
    Torn(String),
    /// Bytes of the file are not what was written, or it cannot be read.
    Damaged(String),
    /// The route service of this version does something else than was recorded.
    Differs(String),
}

impl Sections {
    /// Opens a recording, a segment or a folder with segments.
    ///
    /// # Errors
    ///
    /// A path without a recording.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let named = || format!("read '{}'", path.display());
        let refuse =
            |why: &dyn std::fmt::Display| Failure::input(format!("'{}': {why}", path.display()));
        if path.is_dir() {
            let mut files = Vec::new();
            for entry in fs::read_dir(path).with_context(named)? {
                let entry = entry.with_context(named)?;
                let name = entry.file_name().to_str().and_then(SegmentName::parse);
                files.extend(name.map(|name| (name, entry.path())));
            }
            if files.is_empty() {
                return Err(refuse(&"no segment of a recording is in this folder"));
            }
            files.sort();
            return Ok(Self::of(files.into_iter().map(|(_, file)| file).collect()));
        }
        let file = fs::read(path).with_context(named)?;
        if Segment::is_segment(&file) {
            return Ok(Self::of(vec![path.to_owned()]));
        }
        let recording = Recording::from_bytes(&file).map_err(|error| refuse(&error))?;
        let graph = recording.graph().map_err(|error| refuse(&error))?;
        let Recording { exported, sections, .. } = recording;
        Ok(Self::Recording { sections: sections.into_iter(), graph, exported })
    }

    fn of(files: Vec<PathBuf>) -> Self {
        Self::Segments { files: files.into_iter(), topology: None }
    }
}

impl Iterator for Sections {
    type Item = ReadSection;

    fn next(&mut self) -> Option<ReadSection> {
        match self {
            Self::Recording { sections, graph, exported } => {
                let (section, graph) = (sections.next()?, Arc::clone(graph));
                let began = String::new();
                let section = SectionToPlay { section, graph, zero: *exported, began };
                Some(ReadSection { section: Some(section), problem: None })
            }
            Self::Segments { files, topology } => {
                let read = read(&files.next()?, topology);
                Some(read.unwrap_or_else(|problem| ReadSection {
                    section: None,
                    problem: Some(problem),
                }))
            }
        }
    }
}

impl Problem {
    fn of(file: &Path, error: &RecordingError) -> Self {
        let text = format!("'{}': {error}", file.display());
        match error {
            RecordingError::Unbegun => Self::Torn(text),
            RecordingError::NoRecording
            | RecordingError::Damaged(_)
            | RecordingError::Topology(_)
            | RecordingError::Engine(_) => Self::Damaged(text),
        }
    }

    fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        Self::Damaged(format!("read '{}': {error}", file.display()))
    }
}

/// Reads a segment and its topology, which is beside it.
fn read(file: &Path, topology: &mut Option<KnownTopology>) -> Result<ReadSection, Problem> {
    let bytes = fs::read(file).map_err(|error| Problem::unreadable(file, &error))?;
    let segment = Segment::from_bytes(&bytes).map_err(|error| Problem::of(file, &error))?;
    let digest = segment.origin.topology;
    let known = topology.take().filter(|known| known.digest == digest);
    let known = match known {
        Some(known) => known,
        None => KnownTopology { digest, graph: graph(file, &segment)? },
    };
    let graph = Arc::clone(&topology.insert(known).graph);
    let left_out = |bytes: usize| format!("its last {bytes} bytes are left out");
    let problem = match segment.end {
        SegmentEnd::Whole => None,
        SegmentEnd::Torn { bytes } => {
            let (file, what) = (file.display(), left_out(bytes));
            Some(Problem::Torn(format!(
                "'{file}' ends within a write of the route service: {what}"
            )))
        }
        SegmentEnd::Damaged { bytes } => {
            let error = RecordingError::Damaged(left_out(bytes));
            Some(Problem::of(file, &error))
        }
    };
    let seconds = i64::try_from(segment.origin.began_ms / 1000).unwrap_or(i64::MAX);
    let (time, name) = (Timestamp { seconds, nanos: 0 }, file.file_name().unwrap_or_default());
    let began = format!(" at {time} in {}", name.display());
    let zero = segment.section.begins();
    let section = Some(SectionToPlay { section: segment.section, graph, zero, began });
    Ok(ReadSection { section, problem })
}

fn graph(file: &Path, segment: &Segment) -> Result<Arc<Graph>, Problem> {
    let name = SegmentName { number: 0, topology: segment.origin.topology }.topology_file();
    let place = file.with_file_name(name);
    let text = fs::read_to_string(&place).map_err(|error| Problem::unreadable(&place, &error))?;
    segment.graph(&text).map_err(|error| Problem::of(&place, &error))
}
