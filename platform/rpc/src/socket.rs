//! Servers at a Unix domain socket, for processes of the same machine.
//!
//! A socket's file outlives the process that made it, so a file without a listener is replaced, and
//! one with a listener is not. The file appears under its name only when it listens and has its
//! permissions.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxFuture;

use crate::accept;
use crate::security::Security;
use crate::server::{ServeError, Services, serve_incoming};

/// A socket that could not be bound.
#[derive(Debug, Error)]
pub enum SocketError {
    /// A process listens there.
    #[error("{path}: another process listens there")]
    InUse {
        /// The path asked for.
        path: String,
    },
    /// There is a file of another kind, which is left alone.
    #[error("{path}: there is a file that is no socket")]
    NotASocket {
        /// The path asked for.
        path: String,
    },
    /// The system refuses.
    #[error("cannot listen at {path}")]
    System {
        /// The path asked for.
        path: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// A listening socket that is not served yet; its file goes with it.
#[derive(Debug)]
pub struct BoundSocket {
    listener: UnixListener,
    file: SocketFile,
    security: Security,
}

impl BoundSocket {
    /// Listens at a path; needs the runtime.
    ///
    /// - `mode`: permissions of the file, such as 0o600. A user who may write to it may connect.
    ///
    /// # Errors
    ///
    /// [`SocketError`] names the path. A file that is there is left as it is then.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, SocketError> {
        let name = || path.display().to_string();
        let failed = |source| SocketError::System { path: name(), source };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(SocketError::NotASocket { path: name() });
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(SocketError::InUse { path: name() });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        // Created in a private folder, and moved when it listens and has its permissions.
        let folder =
            path.parent().unwrap_or(Path::new("")).join(format!(".{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let made = Self::put(&folder.join("s"), path, mode);
        // Files left in it are of no use to anybody.
        let _ = fs::remove_dir_all(&folder);
        made.map_err(failed)
    }

    fn put(first: &Path, path: &Path, mode: u32) -> io::Result<Self> {
        let listener = UnixListener::bind(first)?;
        fs::set_permissions(first, fs::Permissions::from_mode(mode))?;
        let made = fs::metadata(first)?;
        fs::rename(first, path)?;
        let file = SocketFile { path: path.to_owned(), identity: (made.dev(), made.ino()) };
        Ok(Self { listener, file, security: Security::plaintext() })
    }

    /// Applies the limits of `security` to each user; certificates are not used at a socket.
    #[must_use]
    pub fn limited(mut self, security: &Security) -> Self {
        self.security = security.for_socket();
        self
    }

    /// The path that clients use.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Serves until `stop` is cancelled, then lets calls in flight end. Boxed as
    /// [`BoundServer::serve`](crate::BoundServer::serve).
    ///
    /// # Errors
    ///
    /// [`ServeError`] when the transport fails; never because of a client.
    pub fn serve(self, services: Services, stop: CancellationToken) -> BoxFuture<(), ServeError> {
        let Self { listener, file, security } = self;
        Box::pin(async move {
            let name = file.path.display().to_string();
            let incoming = accept::accept_local(listener, security, stop.clone());
            serve_incoming(incoming, name, services, stop).await
        })
    }
}

/// A socket's file; it is removed with the socket, unless another has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            // An error has no consequence: a file that is left over is replaced.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_left_over_socket_is_replaced_and_one_that_listens_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the system leaves the file");
        let bound = BoundSocket::bind(&path, 0o600).unwrap();
        assert_eq!(mode_of(&path), 0o600);
        let refused = BoundSocket::bind(&path, 0o600).unwrap_err();
        assert!(matches!(refused, SocketError::InUse { .. }), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        drop(bound);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "mine").unwrap();
        let refused = BoundSocket::bind(&path, 0o600).unwrap_err();
        assert!(matches!(refused, SocketError::NotASocket { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let refused = BoundSocket::bind(&folder.path().join("no/such"), 0o600).unwrap_err();
        assert!(matches!(refused, SocketError::System { .. }), "{refused}");
    }

    #[tokio::test]
    async fn a_socket_that_took_the_place_of_another_stays_when_that_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let first = BoundSocket::bind(&path, 0o660).unwrap();
        fs::remove_file(&path).unwrap();
        let second = BoundSocket::bind(&path, 0o660).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
