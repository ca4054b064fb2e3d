//! Certificates of processes that servers know.

use fabricast_rpc::{Authority, CertificateFiles, Security};
use tempfile::TempDir;
use time::OffsetDateTime;

pub(crate) const DAY: time::Duration = time::Duration::days(1);

/// Security of a process with this identity.
pub(crate) fn known(authority: &Authority, identity: &str) -> Security {
    let from = OffsetDateTime::now_utc() - DAY;
    let hosts = ["127.0.0.1".to_owned()];
    let own = authority.issue(&[identity.parse().unwrap()], &hosts, from, DAY * 2).unwrap();
    let folder = TempDir::new().unwrap();
    let files = CertificateFiles::in_folder(folder.path());
    files.write(authority, &own).unwrap();
    Security::mutual(files).unwrap()
}
