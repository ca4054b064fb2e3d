//! The papers' experiments: what to run, and the figures as tables, plots and published numbers
//! beside ours.
//!
//! Read [`Experiment`] first: a name, where it comes from, and a pure function that makes a
//! [`Report`]. [`Report::files`] turns a report into the text of CSV, SVG and Markdown files;
//! writing them is the shell's work, and so is the clock ([`Run::clock`]).
//!
//! [`capacity_report`] belongs to no paper: it plots the cost of table sizes on a given fabric. Nor
//! does the experiment `damaged`.
//!
//! Rates, delays, buffers and costs of adapters are a value too ([`Hardware`]), read from a file.
//!
//! Same seed, same bytes out, but for tables that hold measured times ([`Table::measured`]).
//!
//! [`page_faults`] asks a written comparison what [`Report::faults`] asks a report.
#![warn(clippy::wildcard_enum_match_arm)]

mod aggregation;
mod all_gather;
mod broadcast;
mod c_mr4lms;
mod capacity;
mod claim;
mod damaged;
mod dawning;
mod experiment;
mod hardware;
mod latency;
mod list;
mod markdown;
mod mr4lms;
mod network;
mod page;
mod pattern;
mod plot;
mod report;
mod routing;
mod sample;
mod svg;

pub use capacity::capacity_report;
pub use claim::{Claim, Law, NotCompared, Verdict};
pub use experiment::{Experiment, ExperimentError, Length, Run, Step};
pub use hardware::{BadField, Hardware, HardwareError};
pub use list::{experiments, find};
pub use page::page_faults;
pub use plot::{Axis, Bars, Boxes, Figure, Plot, Quartiles, Scale, Series, Style};
pub use report::{Cell, Report, ReportFile, Table};
