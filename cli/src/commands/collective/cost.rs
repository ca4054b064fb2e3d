//! `fabricast collective estimate`: the cost model as a table.

use clap::{Args, value_parser};
use fabricast_collectives::{Operation, Trade, TreeKind};
use serde::Serialize;

use super::model::{ModelArgs, model, not_negative, operation};
use crate::args::Format;
use crate::failure::Failure;
use crate::output::{self, Rows};

/// One operation and size.
#[derive(Debug, Serialize)]
struct Row {
    operation: Operation,
    bytes: u32,
    /// Widths of adapter trees that are as good as the best.
    min_width: u32,
    best_width: u32,
    max_width: u32,
    adapter_us: f64,
    switch_us: f64,
    faster: TreeKind,
}

/// Options of `collective estimate`.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// Number of processes.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    processes: u32,
    /// Operation; default: all.
    #[arg(long, value_parser = operation())]
    operation: Option<Operation>,
    /// Message sizes in bytes.
    #[arg(long, value_delimiter = ',', default_value = "8,64,512,2048,16384,131072")]
    sizes: Vec<u32>,
    /// Width range: widths whose cost is at most this many microseconds above the best.
    #[arg(long, value_name = "US", default_value_t = 0.1, value_parser = not_negative)]
    tolerance: f64,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs `collective estimate`.
///
/// # Errors
///
/// The file of constants is invalid.
pub(super) fn run(args: &CostArgs, format: Format) -> Result<(), Failure> {
    let (parameters, limits) = model(&args.model)?;
    let processes = args.processes;
    let operations = match args.operation {
        Some(operation) => vec![operation],
        None => Operation::ALL.to_vec(),
    };
    let mut rows = Vec::new();
    for operation in operations {
        for bytes in args.sizes.iter().copied() {
            let trade = Trade::new(&parameters, operation, bytes);
            let most = limits.adapter_children.min(processes);
            let widths = trade.width_range(processes, most, args.tolerance);
            let cost = |kind, width| {
                let shape = parameters.complete(kind, processes, width);
                parameters.total_us(&shape, operation, bytes)
            };
            let adapter_us = cost(TreeKind::Adapter, widths.best);
            let switch_us = cost(TreeKind::Switch, limits.switch_children);
            let faster = if switch_us < adapter_us { TreeKind::Switch } else { TreeKind::Adapter };
            rows.push(Row {
                operation,
                bytes,
                min_width: widths.min,
                best_width: widths.best,
                max_width: widths.max,
                adapter_us,
                switch_us,
                faster,
            });
        }
    }
    output::print(format, &rows, |rows| table(rows))
}

fn table(found: &[Row]) -> String {
    let titles = ["OPERATION", "BYTES", "WIDTHS", "BEST", "ADAPTER US", "SWITCH US", "FASTER"];
    let mut rows = Rows::new(&titles);
    for row in found {
        rows.push(vec![
            row.operation.to_string(),
            row.bytes.to_string(),
            format!("{}-{}", row.min_width, row.max_width),
            row.best_width.to_string(),
            format!("{:.3}", row.adapter_us),
            format!("{:.3}", row.switch_us),
            row.faster.to_string(),
        ]);
    }
    rows.to_string()
}
