//! Binds a listener and serves gRPC services with health, reflection and limits.
//!
//! Binding comes first and is separate, so that a part knows its own address (port 0 is allowed)
//! and reports a taken port before anything else has started.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::Service;

use crate::accept;
use crate::access::EnforceAccess;
use crate::administration::Administration;
pub use crate::administration::{AskAddress, AskLeadership};
use crate::call_log::{AuditChanges, CountCalls};
use crate::call_spans::TraceCalls;
use crate::connection::AcceptedConnection;
use crate::limit_clients::LimitClients;
use crate::message_bounds::BoundMessages;
use crate::middleware::MiddlewareLayer;
use crate::security::Security;
use crate::unreadable_requests::RefuseUnreadable;

/// Connections that the system keeps until they are accepted, if it allows so many. It drops what
/// comes beyond, and a client tries again after one second, then three: all agents of a cluster may
/// come at once.
const BACKLOG: u32 = 4096;
/// Idle time after which a connection is pinged.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Time without an answer to a ping after which a connection is closed.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for calls in flight to end after the request to stop.
const DRAIN: Duration = Duration::from_secs(2);
/// Interval between two looks at the readiness of a part.
const READINESS_INTERVAL: Duration = Duration::from_millis(500);
/// Time after which a part that does not tell is not ready.
const READINESS_TIMEOUT: Duration = Duration::from_secs(1);

/// A listener that could not be bound.
#[derive(Debug, Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    /// The address asked for.
    pub address: SocketAddr,
    /// The operating system's reason.
    #[source]
    pub source: io::Error,
}

/// Reason why a server ended by itself.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("serving on {address} failed")]
    Transport {
        /// Place where it served: an address, or the path of a socket.
        address: String,
        /// The transport's reason.
        #[source]
        source: tonic::transport::Error,
    },
    /// The checked-in descriptors are damaged.
    #[error("the reflection descriptors cannot be read")]
    Reflection(#[source] tonic_reflection::server::Error),
}

/// Finds out if a part can do its work at this moment; asked twice a second.
pub type AskReadiness = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// The services that are served while a part is ready.
#[derive(Clone)]
struct Readiness {
    names: Vec<&'static str>,
    ask: AskReadiness,
}

/// The parts whose readiness is followed. This is no task of its own, so that nothing of a part
/// remains once its server is dropped.
struct Followed {
    parts: Vec<Readiness>,
    reporter: HealthReporter,
}

impl Followed {
    /// Keeps the health of the services up to date.
    async fn run(self) -> Infallible {
        let mut were_ready = vec![None; self.parts.len()];
        loop {
            for (part, was_ready) in self.parts.iter().zip(&mut were_ready) {
                let asked = tokio::time::timeout(READINESS_TIMEOUT, (part.ask)());
                let is_ready = asked.await.unwrap_or(false);
                if was_ready.replace(is_ready) != Some(is_ready) {
                    part.report(&self.reporter, is_ready).await;
                }
            }
            tokio::time::sleep(READINESS_INTERVAL).await;
        }
    }
}

impl Readiness {
    async fn report(&self, reporter: &HealthReporter, is_ready: bool) {
        let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in &self.names {
            reporter.set_service_status(name, status).await;
        }
    }
}

/// Adds one service to a server under construction.
type Adder = Arc<dyn Fn(&mut RoutesBuilder) + Send + Sync>;

/// A set of gRPC services that are served together.
#[derive(Clone, Default)]
pub struct Services {
    adders: Vec<Adder>,
    names: Vec<&'static str>,
    roles: Vec<String>,
    peers: Vec<v1::PeerAddress>,
    known_peers: Vec<(&'static str, AskAddress)>,
    leadership: Option<AskLeadership>,
    readiness: Vec<Readiness>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Services").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Services {
    /// Starts an empty set for a part such as `tic`.
    #[must_use]
    pub fn new(role: &str) -> Self {
        Self { roles: vec![role.to_owned()], ..Self::default() }
    }

    /// Adds a generated server.
    #[must_use]
    pub fn with<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        self.adders.push(Arc::new(move |routes| {
            routes.add_service(service.clone());
        }));
        self
    }

    /// Notes where another part is, for the administration service.
    #[must_use]
    pub fn with_peer(mut self, role: &str, address: impl Into<String>) -> Self {
        self.peers.push(v1::PeerAddress { role: role.to_owned(), address: address.into() });
        self
    }

    /// The same for a part whose address may change.
    #[must_use]
    pub fn with_known_peer(mut self, role: &'static str, ask: AskAddress) -> Self {
        self.known_peers.push((role, ask));
        self
    }

    /// Makes the administration service report the leader, for parts with standbys.
    #[must_use]
    pub fn with_leadership(mut self, ask: AskLeadership) -> Self {
        self.leadership = Some(ask);
        self
    }

    /// Makes the health of the services that were added so far follow the part's readiness. The
    /// health of the server as a whole, the empty name, stays that it serves.
    #[must_use]
    pub fn with_readiness(mut self, ask: AskReadiness) -> Self {
        self.readiness.push(Readiness { names: self.names.clone(), ask });
        self
    }

    /// Joins two sets, so that one address serves both. The joined set reports no leader, as each
    /// may have its own.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        self.adders.extend(other.adders);
        self.names.extend(other.names);
        self.roles.extend(other.roles);
        self.peers.extend(other.peers);
        self.known_peers.extend(other.known_peers);
        self.readiness.extend(other.readiness);
        self.leadership = None;
        self
    }

    async fn routes(self) -> Result<(Routes, Followed), ServeError> {
        let Self { adders, mut names, roles, peers, known_peers, leadership, readiness } = self;
        let mut routes = RoutesBuilder::default();
        for add in adders {
            add(&mut routes);
        }
        let administration =
            v1::administration_service_server::AdministrationServiceServer::new(Administration {
                roles,
                peers,
                known_peers,
                started: Instant::now(),
                leadership,
            });
        names.push(<v1::administration_service_server::AdministrationServiceServer<
            Administration,
        > as NamedService>::NAME);
        let (reporter, health) = tonic_health::server::health_reporter();
        for name in &names {
            reporter.set_service_status(name, ServingStatus::Serving).await;
        }
        for part in &readiness {
            part.report(&reporter, false).await;
        }
        let reflection = || {
            let mut builder = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(fabricast_proto::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .with_service_name("grpc.health.v1.Health");
            for name in &names {
                builder = builder.with_service_name(*name);
            }
            builder
        };
        routes
            .add_service(administration)
            .add_service(health)
            .add_service(reflection().build_v1().map_err(ServeError::Reflection)?)
            .add_service(reflection().build_v1alpha().map_err(ServeError::Reflection)?);
        Ok((routes.routes(), Followed { parts: readiness, reporter }))
    }
}

/// A listener that does not serve yet.
#[derive(Debug)]
pub struct BoundServer {
    /// `None` if it listens in the network of `security`.
    incoming: Option<TcpIncoming>,
    address: SocketAddr,
    security: Security,
}

impl BoundServer {
    /// Binds the address; port 0 picks a free one. Demands certificates and applies limits as
    /// `security` has them.
    ///
    /// # Errors
    ///
    /// [`BindError`] names the address and the system's reason, such as "address in use".
    pub fn bind(address: SocketAddr, security: Security) -> Result<Self, BindError> {
        if security.network().is_some() {
            return Ok(Self { incoming: None, address, security });
        }
        let failed = |source| BindError { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        Ok(Self { incoming: Some(incoming), address, security })
    }

    /// The address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled, then lets calls in flight end.
    ///
    /// The future is boxed: otherwise every crate that awaits it compiles the HTTP server again.
    ///
    /// # Errors
    ///
    /// [`ServeError`] when the transport fails; never because of a client.
    pub fn serve(self, services: Services, stop: CancellationToken) -> BoxFuture<(), ServeError> {
        let Self { incoming, address, security } = self;
        let incoming = match (incoming, security.network()) {
            (None, Some(network)) => {
                accept::accept_simulated(network.listen(address), security, stop.clone())
            }
            (Some(incoming), _) => accept::accept(incoming, security, stop.clone()),
            (None, None) => unreachable!("a server listens in one network"),
        };
        Box::pin(serve_incoming(incoming, address.to_string(), services, stop))
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?; // a part that starts again gets its address
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves accepted connections until `stop` is cancelled, then lets calls in flight end.
pub(crate) async fn serve_incoming(
    incoming: impl Stream<Item = io::Result<AcceptedConnection>>,
    address: String,
    services: Services,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let (routes, followed) = services.routes().await?;
    let layers = tower::ServiceBuilder::new()
        .layer(MiddlewareLayer(LimitClients))
        .layer(MiddlewareLayer(TraceCalls))
        .layer(MiddlewareLayer(CountCalls))
        .layer(MiddlewareLayer(EnforceAccess))
        .layer(MiddlewareLayer(RefuseUnreadable))
        .layer(MiddlewareLayer(BoundMessages))
        .layer(MiddlewareLayer(AuditChanges))
        .into_inner();
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .max_concurrent_streams(Some(1024))
        .layer(layers)
        .add_routes(routes);
    let mut serving =
        Box::pin(server.serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned()));
    tokio::select! {
        ended = &mut serving => {
            return ended.map_err(|source| ServeError::Transport { address, source });
        }
        () = stop.cancelled() => {}
        never = followed.run() => match never {},
    }
    // Watch streams never end by themselves, so the drain is bounded.
    match tokio::time::timeout(DRAIN, serving).await {
        Ok(ended) => ended.map_err(|source| ServeError::Transport { address, source }),
        Err(_elapsed) => Ok(()),
    }
}
