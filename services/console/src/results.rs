//! Results of `fabricast eval` and `fabricast plan`, read from a folder: plots, their tables and
//! comparisons. Only files that the folder lists are opened, so no name leads out of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most results, and files of one, that are shown (CONSOLE-2).
const MAX_RESULTS: usize = 100;
const MAX_FILES: usize = 100;
/// Largest file, in bytes; longer ones are left out.
const MAX_BYTES: u64 = 2 * 1024 * 1024;

/// The folder, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Results(Option<Arc<PathBuf>>);

/// One result: a folder with plots and tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResultFiles {
    /// Names of the plots.
    pub(crate) plots: Vec<String>,
    /// Tables in CSV by name.
    pub(crate) tables: BTreeMap<String, String>,
    /// Texts in Markdown, the comparison first.
    pub(crate) texts: Vec<String>,
}

/// A result and its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultTitle {
    pub(crate) name: String,
    pub(crate) title: String,
}

impl Results {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder.map(Arc::new))
    }

    /// Lists the results; `None` without a folder.
    pub(crate) async fn list(&self) -> Option<Result<Vec<ResultTitle>, String>> {
        let folder = Arc::clone(self.0.as_ref()?);
        Some(blocking(move || list(&folder)).await)
    }

    /// Reads one result; `None` if there is none of this name.
    pub(crate) async fn read(&self, name: &str) -> Option<Result<ResultFiles, String>> {
        let (folder, name) = (Arc::clone(self.0.as_ref()?), name.to_owned());
        let found = blocking(move || find(&folder, &name)?.map(|found| read(&found)).transpose());
        found.await.transpose()
    }

    /// Reads a plot; `None` if there is none of this name.
    pub(crate) async fn plot(&self, name: &str, file: &str) -> Option<String> {
        let folder = Arc::clone(self.0.as_ref()?);
        let (name, file) = (name.to_owned(), file.to_owned());
        let found = blocking(move || {
            let Some(result) = find(&folder, &name)? else { return Ok(None) };
            let is_wanted = |path: &&PathBuf| has(path, "svg") && name_of(path) == file;
            let files = files(&result)?;
            files.iter().find(is_wanted).map(|path| text(path)).transpose()
        });
        found.await.ok()?
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_panic| "it could not be read".to_owned())?.map_err(|error| error.to_string())
}

/// The folders with results: those in a folder, and itself if it has plots.
fn list(folder: &Path) -> io::Result<Vec<ResultTitle>> {
    let mut found = Vec::new();
    for path in folders(folder)? {
        let files = files(&path)?;
        if !files.iter().any(|file| has(file, "svg") || has(file, "csv") || has(file, "md")) {
            continue;
        }
        let first = files.iter().find(|file| name_of(file) == "comparison.md");
        let heading = first.map(|file| text(file)).transpose()?.unwrap_or_default();
        let heading = heading.lines().next().unwrap_or_default().trim_start_matches('#').trim();
        found.push(ResultTitle { name: name_of(&path), title: heading.to_owned() });
    }
    Ok(found)
}

fn find(folder: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    Ok(folders(folder)?.into_iter().find(|path| name_of(path) == name))
}

/// The folder itself and those in it, by name.
fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && found.len() < MAX_RESULTS {
            found.push(entry.path());
        }
    }
    found.sort();
    if files(folder)?.iter().any(|file| has(file, "svg") || has(file, "csv")) {
        found.insert(0, folder.to_owned());
    }
    Ok(found)
}

/// The files of a folder, by name; no links.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_short = || entry.metadata().is_ok_and(|facts| facts.len() <= MAX_BYTES);
        if entry.file_type()?.is_file() && found.len() < MAX_FILES && is_short() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn read(folder: &Path) -> io::Result<ResultFiles> {
    let mut found = ResultFiles::default();
    for path in files(folder)? {
        match () {
            () if has(&path, "svg") => found.plots.push(name_of(&path)),
            () if has(&path, "csv") => {
                found.tables.insert(name_of(&path), text(&path)?);
            }
            () if name_of(&path) == "comparison.md" => found.texts.insert(0, text(&path)?),
            () if has(&path, "md") => found.texts.push(text(&path)?),
            () => {}
        }
    }
    Ok(found)
}

fn has(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|own| own == extension)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads a file, no further than it may be long; bytes that are no UTF-8 are replaced.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_the_folder_lists_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("engines");
        fs::create_dir(&inside).unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        fs::write(inside.join("comparison.md"), "# Engines\n\ntext\n").unwrap();
        fs::write(inside.join("efi.svg"), "<svg/>").unwrap();
        fs::write(inside.join("efi.csv"), "a,b\n1,2\n").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", inside.join("passwd.svg")).unwrap();
        let results = Results::new(Some(folder.path().to_owned()));
        let title = ResultTitle { name: "engines".to_owned(), title: "Engines".to_owned() };
        assert_eq!(results.list().await, Some(Ok(vec![title])));
        let read = results.read("engines").await.unwrap().unwrap();
        assert_eq!(read.plots, ["efi.svg"], "a link is no plot");
        assert_eq!(read.tables["efi.csv"], "a,b\n1,2\n");
        assert_eq!(results.plot("engines", "efi.svg").await.as_deref(), Some("<svg/>"));
        for (name, file) in [
            ("engines", "passwd.svg"),
            ("engines", "../secret.txt"),
            ("..", "secret.txt"),
            ("engines/..", "secret.txt"),
            ("engines", "comparison.md"),
        ] {
            assert_eq!(results.plot(name, file).await, None, "{name} {file}");
        }
        assert_eq!(results.read("..").await, None);
        assert_eq!(Results::new(None).list().await, None);
    }
}
