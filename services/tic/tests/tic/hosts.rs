//! A server of nodes that records the calls of the TIC and answers as the test wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use fabricast_proto::v1;
use fabricast_rpc::{BoundServer, Security, Services};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// The server; dropped, it stops.
pub(crate) struct Host {
    pub(crate) address: String,
    pub(crate) probes: mpsc::UnboundedReceiver<String>,
    pub(crate) hints: mpsc::UnboundedReceiver<v1::NotifyGroupsRequest>,
    alive: Arc<AtomicBool>,
    _stop: DropGuard,
}

impl Host {
    pub(crate) fn start() -> Self {
        let server =
            BoundServer::bind("127.0.0.1:0".parse().unwrap(), Security::plaintext()).unwrap();
        let address = server.address().to_string();
        let (asked, probes) = mpsc::unbounded_channel();
        let (told, hints) = mpsc::unbounded_channel();
        let alive = Arc::new(AtomicBool::new(true));
        let probed = Probed { asked, alive: Arc::clone(&alive) };
        let services = Services::new("host").with(Operating(probed)).with(Agents(Told(told)));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move { server.serve(services, stopped).await.unwrap() });
        Self { address, probes, hints, alive, _stop: stop.drop_guard() }
    }

    /// Answers no probes from now on.
    pub(crate) fn hang(&self) {
        self.alive.store(false, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct Probed {
    asked: mpsc::UnboundedSender<String>,
    alive: Arc<AtomicBool>,
}

impl UnaryService<v1::ProbeNodeRequest> for Probed {
    type Response = v1::ProbeNodeResponse;
    type Future = BoxFuture<Response<Self::Response>, Status>;

    fn call(&mut self, request: Request<v1::ProbeNodeRequest>) -> Self::Future {
        let alive = self.alive.load(Ordering::SeqCst);
        let _ = self.asked.send(request.into_inner().node); // the test may be over
        Box::pin(async move {
            if !alive {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(v1::ProbeNodeResponse { incarnation: 1 }))
        })
    }
}

#[derive(Clone)]
struct Told(mpsc::UnboundedSender<v1::NotifyGroupsRequest>);

impl UnaryService<v1::NotifyGroupsRequest> for Told {
    type Response = v1::NotifyGroupsResponse;
    type Future = BoxFuture<Response<Self::Response>, Status>;

    fn call(&mut self, request: Request<v1::NotifyGroupsRequest>) -> Self::Future {
        let _ = self.0.send(request.into_inner()); // the test may be over
        Box::pin(async { Ok(Response::new(v1::NotifyGroupsResponse {})) })
    }
}

/// `OperatingAgentService` with the one method that the TIC calls.
#[derive(Clone)]
struct Operating(Probed);

/// `GroupAgentService` with the one method that the TIC calls.
#[derive(Clone)]
struct Agents(Told);

impl NamedService for Operating {
    const NAME: &'static str = "fabricast.v1.OperatingAgentService";
}

impl NamedService for Agents {
    const NAME: &'static str = "fabricast.v1.GroupAgentService";
}

type Call = BoxFuture<http::Response<Body>, std::convert::Infallible>;

impl Service<http::Request<Body>> for Operating {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Call;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Call {
        assert!(request.uri().path().ends_with("/ProbeNode"), "{}", request.uri());
        let method = self.0.clone();
        Box::pin(async move { Ok(Grpc::new(ProstCodec::default()).unary(method, request).await) })
    }
}

impl Service<http::Request<Body>> for Agents {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Call;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Call {
        assert!(request.uri().path().ends_with("/NotifyGroups"), "{}", request.uri());
        let method = self.0.clone();
        Box::pin(async move { Ok(Grpc::new(ProstCodec::default()).unary(method, request).await) })
    }
}
