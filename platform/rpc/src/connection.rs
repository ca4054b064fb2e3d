//! Connections of a server: in plain text, or TLS with a certificate at both ends.
//!
//! Servers accept TLS connections themselves and not in tonic, which cannot replace its certificate
//! while it runs.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use crate::client_limiter::{ConnectionInfo, ConnectionPermit};
use crate::identity::Caller;
use crate::local_process::LocalProcess;
use crate::network::Connection;
use crate::open_connections::OpenConnection;

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
