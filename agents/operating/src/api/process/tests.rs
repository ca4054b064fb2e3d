//! Calls at the socket.

use std::os::unix::fs::MetadataExt as _;

use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_proto::v1::process_service_server::ProcessServiceServer;
use fabricast_rpc::{BoundSocket, Services};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::{Channel, Endpoint};

use super::*;
use crate::testing::{TestAgent, agent};

/// An agent whose socket is served, with one node, `n0`, that is up.
struct Served {
    test: TestAgent,
    folder: TempDir,
    _serving: AbortOnDropHandle<()>,
}

impl Served {
    fn start() -> Self {
        let test = agent();
        test.node_up();
        let folder = tempfile::tempdir().unwrap();
        let socket = BoundSocket::bind(&folder.path().join("s"), 0o600).unwrap();
        let processes = ProcessServiceServer::new(ProcessServer::new(&test.agent));
        let services = Services::new("operating-agent").with(processes);
        let serving = tokio::spawn(async move {
            socket.serve(services, CancellationToken::new()).await.unwrap();
        });
        Self { test, folder, _serving: AbortOnDropHandle::new(serving) }
    }

    fn calls(&self) -> ProcessServiceClient<Channel> {
        let socket = format!("unix://{}", self.folder.path().join("s").display());
        ProcessServiceClient::new(Endpoint::from_shared(socket).unwrap().connect_lazy())
    }

    /// The user that this test runs as.
    fn own_user(&self) -> u32 {
        std::fs::metadata(self.folder.path()).unwrap().uid()
    }
}

#[tokio::test]
async fn the_system_tells_the_user_of_a_process_at_the_socket() {
    let served = Served::start();
    let request = v1::AttachProcessRequest { process: "p".to_owned(), node: String::new() };
    let mut attached = served.calls().attach_process(request).await.unwrap().into_inner();
    let number = attached.message().await.unwrap().unwrap().session;
    let sessions = &served.test.agent.sessions;
    sessions.call(number, Some(served.own_user())).unwrap();
    for other in [Some(served.own_user() + 1), None] {
        assert_eq!(sessions.call(number, other).unwrap_err(), SessionError::NotYours);
    }
}
