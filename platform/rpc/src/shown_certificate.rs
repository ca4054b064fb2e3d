//! The certificate that the other end of a connection has shown, checked again while it stands.
//!
//! Servers and clients do this alike: an expired certificate ends its connection within
//! [`RECHECK_INTERVAL`], a revoked one within two of them, as the list is read meanwhile, and one
//! of an authority that is trusted no more within [`CERTIFICATE_AGE`].

use std::io;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, SystemTime};

use rustls::CertificateError;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::identity::{Identity, certificate_expiry, certificate_identities};

/// Interval between two looks at the certificate of a connection.
pub(crate) const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which the certificate of a connection is checked again as a whole. A change of the
/// authority reaches the parts one after the other, so this leaves them time.
pub(crate) const CERTIFICATE_AGE: Duration = Duration::from_secs(300);

/// Checks the certificates of the other ends of connections.
#[derive(Clone, Debug)]
pub(crate) enum Verifier {
    /// Those of clients.
    Clients(Arc<dyn ClientCertVerifier>),
    /// That of one server.
    Server {
        verifier: Arc<dyn ServerCertVerifier>,
        /// The name by which the server is called.
        name: ServerName<'static>,
    },
}

impl Verifier {
    /// True if both were made of the same contents of the files.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Clients(one), Self::Clients(other)) => Arc::ptr_eq(one, other),
            (Self::Server { verifier: one, .. }, Self::Server { verifier: other, .. }) => {
                Arc::ptr_eq(one, other)
            }
            (Self::Clients(_), Self::Server { .. }) | (Self::Server { .. }, Self::Clients(_)) => {
                false
            }
        }
    }

    fn verify(&self, chain: &[CertificateDer<'_>], time: SystemTime) -> Result<(), rustls::Error> {
        let (own, others) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = UnixTime::since_unix_epoch(since);
        match self {
            Self::Clients(verifier) => verifier.verify_client_cert(own, others, time).map(|_| ()),
            Self::Server { verifier, name } => {
                verifier.verify_server_cert(own, others, name, &[], time).map(|_| ())
            }
        }
    }
}

/// Checks of the certificate of a connection while it is in use.
#[derive(Debug)]
pub(crate) struct Rechecks {
    due: Interval,
    pub(crate) fault: Option<CertificateFault>,
}

impl Rechecks {
    /// The first look is due after [`RECHECK_INTERVAL`].
    pub(crate) fn new() -> Self {
        let mut due = interval_at(Instant::now() + RECHECK_INTERVAL, RECHECK_INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { due, fault: None }
    }

    /// True if a look is due; else the task is woken when one is. None is due after a fault.
    pub(crate) fn are_due(&mut self, context: &mut Context<'_>) -> bool {
        self.fault.is_none() && self.due.poll_tick(context).is_ready()
    }

    /// Fails for good once a look has found a fault.
    pub(crate) fn result(&self) -> io::Result<()> {
        self.fault.map_or(Ok(()), |fault| Err(fault.into()))
    }
}

/// The certificate that the other end of a connection has shown.
#[derive(Debug)]
pub(crate) struct ShownCertificate {
    /// The other end's own and intermediate ones, not empty.
    chain: Vec<CertificateDer<'static>>,
    /// Time when the own one expires. Of the others some may not be needed: they count when all is
    /// checked.
    expires: SystemTime,
    /// The verifier that was asked last.
    checked_with: Verifier,
    /// Time when a verifier last accepted it.
    checked: Instant,
}

/// Reason why a certificate is not good any more.
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
        checked_with: Verifier,
    ) -> io::Result<Self> {
        let chain: Vec<_> =
            chain.unwrap_or_default().iter().map(|one| one.clone().into_owned()).collect();
        let own = chain.first().ok_or_else(|| denied("no certificate shown"))?;
        let expires = certificate_expiry(own).map_err(denied)?;
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
        current: &Verifier,
        now: Instant,
        time: SystemTime,
        age: Duration,
    ) -> Option<CertificateFault> {
        if self.expires <= time {
            return Some(CertificateFault::Expired);
        }
        let is_old = self.checked + age <= now;
        if !is_old && self.checked_with.is_same(current) {
            return None;
        }
        self.checked_with = current.clone();
        match current.verify(&self.chain, time) {
            Ok(()) => {
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

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;
    use tempfile::TempDir;
    use time::OffsetDateTime;

    use super::*;
    use crate::authority::{Authority, Credentials};
    use crate::certificates::CertificateFiles;
    use crate::security::{Demand, client_verifier, load_client};

    const DAY: time::Duration = time::Duration::days(1);
    const HOST: &str = "127.0.0.1";

    fn authority() -> Authority {
        Authority::create(OffsetDateTime::now_utc() - DAY, DAY * 3).unwrap()
    }

    fn issue(authority: &Authority, lifetime: time::Duration) -> Credentials {
        let (identities, hosts) = (["tic/a".parse().unwrap()], [HOST.to_owned()]);
        let from = OffsetDateTime::now_utc() - DAY;
        authority.issue(&identities, &hosts, from, lifetime).unwrap()
    }

    /// Verifiers of clients and of the server at `host`.
    fn verifiers(trusted: &Authority, list: Option<&str>, host: &'static str) -> [Verifier; 2] {
        let (folder, own) = (TempDir::new().unwrap(), issue(trusted, DAY * 2));
        let files = CertificateFiles::in_folder(folder.path());
        files.write(trusted, &own).unwrap();
        if let Some(list) = list {
            std::fs::write(files.revocations(), list).unwrap();
        }
        let clients = client_verifier(&files, Demand::Required).unwrap();
        let verifier = load_client(&files).unwrap().servers;
        let name = ServerName::try_from(host).unwrap();
        [Verifier::Clients(clients), Verifier::Server { verifier, name }]
    }

    fn show(own: &Credentials, verifier: &Verifier) -> io::Result<ShownCertificate> {
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
        ShownCertificate::new(Some(std::slice::from_ref(&certificate)), verifier.clone())
    }

    #[test]
    fn revocation_counts_at_once_and_a_lost_authority_when_the_check_is_old() {
        let (ours, theirs) = (authority(), authority());
        let own = issue(&ours, DAY * 2);
        let list = ours.revoke(&own.certificate, None, OffsetDateTime::now_utc()).unwrap();
        let trusting = verifiers(&ours, None, HOST);
        let revoking = verifiers(&ours, Some(&list), HOST);
        let foreign = verifiers(&theirs, None, HOST);
        for ((trusting, revoking), foreign) in trusting.iter().zip(&revoking).zip(&foreign) {
            let mut shown = show(&own, trusting).unwrap();
            let (now, time, expires) = (shown.checked, SystemTime::now(), shown.expires);
            let old = now + CERTIFICATE_AGE;
            let mut fault = |verifier: &Verifier, now: Instant, time: SystemTime| {
                shown.fault(verifier, now, time, CERTIFICATE_AGE)
            };
            assert_eq!(fault(trusting, now, time), None);
            assert_eq!(fault(foreign, now, time), None, "its holder may get another one yet");
            assert_eq!(fault(foreign, old, time), Some(CertificateFault::Untrusted));
            assert_eq!(fault(trusting, old, time), None);
            assert_eq!(fault(revoking, old, time), Some(CertificateFault::Revoked));
            assert_eq!(fault(trusting, old, expires), Some(CertificateFault::Expired));
        }
    }

    #[test]
    fn the_certificate_of_a_server_is_for_the_name_that_was_called() {
        let ours = authority();
        let [_, called] = verifiers(&ours, None, HOST);
        let [_, another] = verifiers(&ours, None, "10.0.0.1");
        let mut shown = show(&issue(&ours, DAY * 2), &called).unwrap();
        let (old, time) = (shown.checked + CERTIFICATE_AGE, SystemTime::now());
        let fault = shown.fault(&another, old, time, CERTIFICATE_AGE);
        assert_eq!(fault, Some(CertificateFault::Untrusted));
        assert_eq!(shown.fault(&called, old, time, CERTIFICATE_AGE), None);
    }

    #[test]
    fn an_expired_certificate_is_refused_though_its_session_is_resumed() {
        let ours = authority();
        let expired = issue(&ours, DAY - time::Duration::hours(1));
        for verifier in verifiers(&ours, None, HOST) {
            let refused = show(&expired, &verifier).unwrap_err();
            assert!(refused.to_string().contains("Expired"), "{refused}");
        }
    }
}
