//! TLS for switches that connect: both ends show a certificate, those of the switches need no names
//! of this system. That of a switch is checked again while its connection stands.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates::{CertificateFiles, SecurityError, Watched};
use crate::security::{Demand, client_verifier, unresumed_config};
use crate::shown_certificate::{CERTIFICATE_AGE, Rechecks, ShownCertificate, Verifier};

/// Certificates for connections of switches; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct SwitchTls(Arc<Watched<Loaded>>);

/// TLS settings made of the files.
#[derive(Debug)]
struct Loaded {
    server: Arc<ServerConfig>,
    /// Checks the certificates of switches; `server` has it, too.
    switches: Arc<dyn ClientCertVerifier>,
}

fn load(files: &CertificateFiles) -> Result<Loaded, SecurityError> {
    let switches = client_verifier(files, Demand::Required)?;
    let server = Arc::new(unresumed_config(files, Arc::clone(&switches))?);
    Ok(Loaded { server, switches })
}

impl Loaded {
    fn verifier(&self) -> Verifier {
        Verifier::Clients(Arc::clone(&self.switches))
    }
}

impl SwitchTls {
    /// Reads `tls.crt` and `tls.key` of a folder, `ca.crt` with the authority of the switches, and
    /// `ca.crl` if it is there; and again when they change.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn new(folder: &Path) -> Result<Self, SecurityError> {
        Ok(Self(Arc::new(Watched::new(CertificateFiles::in_folder(folder), load)?)))
    }

    /// Does the handshake of TLS 1.3.
    ///
    /// # Errors
    ///
    /// The error of the handshake: also of a switch without a certificate of the authority.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<SwitchStream> {
        let loaded = self.0.current().await;
        let stream = TlsAcceptor::from(Arc::clone(&loaded.server)).accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates();
        let shown = ShownCertificate::new(chain, loaded.verifier())?;
        let (current, rechecks) = (Arc::clone(&self.0), Rechecks::new());
        Ok(SwitchStream { stream, shown, current, rechecks })
    }
}

/// A TLS connection of a switch, which fails once the switch's certificate is not good any more.
#[derive(Debug)]
pub struct SwitchStream {
    stream: TlsStream<TcpStream>,
    shown: ShownCertificate,
    current: Arc<Watched<Loaded>>,
    rechecks: Rechecks,
}

impl SwitchStream {
    /// Checks the certificate where that is due; fails once it is not good any more.
    fn poll_certificate(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.rechecks.are_due(context) {
            let verifier = self.current.refreshed().verifier(); // this runs in polls
            let (now, time) = (Instant::now(), SystemTime::now());
            self.rechecks.fault = self.shown.fault(&verifier, now, time, CERTIFICATE_AGE);
        }
        self.rechecks.result()
    }
}

impl AsyncRead for SwitchStream {
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

impl AsyncWrite for SwitchStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use tempfile::TempDir;
    use time::{Duration, OffsetDateTime};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::authority::{Authority, Credentials};
    use crate::security::load_client;

    const HOST: &str = "127.0.0.1";
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

    fn folder(authority: &Authority, own: &Credentials) -> TempDir {
        let folder = TempDir::new().unwrap();
        let files = CertificateFiles::in_folder(folder.path());
        std::fs::write(&files.authority, &authority.credentials().certificate).unwrap();
        std::fs::write(&files.certificate, &own.certificate).unwrap();
        std::fs::write(&files.key, &own.key).unwrap();
        folder
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_ends_once_the_certificate_of_its_switch_is_revoked() {
        let now = OffsetDateTime::now_utc();
        let begin = now - Duration::hours(1);
        let authority = Authority::create(begin, Duration::days(2)).unwrap();
        let issue = || authority.issue(&[], &[HOST.to_owned()], begin, Duration::days(1)).unwrap();
        let (agents, switches) = (issue(), issue());
        let agent = folder(&authority, &agents);
        let client = folder(&authority, &switches);
        let client = load_client(&CertificateFiles::in_folder(client.path())).unwrap();
        let tls = SwitchTls::new(agent.path()).unwrap();
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connect = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let connector = TlsConnector::from(Arc::clone(&client.config));
            connector.connect(ServerName::try_from(HOST).unwrap(), stream).await.unwrap()
        };
        let accept = async {
            let (stream, _) = listener.accept().await.unwrap();
            tls.accept(stream).await.unwrap()
        };
        let (_switch, mut stream) = tokio::join!(connect, accept);
        let list = authority.revoke(&switches.certificate, None, now).unwrap();
        std::fs::write(CertificateFiles::in_folder(agent.path()).revocations(), list).unwrap();
        let read = timeout(PATIENCE, stream.read_u8()).await.expect("the connection ends");
        let error = read.unwrap_err().to_string();
        assert!(error.contains("Revoked"), "{error}");
    }
}
