//! Keeps `docs/invariants.md` and the code in step: what is listed is used, what is used is
//! listed.
//!
//! Rules of the whole system are named `R1`, `G1`, `S1`; those of one file `NAME-1`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, SourceFile};

const LIST: &str = "docs/invariants.md";
/// Things that are named like an invariant and are none.
const LOOKALIKES: [&str; 4] = ["UTF-8", "UTF-16", "HCA-1", "HCA-2"];

/// Compares the list with the code.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(list) = files.iter().find(|file| file.path == LIST) else {
        return vec![Finding::new(LIST, 0, "missing", "list every invariant there")];
    };
    let mut findings = Vec::new();
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, id) in listed_ids(list) {
        if let Some(earlier) = listed.insert(id, number) {
            let what = format!("{id} is already listed on line {earlier}");
            findings.push(Finding::new(LIST, number, what, "one rule, one id"));
        }
    }
    let rust: Vec<_> =
        files.iter().filter(|file| file.is_rust() && file.top() != "xtask").collect();
    let used: BTreeSet<&str> = rust.iter().flat_map(|file| ids(&file.text)).collect();
    for (id, number) in &listed {
        if !used.contains(id) {
            let hint = "name it where it is kept or tested, or take it off the list";
            findings.push(Finding::new(LIST, *number, format!("no source names {id}"), hint));
        }
    }
    for file in rust {
        for (number, line) in file.lines() {
            let Some((_, comment)) = line.split_once("//") else { continue };
            for id in ids(comment).filter(|id| !listed.contains_key(id)) {
                let hint = format!("add it to {LIST}");
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("{id} is not listed"),
                    hint,
                ));
            }
        }
    }
    findings
}

/// The ids in the first column of the list's tables, with their lines.
fn listed_ids(list: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    list.lines().filter_map(|(number, line)| {
        let cell = line.strip_prefix('|')?.split('|').next()?.trim().trim_matches('`');
        is_id(cell).then_some((number, cell))
    })
}

/// Everything in the text that looks like an id.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    // `R1-R4` speaks of R1 and of R4.
    words.flat_map(|word| {
        let parts = word.split('-').filter(|part| is_system_id(part));
        std::iter::once(word).filter(|word| is_file_id(word)).chain(parts)
    })
}

fn is_id(word: &str) -> bool {
    is_system_id(word) || is_file_id(word)
}

/// `R1` to `R9`, `G1`, `S1`.
fn is_system_id(word: &str) -> bool {
    matches!(word.as_bytes(), [b'R' | b'G' | b'S', b'1'..=b'9'])
}

/// `ROOT-1`: two or more letters, so that names of switches (`S-12`) are none.
fn is_file_id(word: &str) -> bool {
    let Some((name, number)) = word.split_once('-') else { return false };
    name.len() >= 2
        && name.bytes().all(|byte| byte.is_ascii_uppercase())
        && (1..=2).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !number.starts_with('0')
        && !LOOKALIKES.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(list: &str, source: &str) -> Vec<String> {
        let files = [file(LIST, list), file("core/a/src/b.rs", source)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_and_a_source_in_step_pass() {
        let list = "| id | rule |\n| --- | --- |\n| R1 | safe |\n| `ROOT-1` | first |\n";
        let source = "//! Keeps R1-R1 and ROOT-1. UTF-8, S-12, SHA-256, C-MR4LMS, EDR-096.\n";
        assert_eq!(complaints(list, source), Vec::<String>::new());
    }

    #[test]
    fn a_rule_that_no_source_names_is_found_with_its_line() {
        assert_eq!(
            complaints("# x\n| G2 | one tree |\n", "//! G3x, G22, aG2\n"),
            [
                "docs/invariants.md:2: no source names G2: name it where it is kept or tested, or take it off the list"
            ]
        );
    }

    #[test]
    fn an_id_in_a_comment_that_is_not_listed_is_found_with_its_line() {
        let source = "//! Why.\nlet x = 1; // last: one answer (ROOT-1)\nlet s = \"PORT-7\";\n";
        assert_eq!(
            complaints("", source),
            ["core/a/src/b.rs:2: ROOT-1 is not listed: add it to docs/invariants.md"]
        );
    }

    #[test]
    fn an_id_listed_twice_and_a_missing_list_are_found() {
        let found = complaints("| R1 | a |\n| R1 | b |\n", "//! R1\n");
        assert!(found[0].contains("R1 is already listed on line 1"), "{found:?}");
        assert_eq!(check(&[]).len(), 1);
    }
}
