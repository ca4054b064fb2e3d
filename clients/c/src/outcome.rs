//! Results of operations, and the places where the program wants them.

use std::ffi::c_void;
use std::pin::Pin;

use fabricast_client::Payloads;

use crate::arguments::{self, Place};
use crate::failure::{Code, Failure};
use crate::payload_list::PayloadList;

/// The run of an operation, until its end.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send>>;

/// Result of an operation.
#[derive(Debug)]
pub(crate) enum Outcome {
    Nothing,
    Bytes(Vec<u8>),
    Payloads(Payloads),
    Count(usize),
}

/// Place where the program wants the result. It is written by the function that tells the program
/// of the end, on its thread, and never after the request was freed.
#[derive(Debug)]
pub(crate) enum Destination {
    Nowhere,
    /// Room for a result of exactly so many bytes.
    Bytes {
        to: *mut c_void,
        length: usize,
    },
    /// Room for payloads of `length` bytes each.
    Payloads {
        to: *mut c_void,
        length: usize,
        ranks: *mut u32,
        capacity: usize,
        count: *mut usize,
    },
    Count(*mut usize),
    /// Room for a list of payloads of any lengths.
    List(Place<PayloadList>),
}

// SAFETY: the pointers are for the thread that waits for the operation; the program promises that
// they stay valid until then, whichever thread it is.
unsafe impl Send for Destination {}

impl Destination {
    /// Writes a result.
    ///
    /// # Safety
    ///
    /// The pointers that the program gave are still valid.
    pub(crate) unsafe fn write(&self, outcome: Outcome) -> Result<(), Failure> {
        match (self, outcome) {
            (_, Outcome::Nothing) | (Self::Nowhere, _) => Ok(()),
            (Self::Bytes { to, length }, Outcome::Bytes(bytes)) => {
                if bytes.len() != *length {
                    let text = format!("{} bytes came, not {length}", bytes.len());
                    return Err(Failure::new(Code::WrongLength, text));
                }
                // SAFETY: room for `length`, as the caller promises.
                unsafe { arguments::write_bytes(&bytes, *to) };
                Ok(())
            }
            (Self::Payloads { to, length, ranks, capacity, count }, Outcome::Payloads(found)) => {
                // SAFETY: as the caller promises.
                unsafe { arguments::write_optional(*count, found.len()) };
                if found.len() > *capacity {
                    let text = format!("{} payloads, and room for {capacity}", found.len());
                    return Err(Failure::new(Code::NoRoom, text));
                }
                let wrong = |(_, payload): &&(u32, Vec<u8>)| payload.len() != *length;
                if let Some((rank, payload)) = found.iter().find(wrong) {
                    let text = format!("rank {rank} sent {} bytes, not {length}", payload.len());
                    return Err(Failure::new(Code::WrongLength, text));
                }
                for (at, (rank, payload)) in found.iter().enumerate() {
                    let place = to.cast::<u8>().wrapping_add(at * length);
                    // SAFETY: `at` is below `capacity`, and there is room for so many.
                    unsafe {
                        arguments::write_bytes(payload, place.cast());
                        if !ranks.is_null() {
                            arguments::write_optional(ranks.wrapping_add(at), *rank);
                        }
                    }
                }
                Ok(())
            }
            (Self::List(place), Outcome::Payloads(found)) => {
                place.put(found.into());
                Ok(())
            }
            (Self::Count(to), Outcome::Count(count)) => {
                // SAFETY: as the caller promises.
                unsafe { arguments::write_optional(*to, count) };
                Ok(())
            }
            (Self::Bytes { .. } | Self::Payloads { .. } | Self::Count(_) | Self::List(_), _) => {
                Err(Failure::new(Code::Internal, "an operation has a result of another kind"))
            }
        }
    }
}
