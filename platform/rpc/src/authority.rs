//! An authority of one's own: makes the certificates of a cluster that has none.
//!
//! For trying out and for tests. A cluster in production gets its certificates from whoever hands
//! them out there, such as cert-manager; they need an identity ([`Identity::uri`]) and the names by
//! which the process is called, and serve for servers and clients.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use thiserror::Error;
use time::{Duration, OffsetDateTime};

use crate::identity::Identity;

/// Why a certificate could not be made.
#[derive(Debug, Error)]
#[error("cannot make a certificate: {0}")]
pub struct AuthorityError(#[from] rcgen::Error);

/// A certificate and its private key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl fmt::Debug for Credentials {
    /// Hides the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Signs certificates.
pub struct Authority {
    credentials: Credentials,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new authority that is believed from `now` for `lifetime`.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] if the system gives no key.
    pub fn create(now: OffsetDateTime, lifetime: Duration) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "fabricast");
        (params.not_before, params.not_after) = (now, now + lifetime);
        let certificate = params.self_signed(&key)?;
        let credentials = Credentials { certificate: certificate.pem(), key: key.serialize_pem() };
        Ok(Self { credentials, issuer: Issuer::new(params, key) })
    }

    /// Takes up an authority that was made before.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] if certificate or key cannot be read.
    pub fn load(credentials: Credentials) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(&credentials.key)?;
        let issuer = Issuer::from_ca_cert_pem(&credentials.certificate, key)?;
        Ok(Self { credentials, issuer })
    }

    /// Its own certificate and key. Whoever has the key can be anybody.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Issues a certificate for a process, valid from `now` for `lifetime`.
    ///
    /// - `identities`: identities of the process. Parts refuse a certificate without one; servers
    ///   of other programs, such as etcd, need none.
    /// - `hosts`: names and addresses by which clients call the process; none for a mere client.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] if a host is not valid in a certificate.
    pub fn issue(
        &self,
        identities: &[Identity],
        hosts: &[String],
        now: OffsetDateTime,
        lifetime: Duration,
    ) -> Result<Credentials, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(hosts.to_vec())?;
        for identity in identities {
            params.subject_alt_names.push(SanType::URI(identity.uri().try_into()?));
        }
        let first = identities.first().map(ToString::to_string);
        if let Some(first) = first.or_else(|| hosts.first().cloned()) {
            params.distinguished_name.push(DnType::CommonName, first);
        }
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (now, now + lifetime);
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
