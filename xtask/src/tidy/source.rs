//! Checks one file at a time: header, file name, words, paths of a machine.

use super::{Finding, SourceFile};

/// Checks one file.
pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.is_rust() {
        findings.extend(header(file));
        findings.extend(module_name(file));
    }
    findings.extend(words(file));
    findings.extend(machine_paths(file));
    findings
}

fn header(file: &SourceFile) -> Option<Finding> {
    let starts_well = file.text.starts_with("//! ");
    (!starts_well).then(|| {
        let hint = "say in one sentence why the file exists";
        Finding::new(&file.path, 1, "does not start with a //! comment", hint)
    })
}

fn module_name(file: &SourceFile) -> Option<Finding> {
    let (folder, _) = file.path.rsplit_once("/mod.rs").filter(|(_, rest)| rest.is_empty())?;
    Some(Finding::new(&file.path, 0, "module file named mod.rs", format!("name it {folder}.rs")))
}

// The words are put together here so that this file does not offend itself.
const WORDS: [(&str, &str); 3] = [
    (concat!("FIX", "ME"), "mend it, or write an issue"),
    (concat!("XX", "X"), "mend it, or write an issue"),
    (concat!("to", "do!"), "main holds finished work only"),
];

fn words(file: &SourceFile) -> Vec<Finding> {
    let is_code = [".rs", ".proto", ".toml", ".sh"].iter().any(|end| file.path.ends_with(end))
        || file.path.starts_with(".ci/");
    if !is_code {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for (word, hint) in WORDS {
            if contains_word(line, word) {
                findings.push(Finding::new(&file.path, number, format!("{word} left in"), hint));
            }
        }
    }
    findings
}

/// True if `line` has `word` with no letter or digit beside it.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let apart = |side: Option<char>| side.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        apart(before) && (apart(after) || word.ends_with('!'))
    })
}

/// Folders that exist on one machine only; the last one is fine inside tests.
const MACHINE_FOLDERS: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/t", "mp/")];

fn machine_paths(file: &SourceFile) -> Vec<Finding> {
    let tests_start = if file.path.starts_with("tests/") || file.path.contains("/tests/") {
        0
    } else {
        let line = file.lines().find(|(_, line)| line.trim() == "#[cfg(test)]");
        line.map_or(usize::MAX, |(number, _)| number)
    };
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for folder in MACHINE_FOLDERS {
            let excused = folder == MACHINE_FOLDERS[2] && number > tests_start;
            if !excused && names_folder(line, folder) {
                let hint = "take it as an argument, or name it from the root of the repository";
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("path of one machine ({folder})"),
                    hint,
                ));
            }
        }
    }
    findings
}

/// True if the line has an absolute path into `folder`; `a/b/` in the middle of another path or
/// an address is none.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-}*~".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&file(path, text)).into_iter().map(|f| (f.line, f.what)).collect()
    }

    #[test]
    fn rust_starts_with_its_reason_and_generated_rust_need_not() {
        assert_eq!(complaints("a/b.rs", "//! Why.\n"), []);
        for bad in ["", "use std::fs;\n", "\n//! Late.\n", "//!\n", "// Why.\n"] {
            assert_eq!(complaints("a/b.rs", bad).len(), 1, "{bad:?}");
        }
        assert_eq!(complaints("proto/src/generated/x.rs", "use std::fs;\n"), []);
    }

    #[test]
    fn a_module_is_a_file_named_after_it() {
        assert_eq!(complaints("a/mod.rs", "//! Why.\n").len(), 1);
        assert_eq!(complaints("a/remod.rs", "//! Why.\n"), []);
    }

    #[test]
    fn leftovers_are_found_as_words_with_their_line() {
        for (word, _) in WORDS {
            let text = format!("//! Why.\nfn f() {{}} // {word}\n");
            assert_eq!(complaints("a.rs", &text), [(2, format!("{word} left in"))]);
            let inside = format!("//! Why. A{word}\n");
            assert_eq!(complaints("a.rs", &inside), [], "{inside}");
            assert_eq!(complaints("README.md", &text), [], "prose may speak of them");
        }
        let call = concat!("//! Why.\nfn f() { to", "do!() }\n");
        assert_eq!(complaints("a.rs", call).len(), 1);
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_file_and_excused_in_tests_if_scratch() {
        let [work, root, scratch] = MACHINE_FOLDERS;
        for folder in [work, root, scratch] {
            assert_eq!(complaints("README.md", &format!("see {folder}x")).len(), 1);
        }
        let test = format!("//! Why.\n#[cfg(test)]\nmod tests {{ f(\"{scratch}x\") }}\n");
        assert_eq!(complaints("a/src/b.rs", &test), []);
        assert_eq!(complaints("a/src/b.rs", &test.replace(scratch, work)).len(), 1);
        let early = format!("//! Why {scratch}x.\n#[cfg(test)]\n");
        assert_eq!(complaints("a/src/b.rs", &early).len(), 1);
        assert_eq!(complaints("a/tests/b.rs", &early), []);
        assert_eq!(complaints("README.md", &format!("https://example.org{work}x")), []);
        assert_eq!(complaints("README.md", &format!("target{scratch}x")), []);
    }
}
