//! `fabricast collective run`: all processes of a collective take part in one run, and what they
//! get is checked against a plain computation.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use fabricast_collectives::Operation;
use fabricast_proto::v1;
use fabricast_proto::v1::collective_values::Kind;
use fabricast_rpc::RpcError;
use serde::Serialize;
use tokio::task::JoinSet;

use super::model::{operation, wire_operation};
use super::running::find;
use crate::args::{Format, ServerArgs};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{self, Remote};

/// Delay before a retry, in which the control plane reacts to the fabric.
const PAUSE: Duration = Duration::from_millis(200);

/// Result of the command.
#[derive(Debug, Serialize)]
struct Outcome {
    collective: String,
    operation: Operation,
    /// Number of the tree of the last run.
    tree: u32,
    /// Reasons of the failed runs.
    failed_runs: Vec<String>,
    elapsed_us: u128,
    /// Value that each process received, indexed by process number.
    results: Vec<Option<i64>>,
}

/// Options of `collective run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Name of the collective.
    collective: String,
    /// Operation to run.
    #[arg(long, default_value_t = Operation::AllReduce, value_parser = operation())]
    operation: Operation,
    /// Function that combines the values.
    #[arg(long, value_enum, default_value_t = ReductionArg::Sum)]
    reduction: ReductionArg,
    /// Process that sends (broadcast) or receives (reduce) the values.
    #[arg(long, value_name = "N", default_value_t = 0)]
    root: u32,
    /// Values of the processes, one for each in their order; default: process N contributes N+1.
    #[arg(long, value_name = "N", value_delimiter = ',', allow_hyphen_values = true)]
    values: Vec<i64>,
    /// Most retries after runs that fail because a switch died.
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: u32,
    #[command(flatten)]
    server: ServerArgs,
}

/// Function that combines the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReductionArg {
    /// Sum, modulo 2^64.
    Sum,
    /// Minimum of all values.
    Min,
    /// Maximum of all values.
    Max,
    /// Bitwise AND of all values.
    And,
    /// Bitwise OR of all values.
    Or,
}

/// Runs `collective run`.
///
/// # Errors
///
/// [`Failure::No`] if no run ended well or somebody got a wrong value.
pub(super) async fn run(args: RunArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let collective = find(&remote, args.collective.clone()).await?;
    let count = collective.processes.len();
    let values = brought(&args, count)?;
    if args.root as usize >= count {
        let text = format!("--root {}: the collective has {count} processes", args.root);
        return Err(Failure::input(text));
    }
    let mut hosts = BTreeMap::new();
    for process in &collective.processes {
        if !hosts.contains_key(&process.node) {
            hosts.insert(process.node.clone(), remote.host_of(&process.node).await?);
        }
    }
    let mut failed_runs = Vec::new();
    let Attempt { results, tree, elapsed_us } = loop {
        match attempt(&hosts, &args, &collective, &values).await {
            Ok(ended) => break ended,
            Err(error) => {
                let may_go_later = matches!(
                    error.reason_text().as_deref(),
                    Some("COLLECTIVE_FAILED" | "NOT_PROGRAMMED" | "MEMBER_CUT_OFF")
                );
                if !may_go_later {
                    return Err(remote.failed(error));
                }
                failed_runs.push(error.message().to_owned());
                if failed_runs.len() > args.retries as usize {
                    let text = format!("no run ended well: {}", error.message());
                    return Err(Failure::No(text));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    let due = due(&args, &values);
    let wrong = results.iter().zip(&due).filter(|(got, due)| got != due).count();
    let operation = args.operation;
    let outcome =
        Outcome { collective: collective.name, operation, tree, failed_runs, elapsed_us, results };
    output::print(format, &outcome, text)?;
    if wrong > 0 {
        return Err(Failure::No(format!("{wrong} of {count} processes got a wrong value")));
    }
    Ok(())
}

fn brought(args: &RunArgs, count: usize) -> Result<Vec<i64>, Failure> {
    if args.values.is_empty() {
        return Ok((1..).take(count).collect());
    }
    if args.values.len() == count {
        return Ok(args.values.clone());
    }
    let given = args.values.len();
    Err(Failure::input(format!("--values: {given} for {count} processes, give one for each")))
}

/// A run that all processes completed.
struct Attempt {
    results: Vec<Option<i64>>,
    tree: u32,
    elapsed_us: u128,
}

/// Runs the operation once, under a sequence number of its own.
async fn attempt(
    hosts: &BTreeMap<String, Remote>,
    args: &RunArgs,
    collective: &v1::Collective,
    values: &[i64],
) -> Result<Attempt, RpcError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sequence = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let work = v1::CollectiveWork {
        operation: wire_operation(args.operation).into(),
        reduction: reduction(args).into(),
        root_process: args.root,
    };
    let started = std::time::Instant::now();
    let mut parts = JoinSet::new();
    for (number, process) in collective.processes.iter().enumerate() {
        let brings = match args.operation {
            Operation::Barrier => false,
            Operation::Broadcast => number == args.root as usize,
            Operation::Reduce | Operation::AllReduce => true,
        };
        let signed = || Kind::SignedValues(v1::SignedValues { values: vec![values[number]] });
        let request = v1::RunCollectiveRequest {
            collective: collective.name.clone(),
            node: process.node.clone(),
            process: process.process.clone(),
            sequence,
            work: Some(work),
            values: brings.then(|| v1::CollectiveValues { kind: Some(signed()) }),
            timeout: None,
        };
        let mut agent = hosts[&process.node].collective_agent();
        parts.spawn(async move { (number, remote::answer(agent.run_collective(request)).await) });
    }
    let mut results = vec![None; values.len()];
    let (mut tree, mut failure) = (0, None);
    while let Some(part) = parts.join_next().await {
        match part.expect("a call does not panic") {
            (number, Ok(answer)) => {
                tree = answer.tree;
                results[number] = answer.values.and_then(single);
            }
            (_, Err(error)) => failure = Some(error),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(Attempt { results, tree, elapsed_us: started.elapsed().as_micros() }),
    }
}

fn single(values: v1::CollectiveValues) -> Option<i64> {
    match values.kind? {
        Kind::SignedValues(some) => some.values.first().copied(),
        Kind::UnsignedValues(_) | Kind::FloatValues(_) => None,
    }
}

fn reduction(args: &RunArgs) -> v1::Reduction {
    match (args.operation, args.reduction) {
        (Operation::Barrier | Operation::Broadcast, _) => v1::Reduction::Unspecified,
        (_, ReductionArg::Sum) => v1::Reduction::Sum,
        (_, ReductionArg::Min) => v1::Reduction::Min,
        (_, ReductionArg::Max) => v1::Reduction::Max,
        (_, ReductionArg::And) => v1::Reduction::And,
        (_, ReductionArg::Or) => v1::Reduction::Or,
    }
}

/// Computes the expected value of each process without a tree.
fn due(args: &RunArgs, values: &[i64]) -> Vec<Option<i64>> {
    let root = args.root as usize;
    let combined = values.iter().copied().reduce(|a, b| match args.reduction {
        ReductionArg::Sum => a.wrapping_add(b),
        ReductionArg::Min => a.min(b),
        ReductionArg::Max => a.max(b),
        ReductionArg::And => a & b,
        ReductionArg::Or => a | b,
    });
    let each = |process: usize| match args.operation {
        Operation::Barrier => None,
        Operation::Broadcast => Some(values[root]),
        Operation::Reduce => combined.filter(|_| process == root),
        Operation::AllReduce => combined,
    };
    (0..values.len()).map(each).collect()
}

fn text(outcome: &Outcome) -> String {
    let mut rows = Rows::new(&["PROCESS", "GOT"]);
    for (number, got) in outcome.results.iter().enumerate() {
        let got = got.map_or_else(|| "-".to_owned(), |got| got.to_string());
        rows.push(vec![number.to_string(), got]);
    }
    let failed = outcome.failed_runs.iter().map(|why| format!("failed before: {why}\n"));
    format!(
        "{}{rows}\n{}: {} over {} processes on tree {}, checked, {} us",
        failed.collect::<String>(),
        outcome.collective,
        outcome.operation,
        outcome.results.len(),
        outcome.tree,
        outcome.elapsed_us
    )
}
