//! Payloads of members, each with its rank and length: `fabricast_payload_list`.

use std::ffi::c_void;

use fabricast_client::Payloads;

use crate::arguments;
use crate::failure::guard;

/// A payload, as C reads and writes it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Payload {
    pub(crate) rank: u32,
    pub(crate) length: usize,
    pub(crate) payload: *const c_void,
}

/// Payloads by rank, as C reads them. The bytes that they point to are behind them.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PayloadList {
    count: usize,
    payloads: *const Payload,
    owned: Vec<Payload>,
    _bytes: Payloads,
}

impl From<Payloads> for PayloadList {
    fn from(bytes: Payloads) -> Self {
        // The bytes of a `Vec` stay where they are when the `Vec` moves.
        let payload = |(rank, bytes): &(u32, Vec<u8>)| Payload {
            rank: *rank,
            length: bytes.len(),
            payload: bytes.as_ptr().cast(),
        };
        let owned: Vec<Payload> = bytes.iter().map(payload).collect();
        Self { count: owned.len(), payloads: owned.as_ptr(), owned, _bytes: bytes }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_payload_list_free(payloads: *mut PayloadList) {
    guard(|| {
        // SAFETY: the caller promises a list that nobody reads any more, or null.
        drop(unsafe { arguments::taken(payloads) });
        Ok(())
    });
}
