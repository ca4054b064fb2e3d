//! Messages of a group, one by one: `fabricast_message`.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::arguments::{self, Place};
use crate::callback::{Events, Listener};
use crate::failure::{Code, Failure, guard};
use crate::group::Group;
use crate::operation::{self, Operation};
use crate::outcome::{Destination, Outcome};
use crate::payload_list::PayloadList;
use crate::request::Request;
use crate::runtime::within;
use crate::turns::Queue;

/// A message, as C reads it. The payload is behind it.
#[repr(C)]
pub(crate) struct Message {
    sender: u32,
    length: usize,
    payload: *const c_void,
    owned: Vec<u8>,
}

/// The program's function for messages.
type OnMessage = unsafe extern "C" fn(*const Message, Code, *mut c_void);

impl From<fabricast_client::Message> for Message {
    fn from(message: fabricast_client::Message) -> Self {
        let fabricast_client::Message { sender, payload } = message;
        Self { sender, length: payload.len(), payload: payload.as_ptr().cast(), owned: payload }
    }
}

/// Messages of a group, for a function of the program.
struct Messages {
    group: fabricast_client::Group,
    function: OnMessage,
    context: *mut c_void,
}

// SAFETY: the program promises that its function may be called with its context on another thread.
unsafe impl Send for Messages {}

impl Events for Messages {
    type Event = Message;

    async fn next(&mut self) -> Result<Message, Failure> {
        Ok(self.group.receive().await?.into())
    }

    fn call(&self, event: Result<&Message, Code>) {
        let (message, code) = match event {
            Ok(message) => (ptr::from_ref(message), Code::Ok),
            Err(code) => (ptr::null(), code),
        };
        // SAFETY: the program promises a function of this type, and the message lives until it
        // returns.
        unsafe { (self.function)(message, code, self.context) }
    }
}

/// # Safety
///
/// Pointers that are not null point to `length` bytes and to room for a number.
unsafe fn multicast(
    group: &Group,
    payload: *const c_void,
    length: usize,
    uncertain: *mut usize,
) -> Result<Operation, Failure> {
    // SAFETY: as the caller promises.
    let payload = unsafe { arguments::copied(payload.cast::<u8>(), length, "payload") }?;
    let members = group.membership.clone();
    let running = async move { Ok(Outcome::Count(members.multicast(&payload).await?.len())) };
    let destination = Destination::Count(uncertain);
    Ok(Operation { queue: Queue::Messages, running: Box::pin(running), destination })
}

/// # Safety
///
/// Pointers that are not null point to `length` bytes and to room for a handle.
unsafe fn multicast_list(
    group: &Group,
    payload: *const c_void,
    length: usize,
    uncertain: *mut *mut PayloadList,
) -> Result<Operation, Failure> {
    // SAFETY: as the caller promises.
    let (payload, place) = unsafe {
        let payload = arguments::copied(payload.cast::<u8>(), length, "payload")?;
        (payload, Place::new(uncertain, "uncertain")?)
    };
    let members = group.membership.clone();
    let running = async move {
        let ranks = members.multicast(&payload).await?.into_iter();
        Ok(Outcome::Payloads(ranks.map(|rank| (rank, Vec::new())).collect()))
    };
    let destination = Destination::List(place);
    Ok(Operation { queue: Queue::Messages, running: Box::pin(running), destination })
}

/// # Safety
///
/// A pointer that is not null points to `length` bytes.
unsafe fn multicast_best_effort(
    group: &Group,
    payload: *const c_void,
    length: usize,
) -> Result<Operation, Failure> {
    // SAFETY: as the caller promises.
    let payload = unsafe { arguments::copied(payload.cast::<u8>(), length, "payload") }?;
    let members = group.membership.clone();
    let running = async move {
        members.multicast_best_effort(&payload).await?;
        Ok(Outcome::Nothing)
    };
    let destination = Destination::Nowhere;
    Ok(Operation { queue: Queue::Messages, running: Box::pin(running), destination })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_multicast(
    group: *const Group,
    payload: *const c_void,
    length: usize,
    uncertain: *mut usize,
) -> Code {
    // SAFETY: the caller promises a valid handle, `length` bytes, and room for a number.
    unsafe { operation::run(group, |group| multicast(group, payload, length, uncertain)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_multicast(
    group: *const Group,
    payload: *const c_void,
    length: usize,
    uncertain: *mut usize,
    request: *mut *mut Request,
) -> Code {
    // SAFETY: as above, until the request has ended or is freed.
    unsafe {
        operation::start(group, request, |group| multicast(group, payload, length, uncertain))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_multicast_list(
    group: *const Group,
    payload: *const c_void,
    length: usize,
    uncertain: *mut *mut PayloadList,
) -> Code {
    // SAFETY: the caller promises a valid handle, `length` bytes, and room for a handle.
    unsafe { operation::run(group, |group| multicast_list(group, payload, length, uncertain)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_start_multicast_list(
    group: *const Group,
    payload: *const c_void,
    length: usize,
    uncertain: *mut *mut PayloadList,
    request: *mut *mut Request,
) -> Code {
    // SAFETY: as above, until the request has ended or is freed.
    unsafe {
        operation::start(group, request, |group| multicast_list(group, payload, length, uncertain))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_multicast_best_effort(
    group: *const Group,
    payload: *const c_void,
    length: usize,
) -> Code {
    // SAFETY: the caller promises a valid handle, and `length` bytes.
    unsafe { operation::run(group, |group| multicast_best_effort(group, payload, length)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_receive(
    group: *const Group,
    timeout_ms: c_int,
    message: *mut *mut Message,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle, and room for a pointer.
        let (place, group) =
            unsafe { (Place::new(message, "message")?, arguments::reference(group, "group")?) };
        // Apart, because a timeout would undo it.
        group.runtime.block_on(group.membership.take_part())?;
        let receive = async { Ok(group.membership.receive().await?) };
        let received = within(&group.runtime, timeout_ms, "no message came", receive)?;
        place.put(received.into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_message_free(message: *mut Message) {
    guard(|| {
        // SAFETY: the caller promises a message that nobody reads any more, or null.
        drop(unsafe { arguments::taken(message) });
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_on_message(
    group: *const Group,
    function: Option<OnMessage>,
    context: *mut c_void,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        let place = &group.listeners.messages;
        // First, so that no two functions get messages at once.
        Listener::replace(place, None);
        if let Some(function) = function {
            group.runtime.block_on(group.membership.take_part())?;
            let messages = Messages { group: group.membership.clone(), function, context };
            let listener = Listener::start(group.runtime.clone(), messages)?;
            Listener::replace(place, Some(listener));
        }
        Ok(())
    })
}
