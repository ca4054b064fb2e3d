//! Collective operations. Each has a function that waits for its end and one that starts it; both
//! make the same [`Operation`].

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::arguments::{self, Place};
use crate::failure::{Code, Failure, guard};
use crate::group::Group;
use crate::numbers::{Combining, RawNumbers};
use crate::outcome::{Destination, Outcome, Running};
use crate::request::Request;
use crate::turns::Queue;

/// An operation that was not begun.
pub(crate) struct Operation {
    pub(crate) queue: Queue,
    pub(crate) running: Running,
    pub(crate) destination: Destination,
}

impl Operation {
    /// Runs it to its end.
    ///
    /// # Safety
    ///
    /// As [`Destination::write`].
    unsafe fn run(self, group: &Group) -> Result<(), Failure> {
        let Self { queue, running, destination } = self;
        let mut turn = group.turns(queue).next();
        let outcome = group.runtime.block_on(async {
            turn.wait().await;
            running.await
        })?;
        // SAFETY: as the caller promises.
        unsafe { destination.write(outcome) }
    }

    fn start(self, group: &Group, place: Place<Request>) -> Result<(), Failure> {
        let Self { queue, running, destination } = self;
        let permit = Arc::clone(&group.unfinished).try_acquire_owned().map_err(|_| {
            let text = format!("{} requests have not ended", Group::MOST_UNFINISHED);
            Failure::new(Code::Busy, text)
        })?;
        let mut turn = group.turns(queue).next();
        let task = group.runtime.spawn(async move {
            turn.wait().await;
            let ended = running.await;
            drop((turn, permit));
            ended
        });
        place.put(Request::new(Arc::clone(&group.runtime), task, destination));
        Ok(())
    }
}

/// Makes an operation and runs it to its end.
///
/// # Safety
///
/// A pointer that is not null is a valid handle, and [`Destination::write`].
pub(crate) unsafe fn run(
    group: *const Group,
    make: impl FnOnce(&Group) -> Result<Operation, Failure>,
) -> Code {
    guard(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let group = arguments::reference(group, "group")?;
            make(group)?.run(group)
        }
    })
}

/// Makes an operation and starts it.
///
/// # Safety
///
/// A group that is not null is a valid handle, and there is room for a handle at `request`.
pub(crate) unsafe fn start(
    group: *const Group,
    request: *mut *mut Request,
    make: impl FnOnce(&Group) -> Result<Operation, Failure>,
) -> Code {
    guard(|| {
        // SAFETY: as the caller promises.
        let (place, group) =
            unsafe { (Place::new(request, "request")?, arguments::reference(group, "group")?) };
        make(group)?.start(group, place)
    })
}

fn barrier(group: &Group) -> Operation {
    let members = group.members_of_operations();
    let running = async move {
        members.barrier().await?;
        Ok(Outcome::Nothing)
    };
    Operation {
        queue: Queue::Collective,
        running: Box::pin(running),
        destination: Destination::Nowhere,
    }
}

/// # Safety
///
/// A buffer that is not null has `length` bytes.
unsafe fn broadcast(
    group: &Group,
    source: u32,
    buffer: *mut c_void,
    length: usize,
) -> Result<Operation, Failure> {
    let is_source = group.membership.rank() == source;
    // SAFETY: as the caller promises.
    let payload = unsafe {
        arguments::copied(buffer.cast::<u8>(), if is_source { length } else { 0 }, "buffer")
    }?;
    if buffer.is_null() && length > 0 {
        return Err(Failure::argument("buffer is NULL"));
    }
    let destination = match is_source {
        true => Destination::Nowhere,
        false => Destination::Bytes { to: buffer, length },
    };
    let members = group.members_of_operations();
    let running = async move { Ok(Outcome::Bytes(members.broadcast(source, &payload).await?)) };
    Ok(Operation { queue: Queue::Collective, running: Box::pin(running), destination })
}

/// # Safety
///
/// Pointers that are not null point to `count` numbers and to room for as many.
unsafe fn combine(
    group: &Group,
    operation: Combining,
    raw: RawNumbers,
    result: *mut c_void,
) -> Result<Operation, Failure> {
    let wants = !matches!(operation, Combining::Reduce { root } if root != group.membership.rank());
    if wants && result.is_null() && raw.count > 0 {
        return Err(Failure::argument("the place for the result is NULL"));
    }
    // SAFETY: as the caller promises.
    let (running, length) = unsafe { operation.prepare(group.members_of_operations(), raw) }?;
    Ok(Operation {
        queue: Queue::Collective,
        running,
        destination: Destination::Bytes { to: result, length },
    })
}

/// Room for the payloads of all members, as C gives it.
struct Gathered {
    to: *mut c_void,
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
}

/// # Safety
///
/// Pointers that are not null point to `length` bytes, and to what the names of `into` say.
unsafe fn all_gather(
    group: &Group,
    payload: *const c_void,
    length: usize,
    into: Gathered,
) -> Result<Operation, Failure> {
    let Gathered { to, ranks, capacity, count } = into;
    // SAFETY: as the caller promises.
    let payload = unsafe { arguments::copied(payload.cast::<u8>(), length, "payload") }?;
    if to.is_null() && length > 0 && capacity > 0 {
        return Err(Failure::argument("the place for the payloads is NULL"));
    }
    if length.checked_mul(capacity).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        let text = format!("{capacity} payloads of {length} bytes are more than memory");
        return Err(Failure::argument(text));
    }
    let members = group.members_of_operations();
    let running = async move { Ok(Outcome::Payloads(members.all_gather(&payload).await?)) };
    let destination = Destination::Payloads { to, length, ranks, capacity, count };
    Ok(Operation { queue: Queue::Collective, running: Box::pin(running), destination })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_barrier(group: *const Group) -> Code {
    // SAFETY: the caller promises a valid handle or null.
    unsafe { run(group, |group| Ok(barrier(group))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_barrier(
    group: *const Group,
    request: *mut *mut Request,
) -> Code {
    // SAFETY: the caller promises a valid handle, and room for one.
    unsafe { start(group, request, |group| Ok(barrier(group))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_broadcast(
    group: *const Group,
    source: u32,
    buffer: *mut c_void,
    length: usize,
) -> Code {
    // SAFETY: the caller promises a valid handle, and `length` bytes.
    unsafe { run(group, |group| broadcast(group, source, buffer, length)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_broadcast(
    group: *const Group,
    source: u32,
    buffer: *mut c_void,
    length: usize,
    request: *mut *mut Request,
) -> Code {
    // SAFETY: as above, until the request has ended or is freed.
    unsafe { start(group, request, |group| broadcast(group, source, buffer, length)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_reduce(
    group: *const Group,
    root: u32,
    reduction: c_int,
    kind: c_int,
    numbers: *const c_void,
    result: *mut c_void,
    count: usize,
) -> Code {
    let (raw, reduce) =
        (RawNumbers { reduction, kind, numbers, count }, Combining::Reduce { root });
    // SAFETY: the caller promises a valid handle, `count` numbers, and room for as many.
    unsafe { run(group, |group| combine(group, reduce, raw, result)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_reduce(
    group: *const Group,
    root: u32,
    reduction: c_int,
    kind: c_int,
    numbers: *const c_void,
    result: *mut c_void,
    count: usize,
    request: *mut *mut Request,
) -> Code {
    let (raw, reduce) =
        (RawNumbers { reduction, kind, numbers, count }, Combining::Reduce { root });
    // SAFETY: as above, until the request has ended or is freed.
    unsafe { start(group, request, |group| combine(group, reduce, raw, result)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_all_reduce(
    group: *const Group,
    reduction: c_int,
    kind: c_int,
    numbers: *const c_void,
    result: *mut c_void,
    count: usize,
) -> Code {
    let raw = RawNumbers { reduction, kind, numbers, count };
    // SAFETY: the caller promises a valid handle, `count` numbers, and room for as many.
    unsafe { run(group, |group| combine(group, Combining::AllReduce, raw, result)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_all_reduce(
    group: *const Group,
    reduction: c_int,
    kind: c_int,
    numbers: *const c_void,
    result: *mut c_void,
    count: usize,
    request: *mut *mut Request,
) -> Code {
    let raw = RawNumbers { reduction, kind, numbers, count };
    // SAFETY: as above, until the request has ended or is freed.
    unsafe { start(group, request, |group| combine(group, Combining::AllReduce, raw, result)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_scan(
    group: *const Group,
    reduction: c_int,
    kind: c_int,
    numbers: *const c_void,
    result: *mut c_void,
    count: usize,
) -> Code {
    let raw = RawNumbers { reduction, kind, numbers, count };
    // SAFETY: the caller promises a valid handle, `count` numbers, and room for as many.
    unsafe { run(group, |group| combine(group, Combining::Scan, raw, result)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_scan(
    group: *const Group,
    reduction: c_int,
    kind: c_int,
    numbers: *const c_void,
    result: *mut c_void,
    count: usize,
    request: *mut *mut Request,
) -> Code {
    let raw = RawNumbers { reduction, kind, numbers, count };
    // SAFETY: as above, until the request has ended or is freed.
    unsafe { start(group, request, |group| combine(group, Combining::Scan, raw, result)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_all_gather(
    group: *const Group,
    payload: *const c_void,
    length: usize,
    to: *mut c_void,
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Code {
    let into = Gathered { to, ranks, capacity, count };
    // SAFETY: the caller promises a valid handle, `length` bytes, and room for `capacity` payloads.
    unsafe { run(group, |group| all_gather(group, payload, length, into)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_all_gather(
    group: *const Group,
    payload: *const c_void,
    length: usize,
    to: *mut c_void,
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
    request: *mut *mut Request,
) -> Code {
    let into = Gathered { to, ranks, capacity, count };
    // SAFETY: as above, until the request has ended or is freed.
    unsafe { start(group, request, |group| all_gather(group, payload, length, into)) }
}
