//! Files with certificates, which are read again when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fabricast_telemetry::metrics::CERTIFICATE_EXPIRY;
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::VerifierBuilderError;
use thiserror::Error;
use tracing::{info, warn};

use crate::authority::{Authority, Credentials};
use crate::identity::{NamelessError, certificate_expiry};
use crate::whole_file::write_whole;

/// Least interval between two checks of the files. It is shorter than that between two looks at a
/// connection, each of which is to find one due: a check begins a little after it was asked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(900);
/// Longest that a new connection waits for a look at the files.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Paths of the certificates and the key of a process; all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificates of the trusted authorities.
    pub authority: PathBuf,
    /// The certificate of this process, followed by intermediate ones.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// `ca.crt`, `tls.crt` and `tls.key` of one folder, the names of cert-manager.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            authority: folder.join("ca.crt"),
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
        }
    }

    /// The list of revoked certificates, in PEM, beside the authority: `ca.crl` for `ca.crt`. There
    /// need not be one.
    #[must_use]
    pub fn revocations(&self) -> PathBuf {
        self.authority.with_extension("crl")
    }

    /// Writes the files. A process that looks in between finds a pair that does not fit, and keeps
    /// the old one.
    ///
    /// - `trusted`: the authority of the other ends.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn write(&self, trusted: &Authority, own: &Credentials) -> io::Result<()> {
        write_whole(&self.key, &own.key, 0o600)?;
        write_whole(&self.certificate, &own.certificate, 0o644)?;
        write_whole(&self.authority, &trusted.credentials().certificate, 0o644)
    }
}

/// Reason why certificates cannot be used.
#[derive(Debug, Error)]
pub enum SecurityError {
    /// A file cannot be read, or lacks the certificate or key.
    #[error("{path}: {what}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The fault, such as a missing key.
        what: String,
    },
    /// The certificate has no identity.
    #[error("{path}: {source}")]
    Nameless {
        /// Path of the file.
        path: PathBuf,
        /// The fault of the certificate's names.
        source: NamelessError,
    },
    /// Certificate and key do not match, or cannot be used.
    #[error("{certificate} with {key}: {source}")]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of rustls.
        source: rustls::Error,
    },
    /// The authority's certificates cannot be used.
    #[error("{path}: {source}")]
    Authority {
        /// Path of the file.
        path: PathBuf,
        /// The error of rustls.
        source: VerifierBuilderError,
    },
}

/// Contents of the files, and the value made of the newest valid ones.
///
/// A thread that may wait reads the files: their disk may be slow, and tasks go on meanwhile.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    files: CertificateFiles,
    make: fn(&CertificateFiles) -> Result<T, SecurityError>,
    /// Held for a moment only.
    value: Mutex<Arc<T>>,
    /// Held while the files are read.
    look: Mutex<Look>,
}

/// The last look at the files.
#[derive(Debug)]
struct Look {
    /// Stamps of the files when they were last read.
    stamps: Stamps,
    began: Instant,
}

/// Time of the last change and length of each file.
type Stamps = [Option<(SystemTime, u64)>; 4];

impl<T: Send + Sync + 'static> Watched<T> {
    /// Reads the files for the first time.
    pub(crate) fn new(
        files: CertificateFiles,
        make: fn(&CertificateFiles) -> Result<T, SecurityError>,
    ) -> Result<Self, SecurityError> {
        let stamps = stamps(&files);
        let value = Mutex::new(Arc::new(make(&files)?));
        show_expiry(&files);
        let look = Mutex::new(Look { stamps, began: Instant::now() });
        Ok(Self { files, make, value, look })
    }

    pub(crate) fn files(&self) -> &CertificateFiles {
        &self.files
    }

    /// The value in force; waits for a look at the files where one is due.
    pub(crate) async fn current(self: &Arc<Self>) -> Arc<T> {
        if self.is_due() {
            let this = Arc::clone(self);
            let looked = tokio::task::spawn_blocking(move || this.look());
            // If the disk is slow, or the runtime is stopping, it stays with what is known.
            let _ = tokio::time::timeout(LOOK_TIMEOUT, looked).await;
        }
        self.known()
    }

    /// The value of the last look, without waiting; begins another look where one is due. For who
    /// asks again soon.
    pub(crate) fn refreshed(self: &Arc<Self>) -> Arc<T> {
        let known = self.known();
        if self.is_due() {
            let this = Arc::clone(self);
            tokio::task::spawn_blocking(move || this.look());
        }
        known
    }

    /// The value of the last look.
    pub(crate) fn known(&self) -> Arc<T> {
        Arc::clone(&self.value.lock())
    }

    /// True unless the files are being read, or were a moment ago.
    fn is_due(&self) -> bool {
        self.look.try_lock().is_some_and(|look| look.began.elapsed() >= CHECK_INTERVAL)
    }

    /// Reads the files if they have changed, unless another thread does or just did.
    fn look(&self) {
        let Some(mut look) = self.look.try_lock() else { return };
        if look.began.elapsed() < CHECK_INTERVAL {
            return;
        }
        look.began = Instant::now();
        let stamps = stamps(&self.files);
        if stamps == look.stamps {
            return;
        }
        look.stamps = stamps;
        match (self.make)(&self.files) {
            Ok(value) => {
                info!(path = %self.files.certificate.display(), "certificate read again");
                *self.value.lock() = Arc::new(value);
                show_expiry(&self.files);
            }
            Err(error) => warn!(%error, "the old certificate stays in force"),
        }
    }
}

fn stamps(files: &CertificateFiles) -> Stamps {
    let revocations = files.revocations();
    [&files.authority, &files.certificate, &files.key, &revocations].map(|path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

/// Shows when the certificate of these files expires, and when the last of the authorities does.
fn show_expiry(files: &CertificateFiles) {
    // They were used just now; files exchanged meanwhile are read again.
    let chain = certificates(&files.certificate).unwrap_or_default();
    let authorities = certificates(&files.authority).unwrap_or_default();
    let own = chain.first().and_then(expiry);
    let last = authorities.iter().filter_map(expiry).max();
    for (path, expiry) in [(&files.certificate, own), (&files.authority, last)] {
        if let Some(seconds) = expiry {
            CERTIFICATE_EXPIRY.set(&path.display().to_string(), seconds);
        }
    }
}

/// End of the validity of a certificate, as Unix time.
fn expiry(certificate: &CertificateDer<'_>) -> Option<u64> {
    let expiry = certificate_expiry(certificate).ok()?;
    Some(expiry.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
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

/// The list of revoked certificates; `None` if there is no file.
pub(crate) fn revocations(
    files: &CertificateFiles,
) -> Result<Option<CertificateRevocationListDer<'static>>, SecurityError> {
    let path = files.revocations();
    match CertificateRevocationListDer::from_pem_file(&path) {
        Ok(list) => Ok(Some(list)),
        Err(rustls::pki_types::pem::Error::Io(error))
            if error.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(rustls::pki_types::pem::Error::NoItemsFound) => {
            Err(file(&path, "no revocation list in it"))
        }
        Err(error) => Err(file(&path, pem_fault(&error))),
    }
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    fn text(files: &CertificateFiles) -> Result<String, SecurityError> {
        fs::read_to_string(&files.key).map_err(|error| file(&files.key, error.to_string()))
    }

    /// A connection looks once a second, and the thread of the last check began a little later.
    #[test]
    fn a_check_is_due_less_than_a_second_after_the_last_one_began() {
        let folder = TempDir::new().unwrap();
        let files = CertificateFiles::in_folder(folder.path());
        fs::write(&files.key, "any").unwrap();
        let watched = Watched::new(files, text).unwrap();
        let began = Instant::now().checked_sub(Duration::from_millis(950));
        watched.look.lock().began = began.expect("the machine runs for longer");
        assert!(watched.is_due());
    }

    /// A thread that reads the key now waits for the other end of a pipe, as on a disk that hangs.
    #[tokio::test]
    async fn nobody_waits_for_the_files_who_asks_again_soon() {
        let folder = TempDir::new().unwrap();
        let files = CertificateFiles::in_folder(folder.path());
        fs::write(&files.key, "old").unwrap();
        let watched = Arc::new(Watched::new(files.clone(), text).unwrap());
        fs::remove_file(&files.key).unwrap();
        assert!(Command::new("mkfifo").arg(&files.key).status().unwrap().success());
        let now = Instant::now();
        watched.look.lock().began = now.checked_sub(CHECK_INTERVAL).unwrap_or(now);
        for _ in 0..2 {
            // Nobody writes yet, so that who reads here would not come back.
            assert_eq!(*watched.refreshed(), "old", "another thread reads");
        }
        let written = std::thread::spawn(move || fs::write(files.key, "new"));
        let read = async {
            while *watched.known() != "new" {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("it is read at last");
        written.join().unwrap().unwrap();
    }
}
