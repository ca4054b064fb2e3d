//! Members of a group and their changes: `fabricast_member_list` and `fabricast_watch`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::arguments::{self, Place, c_text};
use crate::callback::{Events, Listener};
use crate::failure::{Code, Failure, guard};
use crate::group::Group;
use crate::runtime::within;

/// A member, as C reads it.
#[repr(C)]
pub(crate) struct Member {
    rank: u32,
    node: *const c_char,
    process: *const c_char,
}

/// Members by rank, as C reads them. The texts that they point to are behind them.
#[repr(C)]
pub(crate) struct MemberList {
    count: usize,
    members: *const Member,
    owned: Vec<Member>,
    _names: Vec<CString>,
}

/// The changes of the members of a group.
pub(crate) struct Watch {
    state: Mutex<WatchState>,
    runtime: Arc<Runtime>,
}

struct WatchState {
    watch: fabricast_client::MemberWatch,
    /// The failure after which there are no more changes.
    end: Option<Failure>,
}

/// The program's function for changes.
type OnMembers = unsafe extern "C" fn(*const MemberList, Code, *mut c_void);

impl From<Vec<fabricast_client::Member>> for MemberList {
    fn from(found: Vec<fabricast_client::Member>) -> Self {
        let (mut owned, mut names) = (Vec::new(), Vec::new());
        for fabricast_client::Member { rank, node, process } in found {
            let (node, process) = (c_text(&node), c_text(&process));
            // The text of a `CString` stays where it is when the `CString` moves.
            owned.push(Member { rank, node: node.as_ptr(), process: process.as_ptr() });
            names.extend([node, process]);
        }
        Self { count: owned.len(), members: owned.as_ptr(), owned, _names: names }
    }
}

impl WatchState {
    async fn next(&mut self) -> Result<MemberList, Failure> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        match self.watch.next().await {
            Ok(members) => Ok(members.into()),
            Err(error) => Err(self.end.insert(error.into()).clone()),
        }
    }
}

/// Changes of the members of a group, for a function of the program.
struct Changes {
    watch: fabricast_client::MemberWatch,
    function: OnMembers,
    context: *mut c_void,
}

// SAFETY: the program promises that its function may be called with its context on another thread.
unsafe impl Send for Changes {}

impl Events for Changes {
    type Event = MemberList;

    async fn next(&mut self) -> Result<MemberList, Failure> {
        Ok(self.watch.next().await?.into())
    }

    fn call(&self, event: Result<&MemberList, Code>) {
        let (members, code) = match event {
            Ok(members) => (ptr::from_ref(members), Code::Ok),
            Err(code) => (ptr::null(), code),
        };
        // SAFETY: the program promises a function of this type, and the list lives until it
        // returns.
        unsafe { (self.function)(members, code, self.context) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_members(group: *const Group, members: *mut *mut MemberList) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle, and room for a pointer.
        let (place, group) =
            unsafe { (Place::new(members, "members")?, arguments::reference(group, "group")?) };
        place.put(group.runtime.block_on(group.membership.members())?.into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_member_list_free(members: *mut MemberList) {
    guard(|| {
        // SAFETY: the caller promises a list that nobody reads any more, or null.
        drop(unsafe { arguments::taken(members) });
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_watch_members(group: *const Group, watch: *mut *mut Watch) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle, and room for a pointer.
        let (place, group) =
            unsafe { (Place::new(watch, "watch")?, arguments::reference(group, "group")?) };
        let watch = group.runtime.block_on(group.membership.watch_members())?;
        let state = Mutex::new(WatchState { watch, end: None });
        place.put(Watch { state, runtime: Arc::clone(&group.runtime) });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_watch_next(
    watch: *const Watch,
    timeout_ms: c_int,
    members: *mut *mut MemberList,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle, and room for a pointer.
        let (place, watch) =
            unsafe { (Place::new(members, "members")?, arguments::reference(watch, "watch")?) };
        let next = async { watch.state.lock().await.next().await };
        place.put(within(&watch.runtime, timeout_ms, "the members did not change", next)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_watch_free(watch: *mut Watch) {
    guard(|| {
        // SAFETY: the caller promises a handle that nobody uses any more, or null.
        drop(unsafe { arguments::taken(watch) });
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_on_members(
    group: *const Group,
    function: Option<OnMembers>,
    context: *mut c_void,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let group = unsafe { arguments::reference(group, "group") }?;
        let place = &group.listeners.members;
        Listener::replace(place, None);
        if let Some(function) = function {
            let watch = group.runtime.block_on(group.membership.watch_members())?;
            let changes = Changes { watch, function, context };
            Listener::replace(place, Some(Listener::start(group.runtime.clone(), changes)?));
        }
        Ok(())
    })
}
