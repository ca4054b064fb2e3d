//! The certificate that the other end of a connection has shown, checked again while it stands.
//!
//! An expired or revoked certificate ends its connection within [`RECHECK_INTERVAL`], one of an
//! authority that is trusted no more within [`CERTIFICATE_AGE`].

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::time::Instant;

use crate::identity::{Identity, certificate_expiry, certificate_identities};

/// Interval between two looks at the certificate of a connection.
pub(crate) const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which the certificate of a connection is checked again as a whole. A change of the
/// authority reaches the parts one after the other, so this leaves them time.
pub(crate) const CERTIFICATE_AGE: Duration = Duration::from_secs(300);

/// The certificate that the other end of a connection has shown.
#[derive(Debug)]
pub(crate) struct ShownCertificate {
    /// The other end's own and intermediate ones, not empty.
    chain: Vec<CertificateDer<'static>>,
    /// When the first of the chain expires.
    expires: SystemTime,
    /// The verifier that was asked last.
    checked_with: Arc<dyn ClientCertVerifier>,
    /// When a verifier last accepted it.
    checked: Instant,
}

/// Why a certificate is not good any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateFault {
    Expired,
    Revoked,
    Untrusted,
}

impl CertificateFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Expired => "its certificate has expired",
            Self::Revoked => "its certificate was revoked",
            Self::Untrusted => "its certificate is trusted no more",
        }
    }
}

impl From<CertificateFault> for io::Error {
    /// The cause is that of a handshake with such a certificate.
    fn from(fault: CertificateFault) -> Self {
        let cause = match fault {
            CertificateFault::Expired => CertificateError::Expired,
            CertificateFault::Revoked => CertificateError::Revoked,
            CertificateFault::Untrusted => CertificateError::UnknownIssuer,
        };
        Self::new(io::ErrorKind::ConnectionAborted, rustls::Error::InvalidCertificate(cause))
    }
}

pub(crate) fn denied(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

impl ShownCertificate {
    /// Takes the chain of a handshake that has just succeeded.
    ///
    /// - `checked_with`: the verifier of that handshake.
    ///
    /// # Errors
    ///
    /// No certificate, one that cannot be read, or an expired one: TLS does not check certificates
    /// again when it resumes a session.
    pub(crate) fn new(
        chain: Option<&[CertificateDer<'_>]>,
        checked_with: Arc<dyn ClientCertVerifier>,
    ) -> io::Result<Self> {
        let chain: Vec<_> =
            chain.unwrap_or_default().iter().map(|one| one.clone().into_owned()).collect();
        let expiries = chain.iter().map(|one| certificate_expiry(one));
        let expiries: Vec<_> = expiries.collect::<Result<_, _>>().map_err(denied)?;
        let expires = expiries.into_iter().min().ok_or_else(|| denied("no certificate shown"))?;
        if expires <= SystemTime::now() {
            return Err(CertificateFault::Expired.into());
        }
        Ok(Self { chain, expires, checked_with, checked: Instant::now() })
    }

    /// The identities that it names, at least one.
    ///
    /// # Errors
    ///
    /// It names nobody of this system.
    pub(crate) fn identities(&self) -> io::Result<Vec<Identity>> {
        let own = self.chain.first().ok_or_else(|| denied("no certificate shown"))?;
        certificate_identities(own).map_err(denied)
    }

    /// Checks it again where that is due; returns why it is not good any more.
    ///
    /// - `current`: the verifier in force.
    /// - `age`: time after which it is checked as a whole.
    pub(crate) fn fault(
        &mut self,
        current: &Arc<dyn ClientCertVerifier>,
        now: Instant,
        time: SystemTime,
        age: Duration,
    ) -> Option<CertificateFault> {
        if self.expires <= time {
            return Some(CertificateFault::Expired);
        }
        let is_old = self.checked + age <= now;
        if !is_old && Arc::ptr_eq(&self.checked_with, current) {
            return None;
        }
        let (own, others) = self.chain.split_first()?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let checked = current.verify_client_cert(own, others, UnixTime::since_unix_epoch(since));
        self.checked_with = Arc::clone(current);
        match checked {
            Ok(_) => {
                self.checked = now;
                None
            }
            Err(rustls::Error::InvalidCertificate(CertificateError::Revoked)) => {
                Some(CertificateFault::Revoked)
            }
            Err(_) => is_old.then_some(CertificateFault::Untrusted),
        }
    }
}
