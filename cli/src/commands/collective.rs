//! `fabricast collective`: trees for collective operations.

mod cost;
mod exercise;
mod fit;
mod plan;
mod running;
mod tree;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use fabricast_collectives::{CostParameters, Fabric, Limits, Operation, ParametersError};
use fabricast_proto::v1;

use crate::args::{CollectiveCommand, Format, ModelArgs};
use crate::failure::Failure;
use crate::remote::block_on;
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
        others => block_on(running(others, format)),
    }
}

/// Runs a verb on a running control plane.
async fn running(command: CollectiveCommand, format: Format) -> Result<(), Failure> {
    match command {
        CollectiveCommand::Create(args) => running::create(args, format).await,
        CollectiveCommand::Release(args) => running::release(args, format).await,
        CollectiveCommand::Show(args) => running::show(args, format).await,
        CollectiveCommand::List { server } => running::list(&server, format).await,
        CollectiveCommand::Usage { server } => running::usage(&server, format).await,
        CollectiveCommand::Reserve(args) => running::reserve(args, format).await,
        CollectiveCommand::Cancel { reservation, server } => {
            running::cancel(reservation, &server, format).await
        }
        CollectiveCommand::Quota(args) => running::quota(args, format).await,
        CollectiveCommand::Run(args) => exercise::run(args, format).await,
        CollectiveCommand::Cost(_)
        | CollectiveCommand::Fit(_)
        | CollectiveCommand::Tree(_)
        | CollectiveCommand::Plan(_) => Err(Failure::input("this verb needs no control plane")),
    }
}

/// An operation as it travels.
fn wire_operation(operation: Operation) -> v1::CollectiveOperation {
    match operation {
        Operation::Barrier => v1::CollectiveOperation::Barrier,
        Operation::Broadcast => v1::CollectiveOperation::Broadcast,
        Operation::Reduce => v1::CollectiveOperation::Reduce,
        Operation::AllReduce => v1::CollectiveOperation::AllReduce,
    }
}

/// Reads what trees cost, and their bounds.
fn model(args: &ModelArgs) -> Result<(CostParameters, Limits), Failure> {
    let parameters = parameters(args.parameters.as_deref())?;
    let limits = Limits {
        adapter_children: args.adapter_children,
        switch_children: args.switch_children,
        ..Limits::default()
    };
    Ok((parameters, limits))
}

/// Reads a file of constants; without one, the paper's.
///
/// # Errors
///
/// What is wrong with which line or field.
pub(crate) fn parameters(file: Option<&Path>) -> Result<CostParameters, Failure> {
    let Some(file) = file else { return Ok(CostParameters::PAPER) };
    let parsed = CostParameters::parse(&read_text(file)?).map_err(|error| match error {
        ParametersError::Syntax(message) => anyhow::anyhow!(in_one_line(&message)),
        error @ ParametersError::Range { .. } => error.into(),
    });
    Ok(parsed.with_context(|| format!("'{}'", file.display()))?)
}

/// Sees a topology as trees of switches do.
fn fabric(topology: &Topology) -> Result<Fabric, Failure> {
    Ok(Fabric::new(Arc::clone(&topology.graph), Arc::new(topology.fat_tree()?)))
}
