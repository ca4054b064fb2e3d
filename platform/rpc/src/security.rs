//! Who may connect: certificates, read again when their files change.
//!
//! Every process of a cluster has a certificate of the cluster's authority, which it shows as a server and as a
//! client alike. Connections are TLS 1.3, both ends named. The files are looked at again before a connection
//! is made or taken, at most once a second: a certificate that replaced another is in use for every connection
//! from then on, and one that cannot be used is reported and leaves the old one in force.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;
use tracing::{info, warn};

use crate::client::{Peer, PeerError};
use crate::identity::{Identity, NamelessError, identities};
use crate::leader::Leader;

/// The files are looked at at most so often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// HTTP/2, which is all that gRPC speaks.
const PROTOCOL: &[u8] = b"h2";

/// Where a process finds its certificate; all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificates of the authorities whose certificates are believed.
    pub authority: PathBuf,
    /// The certificate of this process, followed by those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why certificates cannot be used.
#[derive(Debug, Error)]
pub enum SecurityError {
    /// A file cannot be read, or has nothing of the kind in it.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The certificate names nobody.
    #[error("{path}: {source}")]
    Nameless {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NamelessError,
    },
    /// Certificate and key do not go together, or cannot be used.
    #[error("{certificate} with {key}: {source}")]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authority's certificates cannot be used.
    #[error("{path}: {source}")]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        source: VerifierBuilderError,
    },
}

/// How a process connects to others and lets others connect; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Security(Option<Arc<Certificates>>);

#[derive(Debug)]
struct Certificates {
    files: CertificateFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    loaded: Arc<Loaded>,
    /// Of the files when they were last tried.
    stamps: Stamps,
    looked: Instant,
}

/// When each file was last written, and how long it is.
type Stamps = [Option<(SystemTime, u64)>; 3];

/// What the files hold.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
    identities: Vec<Identity>,
}

impl CertificateFiles {
    /// As cert-manager names them: `ca.crt`, `tls.crt` and `tls.key` in one folder.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            authority: folder.join("ca.crt"),
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
        }
    }
}

impl Security {
    /// Plain text: for one machine, or a network that lets nobody else in.
    #[must_use]
    pub fn plaintext() -> Self {
        Self(None)
    }

    /// Certificates on both ends.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] names the file and what is wrong with it.
    pub fn mutual(files: CertificateFiles) -> Result<Self, SecurityError> {
        let stamps = stamps(&files);
        let loaded = Arc::new(load(&files)?);
        let state = Mutex::new(State { loaded, stamps, looked: Instant::now() });
        Ok(Self(Some(Arc::new(Certificates { files, state }))))
    }

    /// Whether connections are encrypted and both ends named.
    #[must_use]
    pub fn is_mutual(&self) -> bool {
        self.0.is_some()
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
        self.0.as_ref().map(|certificates| certificates.current())
    }
}

impl Certificates {
    fn current(&self) -> Arc<Loaded> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_AGAIN {
            state.looked = Instant::now();
            let stamps = stamps(&self.files);
            if stamps != state.stamps {
                state.stamps = stamps;
                match load(&self.files) {
                    Ok(loaded) => {
                        info!(path = %self.files.certificate.display(), "certificate read again");
                        state.loaded = Arc::new(loaded);
                    }
                    Err(error) => warn!(%error, "the old certificate stays in force"),
                }
            }
        }
        Arc::clone(&state.loaded)
    }
}

fn stamps(files: &CertificateFiles) -> Stamps {
    [&files.authority, &files.certificate, &files.key].map(|path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn load(files: &CertificateFiles) -> Result<Loaded, SecurityError> {
    let authority = Path::new(&files.authority);
    let mut roots = RootCertStore::empty();
    for root in certificates(authority)? {
        let refused = |error: rustls::Error| file(authority, error.to_string());
        roots.add(root).map_err(refused)?;
    }
    let (roots, chain) = (Arc::new(roots), certificates(&files.certificate)?);
    let identities = identities(&chain[0])
        .map_err(|source| SecurityError::Nameless { path: files.certificate.clone(), source })?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| file(&files.key, pem_fault(&error)))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let refused = |source| SecurityError::Authority { path: files.authority.clone(), source };
    let unfit = |source| SecurityError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        source,
    };
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(refused)?;
    let servers = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(refused)?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(unfit)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(unfit)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(unfit)?
        .with_webpki_verifier(servers)
        .with_client_auth_cert(chain, key)
        .map_err(unfit)?;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Loaded { server: Arc::new(server), client: Arc::new(client), identities })
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    let found = found.map_err(|error| file(path, pem_fault(&error)))?;
    if found.is_empty() { Err(file(path, "no certificate in it")) } else { Ok(found) }
}

fn file(path: &Path, what: impl Into<String>) -> SecurityError {
    SecurityError::File { path: path.to_owned(), what: what.into() }
}

fn pem_fault(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::NoItemsFound => "no private key in it".to_owned(),
        Error::Io(error) => match error.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            _ => error.to_string(),
        },
        other => other.to_string(),
    }
}
