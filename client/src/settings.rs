//! Where and as whom a process attaches.

use std::env;
use std::path::PathBuf;

use crate::Error;

/// Where the agent listens, and who the process is.
///
/// ```
/// use fabricast_client::Settings;
///
/// let settings = Settings::at("/run/fabricast/agent.sock").process("solver").node("node018");
/// assert_eq!(settings.process_name(), "solver");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) socket: PathBuf,
    pub(crate) process: String,
    pub(crate) node: String,
    pub(crate) share_from: usize,
}

impl Settings {
    /// Variable with the path of the agent's socket.
    pub const SOCKET: &str = "FABRICAST_SOCKET";
    /// Variable with the name of the process.
    pub const PROCESS: &str = "FABRICAST_PROCESS";
    /// Variable with the node that the process is on.
    pub const NODE: &str = "FABRICAST_NODE";
    /// Variable with the group that a launcher has put the process into.
    pub const GROUP: &str = "FABRICAST_GROUP";
    /// Variable with the rank of the process in that group.
    pub const RANK: &str = "FABRICAST_RANK";
    /// Variable with the number of processes that the launcher has put there.
    pub const SIZE: &str = "FABRICAST_SIZE";

    /// Bytes from which on payloads go through memory that is shared with the agent, where it has any; unless
    /// said otherwise. `cargo xtask figures` shows what that gains.
    pub const SHARE_FROM: usize = 64 << 10;

    /// The agent at this socket; the process is called `pid-` and its number, and is on the only node that
    /// the agent serves.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        let process = format!("pid-{}", std::process::id());
        let share_from = Self::SHARE_FROM;
        Self { socket: socket.into(), process, node: String::new(), share_from }
    }

    /// What the environment says: [`Self::SOCKET`], and [`Self::PROCESS`] and [`Self::NODE`] where they
    /// are set.
    ///
    /// # Errors
    ///
    /// [`Error::NoSocket`] if the variable for the socket is not set.
    pub fn from_environment() -> Result<Self, Error> {
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let socket = env::var_os(Self::SOCKET).filter(|path| !path.is_empty());
        let mut settings = Self::at(socket.ok_or(Error::NoSocket)?);
        settings.process = text(Self::PROCESS).unwrap_or(settings.process);
        settings.node = text(Self::NODE).unwrap_or_default();
        Ok(settings)
    }

    /// The same with another name of the process, unique on its node.
    #[must_use]
    pub fn process(self, name: impl Into<String>) -> Self {
        Self { process: name.into(), ..self }
    }

    /// The same on a certain node, for an agent that serves several.
    #[must_use]
    pub fn node(self, name: impl Into<String>) -> Self {
        Self { node: name.into(), ..self }
    }

    /// The same with another length, in bytes, from which on payloads go through shared memory; `usize::MAX`: none do.
    #[must_use]
    pub fn share_from(self, bytes: usize) -> Self {
        Self { share_from: bytes, ..self }
    }

    /// The name of the process.
    #[must_use]
    pub fn process_name(&self) -> &str {
        &self.process
    }
}
