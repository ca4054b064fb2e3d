//! Tasks of the console and the channels between them.
//!
//! ```text
//!  TIC ──watch──► follow_records task ─┐
//!                                      ├─► Shared (watch channel: newest snapshot only)
//!  all parts ◄──calls── poll task ─────┘        │
//!                                               ▼
//!  browser ──HTTP──► a task for each connection: pages, and a stream of versions
//!                          │
//!                          └──calls for one page──► Details (answers kept for all viewers)
//! ```

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_rpc::{PeerError, Security};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::access::Access;
use crate::calls::Calls;
use crate::details::Details;
use crate::http::Console;
use crate::poller::{Shared, follow_records, poll};
use crate::timed_stream::TimedStream;

/// Most connections at once (CONSOLE-2).
const MAX_CONNECTIONS: usize = 600;
/// Longest request, with its headers.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// Timeout of the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// Token that viewers sign in with; none to let everybody in.
    pub token: Option<String>,
}

/// Why a console cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An address of the control plane is wrong, or there is none.
    #[error("the address of a server is wrong")]
    Server(#[source] PeerError),
    /// The address is taken.
    #[error("the console cannot listen at {address}")]
    Bind {
        /// The address.
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
    access: Access,
}

impl App {
    /// Binds the address.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the address.
    pub async fn bind(settings: Settings) -> Result<Self, StartError> {
        let Settings { listen, tics, routers, security, hosts, token } = settings;
        let calls = Calls::new(&tics, &routers, security).map_err(StartError::Server)?;
        let failed = |source| StartError::Bind { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let access = Access::new(address, &hosts, token.as_deref());
        Ok(Self { listener, address, calls, access })
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
        let Self { listener, calls, access, .. } = self;
        let shared = Shared::new();
        let details = Details::new(calls.clone(), shared.clone());
        let console = Arc::new(Console::new(shared.clone(), details, access));
        let mut tasks = JoinSet::new();
        tasks.spawn(follow_records(calls.clone(), shared.clone()));
        tasks.spawn(poll(calls, shared));
        info!(peer = %self.address, "the console serves");
        tokio::select! {
            () = accept(&listener, &console, &mut tasks) => {}
            () = stop.cancelled() => {}
        }
        tasks.shutdown().await;
        Ok(())
    }
}

/// Accepts connections, without end.
async fn accept(listener: &TcpListener, console: &Arc<Console>, tasks: &mut JoinSet<()>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        while tasks.try_join_next().is_some() {}
        let (stream, _) = match listener.accept().await {
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
        let console = Arc::clone(console);
        tasks.spawn(async move {
            serve(stream, console).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, console: Arc<Console>) {
    let service = service_fn(move |request| {
        let console = Arc::clone(&console);
        async move { Ok::<_, Infallible>(console.answer(request).await) }
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
