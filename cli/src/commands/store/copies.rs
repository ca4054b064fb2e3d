//! A folder of copies of the records, each named by its time.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use time::OffsetDateTime;

use crate::failure::Failure;

const BEGIN: &str = "records-";
const END: &str = ".jsonl";
/// Digits of the time in a name are `0`.
const TIME: &str = "00000000T000000Z";

/// The file of a copy that is made now.
pub(super) fn path(folder: &Path, now: SystemTime) -> PathBuf {
    let now = OffsetDateTime::from(now);
    let (date, time) = (now.date(), now.time());
    folder.join(format!(
        "{BEGIN}{:04}{:02}{:02}T{:02}{:02}{:02}Z{END}",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    ))
}

/// Deletes all copies in a folder but the newest. Other files stay.
pub(super) fn delete_old(folder: &Path, keep: usize) -> Result<(), Failure> {
    let name = || folder.display().to_string();
    let mut copies = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(name)? {
        let entry = entry.with_context(name)?;
        if entry.file_name().to_str().is_some_and(is_copy) {
            copies.push(entry.path());
        }
    }
    copies.sort_unstable();
    for old in copies.iter().rev().skip(keep) {
        std::fs::remove_file(old).with_context(|| old.display().to_string())?;
    }
    Ok(())
}

fn is_copy(name: &str) -> bool {
    let time = name.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    time.is_some_and(|time| {
        let alike = |(found, form): (u8, u8)| match form {
            b'0' => found.is_ascii_digit(),
            _ => found == form,
        };
        time.len() == TIME.len() && time.bytes().zip(TIME.bytes()).all(alike)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_copies_stay_and_so_do_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let at =
            |seconds| path(folder.path(), SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert!(at(1_700_000_000).ends_with("records-20231114T221320Z.jsonl"));
        let others = ["records-20231114T221320Z.jsonl.unfinished", "records-old.jsonl", "notes"];
        for other in others {
            std::fs::write(folder.path().join(other), "").unwrap();
        }
        for seconds in [1_700_000_000, 1_800_000_000, 1_600_000_000, 1_900_000_000] {
            std::fs::write(at(seconds), "").unwrap();
        }
        delete_old(folder.path(), 2).unwrap();
        assert!(at(1_900_000_000).exists() && at(1_800_000_000).exists());
        assert!(!at(1_700_000_000).exists() && !at(1_600_000_000).exists());
        assert!(others.iter().all(|other| folder.path().join(other).exists()));
        delete_old(folder.path(), 9).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2 + others.len());
    }
}
