//! `fabricast collective fit`: the cost model's constants from measured times.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, value_parser};
use fabricast_collectives::{
    CostParameters, Fit, Measurement, Term, fit, fit_with_defaults, read_measurements,
    read_measurements_csv,
};
use fabricast_proto::v1;
use fabricast_tic::encode_constants;
use serde::Serialize;

use super::model::not_negative;
use super::{constants, live};
use crate::args::{Format, ServerArgs};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};
use crate::source::read_text;

/// Result of the fit.
#[derive(Debug, Serialize)]
struct Found {
    parameters: CostParameters,
    /// Standard error of each constant in its unit; none for a given one.
    standard_errors: Vec<(&'static str, Option<f64>)>,
    /// Constants held at 0 because the fit made them negative.
    held_at_zero: Vec<&'static str>,
    /// Constants that keep a default because the measurements gave 0.
    defaults: Vec<&'static str>,
    measurements: usize,
    r_squared: f64,
    worst_us: f64,
}

/// Options of `collective fit`.
#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// Measured times: CSV if the name ends in `.csv`, else JSON lines; fields `operation`,
    /// `bytes`, `processes`, `width`, `tree` (adapter or switch) and `seconds`.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    measurements: Option<PathBuf>,
    /// Measure between the agents of a running control plane, whose TIC then chooses the trees of
    /// new groups by the constants; takes 4 nodes or more.
    #[arg(long, conflicts_with_all = ["measurements", "given"])]
    live: bool,
    /// Most nodes that take part in `--live`.
    #[arg(long, value_name = "N", default_value_t = 16, conflicts_with = "measurements",
        value_parser = value_parser!(u16).range(4..))]
    nodes: u16,
    /// Times that each operation of `--live` runs; the median counts.
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "measurements",
        value_parser = value_parser!(u32).range(1..=900))]
    rounds: u32,
    /// Length in links of the path between two processes of the measured fabric; above 0 with
    /// `--live`.
    #[arg(long, value_name = "N", default_value_t = 4.0, value_parser = not_negative)]
    path_links: f64,
    /// Known constant, such as `matching_us=0.01`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = given)]
    given: Vec<(Term, f64)>,
    /// Output file for the constants, for use with `--parameters`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs `collective fit`.
///
/// # Errors
///
/// Names the line and field that is wrong, or what else should be measured.
pub(super) fn run(args: &FitArgs, format: Format) -> Result<(), Failure> {
    let (measurements, found, defaults) = match &args.measurements {
        Some(file) => {
            let named = || format!("'{}'", file.display());
            let text = read_text(file)?;
            let is_csv = file.extension().is_some_and(|extension| extension == "csv");
            let read = if is_csv { read_measurements_csv } else { read_measurements };
            let measurements = read(&text).with_context(named)?;
            let found = fit(&measurements, args.path_links, &args.given).with_context(named)?;
            (measurements, found, Vec::new())
        }
        None => block_on(measured(args))?,
    };
    if let Some(out) = &args.out {
        output::files(&[(out, &toml_text(&found.parameters))])?;
    }
    let has_no_error =
        |term: Term| args.given.iter().any(|(given, _)| *given == term) || defaults.contains(&term);
    let errors = Term::ALL.into_iter().zip(found.standard_errors);
    let found = Found {
        standard_errors: errors
            .map(|(term, error)| (term.field(), (!has_no_error(term)).then_some(error)))
            .collect(),
        held_at_zero: found.held_at_zero.iter().map(|term| term.field()).collect(),
        defaults: defaults.iter().map(|term| term.field()).collect(),
        measurements: measurements.len(),
        r_squared: found.r_squared,
        worst_us: Fit::worst_us(&found),
        parameters: found.parameters,
    };
    output::print(format, &found, table)
}

/// Measures and fits, and gives the TIC the constants.
async fn measured(args: &FitArgs) -> Result<(Vec<Measurement>, Fit, Vec<Term>), Failure> {
    if args.path_links <= 0.0 {
        return Err(Failure::input("--path-links must be more than 0 with --live"));
    }
    let remote = Remote::new(&args.server)?;
    let measurements = live::measure(&remote, args.nodes.into(), args.rounds).await?;
    let fitted = fit_with_defaults(&measurements, args.path_links);
    let (found, defaults) = fitted.context("the times of the agents")?;
    let constants = v1::TreeConstants {
        default_fields: defaults.iter().map(|term| term.field().to_owned()).collect(),
        measurement_count: u32::try_from(measurements.len()).unwrap_or(u32::MAX),
        r_squared: found.r_squared,
        ..encode_constants(&found.parameters)
    };
    constants::set(&remote, Some(constants)).await?;
    Ok((measurements, found, defaults))
}

fn given(text: &str) -> Result<(Term, f64), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    let term = Term::ALL.into_iter().find(|term| term.field() == name).ok_or_else(|| {
        let names = Term::ALL.map(Term::field).join(", ");
        format!("no constant '{name}', there are {names}")
    })?;
    Ok((term, not_negative(value).map_err(|problem| format!("{name}: {problem}"))?))
}

/// The constants as `--parameters` reads them.
fn toml_text(parameters: &CostParameters) -> String {
    let mut text = format!("path_links = {:?}\n", parameters.path_links);
    for term in Term::ALL {
        text.push_str(&format!("{} = {:?}\n", term.field(), parameters.get(term)));
    }
    text
}

fn table(found: &Found) -> String {
    let mut rows = Rows::new(&["CONSTANT", "VALUE", "STANDARD ERROR", "NOTE"]);
    for (term, (field, error)) in Term::ALL.into_iter().zip(&found.standard_errors) {
        let note = match error {
            None if found.defaults.contains(field) => "default, measured as 0",
            None => "given",
            Some(_) if found.held_at_zero.contains(field) => "held at 0",
            Some(_) => "",
        };
        rows.push(vec![
            (*field).to_owned(),
            format!("{:.6}", found.parameters.get(term)),
            error.map_or_else(|| "-".to_owned(), |error| format!("{error:.6}")),
            note.to_owned(),
        ]);
    }
    format!(
        "{rows}\n{} measurements, R2 {:.4}, at most {:.3} us off",
        found.measurements, found.r_squared, found.worst_us
    )
}
