//! Results of `fabricast eval` and `fabricast plan`, read from a folder: plots, their tables and
//! comparisons. Only files that the folder lists are opened, so no name leads out of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Most results, and files of one, that are shown (CONSOLE-2).
const MAX_RESULTS: usize = 100;
const MAX_FILES: usize = 100;
/// Largest file, in bytes; longer ones are left out.
const MAX_BYTES: u64 = 2 * 1024 * 1024;
/// Most bytes of tables and texts of one result; the files beyond are left out.
const MAX_TEXT_BYTES: u64 = 8 * 1024 * 1024;
/// Longest beginning of a file that its title is looked for in, in bytes.
const MAX_TITLE_BYTES: u64 = 1024;
/// Most requests that read files at once.
const MAX_READING: usize = 2;

/// The folder, if there is one.
#[derive(Debug)]
pub(crate) struct Results {
    folder: Option<Arc<PathBuf>>,
    permits: Semaphore,
    latest: Arc<Mutex<Option<Latest>>>,
}

/// The result that was read last, and the files that it was read of.
#[derive(Debug)]
struct Latest {
    read: Vec<FileStamp>,
    found: Arc<ResultFiles>,
}

/// A file as it was when it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    bytes: u64,
    changed: Option<SystemTime>,
}

/// One result: a folder with plots and tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResultFiles {
    /// Names of the plots.
    pub(crate) plots: Vec<String>,
    /// Tables in CSV by name.
    pub(crate) tables: BTreeMap<String, String>,
    /// Texts in Markdown, the comparison first.
    pub(crate) texts: Vec<String>,
    /// Number of tables and texts that are left out, as there is too much.
    pub(crate) left_out: usize,
}

/// A result and its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultTitle {
    pub(crate) name: String,
    pub(crate) title: String,
}

impl Results {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        // With its whole path the folder has a name, also if it is given as `.`.
        let folder = folder.map(|folder| Arc::new(fs::canonicalize(&folder).unwrap_or(folder)));
        Self { folder, permits: Semaphore::new(MAX_READING), latest: Arc::default() }
    }

    /// Lists the results; `None` without a folder.
    pub(crate) async fn list(&self) -> Option<Result<Vec<ResultTitle>, String>> {
        let folder = Arc::clone(self.folder.as_ref()?);
        Some(self.blocking(move || list(&folder)).await)
    }

    /// Reads one result; `None` if there is none of this name.
    pub(crate) async fn read(&self, name: &str) -> Option<Result<Arc<ResultFiles>, String>> {
        let (folder, name) = (Arc::clone(self.folder.as_ref()?), name.to_owned());
        let latest = Arc::clone(&self.latest);
        let found = self.blocking(move || {
            let found = find(&folder, &name)?;
            found.map(|found| read_changed(&found, &latest)).transpose()
        });
        found.await.transpose()
    }

    /// Reads a plot; `None` if there is none of this name.
    pub(crate) async fn plot(&self, name: &str, file: &str) -> Option<String> {
        let folder = Arc::clone(self.folder.as_ref()?);
        let (name, file) = (name.to_owned(), file.to_owned());
        let found = self.blocking(move || {
            let Some(result) = find(&folder, &name)? else { return Ok(None) };
            let is_wanted = |one: &&FileStamp| has(&one.path, "svg") && name_of(&one.path) == file;
            let files = files(&result)?;
            files.iter().find(is_wanted).map(|one| text(&one.path, MAX_BYTES)).transpose()
        });
        found.await.ok()?
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let _permit = self.permits.acquire().await;
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_panic| "it could not be read".to_owned())?.map_err(|error| error.to_string())
    }
}

/// The folders with results: those in a folder, and itself if it has plots.
fn list(folder: &Path) -> io::Result<Vec<ResultTitle>> {
    let mut found = Vec::new();
    for path in folders(folder)? {
        let files = files(&path)?;
        if !files.iter().any(|one| ["svg", "csv", "md"].iter().any(|kind| has(&one.path, kind))) {
            continue;
        }
        let first = files.iter().find(|one| name_of(&one.path) == "comparison.md");
        let heading = first.map(|one| text(&one.path, MAX_TITLE_BYTES)).transpose()?;
        let heading = heading.unwrap_or_default();
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
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    found.truncate(MAX_RESULTS);
    if files(folder)?.iter().any(|one| has(&one.path, "svg") || has(&one.path, "csv")) {
        found.insert(0, folder.to_owned());
    }
    Ok(found)
}

/// The files of a folder, by name; no links.
fn files(folder: &Path) -> io::Result<Vec<FileStamp>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file()
            && let Ok(facts) = entry.metadata()
            && facts.len() <= MAX_BYTES
        {
            let changed = facts.modified().ok();
            found.push(FileStamp { path: entry.path(), bytes: facts.len(), changed });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.truncate(MAX_FILES);
    Ok(found)
}

/// Reads a result, unless it is the latest and its files are as they were.
fn read_changed(folder: &Path, latest: &Mutex<Option<Latest>>) -> io::Result<Arc<ResultFiles>> {
    let files = files(folder)?;
    if let Some(latest) = latest.lock().as_ref().filter(|latest| latest.read == files) {
        return Ok(Arc::clone(&latest.found));
    }
    let found = Arc::new(read(&files)?);
    *latest.lock() = Some(Latest { read: files, found: Arc::clone(&found) });
    Ok(found)
}

fn read(files: &[FileStamp]) -> io::Result<ResultFiles> {
    let mut found = ResultFiles::default();
    let mut left = MAX_TEXT_BYTES;
    for FileStamp { path, bytes, .. } in files {
        if has(path, "svg") {
            found.plots.push(name_of(path));
        }
        if !has(path, "csv") && !has(path, "md") {
            continue;
        }
        if *bytes > left {
            found.left_out += 1;
            continue;
        }
        left -= bytes;
        let text = text(path, MAX_BYTES)?;
        if has(path, "csv") {
            found.tables.insert(name_of(path), text);
        } else if name_of(path) == "comparison.md" {
            found.texts.insert(0, text);
        } else {
            found.texts.push(text);
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

/// Reads the beginning of a file; bytes that are no UTF-8 are replaced.
fn text(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
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
        let here = Results::new(Some(inside.join(".")));
        assert_eq!(here.plot("engines", "efi.svg").await.as_deref(), Some("<svg/>"));
    }

    #[tokio::test]
    async fn a_result_is_read_again_only_after_a_change_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("engines");
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("a.csv"), "1").unwrap();
        let results = Results::new(Some(folder.path().to_owned()));
        let first = results.read("engines").await.unwrap().unwrap();
        let again = results.read("engines").await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        fs::write(inside.join("a.csv"), "12").unwrap();
        assert_eq!(results.read("engines").await.unwrap().unwrap().tables["a.csv"], "12");
        let long = "x".repeat(usize::try_from(MAX_BYTES).unwrap());
        for number in 0..8 {
            fs::write(inside.join(format!("b{number}.csv")), &long).unwrap();
        }
        let bounded = results.read("engines").await.unwrap().unwrap();
        assert_eq!((bounded.tables.len(), bounded.left_out), (4, 5));
    }

    #[tokio::test]
    async fn the_first_results_by_name_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for number in (0..MAX_RESULTS + 20).rev() {
            let inside = folder.path().join(format!("{number:03}"));
            fs::create_dir(&inside).unwrap();
            fs::write(inside.join("a.csv"), "1").unwrap();
        }
        let listed = Results::new(Some(folder.path().to_owned())).list().await.unwrap().unwrap();
        let names: Vec<&str> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[MAX_RESULTS - 1]), (MAX_RESULTS, "000", "099"));
    }
}
