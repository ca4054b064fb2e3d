//! Memory that two processes of a machine share: a file that lies in memory, read and written by
//! system calls.
//!
//! ```text
//!  agent: Folder ──create──► Named (file with a name) ──► path and identity, over a socket
//!  process:                                    open ◄──┘
//!  agent: Named::forget_name ──► Memory       Memory
//!   allocates in the second half              allocates in the first half
//! ```
//!
//! Nothing is mapped. If a peer shortens or rewrites the file, a read ends early or returns other
//! bytes, but it never crashes the reader. Bytes are checked after they were read, when the peer
//! can no longer change them.
//!
//! Read [`Folder`] first, then [`Memory`] and [`RangeAllocator`].
//!
//! Invariants
//! - MEMORY-1: ranges that are allocated at one time never overlap.
//! - MEMORY-2: a file has a name only until the peer confirms that it has opened the file, or is
//!   given up.

mod file;
mod ranges;

pub use file::{Folder, Identity, Memory, MemoryError, Named, open};
pub use ranges::{Half, Range, RangeAllocator, RangeError};
