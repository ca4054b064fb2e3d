//! The session of a process at its agent, and the connection it uses.

use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use tokio::sync::{OnceCell, watch};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

use crate::direct::DirectPaths;
use crate::direct::member::DirectMember;
use crate::memory::Memory;
use crate::{Error, Path, Settings};

/// Timeout for connecting; an agent on the same machine accepts at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for calls that wait for the control plane; that of the agent is shorter.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// Largest answer in bytes, enough for all members of the largest group.
const MESSAGE_LIMIT: usize = 64 << 20;

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
    direct: Option<DirectPaths>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.lease.abort();
    }
}

impl Session {
    /// Connects to the agent and attaches the process.
    pub(crate) async fn begin(settings: Settings) -> Result<Self, Error> {
        let mut calls = connect(&settings.socket).await?;
        let Settings { process, node, share_from, job_token, path, .. } = settings;
        let request = v1::AttachProcessRequest { process: process.clone(), node, job_token };
        let mut answers = calls.attach_process(request).await.map_err(Error::of_call)?.into_inner();
        let answer = answers.message().await.map_err(Error::of_call)?;
        let Some(v1::AttachProcessResponse { session: number, node, direct_host }) = answer else {
            return Err(Error::ended("the agent has ended the session"));
        };
        let direct = match path {
            Path::Agent => None,
            Path::Auto if direct_host.is_empty() => None,
            Path::Auto | Path::Direct => {
                Some(DirectPaths::new(&direct_host, path == Path::Direct).await)
            }
        };
        let (lost_sender, lost) = watch::channel(None);
        let lease = tokio::spawn(hold(answers, lost_sender)).abort_handle();
        let memory = OnceCell::new();
        Ok(Self { number, node, process, calls, lost, lease, share_from, memory, direct })
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn process(&self) -> &str {
        &self.process
    }

    /// Waits until the process is detached; returns [`Error::Detached`].
    pub(crate) async fn lost(&self) -> Error {
        let mut lost = self.lost.clone();
        let what = match lost.wait_for(Option::is_some).await {
            Ok(what) => what.clone().unwrap_or_default(),
            Err(_) => "the client's runtime has ended".to_owned(),
        };
        Error::Detached { what }
    }

    /// Returns a client for one call.
    pub(crate) fn calls(&self) -> ProcessServiceClient<Channel> {
        self.calls.clone()
    }

    /// Fails if the process is no longer attached.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.lost.borrow().as_ref() {
            Some(what) => Err(Error::Detached { what: what.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the memory shared with the agent, requested on first use; `None` if the agent offers
    /// none.
    pub(crate) async fn memory(&self) -> Option<&Arc<Memory>> {
        if self.share_from == usize::MAX {
            return None;
        }
        let share = || Memory::share(self.calls(), self.number, self.share_from);
        self.memory.get_or_init(share).await.as_ref()
    }

    /// Begins the direct path of a membership, if the settings and the agent allow it.
    pub(crate) async fn begin_direct_path(&self, membership: &v1::Membership) -> Result<(), Error> {
        match &self.direct {
            Some(direct) => direct.begin(self.calls(), self.number, membership).await,
            None => Ok(()),
        }
    }

    /// Returns the membership in a group if it has the direct path.
    pub(crate) fn direct_member(&self, group: &str) -> Option<Arc<DirectMember>> {
        self.direct.as_ref()?.member(group)
    }

    /// Forgets a membership that has ended.
    pub(crate) fn forget_direct_member(&self, group: &str) {
        if let Some(direct) = &self.direct {
            direct.forget(group);
        }
    }

    /// Makes a request with a timeout of 15 seconds.
    pub(crate) fn bounded<T>(message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(CALL_DEADLINE);
        request
    }
}

/// Connects to the agent's socket.
pub(crate) async fn connect(
    socket: &std::path::Path,
) -> Result<ProcessServiceClient<Channel>, Error> {
    let unreachable = |source| Error::Unreachable { socket: socket.to_owned(), source };
    let address = [b"unix://", socket.as_os_str().as_encoded_bytes()].concat();
    let endpoint = Endpoint::from_shared(address).map_err(unreachable)?;
    let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).connect().await.map_err(unreachable)?;
    Ok(ProcessServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT))
}

/// Reads the call that keeps the process attached, and reports its end.
async fn hold(
    mut answers: Streaming<v1::AttachProcessResponse>,
    lost: watch::Sender<Option<String>>,
) {
    let what = loop {
        match answers.message().await {
            Ok(Some(_)) => {}
            Ok(None) => break "the agent has ended the session".to_owned(),
            Err(status) => break format!("the agent is gone: {}", status.message()),
        }
    };
    lost.send_replace(Some(what));
}
