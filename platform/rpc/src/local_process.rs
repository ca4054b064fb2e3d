//! Processes of the same machine, at a Unix domain socket.

use tokio::net::unix::UCred;
use tonic::Extensions;

/// The process at the other end of a socket, as the kernel noted it when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalProcess {
    /// Number of the user that it ran as.
    pub user: u32,
    /// Number of the group that it ran as; its other groups are not known.
    pub group: u32,
    /// Number of the process, which may have ended since; `None` if the system does not tell.
    pub pid: Option<i32>,
}

impl LocalProcess {
    /// The process that a request comes from; `None` if it came over a network, or if the system
    /// does not tell.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().copied()
    }
}

impl From<UCred> for LocalProcess {
    fn from(cred: UCred) -> Self {
        Self { user: cred.uid(), group: cred.gid(), pid: cred.pid() }
    }
}
