//! Memory that two processes of a machine share: a file that lies in memory, read and written by system calls.
//!
//! ```text
//!  agent: Folder ──create──► Named (file with a name) ──► path and identity, over a socket
//!  process:                                    open ◄──┘
//!  agent: Named::forget_name ──► Memory       Memory
//!         takes Rooms of the second half      takes Rooms of the first half
//! ```
//!
//! Nothing is mapped: a peer that shortens or rewrites the file makes a read end early or bring other bytes, and
//! never stops whoever reads. Bytes are checked after they have been read, when nobody else can change them.
//!
//! Read [`Folder`] first, then [`Memory`] and [`Rooms`].
//!
//! Invariants
//! - MEMORY-1: ranges that are taken at one time never overlap.
//! - MEMORY-2: a file has a name only from its creation to the peer's word that it has opened it, or until the peer
//!   is given up.

mod file;
mod rooms;

pub use file::{Folder, Identity, Memory, MemoryError, Named, open};
pub use rooms::{Half, Range, RangeError, Rooms};
