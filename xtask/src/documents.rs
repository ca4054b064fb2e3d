//! `cargo xtask documents`: runs the commands of the documents.
//!
//! The blocks of a page that are fenced as `sh` run from top to bottom in one shell, as if a reader
//! typed them: in an empty folder that has the folders of the repository in it, with the debug
//! binary, and with a network that nobody else is in. Programs that serve go on while the page goes
//! on. Comments in the page, which readers do not see, say what a reader has to know by himself:
//! [`page`] lists them.

mod page;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};

use crate::{kubernetes, outside, python, separate, setup};
use page::{Means, Page};

/// Pages that another chore runs, with its name.
const ELSEWHERE: [(&str, &str); 1] = [("docs/runbooks/", "`cargo xtask e2e` walks through it")];
/// Folders that pages are in.
const FOLDERS: [&str; 4] = ["", "docs", "docs/runbooks", "docs/tutorials"];
/// No page takes longer.
const LIMIT_S: &str = "900";

/// Runs every page, or those whose path contains `filter`. `false` if a command failed.
///
/// - `optimized`: with the optimized binary, which blocks of many minutes need.
///
/// # Errors
///
/// A command that cannot be started, or a page that cannot be read.
pub(crate) fn run(root: &Path, filter: &str, optimized: bool) -> Result<bool> {
    if let Err(why) = separate::check() {
        println!("== left out: the commands of the documents ({why})");
        return Ok(true);
    }
    // Pages find what comes from PyPI in the folder of Python.
    if let Err(why) = kubernetes::kubectl(root) {
        println!("== there is no kubectl for docs/kubernetes.md: {why}");
    }
    let built = outside("cargo", root)
        .args(["build", "--quiet", "--package", "fabricast-cli", "--package", "fabricast-c"])
        .args(optimized.then_some("--release"))
        .status();
    if !built.context("start cargo")?.success() {
        return Ok(false);
    }
    let pages = read(root, filter, optimized)?;
    // Pages that need tools, as for a lab of switches, take all processors.
    let (alone, together): (Vec<_>, Vec<_>) = pages.iter().partition(|(_, page)| page.has_needs);
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let failed = run_pages(root, &together, optimized, most)?;
    let failed = failed + run_pages(root, &alone, optimized, 1)?;
    let left_out: Vec<&String> = pages.iter().flat_map(|(_, page)| &page.left_out).collect();
    for block in &left_out {
        println!("== left out: {block}");
    }
    let elsewhere: usize = pages.iter().map(|(_, page)| page.elsewhere.len()).sum();
    let commands: usize = pages.iter().map(|(_, page)| page.commands).sum();
    let count = left_out.len();
    println!(
        "documents: {commands} commands ran, {elsewhere} blocks run elsewhere, {count} left out, \
         {failed} pages failed"
    );
    Ok(failed == 0 && commands > 0)
}

/// Reads the pages whose path contains `filter`, and sets up the tools that their blocks need.
fn read(root: &Path, filter: &str, is_optimized: bool) -> Result<Vec<(String, Page)>> {
    let known = RefCell::new(BTreeMap::<String, Option<String>>::new());
    let missing = |tool: &str| {
        ensure!(setup::is_tool(tool), "`cargo xtask setup` knows no {tool}");
        let mut known = known.borrow_mut();
        let set_up = || setup::set_up_one(root, tool).map(|missing| missing.to_string());
        Ok(known.entry(tool.to_owned()).or_insert_with(set_up).clone())
    };
    let mut pages = Vec::new();
    for path in paths(root)?.into_iter().filter(|path| path.contains(filter)) {
        if let Some((_, why)) = ELSEWHERE.iter().find(|(start, _)| path.starts_with(start)) {
            println!("== {path}: {why}");
            continue;
        }
        let text = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        let page = page::read(&path, &text, Means { is_optimized, missing: &missing })?;
        for one in &page.elsewhere {
            let is_there = root.join(&one.runner).exists();
            ensure!(is_there, "{}: there is no {} to run it", one.block, one.runner);
        }
        pages.push((path, page));
    }
    Ok(pages)
}

/// Runs pages, `most` at a time. Returns how many failed.
fn run_pages(
    root: &Path,
    pages: &[&(String, Page)],
    optimized: bool,
    most: usize,
) -> Result<usize> {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one_after_another = || -> Result<()> {
        while let Some((path, page)) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            if page.commands == 0 {
                continue;
            }
            let begun = Instant::now();
            let good = run_page(root, path, page, optimized)?;
            failed.fetch_add(usize::from(!good), Ordering::Relaxed);
            let word = if good { "ok" } else { "FAILED" };
            let seconds = begun.elapsed().as_secs_f32();
            println!("== {path}: {word}, {} commands, {seconds:.1} s", page.commands);
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..most).map(|_| scope.spawn(one_after_another)).collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow!("a page cannot be run"))??;
        }
        Ok(())
    })?;
    Ok(failed.into_inner())
}

/// The pages with their path from the root, in order.
fn paths(root: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for folder in FOLDERS {
        for entry in root.join(folder).read_dir().with_context(|| folder.to_owned())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                let page = Path::new(folder).join(name);
                pages.push(page.display().to_string());
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// Runs one page. `false` if one of its commands failed; it has said which.
fn run_page(root: &Path, path: &str, page: &Page, optimized: bool) -> Result<bool> {
    let folder = tempfile::Builder::new().prefix("fabricast-documents").tempdir()?;
    let work = folder.path().join("work");
    prepare(root, &work, optimized)?;
    let script = folder.path().join("page.sh");
    fs::write(&script, page.script())?;
    let status = separate::command()
        .args(["timeout", LIMIT_S, "bash", "-c", PRELUDE, path])
        .arg(&script)
        .current_dir(&work)
        .env("HOME", folder.path())
        .env("PATH", search_path(root, &work)?)
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .status()
        .context("start unshare")?;
    if status.code() == Some(124) {
        println!("{path}: ended after {LIMIT_S} s");
    }
    Ok(status.success())
}

/// Reports each command that fails with its line, which is the same in the script and in the page,
/// and starts what serves.
const PRELUDE: &str = r#"
set -uE -o pipefail
shopt -s expand_aliases
page=$0 failed=0 server=
exec 3>&1 >"$HOME/said" 2>&1
# A page may name hosts of an example.
cp /etc/hosts "$HOME/hosts"
mount --bind "$HOME/hosts" /etc/hosts
trap 'told $? "$LINENO" "$BASH_COMMAND"' ERR
told() {
    failed=1
    { echo "$page:$2: exit $1: $3"; tail --lines 5 "$HOME/said" | sed "s/^/    /"; } >&3
}
# serve COMMAND...: ends what served before, and waits until this says its address.
serve() {
    end
    : >"$HOME/served"
    "$@" >"$HOME/served" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        ! grep --quiet --extended-regexp 'all services at|console .*http|serves at|switch-agent serves' "$HOME/served" || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    tail --lines 5 "$HOME/served"
    return 1
}
end() {
    [ -z "$server" ] || { kill "$server"; wait "$server"; } 2>/dev/null || true
    server=
}
. "$1"
end
exit "$failed"
"#;

/// Makes the folder in which a page runs: what it writes stays there, what it reads is ours.
fn prepare(root: &Path, work: &Path, optimized: bool) -> Result<()> {
    fs::create_dir_all(work.join("target/release"))?;
    for name in ["clients", "data", "deploy", "docs"] {
        symlink(root.join(name), work.join(name))?;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let folder = if optimized { "release" } else { "debug" };
    for name in ["fabricast", "libfabricast.so"] {
        symlink(target.join(folder).join(name), work.join("target/release").join(name))?;
    }
    Ok(())
}

/// Folders where programs are looked for: ours first, and the Python that `cargo xtask setup`
/// makes.
fn search_path(root: &Path, work: &Path) -> Result<std::ffi::OsString> {
    let mut folders = vec![work.join("target/release"), root.join(python::FOLDER).join("bin")];
    folders.extend(std::env::split_paths(&setup::path()));
    Ok(std::env::join_paths(folders)?)
}
