//! Settings with which a process attaches.

use std::env;
use std::fmt;
use std::path::PathBuf;

use crate::Error;

/// Socket of the agent, and name and node of the process.
///
/// ```
/// use fabricast_client::Settings;
///
/// let settings = Settings::at("/run/fabricast/agent.sock").process("solver").node("node018");
/// assert_eq!(settings.process_name(), "solver");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    pub(crate) socket: PathBuf,
    pub(crate) process: String,
    pub(crate) node: String,
    pub(crate) share_from: usize,
    pub(crate) job_token: String,
}

/// Leaves the token out.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, process, node, share_from, job_token: _ } = self;
        let mut debug = formatter.debug_struct("Settings");
        debug.field("socket", socket).field("process", process).field("node", node);
        debug.field("share_from", share_from).finish_non_exhaustive()
    }
}

impl Settings {
    /// Variable with the path of the agent's socket.
    pub const SOCKET: &str = "FABRICAST_SOCKET";
    /// Variable with the name of the process.
    pub const PROCESS: &str = "FABRICAST_PROCESS";
    /// Variable with the node that the process is on.
    pub const NODE: &str = "FABRICAST_NODE";
    /// Variable with the token of the job that the process belongs to.
    pub const TOKEN: &str = "FABRICAST_TOKEN";
    /// Variable with the group that a launcher has put the process into.
    pub const GROUP: &str = "FABRICAST_GROUP";
    /// Variable with the rank of the process in that group.
    pub const RANK: &str = "FABRICAST_RANK";
    /// Variable with the number of processes that the launcher has put into the group.
    pub const SIZE: &str = "FABRICAST_SIZE";

    /// Default of [`Self::share_from`], in bytes. `cargo xtask figures` measures the gain.
    pub const SHARE_FROM: usize = 64 << 10;

    /// Settings for the agent at a socket. By default the process is called `pid-NUMBER`, runs on
    /// the only node that the agent serves, and belongs to the job whose token [`Self::TOKEN`] has,
    /// if it is set.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        let process = format!("pid-{}", std::process::id());
        let share_from = Self::SHARE_FROM;
        let job_token = env::var(Self::TOKEN).unwrap_or_default();
        Self { socket: socket.into(), process, node: String::new(), share_from, job_token }
    }

    /// Settings from the environment: [`Self::SOCKET`], and [`Self::PROCESS`] and [`Self::NODE`] if
    /// they are set.
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

    /// Sets the name of the process, unique on its node.
    #[must_use]
    pub fn process(self, name: impl Into<String>) -> Self {
        Self { process: name.into(), ..self }
    }

    /// Sets the node of the process, for an agent that serves several.
    #[must_use]
    pub fn node(self, name: impl Into<String>) -> Self {
        Self { node: name.into(), ..self }
    }

    /// Sets the token of the job that the process belongs to; groups named `job/JOB/...` are joined
    /// with it.
    #[must_use]
    pub fn job_token(self, token: impl Into<String>) -> Self {
        Self { job_token: token.into(), ..self }
    }

    /// Sets the shortest payload, in bytes, that goes through memory shared with the agent, if it
    /// has any; `usize::MAX` for none.
    #[must_use]
    pub fn share_from(self, bytes: usize) -> Self {
        Self { share_from: bytes, ..self }
    }

    /// Returns the name of the process.
    #[must_use]
    pub fn process_name(&self) -> &str {
        &self.process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_printed() {
        let settings = Settings::at("agent.sock").job_token("s3cret");
        let text = format!("{settings:?}");
        assert!(text.contains("agent.sock") && !text.contains("s3cret"), "{text}");
    }
}
