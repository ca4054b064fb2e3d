//! A process attached to the operating agent of its node.

use std::path::Path;
use std::sync::Arc;

use fabricast_proto::v1;

use crate::session::{Session, connect};
use crate::{Error, Group, Settings};

/// A process attached to the operating agent of its node.
///
/// It stays attached while this value, a clone of it or one of its groups exists. Once all are
/// dropped, or the process has died, the agent takes it out of every group.
#[derive(Clone, Debug)]
pub struct Client {
    session: Arc<Session>,
}

/// Membership that a launcher has reserved for one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Name of the process.
    pub process: String,
    /// Node of the process.
    pub node: String,
    /// Rank of the process in the group.
    pub rank: u32,
}

impl Client {
    /// Lists the nodes that the agent at a socket serves, in order, without attaching.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if no agent answers there.
    pub async fn nodes_at(socket: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let mut calls = connect(socket.as_ref()).await?;
        let answer = calls.list_local_nodes(Session::bounded(v1::ListLocalNodesRequest {})).await;
        Ok(answer.map_err(Error::of_call)?.into_inner().nodes)
    }

    /// Attaches with the settings of the environment, which `fabricast run` sets for the programs
    /// it starts.
    ///
    /// # Errors
    ///
    /// As [`Self::attach`]; [`Error::NoSocket`] if the environment names no socket.
    pub async fn from_environment() -> Result<Self, Error> {
        Self::attach(Settings::from_environment()?).await
    }

    /// Attaches to the agent at a socket, under a name made from the process number.
    ///
    /// # Errors
    ///
    /// As [`Self::attach`].
    pub async fn connect(socket: impl AsRef<Path>) -> Result<Self, Error> {
        Self::attach(Settings::at(socket.as_ref())).await
    }

    /// Attaches to an agent. If a process of the same name has just died, waits until its
    /// memberships have ended.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if no agent answers at the socket; [`Error::Refused`] if a
    /// process of that name is attached already, or the agent does not serve the node.
    pub async fn attach(settings: Settings) -> Result<Self, Error> {
        let session = Session::begin(settings).await?;
        Ok(Self { session: Arc::new(session) })
    }

    /// Returns the name under which the process is attached.
    #[must_use]
    pub fn process(&self) -> &str {
        self.session.process()
    }

    /// Returns the node of the process.
    #[must_use]
    pub fn node(&self) -> &str {
        self.session.node()
    }

    /// Waits until the process is detached; returns [`Error::Detached`].
    pub async fn detached(&self) -> Error {
        self.session.lost().await
    }

    /// Joins a group, which is created if it does not exist. A member gets its existing membership.
    ///
    /// # Errors
    ///
    /// [`Error::Detached`]; [`Error::Refused`] if the name is invalid or the control plane does not
    /// answer, and with `NO_DIRECT_PATH` if the settings require that path and there is none. The
    /// process is a member then all the same.
    pub async fn join(&self, group: &str) -> Result<Group, Error> {
        self.session.check()?;
        let request = v1::ProcessServiceJoinGroupRequest {
            session: self.session.number,
            group: group.to_owned(),
        };
        let answer = self.session.calls().join_group(Session::bounded(request)).await;
        let answer = answer.map_err(Error::of_call)?.into_inner();
        let membership = answer.membership.unwrap_or_default();
        self.session.begin_direct_path(&membership).await?;
        Ok(Group::new(Arc::clone(&self.session), membership))
    }

    /// Joins processes that will attach later, for use by a launcher. Those that have not attached
    /// when this process detaches are taken out of the group. Until then only processes of its user
    /// attach under these names, and only with the token of its job if it has shown one.
    ///
    /// - `processes`: name and node of each; in a new group their order gives the ranks.
    ///
    /// # Errors
    ///
    /// [`Error::Detached`]; [`Error::Refused`] with the first refusal, among them `NOT_PERMITTED`
    /// for a name that another user or job has.
    pub async fn reserve(
        &self,
        group: &str,
        processes: &[(String, String)],
    ) -> Result<Vec<Reserved>, Error> {
        self.reserve_as(group, processes, None).await
    }

    /// Joins processes that will attach later as another user, for use by a launcher of root; else
    /// as [`Self::reserve`].
    ///
    /// - `user`: number of the user that they will run as.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`]; [`Error::Refused`] with `NOT_PERMITTED` if this process is not of root
    /// and not of that user.
    pub async fn reserve_for(
        &self,
        user: u32,
        group: &str,
        processes: &[(String, String)],
    ) -> Result<Vec<Reserved>, Error> {
        self.reserve_as(group, processes, Some(user)).await
    }

    async fn reserve_as(
        &self,
        group: &str,
        processes: &[(String, String)],
        user: Option<u32>,
    ) -> Result<Vec<Reserved>, Error> {
        self.session.check()?;
        let local = |(process, node): &(String, String)| v1::LocalProcess {
            process: process.clone(),
            node: node.clone(),
        };
        let request = v1::ReserveMembersRequest {
            session: self.session.number,
            group: group.to_owned(),
            processes: processes.iter().map(local).collect(),
            user,
        };
        let answer = self.session.calls().reserve_members(request).await;
        let answer = answer.map_err(Error::of_call)?.into_inner();
        let reserved = |held: v1::Membership| Reserved {
            process: held.process,
            node: held.node,
            rank: held.pn,
        };
        Ok(answer.memberships.into_iter().map(reserved).collect())
    }
}
