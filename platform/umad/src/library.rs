//! The functions of libibumad, resolved when the library is loaded.
#![expect(unsafe_code, reason = "calls into C; each block says why it is sound")]

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr;

use libloading::Library;

/// The library's name; 3 is its binary interface.
const LIBRARY: &str = "libibumad.so.3";

/// The loaded library, with the functions that are used.
#[derive(Debug)]
pub(crate) struct Umad {
    init: unsafe extern "C" fn() -> c_int,
    open_port: unsafe extern "C" fn(*const c_char, c_int) -> c_int,
    close_port: unsafe extern "C" fn(c_int) -> c_int,
    register: unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int,
    unregister: unsafe extern "C" fn(c_int, c_int) -> c_int,
    size: unsafe extern "C" fn() -> usize,
    set_addr: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, c_int) -> c_int,
    send: unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int,
    recv: unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int,
    status: unsafe extern "C" fn(*mut c_void) -> c_int,
    _library: Library, // last: the functions live in it
}

/// Destination in the header of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) lid: c_int,
    pub(crate) queue_pair: c_int,
    pub(crate) queue_key: u32,
}

impl Address {
    /// Queue pair 0 of a node, which subnet management listens on.
    pub(crate) fn subnet(lid: c_int) -> Self {
        Self { lid, queue_pair: 0, queue_key: 0 }
    }
}

/// Time limit of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Milliseconds until it is sent again.
    pub(crate) milliseconds: c_int,
    pub(crate) retries: c_int,
}

impl Umad {
    pub(crate) fn load() -> Result<Self, libloading::Error> {
        // SAFETY: libibumad has no initialiser with side effects, and the signatures below are
        // those of its header, infiniband/umad.h; the pointers are used only while `_library`
        // lives.
        unsafe {
            let library = Library::new(LIBRARY)?;
            Ok(Self {
                init: *library.get(b"umad_init\0")?,
                open_port: *library.get(b"umad_open_port\0")?,
                close_port: *library.get(b"umad_close_port\0")?,
                register: *library.get(b"umad_register\0")?,
                unregister: *library.get(b"umad_unregister\0")?,
                size: *library.get(b"umad_size\0")?,
                set_addr: *library.get(b"umad_set_addr\0")?,
                send: *library.get(b"umad_send\0")?,
                recv: *library.get(b"umad_recv\0")?,
                status: *library.get(b"umad_status\0")?,
                _library: library,
            })
        }
    }

    pub(crate) fn init(&self) -> c_int {
        // SAFETY: takes nothing and may be called again.
        unsafe { (self.init)() }
    }

    pub(crate) fn open_port(&self, adapter: Option<&CStr>, port: c_int) -> c_int {
        let name = adapter.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: the name is null or a string that ends with zero, and is not kept.
        unsafe { (self.open_port)(name, port) }
    }

    pub(crate) fn close_port(&self, port: c_int) {
        // SAFETY: a plain number; an unknown one is refused.
        unsafe { (self.close_port)(port) };
    }

    pub(crate) fn register(&self, port: c_int, class: c_int, version: c_int) -> c_int {
        // SAFETY: a null mask means that no unasked packets are wanted.
        unsafe { (self.register)(port, class, version, 0, ptr::null_mut()) }
    }

    pub(crate) fn unregister(&self, port: c_int, agent: c_int) {
        // SAFETY: plain numbers; unknown ones are refused.
        unsafe { (self.unregister)(port, agent) };
    }

    /// Bytes of a buffer in front of the packet.
    pub(crate) fn header_bytes(&self) -> usize {
        // SAFETY: takes nothing.
        unsafe { (self.size)() }
    }

    pub(crate) fn set_address(&self, buffer: &mut [u8], address: Address) -> c_int {
        assert!(buffer.len() >= self.header_bytes());
        let Address { lid, queue_pair, queue_key } = address;
        let key = queue_key.cast_signed();
        // SAFETY: writes into the header, which the buffer holds.
        unsafe { (self.set_addr)(buffer.as_mut_ptr().cast(), lid, queue_pair, 0, key) }
    }

    pub(crate) fn send(&self, port: c_int, agent: c_int, buffer: &mut [u8], wait: Wait) -> c_int {
        let packet = self.packet_bytes(buffer);
        let Wait { milliseconds, retries } = wait;
        // SAFETY: the buffer holds the header and `packet` bytes.
        unsafe {
            (self.send)(port, agent, buffer.as_mut_ptr().cast(), packet, milliseconds, retries)
        }
    }

    pub(crate) fn receive(&self, port: c_int, buffer: &mut [u8], wait: c_int) -> c_int {
        let mut packet = self.packet_bytes(buffer);
        // SAFETY: the buffer holds the header and `packet` bytes; no more are written.
        unsafe { (self.recv)(port, buffer.as_mut_ptr().cast(), &raw mut packet, wait) }
    }

    /// Status of the packet received last: 0, or the error number of a request that came back.
    pub(crate) fn status(&self, buffer: &mut [u8]) -> c_int {
        assert!(buffer.len() >= self.header_bytes());
        // SAFETY: reads from the header, which the buffer holds.
        unsafe { (self.status)(buffer.as_mut_ptr().cast()) }
    }

    fn packet_bytes(&self, buffer: &[u8]) -> c_int {
        let bytes = buffer.len().checked_sub(self.header_bytes()).expect("room for the header");
        c_int::try_from(bytes).expect("a packet of a few hundred bytes")
    }
}
