//! The thread behind a client, and waiting for what it does.

use std::ffi::c_int;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, Runtime};

use crate::arguments;
use crate::failure::Failure;

/// Starts the thread that serves the connection of a client.
pub(crate) fn start() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("fabricast")
        .on_thread_start(block_signals)
        .enable_all()
        .build()
}

/// Leaves all signals to the threads of the program. Among them is `SIGPIPE`, which would end a
/// program that does not expect it when the agent is gone.
pub(crate) fn block_signals() {
    // SAFETY: a set of signals consists of numbers, so zeros are one; both calls get a valid set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// Blocks until something has happened or a time is over.
///
/// - `timeout_ms`: negative for no end; at 0 only that counts which has happened already.
/// - `nothing`: first words of the text if it has not, which ends "within the timeout".
pub(crate) fn within<T>(
    runtime: &Runtime,
    timeout_ms: c_int,
    nothing: &str,
    happens: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let Some(time) = arguments::timeout(timeout_ms) else { return runtime.block_on(happens) };
    let _context = runtime.enter(); // of timers and tasks that it begins
    let ended = poll_until(Instant::now() + time, happens);
    ended.unwrap_or_else(|| Err(Failure::timeout(nothing)))
}

/// Tells a thread that its future is to be polled again.
#[derive(Default)]
struct Wakeup {
    has_come: Mutex<bool>,
    comes: Condvar,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        *self.has_come.lock() = true;
        self.comes.notify_one();
    }
}

/// Waits for a future until a time; `None` if that is over. A timer of the runtime would wake its
/// thread twice, once to learn of it and once to end it: too much for who waits a millisecond at a
/// time.
fn poll_until<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    let wakeup = Arc::new(Wakeup::default());
    let waker = Waker::from(Arc::clone(&wakeup));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let mut has_come = wakeup.has_come.lock();
        while !*has_come {
            if wakeup.comes.wait_until(&mut has_come, deadline).timed_out() && !*has_come {
                return None;
            }
        }
        *has_come = false;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::failure::Code;

    const LONG: c_int = 60_000;

    fn code(ended: Result<(), Failure>) -> Option<Code> {
        ended.err().map(|failure| failure.code)
    }

    #[test]
    fn what_another_thread_does_is_waited_for() {
        let runtime = start().unwrap();
        let (sender, receiver) = oneshot::channel();
        let thread = std::thread::spawn(move || sender.send(7));
        let received = async { Ok(receiver.await.unwrap()) };
        assert_eq!(within(&runtime, LONG, "nothing", received).ok(), Some(7));
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn timers_and_tasks_of_the_runtime_end_as_well() {
        let runtime = start().unwrap();
        let ends = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tokio::spawn(async {}).await.unwrap();
            Ok(())
        };
        assert!(code(within(&runtime, LONG, "nothing", ends)).is_none());
    }

    #[test]
    fn without_an_end_the_time_is_over_and_at_0_only_what_has_happened_counts() {
        let runtime = start().unwrap();
        for timeout_ms in [0, 1] {
            let ended = code(within(&runtime, timeout_ms, "nothing", pending()));
            assert!(matches!(ended, Some(Code::Timeout)));
        }
        assert!(code(within(&runtime, 0, "nothing", ready(Ok(())))).is_none());
    }
}
