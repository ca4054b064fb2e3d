//! Opens, creates and recognises store files.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, process};

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, StorageError,
};

use crate::embedded::reserve::{Reserve, ReservedBackend};
use crate::embedded::tables::{LEASES, META, META_LEASE, META_SCHEMA, SCHEMA_VERSION, Tables};
use crate::embedded::tables::{META_COMPACTED, META_REVISION, counter};
use crate::error::OpenError;

/// Bytes of pages that the database may keep in memory: more than what a commit touches. Pages that
/// it lacks come from the system's cache of the file, which gives memory up where others need it.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// An opened store, with the state that the writer starts from.
pub(crate) struct Opened {
    pub(crate) db: Database,
    pub(crate) reserve: Reserve,
    pub(crate) revision: u64,
    pub(crate) compacted: u64,
    pub(crate) last_lease: u64,
    /// Leases with their time to live in milliseconds.
    pub(crate) leases: Vec<(u64, u64)>,
}

/// Opens a store file, creating it if there is none.
pub(crate) fn open_file(path: &Path, verify: bool) -> Result<Opened, OpenError> {
    let exists = path.try_exists().map_err(|error| io_error(path, error))?;
    if !exists {
        create_file(path)?;
    }
    // A damaged file must end in an error here, even where the database library asserts.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| io_error(path, error))?;
        let backend = FileBackend::new(file).map_err(|error| explain(path, error))?;
        let reserve = Reserve::beside(path);
        let mut db = create(path, backend, &reserve)?;
        if verify && !db.check_integrity().map_err(|error| explain(path, error))? {
            return Err(corrupted(path, "checksums did not match"));
        }
        load(path, db, reserve)
    }));
    opened.unwrap_or_else(|_| Err(corrupted(path, "its structure is invalid")))
}

/// Creates a store on a backend other than a file.
pub(crate) fn open_backend(backend: impl StorageBackend) -> Result<Opened, OpenError> {
    open_backend_with(backend, Reserve::none())
}

/// Creates a store on a backend other than a file, with a reserve of space.
pub(crate) fn open_backend_with(
    backend: impl StorageBackend,
    reserve: Reserve,
) -> Result<Opened, OpenError> {
    let path = Path::new("(memory)");
    let db = create(path, backend, &reserve)?;
    load(path, db, reserve)
}

fn create(
    path: &Path,
    backend: impl StorageBackend,
    reserve: &Reserve,
) -> Result<Database, OpenError> {
    let backend = ReservedBackend { backend, reserve: reserve.clone() };
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.create_with_backend(backend).map_err(|error| explain(path, error))
}

/// Creates a new store under another name and links it into place, so that a killed process leaves
/// no incomplete store behind.
fn create_file(path: &Path) -> Result<(), OpenError> {
    let aside = PathBuf::from(format!("{}.new-{}", path.display(), process::id()));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io_error(path, error)),
        Ok(()) | Err(_) => {}
    }
    let db = Database::create(&aside).map_err(|error| explain(path, error))?;
    drop(load(path, db, Reserve::none())?);
    let linked = match fs::hard_link(&aside, path) {
        // Another process was faster; its store is as good.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    fs::remove_file(&aside).and(linked).map_err(|error| io_error(path, error))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(|error| io_error(path, error))
}

fn load(path: &Path, db: Database, reserve: Reserve) -> Result<Opened, OpenError> {
    let is_new = {
        let txn = db.begin_read().map_err(|error| explain_any(path, error))?;
        txn.list_tables().map_err(|error| explain_any(path, error))?.next().is_none()
    };
    if is_new {
        initialise(&db).map_err(|error| explain_any(path, error))?;
    }
    let txn = db.begin_read().map_err(|error| explain_any(path, error))?;
    let found = match counter(&txn, META_SCHEMA) {
        Ok(found) if found != 0 => found,
        Ok(_) | Err(redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. }) => {
            return Err(OpenError::NotAStore { path: path.to_owned() });
        }
        Err(error) => return Err(explain_any(path, error)),
    };
    if found != SCHEMA_VERSION {
        return Err(OpenError::SchemaVersion {
            path: path.to_owned(),
            found,
            expected: SCHEMA_VERSION,
        });
    }
    let read = || -> Result<_, redb::Error> {
        let leases = txn
            .open_table(LEASES)?
            .iter()?
            .map(|row| row.map(|(lease, ttl)| (lease.value(), ttl.value())))
            .collect::<Result<Vec<_>, _>>()?;
        let counters = [META_REVISION, META_COMPACTED, META_LEASE];
        let [revision, compacted, last_lease] = counters.map(|name| counter(&txn, name));
        Ok((revision?, compacted?, last_lease?, leases))
    };
    let (revision, compacted, last_lease, leases) =
        read().map_err(|error| explain_any(path, error))?;
    drop(txn);
    Ok(Opened { db, reserve, revision, compacted, last_lease, leases })
}

fn initialise(db: &Database) -> Result<(), redb::Error> {
    let txn = db.begin_write()?;
    Tables::open(&txn)?;
    txn.open_table(META)?.insert(META_SCHEMA, SCHEMA_VERSION)?;
    txn.commit()?;
    Ok(())
}

fn explain(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked { path: path.to_owned() },
        DatabaseError::UpgradeRequired(_) => OpenError::NotAStore { path: path.to_owned() },
        // redb's error for a missing magic number.
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == ErrorKind::InvalidData =>
        {
            OpenError::NotAStore { path: path.to_owned() }
        }
        other => explain_any(path, other),
    }
}

fn explain_any(path: &Path, error: impl Into<redb::Error>) -> OpenError {
    match error.into() {
        redb::Error::Corrupted(detail) => corrupted(path, &detail),
        redb::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            corrupted(path, "it ends too early")
        }
        redb::Error::Io(error) => io_error(path, error),
        other => io_error(path, other),
    }
}

fn corrupted(path: &Path, detail: &str) -> OpenError {
    OpenError::Corrupted { path: path.to_owned(), detail: detail.to_owned() }
}

fn io_error(path: &Path, source: impl Error + Send + Sync + 'static) -> OpenError {
    OpenError::Io { path: path.to_owned(), source: Arc::new(source) }
}
