//! Connections: in plain text, or TLS with a certificate at both ends.
//!
//! Servers accept TLS connections here and not in tonic, which cannot replace its certificate while
//! it runs.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpIncoming};
use tracing::{debug, info};

use crate::client_limiter::{ClientLimiter, ConnectionInfo, ConnectionPermit, ConnectionSlot};
use crate::identity::{Caller, certificate_identities};
use crate::limits::{Client, LiveLimits};
use crate::security::Security;

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Handshakes in progress; further connections wait in the listener's queue.
const HANDSHAKES: usize = 256;
/// Handshakes in progress with one address; further connections of it are closed, so that a client
/// that shows no certificate does not delay others.
const ADDRESS_HANDSHAKES: usize = 64;
/// Delay after a failed `accept`. The usual cause, too many open files, needs time to pass.
const ACCEPT_DELAY: Duration = Duration::from_millis(20);

/// A connection whose client is known and within its limits.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    transport: Transport,
    caller: Caller,
    permit: ConnectionPermit,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Secured(Box<server::TlsStream<TcpStream>>),
    Local(UnixStream),
}

impl Connected for AcceptedConnection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.permit.info(self.caller.clone())
    }
}

/// Accepts connections, with a TLS handshake if `security` demands certificates.
pub(crate) fn accept(
    mut listener: TcpIncoming,
    security: Security,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<AcceptedConnection>> {
    let (ready, accepted) = mpsc::channel(HANDSHAKES);
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let by_address = Arc::<PendingHandshakes>::default();
    let acceptor = Acceptor { ready, limiter: ClientLimiter::new(security.limits()) };
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = listener.next() => next,
                () = stop.cancelled() => return,
            };
            let stream = match next {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => {
                    debug!(%error, "a connection was lost before it was accepted");
                    tokio::time::sleep(ACCEPT_DELAY).await;
                    continue;
                }
                None => return,
            };
            let from = stream.peer_addr().ok();
            let Some(slot) = acceptor.limiter.slot() else {
                log_refused(from, &"the server has as many connections as it may have");
                continue;
            };
            let Some(loaded) = security.current() else {
                acceptor.pass_on(slot, Transport::Plain(stream), Caller::Unasked, from).await;
                continue;
            };
            let Some(pending) = by_address.begin(from.map(|from| from.ip())) else {
                log_refused(from, &"too many connections of its address have no certificate yet");
                continue;
            };
            let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let tls = TlsAcceptor::from(Arc::clone(&loaded.server));
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(&tls, stream)).await {
                    Ok(Ok((stream, caller))) => {
                        let transport = Transport::Secured(Box::new(stream));
                        acceptor.pass_on(slot, transport, caller, from).await;
                    }
                    Ok(Err(error)) => log_refused(from, &error),
                    Err(_elapsed) => log_refused(from, &"no certificate shown in time"),
                }
                drop((permit, pending));
            });
        }
    });
    ReceiverStream::new(accepted)
}

/// Passes connections on to the server.
#[derive(Clone)]
struct Acceptor {
    ready: mpsc::Sender<io::Result<AcceptedConnection>>,
    limiter: Arc<ClientLimiter>,
}

impl Acceptor {
    /// Passes a connection on, unless its client has too many.
    async fn pass_on(
        &self,
        slot: ConnectionSlot,
        transport: Transport,
        caller: Caller,
        from: Option<SocketAddr>,
    ) {
        match self.limiter.permit(slot, Client::of(&caller, from)) {
            // The server is stopping if it does not receive the connection.
            Some(permit) => {
                let _ = self.ready.send(Ok(AcceptedConnection { transport, caller, permit })).await;
            }
            None => log_refused(from, &"its client has as many connections as it may have"),
        }
    }
}

/// Number of TLS handshakes in progress, by address of the client.
#[derive(Debug, Default)]
struct PendingHandshakes(Mutex<HashMap<Option<IpAddr>, usize>>);

/// A handshake that is counted until it is dropped.
#[derive(Debug)]
struct PendingHandshake {
    all: Arc<PendingHandshakes>,
    from: Option<IpAddr>,
}

impl PendingHandshakes {
    /// Counts in a handshake; `None` if there are too many with this address.
    fn begin(self: &Arc<Self>, from: Option<IpAddr>) -> Option<PendingHandshake> {
        let mut counts = self.0.lock();
        let count = counts.entry(from).or_default();
        if *count >= ADDRESS_HANDSHAKES {
            return None;
        }
        *count += 1;
        Some(PendingHandshake { all: Arc::clone(self), from })
    }
}

impl Drop for PendingHandshake {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock();
        if let Some(count) = counts.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.from);
            }
        }
    }
}

/// Accepts connections of local processes.
pub(crate) fn accept_local(
    listener: UnixListener,
    limits: LiveLimits,
) -> impl Stream<Item = io::Result<AcceptedConnection>> {
    let limiter = ClientLimiter::new(limits);
    UnixListenerStream::new(listener).filter_map(move |stream| {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        let process = stream.peer_cred().ok();
        let client = process.map_or(Client::Unknown, |process| Client::Process {
            user: process.uid(),
            process: process.pid().unwrap_or_default(),
        });
        let permit = limiter.slot().and_then(|slot| limiter.permit(slot, client.clone()));
        let Some(permit) = permit else {
            info!(%client, "a connection was refused, as there are too many");
            return None;
        };
        Some(Ok(AcceptedConnection {
            transport: Transport::Local(stream),
            caller: Caller::Unasked,
            permit,
        }))
    })
}

fn log_refused(from: Option<SocketAddr>, error: &dyn std::fmt::Display) {
    let from = from.map_or_else(|| "an unknown address".to_owned(), |from| from.to_string());
    info!(%from, %error, "a connection was refused");
}

async fn handshake(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> io::Result<(server::TlsStream<TcpStream>, Caller)> {
    let stream = acceptor.accept(stream).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let identities = identities_of(certificates)?;
    Ok((stream, Caller::Known(identities)))
}

fn identities_of(
    chain: Option<&[CertificateDer<'_>]>,
) -> io::Result<Vec<crate::identity::Identity>> {
    let first = chain.and_then(<[_]>::first).ok_or_else(|| denied("no certificate shown"))?;
    certificate_identities(first).map_err(denied)
}

fn denied(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Connects to a server of the cluster and checks its certificate.
///
/// # Errors
///
/// The error of the system, or a certificate that is not of this cluster, not for the name of the
/// server, or not for a role that serves.
pub(crate) async fn connect(
    uri: Uri,
    security: Security,
) -> io::Result<TokioIo<client::TlsStream<TcpStream>>> {
    let loaded = security.current().ok_or_else(|| denied("no certificates"))?;
    let stream = secure(&uri, Arc::clone(&loaded.client)).await?;
    let identities = identities_of(stream.get_ref().1.peer_certificates())?;
    if !identities.iter().any(|identity| identity.role.serves()) {
        return Err(denied(format!("{} is no server", Caller::Known(identities))));
    }
    Ok(TokioIo::new(stream))
}

/// Connects with TLS and checks that the certificate is for the host of `uri`.
pub(crate) async fn secure(
    uri: &Uri,
    config: Arc<ClientConfig>,
) -> io::Result<client::TlsStream<TcpStream>> {
    let host = uri.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = ServerName::try_from(bare.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let stream = TcpStream::connect((bare, uri.port_u16().unwrap_or_default())).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(config).connect(name, stream).await
}

impl AsyncRead for AcceptedConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Secured(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Local(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for AcceptedConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Secured(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Local(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Transport::Secured(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Transport::Local(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Secured(stream) => stream.is_write_vectored(),
            Transport::Local(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Secured(stream) => Pin::new(stream).poll_flush(context),
            Transport::Local(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Secured(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Local(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_handshakes() {
        let greetings = Arc::<PendingHandshakes>::default();
        let (noisy, quiet) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        let mut open: Vec<_> =
            (0..ADDRESS_HANDSHAKES).map(|_| greetings.begin(noisy).unwrap()).collect();
        assert!(greetings.begin(noisy).is_none());
        assert!(greetings.begin(quiet).is_some());
        open.pop();
        assert!(greetings.begin(noisy).is_some());
        drop(open);
        assert!(greetings.0.lock().is_empty(), "no entry stays for an address without handshakes");
    }
}
