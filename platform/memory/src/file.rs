//! The file behind shared memory: made by one side, opened by the other, and soon without a name.
//!
//! Who makes it owns the choice of its place, size and permissions, and never opens what somebody else has put
//! there. Who opens it is told which file it is, by numbers that only the system gives out, and uses no other.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use thiserror::Error;

use crate::rooms::Range;

/// What the system calls file systems that lie in memory (`man 2 statfs`): tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Why there is no shared memory.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The folder lies on a disk, for which calls would wait.
    #[error("{folder} is not kept in memory")]
    NotInMemory {
        /// The folder.
        folder: String,
    },
    /// The file is another one than the peer has made.
    #[error("{path} is not the file that was made")]
    AnotherFile {
        /// The path.
        path: String,
    },
    /// The file would have to be another user's, which only root may give it to.
    #[error("the other process runs as user {user}, and only root shares memory with other users")]
    AnotherUser {
        /// The other's user.
        user: u32,
    },
    /// The system refuses.
    #[error("{path}")]
    System {
        /// The path tried.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// Tells one file from all others of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The number of its file system.
    pub device: u64,
    /// Its own there.
    pub inode: u64,
}

/// Where an agent makes files for shared memory.
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

/// Memory whose file can still be opened by its name; the name goes with this.
#[derive(Debug)]
pub struct Named {
    memory: Memory,
    identity: Identity,
    name: Name,
}

/// The name of a file; it is taken away with this.
#[derive(Debug)]
struct Name(PathBuf);

impl Folder {
    /// Files in `folder`, each of two halves of so many bytes, for the agent that listens at `socket`: of agents
    /// that run at one time only one does.
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

    /// Removes files that an agent at the same socket left when it was killed between making one and hearing that it
    /// was opened. Answers how many; a folder that cannot be read has none.
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

    /// Makes a file that the user `user` alone may open, by a name that nobody guesses; `None`: the user of this
    /// process. No memory is used until something is written.
    ///
    /// # Errors
    ///
    /// [`MemoryError`]; whoever chose the folder is at fault, or nobody where the system is short of something.
    pub fn create(&self, user: Option<u32>) -> Result<Named, MemoryError> {
        let own = rustix::process::geteuid();
        let other = user.filter(|user| *user != own.as_raw());
        if let Some(user) = other.filter(|_| !own.is_root()) {
            return Err(MemoryError::AnotherUser { user });
        }
        // The one source of chance that the standard library has.
        let random = RandomState::new().build_hasher().finish();
        let path = self.folder.join(format!("{}{random:016x}", self.prefix));
        // What is there already, be it a link, is never opened.
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|source| system(&path, source))?;
        let name = Name(path.clone()); // gone if it does not become as it is to be
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
    /// The name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.name.0
    }

    /// Which file it is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Takes the name away; whoever has opened the file keeps it.
    #[must_use]
    pub fn forget_name(self) -> Memory {
        self.memory
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // Nobody can be told here; the next agent at the socket tries again.
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens a file that the peer has made, if it is that one: no link is followed, and nothing else is used.
///
/// # Errors
///
/// [`MemoryError`]; the two may see different folders, or run as different users.
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

    /// Writes bytes from an offset on.
    ///
    /// # Errors
    ///
    /// The system's reason, such as no room in the folder's file system; some bytes may have been written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Reads a range. Its bounds have been checked.
    ///
    /// # Errors
    ///
    /// The system's reason, or an early end if the peer has shortened the file.
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
