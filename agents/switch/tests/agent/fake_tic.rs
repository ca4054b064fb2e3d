//! A TIC that knows one call: it hands every report of failed elements to the test.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use fabricast_proto::v1;
use fabricast_rpc::{BoundServer, Services};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status};

use crate::soon;

/// A running fake; `stop` ends it and frees its address.
pub(crate) struct FakeTic {
    pub(crate) address: SocketAddr,
    reports: mpsc::UnboundedReceiver<v1::ReportFailedElementsRequest>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl FakeTic {
    pub(crate) fn start(listen: SocketAddr) -> Self {
        let server = BoundServer::bind(listen).expect("the address is free");
        let address = server.address();
        let (sender, reports) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let services = Services::new("tic").with(Reports(sender));
        let stopped = stop.clone();
        let serving = tokio::spawn(async move {
            server.serve(services, stopped).await.expect("serves until stopped");
        });
        Self { address, reports, stop, serving }
    }

    /// The next report, whichever it is.
    pub(crate) async fn report(&mut self) -> v1::ReportFailedElementsRequest {
        soon(self.reports.recv()).await.expect("the fake serves")
    }

    pub(crate) async fn stop(self) -> SocketAddr {
        self.stop.cancel();
        soon(self.serving).await.expect("the fake does not panic");
        self.address
    }
}

#[derive(Clone)]
struct Reports(mpsc::UnboundedSender<v1::ReportFailedElementsRequest>);

impl NamedService for Reports {
    const NAME: &'static str = "fabricast.v1.TicService";
}

impl tower::Service<http::Request<Body>> for Reports {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        assert!(request.uri().path().ends_with("/ReportFailedElements"));
        let Self(reports) = self.clone();
        let take = tower::service_fn(move |report: Request<v1::ReportFailedElementsRequest>| {
            // A test that has seen enough no longer listens.
            let _heard = reports.send(report.into_inner());
            async { Ok::<_, Status>(Response::new(v1::ReportFailedElementsResponse::default())) }
        });
        Box::pin(async move {
            Ok(Grpc::new(tonic_prost::ProstCodec::default()).unary(take, request).await)
        })
    }
}
