//! Measures joins on fabrics of 2 048, 32 768 and 1 048 576 endpoints; the bench writes the page.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::list;
use crate::outside;

/// Folder of the page and its plot.
const FOLDER: &str = "docs/evaluation/joins";
/// The line of the page in the table of contents.
pub(super) const ENTRY: &str = "  - [Joins on three sizes of fabric](evaluation/joins/README.md)\n";

/// Measures, and writes and lists the page.
///
/// # Errors
///
/// A bench that does not build or fails, or a table of contents that cannot be written.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut cargo = outside("cargo", root);
    cargo.args(["bench", "--quiet", "--package", "fabricast-reconciler", "--bench", "reconciler"]);
    let measured = cargo.args(["--", "--out"]).arg(root.join(FOLDER)).status();
    let measured = measured.context("start cargo")?;
    ensure!(measured.success(), "the bench reconciler ended with {measured}");
    list(root, ENTRY)
}
