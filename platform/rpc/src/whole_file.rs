//! Files that are replaced while others read them: certificates, and metrics of commands.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file as a whole: whoever reads it finds the old or the new text.
///
/// - `mode`: permissions of the file, less what the umask takes away.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_whole(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let fresh = path.with_added_extension("unfinished");
    // One that an earlier run has left would keep its mode.
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}
