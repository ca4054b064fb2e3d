//! Handle of a membership: `fabricast_group`.

use std::ffi::{CString, c_char, c_int};
use std::ptr::null;
use std::sync::Arc;

use fabricast_client::GroupPath;
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::arguments::{self, c_text};
use crate::callback::Listener;
use crate::failure::{Code, Failure, guard, guard_value};
use crate::runtime::within;
use crate::turns::{Queue, Turns};

/// A membership of the process. It ends with the process or when it leaves, not with the handle.
pub(crate) struct Group {
    pub(crate) listeners: Listeners,
    pub(crate) membership: fabricast_client::Group,
    name: CString,
    /// The membership with the policy for failed members.
    acting: Mutex<fabricast_client::Group>,
    operations: Turns,
    messages: Turns,
    /// Permits of requests that may still be started.
    pub(crate) unfinished: Arc<Semaphore>,
    pub(crate) runtime: Arc<Runtime>,
}

/// Threads that call the program's functions.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) messages: Mutex<Option<Listener>>,
    pub(crate) members: Mutex<Option<Listener>>,
}

impl Group {
    /// Most requests that have not ended, those of freed handles included: each holds its payload.
    pub(crate) const MOST_UNFINISHED: usize = 1024;

    pub(crate) fn new(membership: fabricast_client::Group, runtime: Arc<Runtime>) -> Self {
        Self {
            listeners: Listeners::default(),
            name: c_text(membership.name()),
            acting: Mutex::new(membership.clone()),
            membership,
            operations: Turns::default(),
            messages: Turns::default(),
            unfinished: Arc::new(Semaphore::new(Self::MOST_UNFINISHED)),
            runtime,
        }
    }

    /// Returns the membership as collective operations use it, with the policy for failed members.
    pub(crate) fn members_of_operations(&self) -> fabricast_client::Group {
        self.acting.lock().clone()
    }

    pub(crate) fn turns(&self, queue: Queue) -> &Turns {
        match queue {
            Queue::Collective => &self.operations,
            Queue::Messages => &self.messages,
        }
    }

    /// Waits until a number of members take part, and the process with them.
    fn wait_for(&self, count: usize, timeout_ms: c_int) -> Result<Vec<u32>, Failure> {
        // Apart, because a timeout would undo it.
        self.runtime.block_on(self.membership.take_part())?;
        let wait = async { Ok(self.membership.wait_for(count).await?) };
        within(&self.runtime, timeout_ms, "not so many members took part", wait)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_group_free(group: *mut Group) {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        if let Some(group) = unsafe { group.as_ref() } {
            // Before it is freed: functions of the program may use it until they have ended.
            Listener::replace(&group.listeners.messages, None);
            Listener::replace(&group.listeners.members, None);
        }
        // SAFETY: the caller promises that nobody but those functions uses it any more.
        drop(unsafe { arguments::taken(group) });
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_group_name(group: *const Group) -> *const c_char {
    // SAFETY: the caller promises a valid handle or null.
    let group = unsafe { group.as_ref() };
    guard_value(null(), || group.map_or(null(), |group| group.name.as_ptr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_group_rank(group: *const Group) -> u32 {
    // SAFETY: the caller promises a valid handle or null.
    let group = unsafe { group.as_ref() };
    guard_value(u32::MAX, || group.map_or(u32::MAX, |group| group.membership.rank()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_take_part(group: *const Group) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        Ok(group.runtime.block_on(group.membership.take_part())?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_wait_for(
    group: *const Group,
    count: usize,
    timeout_ms: c_int,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        group.wait_for(count, timeout_ms).map(drop)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_participants(
    group: *const Group,
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        let found = group.runtime.block_on(group.membership.participants())?;
        // SAFETY: the caller promises room for `capacity` ranks and a number.
        unsafe { arguments::write_ranks(&found, ranks, capacity, count) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_set_failure_policy(group: *const Group, policy: c_int) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        let members = &group.membership;
        let acting = match policy {
            0 => members.clone(),
            1 => members.among_survivors(),
            2 => members.among_all(&group.runtime.block_on(members.participants())?),
            _ => return Err(Failure::argument(format!("policy {policy} is no failure policy"))),
        };
        *group.acting.lock() = acting;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_ask_for_switch_tree(
    group: *const Group,
    max_bytes: *mut u32,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        let tree = group.runtime.block_on(group.membership.request_switch_tree())?;
        // SAFETY: the caller promises room for a number, or null.
        unsafe { arguments::write_optional(max_bytes, tree.max_bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_combined_by_switches(group: *const Group) -> u64 {
    // SAFETY: the caller promises a valid handle or null.
    let group = unsafe { group.as_ref() };
    guard_value(0, || group.map_or(0, |group| group.membership.combined_by_switches()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_path(group: *const Group) -> *const c_char {
    // SAFETY: the caller promises a valid handle or null.
    let group = unsafe { group.as_ref() };
    let path = |group: &Group| match group.membership.path() {
        GroupPath::Agent => c"agent",
        GroupPath::Direct => c"direct",
        GroupPath::DirectMulticast => c"direct with multicast",
    };
    guard_value(null(), || group.map_or(null(), |group| path(group).as_ptr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_leave(group: *const Group) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        Ok(group.runtime.block_on(group.membership.clone().leave())?)
    })
}
