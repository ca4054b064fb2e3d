//! Operations that give or take payloads of different lengths, as lists.

use std::ffi::c_void;

use fabricast_client::Payloads;

use crate::arguments::{self, Place};
use crate::failure::{Code, Failure};
use crate::group::Group;
use crate::operation::{Operation, run, start};
use crate::outcome::{Destination, Outcome, Running};
use crate::payload_list::{Payload, PayloadList};
use crate::request::Request;
use crate::turns::Queue;

/// A payload to send, as C gives it.
struct Bytes {
    payload: *const c_void,
    length: usize,
}

impl Bytes {
    /// # Safety
    ///
    /// A payload that is not null has `length` bytes.
    unsafe fn copied(&self) -> Result<Vec<u8>, Failure> {
        // SAFETY: as the caller promises.
        unsafe { arguments::copied(self.payload.cast::<u8>(), self.length, "payload") }
    }
}

/// Parts to scatter, as C gives them.
struct Parts {
    parts: *const Payload,
    count: usize,
}

/// Place where the program wants a list.
type ListPlace = *mut *mut PayloadList;

/// # Safety
///
/// A pointer that is not null points to room for a handle, until the operation has ended.
unsafe fn listed(list: ListPlace, running: Running) -> Result<Operation, Failure> {
    // SAFETY: as the caller promises.
    let place = unsafe { Place::new(list, "payloads") }?;
    Ok(Operation { queue: Queue::Collective, running, destination: Destination::List(place) })
}

/// # Safety
///
/// As [`listed`].
unsafe fn barrier(group: &Group, list: ListPlace) -> Result<Operation, Failure> {
    let members = group.members_of_operations();
    let running = Box::pin(async move {
        let ranks = members.barrier().await?;
        Ok(Outcome::Payloads(ranks.into_iter().map(|rank| (rank, Vec::new())).collect()))
    });
    // SAFETY: as the caller promises.
    unsafe { listed(list, running) }
}

/// # Safety
///
/// As [`listed`], and `length` bytes at a payload that is not null.
unsafe fn broadcast(
    group: &Group,
    source: u32,
    bytes: Bytes,
    list: ListPlace,
) -> Result<Operation, Failure> {
    let is_source = group.membership.rank() == source;
    // SAFETY: as the caller promises.
    let payload = if is_source { unsafe { bytes.copied() }? } else { Vec::new() };
    let members = group.members_of_operations();
    let running = Box::pin(async move {
        Ok(Outcome::Payloads(vec![(source, members.broadcast(source, &payload).await?)]))
    });
    // SAFETY: as the caller promises.
    unsafe { listed(list, running) }
}

/// Prepares an all-gather, or a gather if there is a root.
///
/// # Safety
///
/// As [`broadcast`].
unsafe fn gather(
    group: &Group,
    root: Option<u32>,
    bytes: Bytes,
    list: ListPlace,
) -> Result<Operation, Failure> {
    // SAFETY: as the caller promises.
    let payload = unsafe { bytes.copied() }?;
    let members = group.members_of_operations();
    let running = Box::pin(async move {
        let found = match root {
            Some(root) => members.gather(root, &payload).await?,
            None => Some(members.all_gather(&payload).await?),
        };
        Ok(found.map_or(Outcome::Nothing, Outcome::Payloads))
    });
    // SAFETY: as the caller promises.
    unsafe { listed(list, running) }
}

/// # Safety
///
/// As [`listed`], and `count` payloads at parts that are not null, each with its bytes.
unsafe fn scatter(
    group: &Group,
    source: u32,
    parts: Parts,
    list: ListPlace,
) -> Result<Operation, Failure> {
    let rank = group.membership.rank();
    let Parts { parts, count } = parts;
    let count = if rank == source { count } else { 0 };
    // SAFETY: as the caller promises; all patterns of bits are ranks, lengths and pointers.
    let parts = unsafe { arguments::copied(parts, count, "parts") }?;
    let copy = |part: Payload| {
        // SAFETY: as the caller promises.
        let bytes = unsafe { arguments::copied(part.payload.cast::<u8>(), part.length, "a part") }?;
        Ok((part.rank, bytes))
    };
    let parts = parts.into_iter().map(copy).collect::<Result<Payloads, Failure>>()?;
    let members = group.members_of_operations();
    let running = Box::pin(async move {
        let mine = members.scatter(source, &parts).await?;
        Ok(Outcome::Payloads(mine.map(|payload| (rank, payload)).into_iter().collect()))
    });
    // SAFETY: as the caller promises.
    unsafe { listed(list, running) }
}

/// Defines functions that run an operation, and those that start the same one.
macro_rules! calls {
    ($($run:ident, $start:ident($($argument:ident: $kind:ty),*)
        = |$group:ident, $list:ident| $operation:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $run(
            group: *const Group,
            $($argument: $kind,)*
            $list: ListPlace,
        ) -> Code {
            // SAFETY: the caller promises a valid handle, room for one, and their bytes.
            unsafe { run(group, |$group| $operation) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $start(
            group: *const Group,
            $($argument: $kind,)*
            $list: ListPlace,
            request: *mut *mut Request,
        ) -> Code {
            // SAFETY: as above, until the request has ended or is freed.
            unsafe { start(group, request, |$group| $operation) }
        }
    )*};
}

calls! {
    fabricast_barrier_list, fabricast_start_barrier_list()
        = |group, list| barrier(group, list);
    fabricast_broadcast_list, fabricast_start_broadcast_list(
        source: u32, payload: *const c_void, length: usize
    ) = |group, list| broadcast(group, source, Bytes { payload, length }, list);
    fabricast_gather, fabricast_start_gather(root: u32, payload: *const c_void, length: usize)
        = |group, list| gather(group, Some(root), Bytes { payload, length }, list);
    fabricast_all_gather_list, fabricast_start_all_gather_list(
        payload: *const c_void, length: usize
    ) = |group, list| gather(group, None, Bytes { payload, length }, list);
    fabricast_scatter, fabricast_start_scatter(source: u32, parts: *const Payload, count: usize)
        = |group, list| scatter(group, source, Parts { parts, count }, list);
}
