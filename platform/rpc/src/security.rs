//! Security of connections: certificates, which are read again when their files change.
//!
//! Every process of a cluster has a certificate of the cluster's authority, which it uses as server
//! and as client. Connections are TLS 1.3 with a certificate at both ends. Before a connection is
//! made or accepted, and once a second for those that stand, the files are checked for changes,
//! unless they were 0.9 s before. A new certificate applies to every later connection; an invalid
//! one is logged, and the old one stays in force. Connections that stand use what was read last: no
//! poll waits for a file.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::certificates::{
    CertificateFiles, SecurityError, Watched, authorities, certificates, private_key, revocations,
};
use crate::identity::{Identity, certificate_identities};
use crate::limits::{Limits, LiveLimits};
use crate::network::Network;
use crate::shown_certificate::{CERTIFICATE_AGE, Verifier};

/// HTTP/2, the only protocol of gRPC.
const PROTOCOL: &[u8] = b"h2";

/// Security of the connections of a process, both as client and server; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// `None` for plain text.
    certificates: Option<Arc<Watched<Loaded>>>,
    limits: LiveLimits,
    /// Only parts on this machine may be called in plain text.
    local: bool,
    /// Time after which certificates of connections are checked again.
    certificate_age: Option<Duration>,
    /// `None` for the network of the system.
    network: Option<Arc<dyn Network>>,
}

/// TLS settings made of the files.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) server: Arc<ServerConfig>,
    client: Arc<ClientTls>,
    /// Checks the certificates of clients.
    clients: Arc<dyn ClientCertVerifier>,
    identities: Vec<Identity>,
}

impl Loaded {
    /// Checks the certificates of clients.
    pub(crate) fn client_verifier(&self) -> Verifier {
        Verifier::Clients(Arc::clone(&self.clients))
    }
}

/// TLS settings of a client.
#[derive(Debug)]
pub(crate) struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    /// Checks the certificates of servers; `config` has it, too.
    pub(crate) servers: Arc<WebPkiServerVerifier>,
}

/// TLS settings of a client, for a connection.
pub(crate) struct CurrentTls {
    /// As the files have them.
    pub(crate) now: Arc<ClientTls>,
    /// Gives those that were read last, without waiting for the files.
    pub(crate) later: LaterTls,
}

/// Gives the TLS settings that were read last.
pub(crate) type LaterTls = Box<dyn Fn() -> Arc<ClientTls> + Send + Sync>;

impl Security {
    /// Plain text, for a single machine or an isolated network.
    #[must_use]
    pub fn plaintext() -> Self {
        Self::default()
    }

    /// Plain text, which refuses to call other machines.
    #[must_use]
    pub fn local() -> Self {
        Self { local: true, ..Self::default() }
    }

    /// Plain text over a network other than the system's.
    #[must_use]
    pub fn over(network: Arc<dyn Network>) -> Self {
        Self { network: Some(network), ..Self::default() }
    }

    /// TLS with a certificate at both ends.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn mutual(files: CertificateFiles) -> Result<Self, SecurityError> {
        let certificates = Some(Arc::new(Watched::new(files, load)?));
        Ok(Self { certificates, ..Self::default() })
    }

    /// Sets the limits of each client of this process's servers.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits.into();
        self
    }

    /// Changes the limits of all servers with this security. Existing connections are kept, even
    /// over the new limits.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
    }

    /// Sets the time after which the certificate at the other end of a connection is checked again,
    /// 5 minutes if it is not set. Expiry and revocation count at once.
    #[must_use]
    pub fn with_certificate_age(mut self, age: Duration) -> Self {
        self.certificate_age = Some(age);
        self
    }

    pub(crate) fn certificate_age(&self) -> Duration {
        self.certificate_age.unwrap_or(CERTIFICATE_AGE)
    }

    /// The same limits without certificates, for a socket of this machine.
    pub(crate) fn for_socket(&self) -> Self {
        Self { limits: self.limits.clone(), ..Self::default() }
    }

    pub(crate) fn network(&self) -> Option<Arc<dyn Network>> {
        self.network.clone()
    }

    pub(crate) fn limits(&self) -> LiveLimits {
        self.limits.clone()
    }

    /// True if connections are TLS with a certificate at both ends.
    #[must_use]
    pub fn is_mutual(&self) -> bool {
        self.certificates.is_some()
    }

    /// True if only parts on this machine may be called.
    pub(crate) fn is_local(&self) -> bool {
        self.local
    }

    /// Identities of this process, for logs; none with plain text.
    #[must_use]
    pub fn identities(&self) -> Vec<Identity> {
        let known = self.certificates.as_ref().map(|certificates| certificates.known());
        known.map(|loaded| loaded.identities.clone()).unwrap_or_default()
    }

    /// The settings for calls, and their later changes; `None` with plain text.
    pub(crate) async fn client_tls(&self) -> Option<CurrentTls> {
        let certificates = Arc::clone(self.certificates.as_ref()?);
        let now = Arc::clone(&certificates.current().await.client);
        let later = Box::new(move || Arc::clone(&certificates.refreshed().client));
        Some(CurrentTls { now, later })
    }

    /// The certificates in force; `None` with plain text.
    pub(crate) async fn current(&self) -> Option<Arc<Loaded>> {
        match &self.certificates {
            Some(certificates) => Some(certificates.current().await),
            None => None,
        }
    }
}

fn load(files: &CertificateFiles) -> Result<Loaded, SecurityError> {
    let clients = client_verifier(files, Demand::Required)?;
    let chain = certificates(&files.certificate)?;
    let identities = certificate_identities(&chain[0])
        .map_err(|source| SecurityError::Nameless { path: files.certificate.clone(), source })?;
    let mut server = server_config(files, Arc::clone(&clients))?;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    let client = Arc::new(load_client(files)?);
    Ok(Loaded { server: Arc::new(server), client, clients, identities })
}

/// Demand that clients show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    Required,
    Optional,
}

/// Checks the certificates that clients show.
pub(crate) fn client_verifier(
    files: &CertificateFiles,
    demand: Demand,
) -> Result<Arc<dyn ClientCertVerifier>, SecurityError> {
    let roots = Arc::new(authorities(&files.authority)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut clients = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if let Some(list) = revocations(files)? {
        clients = clients.with_crls([list]).allow_unknown_revocation_status();
    }
    if demand == Demand::Optional {
        clients = clients.allow_unauthenticated();
    }
    clients
        .build()
        .map_err(|source| SecurityError::Authority { path: files.authority.clone(), source })
}

/// TLS settings of a server with these certificates.
fn server_config(
    files: &CertificateFiles,
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, SecurityError> {
    let (chain, key) = (certificates(&files.certificate)?, private_key(&files.key)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|source| unfit(files, source))?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(|source| unfit(files, source))
}

/// TLS settings of a server that does not look at certificates itself: each connection shows its
/// own, as a resumed session would hide that it has expired meanwhile.
pub(crate) fn unresumed_config(
    files: &CertificateFiles,
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, SecurityError> {
    let mut config = server_config(files, clients)?;
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Checks the certificates that servers show.
pub(crate) fn server_verifier(
    files: &CertificateFiles,
) -> Result<Arc<WebPkiServerVerifier>, SecurityError> {
    let roots = Arc::new(authorities(&files.authority)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut servers = WebPkiServerVerifier::builder_with_provider(roots, provider);
    if let Some(list) = revocations(files)? {
        servers = servers.with_crls([list]).allow_unknown_revocation_status();
    }
    servers
        .build()
        .map_err(|source| SecurityError::Authority { path: files.authority.clone(), source })
}

/// TLS settings of a client with these certificates.
///
/// - `servers`: one that checks the authority of servers, as [`server_verifier`].
pub(crate) fn client_config(
    files: &CertificateFiles,
    servers: Arc<dyn ServerCertVerifier>,
) -> Result<ClientConfig, SecurityError> {
    let (chain, key) = (certificates(&files.certificate)?, private_key(&files.key)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|source| unfit(files, source))?
        .dangerous()
        .with_custom_certificate_verifier(servers)
        .with_client_auth_cert(chain, key)
        .map_err(|source| unfit(files, source))
}

/// TLS settings of a client: its certificate, and the authority to trust.
pub(crate) fn load_client(files: &CertificateFiles) -> Result<ClientTls, SecurityError> {
    let servers = server_verifier(files)?;
    let mut client = client_config(files, servers.clone())?;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(ClientTls { config: Arc::new(client), servers })
}

fn unfit(files: &CertificateFiles, source: rustls::Error) -> SecurityError {
    let (certificate, key) = (files.certificate.clone(), files.key.clone());
    SecurityError::Pair { certificate, key, source }
}
