//! Charges the work that a server does for a call to the client of the call.
//!
//! The cost of a call is processor time: of each poll of its future and of its response, in which
//! requests are decoded and responses encoded; of work for it elsewhere, through [`CallCost`]; and
//! a fixed time for each call and each byte, which connections spend outside of its polls. A client
//! that has used its share waits before its next call begins, before a long message is decoded,
//! before work on a thread of its own and before the next part of a response. Calls in progress are
//! not stopped in between, as others may wait for what they hold.
//!
//! A long message is decoded and checked outside of the runtime's workers, and one of a client at a
//! time, as is work in [`CallCost::turn`]. So a client occupies a worker for a short time only.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinError;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tracing::debug;

use crate::answer_bytes::HeldAnswer;
use crate::client_limiter::ClientUsage;

/// Cost of a byte that arrives or is sent: encryption, HTTP/2 and copies.
const BYTE: Duration = Duration::from_nanos(1);
/// Cost of a call beside its polls.
const CALL: Duration = Duration::from_micros(10);
/// Length above which a message is decoded outside of the runtime's workers.
pub(crate) const LONG_MESSAGE: usize = 128 << 10;
/// A poll is logged that keeps a worker for longer.
const LONG_POLL: Duration = Duration::from_millis(20);

/// A boxed future; that of tonic always gives a `Result`.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

tokio::task_local! {
    static CURRENT: CallCost;
}

/// The client that pays for work; nobody, outside of calls to a server.
#[derive(Clone, Debug, Default)]
pub struct CallCost(Option<Arc<ClientUsage>>);

impl CallCost {
    pub(crate) fn of(usage: Arc<ClientUsage>) -> Self {
        Self(Some(usage))
    }

    /// The client of the call that is being answered.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(Clone::clone).unwrap_or_default()
    }

    /// Number that tells the clients of a process apart; 0 stands for nobody.
    #[must_use]
    pub fn client(&self) -> u64 {
        self.0.as_ref().map_or(0, |usage| usage.id)
    }

    /// Has the client pay for work that the future hands on to others, as the writer of records.
    pub async fn cover<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Charges processor time that was spent for the client outside of the polls of its calls.
    pub fn charge(&self, spent: Duration) {
        if let Some(usage) = &self.0 {
            usage.charge(spent);
        }
    }

    pub(crate) fn charge_call(&self) {
        self.charge(CALL);
    }

    /// Charges bytes that arrived or are sent.
    pub(crate) fn charge_bytes(&self, count: usize) {
        self.charge(BYTE * u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Waits until the client may have one more answer, for calls that make a long one after they
    /// have waited for something else.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `TOO_MANY_REQUEST_BYTES` if it does not take those it has.
    pub async fn room_for_answer(&self) -> Result<(), Status> {
        match &self.0 {
            Some(usage) => usage.room_for_answer().await,
            None => Ok(()),
        }
    }

    /// Permission for short work on a thread of its own, which waits for nothing.
    #[must_use]
    pub fn at_once(&self) -> Turn {
        Turn { cost: self.clone(), _permit: None }
    }

    /// Waits for the client's turn to work on a thread of its own: after other such work of this
    /// client, and until its debt is paid.
    pub async fn turn(&self) -> Turn {
        let Some(usage) = &self.0 else { return self.at_once() };
        let permit = Arc::clone(&usage.turn).acquire_owned().await.ok();
        usage.pace().await;
        Turn { cost: self.clone(), _permit: permit }
    }
}

/// Permission to work for a client on a thread of its own.
#[derive(Debug)]
pub struct Turn {
    cost: CallCost,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Runs work on a thread of its own, and charges it. The turn lasts to its end, also if the
    /// caller goes away.
    ///
    /// # Errors
    ///
    /// The work panicked.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        if let Some(usage) = &self.cost.0 {
            // It is ended by the drop below.
            usage.begin_work();
        }
        let mut spent = Spent { turn: self, before: None };
        tokio::task::spawn_blocking(move || {
            spent.before = Some(processor_time());
            let done = work();
            drop(spent);
            done
        })
        .await
    }
}

/// Charges work when it is dropped, also if it panicked or was never begun.
struct Spent {
    turn: Turn,
    /// Processor time of the thread when the work began.
    before: Option<Duration>,
}

impl Drop for Spent {
    fn drop(&mut self) {
        let since = |before| processor_time().saturating_sub(before);
        let spent = self.before.map_or(Duration::ZERO, since);
        if let Some(usage) = &self.turn.cost.0 {
            usage.end_work(spent);
        }
    }
}

/// Processor time that this thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The processor time of this thread that some work takes.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = processor_time();
    let done = work();
    (done, processor_time().saturating_sub(before))
}

/// The work on one call; in the extensions of its request.
#[derive(Clone, Debug)]
pub(crate) struct CallWork {
    pub(crate) cost: CallCost,
    service: &'static str,
    /// Turn in which the next poll of the call takes place.
    turn: Arc<Mutex<Option<Turn>>>,
}

impl CallWork {
    /// - `service`: as logs name it.
    pub(crate) fn new(cost: CallCost, service: &'static str) -> Self {
        Self { cost, service, turn: Arc::default() }
    }

    /// Has the next poll of the call, which decodes a long message, take place in this turn.
    pub(crate) fn begin(&self, turn: Turn) {
        *self.turn.lock() = Some(turn);
    }

    /// Polls the call or its response, and charges that.
    fn poll<T>(&self, poll: impl FnOnce() -> T) -> T {
        let turn = self.turn.lock().take();
        let has_turn = turn.is_some();
        let poll = || CURRENT.sync_scope(self.cost.clone(), poll);
        let (polled, spent) = measured(|| if has_turn { off_worker(poll) } else { poll() });
        self.cost.charge(spent);
        if spent > LONG_POLL && !has_turn {
            let elapsed_ms = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
            debug!(service = self.service, elapsed_ms, "a call kept a worker");
        }
        polled
    }
}

/// A call whose polls are charged.
pub(crate) struct ChargedCall<F> {
    call: Pin<Box<F>>,
    work: CallWork,
}

impl<F> ChargedCall<F> {
    pub(crate) fn new(call: F, work: CallWork) -> Self {
        Self { call: Box::pin(call), work }
    }
}

impl<F: Future> Future for ChargedCall<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { call, work } = &mut *self;
        work.poll(|| call.as_mut().poll(context))
    }
}

/// Works while other tasks of this worker are taken over by another thread.
fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// A response whose polls and bytes are charged; it waits while its client is in debt.
pub(crate) struct ChargedBody<K> {
    body: Body,
    work: CallWork,
    /// It lasts as long as its client: its bytes are not charged, and it never waits.
    is_lasting: bool,
    pause: Option<BoxFuture<()>>,
    /// The answer of a call that has one, once it is encoded.
    answer: Option<HeldAnswer>,
    /// A first frame that is no answer.
    first: Option<Result<Frame<Bytes>, Status>>,
    /// Lives as long as the response.
    _kept: K,
}

impl<K> ChargedBody<K> {
    pub(crate) fn new(body: Body, work: CallWork, is_lasting: bool, kept: K) -> Self {
        Self { body, work, is_lasting, pause: None, answer: None, first: None, _kept: kept }
    }

    /// Encodes the answer of a call that has one now, so that its length counts until it is taken.
    pub(crate) async fn hold_answer(&mut self) {
        let Some(usage) = self.work.cost.0.clone().filter(|_| !self.body.is_end_stream()) else {
            return;
        };
        let Self { body, work, .. } = &mut *self;
        let frame = poll_fn(|context| work.poll(|| Pin::new(&mut *body).poll_frame(context))).await;
        match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => self.answer = Some(HeldAnswer::new(Arc::clone(&usage.answers), data)),
                Err(trailers) => self.first = Some(Ok(trailers)),
            },
            other => self.first = other,
        }
    }

    /// Waits while the client is in debt.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.pause.is_none() {
            let usage = self.work.cost.0.as_ref().filter(|usage| !self.is_lasting && usage.owes());
            let Some(usage) = usage.cloned() else { return Poll::Ready(()) };
            self.pause = Some(Box::pin(async move { usage.pace().await }));
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
        }
        self.pause = None;
        Poll::Ready(())
    }
}

impl<K: Unpin> http_body::Body for ChargedBody<K> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        ready!(self.poll_pause(context));
        let Self { body, work, is_lasting, answer, first, .. } = &mut *self;
        if let Some(first) = first.take() {
            return Poll::Ready(Some(first));
        }
        match answer.as_ref().and_then(HeldAnswer::next_piece) {
            Some(Ok(piece)) => {
                work.cost.charge_bytes(piece.len());
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            Some(Err(late)) => {
                (*answer, *body) = (None, Body::empty());
                return Poll::Ready(Some(trailers(&late)));
            }
            None => {}
        }
        let frame = work.poll(|| Pin::new(body).poll_frame(context));
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && !*is_lasting
        {
            work.cost.charge_bytes(frame.data_ref().map_or(0, Bytes::len));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none()
            && self.answer.as_ref().is_none_or(HeldAnswer::is_taken)
            && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The end of a call whose answer has begun. An error of the body would only reset its stream, and
/// the client would not learn why.
fn trailers(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = http::HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

#[cfg(test)]
mod tests {
    use fabricast_status::Reason;
    use http_body_util::{BodyExt, StreamBody};

    use crate::answer_bytes::ANSWER_TIMEOUT;
    use crate::client_limiter::tests::usage;

    use super::*;

    /// Uses so much processor time.
    fn burn(time: Duration) {
        let begun = processor_time();
        while processor_time() - begun < time {
            std::hint::spin_loop();
        }
    }

    const WORK: Duration = Duration::from_millis(30);

    // In these tests time stands still, so nothing is earned.
    #[tokio::test(start_paused = true)]
    async fn polls_of_a_call_and_of_its_response_are_charged() {
        let usage = usage("tenant/a");
        let work = CallWork::new(CallCost::of(Arc::clone(&usage)), "-");
        let before = usage.spent();
        let client = ChargedCall::new(
            async {
                burn(WORK);
                tokio::task::yield_now().await;
                burn(WORK);
                CallCost::current().client()
            },
            work.clone(),
        );
        assert_eq!(client.await, usage.id);
        let of_call = usage.spent() - before;
        assert!(of_call >= WORK * 2 && of_call < WORK * 3, "{of_call:?}");
        let frames = tokio_stream::iter([Bytes::from(vec![0; 10 << 20])]);
        let frames = tokio_stream::StreamExt::map(frames, |data| {
            burn(WORK);
            Ok::<_, Status>(Frame::data(data))
        });
        let body = || Body::new(StreamBody::new(frames));
        let mut body = ChargedBody::new(body(), work, false, ());
        let before = usage.spent();
        assert!(body.frame().await.is_some());
        let of_body = usage.spent() - before;
        let least = WORK + BYTE * (10 << 20);
        assert!(of_body >= least && of_body < least + WORK, "{of_body:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_an_answer_too_late_is_told_so() {
        let work = CallWork::new(CallCost::of(usage("tenant/a")), "-");
        let frames = [Ok::<_, Status>(Frame::data(Bytes::from(vec![7; 1 << 20])))];
        let body = Body::new(StreamBody::new(tokio_stream::iter(frames)));
        let mut body = ChargedBody::new(body, work, false, ());
        body.hold_answer().await;
        assert!(body.frame().await.unwrap().unwrap().is_data());
        tokio::time::sleep(ANSWER_TIMEOUT * 2).await;
        assert!(!body.is_end_stream());
        let last = body.frame().await.unwrap().unwrap();
        let told = Status::from_header_map(last.trailers_ref().unwrap()).unwrap();
        assert!(Reason::ReaderTooSlow.is_of(&told), "{told}");
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn work_on_other_threads_is_charged_also_if_it_panics_and_one_of_a_client_at_a_time() {
        let usage = usage("tenant/a");
        let cost = CallCost::of(Arc::clone(&usage));
        let before = usage.spent();
        let first = cost.turn().await;
        let second = tokio::spawn({
            let cost = cost.clone();
            async move { cost.turn().await }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished(), "the first has not begun yet");
        first.run(|| burn(WORK)).await.unwrap();
        let failed = second.await.unwrap().run(|| {
            burn(WORK);
            std::panic::resume_unwind(Box::new(())); // a panic without a message
        });
        assert!(failed.await.is_err());
        let spent = usage.spent() - before;
        assert!(spent >= WORK * 2 && spent < WORK * 3, "{spent:?}");
        cost.at_once().run(|| ()).await.unwrap();
        drop(cost.turn().await);
        assert_eq!(CallCost::current().client(), 0);
    }
}
