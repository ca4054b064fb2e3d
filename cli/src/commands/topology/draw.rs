//! `fabricast topology draw`: a fabric as SVG.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fabricast_drawing::{Fabric, Overlay, Scope, Unit, draw};

use crate::failure::Failure;
use crate::output;
use crate::source::Topology;

/// Options of `topology draw`.
#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    /// File as `ibnetdiscover` prints it, spec in TOML, or preset.
    #[arg(value_name = "FILE|PRESET", required_unless_present = "named")]
    file: Option<String>,
    /// The same, as older versions take it.
    #[arg(
        long = "topology",
        id = "named",
        value_name = "FILE|PRESET",
        hide = true,
        conflicts_with = "file"
    )]
    named: Option<String>,
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
pub(super) fn run(args: &DrawArgs) -> Result<(), Failure> {
    let file = args.file.as_ref().or(args.named.as_ref());
    let topology = Topology::read(file.map_or("", String::as_str))?;
    let fabric = Fabric::new(Arc::clone(&topology.graph));
    let scope = scope(&fabric, args.inside.as_deref())?;
    let text = draw(&fabric, scope, &Overlay::default()).file();
    match &args.out {
        Some(out) => output::files(&[(out, &text)]),
        None => output::print_text(&text),
    }
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
