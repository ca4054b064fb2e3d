//! Connections: plain, or TLS with both ends named.
//!
//! A server takes TLS connections here and not in tonic, which could not exchange its certificate while
//! it runs.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
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

use crate::allowance::{Arrival, Book, Seat};
use crate::identity::{Caller, certificate_identities};
use crate::limits::{Client, LiveLimits};
use crate::security::Security;

/// Whoever has not shown a certificate by then is hung up on.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes at a time; further connections wait in the listener's queue.
const HANDSHAKES: usize = 256;
/// Handshakes with one address at a time; further connections from there are closed, so that whoever shows no
/// certificate keeps nobody else waiting.
const ADDRESS_HANDSHAKES: usize = 64;
/// Pause after the system could not give a connection.
const BREATH: Duration = Duration::from_millis(20);

/// A connection that a server has taken.
#[derive(Debug)]
pub(crate) struct Taken {
    wire: Wire,
    caller: Caller,
    seat: Seat,
}

#[derive(Debug)]
enum Wire {
    Plain(TcpStream),
    Secured(Box<server::TlsStream<TcpStream>>),
    Local(UnixStream),
}

impl Connected for Taken {
    type ConnectInfo = Arrival;

    fn connect_info(&self) -> Arrival {
        self.seat.arrival(self.caller.clone())
    }
}

/// Connections as they are taken, with names where `security` asks for them.
pub(crate) fn take(
    mut listener: TcpIncoming,
    security: Security,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<Taken>> {
    let (ready, taken) = mpsc::channel(HANDSHAKES);
    let (room, book) = (Arc::new(Semaphore::new(HANDSHAKES)), Book::new(security.limits()));
    let greetings = Arc::<Greetings>::default();
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = listener.next() => next,
                () = stop.cancelled() => return,
            };
            let stream = match next {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => {
                    debug!(%error, "a connection was lost before it was taken");
                    // Too many open files, mostly: it passes, and asking at once again does not help.
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
                None => return,
            };
            let from = stream.peer_addr().ok();
            let Some(place) = book.place() else {
                refused(from, &"there are as many connections as there may be");
                continue;
            };
            let Some(loaded) = security.current() else {
                let seat = book.seat(place, Client::of(&Caller::Unasked, from));
                if !hand_over(&ready, Wire::Plain(stream), (Caller::Unasked, seat), from).await {
                    return;
                }
                continue;
            };
            let Some(greeting) = greetings.begin(from.map(|from| from.ip())) else {
                refused(from, &"too many connections from there have shown no certificate yet");
                continue;
            };
            let Ok(turn) = Arc::clone(&room).acquire_owned().await else { return };
            let (ready, book) = (ready.clone(), Arc::clone(&book));
            tokio::spawn(async move {
                let acceptor = TlsAcceptor::from(Arc::clone(&loaded.server));
                match tokio::time::timeout(HANDSHAKE, greet(&acceptor, stream)).await {
                    Ok(Ok((stream, caller))) => {
                        let seat = book.seat(place, Client::of(&caller, from));
                        let wire = Wire::Secured(Box::new(stream));
                        hand_over(&ready, wire, (caller, seat), from).await;
                    }
                    Ok(Err(error)) => refused(from, &error),
                    Err(_elapsed) => refused(from, &"no certificate shown in time"),
                }
                drop((turn, greeting));
            });
        }
    });
    ReceiverStream::new(taken)
}

/// Handshakes that are under way, by address.
#[derive(Debug, Default)]
struct Greetings(Mutex<HashMap<Option<IpAddr>, usize>>);

/// One handshake, until it is dropped.
#[derive(Debug)]
struct Greeting {
    all: Arc<Greetings>,
    from: Option<IpAddr>,
}

impl Greetings {
    /// Counts one in, unless there are too many with this address.
    fn begin(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Greeting> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(from).or_default();
        if *count >= ADDRESS_HANDSHAKES {
            return None;
        }
        *count += 1;
        Some(Greeting { all: Arc::clone(self), from })
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.from);
            }
        }
    }
}

/// Gives a connection to the server, if its client has not too many; `false` if the server has gone.
async fn hand_over(
    ready: &mpsc::Sender<io::Result<Taken>>,
    wire: Wire,
    (caller, seat): (Caller, Option<Seat>),
    from: Option<SocketAddr>,
) -> bool {
    match seat {
        Some(seat) => ready.send(Ok(Taken { wire, caller, seat })).await.is_ok(),
        None => {
            refused(from, &"its client has as many connections as it may have");
            true
        }
    }
}

/// Connections of processes at a socket, as they are taken.
pub(crate) fn take_local(
    listener: UnixListener,
    limits: LiveLimits,
) -> impl Stream<Item = io::Result<Taken>> {
    let book = Book::new(limits);
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
        let seat = book.place().and_then(|place| book.seat(place, client.clone()));
        let Some(seat) = seat else {
            info!(%client, "a connection was refused, as there are too many");
            return None;
        };
        Some(Ok(Taken { wire: Wire::Local(stream), caller: Caller::Unasked, seat }))
    })
}

fn refused(from: Option<SocketAddr>, error: &dyn std::fmt::Display) {
    let from = from.map_or_else(|| "an unknown address".to_owned(), |from| from.to_string());
    info!(%from, %error, "a connection was refused");
}

async fn greet(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> io::Result<(server::TlsStream<TcpStream>, Caller)> {
    let stream = acceptor.accept(stream).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let identities = named(certificates)?;
    Ok((stream, Caller::Known(identities)))
}

fn named(chain: Option<&[CertificateDer<'_>]>) -> io::Result<Vec<crate::identity::Identity>> {
    let first = chain.and_then(<[_]>::first).ok_or_else(|| denied("no certificate shown"))?;
    certificate_identities(first).map_err(denied)
}

fn denied(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Connects to a server and has it say who it is.
///
/// # Errors
///
/// The system's; a certificate that is not of this cluster, not for the server's name, or of somebody
/// who serves nobody.
pub(crate) async fn connect(
    uri: Uri,
    security: Security,
) -> io::Result<TokioIo<client::TlsStream<TcpStream>>> {
    let loaded = security.current().ok_or_else(|| denied("no certificates"))?;
    let stream = secure(&uri, Arc::clone(&loaded.client)).await?;
    let identities = named(stream.get_ref().1.peer_certificates())?;
    if !identities.iter().any(|identity| identity.role.serves()) {
        return Err(denied(format!("{} is no server", Caller::Known(identities))));
    }
    Ok(TokioIo::new(stream))
}

/// Connects to a server that has a certificate for the name it is called by.
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

impl AsyncRead for Taken {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Secured(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Local(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Taken {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Secured(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Local(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Wire::Secured(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Wire::Local(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Secured(stream) => stream.is_write_vectored(),
            Wire::Local(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            Wire::Secured(stream) => Pin::new(stream).poll_flush(context),
            Wire::Local(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Secured(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Local(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_handshakes() {
        let greetings = Arc::<Greetings>::default();
        let (noisy, quiet) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        let mut open: Vec<_> =
            (0..ADDRESS_HANDSHAKES).map(|_| greetings.begin(noisy).unwrap()).collect();
        assert!(greetings.begin(noisy).is_none());
        assert!(greetings.begin(quiet).is_some());
        open.pop();
        assert!(greetings.begin(noisy).is_some());
        drop(open);
        assert!(
            greetings.0.lock().unwrap().is_empty(),
            "nothing is remembered of those who have gone"
        );
    }
}
