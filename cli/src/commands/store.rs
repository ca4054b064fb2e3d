//! Records on their way out of a store and into another.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use anyhow::Context;
use fabricast_tic::backup::{self, Summary};
use serde::Serialize;

use crate::args::{Format, StoreCommand};
use crate::failure::Failure;
use crate::output;
use crate::remote::block_on;

/// Runs a verb of `store`.
///
/// # Errors
///
/// What is wrong with the store or the file; then nothing was changed.
pub(crate) fn run(command: StoreCommand, format: Format) -> Result<(), Failure> {
    let summary = match command {
        StoreCommand::Export { store, out } => block_on(async {
            // Only a whole one gets the name.
            let unfinished = out.with_added_extension("unfinished");
            let opened = backup::open(&store).await.with_context(|| format!("store {store}"))?;
            let file = File::create(&unfinished).with_context(|| named(&unfinished))?;
            let mut file = BufWriter::new(file);
            let written = backup::export(opened, &mut file).await;
            let written = written.with_context(|| format!("store {store}"));
            let kept = written.and_then(|summary| {
                file.get_ref().sync_all().with_context(|| named(&unfinished))?;
                std::fs::rename(&unfinished, &out).with_context(|| named(&out))?;
                Ok(summary)
            });
            if kept.is_err() {
                // Of no use, and not missed if it cannot be removed.
                let _ = std::fs::remove_file(&unfinished);
            }
            Ok(kept?)
        })?,
        StoreCommand::Import { store, file } => block_on(async {
            let mut lines = open(&file)?;
            backup::check(&mut lines).with_context(|| named(&file))?;
            let mut lines = open(&file)?;
            let opened = backup::open(&store).await.with_context(|| format!("store {store}"))?;
            let read = backup::import(opened, &mut lines).await;
            Ok(read.with_context(|| format!("{} into store {store}", file.display()))?)
        })?,
        StoreCommand::Check { file } => {
            backup::check(&mut open(&file)?).with_context(|| named(&file))?
        }
    };
    show(&summary, format)
}

fn open(file: &Path) -> Result<BufReader<File>, Failure> {
    Ok(BufReader::new(File::open(file).with_context(|| named(file))?))
}

fn named(file: &Path) -> String {
    file.display().to_string()
}

/// What a store or a file holds, as it is printed.
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
