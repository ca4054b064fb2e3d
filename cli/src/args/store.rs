//! Verbs of `store`.

use std::path::PathBuf;

use clap::Subcommand;
use fabricast_tic::StoreLocation;

/// Verbs of `store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Write all records of a store to a file. An etcd may be in use meanwhile; the file of an embedded
    /// store may not.
    Export {
        /// The store: its file, or etcd://host:port,.../prefix with ?certificates=FOLDER or,
        /// across machines, ?plaintext.
        #[arg(long, value_name = "FILE|URL")]
        store: StoreLocation,
        /// The file to write.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Write the records of a file into a store that is empty, of either kind.
    Import {
        /// The store: its file, or etcd://host:port,.../prefix with ?certificates=FOLDER or,
        /// across machines, ?plaintext.
        #[arg(long, value_name = "FILE|URL")]
        store: StoreLocation,
        /// The file that `store export` wrote.
        file: PathBuf,
    },
    /// Check that a file is whole and that its records fit together; exit 2 if not.
    Check {
        /// The file that `store export` wrote.
        file: PathBuf,
    },
}
