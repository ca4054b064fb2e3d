//! Records on their way out of a store and into another.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Subcommand;
use fabricast_tic::StoreLocation;
use fabricast_tic::backup::{self, Summary};
use serde::Serialize;

use crate::args::Format;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::block_on;

/// Write the records of a store to a file, check it, and read it into another store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Write all records of a store to a file. An etcd may be in use meanwhile, the file of an
    /// embedded store must not.
    Export {
        /// Store: its file, or etcd://host:port,.../prefix with ?certificates=FOLDER or, across
        /// machines, ?plaintext.
        #[arg(long, value_name = "FILE|URL")]
        store: StoreLocation,
        /// Output file.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// File that gets the time of the export as a metric, for the textfile collector of a
        /// Prometheus node exporter; default: none.
        #[arg(long, value_name = "FILE")]
        metrics_file: Option<PathBuf>,
    },
    /// Write the records of a file into an empty store of either kind.
    Import {
        /// Store: its file, or etcd://host:port,.../prefix with ?certificates=FOLDER or, across
        /// machines, ?plaintext.
        #[arg(long, value_name = "FILE|URL")]
        store: StoreLocation,
        /// File written by `store export`.
        file: PathBuf,
    },
    /// Check that a file is complete and its records are consistent; exit 2 if not.
    Check {
        /// File written by `store export`.
        file: PathBuf,
    },
}

impl Run for StoreCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        let summary = match self {
            Self::Export { store, out, metrics_file } => block_on(async {
                let summary = export(&store, &out).await?;
                if let Some(file) = metrics_file {
                    write_metrics(&file)?;
                }
                Ok(summary)
            })?,
            Self::Import { store, file } => block_on(async {
                let mut lines = open(&file)?;
                backup::check(&mut lines).with_context(|| named(&file))?;
                let mut lines = open(&file)?;
                let opened =
                    backup::open(&store).await.with_context(|| format!("store {store}"))?;
                let read = backup::import(opened, &mut lines).await;
                Ok(read.with_context(|| format!("{} into store {store}", file.display()))?)
            })?,
            Self::Check { file } => {
                backup::check(&mut open(&file)?).with_context(|| named(&file))?
            }
        };
        show(&summary, format)
    }
}

async fn export(store: &StoreLocation, out: &Path) -> Result<Summary, Failure> {
    // Only a whole one gets the name.
    let unfinished = out.with_added_extension("unfinished");
    let opened = backup::open_existing(store).await;
    let opened = opened.with_context(|| format!("store {store}"))?;
    let file = File::create(&unfinished).with_context(|| named(&unfinished))?;
    let mut file = BufWriter::new(file);
    let written = backup::export(opened, &mut file).await;
    let written = written.with_context(|| format!("store {store}"));
    let kept = written.and_then(|summary| {
        file.get_ref().sync_all().with_context(|| named(&unfinished))?;
        std::fs::rename(&unfinished, out).with_context(|| named(out))?;
        Ok(summary)
    });
    if kept.is_err() {
        // Of no use, and not missed if it cannot be removed.
        let _ = std::fs::remove_file(&unfinished);
    }
    Ok(kept?)
}

/// Writes the time of an export as a metric, in Prometheus's text format. A reader finds the old
/// file or the new one.
fn write_metrics(file: &Path) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = "fabricast_store_export_timestamp_seconds";
    let help = "When the records were last copied to a file, as Unix time";
    let text = format!("# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {now}\n");
    // The collector reads only names that end with .prom.
    let unfinished = file.with_added_extension("unfinished");
    std::fs::write(&unfinished, text).with_context(|| named(&unfinished))?;
    Ok(std::fs::rename(&unfinished, file).with_context(|| named(file))?)
}

fn open(file: &Path) -> Result<BufReader<File>, Failure> {
    Ok(BufReader::new(File::open(file).with_context(|| named(file))?))
}

fn named(file: &Path) -> String {
    file.display().to_string()
}

/// Result of the command: contents of a store or a file.
#[derive(Serialize)]
struct Row {
    layout: u64,
    revision: u64,
    keys: usize,
    groups: usize,
    members: usize,
    nodes: usize,
}

fn show(summary: &Summary, format: Format) -> Result<(), Failure> {
    let Summary { layout, revision, keys, groups, members, nodes } = *summary;
    output::print(format, &Row { layout, revision, keys, groups, members, nodes }, |row| {
        let Row { layout, revision, keys, groups, members, nodes } = row;
        format!(
            "revision {revision}: {groups} groups, {members} members, {nodes} nodes, {keys} keys, \
             layout {layout}"
        )
    })
}
