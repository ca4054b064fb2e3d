//! Keeps prose true where a machine can: a path of the repository that a document names exists.

use super::{Finding, SourceFile};

/// Checks every Markdown file. A path is a word in backticks that starts with a top folder and
/// goes on with `/`; `*` and `<` make it a pattern, which is not looked up.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in document.lines() {
            // Every second part stands between backticks.
            for quoted in line.split('`').skip(1).step_by(2) {
                if is_path(quoted, files) && !exists(quoted, files) {
                    let what = format!("{quoted} does not exist");
                    findings.push(Finding::new(&document.path, number, what, "name the new place"));
                }
            }
        }
    }
    findings
}

fn is_path(word: &str, files: &[SourceFile]) -> bool {
    let Some((top, _)) = word.split_once('/') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    word.chars().all(plain) && files.iter().any(|file| file.path.contains('/') && file.top() == top)
}

fn exists(path: &str, files: &[SourceFile]) -> bool {
    let path = path.trim_end_matches('/');
    files.iter().any(|file| {
        file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(line: &str) -> Vec<String> {
        let files = [file("docs/a.md", line), file("core/x/src/lib.rs", "//! Why.\n")];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn folders_and_files_that_exist_may_be_named() {
        for good in ["`core/x`", "`core/x/`", "`core/x/src/lib.rs` and `docs/a.md`"] {
            assert_eq!(complaints(good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn a_path_that_is_gone_is_found_with_its_line() {
        assert_eq!(
            complaints("x\nsee `core/x/src/old.rs`"),
            ["docs/a.md:2: core/x/src/old.rs does not exist: name the new place"]
        );
        assert_eq!(complaints("`core/xy` and `core/x/sr`").len(), 2);
    }

    #[test]
    fn patterns_commands_and_foreign_paths_are_not_looked_up() {
        for other in ["`core/<name>`", "`core/*`", "core/none", "`groups/x`", "`cargo core/none`"] {
            assert_eq!(complaints(other), Vec::<String>::new(), "{other}");
        }
    }
}
