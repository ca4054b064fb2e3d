//! Writes the recording to files, on a thread of its own.
//!
//! The control loop never waits for the disk. It puts what was recorded into a queue of bounded
//! size. A part that finds no room there, or cannot be written, is dropped and counted, and so is
//! the rest of its section, because a section is played from its beginning without gaps. After a
//! pause the control loop begins a section anew.
//!
//! The recording is for people who look for a mistake; routes do not need it. So a folder that
//! cannot be used is logged, and keeps no route service from its work.
//!
//! ```text
//!  ControlLoop ──SectionPart──► SegmentQueue ──► thread "recording" ──► SegmentFolder ──► files
//! ```

mod folder;

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabricast_groups::Moment;
use fabricast_reconciler::SectionPart;
use fabricast_telemetry::metrics;
use fabricast_topology::Graph;
use parking_lot::Mutex;
use tracing::{info, warn};

use folder::{SegmentFolder, SegmentTopology};

/// Time from a gap to the next section; it doubles as long as each section has a gap.
const PAUSE: Duration = Duration::from_mins(1);
/// Longest such time. A section costs the control loop as much as a takeover, and takes the room of
/// older ones in memory, which a disk that stays full must not ask for all the time.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// Longest wait for the disk at the end of the route service.
const LAST_WRITES: Duration = Duration::from_secs(10);
/// Bytes that a part takes in the queue beside its own.
const PART_BYTES: usize = 256;

/// The files of a route service; clones share them. When the last clone goes, what is queued is
/// written first, unless the disk hangs.
#[derive(Clone, Debug)]
pub(crate) struct RecordingFiles(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    /// `None` once the thread is to end.
    queue: Option<mpsc::Sender<Message>>,
    /// Has no sender any more once the thread has ended.
    running: Mutex<mpsc::Receiver<Infallible>>,
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
    /// Number of the segment since the start of the process, from 1; files are numbered apart.
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
    /// Time from the next gap to the section after it.
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    /// All parts so far were queued.
    Whole,
    /// A part is missing. The next section should begin at this time.
    Gap { until: Moment },
}

/// State of the thread.
struct Writer {
    path: PathBuf,
    /// Bytes that all files may have.
    limit: u64,
    /// `None` before it could be opened, and after a failure.
    folder: Option<SegmentFolder>,
    topology: Option<SegmentTopology>,
    counts: Arc<Counts>,
    /// Error that was logged; empty if the last segment could be begun.
    error: String,
}

impl RecordingFiles {
    /// Starts the thread, which opens the folder.
    ///
    /// - `limit`: bytes that all files may have.
    /// - `queue_limit`: bytes that may wait for the disk, in memory.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub(crate) fn start(path: PathBuf, limit: u64, queue_limit: usize) -> io::Result<Self> {
        let counts = Arc::<Counts>::default();
        let (queue, messages) = mpsc::channel();
        let (alive, running) = mpsc::channel::<Infallible>();
        let (its_counts, error) = (Arc::clone(&counts), String::new());
        let writer =
            Writer { path, limit, folder: None, topology: None, counts: its_counts, error };
        std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            writer.run(&messages);
            drop(alive);
        })?;
        let (queue, running) = (Some(queue), Mutex::new(running));
        Ok(Self(Arc::new(Handle { queue, running, limit: queue_limit, counts })))
    }

    /// Makes the queue of a control loop.
    pub(crate) fn queue(&self) -> SegmentQueue {
        SegmentQueue { files: self.clone(), segment: 0, state: SegmentState::Whole, pause: PAUSE }
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
        let ended = self.running.get_mut().recv_timeout(LAST_WRITES);
        if matches!(ended, Err(mpsc::RecvTimeoutError::Timeout)) {
            warn!("end of the recording is not written, the disk is too slow");
        }
    }
}

impl SegmentQueue {
    /// Queues a part, or drops it. Never waits.
    pub(crate) fn put(&mut self, part: SectionPart, graph: &Arc<Graph>, now: Moment) {
        let counts = &self.files.0.counts;
        let has_failed = counts.failed.load(Ordering::Relaxed) == self.segment;
        if part.begins_section() {
            if self.state == SegmentState::Whole && !has_failed {
                self.pause = PAUSE;
            }
            self.segment = counts.begun.fetch_add(1, Ordering::Relaxed) + 1;
            self.state = SegmentState::Whole;
        } else if has_failed && self.state == SegmentState::Whole {
            self.leave_gap(now);
        }
        if self.state != SegmentState::Whole {
            drop_part(&part);
            return;
        }
        let message = Message { segment: self.segment, part, graph: Arc::clone(graph) };
        if let Err(Message { part, .. }) = self.files.0.send(message) {
            self.leave_gap(now);
            drop_part(&part);
            warn!("recording has a gap, the disk is too slow");
        }
    }

    /// Returns true if a section should begin because the present one has a gap.
    pub(crate) fn wants_section(&self, now: Moment) -> bool {
        matches!(self.state, SegmentState::Gap { until } if now >= until)
    }

    fn leave_gap(&mut self, now: Moment) {
        self.state = SegmentState::Gap { until: now.after(self.pause) };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

impl Writer {
    fn run(mut self, messages: &mpsc::Receiver<Message>) {
        // Also a route service that stands by tells of a folder that cannot be used.
        if let Err(error) = self.open() {
            self.complain(&error);
        }
        self.measure();
        while let Ok(Message { segment, part, graph }) = messages.recv() {
            if let Err(error) = self.write(&part, &graph) {
                // The next section opens the folder anew, which may have been replaced.
                self.folder = None;
                self.counts.failed.store(segment, Ordering::Relaxed);
                drop_part(&part);
                self.complain(&error);
            }
            self.counts.queued.fetch_sub(bytes_in_queue(&part), Ordering::Relaxed);
            self.measure();
        }
    }

    /// Opens the folder, unless it is open.
    fn open(&mut self) -> io::Result<&mut SegmentFolder> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => SegmentFolder::open(self.path.clone(), self.limit)?,
        };
        Ok(self.folder.insert(folder))
    }

    fn write(&mut self, part: &SectionPart, graph: &Arc<Graph>) -> io::Result<()> {
        if part.begins_section() {
            return self.begin(part, graph);
        }
        match &mut self.folder {
            Some(folder) => folder.extend(part),
            // It was queued before its segment failed.
            None => {
                drop_part(part);
                Ok(())
            }
        }
    }

    fn begin(&mut self, part: &SectionPart, graph: &Arc<Graph>) -> io::Result<()> {
        let known = self.topology.take().filter(|known| Arc::ptr_eq(&known.graph, graph));
        let topology = known.unwrap_or_else(|| SegmentTopology::of(graph));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let begun = self.open().and_then(|folder| folder.begin(part, &topology, now_ms));
        self.topology = Some(topology);
        begun?;
        if !std::mem::take(&mut self.error).is_empty() {
            info!(folder = %self.path.display(), "recording goes on");
        }
        Ok(())
    }

    fn measure(&self) {
        if let Some(folder) = &self.folder {
            metrics::ROUTER_RECORDING_FILE_BYTES.set(folder.bytes());
        }
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
