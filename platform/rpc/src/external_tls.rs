//! TLS to servers of other programs that demand certificates, such as etcd.
//!
//! Such a server is checked by its authority and host name, also while a connection stands; its
//! certificate has no role. In TLS 1.3 a server checks the client's certificate after the
//! handshake, so its refusal arrives with the first read, where a caller would only see a broken
//! connection. The cause is recorded here, for the error message.

use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::certificates::{CertificateFiles, SecurityError, Watched};
use crate::outgoing_connection::OutgoingConnection;
use crate::security::{ClientTls, CurrentTls, load_client};
use crate::shown_certificate::CERTIFICATE_AGE;

/// Client certificates for servers of other programs; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct ExternalTls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    certificates: Arc<Watched<ClientTls>>,
    fault: Mutex<Option<String>>,
}

/// Phase of a connection in which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    /// The handshake is done and nothing has been read since.
    Fresh,
    Established,
}

impl ExternalTls {
    /// Reads `ca.crt`, `tls.crt` and `tls.key` of a folder, and again when they change.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn new(folder: &Path) -> Result<Self, SecurityError> {
        let files = CertificateFiles::in_folder(folder);
        let certificates = Arc::new(Watched::new(files, load_client)?);
        Ok(Self(Arc::new(Shared { certificates, fault: Mutex::default() })))
    }

    /// Connects to `host:port`.
    ///
    /// # Errors
    ///
    /// The error of the system, or an invalid certificate of the server.
    pub async fn connect(self, uri: Uri) -> io::Result<TokioIo<MonitoredStream>> {
        let certificates = Arc::clone(&self.0.certificates);
        let now = certificates.current().await;
        let current = CurrentTls { now, later: Box::new(move || certificates.refreshed()) };
        let server = uri.authority().map(ToString::to_string).unwrap_or_default();
        match OutgoingConnection::open(&uri, current, CERTIFICATE_AGE).await {
            Ok(stream) => Ok(TokioIo::new(MonitoredStream {
                stream,
                server,
                servers: self,
                phase: Phase::Fresh,
            })),
            Err(error) => {
                self.record(&server, &error, Phase::Handshake);
                Err(error)
            }
        }
    }

    /// The fault of certificates in the last connection; `None` if there was none.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.0.fault.lock().clone()
    }

    /// Records the error of a connection if certificates are its cause.
    fn record(&self, server: &str, error: &io::Error, phase: Phase) {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let files = self.0.certificates.files();
        let own = files.certificate.display();
        let mut fault = self.0.fault.lock();
        match (cause, error.kind()) {
            (Some(cause @ rustls::Error::InvalidCertificate(_)), _) => {
                let authority = files.authority.display();
                *fault = Some(format!(
                    "the certificate of {server} is not good by {authority}: {cause}"
                ));
            }
            (Some(cause @ rustls::Error::AlertReceived(_)), _) => {
                *fault = Some(format!("{server} does not accept {own}: {cause}"));
            }
            (Some(cause), _) => *fault = Some(format!("no TLS with {server}: {cause}")),
            (None, io::ErrorKind::ConnectionRefused) => *fault = None,
            // A server that resets the connection may discard its own alert before it is read.
            (None, _) if phase == Phase::Fresh && fault.is_none() => {
                *fault = Some(format!("{server} does not accept {own}: it hung up"));
            }
            // A server that speaks no TLS ends the connection, or resets it.
            (
                None,
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe,
            ) if phase == Phase::Handshake => {
                *fault = Some(format!("no TLS with {server}: it hung up"));
            }
            (None, _) => {}
        }
    }

    fn clear(&self) {
        *self.0.fault.lock() = None;
    }
}

/// A connection that records whether its server refuses the client's certificate.
pub struct MonitoredStream {
    stream: OutgoingConnection,
    server: String,
    servers: ExternalTls,
    phase: Phase,
}

impl fmt::Debug for MonitoredStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MonitoredStream")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl MonitoredStream {
    /// Records that a server hung up before it answered anything: that may be seen here before its
    /// alert is read.
    fn note<T>(&self, sent: &Poll<io::Result<T>>) {
        if let Poll::Ready(Err(error)) = sent
            && self.phase == Phase::Fresh
        {
            self.servers.record(&self.server, error, self.phase);
        }
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match &read {
            Poll::Ready(Err(error)) => self.servers.record(&self.server, error, self.phase),
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                if self.phase == Phase::Fresh {
                    self.servers.clear();
                }
                self.phase = Phase::Established;
            }
            Poll::Ready(Ok(())) if self.phase == Phase::Fresh => {
                let end = io::ErrorKind::UnexpectedEof.into();
                self.servers.record(&self.server, &end, self.phase);
            }
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        read
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.note(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
