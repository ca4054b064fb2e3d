//! A TIC that knows one call: it hands every report of failed elements to the test.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use fabricast_proto::v1;
use fabricast_rpc::{BoundServer, Security, Services};
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
    newest_term: Arc<AtomicU64>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl FakeTic {
    pub(crate) fn start(listen: SocketAddr) -> Self {
        let server = BoundServer::bind(listen, Security::plaintext()).expect("the address is free");
        let address = server.address();
        let (sender, reports) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let newest_term = Arc::<AtomicU64>::default();
        let reports_to = Reports { sender, newest_term: Arc::clone(&newest_term) };
        let services = Services::new("tic").with(reports_to);
        let stopped = stop.clone();
        let serving = tokio::spawn(async move {
            server.serve(services, stopped).await.expect("serves until stopped");
        });
        Self { address, reports, newest_term, stop, serving }
    }

    /// Grants terms up to this one.
    pub(crate) fn grant(&self, term: u64) {
        self.newest_term.store(term, Ordering::Release);
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
struct Reports {
    sender: mpsc::UnboundedSender<v1::ReportFailedElementsRequest>,
    newest_term: Arc<AtomicU64>,
}

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
        let Self { sender, newest_term } = self.clone();
        let take = tower::service_fn(move |report: Request<v1::ReportFailedElementsRequest>| {
            // A test that has seen enough no longer listens.
            let _heard = sender.send(report.into_inner());
            let newest_route_term = newest_term.load(Ordering::Acquire);
            let answer = v1::ReportFailedElementsResponse { newest_route_term, failed_count: 0 };
            async move { Ok::<_, Status>(Response::new(answer)) }
        });
        Box::pin(async move {
            Ok(Grpc::new(tonic_prost::ProstCodec::default()).unary(take, request).await)
        })
    }
}
