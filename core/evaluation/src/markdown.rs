//! The comparison with the published numbers as Markdown.

use std::fmt::Write;

use crate::claim::{Claim, NotCompared};
use crate::report::{Report, Table};

/// Heading of the table of published numbers.
pub(crate) const HEADING: &str = "## Published numbers and ours";

/// Columns of the table of published numbers.
pub(crate) const COLUMNS: [&str; 8] =
    ["what", "source", "published", "ours", "seeds: spread", "tolerance", "verdict", "why"];

const LEGEND: &str = "\
*Same*: the value as printed, or inside the published range. *Near*: within the tolerance. *Fitted*: same or near,
but a parameter was chosen for it. *Better* and *worse* are meant in the claim's own sense. *None*: seeds or runs
disagree. Ours is the mean where there are several seeds or runs.

";

/// Writes claims, laws, notes and tables of a report.
pub(crate) fn comparison(title: &str, report: &Report) -> String {
    let mut text = format!("# {title}\n");
    if !report.claims.is_empty() {
        let _ = write!(text, "\n{HEADING}\n\n"); // a string takes everything
        text.push_str(LEGEND);
        line(&mut text, COLUMNS);
        line(&mut text, ["---"; COLUMNS.len()]);
        for claim in &report.claims {
            let Claim { what, source, published, ours, spread, tolerance, why, .. } = claim;
            let verdict = claim.verdict.to_string();
            let cells = [what, source, published, ours, spread, tolerance, &verdict, why];
            line(&mut text, cells.map(String::as_str));
        }
    }
    if !report.laws.is_empty() {
        text.push_str(
            "\n## Laws\n\nThese follow from the construction; there is nothing to be near to.\n\n",
        );
        line(&mut text, ["what", "source", "demanded", "found", "holds"]);
        line(&mut text, ["---"; 5]);
        for law in &report.laws {
            let holds = if law.holds { "yes" } else { "NO" };
            line(&mut text, [&*law.what, &*law.source, &*law.demanded, &*law.found, holds]);
        }
    }
    if !report.not_compared.is_empty() {
        text.push_str("\n## Not compared\n\n");
        line(&mut text, ["statement", "source", "not compared, because"]);
        line(&mut text, ["---"; 3]);
        for NotCompared { what, source, why } in &report.not_compared {
            line(&mut text, [*what, *source, *why]);
        }
    }
    if !report.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
        for note in &report.notes {
            let _ = writeln!(text, "- {note}");
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
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
        line(text, cells.iter().map(String::as_str));
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
    use crate::claim::{Comparison, Law, Published};

    #[test]
    fn a_claim_is_one_row_and_a_bar_in_it_does_not_break_the_table() {
        let published = Published::number("7 | 4", 7.0);
        let claim = Comparison::new("max TFI", "C-MR4LMS §4.3", published, 8.0).because("wiring");
        let report = Report { claims: vec![claim], ..Report::default() };
        let text = comparison("c-mr4lms", &report);
        let row = "| max TFI | C-MR4LMS §4.3 | 7 \\| 4 | 8 |  | exact | worse | wiring |\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn laws_and_statements_without_a_row_have_tables_of_their_own() {
        let law = Law {
            what: "deadlock, RBB".to_owned(),
            source: "Dawning §3.1".to_owned(),
            demanded: "none".to_owned(),
            found: "none".to_owned(),
            holds: true,
        };
        let left_out = NotCompared { what: "figure 9", source: "§5.2", why: "a picture" };
        let report = Report { laws: vec![law], not_compared: vec![left_out], ..Report::default() };
        let text = comparison("dawning", &report);
        assert!(text.contains("| deadlock, RBB | Dawning §3.1 | none | none | yes |\n"), "{text}");
        assert!(text.contains("| figure 9 | §5.2 | a picture |\n"), "{text}");
    }

    /// A table that is cut hides the rows that come last, whatever they say.
    #[test]
    fn long_tables_are_shown_whole() {
        let mut table = Table::new("long", "Long.", &["n"]);
        (0..200u32).for_each(|row| table.push([crate::Cell::count(row)]));
        let report = Report { tables: vec![table], ..Report::default() };
        assert!(comparison("x", &report).ends_with("| 198 |\n| 199 |\n"));
    }
}
