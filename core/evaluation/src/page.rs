//! Reads a written comparison back, and lists what is wrong with its rows.
//!
//! [`crate::Report::faults`] asks a report, which takes the whole experiment. Pages that are
//! committed were written by some earlier run: [`page_faults`] asks their text alone.

use crate::claim::Verdict;
use crate::markdown::{COLUMNS, HEADING};

/// Fewest seeds or runs of a row with a spread.
const FEWEST: usize = 5;
/// Beginnings of rows with a time of this machine, which has a spread.
const TIMED: [&str; 3] = ["run time", "longest run", "largest run time"];

/// Lists what is wrong with the text of a `comparison.md`: rows without tolerance, verdict, spread
/// or a reason of their own, broken laws, statements that are left out without a reason, and tables
/// that are cut.
#[must_use]
pub fn page_faults(text: &str) -> Vec<String> {
    let mut faults: Vec<String> = text
        .lines()
        .filter(|line| line.contains(" rows more in `"))
        .map(|line| format!("a table is cut: {line}"))
        .collect();
    let published = table(text, HEADING);
    match published.split_first() {
        None => {}
        Some((head, _)) if *head != COLUMNS => {
            faults.push(format!("columns are {}", head.join(", ")));
        }
        Some((_, rows)) => {
            faults.extend(rows.iter().flat_map(|row| row_faults(row)));
            faults.extend(repeated(rows));
        }
    }
    for law in table(text, "## Laws").iter().skip(1) {
        if law.last().is_none_or(|holds| holds != "yes") {
            faults.push(format!("law is broken: {}", law.join(" | ")));
        }
    }
    for left_out in table(text, "## Not compared").iter().skip(1) {
        if left_out.len() != 3 || left_out.iter().any(String::is_empty) {
            faults.push(format!("left out without a reason: {}", left_out.join(" | ")));
        }
    }
    faults
}

/// Reads the table below a heading: its head, then its rows; nothing if there is none.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let below = text.lines().skip_while(|line| *line != heading).skip(1);
    let part = below.take_while(|line| !line.starts_with("## "));
    let lines = part.filter(|line| line.starts_with('|') && !line.starts_with("| --- |"));
    lines.map(cells).collect()
}

/// Takes a line of a table apart, as [`crate::markdown`] put it together.
fn cells(line: &str) -> Vec<String> {
    const BAR: &str = "\u{0}";
    let line = line.replace("\\|", BAR);
    let inside = line.trim().trim_start_matches('|').trim_end_matches('|');
    inside.split('|').map(|cell| cell.trim().replace(BAR, "|")).collect()
}

fn row_faults(row: &[String]) -> Vec<String> {
    let [what, source, published, ours, spread, tolerance, verdict, why] = row else {
        return vec![format!("row of {} cells: {}", row.len(), row.join(" | "))];
    };
    let mut faults = Vec::new();
    let filled = [source, published, ours, tolerance];
    for (cell, column) in filled.into_iter().zip(["source", "published", "ours", "tolerance"]) {
        if cell.is_empty() {
            faults.push(format!("'{what}' has no {column}"));
        }
    }
    match read_verdict(verdict) {
        None => faults.push(format!("'{what}': '{verdict}' is no verdict")),
        Some(Verdict::Same) => {}
        Some(Verdict::Fitted) if why.contains("fitted: ") => {}
        Some(Verdict::Fitted) => faults.push(format!("'{what}' does not say what was fitted")),
        Some(
            Verdict::Near
            | Verdict::Better
            | Verdict::Worse
            | Verdict::NotComparable
            | Verdict::Undecided,
        ) => {
            if why.is_empty() {
                faults.push(format!("'{what}' has no reason for a difference"));
            }
        }
    }
    let count = spread.split([' ', ':']).next().and_then(|count| count.parse::<usize>().ok());
    match count {
        Some(count) if count < FEWEST => faults.push(format!("'{what}' has {count} seeds or runs")),
        None if !spread.is_empty() => faults.push(format!("'{what}' has no number of seeds")),
        None if TIMED.iter().any(|timed| what.starts_with(timed)) => {
            faults.push(format!("'{what}' is a run time without spread"));
        }
        None | Some(_) => {}
    }
    faults
}

fn read_verdict(text: &str) -> Option<Verdict> {
    Verdict::ALL.into_iter().find(|verdict| verdict.to_string() == text)
}

/// Lists rows that differ for the reason of another row, word by word.
fn repeated(rows: &[Vec<String>]) -> Vec<String> {
    let differs = |row: &&Vec<String>| {
        let verdict = row.get(6).and_then(|verdict| read_verdict(verdict));
        !matches!(verdict, None | Some(Verdict::Same | Verdict::Fitted))
    };
    let differing: Vec<&Vec<String>> = rows.iter().filter(differs).collect();
    let mut faults = Vec::new();
    for (at, row) in differing.iter().enumerate() {
        if let Some(other) = differing[..at].iter().find(|other| other.last() == row.last()) {
            faults.push(format!("'{}' has the reason of '{}'", row[0], other[0]));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Comparison, Law, NotCompared, Published};
    use crate::sample::Sample;
    use crate::{Report, experiments, markdown};

    /// The committed page of each experiment, in the order of [`experiments`].
    const PAGES: [(&str, &str); 9] = [
        ("c-mr4lms", include_str!("../../../docs/evaluation/c-mr4lms/comparison.md")),
        ("engines", include_str!("../../../docs/evaluation/engines/comparison.md")),
        ("mr4lms", include_str!("../../../docs/evaluation/mr4lms/comparison.md")),
        ("latency", include_str!("../../../docs/evaluation/latency/comparison.md")),
        ("dawning", include_str!("../../../docs/evaluation/dawning/comparison.md")),
        ("aggregation", include_str!("../../../docs/evaluation/aggregation/comparison.md")),
        ("broadcast", include_str!("../../../docs/evaluation/broadcast/comparison.md")),
        ("all-gather", include_str!("../../../docs/evaluation/all-gather/comparison.md")),
        ("damaged", include_str!("../../../docs/evaluation/damaged/comparison.md")),
    ];
    /// Pages of an earlier version, with faults. A page that is written anew leaves this list.
    const OUTDATED: [&str; 1] = ["latency"];

    #[test]
    fn committed_pages_have_no_faults_but_those_that_wait_to_be_written_anew() {
        assert_eq!(experiments().len(), PAGES.len());
        for (experiment, (name, text)) in experiments().iter().zip(PAGES) {
            assert_eq!(experiment.name, name);
            let faults = page_faults(text);
            if OUTDATED.contains(&name) {
                assert!(!faults.is_empty(), "{name} has no faults and leaves OUTDATED");
                continue;
            }
            assert_eq!(faults, Vec::<String>::new(), "docs/evaluation/{name}/comparison.md");
            let title = format!("# {name}: {} ({})", experiment.title, experiment.source);
            assert_eq!(text.lines().next(), Some(title.as_str()));
        }
    }

    fn page(rows: &[&str]) -> String {
        let head = COLUMNS.join(" | ");
        format!("# x\n\n{HEADING}\n\n| {head} |\n| --- | --- |\n{}\n", rows.join("\n"))
    }

    #[test]
    fn pages_that_are_written_here_have_no_faults() {
        let of = |what: &str, ours: Vec<f64>| {
            let published = Published::number("7 | 8", 7.0);
            Comparison::new(what, "§1", published, Sample::from(ours)).because("another | machine")
        };
        let claims = vec![of("a", vec![9.0; 5]), of("b", vec![7.0; 6])];
        let law = Law {
            what: "c".to_owned(),
            source: "§1".to_owned(),
            demanded: "d".to_owned(),
            found: "d".to_owned(),
            holds: true,
        };
        let left_out = NotCompared { what: "e", source: "§1", why: "a picture" };
        let (laws, not_compared) = (vec![law], vec![left_out]);
        let report = Report { claims, laws, not_compared, ..Report::default() };
        let text = markdown::comparison("x", &report);
        assert_eq!(page_faults(&text), Vec::<String>::new(), "{text}");
        let broken = text.replace("| yes |", "| NO |").replace("a picture", "");
        let faults = page_faults(&broken);
        let expected =
            ["law is broken: c | §1 | d | d | NO", "left out without a reason: e | §1 | "];
        assert_eq!(faults, expected);
    }

    #[test]
    fn every_fault_of_a_row_is_named() {
        let of = |row: &str| page_faults(&page(&[row]));
        let none: [&str; 0] = [];
        assert_eq!(of("| w | §1 | 7 | 7 |  | exact | same |  |"), none);
        assert_eq!(of("| w | §1 | 7 | 8 |  |  | worse | old |"), ["'w' has no tolerance"]);
        let silent = ["'w' has no reason for a difference"];
        assert_eq!(of("| w | §1 | 7 | 8 |  | exact | worse |  |"), silent);
        assert_eq!(of("| w | §1 | 7 | 7 |  | 1 | agrees |  |"), ["'w': 'agrees' is no verdict"]);
        let unnamed = ["'w' does not say what was fitted"];
        assert_eq!(of("| w | §1 | 7 | 7 |  | 1 | fitted | a number |"), unnamed);
        let few = ["'w' has 3 seeds or runs"];
        assert_eq!(of("| w | §1 | 7 | 7 | 3: 7 to 7 | 1 | same |  |"), few);
        let timed = ["'run time, x' is a run time without spread"];
        assert_eq!(of("| run time, x | §1 | 7 s | 7 s |  | 1 | same |  |"), timed);
        assert_eq!(of("| w | §1 |"), ["row of 2 cells: w | §1"]);
    }

    #[test]
    fn rows_with_one_reason_and_tables_that_are_cut_are_found() {
        let row = |what: &str| format!("| {what} | §1 | 7 | 8 |  | exact | worse | old |");
        let twice = page(&[&row("a"), &row("b"), "", "9 rows more in `x.csv`."]);
        let expected = ["a table is cut: 9 rows more in `x.csv`.", "'b' has the reason of 'a'"];
        assert_eq!(page_faults(&twice), expected);
        let old = twice.replace(" | tolerance", "").replace("\n9 rows more in `x.csv`.", "");
        let columns = "columns are what, source, published, ours, seeds: spread, verdict, why";
        assert_eq!(page_faults(&old), [columns]);
    }
}
