//! The file behind shared memory: created by one side, opened by the other, then without a name.
//!
//! The creator chooses place, size and permissions, and never opens a file that exists already. The
//! opener gets the file's device and inode numbers, which the system assigns, and uses no other
//! file.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use thiserror::Error;

use crate::ranges::Range;

/// Type numbers of the file systems in memory, tmpfs and ramfs (`man 2 statfs`).
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Failure to create or open shared memory.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The folder is on a disk, where reads and writes would wait.
    #[error("{folder} is not kept in memory")]
    NotInMemory {
        /// Folder that was tried.
        folder: String,
    },
    /// The file is not the one that the peer has created.
    #[error("{path} is not the file that the peer created")]
    AnotherFile {
        /// Path that was opened.
        path: String,
    },
    /// The file would have to belong to another user, and only root can change its owner.
    #[error("the other process runs as user {user}, and only root shares memory with other users")]
    AnotherUser {
        /// User id of the other process.
        user: u32,
    },
    /// A system call failed.
    #[error("{path}")]
    System {
        /// Path that was tried.
        path: String,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
}

/// Identifies a file on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the file system.
    pub device: u64,
    /// Number of the file in its file system.
    pub inode: u64,
}

/// The folder in which an agent creates files for shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    folder: PathBuf,
    prefix: String, // of the names of this agent's files
    half: u64,
}

/// Memory shared with another process.
#[derive(Debug)]
pub struct Memory {
    file: File,
    half: u64,
}

/// Memory whose file still has a name. Dropping it removes the name.
#[derive(Debug)]
pub struct Named {
    memory: Memory,
    identity: Identity,
    name: Name,
}

/// The name of a file. Dropping it removes the name.
#[derive(Debug)]
struct Name(PathBuf);

impl Folder {
    /// Describes files in `folder` for the agent that listens at `socket`, which no other running
    /// agent does.
    ///
    /// - `half`: bytes of each of a file's two halves.
    #[must_use]
    pub fn new(folder: &Path, socket: &Path, half: u64) -> Self {
        let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        let socket = socket.to_string_lossy().replace('/', ".");
        Self { folder: folder.to_owned(), prefix: format!("fabricast{socket}."), half }
    }

    /// Bytes of each half.
    #[must_use]
    pub fn half(&self) -> u64 {
        self.half
    }

    /// Removes files that an agent at the same socket left behind when it was killed before a peer
    /// confirmed. Returns their number; 0 if the folder cannot be read.
    #[must_use]
    pub fn sweep(&self) -> usize {
        let Ok(entries) = fs::read_dir(&self.folder) else { return 0 };
        let ours = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            let random = name.to_str().and_then(|name| name.strip_prefix(&self.prefix));
            random.is_some_and(|random| u64::from_str_radix(random, 16).is_ok())
        });
        ours.filter(|entry| fs::remove_file(entry.path()).is_ok()).count()
    }

    /// Creates a file with a random name that only `user` may open; `None` is the user of this
    /// process. It uses no memory until something is written.
    ///
    /// # Errors
    ///
    /// [`MemoryError`]; the configured folder is at fault, or the system is short of a resource.
    pub fn create(&self, user: Option<u32>) -> Result<Named, MemoryError> {
        let own = rustix::process::geteuid();
        let other = user.filter(|user| *user != own.as_raw());
        if let Some(user) = other.filter(|_| !own.is_root()) {
            return Err(MemoryError::AnotherUser { user });
        }
        // The only source of randomness in the standard library.
        let random = RandomState::new().build_hasher().finish();
        let path = self.folder.join(format!("{}{random:016x}", self.prefix));
        // A file or link that exists already is never opened.
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|source| system(&path, source))?;
        let name = Name(path.clone()); // removed again if a later step fails
        let failed = |source| system(&path, source);
        let made = file.metadata().map_err(failed)?;
        let kind = rustix::fs::fstatfs(&file).map_err(|errno| failed(errno.into()))?.f_type;
        if !u32::try_from(kind).is_ok_and(|kind| IN_MEMORY.contains(&kind)) {
            return Err(MemoryError::NotInMemory { folder: self.folder.display().to_string() });
        }
        file.set_len(self.half.saturating_mul(2)).map_err(failed)?;
        fchown(&file, other, None).map_err(failed)?;
        let identity = Identity { device: made.dev(), inode: made.ino() };
        Ok(Named { memory: Memory { file, half: self.half }, identity, name })
    }
}

impl Named {
    /// Path of the file, for the peer.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.name.0
    }

    /// Device and inode number, for the peer.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Removes the name; processes that have opened the file keep it.
    #[must_use]
    pub fn forget_name(self) -> Memory {
        self.memory
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // An error is ignored: the next agent at the socket sweeps the folder.
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens the file with this identity that the peer has created; follows no link.
///
/// # Errors
///
/// [`MemoryError`]; the two processes may see different folders, or run as different users.
pub fn open(path: &Path, identity: Identity, half: u64) -> Result<Memory, MemoryError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = opened.map_err(|source| system(path, source))?;
    let found = file.metadata().map_err(|source| system(path, source))?;
    let same = (found.dev(), found.ino()) == (identity.device, identity.inode);
    if !same || !found.is_file() {
        return Err(MemoryError::AnotherFile { path: path.display().to_string() });
    }
    Ok(Memory { file, half })
}

impl Memory {
    /// Bytes of each half.
    #[must_use]
    pub fn half(&self) -> u64 {
        self.half
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    ///
    /// Such as a full file system; some bytes may have been written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Reads a range, which the caller has checked with [`Half::check`](crate::Half::check).
    ///
    /// # Errors
    ///
    /// An early end if the peer has shortened the file.
    pub fn read(&self, range: Range) -> io::Result<Vec<u8>> {
        let length = usize::try_from(range.length).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, range.offset)?;
        Ok(bytes)
    }
}

fn system(path: &Path, source: io::Error) -> MemoryError {
    MemoryError::System { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests;
