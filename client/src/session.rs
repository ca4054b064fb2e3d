//! A process attached to its agent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use tokio::sync::{OnceCell, watch};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

use crate::memory::Memory;
use crate::{Error, Group, Settings};

/// An agent at the same machine answers a connection at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Calls that wait for the control plane end after this; the agent gives up earlier.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// Longest answer, in bytes: the largest group with all its members.
const MESSAGE_LIMIT: usize = 64 << 20;

/// A process attached to the operating agent of its node.
///
/// It stays attached while this value, a clone of it or one of its groups lives. Detached, by dropping all of
/// them or by its death, it is taken out of every group it was in.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) session: Arc<Session>,
}

/// What a launcher has reserved for one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Name of the process.
    pub process: String,
    /// Its node.
    pub node: String,
    /// Its rank in the group.
    pub rank: u32,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    node: String,
    process: String,
    calls: ProcessServiceClient<Channel>,
    lost: watch::Receiver<Option<String>>,
    lease: tokio::task::AbortHandle,
    share_from: usize,
    memory: OnceCell<Option<Arc<Memory>>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.lease.abort();
    }
}

impl Session {
    /// The agent, for one call that ends soon.
    pub(crate) fn calls(&self) -> ProcessServiceClient<Channel> {
        self.calls.clone()
    }

    /// Fails once the process is not attached any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.lost.borrow().as_ref() {
            Some(what) => Err(Error::Detached { what: what.clone() }),
            None => Ok(()),
        }
    }

    /// The memory that is shared with the agent, which is asked for it once; `None` if none is.
    pub(crate) async fn memory(&self) -> Option<&Arc<Memory>> {
        if self.share_from == usize::MAX {
            return None;
        }
        let share = || Memory::share(self.calls(), self.number, self.share_from);
        self.memory.get_or_init(share).await.as_ref()
    }

    /// A request that ends in bounded time.
    pub(crate) fn bounded<T>(message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(CALL_DEADLINE);
        request
    }
}

/// Connects to the agent's socket.
async fn connect(socket: &Path) -> Result<ProcessServiceClient<Channel>, Error> {
    let unreachable = |source| Error::Unreachable { socket: socket.to_owned(), source };
    let address = [b"unix://", socket.as_os_str().as_encoded_bytes()].concat();
    let endpoint = Endpoint::from_shared(address).map_err(unreachable)?;
    let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).connect().await.map_err(unreachable)?;
    Ok(ProcessServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT))
}

impl Client {
    /// Names of the nodes that the agent at a socket serves, in order; nothing is attached for it.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if nobody can be reached there.
    pub async fn nodes_at(socket: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let mut calls = connect(socket.as_ref()).await?;
        let answer = calls.list_local_nodes(Session::bounded(v1::ListLocalNodesRequest {})).await;
        Ok(answer.map_err(|status| Error::of_call(&status))?.into_inner().nodes)
    }

    /// Attaches as the environment says, which `fabricast run` sets for the programs it starts.
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

    /// Attaches to an agent. A process of the same name that has died is waited for until its memberships
    /// have ended.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if nobody can be reached at the socket; [`Error::Refused`] if a process
    /// of that name is attached already, or the agent does not serve the node.
    pub async fn attach(settings: Settings) -> Result<Self, Error> {
        let mut calls = connect(&settings.socket).await?;
        let Settings { process, node, share_from, .. } = settings;
        let request = v1::AttachProcessRequest { process: process.clone(), node };
        let refused = |status| Error::of_call(&status);
        let mut answers = calls.attach_process(request).await.map_err(refused)?.into_inner();
        let answer = answers.message().await.map_err(refused)?;
        let Some(v1::AttachProcessResponse { session: number, node }) = answer else {
            return Err(Error::Detached { what: "the agent has ended the session".to_owned() });
        };
        let (lose, lost) = watch::channel(None);
        let lease = tokio::spawn(hold(answers, lose)).abort_handle();
        let memory = OnceCell::new();
        let session = Session { number, node, process, calls, lost, lease, share_from, memory };
        Ok(Self { session: Arc::new(session) })
    }

    /// The name under which the process is attached.
    #[must_use]
    pub fn process(&self) -> &str {
        &self.session.process
    }

    /// The node that the process is on.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.session.node
    }

    /// Waits until the process is not attached any more, and answers [`Error::Detached`].
    pub async fn detached(&self) -> Error {
        let mut lost = self.session.lost.clone();
        let what = match lost.wait_for(Option::is_some).await {
            Ok(what) => what.clone().unwrap_or_default(),
            Err(_) => "the client's runtime has ended".to_owned(),
        };
        Error::Detached { what }
    }

    /// Joins a group, which is made if there is none of the name. A process that is a member already gets
    /// its membership.
    ///
    /// # Errors
    ///
    /// [`Error::Detached`]; [`Error::Refused`] if the name is invalid or the control plane does not answer.
    pub async fn join(&self, group: &str) -> Result<Group, Error> {
        self.session.check()?;
        let request = v1::ProcessServiceJoinGroupRequest {
            session: self.session.number,
            group: group.to_owned(),
        };
        let answer = self.session.calls().join_group(Session::bounded(request)).await;
        let answer = answer.map_err(|status| Error::of_call(&status))?.into_inner();
        let membership = answer.membership.unwrap_or_default();
        Ok(Group::new(Arc::clone(&self.session), membership))
    }

    /// Joins processes that are to attach later, as a launcher does; those of them that have not attached
    /// when this process detaches are taken out again.
    ///
    /// - `processes`: name and node of each, in the order of their ranks if the group is new.
    ///
    /// # Errors
    ///
    /// [`Error::Detached`]; [`Error::Refused`] with the first refusal.
    pub async fn reserve(
        &self,
        group: &str,
        processes: &[(String, String)],
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
        };
        let answer = self.session.calls().reserve_members(request).await;
        let answer = answer.map_err(|status| Error::of_call(&status))?.into_inner();
        let reserved = |held: v1::Membership| Reserved {
            process: held.process,
            node: held.node,
            rank: held.pn,
        };
        Ok(answer.memberships.into_iter().map(reserved).collect())
    }
}

/// Holds the call that keeps the process attached, and says when it has ended.
async fn hold(
    mut answers: Streaming<v1::AttachProcessResponse>,
    lose: watch::Sender<Option<String>>,
) {
    let what = loop {
        match answers.message().await {
            Ok(Some(_)) => {}
            Ok(None) => break "the agent has ended the session".to_owned(),
            Err(status) => break format!("the agent is gone: {}", status.message()),
        }
    };
    lose.send_replace(Some(what));
}
