//! Results of an experiment: tables, plots, and the published numbers beside ours.

use std::fmt;

use crate::claim::{self, Claim, Law, NotCompared};
use crate::markdown;
use crate::plot::Plot;
use crate::svg;

/// The outcome of one experiment.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each becomes one CSV file.
    pub tables: Vec<Table>,
    /// Each becomes one SVG file.
    pub plots: Vec<Plot>,
    /// The published numbers beside ours; they become `comparison.md`.
    pub claims: Vec<Claim>,
    /// Statements that follow from the construction, and whether they hold.
    pub laws: Vec<Law>,
    /// Published statements that no row stands for.
    pub not_compared: Vec<NotCompared>,
    /// Remarks needed to judge the figures: choices, fitted constants, departures.
    pub notes: Vec<String>,
}

/// A table of figures.
#[derive(Clone, Debug)]
pub struct Table {
    /// File name without its ending, unique in the report.
    pub name: String,
    /// Description of the rows, with the source (paper, figure or table).
    pub title: String,
    /// Column titles, with units where the numbers have one.
    pub columns: Vec<String>,
    /// Rows of as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Holds times measured on this machine, so two runs differ.
    pub measured: bool,
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, aligned to the left.
    Text(String),
    /// An exact integer.
    Count(u64),
    /// A figure; written with the decimals given.
    Number(f64, usize),
    /// Nothing known, an empty field.
    Empty,
}

/// The text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// File name with its ending, inside the folder of the experiment.
    pub name: String,
    /// Its whole text.
    pub text: String,
}

impl Report {
    /// Writes the report out as files: a CSV per table, an SVG per plot, and `comparison.md`.
    #[must_use]
    pub fn files(&self, title: &str) -> Vec<ReportFile> {
        let comparison = ReportFile {
            name: "comparison.md".to_owned(),
            text: markdown::comparison(title, self),
        };
        self.drawn().into_iter().chain([comparison]).collect()
    }

    /// Lists what is wrong with the comparison: rows without tolerance, rows that differ without a
    /// reason of their own. Empty in all reports of this crate.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        claim::faults(&self.claims)
    }

    /// Writes the figures out as files: a CSV per table and an SVG per plot.
    #[must_use]
    pub fn drawn(&self) -> Vec<ReportFile> {
        let tables = self
            .tables
            .iter()
            .map(|table| ReportFile { name: format!("{}.csv", table.name), text: table.csv() });
        let plots = self
            .plots
            .iter()
            .map(|plot| ReportFile { name: format!("{}.svg", plot.name), text: svg::render(plot) });
        tables.chain(plots).collect()
    }
}

impl Table {
    /// Starts a table without rows.
    #[must_use]
    pub fn new(name: &str, title: &str, columns: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
            measured: false,
        }
    }

    /// Marks the table as one that holds measured times.
    #[must_use]
    pub fn measured(mut self) -> Self {
        self.measured = true;
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If it has not one cell for each column.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "one cell for each column of {}", self.name);
        self.rows.push(cells);
    }

    fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let in_memory = "a vector takes every record, and all have one length";
        writer.write_record(&self.columns).expect(in_memory);
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::to_string)).expect(in_memory);
        }
        let bytes = writer.into_inner().expect(in_memory);
        String::from_utf8(bytes).expect("it was written from strings")
    }
}

impl Cell {
    /// Makes a word.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Makes a count.
    #[must_use]
    pub fn count(count: impl Into<u64>) -> Self {
        Self::Count(count.into())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => count.fmt(f),
            Self::Number(number, decimals) => write!(f, "{number:.decimals$}"),
            Self::Empty => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_needs_it_and_writes_numbers_as_told() {
        let mut table = Table::new("t", "A table.", &["pattern", "max TFI", "time in ms", "note"]);
        table.push([
            Cell::text("64x32x16, \"compact\""),
            Cell::count(7u32),
            Cell::Number(1.25, 1),
            Cell::Empty,
        ]);
        let lines = "pattern,max TFI,time in ms,note\n\"64x32x16, \"\"compact\"\"\",7,1.2,\n";
        assert_eq!(table.csv(), lines);
    }

    #[test]
    #[should_panic(expected = "one cell for each column")]
    fn a_row_that_is_too_short_is_refused() {
        Table::new("t", "A table.", &["a", "b"]).push([Cell::Empty]);
    }

    #[test]
    fn a_report_becomes_one_file_per_table_and_plot_and_the_comparison() {
        let report =
            Report { tables: vec![Table::new("t", "A table.", &["a"])], ..Report::default() };
        let names: Vec<String> = report.files("x").into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["t.csv", "comparison.md"]);
    }
}
