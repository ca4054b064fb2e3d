//! TLS to switches, whichever end connects: both ends show a certificate. That of a switch needs a
//! name neither of this system nor of its host, and is checked again while its connection stands.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::certificates::{CertificateFiles, SecurityError, Watched};
use crate::security::{Demand, client_config, client_verifier, server_verifier, unresumed_config};
use crate::shown_certificate::{CERTIFICATE_AGE, Rechecks, ShownCertificate, Verifier};

/// Certificates for connections of switches; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct SwitchTls(Arc<Watched<Loaded>>);

/// TLS settings made of the files.
#[derive(Debug)]
struct Loaded {
    server: Arc<ServerConfig>,
    /// Checks the certificates of switches that connect; `server` has it, too.
    connecting: Arc<dyn ClientCertVerifier>,
    client: Arc<ClientConfig>,
    /// Checks the certificates of switches that are connected to; `client` has it, too.
    listening: Arc<dyn ServerCertVerifier>,
}

fn load(files: &CertificateFiles) -> Result<Loaded, SecurityError> {
    let connecting = client_verifier(files, Demand::Required)?;
    let server = Arc::new(unresumed_config(files, Arc::clone(&connecting))?);
    let listening: Arc<dyn ServerCertVerifier> = Arc::new(AnyHost(server_verifier(files)?));
    let mut client = client_config(files, Arc::clone(&listening))?;
    client.resumption = Resumption::disabled(); // a resumed session shows no certificate
    Ok(Loaded { server, connecting, client: Arc::new(client), listening })
}

impl Loaded {
    /// - `called`: host of a switch that is connected to; `None` for one that has connected.
    fn verifier(&self, called: Option<&ServerName<'static>>) -> Verifier {
        match called {
            None => Verifier::Clients(Arc::clone(&self.connecting)),
            Some(name) => {
                let verifier = Arc::clone(&self.listening);
                Verifier::Server { verifier, name: name.clone() }
            }
        }
    }
}

/// Checks the certificate of a switch that is connected to as that of one which connects: by the
/// authority alone, for switches' own certificates do not name their hosts.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(end_entity, intermediates, host, ocsp_response, now) {
            // The name is looked at last, in a certificate that is good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
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

    /// Does the handshake of TLS 1.3 with a switch that has connected.
    ///
    /// # Errors
    ///
    /// The error of the handshake: also of a switch without a certificate of the authority.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<SwitchStream> {
        let loaded = self.0.current().await;
        let stream = TlsAcceptor::from(Arc::clone(&loaded.server)).accept(stream).await?;
        self.check(stream.into(), &loaded, None)
    }

    /// Does the handshake of TLS 1.3 with a switch that was connected to.
    ///
    /// # Errors
    ///
    /// As those of [`Self::accept`]. A switch that refuses the certificate of this end says so
    /// later, when it is read from.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<SwitchStream> {
        let loaded = self.0.current().await;
        let host = ServerName::from(stream.peer_addr()?.ip());
        let connector = TlsConnector::from(Arc::clone(&loaded.client));
        let stream = connector.connect(host.clone(), stream).await?;
        self.check(stream.into(), &loaded, Some(host))
    }

    /// Takes the certificate that the switch has shown, to check it while the connection stands.
    fn check(
        &self,
        stream: TlsStream<TcpStream>,
        loaded: &Loaded,
        called: Option<ServerName<'static>>,
    ) -> io::Result<SwitchStream> {
        let chain = stream.get_ref().1.peer_certificates();
        let shown = ShownCertificate::new(chain, loaded.verifier(called.as_ref()))?;
        let (current, rechecks) = (Arc::clone(&self.0), Rechecks::new());
        Ok(SwitchStream { stream, shown, called, current, rechecks })
    }
}

/// A TLS connection of a switch, which fails once the switch's certificate is not good any more.
#[derive(Debug)]
pub struct SwitchStream {
    stream: TlsStream<TcpStream>,
    shown: ShownCertificate,
    /// Host of a switch that was connected to.
    called: Option<ServerName<'static>>,
    current: Arc<Watched<Loaded>>,
    rechecks: Rechecks,
}

impl SwitchStream {
    /// Checks the certificate where that is due; fails once it is not good any more.
    fn poll_certificate(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.rechecks.are_due(context) {
            let verifier = self.current.refreshed().verifier(self.called.as_ref()); // runs in polls
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
    use tempfile::TempDir;
    use time::{Duration, OffsetDateTime};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;
    use crate::authority::{Authority, Credentials};

    const HOST: &str = "127.0.0.1";
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

    fn authority() -> Authority {
        Authority::create(begin(), Duration::days(2)).unwrap()
    }

    fn begin() -> OffsetDateTime {
        OffsetDateTime::now_utc() - Duration::hours(1)
    }

    /// - `name`: a host, or another name.
    fn issue(authority: &Authority, name: &str) -> Credentials {
        authority.issue(&[], &[name.to_owned()], begin(), Duration::days(1)).unwrap()
    }

    /// An agent or a switch that trusts an authority, and its folder.
    fn party(trusted: &Authority, own: &Credentials) -> (SwitchTls, TempDir) {
        let folder = TempDir::new().unwrap();
        let files = CertificateFiles::in_folder(folder.path());
        files.write(trusted, own).unwrap();
        (SwitchTls::new(folder.path()).unwrap(), folder)
    }

    /// Both ends of a connection that one party makes to another.
    async fn connection(caller: &SwitchTls, called: &SwitchTls) -> io::Result<[SwitchStream; 2]> {
        let listener = TcpListener::bind((HOST, 0)).await?;
        let address = listener.local_addr()?;
        let connect = async { caller.connect(TcpStream::connect(address).await?).await };
        let accept = async { called.accept(listener.accept().await?.0).await };
        let (calling, called) = tokio::join!(connect, accept);
        Ok([calling?, called?])
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_ends_once_the_certificate_of_its_switch_is_revoked() {
        let ours = authority();
        let own = issue(&ours, "leaf0");
        let (agent, folder) = party(&ours, &issue(&ours, HOST));
        let (switch, _folder) = party(&ours, &own);
        let [_calling, accepted] = connection(&switch, &agent).await.unwrap();
        let [made, _called] = connection(&agent, &switch).await.unwrap();
        let list = ours.revoke(&own.certificate, None, OffsetDateTime::now_utc()).unwrap();
        std::fs::write(CertificateFiles::in_folder(folder.path()).revocations(), list).unwrap();
        for mut stream in [accepted, made] {
            let read = timeout(PATIENCE, stream.read_u8()).await.expect("the connection ends");
            let error = read.unwrap_err().to_string();
            assert!(error.contains("Revoked"), "{error}");
        }
        let refused = connection(&agent, &switch).await.unwrap_err().to_string();
        assert!(refused.contains("Revoked"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_switch_that_is_connected_to_is_known_by_its_authority_and_not_by_its_host() {
        let (ours, theirs) = (authority(), authority());
        let (agent, _folder) = party(&ours, &issue(&ours, HOST));
        for name in ["leaf0", HOST] {
            let (switch, _folder) = party(&ours, &issue(&ours, name));
            connection(&agent, &switch).await.unwrap();
            let (foreign, _folder) = party(&ours, &issue(&theirs, name));
            let refused = connection(&agent, &foreign).await.unwrap_err().to_string();
            // Both authorities have one name.
            assert!(refused.contains("BadSignature"), "{name}: {refused}");
        }
    }
}
