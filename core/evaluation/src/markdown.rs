//! The comparison with the published numbers as Markdown.

use std::fmt::Write;

use crate::report::{Report, Table};

/// Rows of a table that are shown in the comparison; all are in the CSV.
const SHOWN: usize = 60;

/// Writes claims, notes and tables of a report.
pub(crate) fn comparison(title: &str, report: &Report) -> String {
    let mut text = format!("# {title}\n");
    if !report.claims.is_empty() {
        text.push_str("\n## Published numbers and ours\n\n");
        line(&mut text, ["what", "source", "published", "ours", "verdict", "why"]);
        line(&mut text, ["---"; 6]);
        for claim in &report.claims {
            let verdict = claim.verdict.to_string();
            let cells =
                [&claim.what, &claim.source, &claim.published, &claim.ours, &verdict, &claim.why];
            line(&mut text, cells.map(String::as_str));
        }
    }
    if !report.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
        for note in &report.notes {
            let _ = writeln!(text, "- {note}"); // a string takes everything
        }
    }
    for table in &report.tables {
        rows(&mut text, table);
    }
    for plot in &report.plots {
        let _ = write!(text, "\n![{}]({}.svg)\n", plot.title, plot.name);
    }
    text
}

fn rows(text: &mut String, table: &Table) {
    let _ = write!(text, "\n## {}\n\n", table.title);
    line(text, table.columns.iter().map(String::as_str));
    line(text, table.columns.iter().map(|_| "---"));
    for row in table.rows.iter().take(SHOWN) {
        let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
        line(text, cells.iter().map(String::as_str));
    }
    if table.rows.len() > SHOWN {
        let _ = write!(text, "\n{} rows more in `{}.csv`.\n", table.rows.len() - SHOWN, table.name);
    }
}

fn line<'a>(text: &mut String, cells: impl IntoIterator<Item = &'a str>) {
    text.push('|');
    for cell in cells {
        let _ = write!(text, " {} |", cell.replace('|', "\\|"));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Claim, Verdict};

    #[test]
    fn a_claim_is_one_row_and_a_bar_in_it_does_not_break_the_table() {
        let claim = Claim {
            what: "max TFI".to_owned(),
            source: "C-MR4LMS §4.3".to_owned(),
            published: "7".to_owned(),
            ours: "7 | 4".to_owned(),
            verdict: Verdict::Agrees,
            why: String::new(),
        };
        let report = Report { claims: vec![claim], ..Report::default() };
        let text = comparison("c-mr4lms", &report);
        assert!(text.contains("| max TFI | C-MR4LMS §4.3 | 7 | 7 \\| 4 | agrees |  |\n"), "{text}");
    }

    #[test]
    fn long_tables_are_cut_and_say_so() {
        let mut table = Table::new("long", "Long.", &["n"]);
        (0..SHOWN + 2).for_each(|_| table.push([crate::Cell::Empty]));
        let report = Report { tables: vec![table], ..Report::default() };
        assert!(comparison("x", &report).contains("2 rows more in `long.csv`."));
    }
}
