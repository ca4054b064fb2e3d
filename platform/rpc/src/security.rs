//! Who may connect: certificates, read again when their files change.
//!
//! Every process of a cluster has a certificate of the cluster's authority, which it shows as a server and as a
//! client alike. Connections are TLS 1.3, both ends named. The files are looked at again before a connection
//! is made or taken, at most once a second: a certificate that replaced another is in use for every connection
//! from then on, and one that cannot be used is reported and leaves the old one in force.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::certificates::{
    CertificateFiles, SecurityError, Watched, authorities, certificates, private_key,
};
use crate::client::{Peer, PeerError};
use crate::identity::{Identity, certificate_identities};
use crate::leader::Leader;
use crate::limits::{Limits, LiveLimits};

/// HTTP/2, which is all that gRPC speaks.
const PROTOCOL: &[u8] = b"h2";

/// How a process connects to others and lets others connect; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// `None` for plain text.
    certificates: Option<Arc<Watched<Loaded>>>,
    limits: LiveLimits,
    /// Without certificates, others on this machine only are called.
    local: bool,
}

/// What the files hold.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
    identities: Vec<Identity>,
}

impl Security {
    /// Plain text: for one machine, or a network that lets nobody else in.
    #[must_use]
    pub fn plaintext() -> Self {
        Self::default()
    }

    /// Plain text, and nobody on another machine is called.
    #[must_use]
    pub fn local() -> Self {
        Self { local: true, ..Self::default() }
    }

    /// Certificates on both ends.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn mutual(files: CertificateFiles) -> Result<Self, SecurityError> {
        let certificates = Some(Arc::new(Watched::new(files, load)?));
        Ok(Self { certificates, ..Self::default() })
    }

    /// What each client may ask of the servers of this process, if not what is usual.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits.into();
        self
    }

    /// Grants so much from now on, at every listener that has this: whoever has more connections keeps them.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
    }

    pub(crate) fn limits(&self) -> LiveLimits {
        self.limits.clone()
    }

    /// Whether connections are encrypted and both ends named.
    #[must_use]
    pub fn is_mutual(&self) -> bool {
        self.certificates.is_some()
    }

    /// Whether others on this machine only may be called.
    pub(crate) fn is_local(&self) -> bool {
        self.local
    }

    /// Who this process is, for logs; nobody with plain text.
    #[must_use]
    pub fn identities(&self) -> Vec<Identity> {
        self.current().map(|loaded| loaded.identities.clone()).unwrap_or_default()
    }

    /// Prepares a channel to `host:port`; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if the address cannot be parsed.
    pub fn peer(&self, address: &str) -> Result<Peer, PeerError> {
        Peer::secured(address, self.clone())
    }

    /// Prepares calls to one of several parts; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if there is none, or one cannot be parsed.
    pub fn leader(&self, addresses: &[String]) -> Result<Leader, PeerError> {
        Leader::secured(addresses, self.clone())
    }

    /// What is in force now; `None` with plain text.
    pub(crate) fn current(&self) -> Option<Arc<Loaded>> {
        self.certificates.as_ref().map(|certificates| certificates.current())
    }
}

fn load(files: &CertificateFiles) -> Result<Loaded, SecurityError> {
    let (roots, chain) =
        (Arc::new(authorities(&files.authority)?), certificates(&files.certificate)?);
    let identities = certificate_identities(&chain[0])
        .map_err(|source| SecurityError::Nameless { path: files.certificate.clone(), source })?;
    let key = private_key(&files.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let refused = |source| SecurityError::Authority { path: files.authority.clone(), source };
    let unfit = |source| unfit(files, source);
    let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(refused)?;
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(unfit)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(unfit)?;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Loaded { server: Arc::new(server), client: Arc::new(load_client(files)?), identities })
}

/// What a client shows and believes.
pub(crate) fn load_client(files: &CertificateFiles) -> Result<ClientConfig, SecurityError> {
    let roots = Arc::new(authorities(&files.authority)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let servers = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|source| SecurityError::Authority { path: files.authority.clone(), source })?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|source| unfit(files, source))?
        .with_webpki_verifier(servers)
        .with_client_auth_cert(certificates(&files.certificate)?, private_key(&files.key)?)
        .map_err(|source| unfit(files, source))?;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(client)
}

fn unfit(files: &CertificateFiles, source: rustls::Error) -> SecurityError {
    let (certificate, key) = (files.certificate.clone(), files.key.clone());
    SecurityError::Pair { certificate, key, source }
}
