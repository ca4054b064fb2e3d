//! Connections: in plain text, or TLS with a certificate at both ends.
//!
//! Servers accept TLS connections themselves and not in tonic, which cannot replace its certificate
//! while it runs.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsConnector, client, server};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use crate::client_limiter::{ConnectionInfo, ConnectionPermit};
use crate::identity::{Caller, Identity, Role, certificate_identities};
use crate::local_process::LocalProcess;
use crate::network::Connection;
use crate::open_connections::OpenConnection;
use crate::security::Security;
use crate::shown_certificate::denied;

/// A connection whose client is known and within its limits.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    transport: Transport,
    caller: Caller,
    permit: ConnectionPermit,
    open: OpenConnection,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Secured(Box<server::TlsStream<TcpStream>>),
    Local(UnixStream),
    Simulated(Box<dyn Connection>),
}

impl AcceptedConnection {
    pub(crate) fn new(
        transport: Transport,
        caller: Caller,
        permit: ConnectionPermit,
        open: OpenConnection,
    ) -> Self {
        let closing = Box::pin(open.closing().cancelled_owned());
        Self { transport, caller, permit, open, closing }
    }

    /// Fails once the connection has to be closed.
    fn poll_closing(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.closing.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Connected for AcceptedConnection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        let process = match &self.transport {
            Transport::Local(stream) => stream.peer_cred().ok().map(LocalProcess::from),
            Transport::Plain(_) | Transport::Secured(_) | Transport::Simulated(_) => None,
        };
        self.permit.info(self.caller.clone(), process, self.open.usage())
    }
}

fn identities_of(chain: Option<&[CertificateDer<'_>]>) -> io::Result<Vec<Identity>> {
    let first = chain.and_then(<[_]>::first).ok_or_else(|| denied("no certificate shown"))?;
    certificate_identities(first).map_err(denied)
}

/// Connects to a server of the cluster and checks its certificate.
///
/// # Errors
///
/// The error of the system, or a certificate that is not of this cluster, not for the name of the
/// server, or not for the role that is called.
///
/// - `role`: `None` for any that serves.
pub(crate) async fn connect(
    uri: Uri,
    security: Security,
    role: Option<Role>,
) -> io::Result<TokioIo<client::TlsStream<TcpStream>>> {
    let loaded = security.current().ok_or_else(|| denied("no certificates"))?;
    let stream = secure(&uri, Arc::clone(&loaded.client)).await?;
    let identities = identities_of(stream.get_ref().1.peer_certificates())?;
    let serves = |one: &Identity| role.map_or(one.role.serves(), |role| one.role == role);
    if !identities.iter().any(serves) {
        let what = role.map_or("server", Role::word);
        return Err(denied(format!("{} is no {what}", Caller::Known(identities))));
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

impl Transport {
    fn stream(&mut self) -> Pin<&mut dyn Connection> {
        match self {
            Self::Plain(stream) => Pin::new(stream),
            Self::Secured(stream) => Pin::new(stream),
            Self::Local(stream) => Pin::new(stream),
            Self::Simulated(stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for AcceptedConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        connection.poll_closing(context)?;
        let before = buffer.filled().len();
        let read = connection.transport.stream().poll_read(context, buffer);
        connection.open.received(buffer.filled().len().saturating_sub(before));
        read
    }
}

impl AsyncWrite for AcceptedConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        connection.poll_closing(context)?;
        connection.transport.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        connection.poll_closing(context)?;
        connection.transport.stream().poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Secured(stream) => stream.is_write_vectored(),
            Transport::Local(stream) => stream.is_write_vectored(),
            Transport::Simulated(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().transport.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().transport.stream().poll_shutdown(context)
    }
}
