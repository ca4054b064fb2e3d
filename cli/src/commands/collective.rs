//! `fabricast collective`: trees for collective operations.

mod cost;
mod fit;
mod plan;
mod tree;

use std::sync::Arc;

use anyhow::Context;
use fabricast_collectives::{CostParameters, Fabric, Limits, ParametersError};

use crate::args::{CollectiveCommand, Format, ModelArgs};
use crate::failure::Failure;
use crate::source::{Topology, in_one_line, read_text};

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: CollectiveCommand, format: Format) -> Result<(), Failure> {
    match command {
        CollectiveCommand::Cost(args) => cost::run(&args, format),
        CollectiveCommand::Fit(args) => fit::run(&args, format),
        CollectiveCommand::Tree(args) => tree::run(&args, format),
        CollectiveCommand::Plan(args) => plan::run(&args, format),
    }
}

/// Reads what trees cost, and their bounds.
fn model(args: &ModelArgs) -> Result<(CostParameters, Limits), Failure> {
    let parameters = match &args.parameters {
        None => CostParameters::PAPER,
        Some(file) => {
            let parsed = CostParameters::parse(&read_text(file)?).map_err(|error| match error {
                ParametersError::Syntax(message) => anyhow::anyhow!(in_one_line(&message)),
                error @ ParametersError::Range { .. } => error.into(),
            });
            parsed.with_context(|| format!("'{}'", file.display()))?
        }
    };
    let limits = Limits {
        adapter_children: args.adapter_children,
        switch_children: args.switch_children,
        ..Limits::default()
    };
    Ok((parameters, limits))
}

/// Sees a topology as trees of switches do.
fn fabric(topology: &Topology) -> Result<Fabric, Failure> {
    Ok(Fabric::new(Arc::clone(&topology.graph), Arc::new(topology.fat_tree()?)))
}
