//! Files with certificates, read again when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::VerifierBuilderError;
use thiserror::Error;
use tracing::{info, warn};

use crate::identity::NamelessError;

/// The files are looked at at most so often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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

/// What the files hold, and what is made of it: the newest of which something could be made.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    files: CertificateFiles,
    make: fn(&CertificateFiles) -> Result<T, SecurityError>,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    made: Arc<T>,
    /// Of the files when they were last tried.
    stamps: Stamps,
    looked: Instant,
}

/// When each file was last written, and how long it is.
type Stamps = [Option<(SystemTime, u64)>; 3];

impl<T> Watched<T> {
    /// Reads the files for the first time.
    pub(crate) fn new(
        files: CertificateFiles,
        make: fn(&CertificateFiles) -> Result<T, SecurityError>,
    ) -> Result<Self, SecurityError> {
        let stamps = stamps(&files);
        let made = Arc::new(make(&files)?);
        let state = Mutex::new(State { made, stamps, looked: Instant::now() });
        Ok(Self { files, make, state })
    }

    pub(crate) fn files(&self) -> &CertificateFiles {
        &self.files
    }

    /// What is in force now.
    pub(crate) fn current(&self) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_AGAIN {
            state.looked = Instant::now();
            let stamps = stamps(&self.files);
            if stamps != state.stamps {
                state.stamps = stamps;
                match (self.make)(&self.files) {
                    Ok(made) => {
                        info!(path = %self.files.certificate.display(), "certificate read again");
                        state.made = Arc::new(made);
                    }
                    Err(error) => warn!(%error, "the old certificate stays in force"),
                }
            }
        }
        Arc::clone(&state.made)
    }
}

fn stamps(files: &CertificateFiles) -> Stamps {
    [&files.authority, &files.certificate, &files.key].map(|path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

/// The authorities of a file, at least one.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, SecurityError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        roots.add(root).map_err(|error| file(path, error.to_string()))?;
    }
    Ok(roots)
}

/// The certificates of a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    let found = found.map_err(|error| file(path, pem_fault(&error)))?;
    if found.is_empty() { Err(file(path, "no certificate in it")) } else { Ok(found) }
}

/// The private key of a file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SecurityError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| file(path, pem_fault(&error)))
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
