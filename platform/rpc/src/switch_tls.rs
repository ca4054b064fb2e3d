//! TLS for switches that connect: both ends show a certificate, those of the switches need no names
//! of this system.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates::{CertificateFiles, SecurityError, Watched};
use crate::security::{Demand, unresumed_config};

/// Certificates for connections of switches; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct SwitchTls(Arc<Watched<ServerConfig>>);

impl SwitchTls {
    /// Reads `tls.crt` and `tls.key` of a folder, and `ca.crt` with the authority of the switches;
    /// and again when they change.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn new(folder: &Path) -> Result<Self, SecurityError> {
        let load = |files: &CertificateFiles| unresumed_config(files, Demand::Required);
        Ok(Self(Arc::new(Watched::new(CertificateFiles::in_folder(folder), load)?)))
    }

    /// Does the handshake of TLS 1.3.
    ///
    /// # Errors
    ///
    /// The error of the handshake: also of a switch without a certificate of the authority.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.0.current().await).accept(stream).await
    }
}
