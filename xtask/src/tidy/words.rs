//! Checks that the words which the glossary rejects are used nowhere.

use std::collections::BTreeMap;

use super::{Finding, SourceFile};

/// Lists every word of the language, and those that are not used.
const GLOSSARY: &str = "docs/glossary.md";
/// The glossary's last part: a table `| not used | instead |`.
const REJECTED: &str = "## Words that are not used";

/// Checks code and documents; history may speak as it did.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(glossary) = files.iter().find(|file| file.path == GLOSSARY) else {
        return Vec::new();
    };
    let rejected = rejected(&glossary.text);
    if rejected.is_empty() {
        let what = format!("no words below {REJECTED:?}");
        return vec![Finding::new(GLOSSARY, 0, what, "list them as `| word | instead |`")];
    }
    let is_checked = |file: &&SourceFile| {
        let kinds = [".rs", ".md", ".proto", ".py", ".toml"];
        let is_script = file.text.starts_with("#!");
        (is_script || kinds.iter().any(|kind| file.path.ends_with(kind)))
            && ![GLOSSARY, "CHANGELOG.md", "Cargo.lock"].contains(&file.path.as_str())
    };
    let checked = files.iter().filter(is_checked);
    checked.flat_map(|file| words_of(file, &rejected)).collect()
}

fn rejected(glossary: &str) -> BTreeMap<String, String> {
    let part = glossary.split_once(REJECTED).map_or("", |(_, part)| part);
    let cells = part.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let mut words = BTreeMap::new();
    for (word, instead) in cells.filter(|(word, _)| *word != "word" && !word.starts_with("---")) {
        words.insert(word.to_owned(), instead.trim_end_matches([' ', '|']).to_owned());
    }
    words
}

fn words_of(file: &SourceFile, rejected: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for word in words(line) {
            let one = word.strip_suffix('s').unwrap_or(&word);
            if let Some(instead) = rejected.get(&word).or_else(|| rejected.get(one)) {
                let what = format!("{word:?} is not used here");
                findings.push(Finding::new(&file.path, number, what, format!("say {instead}")));
            }
        }
    }
    findings
}

/// Words of a line in small letters, those inside of names included. `ALL_CAPS` are left out: such
/// names are stable.
fn words(line: &str) -> Vec<String> {
    let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_stable = |name: &&str| name.len() > 1 && !name.chars().any(char::is_lowercase);
    let parts = names.filter(|name| !is_stable(name)).flat_map(|name| name.split('_'));
    let mut found = Vec::new();
    for part in parts {
        let mut word = String::new();
        let mut after_small = false;
        for c in part.chars() {
            if c.is_uppercase() && after_small {
                found.push(std::mem::take(&mut word));
            }
            after_small = c.is_lowercase();
            word.extend(c.to_lowercase());
        }
        found.push(word);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const TEXT: &str = "# Glossary\n| floob | fine here |\n\n## Words that are not used\n\n\
                        | word | instead |\n| --- | --- |\n| quux | allocations |\n";

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let files = [file(GLOSSARY, TEXT), file(path, text)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejected_words_are_found_inside_of_names() {
        for text in ["a quux", "JobQuux", "job_quuxs", "`the_quux()`", "Quux"] {
            let said = complaints("a/src/b.rs", text);
            assert_eq!(said.len(), 1, "{text}: {said:?}");
            assert!(said[0].ends_with("is not used here: say allocations"), "{said:?}");
        }
        for text in ["quuxtop", "floob", "QUUX_TAKEN", ""] {
            assert_eq!(complaints("docs/a.md", text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(complaints("CHANGELOG.md", "a quux"), Vec::<String>::new());
        assert_eq!(complaints("deploy/a", "#!/usr/bin/env python3\ndef quux():\n").len(), 1);
        assert_eq!(complaints("deploy/a", "def quux():\n"), Vec::<String>::new());
    }

    #[test]
    fn a_glossary_without_the_list_is_a_finding() {
        assert_eq!(check(&[file(GLOSSARY, "# Glossary\n")]).len(), 1);
    }
}
