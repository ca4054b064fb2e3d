//! Records on their way out of a store and into another.

mod copies;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use fabricast_proto::v1;
use fabricast_rpc::write_whole;
use fabricast_tic::StoreLocation;
use fabricast_tic::backup::{self, Summary};
use serde::Serialize;

use crate::args::{Format, ServerArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::remote::{Remote, block_on};

/// Write the records of a store to a file, check it, and read it into another store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Write all records to a file: those of a running control plane, or of a store.
    Export(ExportArgs),
    /// Write the records of a file into an empty store of either kind.
    Import {
        /// Store: its file, or etcd://host:port,.../prefix with ?certificates=FOLDER or, across
        /// machines, ?plaintext.
        #[arg(long, value_name = "FILE|URL")]
        store: StoreLocation,
        /// Check the file, and that the store is empty; write nothing.
        #[arg(long)]
        dry_run: bool,
        /// File written by `store export`.
        file: PathBuf,
    },
    /// Check that a file is complete and its records are consistent; exit 2 if not.
    Check {
        /// File written by `store export`.
        file: PathBuf,
    },
}

/// Arguments of `fabricast store export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Store to read instead of a running control plane: its file, which no TIC may have open, or
    /// etcd://host:port,.../prefix with ?certificates=FOLDER or, across machines, ?plaintext.
    #[arg(long, value_name = "FILE|URL")]
    store: Option<StoreLocation>,
    /// Output file.
    #[arg(long, value_name = "FILE", required_unless_present = "folder")]
    out: Option<PathBuf>,
    /// Folder that gets the file, named by the time: records-20260131T235959Z.jsonl.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    folder: Option<PathBuf>,
    /// Newest files to keep in the folder, this one included; older ones are deleted; default: all.
    #[arg(long, value_name = "N", conflicts_with = "out", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// File that gets the time of the export as a metric, for the textfile collector of a
    /// Prometheus node exporter; default: none.
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
}

impl Run for StoreCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        let (summary, file, store, done) = match self {
            Self::Export(args) => {
                let (summary, out) = block_on(export(args))?;
                let done = format!("written to {}", out.display());
                (summary, out, None, done)
            }
            Self::Import { store, file, dry_run } => block_on(async {
                let checked = backup::check(&mut open(&file)?).with_context(|| named(&file))?;
                if dry_run {
                    let empty = backup::check_empty(&store).await;
                    empty.with_context(|| format!("store {store}"))?;
                    let done = format!("would be read into {store}; nothing changed");
                    return Ok((checked, file, Some(store.to_string()), done));
                }
                let mut lines = open(&file)?;
                let opened =
                    backup::open(&store).await.with_context(|| format!("store {store}"))?;
                let read = backup::import(opened, &mut lines).await;
                let read =
                    read.with_context(|| format!("{} into store {store}", file.display()))?;
                let done = format!("read from {} into {store}", file.display());
                Ok((read, file, Some(store.to_string()), done))
            })?,
            Self::Check { file } => {
                let checked = backup::check(&mut open(&file)?).with_context(|| named(&file))?;
                let done = format!("{} is complete", file.display());
                (checked, file, None, done)
            }
        };
        let row = Row { store, done, ..Row::of(&summary, &file) };
        show(&row, format)
    }
}

/// Writes the records to a file; returns its path, too.
async fn export(args: ExportArgs) -> Result<(Summary, PathBuf), Failure> {
    let ExportArgs { server, store, out, folder, keep, metrics_file } = args;
    let out = match &folder {
        Some(folder) => copies::path(folder, SystemTime::now()),
        None => out.unwrap_or_default(),
    };
    // Only a whole one gets the name.
    let unfinished = out.with_added_extension("unfinished");
    let file = || File::create(&unfinished).with_context(|| named(&unfinished));
    let written = match &store {
        Some(store) => export_store(store, file).await,
        None => export_running(&server, file).await,
    };
    let kept = written.and_then(|()| {
        let summary = backup::check(&mut open(&unfinished)?).with_context(|| named(&unfinished))?;
        std::fs::rename(&unfinished, &out).with_context(|| named(&out))?;
        Ok(summary)
    });
    if kept.is_err() {
        // Of no use, and not missed if it cannot be removed.
        let _ = std::fs::remove_file(&unfinished);
    }
    let summary = kept?;
    if let Some((folder, keep)) = folder.zip(keep) {
        copies::delete_old(&folder, keep as usize)?;
    }
    if let Some(file) = metrics_file {
        write_metrics(&file)?;
    }
    if store.is_none() {
        report(&Remote::new(&server)?).await;
    }
    Ok((summary, out))
}

async fn export_store(
    store: &StoreLocation,
    file: impl FnOnce() -> anyhow::Result<File>,
) -> Result<(), Failure> {
    let progress = Progress::of_bytes("copying", None);
    let opened = backup::open_existing(store).await;
    let opened = opened.with_context(|| format!("store {store}"))?;
    let file = file()?;
    let mut counted = BufWriter::new(progress.counted_writes(&file));
    backup::export(opened, &mut counted).await.with_context(|| format!("store {store}"))?;
    Ok(file.sync_all().context("output file")?)
}

/// Writes the records of a running control plane.
async fn export_running(
    server: &ServerArgs,
    file: impl FnOnce() -> anyhow::Result<File>,
) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    let failed = |status| remote.failed(status);
    let begun = remote.tic().export_records(v1::ExportRecordsRequest {}).await;
    let mut messages = begun.map_err(failed)?.into_inner();
    let mut file = file()?;
    let progress = Progress::of_bytes("copying", None);
    while let Some(part) = messages.message().await.map_err(failed)? {
        file.write_all(&part.chunk).context("output file")?;
        progress.add_bytes(part.chunk.len());
    }
    Ok(file.sync_all().context("output file")?)
}

/// Tells the TIC of a copy, whose metric then shows its time. Without that it is as good a copy.
async fn report(remote: &Remote) {
    let request = v1::ReportRecordsCopyRequest {};
    if let Err(failure) = remote.answer(remote.tic().report_records_copy(request)).await {
        let message = failure.message();
        let why = message.lines().next().unwrap_or_default();
        output::notice(&format!("fabricast: the TIC was not told of the copy: {why}"));
    }
}

/// Writes the time of an export as a metric, in Prometheus's text format. A reader finds the old
/// file or the new one.
fn write_metrics(file: &Path) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = "fabricast_store_export_timestamp_seconds";
    let help = "When the records were last copied to a file, as Unix time";
    let text = format!("# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {now}\n");
    // The collector reads names that end with .prom, so it skips the unfinished file.
    Ok(write_whole(file, &text, 0o666).with_context(|| named(file))?)
}

/// Opens a file, whose bytes a bar counts.
fn open(file: &Path) -> Result<impl BufRead + use<>, Failure> {
    let opened = File::open(file).with_context(|| named(file))?;
    let length = opened.metadata().with_context(|| named(file))?.len();
    Ok(BufReader::new(Progress::of_bytes("reading", Some(length)).counted(opened)))
}

fn named(file: &Path) -> String {
    file.display().to_string()
}

/// Result of the command: contents of a store or a file.
#[derive(Serialize)]
struct Row {
    /// File that was written, read or checked.
    file: String,
    /// Store that it was read into.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    /// Sentence about it.
    #[serde(skip)]
    done: String,
    layout: u64,
    revision: u64,
    keys: usize,
    groups: usize,
    members: usize,
    nodes: usize,
}

impl Row {
    fn of(summary: &Summary, file: &Path) -> Self {
        let Summary { layout, revision, keys, groups, members, nodes } = *summary;
        let (file, done) = (named(file), String::new());
        Self { file, store: None, done, layout, revision, keys, groups, members, nodes }
    }
}

fn show(row: &Row, format: Format) -> Result<(), Failure> {
    output::print(format, row, |row| {
        let Row { done, layout, revision, keys, groups, members, nodes, .. } = row;
        format!(
            "revision {revision}: {groups} groups, {members} members, {nodes} nodes, {keys} keys, \
             layout {layout}\n{done}"
        )
    })
}
