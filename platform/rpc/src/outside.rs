//! Connections to servers of other programs that want certificates, such as etcd.
//!
//! Such a server is believed by its authority and the name it was called by; it says nothing of roles.
//! In TLS 1.3 a server looks at a client's certificate after the client has begun to speak, so a refusal
//! comes with the first answer; whoever made the call would be told that a connection broke. What was
//! wrong is noted here, for whoever gives up.

use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::certificates::{CertificateFiles, SecurityError, Watched};
use crate::connection;
use crate::security::load_client;

/// Certificates for servers of other programs; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct OutsideServers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    certificates: Watched<ClientConfig>,
    fault: Mutex<Option<String>>,
}

impl OutsideServers {
    /// Reads the certificates of a folder, named as for every part: `ca.crt`, `tls.crt`, `tls.key`. They are
    /// read again when they change.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn new(folder: &Path) -> Result<Self, SecurityError> {
        let files = CertificateFiles::in_folder(folder);
        let certificates = Watched::new(files, load_client)?;
        Ok(Self(Arc::new(Shared { certificates, fault: Mutex::default() })))
    }

    /// Connects to `host:port`.
    ///
    /// # Errors
    ///
    /// The system's; a certificate that is not believed, or not for this host.
    pub async fn connect(self, uri: Uri) -> io::Result<TokioIo<Watchful>> {
        let config = self.0.certificates.current();
        let server = uri.authority().map(ToString::to_string).unwrap_or_default();
        match connection::secure(&uri, config).await {
            Ok(stream) => {
                Ok(TokioIo::new(Watchful { stream, server, servers: self, heard: false }))
            }
            Err(error) => {
                self.note(&server, &error, false);
                Err(error)
            }
        }
    }

    /// What was wrong with certificates when a server was last spoken to; `None` if nothing was.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what kept a connection from being used.
    ///
    /// - `greeted`: whether certificates were exchanged before that, and nothing has been heard since.
    fn note(&self, server: &str, error: &io::Error, greeted: bool) {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let files = self.0.certificates.files();
        let own = files.certificate.display();
        let mut fault = self.0.fault.lock().unwrap_or_else(PoisonError::into_inner);
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
            // Whoever hangs up in a hurry takes back what he has said before it was read.
            (None, _) if greeted && fault.is_none() => {
                *fault = Some(format!("{server} does not accept {own}: it hung up"));
            }
            (None, io::ErrorKind::UnexpectedEof) if !greeted => {
                *fault = Some(format!("no TLS with {server}: it hung up"));
            }
            (None, _) => {}
        }
    }

    fn forget(&self) {
        *self.0.fault.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A connection that notes what its server says of the certificate shown.
pub struct Watchful {
    stream: TlsStream<TcpStream>,
    server: String,
    servers: OutsideServers,
    /// Whether the server has said anything since certificates were exchanged.
    heard: bool,
}

impl fmt::Debug for Watchful {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watchful").field("server", &self.server).finish_non_exhaustive()
    }
}

impl AsyncRead for Watchful {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match &read {
            Poll::Ready(Err(error)) => self.servers.note(&self.server, error, !self.heard),
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                if !self.heard {
                    self.servers.forget();
                }
                self.heard = true;
            }
            Poll::Ready(Ok(())) if !self.heard => {
                let end = io::ErrorKind::UnexpectedEof.into();
                self.servers.note(&self.server, &end, true);
            }
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        read
    }
}

impl AsyncWrite for Watchful {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
