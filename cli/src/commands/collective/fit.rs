//! `fabricast collective fit`: the cost model's constants from measured times.

use anyhow::Context;
use fabricast_collectives::{
    CostParameters, Fit, Term, fit, read_measurements, read_measurements_csv,
};
use serde::Serialize;

use crate::args::{FitArgs, Format};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::source::read_text;

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    parameters: CostParameters,
    /// By constant, in its unit; none for one that was given.
    standard_errors: Vec<(&'static str, Option<f64>)>,
    /// Constants that would have been negative.
    held_at_zero: Vec<&'static str>,
    measurements: usize,
    r_squared: f64,
    worst_us: f64,
}

/// Runs `collective fit`.
///
/// # Errors
///
/// Names the line and field that is wrong, or what else should be measured.
pub(super) fn run(args: &FitArgs, format: Format) -> Result<(), Failure> {
    let named = || format!("'{}'", args.measurements.display());
    let text = read_text(&args.measurements)?;
    let is_csv = args.measurements.extension().is_some_and(|extension| extension == "csv");
    let read = if is_csv { read_measurements_csv } else { read_measurements };
    let measurements = read(&text).with_context(named)?;
    let found = fit(&measurements, args.path_links, &args.given).with_context(named)?;
    if let Some(out) = &args.out {
        output::files(&[(out, &toml_text(&found.parameters))])?;
    }
    let is_given = |term: Term| args.given.iter().any(|(given, _)| *given == term);
    let errors = Term::ALL.into_iter().zip(found.standard_errors);
    let found = Found {
        standard_errors: errors
            .map(|(term, error)| (term.field(), (!is_given(term)).then_some(error)))
            .collect(),
        held_at_zero: found.held_at_zero.iter().map(|term| term.field()).collect(),
        measurements: measurements.len(),
        r_squared: found.r_squared,
        worst_us: Fit::worst_us(&found),
        parameters: found.parameters,
    };
    output::print(format, &found, table)
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
