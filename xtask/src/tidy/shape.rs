//! Checks the shape of files: comments that fit the page; in Rust also parameters with names of
//! their own, and errors that become a gRPC status in one place.

use super::rust;
use super::{Finding, SourceFile};

/// Most columns of a line with a comment alone.
const COLUMNS: usize = 100;

/// Words that a documentation comment does not begin with. The last two may begin another comment,
/// which states a condition with them.
const QUESTION_WORDS: [&str; 13] = [
    "What", "How", "Whether", "Who", "Whom", "Whose", "Whatever", "Whoever", "Whomever", "Why",
    "Which", "Where", "When",
];

/// Beginnings of the label of a field in a `.proto` file; its documentation follows.
const FIELD_LABELS: [&str; 4] = ["Required", "Optional", "Immutable", "Output only"];

/// Checks one file.
pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = wide_comments(file);
    findings.extend(question_words(file));
    findings.extend(noun_clauses(file));
    if !file.is_rust() {
        return findings;
    }
    if !is_test(file) {
        let code = rust::code(&file.text);
        findings.extend(tuple_parameters(file, &code));
        findings.extend(statuses(file, &code));
    }
    findings
}

/// True for a file of tests only.
pub(super) fn is_test(file: &SourceFile) -> bool {
    file.path.starts_with("tests/")
        || !file.path.contains("/src/")
        || file.path.contains("/tests/")
        || file.path.ends_with("/tests.rs")
}

/// The beginning of a comment line in a file; `None` if it is no code.
fn comment_mark(file: &SourceFile) -> Option<&'static str> {
    let ends = |ends: &[&str]| ends.iter().any(|end| file.path.ends_with(end));
    if file.is_generated() || file.path.starts_with("data/") {
        None
    } else if ends(&[".rs", ".proto"]) {
        Some("//")
    } else if ends(&[".toml", ".yaml", ".yml", ".env"]) || file.text.starts_with("#!") {
        Some("#")
    } else {
        None
    }
}

pub(super) fn wide_comments(file: &SourceFile) -> Vec<Finding> {
    let Some(mark) = comment_mark(file) else { return Vec::new() };
    let is_wide = |line: &str| {
        let text = line.trim_start();
        // One word, such as a link, cannot be wrapped.
        text.starts_with(mark) && line.chars().count() > COLUMNS && text.split(' ').count() > 2
    };
    let lines = file.lines().filter(|(_, line)| is_wide(line));
    lines
        .map(|(number, _)| {
            let what = format!("comment of more than {COLUMNS} columns");
            Finding::new(&file.path, number, what, "wrap it")
        })
        .collect()
}

/// Item docs are sentences with a subject, or noun phrases: `Fields of a join`, not `What a join
/// has`.
pub(super) fn question_words(file: &SourceFile) -> Vec<Finding> {
    let marks: &[&str] = if file.is_rust() {
        &["/// ", "//! "]
    } else if file.path.ends_with(".proto") {
        &["// "]
    } else {
        return Vec::new();
    };
    let mut before = "";
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let (line, first) = (line.trim_start(), !before.starts_with("//"));
        before = line;
        let Some(text) = marks.iter().find_map(|mark| line.strip_prefix(mark)) else { continue };
        let word = first_word(text);
        if first && QUESTION_WORDS.contains(&word) {
            let what = format!("documentation that begins with {word}");
            findings.push(Finding::new(&file.path, number, what, "begin with the thing itself"));
        }
    }
    findings
}

/// Comments that are no documentation begin with no noun clause, nor do fields of messages after
/// their label.
fn noun_clauses(file: &SourceFile) -> Vec<Finding> {
    let Some(mark) = comment_mark(file) else { return Vec::new() };
    let is_proto = file.path.ends_with(".proto");
    let words = if is_proto { &QUESTION_WORDS[..] } else { &QUESTION_WORDS[..11] };
    let mut before = "";
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let (line, first) = (line.trim_start(), !before.starts_with(mark));
        before = line;
        let text = line.strip_prefix(mark).and_then(|text| text.strip_prefix(' '));
        let text = if is_proto { text.and_then(after_label) } else { text };
        let word = first_word(text.unwrap_or_default());
        if first && words.contains(&word) {
            let what = format!("comment that begins with {word}");
            findings.push(Finding::new(&file.path, number, what, "begin with the thing itself"));
        }
    }
    findings
}

fn after_label(text: &str) -> Option<&str> {
    let (label, rest) = text.split_once(". ")?;
    FIELD_LABELS.iter().any(|one| label.starts_with(one)).then_some(rest)
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

pub(super) fn tuple_parameters(file: &SourceFile, code: &str) -> Vec<Finding> {
    let names = tuple_names(code);
    let mut findings = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name_end = code[at + 3..].find(['(', '<']).map_or(code.len(), |end| at + 3 + end);
        let mut open = name_end;
        if code[open..].starts_with('<') {
            let Some(generics) = rust::bracketed(code, open) else { continue };
            open += generics.len() + 2;
        }
        if !code[open..].starts_with('(') {
            continue;
        }
        let Some(parameters) = rust::bracketed(code, open) else { continue };
        if rust::split_at_top(parameters).into_iter().any(|one| is_tuple(one, &names)) {
            let line = code[..at].matches('\n').count() + 1;
            let what = format!("{} takes a tuple", code[at + 3..name_end].trim());
            let hint = "make it a struct with named fields, or parameters of their own";
            findings.push(Finding::new(&file.path, line, what, hint));
        }
    }
    findings
}

/// Names that a file gives to tuples for others: `pub type Name = (A, B);`. A short name inside of
/// one file, as for the key of a map, is no type that others have to learn.
fn tuple_names(code: &str) -> Vec<&str> {
    let found = code.match_indices("\npub").filter_map(|(at, _)| {
        let (head, rest) = code[at..].split_once(';')?.0.split_once(" = ")?;
        let (visibility, name) = head.split_once(" type ")?;
        let is_alias = !visibility.trim_start().contains(char::is_whitespace);
        let name = name.split('<').next()?;
        (is_alias && is_tuple_type(rest)).then_some(name)
    });
    found.collect()
}

/// True if the type of a parameter is a tuple of two or more, or one of the `names` of such.
fn is_tuple(parameter: &str, names: &[&str]) -> bool {
    let after_pattern = match parameter.trim().strip_prefix('(') {
        Some(_) => parameter.find("):").map(|at| &parameter[at + 2..]),
        None => parameter.split_once(": ").map(|(_, kind)| kind),
    };
    let kind = after_pattern.unwrap_or_default().trim().trim_start_matches(['&', ' ']);
    is_tuple_type(kind) || names.contains(&kind.split('<').next().unwrap_or_default())
}

fn is_tuple_type(kind: &str) -> bool {
    let kind = kind.trim();
    kind.starts_with('(') && kind.ends_with(')') && kind.contains(',')
}

/// `tonic::Status` is for the layer that speaks gRPC: `api` folders, and `platform`.
fn statuses(file: &SourceFile, code: &str) -> Vec<Finding> {
    let is_edge = file.path.contains("/api/") || file.path.ends_with("/api.rs");
    if is_edge || file.top() == "platform" || file.top() == "proto" {
        return Vec::new();
    }
    let imports = rust::imports(code).into_iter();
    let imported = imports.filter(|import| import.path == ["tonic", "Status"]);
    let mut lines: Vec<usize> = imported.map(|import| import.line).collect();
    let inline = (1..).zip(code.lines()).filter(|(_, line)| line.contains("tonic::Status"));
    lines.extend(inline.map(|(number, _)| number));
    lines.dedup();
    let finding = |number| {
        let hint = "return an error of your own; only api/ makes a status of it";
        Finding::new(&file.path, number, "uses tonic::Status", hint)
    };
    lines.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&file(path, text)).into_iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn comments_fit_the_page_unless_they_are_one_word() {
        let long = "word ".repeat(30);
        assert_eq!(complaints("a/src/b.rs", &format!("//! {long}\n")).len(), 1);
        assert_eq!(complaints("a/tests/b.rs", &format!("    // {long}\n")).len(), 1);
        for (path, mark) in [("deploy/a.yaml", "#"), ("proto/a.proto", "//"), (".ci/run", "#")] {
            let text = format!("#!/bin/sh\n{mark} {long}\n");
            assert_eq!(complaints(path, &text).len(), 1, "{path}");
        }
        assert_eq!(complaints("docs/a.md", &format!("# {long}\n")), Vec::<String>::new());
        let link = format!("// https://{}\n", "x".repeat(120));
        assert_eq!(complaints("a/src/b.rs", &link), Vec::<String>::new());
    }

    #[test]
    fn documentation_begins_with_the_thing_itself() {
        let found = complaints("a/src/b.rs", "//! What it does.\n\n/// How.\nfn f() {}\n");
        assert_eq!(found.len(), 2);
        for word in ["Why", "Where", "When", "Which", "Whom"] {
            let found = complaints("a/src/b.rs", &format!("/// {word} it is so.\nfn f() {{}}\n"));
            assert_eq!(found, [format!("1: documentation that begins with {word}")]);
        }
        let fine = "/// Fields of a join,\n/// What not.\nfn f() {} // Whether\n";
        assert_eq!(complaints("a/src/b.rs", fine), Vec::<String>::new());
        let proto = "// Fields of\n// What\nmessage A {\n  // Whether.\n  bool b = 1;\n}\n";
        assert_eq!(complaints("proto/a.proto", proto).len(), 1);
    }

    #[test]
    fn comments_and_fields_begin_with_no_noun_clause() {
        let found = complaints("a/src/b.rs", "// Whoever calls it.\nfn f() {}\n// Where it is.\n");
        assert_eq!(found, ["1: comment that begins with Whoever"]);
        assert_eq!(complaints("deploy/a.yaml", "# One line.\n# What it is.\na: 1\n").len(), 0);
        assert_eq!(complaints("deploy/a.yaml", "a: 1\n# What it is.\nb: 1\n").len(), 1);
        for (comment, is_found) in [
            ("Required. Who writes.", true),
            ("Output only. When it ended.", true),
            ("Required in the first. How it is made.", true),
            ("Required. The writer. Who that is.", false),
            ("Kinds. What they mean.", false),
        ] {
            let proto = format!("message A {{\n  // {comment}\n  bool b = 1;\n}}\n");
            let found = complaints("proto/a.proto", &proto);
            assert_eq!(found.len(), usize::from(is_found), "{comment}: {found:?}");
        }
    }

    #[test]
    fn parameters_are_no_tuples() {
        let found = complaints(
            "a/src/b.rs",
            "fn f((a, b): (A, B), c: C) {}\nfn g<T>(\n    x: &T,\n    pair: (A, B),\n) {}\n\
             fn h(list: Vec<(A, B)>, unit: (), f: impl Fn(A, B) -> (A, B)) -> (A, B) {}\n\
             fn i(one: Result<(), E>) {}\n",
        );
        assert_eq!(found, ["1: f takes a tuple", "2: g takes a tuple"]);
        let alias = "//! x\npub(crate) type Pair<T> = (A, T);\ntype Key = (A, B);\n\
                     fn f(one: &Pair<T>) {}\nfn g(all: &[Pair], key: Key) {}\n";
        assert_eq!(complaints("a/src/b.rs", alias), ["4: f takes a tuple"]);
        let after = "#[cfg(test)]\nmod tests;\n\nfn f((a, b): (A, B)) {}\n";
        assert_eq!(complaints("a/src/b.rs", after), ["4: f takes a tuple"]);
        let test = "#[cfg(test)]\nmod tests { fn f((a, b): (A, B)) {} }\n";
        assert_eq!(complaints("a/src/b.rs", test), Vec::<String>::new());
    }

    #[test]
    fn a_status_is_made_at_the_edge_only() {
        let text = "use tonic::{Request, Status};\nfn f() -> tonic::Status {}\n";
        let both = ["1: uses tonic::Status", "2: uses tonic::Status"];
        assert_eq!(complaints("services/tic/src/writer.rs", text), both);
        assert_eq!(complaints("services/tic/src/api/groups.rs", text), Vec::<String>::new());
        assert_eq!(complaints("agents/group/src/api.rs", text), Vec::<String>::new());
        assert_eq!(complaints("platform/status/src/status.rs", text), Vec::<String>::new());
        assert_eq!(complaints("services/tic/tests/x.rs", text), Vec::<String>::new());
    }
}
