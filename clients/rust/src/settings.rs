//! Settings with which a process attaches.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// The path of messages and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// The direct path where the agent offers one, otherwise that through the agent.
    #[default]
    Auto,
    /// Through the agent of the node.
    Agent,
    /// From process to process: this process runs the message layer itself. The agents carry only
    /// what goes to members that are reached by no connection.
    Direct,
}

impl Path {
    /// Returns the word for it in the environment.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Agent => "agent",
            Self::Direct => "direct",
        }
    }
}

/// The path that messages and operations of a membership take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPath {
    /// Through the agent of the node.
    Agent,
    /// From process to process along the tree of the members: the fabric carries no multicast of
    /// the group to this process.
    Direct,
    /// From process to process; what is for all members goes once through the fabric.
    DirectMulticast,
}

impl GroupPath {
    /// True if this process runs the message layer of its member.
    #[must_use]
    pub fn is_direct(self) -> bool {
        self != Self::Agent
    }

    /// Returns it in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Direct => "direct",
            Self::DirectMulticast => "direct with multicast",
        }
    }
}

impl FromStr for Path {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = [Self::Auto, Self::Agent, Self::Direct];
        let found = all.into_iter().find(|path| path.as_str() == text);
        found.ok_or_else(|| Error::UnknownPath { path: text.to_owned() })
    }
}

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
    pub(crate) path: Path,
}

/// Leaves the token out.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, process, node, share_from, path, job_token: _ } = self;
        let mut debug = formatter.debug_struct("Settings");
        debug.field("socket", socket).field("process", process).field("node", node);
        debug.field("share_from", share_from).field("path", path).finish_non_exhaustive()
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
    /// Variable with the path of messages: `auto`, `agent` or `direct`.
    pub const PATH: &str = "FABRICAST_PATH";
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
        let (socket, node, path) = (socket.into(), String::new(), Path::default());
        Self { socket, process, node, share_from, job_token, path }
    }

    /// Settings from the environment: [`Self::SOCKET`], and [`Self::PROCESS`], [`Self::NODE`] and
    /// [`Self::PATH`] if they are set.
    ///
    /// # Errors
    ///
    /// [`Error::NoSocket`] if the variable for the socket is not set; [`Error::UnknownPath`].
    pub fn from_environment() -> Result<Self, Error> {
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let socket = env::var_os(Self::SOCKET).filter(|path| !path.is_empty());
        let mut settings = Self::at(socket.ok_or(Error::NoSocket)?);
        settings.process = text(Self::PROCESS).unwrap_or(settings.process);
        settings.node = text(Self::NODE).unwrap_or_default();
        settings.path = text(Self::PATH).map_or(Ok(Path::default()), |text| text.parse())?;
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

    /// Sets the path of messages and operations.
    #[must_use]
    pub fn path(self, path: Path) -> Self {
        Self { path, ..self }
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
    fn a_path_is_one_of_three_words() {
        for path in [Path::Auto, Path::Agent, Path::Direct] {
            assert_eq!(path.as_str().parse::<Path>().unwrap(), path);
        }
        let refused = "Direct".parse::<Path>().unwrap_err();
        let text = "FABRICAST_PATH: 'Direct' is none of auto, agent and direct";
        assert_eq!(refused.to_string(), text);
    }

    #[test]
    fn the_token_is_not_printed() {
        let settings = Settings::at("agent.sock").job_token("s3cret");
        let text = format!("{settings:?}");
        assert!(text.contains("agent.sock") && !text.contains("s3cret"), "{text}");
    }
}
