//! Memory that a call takes besides its request, as messages in memory that a process shares.

use std::sync::Arc;

use tonic::{Extensions, Status};

use crate::message_bounds::charged_bytes;
use crate::request_bytes::RequestBytes;

/// Charges the client of a call with what the call reads elsewhere, until it has been answered.
#[derive(Clone, Debug)]
pub struct CallMemory(Option<Arc<RequestBytes>>);

impl CallMemory {
    /// The memory of a call; nobody is charged outside of a server.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        Self(extensions.get().cloned())
    }

    /// Charges bytes.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `TOO_MANY_REQUEST_BYTES` if the client, or all clients, have more
    /// than they may.
    pub fn charge(&self, bytes: usize) -> Result<(), Status> {
        self.0.as_ref().map_or(Ok(()), |held| held.hold_more(bytes as u64))
    }

    /// Bounds what a message takes once it is decoded, as requests are bounded, and charges it.
    ///
    /// - `message`: its full name in the API.
    ///
    /// # Errors
    ///
    /// As [`Self::charge`]; `RESOURCE_EXHAUSTED` / `LIMIT_REACHED` if it would take too much;
    /// `INVALID_ARGUMENT` / `REQUEST_UNREADABLE` if it cannot be decoded.
    pub fn charge_message(&self, message: &str, bytes: &[u8]) -> Result<(), Status> {
        self.charge(charged_bytes(message, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use fabricast_status::Reason;

    use super::*;
    use crate::client_limiter::tests::usage;

    const OPERATION: &str = "fabricast.v1.GroupOperation";

    /// A message of so many parts without a field.
    fn parts(count: usize) -> Vec<u8> {
        [7 << 3 | 2, 0].repeat(count)
    }

    #[test]
    fn a_message_of_empty_parts_is_refused_before_it_is_decoded() {
        let memory = CallMemory(None);
        memory.charge_message(OPERATION, &parts(1_000)).unwrap();
        memory.charge_message(OPERATION, &[]).unwrap();
        let refused = memory.charge_message(OPERATION, &parts(2 << 20)).unwrap_err();
        assert!(Reason::LimitReached.is_of(&refused), "{refused}");
        for unreadable in [&[7 << 3 | 2, 1][..], &[7 << 3 | 2], &[7]] {
            let refused = memory.charge_message(OPERATION, unreadable).unwrap_err();
            assert!(Reason::RequestUnreadable.is_of(&refused), "{refused}");
        }
    }

    /// A client of these tests may have 10 MiB.
    #[test]
    fn what_a_call_reads_elsewhere_is_charged_until_it_is_answered() {
        let usage = usage("tenant/a");
        let call = || Arc::new(RequestBytes::new(Arc::clone(&usage), "-"));
        let (first, second) = (CallMemory(Some(call())), CallMemory(Some(call())));
        first.charge(4 << 20).unwrap();
        first.charge(4 << 20).unwrap();
        let payload = [&[6 << 3 | 2, 0x80, 0x80, 0xc0, 1][..], &vec![0; 3 << 20]].concat();
        let refused = second.charge_message(OPERATION, &payload).unwrap_err();
        assert!(Reason::TooManyRequestBytes.is_of(&refused), "{refused}");
        drop((first, second));
        CallMemory(Some(call())).charge_message(OPERATION, &payload).unwrap();
    }
}
