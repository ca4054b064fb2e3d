//! TLS for browsers: the server shows its certificate, and a viewer may show one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates::{CertificateFiles, SecurityError, Watched};
use crate::identity::{Identity, certificate_identities};
use crate::security::{Demand, client_verifier, unresumed_config};

/// The only protocol of browsers that is spoken.
const PROTOCOL: &[u8] = b"http/1.1";

/// Certificates of a server for browsers; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct BrowserTls(Arc<Watched<ServerConfig>>);

impl BrowserTls {
    /// Reads `tls.crt` and `tls.key` of a folder, and `ca.crt` with the authority of viewers'
    /// certificates; and again when they change.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn new(folder: &Path) -> Result<Self, SecurityError> {
        Ok(Self(Arc::new(Watched::new(CertificateFiles::in_folder(folder), load)?)))
    }

    /// Does the handshake; returns the connection with the identities of the viewer, none without
    /// a certificate. One that is not of the authority ends the connection.
    ///
    /// # Errors
    ///
    /// The error of the handshake.
    pub async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Vec<Identity>)> {
        let stream = TlsAcceptor::from(self.0.current().await).accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        // A certificate that names nobody of this system is as good as none.
        let identities = shown.and_then(|own| certificate_identities(own).ok()).unwrap_or_default();
        Ok((stream, identities))
    }
}

fn load(files: &CertificateFiles) -> Result<ServerConfig, SecurityError> {
    let mut config = unresumed_config(files, client_verifier(files, Demand::Optional)?)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
