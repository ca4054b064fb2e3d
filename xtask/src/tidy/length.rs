//! Keeps files short: a limit for new ones, and a ratchet for those that were longer before.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::{Finding, RATCHET, SourceFile};

/// Lines of a file that nobody has to explain.
const LIMIT: usize = 400;
/// Lines that no file has, explained or not.
const HARD_LIMIT: usize = 600;

const RATCHET_HEADER: &str = "\
# Files longer than the limit of 400 lines, with the length they may have. They may only shrink:
# `cargo xtask fix` lowers an entry, and takes it out once the file is short enough.
[lines]
";

/// Compares the length of every Rust file with the limit and the ratchet.
///
/// # Errors
///
/// A ratchet that is not a table of lengths.
pub(crate) fn check(files: &[SourceFile], ratchet: &str) -> Result<Vec<Finding>> {
    let allowed = parse(ratchet)?;
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let length = file.text.lines().count();
        let allowance = allowed.get(&file.path).copied();
        let found = |what: String, hint: &str| Finding::new(&file.path, length, what, hint);
        if length > HARD_LIMIT {
            findings.push(found(
                format!("{length} lines, and none may have more than {HARD_LIMIT}"),
                "split the file",
            ));
        } else if length > allowance.unwrap_or(LIMIT).max(LIMIT) {
            let allowance = allowance.unwrap_or(LIMIT);
            findings.push(found(
                format!("{length} lines, {allowance} allowed"),
                "split the file; the ratchet never goes up",
            ));
        } else if allowance.is_some_and(|allowance| length < allowance) {
            let what = format!("{length} lines, and the ratchet still allows more");
            findings.push(found(what, "run `cargo xtask fix` to keep what was won"));
        }
    }
    for path in allowed.keys().filter(|path| !files.iter().any(|file| file.path == **path)) {
        let what = format!("{path} is listed and does not exist");
        findings.push(Finding::new(RATCHET, 0, what, "run `cargo xtask fix`"));
    }
    Ok(findings)
}

/// The ratchet with every entry lowered to the present length.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn tightened(files: &[SourceFile], ratchet: &str) -> Result<String> {
    let mut text = RATCHET_HEADER.to_owned();
    for (path, allowance) in parse(ratchet)? {
        let Some(file) = files.iter().find(|file| file.path == path) else { continue };
        let length = file.text.lines().count().min(allowance);
        if length > LIMIT {
            writeln!(text, "\"{path}\" = {length}").expect("a string takes any text");
        }
    }
    Ok(text)
}

fn parse(ratchet: &str) -> Result<BTreeMap<String, usize>> {
    let table: toml::Table = ratchet.parse().with_context(|| format!("read {RATCHET}"))?;
    let lines = table.get("lines").cloned().unwrap_or_else(|| toml::Table::new().into());
    lines.try_into().with_context(|| format!("read [lines] of {RATCHET}"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(lines: usize, ratchet: &str) -> Vec<String> {
        let files = [file("a.rs", &"//! x\n".repeat(lines))];
        check(&files, ratchet).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_new_file_may_reach_the_limit_and_not_pass_it() {
        assert!(complaints(LIMIT, "").is_empty());
        assert_eq!(
            complaints(LIMIT + 1, ""),
            ["a.rs:401: 401 lines, 400 allowed: split the file; the ratchet never goes up"]
        );
    }

    #[test]
    fn a_listed_file_may_keep_its_length_and_must_hand_in_what_it_lost() {
        let ratchet = "[lines]\n\"a.rs\" = 500\n";
        assert!(complaints(500, ratchet).is_empty());
        assert!(complaints(501, ratchet)[0].contains("501 lines, 500 allowed"));
        assert!(complaints(450, ratchet)[0].contains("cargo xtask fix"));
        assert!(complaints(10, ratchet)[0].contains("cargo xtask fix"));
    }

    #[test]
    fn no_ratchet_entry_lifts_the_hard_limit() {
        let ratchet = "[lines]\n\"a.rs\" = 700\n";
        assert!(complaints(601, ratchet)[0].contains("none may have more than 600"));
    }

    #[test]
    fn an_entry_without_a_file_is_found() {
        let found = complaints(1, "[lines]\n\"gone.rs\" = 500\n");
        assert!(found[0].contains("gone.rs is listed and does not exist"), "{found:?}");
    }

    #[test]
    fn tightening_lowers_drops_and_never_raises() {
        let ratchet =
            "[lines]\n\"a.rs\" = 500\n\"b.rs\" = 500\n\"c.rs\" = 450\n\"gone.rs\" = 500\n";
        let of = |path, lines| file(path, &"x\n".repeat(lines));
        let files = [of("a.rs", 480), of("b.rs", 300), of("c.rs", 470)];
        let after = tightened(&files, ratchet).unwrap();
        assert_eq!(parse(&after).unwrap(), [("a.rs".into(), 480), ("c.rs".into(), 450)].into());
        assert_eq!(tightened(&files, &after).unwrap(), after);
    }

    #[test]
    fn a_damaged_ratchet_is_an_error() {
        assert!(check(&[], "lines = 3").is_err());
        assert!(check(&[], "[lines").is_err());
    }
}
