//! Checks that the places which name a version agree (docs/release.md).

use anyhow::{Context, Result};

use super::{Finding, SourceFile};
use crate::upgrade::last_version;

const PAGE: &str = "docs/release.md";
const CHANGES: &str = "CHANGELOG.md";
/// Names the images of the last version, without its last number.
const IMAGES: &str = "deploy/kubernetes/overlays/production/kustomization.yaml";
/// Files where the next version stands, and the text before it.
const NEXT: [(&str, &str); 3] = [
    ("Cargo.toml", "version = \""),
    ("clients/python/pyproject.toml", "version = \""),
    ("clients/c/include/fabricast.h", "#define FABRICAST_VERSION \""),
];

/// Checks the files that name versions.
///
/// # Errors
///
/// A file that is not there, or names none.
pub(crate) fn check(files: &[SourceFile]) -> Result<Vec<Finding>> {
    let text = |path: &str| {
        let found = files.iter().find(|file| file.path == path).map(|file| &*file.text);
        found.with_context(|| format!("there is no {path}"))
    };
    let last = last_version(text(PAGE)?)?.name;
    let mut findings = Vec::new();
    let released =
        text(CHANGES)?.lines().filter_map(|line| line.strip_prefix("## ")).find_map(|title| {
            let name = title.split(' ').next()?;
            name.starts_with(|first: char| first.is_ascii_digit()).then(|| name.to_owned())
        });
    let minor = last.rsplit_once('.').map_or(&*last, |(minor, _)| minor);
    let tags = text(IMAGES)?.lines().filter_map(|line| line.trim().strip_prefix("newTag: "));
    for tag in tags.map(|tag| tag.trim_matches('"')).filter(|tag| *tag != minor) {
        findings.push(Finding::new(IMAGES, 0, format!("images of {tag}"), format!("name {minor}")));
    }
    let mut next = None;
    for (path, before) in NEXT {
        let file = text(path)?;
        let line = file.lines().find_map(|line| line.strip_prefix(before));
        let version = line.and_then(|rest| rest.split('"').next()).context(path)?.to_owned();
        let first = next.get_or_insert_with(|| version.clone());
        if *first != version {
            findings.push(Finding::new(path, 0, version.clone(), format!("{first} elsewhere")));
        }
        if numbers(&version) <= numbers(&last) {
            let hint = format!("{last} is cut; name the next one ({PAGE})");
            findings.push(Finding::new(path, 0, version, hint));
        }
    }
    // The commit that is tagged has the heading of its version already, and no row.
    if released.as_deref() != Some(&*last) && released != next {
        let what = format!("its last version is {}", released.as_deref().unwrap_or("none"));
        findings.push(Finding::new(CHANGES, 0, what, format!("{PAGE} says {last}")));
    }
    Ok(findings)
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|one| one.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn findings(changes: &str, cargo: &str, header: &str) -> Vec<String> {
        with_images("0.9", changes, cargo, header)
    }

    fn with_images(tag: &str, changes: &str, cargo: &str, header: &str) -> Vec<String> {
        let files = [
            file(PAGE, "| 0.9.0 | 2026-11-24 | `abc` |\n"),
            file(IMAGES, &format!("images:\n  - name: a\n    newTag: \"{tag}\"\n")),
            file(CHANGES, changes),
            file("Cargo.toml", &format!("version = \"{cargo}\"\n")),
            file("clients/python/pyproject.toml", &format!("version = \"{cargo}\"\n")),
            file(
                "clients/c/include/fabricast.h",
                &format!("#define FABRICAST_VERSION \"{header}\"\n"),
            ),
        ];
        check(&files).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_next_version_is_the_same_everywhere_and_newer_than_the_last() {
        let changes = "## Unreleased\n\n## 0.9.0 (2026-11-24)\n";
        assert_eq!(findings(changes, "0.10.0", "0.10.0"), Vec::<String>::new());
        assert_eq!(findings(changes, "0.9.0", "0.9.0").len(), 3);
        assert_eq!(
            findings(changes, "0.10.0", "0.11.0"),
            ["clients/c/include/fabricast.h: 0.11.0: 0.10.0 elsewhere"]
        );
    }

    #[test]
    fn the_changelog_has_the_last_version_or_the_one_that_is_cut() {
        let wanted = ["CHANGELOG.md: its last version is none: docs/release.md says 0.9.0"];
        assert_eq!(findings("## Unreleased\n", "1.0.0", "1.0.0"), wanted);
        let cut = "## 1.0.0 (2026-12-01)\n\n## 0.9.0 (2026-11-24)\n";
        assert_eq!(findings(cut, "1.0.0", "1.0.0"), Vec::<String>::new());
        assert_eq!(findings(cut, "1.1.0", "1.1.0").len(), 1);
    }

    #[test]
    fn the_overlays_name_images_of_the_last_version() {
        let changes = "## 0.9.0 (2026-11-24)\n";
        let wanted = [format!("{IMAGES}: images of 0.8: name 0.9")];
        assert_eq!(with_images("0.8", changes, "0.10.0", "0.10.0"), wanted);
    }
}
