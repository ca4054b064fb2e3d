//! The thread behind a client, and waiting for what it does.

use std::ffi::c_int;
use std::io;

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
    runtime.block_on(async {
        match arguments::timeout(timeout_ms) {
            None => happens.await,
            Some(time) => {
                let ended = tokio::time::timeout(time, happens).await;
                ended.unwrap_or_else(|_| Err(Failure::timeout(nothing)))
            }
        }
    })
}
