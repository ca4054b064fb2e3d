//! Tasks of the console and the channels between them.
//!
//! ```text
//!  TIC ──watch──► follow_records task ─┐
//!                                      ├─► Shared (watch channel: newest snapshot only)
//!  all parts ◄──calls── poll task ─────┤        │
//!  switch agents ◄── measure task ─────┘        │   (only while somebody looks at rates)
//!                                               ▼
//!  browser ──HTTP──► a task for each connection: pages, and a stream of versions
//!                          │
//!                          └──calls for one page──► Details (answers kept for all viewers)
//! ```

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fabricast_rpc::{BrowserTls, Identity, PeerError, Role, Security};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::access::{Access, Level, Rules, Session, SignedIn, Token};
use crate::calls::Calls;
use crate::changes::Changes;
use crate::details::Details;
use crate::http::{Client, Console};
use crate::poller::{Shared, follow_records, poll};
use crate::rate_meter::{RateDemand, measure};
use crate::results::Results;
use crate::timed_stream::TimedStream;

/// Most connections at once (CONSOLE-2).
const MAX_CONNECTIONS: usize = 600;
/// Longest request, with its headers.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// Timeout of the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time of a connection with a viewer's certificate, which is checked when it begins.
const CERTIFICATE_AGE: Duration = Duration::from_secs(300);

/// Settings of a console.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen at; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Addresses of the TICs, `host:port`.
    pub tics: Vec<String>,
    /// Addresses of the route services.
    pub routers: Vec<String>,
    /// Credentials of the console as a client of the control plane.
    pub security: Security,
    /// Names that viewers may call it by, beside its address and those of this machine.
    pub hosts: Vec<String>,
    /// Tokens that people sign in with.
    pub tokens: Vec<Token>,
    /// Let everybody look without signing in.
    pub is_open: bool,
    /// Credentials of an administrator, for changes; none for a console that only reads.
    pub changes: Option<Security>,
    /// Certificates for TLS, with which viewers may show one of theirs; none for plain HTTP.
    pub tls: Option<BrowserTls>,
    /// Folder with results of `fabricast eval` or `fabricast plan`, to be shown.
    pub evaluation: Option<PathBuf>,
    /// Random bytes, others at each start.
    pub secret: [u8; 32],
}

/// Reason why a console cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An address of the control plane is wrong, or there is none.
    #[error("the address of a server is wrong")]
    Server(#[source] PeerError),
    /// The address is taken.
    #[error("the console cannot listen at {address}")]
    Bind {
        /// Address that was to be listened at.
        address: SocketAddr,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
}

/// A console, bound and ready to run.
#[derive(Debug)]
pub struct App {
    listener: TcpListener,
    address: SocketAddr,
    calls: Calls,
    changes: Option<Changes>,
    access: Access,
    tls: Option<BrowserTls>,
    results: Results,
}

impl App {
    /// Binds the address.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the address.
    pub async fn bind(settings: Settings) -> Result<Self, StartError> {
        let Settings { listen, tics, routers, security, hosts, tokens, .. } = settings;
        let Settings { is_open, changes, tls, evaluation, secret, .. } = settings;
        let calls = Calls::new(&tics, &routers, security).map_err(StartError::Server)?;
        let changes = changes.map(|security| Changes::new(&tics, security));
        let changes = changes.transpose().map_err(StartError::Server)?;
        let failed = |source| StartError::Bind { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let is_encrypted = tls.is_some();
        let access = Access::new(address, Rules { hosts, tokens, is_open, secret, is_encrypted });
        let results = Results::new(evaluation);
        Ok(Self { listener, address, calls, changes, access, tls, results })
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until stopped.
    ///
    /// # Errors
    ///
    /// Never; a connection that fails ends alone.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        let Self { listener, calls, changes, access, tls, results, .. } = self;
        let shared = Shared::new();
        let demand = RateDemand::new();
        let details = Details::new(calls.clone(), shared.clone(), demand.clone());
        let console = Console::new(shared.clone(), details, access, changes, results);
        let console = Arc::new(console);
        let mut tasks = JoinSet::new();
        tasks.spawn(follow_records(calls.clone(), shared.clone()));
        tasks.spawn(measure(calls.clone(), shared.clone(), demand));
        tasks.spawn(poll(calls, shared));
        info!(peer = %self.address, "the console serves");
        tokio::select! {
            () = accept(&listener, &console, tls.as_ref(), &mut tasks) => {}
            () = stop.cancelled() => {}
        }
        tasks.shutdown().await;
        Ok(())
    }
}

/// Accepts connections, without end.
async fn accept(
    listener: &TcpListener,
    console: &Arc<Console>,
    tls: Option<&BrowserTls>,
    tasks: &mut JoinSet<()>,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        while tasks.try_join_next().is_some() {}
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // The usual cause, too many open files, needs time to pass.
                warn!(%error, "no connection could be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Beyond the bound a connection is closed at once.
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
        let (console, tls) = (Arc::clone(console), tls.cloned());
        tasks.spawn(async move {
            let address = from.ip();
            match tls {
                None => serve(stream, Client { address, session: None }, console).await,
                Some(tls) => serve_tls(stream, address, &tls, console).await,
            }
            drop(permit);
        });
    }
}

/// Serves a connection whose viewer may have a certificate.
async fn serve_tls(stream: TcpStream, address: IpAddr, tls: &BrowserTls, console: Arc<Console>) {
    let Ok(shaken) = timeout(HEADER_TIMEOUT, tls.accept(stream)).await else { return };
    let (stream, identities) = match shaken {
        Ok(accepted) => accepted,
        Err(error) => {
            debug!(%error, "a viewer's handshake failed");
            return;
        }
    };
    let session = session(&identities);
    // One that has expired or was revoked meanwhile is refused when the browser connects again.
    let age = if identities.is_empty() { Duration::MAX } else { CERTIFICATE_AGE };
    let _ended = timeout(age, serve(stream, Client { address, session }, console)).await;
}

/// The session of the holder of a certificate, if it may look at all.
fn session(identities: &[Identity]) -> Option<Session> {
    let of = |role| identities.iter().find(|one| one.role == role);
    let (identity, level) = of(Role::Administrator)
        .map(|one| (one, Level::Administrator))
        .or_else(|| of(Role::Reader).map(|one| (one, Level::Reader)))?;
    Some(Session { person: identity.name.clone(), level, by: SignedIn::Certificate })
}

async fn serve<S>(stream: S, client: Client, console: Arc<Console>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let client = Arc::new(client);
    let service = service_fn(move |request| {
        let (console, client) = (Arc::clone(&console), Arc::clone(&client));
        async move { Ok::<_, Infallible>(console.answer(request, &client).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_REQUEST_BYTES);
    let stream = TokioIo::new(TimedStream::new(stream));
    if let Err(error) = builder.serve_connection(stream, service).await {
        debug!(%error, "a connection of a viewer ended");
    }
}
