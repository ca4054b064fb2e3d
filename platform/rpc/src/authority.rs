//! An authority of one's own: makes the certificates of a cluster that has none.
//!
//! For trying out and for tests. A cluster in production gets its certificates from the authority
//! that hands them out there, such as cert-manager; they need an identity ([`Identity::uri`]) and
//! the names by which the process is called, and serve for servers and clients.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use thiserror::Error;
use time::{Duration, OffsetDateTime};

use crate::identity::Identity;

/// Reason why a certificate, or a list of revoked ones, could not be made.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// The certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A certificate to revoke, or the former list, cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

fn unreadable(error: impl fmt::Display) -> AuthorityError {
    AuthorityError::Unreadable(error.to_string())
}

/// A certificate and its private key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Certificate of the public key.
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

/// Time after which a list of revoked certificates should be made again. It counts beyond it, too.
const LIST_LIFETIME: Duration = Duration::days(3650);

/// An authority of a cluster, which signs the certificates of its parts.
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

    /// Its own certificate and key. A holder of the key can be anybody.
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

    /// Makes the list of revoked certificates, in PEM, with those of a former list.
    ///
    /// - `certificate`: the one to revoke, in PEM.
    /// - `former`: the list so far, in PEM.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] if the certificate or the former list cannot be read.
    pub fn revoke(
        &self,
        certificate: &str,
        former: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<String, AuthorityError> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(unreadable)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der).map_err(unreadable)?;
        let mut serials = vec![parsed.raw_serial().to_vec()];
        let mut number = 1;
        if let Some(former) = former {
            let der = CertificateRevocationListDer::from_pem_slice(former.as_bytes());
            let der = der.map_err(unreadable)?;
            let (_, list) = x509_parser::parse_x509_crl(&der).map_err(unreadable)?;
            let revoked = list.iter_revoked_certificates();
            serials.extend(revoked.map(|one| one.raw_serial().to_vec()));
            let digits =
                list.crl_number().and_then(|number| number.to_u64_digits().first().copied());
            number += digits.unwrap_or(0);
        }
        serials.sort();
        serials.dedup();
        let revoked = serials.into_iter().map(|serial| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: now,
            next_update: now + LIST_LIFETIME,
            crl_number: number.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }
}
