//! Checks the length of files: 600 lines are the ceiling, not a goal.

use super::{Finding, SourceFile};

/// Most lines a file may have.
const CEILING: usize = 600;

/// Checks the length of one Rust file.
pub(crate) fn check(file: &SourceFile) -> Option<Finding> {
    let length = file.text.lines().count();
    (file.is_rust() && length > CEILING).then(|| {
        let what = format!("{length} lines, at most {CEILING} allowed");
        Finding::new(&file.path, length, what, "split the file by meaning")
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn is_too_long(path: &str, lines: usize) -> bool {
        check(&file(path, &"//! x\n".repeat(lines))).is_some()
    }

    #[test]
    fn only_rust_files_above_the_ceiling_are_found() {
        assert!(!is_too_long("a.rs", CEILING));
        assert!(is_too_long("a.rs", CEILING + 1));
        assert!(!is_too_long("a.md", CEILING + 1));
        assert!(
            !is_too_long("proto/src/generated/a.rs", CEILING + 1),
            "generated code may be long"
        );
    }
}
