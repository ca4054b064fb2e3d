//! Writes the recording to files, on a thread of its own.
//!
//! The control loop never waits for the disk. It puts what was recorded into a queue of bounded
//! size. A part that finds no room there, or cannot be written, is dropped and counted, and so is
//! the rest of its section, because a section is played from its beginning without gaps. After a
//! pause the control loop begins a section anew.
//!
//! ```text
//!  ControlLoop ──SectionPart──► SegmentQueue ──► thread "recording" ──► SegmentFolder ──► files
//! ```

mod folder;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabricast_groups::Moment;
use fabricast_reconciler::SectionPart;
use fabricast_telemetry::metrics;
use fabricast_topology::Graph;
use tracing::{info, warn};

use folder::{SegmentFolder, SegmentTopology};

/// Time after which a section begins for one with a gap. It costs the control loop as much as a
/// takeover, which a disk that stays full must not ask for all the time.
const PAUSE: Duration = Duration::from_mins(1);
/// Bytes that a part takes in the queue beside its own.
const PART_BYTES: usize = 256;

/// The files of a route service; clones share them. When the last clone goes, all that is queued is
/// written first.
#[derive(Clone, Debug)]
pub(crate) struct RecordingFiles(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    /// `None` once the thread is to end.
    queue: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    /// Bytes that may be queued.
    limit: usize,
    counts: Arc<Counts>,
}

/// Counts that the control loop and the thread share.
#[derive(Debug, Default)]
struct Counts {
    /// Number of the latest segment.
    begun: AtomicU64,
    /// Number of the latest segment that could not be written to its end; 0 for none.
    failed: AtomicU64,
    /// Bytes in the queue.
    queued: AtomicUsize,
}

#[derive(Debug)]
struct Message {
    /// Number of the segment, from 1; those of a folder have others.
    segment: u64,
    part: SectionPart,
    graph: Arc<Graph>,
}

/// The queue of one control loop.
#[derive(Debug)]
pub(crate) struct SegmentQueue {
    files: RecordingFiles,
    /// Number of the present segment.
    segment: u64,
    state: SegmentState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    /// All parts so far were queued.
    Whole,
    /// A part is missing. At a time the next section should begin.
    Gap { until: Moment },
}

/// State of the thread.
struct Writer {
    folder: SegmentFolder,
    path: PathBuf,
    topology: Option<SegmentTopology>,
    counts: Arc<Counts>,
    /// Error that was logged; empty if the last segment could be begun.
    error: String,
}

impl RecordingFiles {
    /// Opens the folder and starts the thread.
    ///
    /// - `limit`: bytes that all files may have.
    /// - `queue_limit`: bytes that may wait for the disk, in memory.
    ///
    /// # Errors
    ///
    /// A folder that cannot be used, or that another route service uses.
    pub(crate) fn open(path: &Path, limit: u64, queue_limit: usize) -> io::Result<Self> {
        let folder = SegmentFolder::open(path.to_owned(), limit)?;
        metrics::ROUTER_RECORDING_FILE_BYTES.set(folder.bytes());
        let counts = Arc::<Counts>::default();
        let (queue, messages) = mpsc::channel();
        let (path, its_counts) = (path.to_owned(), Arc::clone(&counts));
        let writer =
            Writer { folder, path, topology: None, counts: its_counts, error: String::new() };
        let thread = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || writer.run(&messages))?;
        let (queue, thread) = (Some(queue), Some(thread));
        Ok(Self(Arc::new(Handle { queue, thread, limit: queue_limit, counts })))
    }

    /// Makes the queue of a control loop.
    pub(crate) fn queue(&self) -> SegmentQueue {
        SegmentQueue { files: self.clone(), segment: 0, state: SegmentState::Whole }
    }
}

impl Handle {
    /// Queues a message; returns it if there is no room, or no thread any more.
    fn send(&self, message: Message) -> Result<(), Message> {
        let bytes = bytes_in_queue(&message.part);
        let has_room = self.counts.queued.load(Ordering::Relaxed) + bytes <= self.limit;
        let Some(queue) = self.queue.as_ref().filter(|_| has_room) else { return Err(message) };
        self.counts.queued.fetch_add(bytes, Ordering::Relaxed);
        queue.send(message).map_err(|refused| refused.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been logged.
            let _ = thread.join();
        }
    }
}

impl SegmentQueue {
    /// Queues a part, or drops it. Never waits.
    pub(crate) fn put(&mut self, part: SectionPart, graph: &Arc<Graph>, now: Moment) {
        let counts = &self.files.0.counts;
        if part.begins_section() {
            self.segment = counts.begun.fetch_add(1, Ordering::Relaxed) + 1;
            self.state = SegmentState::Whole;
        }
        let has_failed = counts.failed.load(Ordering::Relaxed) == self.segment;
        let gap = SegmentState::Gap { until: now.after(PAUSE) };
        if has_failed && self.state == SegmentState::Whole {
            self.state = gap;
        }
        if self.state != SegmentState::Whole {
            drop_part(&part);
            return;
        }
        let message = Message { segment: self.segment, part, graph: Arc::clone(graph) };
        if let Err(Message { part, .. }) = self.files.0.send(message) {
            self.state = gap;
            drop_part(&part);
            warn!("recording has a gap, the disk is too slow");
        }
    }

    /// Returns true, once in a pause, if a section should begin because the present one has a gap.
    pub(crate) fn wants_section(&mut self, now: Moment) -> bool {
        let is_due = matches!(self.state, SegmentState::Gap { until } if now >= until);
        if is_due {
            self.state = SegmentState::Gap { until: now.after(PAUSE) };
        }
        is_due
    }
}

impl Writer {
    fn run(mut self, messages: &mpsc::Receiver<Message>) {
        while let Ok(Message { segment, part, graph }) = messages.recv() {
            if let Err(error) = self.write(&part, &graph) {
                self.folder.end();
                self.counts.failed.store(segment, Ordering::Relaxed);
                drop_part(&part);
                self.complain(&error);
            }
            self.counts.queued.fetch_sub(bytes_in_queue(&part), Ordering::Relaxed);
            metrics::ROUTER_RECORDING_FILE_BYTES.set(self.folder.bytes());
        }
    }

    fn write(&mut self, part: &SectionPart, graph: &Arc<Graph>) -> io::Result<()> {
        if part.begins_section() {
            self.begin(part, graph)
        } else if self.folder.is_writing() {
            self.folder.extend(part)
        } else {
            drop_part(part);
            Ok(())
        }
    }

    fn begin(&mut self, part: &SectionPart, graph: &Arc<Graph>) -> io::Result<()> {
        let known = self.topology.take().filter(|known| Arc::ptr_eq(&known.graph, graph));
        let topology = self.topology.insert(known.unwrap_or_else(|| SegmentTopology::of(graph)));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.folder.begin(part, topology, now_ms)?;
        if !std::mem::take(&mut self.error).is_empty() {
            info!(folder = %self.path.display(), "recording goes on");
        }
        Ok(())
    }

    /// Logs an error, once until a segment can be begun.
    fn complain(&mut self, error: &io::Error) {
        let error = error.to_string();
        if self.error != error {
            warn!(folder = %self.path.display(), %error, "recording cannot be written");
            self.error = error;
        }
    }
}

fn bytes_in_queue(part: &SectionPart) -> usize {
    PART_BYTES + part.len()
}

/// Counts the inputs and outputs of a part that is dropped; its start, if it has nothing else.
fn drop_part(part: &SectionPart) {
    metrics::ROUTER_RECORDING_DROPPED.inc_by(part.records().max(1));
}

#[cfg(test)]
mod tests;
