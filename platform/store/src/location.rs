//! Locations of stores, as they are written in configurations.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use fabricast_rpc::is_of_this_machine;
use thiserror::Error;
use tonic::codegen::BoxFuture;

use crate::clock::SystemClock;
use crate::embedded::{EmbeddedStore, Options};
use crate::error::OpenError;
use crate::etcd::{EtcdOptions, EtcdStore};
use crate::store::Store;

/// Scheme of the URL of an etcd.
const ETCD: &str = "etcd://";
/// Option after the `?` of such a URL: a folder of certificates, or plain text.
const CERTIFICATES: &str = "certificates=";
const PLAINTEXT: &str = "plaintext";
/// Prefix of the keys if the URL names none.
const DEFAULT_PREFIX: &str = "fabricast";

/// Location of durable records: `memory`, the path of a file, or
/// `etcd://host:port,host:port,.../prefix?certificates=FOLDER`, or `...?plaintext`, which may be
/// left out for members on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// In the memory of the process, and lost with it.
    Memory,
    /// In this file of an embedded store; created if there is none.
    File(PathBuf),
    /// In an etcd, which several processes may share.
    Etcd(EtcdLocation),
}

/// Members of an etcd, and a prefix in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdLocation {
    /// `host:port` of each member, at least one.
    pub endpoints: Vec<String>,
    /// Prefix of the keys, between slashes. Clusters that share an etcd must have different ones.
    pub prefix: String,
    /// Folder with `ca.crt`, `tls.crt` and `tls.key` for mutual TLS; `None` for plain text.
    pub certificates: Option<PathBuf>,
}

/// Error of parsing a location.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LocationError {
    /// The text is empty.
    #[error("empty; expected 'memory', the path of a file, or etcd://host:port,.../prefix")]
    Empty,
    /// The URL of an etcd names no member, or one that is not `host:port`.
    #[error(
        "'{endpoint}' is not a member of the form host:port; expected etcd://host:port,.../prefix"
    )]
    Endpoint {
        /// Member as given.
        endpoint: String,
    },
    /// The prefix has other characters than letters, digits, '-', '_', '.' and inner '/'.
    #[error("'{prefix}' is no prefix: letters, digits, '-', '_', '.', and '/' between them")]
    Prefix {
        /// Prefix as given.
        prefix: String,
    },
    /// The option after the `?` is unknown or repeated.
    #[error("'{option}' after the '?': expected either certificates=FOLDER or plaintext")]
    Option {
        /// Option as given.
        option: String,
    },
    /// Connections to another machine would be plain text, and `?plaintext` is missing.
    #[error(
        "{endpoint} can be reached from other machines, and connections to it are not encrypted: add ?certificates=FOLDER, or ?plaintext to accept that"
    )]
    Plaintext {
        /// Member that is not on this machine.
        endpoint: String,
    },
    /// The scheme of the URL is unknown.
    #[error("'{scheme}://' is not known; expected 'memory', the path of a file, or etcd://...")]
    Scheme {
        /// Scheme as given.
        scheme: String,
    },
}

impl FromStr for StoreLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if text.is_empty() {
            return Err(LocationError::Empty);
        }
        if text == "memory" {
            return Ok(Self::Memory);
        }
        if let Some(rest) = text.strip_prefix(ETCD) {
            return read_etcd(rest).map(Self::Etcd);
        }
        match text.split_once("://") {
            Some((scheme, _)) => Err(LocationError::Scheme { scheme: scheme.to_owned() }),
            None => Ok(Self::File(text.into())),
        }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Etcd(etcd) => etcd.fmt(f),
        }
    }
}

impl fmt::Display for EtcdLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ETCD}{}/{}", self.endpoints.join(","), self.prefix)?;
        match &self.certificates {
            Some(folder) => write!(f, "?{CERTIFICATES}{}", folder.display()),
            None if self.endpoints.iter().all(|endpoint| is_of_this_machine(endpoint)) => Ok(()),
            None => write!(f, "?{PLAINTEXT}"),
        }
    }
}

impl StoreLocation {
    /// Opens the store; blocks while a file is read.
    ///
    /// - `options`: bounds of an embedded store.
    /// - The future is boxed, so that the client of etcd is not compiled again in every crate that
    ///   awaits it.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(&self, options: Options) -> BoxFuture<Arc<dyn Store>, OpenError> {
        Box::pin(open(self.clone(), options))
    }

    /// Opens a store that exists, as [`StoreLocation::open`]; creates none.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; [`OpenError::Missing`] if there is none, as in the memory of a process
    /// that has just begun.
    pub fn open_existing(&self, options: Options) -> BoxFuture<Arc<dyn Store>, OpenError> {
        Box::pin(open_existing(self.clone(), options))
    }

    /// Returns whether other processes may use the store at the same time.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Etcd(_))
    }
}

fn read_etcd(rest: &str) -> Result<EtcdLocation, LocationError> {
    let (place, option) = match rest.split_once('?') {
        Some((place, option)) => (place, Some(option)),
        None => (rest, None),
    };
    let (members, prefix) = place.split_once('/').unwrap_or((place, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let prefix = if prefix.is_empty() { DEFAULT_PREFIX } else { prefix };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if prefix.split('/').any(|part| part.is_empty() || !part.chars().all(plain)) {
        return Err(LocationError::Prefix { prefix: prefix.to_owned() });
    }
    let endpoints: Vec<String> = members.split(',').map(str::to_owned).collect();
    if let Some(bad) = endpoints.iter().find(|endpoint| !is_address(endpoint)) {
        return Err(LocationError::Endpoint { endpoint: bad.clone() });
    }
    let folder = option.and_then(|option| option.strip_prefix(CERTIFICATES));
    let folder = folder.filter(|folder| !folder.is_empty() && !folder.contains('&'));
    match (option, folder, endpoints.iter().find(|endpoint| !is_of_this_machine(endpoint))) {
        (Some(option), None, _) if option != PLAINTEXT => {
            return Err(LocationError::Option { option: option.to_owned() });
        }
        (None, _, Some(far)) => return Err(LocationError::Plaintext { endpoint: far.clone() }),
        _ => {}
    }
    let (prefix, certificates) = (prefix.to_owned(), folder.map(PathBuf::from));
    Ok(EtcdLocation { endpoints, prefix, certificates })
}

/// Returns whether a text has the form `host:port`.
fn is_address(text: &str) -> bool {
    let Ok(authority) = text.parse::<http::uri::Authority>() else { return false };
    let has_port = authority.port_u16().is_some_and(|port| port > 0);
    !text.contains('@') && !authority.host().is_empty() && has_port
}

async fn open(location: StoreLocation, options: Options) -> Result<Arc<dyn Store>, OpenError> {
    let clock = Arc::new(SystemClock::new());
    Ok(match location {
        StoreLocation::Memory => Arc::new(EmbeddedStore::in_memory_with(options, clock)?),
        StoreLocation::File(path) => Arc::new(EmbeddedStore::open_with(&path, options, clock)?),
        StoreLocation::Etcd(etcd) => Arc::new(EtcdStore::open(&etcd).await?),
    })
}

async fn open_existing(
    location: StoreLocation,
    options: Options,
) -> Result<Arc<dyn Store>, OpenError> {
    let missing = OpenError::Missing { location: location.to_string() };
    match location {
        StoreLocation::Memory => Err(missing),
        // A file that cannot be looked for cannot be opened either, and that error says more.
        StoreLocation::File(path) if !path.try_exists().unwrap_or(true) => Err(missing),
        StoreLocation::File(_) => open(location, options).await,
        StoreLocation::Etcd(etcd) => {
            let options = EtcdOptions { create: false, ..EtcdOptions::default() };
            Ok(Arc::new(EtcdStore::open_with(&etcd, options).await?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_missing_is_named_and_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        let location = StoreLocation::File(path.clone());
        let error = location.open_existing(Options::default()).await.err().unwrap();
        assert_eq!(error.to_string(), format!("there is no store at {}", path.display()));
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
        drop(location.open(Options::default()).await.unwrap());
        assert!(location.open_existing(Options::default()).await.is_ok());
        assert!(StoreLocation::Memory.open_existing(Options::default()).await.is_err());
    }

    fn etcd(endpoints: &[&str], prefix: &str, certificates: Option<&str>) -> StoreLocation {
        let endpoints = endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect();
        let certificates = certificates.map(PathBuf::from);
        StoreLocation::Etcd(EtcdLocation { endpoints, prefix: prefix.to_owned(), certificates })
    }

    #[test]
    fn locations_are_parsed_and_printed() {
        let near = ["127.0.0.1:1", "localhost:2", "[::1]:3"];
        for (text, location) in [
            ("memory", StoreLocation::Memory),
            ("/var/lib/tic.redb", StoreLocation::File("/var/lib/tic.redb".into())),
            ("etcd://127.0.0.1:1,localhost:2,[::1]:3/x/y", etcd(&near, "x/y", None)),
            ("etcd://a:1,b:2/x?plaintext", etcd(&["a:1", "b:2"], "x", None)),
            ("etcd://a:1/x?certificates=/e/c", etcd(&["a:1"], "x", Some("/e/c"))),
        ] {
            assert_eq!(text.parse(), Ok(location.clone()), "{text}");
            assert_eq!(location.to_string(), text);
        }
        for short in ["etcd://[::1]:1", "etcd://[::1]:1/", "etcd://[::1]:1/fabricast/?plaintext"] {
            assert_eq!(short.parse(), Ok(etcd(&["[::1]:1"], "fabricast", None)), "{short}");
        }
    }

    #[test]
    fn errors_name_the_bad_part_of_a_location() {
        for (text, what) in [
            ("", "empty; expected"),
            ("etcd://", "'' is not a member"),
            ("etcd://a:1,b", "'b' is not a member"),
            ("etcd://a:0/x", "'a:0' is not a member"),
            ("etcd://u@a:1/x", "'u@a:1' is not a member"),
            ("etcd://a:1//x", "'/x' is no prefix"),
            ("etcd://a:1/x y", "'x y' is no prefix"),
            ("etcd://127.0.0.1:1,a:1/x", "a:1 can be reached from other machines"),
            ("etcd://10.0.0.1:1/x", "10.0.0.1:1 can be reached from other machines"),
            ("etcd://a:1/x?", "'' after the '?'"),
            ("etcd://a:1/x?certificates=", "'certificates=' after the '?'"),
            ("etcd://a:1/x?plaintext&certificates=y", "'plaintext&certificates=y' after the '?'"),
            ("etcd://a:1/x?certificates=y&plaintext", "'certificates=y&plaintext' after the '?'"),
            ("redis://a:1", "'redis://' is not known"),
        ] {
            let error = text.parse::<StoreLocation>().unwrap_err().to_string();
            assert!(error.starts_with(what), "{text}: {error}");
        }
    }
}
