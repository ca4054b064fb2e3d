//! Handle of an attached process: `fabricast_client`.

use std::env;
use std::ffi::{CString, OsString, c_char, c_int};
use std::ptr::null;
use std::sync::Arc;

use fabricast_client::{Error, Settings};
use tokio::runtime::Runtime;

use crate::arguments::{self, Place, c_text};
use crate::failure::{Code, Failure, guard, guard_value};
use crate::group::Group;
use crate::runtime::{self, within};

/// An attached process.
pub(crate) struct Client {
    client: fabricast_client::Client,
    process: CString,
    node: CString,
    runtime: Arc<Runtime>, // dropped last: the client's tasks run in it
}

/// Name and node of a process that will attach later.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessOnNode {
    process: *const c_char,
    node: *const c_char,
}

impl Client {
    fn attach(settings: Settings) -> Result<Self, Failure> {
        let runtime = runtime::start().map_err(Error::Runtime)?;
        let client = runtime.block_on(fabricast_client::Client::attach(settings))?;
        let (process, node) = (c_text(client.process()), c_text(client.node()));
        Ok(Self { client, process, node, runtime: Arc::new(runtime) })
    }
}

/// Settings from arguments, of which those that are absent come from the environment.
fn settings(
    socket: Option<&str>,
    process: Option<&str>,
    node: Option<&str>,
) -> Result<Settings, Failure> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let or_variable = |given: Option<&str>, name| match given {
        Some(text) => Ok(Some(text.to_owned())),
        None => variable(name)
            .map(OsString::into_string)
            .transpose()
            .map_err(|_| Failure::argument(format!("the variable {name} is not UTF-8"))),
    };
    let socket = socket.map(OsString::from).or_else(|| variable(Settings::SOCKET));
    let mut settings = Settings::at(socket.ok_or(Error::NoSocket)?);
    if let Some(process) = or_variable(process, Settings::PROCESS)? {
        settings = settings.process(process);
    }
    if let Some(node) = or_variable(node, Settings::NODE)? {
        settings = settings.node(node);
    }
    if let Some(path) = or_variable(None, Settings::PATH)? {
        settings = settings.path(path.parse()?);
    }
    Ok(settings)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_attach(
    socket: *const c_char,
    process: *const c_char,
    node: *const c_char,
    client: *mut *mut Client,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises text or null, and room for a handle.
        let (place, socket, process, node) = unsafe {
            (
                Place::new(client, "client")?,
                arguments::optional_text(socket, "socket")?,
                arguments::optional_text(process, "process")?,
                arguments::optional_text(node, "node")?,
            )
        };
        place.put(Client::attach(settings(socket, process, node)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_client_free(client: *mut Client) {
    guard(|| {
        // SAFETY: the caller promises a handle that nobody uses any more, or null.
        drop(unsafe { arguments::taken(client) });
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_client_process(client: *const Client) -> *const c_char {
    // SAFETY: the caller promises a valid handle or null.
    let client = unsafe { client.as_ref() };
    guard_value(null(), || client.map_or(null(), |client| client.process.as_ptr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_client_node(client: *const Client) -> *const c_char {
    // SAFETY: the caller promises a valid handle or null.
    let client = unsafe { client.as_ref() };
    guard_value(null(), || client.map_or(null(), |client| client.node.as_ptr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_wait_detached(client: *const Client, timeout_ms: c_int) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle or null.
        let client = unsafe { arguments::reference(client, "client") }?;
        let detached = async { Err::<(), _>(Failure::from(client.client.detached().await)) };
        within(&client.runtime, timeout_ms, "the process stayed attached", detached)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_join(
    client: *const Client,
    name: *const c_char,
    group: *mut *mut Group,
) -> Code {
    guard(|| {
        // SAFETY: the caller promises a valid handle, text, and room for a handle.
        let (place, client, name) = unsafe {
            (
                Place::new(group, "group")?,
                arguments::reference(client, "client")?,
                arguments::text(name, "name")?,
            )
        };
        let joined = client.runtime.block_on(client.client.join(name))?;
        place.put(Group::new(joined, Arc::clone(&client.runtime)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_form(
    client: *const Client,
    name: *const c_char,
    processes: *const ProcessOnNode,
    count: usize,
    ranks: *mut u32,
) -> Code {
    let forming = Forming { client, name, processes, count, ranks };
    // SAFETY: the caller promises what is said there.
    guard(|| unsafe { forming.form(None) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_form_for(
    client: *const Client,
    user: u32,
    name: *const c_char,
    processes: *const ProcessOnNode,
    count: usize,
    ranks: *mut u32,
) -> Code {
    let forming = Forming { client, name, processes, count, ranks };
    // SAFETY: the caller promises what is said there.
    guard(|| unsafe { forming.form(Some(user)) })
}

/// Arguments of a launcher that forms a group.
struct Forming {
    client: *const Client,
    name: *const c_char,
    processes: *const ProcessOnNode,
    count: usize,
    ranks: *mut u32,
}

impl Forming {
    /// Forms the group.
    ///
    /// - `user`: the user that the processes will run as; `None` for that of this process.
    ///
    /// # Safety
    ///
    /// The client is a valid handle and the name is text, or they are null; there are `count`
    /// processes with text in them, and room for as many ranks unless these are null.
    unsafe fn form(&self, user: Option<u32>) -> Result<(), Failure> {
        // SAFETY: the caller promises a valid handle, text, and `count` structs of two pointers,
        // all of whose patterns of bits are some pointers.
        let (client, name, processes) = unsafe {
            (
                arguments::reference(self.client, "client")?,
                arguments::text(self.name, "name")?,
                arguments::copied(self.processes, self.count, "processes")?,
            )
        };
        let mut named = Vec::new();
        for ProcessOnNode { process, node } in processes {
            // SAFETY: the caller promises that both are text.
            let (process, node) =
                unsafe { (arguments::text(process, "process")?, arguments::text(node, "node")?) };
            named.push((process.to_owned(), node.to_owned()));
        }
        let reserved = client.runtime.block_on(async {
            match user {
                Some(user) => client.client.reserve_for(user, name, &named).await,
                None => client.client.reserve(name, &named).await,
            }
        })?;
        for (at, (process, node)) in named.iter().enumerate() {
            let mut memberships = reserved.iter();
            let held = memberships.find(|held| held.process == *process && held.node == *node);
            let Some(held) = held else {
                let text = format!("the agent did not say which rank {process} on {node} has");
                return Err(Failure::new(Code::Refused, text));
            };
            if !self.ranks.is_null() {
                // SAFETY: the caller promises room for `count` ranks, and `at` is below.
                unsafe { arguments::write_optional(self.ranks.wrapping_add(at), held.rank) };
            }
        }
        Ok(())
    }
}
