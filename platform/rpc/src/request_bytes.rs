//! Bounds the bytes of requests that a server holds: those that are arriving, and those of calls
//! that are not answered yet.
//!
//! A message of up to 64 MiB is collected before it is decoded. Without a bound, a client could
//! begin thousands of them and end none. Of a stream, the message that arrives and the one before
//! it count, and what its call says that it has collected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tonic::Status;

use crate::client_limiter::ClientUsage;
use crate::limits::ALWAYS;
use fabricast_status::Reason;

/// Time in which a message has to arrive once it has begun.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(120);
/// Delay that is asked of a client with too many bytes.
const DELAY: Duration = Duration::from_millis(100);

/// Bytes of one call, until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestBytes {
    usage: Arc<ClientUsage>,
    service: &'static str,
    held: AtomicU64,
}

impl RequestBytes {
    /// - `service`: as metrics name it.
    pub(crate) fn new(usage: Arc<ClientUsage>, service: &'static str) -> Self {
        Self { usage, service, held: AtomicU64::new(0) }
    }

    /// Sets the bytes that the call holds.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `TOO_MANY_REQUEST_BYTES` if its client, or all clients, have more
    /// than they may.
    pub(crate) fn hold(&self, bytes: u64) -> Result<(), Status> {
        let before = self.held.swap(bytes, Ordering::Relaxed);
        let Some(more) = bytes.checked_sub(before).filter(|more| *more > 0) else {
            self.give_back(before.saturating_sub(bytes));
            return Ok(());
        };
        let add = |sum: &AtomicU64| sum.fetch_add(more, Ordering::Relaxed) + more;
        let (of_client, of_all) =
            (add(&self.usage.request_bytes), add(&self.usage.all_request_bytes));
        let limits = self.usage.limits();
        let (limit, text) = if of_client > limits.client_request_bytes {
            let most = limits.client_request_bytes;
            let text =
                format!("{} has more than {most} bytes of requests open", self.usage.client());
            ("client_request_bytes", text)
        } else if of_all > limits.request_bytes && of_client > ALWAYS {
            let most = limits.request_bytes;
            ("request_bytes", format!("all clients have more than {most} bytes of requests open"))
        } else {
            return Ok(());
        };
        self.usage.record_refusal(self.service, limit);
        Err(Reason::TooManyRequestBytes.status_after(text, DELAY))
    }

    /// Holds further bytes, until the call has been answered.
    ///
    /// # Errors
    ///
    /// As [`Self::hold`].
    pub(crate) fn hold_more(&self, bytes: u64) -> Result<(), Status> {
        self.hold(self.held.load(Ordering::Relaxed).saturating_add(bytes))
    }

    fn give_back(&self, bytes: u64) {
        self.usage.request_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.usage.all_request_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that a call collects of a stream of requests, until this is dropped.
#[derive(Debug)]
pub struct CollectedBytes(Option<RequestBytes>);

impl CollectedBytes {
    /// Of the call with these extensions; counts nothing outside of a server.
    #[must_use]
    pub fn of(extensions: &http::Extensions) -> Self {
        let call = extensions.get::<Arc<RequestBytes>>();
        Self(call.map(|call| RequestBytes::new(Arc::clone(&call.usage), call.service)))
    }

    /// Sets the bytes that the call has collected.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `TOO_MANY_REQUEST_BYTES` if its client, or all clients, have more
    /// than they may.
    pub fn hold(&self, bytes: usize) -> Result<(), Status> {
        self.0.as_ref().map_or(Ok(()), |own| own.hold(bytes as u64))
    }
}

impl Drop for RequestBytes {
    fn drop(&mut self) {
        self.give_back(self.held.load(Ordering::Relaxed));
    }
}
