//! Joins against a TIC that refuses them.

use std::convert::Infallible;
use std::task::{Context, Poll};

use fabricast_groups::command::GroupSpec;
use fabricast_groups::names::{EndpointName, GroupName, ProcessName, RequestId};
use fabricast_groups::operating::JoinCall;
use fabricast_rpc::{BoundServer, Reason, Security, Services};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};

use crate::testing::agent_with_tic;

/// A TIC that answers every call with one status.
#[derive(Clone)]
struct RefusingTic(Status);

impl NamedService for RefusingTic {
    const NAME: &'static str = "fabricast.v1.TicService";
}

impl Service<Request<Body>> for RefusingTic {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let answer = self.0.clone().into_http();
        Box::pin(async move { Ok(answer) })
    }
}

fn join(endpoint: &str) -> JoinCall {
    JoinCall {
        request_id: RequestId::new("r").unwrap(),
        group: GroupSpec {
            name: GroupName::new("g").unwrap(),
            mgid: None,
            persistent: false,
            exclusive: false,
            hints: fabricast_groups::hints::MgidHints::default(),
            job: None,
            complete_at: None,
            tree: None,
            operation_bytes: None,
            token: None,
        },
        process: ProcessName::new("p").unwrap(),
        endpoint: Some(EndpointName::new(endpoint).unwrap()),
        sends_only: false,
    }
}

/// The status of a process's join that the TIC answers with `refusal`.
async fn joined(refusal: Status) -> Status {
    let server = BoundServer::bind("127.0.0.1:0".parse().unwrap(), Security::plaintext()).unwrap();
    let test = agent_with_tic(&server.address().to_string());
    let services = Services::new("tic").with(RefusingTic(refusal));
    let stop = CancellationToken::new();
    test.agent.start();
    test.node_up();
    let calls = vec![(test.node.clone(), join("h9"))];
    tokio::select! {
        mut ends = test.agent.calls.join_many(calls) => ends.pop().unwrap().unwrap_err().into(),
        _ = server.serve(services, stop) => panic!("the server goes on"),
    }
}

#[tokio::test]
async fn a_process_gets_the_code_and_reason_of_the_tic() {
    for reason in [Reason::NotPermitted, Reason::UnknownEndpoint] {
        let status = joined(reason.status("as the TIC says", &[])).await;
        assert_eq!((status.code(), status.message()), (reason.code(), "as the TIC says"));
        assert!(reason.is_of(&status), "{status}");
    }
    let status = joined(Status::permission_denied("said a proxy")).await;
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "said a proxy"));
}

#[test]
fn a_tic_that_stops_or_does_not_lead_gives_no_answer() {
    for reason in [Reason::ShuttingDown, Reason::NotLeader] {
        let status = super::tic_refusal(reason.status("as the TIC says", &[]));
        assert!(Reason::PeerUnavailable.is_of(&status), "{status}");
        assert_eq!(status.message(), "the TIC does not answer: as the TIC says");
    }
    let status = super::tic_refusal(Status::unavailable("connection refused"));
    assert!(Reason::PeerUnavailable.is_of(&status), "{status}");
    let status = super::tic_refusal(Reason::NoSwitchTree.status("no entries", &[]));
    assert!(Reason::NoSwitchTree.is_of(&status), "{status}");
}
