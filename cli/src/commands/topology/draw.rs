//! `fabricast topology draw`: a fabric as SVG.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fabricast_drawing::{Drawing, Fabric, Overlay, Scope, Unit, draw};

use crate::args::{Format, value_or_option};
use crate::failure::Failure;
use crate::output;
use crate::source::Topology;

value_or_option! {
    /// A topology.
    struct TopologyArgs {
        /// File as `ibnetdiscover` prints it, spec in TOML, or preset.
        "topology": "FILE|PRESET"
    }
}

/// Options of `topology draw`.
#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    #[command(flatten)]
    topology: TopologyArgs,
    /// Draw the switches of one midplane, such as `cn-3` or `tn-0`; default: the whole fabric, by
    /// midplane if it is large.
    #[arg(long, value_name = "UNIT")]
    inside: Option<String>,
    /// Output file; default: standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Draws the fabric.
///
/// # Errors
///
/// A topology that cannot be read, or a midplane that it does not have.
pub(super) fn run(args: &DrawArgs, format: Format) -> Result<(), Failure> {
    let topology = Topology::read(args.topology.get())?;
    let fabric = Fabric::new(Arc::clone(&topology.graph));
    let scope = scope(&fabric, args.inside.as_deref())?;
    print(&draw(&fabric, scope, &Overlay::default()), args.out.as_deref(), format)
}

/// Prints a drawing, or writes it to a file.
///
/// # Errors
///
/// As [`output::document`].
pub(in crate::commands) fn print(
    drawing: &Drawing,
    out: Option<&Path>,
    format: Format,
) -> Result<(), Failure> {
    let text = drawing.file();
    let value = || serde_json::json!({ "title": drawing.title, "svg": text });
    output::document(format, out, &text, value)
}

/// Reads the name of the midplane that is drawn.
///
/// # Errors
///
/// One that the fabric does not have.
pub(in crate::commands) fn scope(fabric: &Fabric, inside: Option<&str>) -> Result<Scope, Failure> {
    let Some(key) = inside else { return Ok(Scope::Whole) };
    match Unit::parse(key).filter(|unit| fabric.has(*unit)) {
        Some(unit) => Ok(Scope::Inside(unit)),
        None => {
            let failure = Failure::input(format!("--inside: the fabric has no '{key}'"));
            Err(failure.hint("a large fabric is drawn with the names, such as CN 3, which is cn-3"))
        }
    }
}
