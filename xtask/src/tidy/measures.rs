//! `cargo xtask tidy --measures`: figures that say how hard the code is to join.

use std::fmt::Write;

use super::{Finding, SourceFile, modules, rust, shape};

/// Page with the measures as they were counted last, in a table `| measure | before | today |`.
const PAGE: &str = "docs/architecture.md";
/// Line above that table.
const TABLE: &str = "## Measures of the code";
/// A figure of the page may differ by this part of it, and small ones by [`FEW`].
const PART: usize = 20;
const FEW: usize = 2;

/// Lengths of files that were cut only for a limit of 400 lines.
const NEAR_OLD_LIMIT: std::ops::RangeInclusive<usize> = 380..=400;
/// An item's documentation of so few words most often repeats its name.
const FEW_WORDS: usize = 2;

/// Most item docs of so few words in the whole repository; to be lowered with them.
const SHORT_DOCS: usize = 37;

/// Checks that there are no more item docs of one or two words than there were.
pub(super) fn check(files: &[SourceFile]) -> Option<Finding> {
    let count = files.iter().map(short_docs).sum::<usize>();
    (count > SHORT_DOCS).then(|| {
        let what = format!("{count} item docs of one or two words, at most {SHORT_DOCS} allowed");
        let hint = "say what the name does not, or leave a private item without";
        Finding::new("xtask/src/tidy/measures.rs", 0, what, hint)
    })
}

/// Checks that the figures of the page are those of the code, within 5 %.
pub(super) fn check_page(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let hint = "write the figures of `cargo xtask tidy --measures`";
    let rows: Vec<Row> = rows(page).collect();
    let compare = |(name, counted): (&'static str, usize)| {
        let Some(row) = rows.iter().find(|row| row.name.starts_with(name)) else {
            return Some(Finding::new(PAGE, 0, format!("no figure of {name}"), hint));
        };
        let what = format!("{counted} {name}, the page says {}", row.figure);
        let differs = counted.abs_diff(row.figure) > (row.figure / PART).max(FEW);
        differs.then(|| Finding::new(PAGE, row.line, what, hint))
    };
    measures(files).into_iter().filter_map(compare).collect()
}

/// A row of the page's table.
struct Row {
    line: usize,
    name: String,
    figure: usize,
}

/// Rows whose last cell is a number; blanks between its digits are left out.
fn rows(page: &SourceFile) -> impl Iterator<Item = Row> {
    let table = page.lines().skip_while(|(_, text)| *text != TABLE).skip(1);
    let part = table.take_while(|(_, text)| !text.starts_with("## "));
    part.filter_map(|(line, text)| {
        let cells: Vec<&str> =
            text.strip_prefix("| ")?.trim_end_matches(" |").split(" | ").collect();
        let digits: String = cells.last()?.chars().filter(|c| *c != ' ').collect();
        Some(Row { line, name: cells.first()?.replace('`', ""), figure: digits.parse().ok()? })
    })
}

/// Counts all measures, one a line.
pub(super) fn table(files: &[SourceFile]) -> String {
    measures(files).into_iter().fold(String::new(), |mut text, (what, count)| {
        writeln!(text, "{count:>8}  {what}").expect("a text takes all");
        text
    })
}

/// Measures by their names, with which the rows of the page begin.
fn measures(files: &[SourceFile]) -> [(&'static str, usize); 9] {
    let rust: Vec<&SourceFile> = files.iter().filter(|file| file.is_rust()).collect();
    let all = |count: fn(&SourceFile) -> usize| files.iter().map(count).sum::<usize>();
    let length = |file: &&SourceFile| file.text.lines().count();
    let is_golden = |file: &&SourceFile| file.path.contains("/golden/");
    [
        ("functions with tuple parameters", all(tuple_parameters)),
        (
            "Rust files of 380 to 400 lines",
            rust.iter().filter(|file| NEAR_OLD_LIMIT.contains(&length(file))).count(),
        ),
        ("item docs of one or two words", all(short_docs)),
        ("docs that begin with a question word", all(|file| shape::question_words(file).len())),
        ("comment lines of more than 100 columns", all(|file| shape::wide_comments(file).len())),
        ("golden files", files.iter().filter(is_golden).count()),
        (
            "Rust files outside of tests that make a tonic::Status",
            all(|file| usize::from(makes_status(file))),
        ),
        ("lines of Rust", rust.iter().map(length).sum()),
        ("circles of more than two files", modules::circle_count(files)),
    ]
}

fn tuple_parameters(file: &SourceFile) -> usize {
    if !file.is_rust() || shape::is_test(file) {
        return 0;
    }
    shape::tuple_parameters(file, &rust::code(&file.text)).len()
}

/// Counts items of Rust whose documentation has one or two words.
fn short_docs(file: &SourceFile) -> usize {
    if !file.is_rust() {
        return 0;
    }
    let mut lines = file.text.lines().map(str::trim).peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("///") else { continue };
        let mut words = first.split_whitespace().count();
        while let Some(more) = lines.next_if(|line| line.starts_with("///")) {
            words += more.trim_start_matches('/').split_whitespace().count();
        }
        count += usize::from((1..=FEW_WORDS).contains(&words));
    }
    count
}

/// True if code outside of tests calls a constructor of `tonic::Status`, such as
/// `Status::not_found`.
fn makes_status(file: &SourceFile) -> bool {
    if !file.is_rust() || shape::is_test(file) {
        return false;
    }
    let code = rust::code(&file.text);
    let imports = rust::imports(&code);
    let is_imported = imports.iter().any(|import| import.path == ["tonic", "Status"]);
    let calls = |mark: &str| {
        code.match_indices(mark).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            let after = code[at + mark.len()..].chars().next();
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            !before.is_some_and(is_word) && after.is_some_and(char::is_lowercase)
        })
    };
    (is_imported && calls("Status::")) || calls("tonic::Status::")
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn count(files: &[SourceFile], what: &str) -> usize {
        let table = table(files);
        let line = table.lines().find(|line| line.ends_with(what)).expect("a line");
        line.split_whitespace().next().and_then(|figure| figure.parse().ok()).expect("a figure")
    }

    #[test]
    fn each_measure_counts_what_it_names() {
        let text = "//! Fine.\nuse tonic::Status;\n/// The group.\nfn f((a, b): (A, B)) {}\n\
                    /// Says\n/// more.\nfn g() { Status::not_found(\"\"); }\n\
                    /// More than two.\nfn h() {}\n/// How.\nfn i() {}\n";
        let long = "//! x\n".repeat(390);
        let files = [
            file("a/src/b.rs", text),
            file("a/src/c.rs", &long),
            file("a/tests/d.rs", "//! x\nuse tonic::Status;\nfn f() { Status::new(); }\n"),
            file("a/tests/golden/e.txt", "x"),
        ];
        for (what, wanted) in [
            ("tuple parameters", 1),
            ("400 lines", 1),
            ("two words", 3),
            ("question word", 1),
            ("100 columns", 0),
            ("golden files", 1),
            ("tonic::Status", 1),
            ("lines of Rust", 11 + 390 + 3),
            ("two files", 0),
        ] {
            assert_eq!(count(&files, what), wanted, "{what}");
        }
    }

    #[test]
    fn more_short_docs_than_the_ceiling_are_found() {
        let docs = |count: usize| file("a/src/b.rs", &"/// The group.\nfn f() {}\n".repeat(count));
        assert!(check(&[docs(SHORT_DOCS)]).is_none());
        assert!(check(&[docs(SHORT_DOCS), docs(1)]).is_some());
    }

    /// A page of which the figure of one measure is written so.
    fn page(name: &str, figure: &str) -> SourceFile {
        let names = measures(&[]).map(|(name, _)| name);
        let row = |one: &str| {
            let figure = if one == name { figure } else { "0" };
            format!("| {one}, as it is | 1 | {figure} |\n")
        };
        let rows: String = names.into_iter().map(row).collect();
        let head = "| measure | old | new |\n| --- | ---: | ---: |";
        file(PAGE, &format!("# Page\n\n{TABLE}\n\n{head}\n{rows}"))
    }

    #[test]
    fn figures_of_the_page_are_compared_within_a_twentieth() {
        let lines = |count: usize| file("a/src/b.rs", &"//! x\n".repeat(count));
        for (count, written, is_found) in [
            (1_050, "1 000", false),
            (1_051, "1 000", true),
            (949, "1 000", true),
            (2, "0", false),
            (3, "0", true),
        ] {
            let found = check_page(&[lines(count), page("lines of Rust", written)]);
            assert_eq!(found.len(), usize::from(is_found), "{count} of {written}: {found:?}");
            let told = "write the figures of `cargo xtask tidy --measures`";
            assert!(found.iter().all(|one| one.line > 6 && one.hint == told), "{found:?}");
        }
    }

    #[test]
    fn each_measure_has_a_figure_on_the_page() {
        assert_eq!(check_page(&[]), []);
        let page = page("golden files", "many");
        let found: Vec<_> = check_page(&[page]).into_iter().map(|one| one.what).collect();
        assert_eq!(found, ["no figure of golden files"]);
    }

    #[test]
    fn a_circle_of_three_files_is_counted_once() {
        let files = [("b", "c"), ("c", "d"), ("d", "b")].map(|(name, other)| {
            let text = format!("//! x\nuse crate::{other}::X;\n");
            file(&format!("a/src/{name}.rs"), &text)
        });
        assert_eq!(count(&files, "two files"), 1);
        assert_eq!(count(&files[..2], "two files"), 0);
    }
}
