//! Names that launchers have reserved for processes which are to attach later.
//!
//! The kernel tells the user of every process at the socket, so a name is kept for the user that
//! its launcher runs as, or that a launcher of root names. Processes of one user are not told apart
//! by that, as they are not for signals either; the token of a job tells them apart where they
//! cannot read each other's environment.
//!
//! Invariants
//! - SESSION-6: while a session reserves a name, only processes of the user and job that it is
//!   reserved for attach under it.

use std::collections::BTreeMap;
use std::fmt;

use fabricast_groups::names::{NodeName, ProcessName};
use fabricast_groups::token::{JobToken, TokenHash};

/// Name of a process, unique among all nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId {
    pub(crate) node: NodeName,
    /// Name of the process, unique on its node.
    pub(crate) process: ProcessName,
}

/// The user and the job that names are reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserAndJob {
    /// `None` if the system does not tell the user of the launcher.
    pub(crate) user: Option<u32>,
    /// The token that the launcher has shown; `None` if it has shown none, and then its processes
    /// need none.
    pub(crate) token: Option<TokenHash>,
}

impl UserAndJob {
    /// Returns whether a process is of this user and shows the token, in a time that does not
    /// depend on the tokens.
    pub(crate) fn admits(&self, user: Option<u32>, token: Option<&JobToken>) -> bool {
        let shows = |hash: TokenHash| token.is_some_and(|token| hash.is_of(token));
        self.user == user && self.token.is_none_or(shows)
    }
}

impl fmt::Display for UserAndJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            Some(user) => write!(formatter, "user {user}")?,
            None => formatter.write_str("a user that is not known")?,
        }
        let job = self.token.map_or("", |_| " with the token of the launcher's job");
        formatter.write_str(job)
    }
}

/// Names that are reserved.
#[derive(Debug, Default)]
pub(crate) struct Reservations(BTreeMap<ProcessId, Reservation>);

/// A name that is reserved.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) who: UserAndJob,
    /// Numbers of the sessions that reserve the name, at least one.
    pub(crate) sessions: Vec<u64>,
}

impl Reservations {
    /// Returns the reservation of a name; `None` if nobody has reserved it.
    pub(crate) fn get(&self, process: &ProcessId) -> Option<&Reservation> {
        self.0.get(process)
    }

    /// Notes that one more session reserves a name. One that is reserved stays so for the same user
    /// and job.
    ///
    /// - `session`: its number.
    pub(crate) fn add(&mut self, process: ProcessId, who: UserAndJob, session: u64) {
        let first = || Reservation { who, sessions: Vec::with_capacity(1) };
        self.0.entry(process).or_insert_with(first).sessions.push(session);
    }

    /// Notes that a session which reserves a name has ended.
    ///
    /// - `session`: its number.
    pub(crate) fn remove(&mut self, process: &ProcessId, session: u64) {
        let Some(reservation) = self.0.get_mut(process) else { return };
        reservation.sessions.retain(|number| *number != session);
        if reservation.sessions.is_empty() {
            self.0.remove(process);
        }
    }
}
