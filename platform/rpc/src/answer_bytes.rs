//! Bounds the bytes of answers that a server holds until their clients take them.
//!
//! An answer may be long and cost little to ask for. Without a bound, a client could make thousands
//! of calls and read none of the answers. The answer of a call with one answer is encoded as soon
//! as it is made, and its length counts until the call ends. A client with as many bytes of answers
//! as it may have of requests waits with its next calls; one that does not take an answer in time
//! loses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::codegen::Bytes;

use crate::limits::{ALWAYS, Limits};
use fabricast_status::Reason;

/// Time in which a client has to take an answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time that a call waits until its client has taken answers.
const ROOM_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the first call that waits looks for room.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes of an answer that are handed to the connection at a time.
const PIECE: usize = 64 << 10;

/// Bytes of the answers of a client that it has not taken.
#[derive(Debug)]
pub(crate) struct OpenAnswers {
    bytes: AtomicU64,
    /// The same of all clients.
    of_all: Arc<AtomicU64>,
    /// Held by the call that waits for room; further ones wait in their order.
    first: Semaphore,
}

impl OpenAnswers {
    pub(crate) fn new(of_all: Arc<AtomicU64>) -> Self {
        Self { bytes: AtomicU64::new(0), of_all, first: Semaphore::new(1) }
    }

    /// True if one more answer may be made for the client.
    pub(crate) fn has_room(&self, limits: &Limits) -> bool {
        let own = self.bytes.load(Ordering::Relaxed);
        let all = self.of_all.load(Ordering::Relaxed);
        own < limits.client_request_bytes && (own < ALWAYS || all < limits.request_bytes)
    }

    /// Waits until one more answer may be made; false if that takes too long.
    pub(crate) async fn wait_for_room(&self, limits: impl Fn() -> Limits) -> bool {
        let room = async {
            let _first = self.first.acquire().await;
            while !self.has_room(&limits()) {
                sleep(LOOK).await;
            }
        };
        timeout(ROOM_TIMEOUT, room).await.is_ok()
    }
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
struct Counted {
    answers: Arc<OpenAnswers>,
    bytes: u64,
}

impl Counted {
    fn new(answers: Arc<OpenAnswers>, bytes: u64) -> Self {
        answers.bytes.fetch_add(bytes, Ordering::Relaxed);
        answers.of_all.fetch_add(bytes, Ordering::Relaxed);
        Self { answers, bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.answers.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.answers.of_all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The part of an answer that was not taken, and its length as it counts.
#[derive(Debug)]
struct Untaken {
    rest: Bytes,
    _counted: Counted,
}

/// An encoded answer, which its client takes piece by piece.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    /// None once the time to take it is over.
    untaken: Arc<Mutex<Option<Untaken>>>,
    /// End of that time; short answers have none.
    timer: Option<AbortHandle>,
}

impl HeldAnswer {
    pub(crate) fn new(answers: Arc<OpenAnswers>, rest: Bytes) -> Self {
        let is_long = rest.len() > PIECE;
        let counted = Counted::new(answers, rest.len() as u64);
        let untaken = Arc::new(Mutex::new(Some(Untaken { rest, _counted: counted })));
        let timer = is_long.then(|| {
            let untaken = Arc::clone(&untaken);
            let timer = async move {
                sleep(ANSWER_TIMEOUT).await;
                untaken.lock().take();
            };
            tokio::spawn(timer).abort_handle()
        });
        Self { untaken, timer }
    }

    /// Takes the next piece; `None` after the last.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` / `READER_TOO_SLOW` if the time to take it is over.
    pub(crate) fn next_piece(&self) -> Option<Result<Bytes, Status>> {
        let mut untaken = self.untaken.lock();
        let Some(Untaken { rest, .. }) = &mut *untaken else { return Some(Err(too_slow())) };
        if rest.is_empty() {
            return None;
        }
        let piece = rest.split_to(rest.len().min(PIECE));
        // Copied, so that a piece which waits in the connection does not keep the whole answer.
        let is_long = self.timer.is_some();
        Some(Ok(if is_long { Bytes::copy_from_slice(&piece) } else { piece }))
    }

    /// True once all pieces were taken.
    pub(crate) fn is_taken(&self) -> bool {
        self.untaken.lock().as_ref().is_some_and(|untaken| untaken.rest.is_empty())
    }
}

impl Drop for HeldAnswer {
    fn drop(&mut self) {
        // The timer has it, too, and may end a little later.
        self.untaken.lock().take();
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}

fn too_slow() -> Status {
    let most = ANSWER_TIMEOUT.as_secs();
    let text = format!("the answer was not taken within {most} s");
    Reason::ReaderTooSlow.status(text, &[])
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits() -> Limits {
        Limits { client_request_bytes: 10 * MIB, request_bytes: 14 * MIB, ..Limits::default() }
    }

    fn client(of_all: &Arc<AtomicU64>) -> Arc<OpenAnswers> {
        Arc::new(OpenAnswers::new(Arc::clone(of_all)))
    }

    fn hold(of: &Arc<OpenAnswers>, mib: usize) -> HeldAnswer {
        HeldAnswer::new(Arc::clone(of), Bytes::from(vec![7; mib << 20]))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_taken_piece_by_piece_and_counts_until_its_call_ends() {
        let of_all = Arc::default();
        let own = client(&of_all);
        let answer = hold(&own, 3);
        let mut taken = 0;
        while let Some(piece) = answer.next_piece() {
            let piece = piece.unwrap();
            assert!(piece.len() <= PIECE && piece.iter().all(|byte| *byte == 7));
            taken += piece.len() as u64;
            assert_eq!(answer.is_taken(), taken == 3 * MIB);
        }
        assert_eq!((taken, of_all.load(Ordering::Relaxed)), (3 * MIB, 3 * MIB));
        drop(answer);
        assert_eq!((of_all.load(Ordering::Relaxed), own.bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_waits_until_it_has_taken_answers_and_no_other_does() {
        let of_all = Arc::default();
        let (own, other) = (client(&of_all), client(&of_all));
        let answers = [hold(&own, 6), hold(&own, 6)];
        assert!(!own.has_room(&limits()));
        let begun = Instant::now();
        assert!(!own.wait_for_room(limits).await, "it takes none");
        assert_eq!(begun.elapsed(), ROOM_TIMEOUT);
        // All clients have as much as they may; this one has little.
        let _few = hold(&other, 3);
        assert!(other.has_room(&limits()) && other.wait_for_room(limits).await);
        let _more = hold(&other, 1);
        assert!(!other.has_room(&limits()));
        let waiting = tokio::spawn({
            let own = Arc::clone(&own);
            async move { own.wait_for_room(limits).await }
        });
        sleep(LOOK * 3).await;
        assert!(!waiting.is_finished());
        drop(answers);
        assert!(waiting.await.unwrap() && other.has_room(&limits()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_is_dropped() {
        let of_all = Arc::default();
        let own = client(&of_all);
        let answer = hold(&own, 1);
        answer.next_piece().unwrap().unwrap();
        sleep(ANSWER_TIMEOUT - LOOK).await;
        answer.next_piece().unwrap().unwrap();
        sleep(LOOK * 2).await;
        assert_eq!(of_all.load(Ordering::Relaxed), 0);
        assert!(answer.next_piece().unwrap().is_err() && !answer.is_taken());
    }
}
