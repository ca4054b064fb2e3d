//! Connections of a client: TLS with a certificate at both ends, which ends once that of the server
//! is not good any more.
//!
//! The next call makes a new connection, which is checked in full.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::info;

use crate::identity::{Caller, Identity, Role};
use crate::log_budget::LogBudget;
use crate::security::{CurrentTls, LaterTls, Security};
use crate::shown_certificate::{CertificateFault, Rechecks, ShownCertificate, Verifier, denied};

/// Lines about connections that were closed.
static CLOSED: LogBudget = LogBudget::new();

/// Connects to a server of the cluster, and checks its certificate, now and while the connection
/// stands.
///
/// - `role`: `None` for any that serves.
///
/// # Errors
///
/// The error of the system, or a certificate that is not of this cluster, not for the name of the
/// server, or not for the role that is called.
pub(crate) async fn connect(
    uri: Uri,
    security: Security,
    role: Option<Role>,
) -> io::Result<TokioIo<OutgoingConnection>> {
    let current = security.client_tls().await.ok_or_else(|| denied("no certificates"))?;
    let connection = OutgoingConnection::open(&uri, current, security.certificate_age()).await?;
    let identities = connection.shown.identities()?;
    let serves = |one: &Identity| role.map_or(one.role.serves(), |role| one.role == role);
    if !identities.iter().any(serves) {
        let what = role.map_or("server", Role::word);
        return Err(denied(format!("{} is no {what}", Caller::Known(identities))));
    }
    Ok(TokioIo::new(connection))
}

/// A TLS connection to a server, which fails once the server's certificate is not good any more.
pub(crate) struct OutgoingConnection {
    stream: TlsStream<TcpStream>,
    /// `host:port`, for the log.
    address: String,
    name: ServerName<'static>,
    shown: ShownCertificate,
    current: LaterTls,
    age: Duration,
    rechecks: Rechecks,
}

impl OutgoingConnection {
    /// Connects, and checks that the certificate is for the host of `uri`.
    ///
    /// - `age`: time after which the certificate is checked again as a whole.
    ///
    /// # Errors
    ///
    /// The error of the system, or a certificate that is not good.
    pub(crate) async fn open(uri: &Uri, current: CurrentTls, age: Duration) -> io::Result<Self> {
        let host = uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let CurrentTls { now: tls, later: current } = current;
        let stream = TcpStream::connect((bare, uri.port_u16().unwrap_or_default())).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        let stream = connector.connect(name.clone(), stream).await?;
        let verifier = Verifier::Server { verifier: tls.servers.clone(), name: name.clone() };
        let shown = ShownCertificate::new(stream.get_ref().1.peer_certificates(), verifier)?;
        let address = uri.authority().map(ToString::to_string).unwrap_or_default();
        let rechecks = Rechecks::new();
        Ok(Self { stream, address, name, shown, current, age, rechecks })
    }

    /// Checks the certificate where that is due; fails once it is not good any more.
    fn poll_certificate(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.rechecks.are_due(context) {
            self.rechecks.fault = self.recheck();
        }
        self.rechecks.result()
    }

    /// Checks the certificate with the authority that was read last: this runs in polls.
    fn recheck(&mut self) -> Option<CertificateFault> {
        let verifier = Arc::clone(&(self.current)().servers);
        let verifier = Verifier::Server { verifier, name: self.name.clone() };
        let fault = self.shown.fault(&verifier, Instant::now(), SystemTime::now(), self.age)?;
        if let Some(unlogged) = CLOSED.take() {
            info!(peer = %self.address, error = fault.text(), unlogged, "a connection was closed");
        }
        Some(fault)
    }
}

impl AsyncRead for OutgoingConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        connection.poll_certificate(context)?;
        Pin::new(&mut connection.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for OutgoingConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        connection.poll_certificate(context)?;
        Pin::new(&mut connection.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        connection.poll_certificate(context)?;
        Pin::new(&mut connection.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        connection.poll_certificate(context)?;
        Pin::new(&mut connection.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
