//! Handle of an operation that was started: `fabricast_request`.

use std::ffi::c_int;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinHandle};

use crate::arguments;
use crate::failure::{Code, Failure, guard};
use crate::outcome::{Destination, Outcome};
use crate::runtime::within;

/// An operation that was started. If it is freed before the end, the operation goes on, because the
/// other members count on it, and its result is dropped.
pub(crate) struct Request {
    state: Mutex<State>,
    runtime: Arc<Runtime>,
}

enum State {
    Running { task: JoinHandle<Result<Outcome, Failure>>, destination: Destination },
    Ended(Result<(), Failure>),
}

impl Request {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        task: JoinHandle<Result<Outcome, Failure>>,
        destination: Destination,
    ) -> Self {
        Self { state: Mutex::new(State::Running { task, destination }), runtime }
    }

    /// Waits for the end, and writes the result the first time that it is seen.
    ///
    /// # Safety
    ///
    /// The pointers that the program gave for the result are still valid.
    async unsafe fn ended(&self) -> Result<(), Failure> {
        let mut state = self.state.lock().await;
        let ended = match &mut *state {
            State::Ended(ended) => return ended.clone(),
            State::Running { task, destination } => {
                let outcome = task.await.unwrap_or_else(|error| Err(failed_task(error)));
                // SAFETY: as the caller promises.
                outcome.and_then(|outcome| unsafe { destination.write(outcome) })
            }
        };
        *state = State::Ended(ended.clone());
        ended
    }
}

fn failed_task(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(panic) => Failure::panicked(&*panic),
        Err(_) => Failure::new(Code::Detached, "the client has ended"),
    }
}

const NOT_ENDED: &str = "the operation has not ended";

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_request_wait(request: *const Request, timeout_ms: c_int) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle, and what it gave when it started it.
        let (request, ended) = unsafe {
            let request = arguments::reference(request, "request")?;
            (request, request.ended())
        };
        within(&request.runtime, timeout_ms, NOT_ENDED, ended)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_request_test(request: *const Request, ended: *mut c_int) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle, and what it gave when it started it.
        let (request, end) = unsafe {
            let request = arguments::reference(request, "request")?;
            (request, request.ended())
        };
        if ended.is_null() {
            return Err(Failure::argument("ended is NULL"));
        }
        let end = async { Ok(end.await) };
        let end = match within(&request.runtime, 0, NOT_ENDED, end) {
            Err(failure) if failure.code == Code::Timeout => None,
            end => Some(end.and_then(|end| end)),
        };
        // SAFETY: not null, and with room for a number.
        unsafe { arguments::write_optional(ended, c_int::from(end.is_some())) };
        end.unwrap_or(Ok(()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_request_free(request: *mut Request) {
    guard(|| {
        // SAFETY: the caller promises a handle that nobody uses any more, or null.
        drop(unsafe { arguments::taken(request) });
        Ok(())
    });
}
