//! The cost model and the operation that several verbs of `collective` take.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use fabricast_collectives::{CostParameters, Fabric, Limits, Operation, ParametersError};
use fabricast_proto::v1;

use crate::failure::Failure;
use crate::source::{Topology, in_one_line, read_text};

/// Cost model and width limits of trees.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Constants of the cost model in TOML, as `collective fit --out` writes them; default: those
    /// of the paper, with 0 for the times per byte, which it does not publish.
    #[arg(long, value_name = "FILE")]
    pub(super) parameters: Option<PathBuf>,
    /// Largest number of children of an adapter.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    pub(super) adapter_children: u32,
    /// Largest number of children of a switch.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(2..))]
    pub(super) switch_children: u32,
}

/// Operation and message size of a collective.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Operation to run.
    #[arg(long, default_value_t = Operation::AllReduce, value_parser = operation())]
    pub(super) operation: Operation,
    /// Message size in bytes.
    #[arg(long, default_value_t = 8)]
    pub(super) bytes: u32,
}

/// The operations that can be asked for.
pub(super) fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(Operation::ALL.map(Operation::name)).map(|name| {
        let is_it = |one: &Operation| one.name() == name;
        Operation::ALL.into_iter().find(is_it).expect("only names of operations are possible")
    })
}

pub(super) fn not_negative(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let right = number.is_finite() && number >= 0.0;
    if right { Ok(number) } else { Err("must be a number of at least 0".to_owned()) }
}

/// An operation as it travels.
pub(super) fn wire_operation(operation: Operation) -> v1::CollectiveOperation {
    match operation {
        Operation::Barrier => v1::CollectiveOperation::Barrier,
        Operation::Broadcast => v1::CollectiveOperation::Broadcast,
        Operation::Reduce => v1::CollectiveOperation::Reduce,
        Operation::AllReduce => v1::CollectiveOperation::AllReduce,
    }
}

/// Reads what trees cost, and their bounds.
pub(super) fn model(args: &ModelArgs) -> Result<(CostParameters, Limits), Failure> {
    let parameters = args.parameters.as_deref().map(parameters).transpose()?;
    let limits = Limits {
        adapter_children: args.adapter_children,
        switch_children: args.switch_children,
        ..Limits::default()
    };
    Ok((parameters.unwrap_or(CostParameters::PAPER), limits))
}

/// Reads a file of constants.
///
/// # Errors
///
/// Names the line or field that is invalid.
pub(in crate::commands) fn parameters(file: &Path) -> Result<CostParameters, Failure> {
    let parsed = CostParameters::parse(&read_text(file)?).map_err(|error| match error {
        ParametersError::Syntax(message) => anyhow::anyhow!(in_one_line(&message)),
        error @ (ParametersError::Range { .. } | ParametersError::NoTime { .. }) => error.into(),
    });
    Ok(parsed.with_context(|| format!("'{}'", file.display()))?)
}

/// Sees a topology as trees of switches do.
pub(super) fn fabric(topology: &Topology) -> Fabric {
    Fabric::detect(Arc::clone(&topology.graph))
}
