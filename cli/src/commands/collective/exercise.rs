//! `fabricast collective run`: all processes of a collective take part in one run, and what they get is
//! checked against a plain computation.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabricast_collectives::Operation;
use fabricast_proto::v1;
use fabricast_proto::v1::collective_values::Kind;
use fabricast_rpc::reason_of;
use serde::Serialize;
use tokio::task::JoinSet;
use tonic::Status;

use super::running::find;
use crate::args::{Format, ReductionArg, RunCollectiveArgs};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::Remote;

/// Pause before a run is tried again, for the control plane to follow the fabric.
const PAUSE: Duration = Duration::from_millis(200);

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    collective: String,
    operation: Operation,
    /// Tree it ran on.
    tree: u32,
    /// Runs that failed before, each with its reason.
    failed_runs: Vec<String>,
    elapsed_us: u128,
    /// What each process got, by number.
    results: Vec<Option<i64>>,
}

/// Runs `collective run`.
///
/// # Errors
///
/// [`Failure::No`] if no run ended well or somebody got a wrong value.
pub(super) async fn run(args: RunCollectiveArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let collective = find(&remote, args.collective.clone()).await?;
    let count = collective.processes.len();
    let values = brought(&args, count)?;
    if args.root as usize >= count {
        let text = format!("--root {}: the collective has {count} processes", args.root);
        return Err(Failure::input(text));
    }
    let mut failed_runs = Vec::new();
    let (results, tree, elapsed_us) = loop {
        match attempt(&remote, &args, &collective, &values).await {
            Ok(ended) => break ended,
            Err(status) => {
                let may_go_later = matches!(
                    reason_of(&status).as_deref(),
                    Some("COLLECTIVE_FAILED" | "NOT_PROGRAMMED" | "MEMBER_CUT_OFF")
                );
                if !may_go_later {
                    return Err(remote.failed(status));
                }
                failed_runs.push(status.message().to_owned());
                if failed_runs.len() > args.retries as usize {
                    let text = format!("no run ended well: {}", status.message());
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

fn brought(args: &RunCollectiveArgs, count: usize) -> Result<Vec<i64>, Failure> {
    if args.values.is_empty() {
        return Ok((1..).take(count).collect());
    }
    if args.values.len() == count {
        return Ok(args.values.clone());
    }
    let given = args.values.len();
    Err(Failure::input(format!("--values: {given} for {count} processes, give one for each")))
}

/// One run with a number of its own.
async fn attempt(
    remote: &Remote,
    args: &RunCollectiveArgs,
    collective: &v1::Collective,
    values: &[i64],
) -> Result<(Vec<Option<i64>>, u32, u128), Status> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sequence = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let work = v1::CollectiveWork {
        operation: super::wire_operation(args.operation).into(),
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
        let mut agent = remote.collective_agent();
        parts.spawn(async move { (number, agent.run_collective(request).await) });
    }
    let mut results = vec![None; values.len()];
    let (mut tree, mut failure) = (0, None);
    while let Some(part) = parts.join_next().await {
        let (number, ended) = part.map_err(|error| Status::internal(error.to_string()))?;
        match ended {
            Ok(answer) => {
                let answer = answer.into_inner();
                tree = answer.tree;
                results[number] = answer.values.and_then(single);
            }
            Err(status) => failure = Some(status),
        }
    }
    failure.map_or(Ok((results, tree, started.elapsed().as_micros())), Err)
}

fn single(values: v1::CollectiveValues) -> Option<i64> {
    match values.kind? {
        Kind::SignedValues(some) => some.values.first().copied(),
        Kind::UnsignedValues(_) | Kind::FloatValues(_) => None,
    }
}

fn reduction(args: &RunCollectiveArgs) -> v1::Reduction {
    match (args.operation, args.reduction) {
        (Operation::Barrier | Operation::Broadcast, _) => v1::Reduction::Unspecified,
        (_, ReductionArg::Sum) => v1::Reduction::Sum,
        (_, ReductionArg::Min) => v1::Reduction::Min,
        (_, ReductionArg::Max) => v1::Reduction::Max,
        (_, ReductionArg::And) => v1::Reduction::And,
        (_, ReductionArg::Or) => v1::Reduction::Or,
    }
}

/// What each process is to get, computed plainly.
fn due(args: &RunCollectiveArgs, values: &[i64]) -> Vec<Option<i64>> {
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
        "{}{rows}\n{} over {} processes on tree {}, checked, {} us",
        failed.collect::<String>(),
        outcome.operation,
        outcome.results.len(),
        outcome.tree,
        outcome.elapsed_us
    )
}
