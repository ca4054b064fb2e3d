//! Measures operations of a member whose process does not attach.

use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use fabricast_messages::{OnFailure, Operation, Reduction, Values};
use fabricast_proto::v1;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use super::member_handle::{MemberError, MemberEvent, MemberEvents, MemberHandle, Messages};
use crate::nodes::Nodes;

/// Longest wait for the member's place, and for the others.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks for the member's place.
const PAUSE: Duration = Duration::from_millis(5);
/// Most operations of a measurement.
const MAX_OPERATIONS: usize = 64;
/// Most rounds of an operation.
const MAX_ROUNDS: u32 = 1_000;
/// Most bytes of a contribution.
const MAX_BYTES: u32 = 1 << 20;

/// Reason why operations were not measured.
#[derive(Clone, Debug, PartialEq, Error)]
pub(crate) enum MeasurementError {
    /// An operation cannot be measured.
    #[error("operations[{index}].{problem}")]
    Invalid {
        /// Place of the operation.
        index: usize,
        /// The field and its rule.
        problem: String,
    },
    /// There are too many operations.
    #[error("operations: more than {MAX_OPERATIONS}")]
    TooMany,
    /// The member did not get its place in time.
    #[error("group: process '{process}' is not in '{group}'")]
    NoPlace { group: GroupName, process: ProcessName },
    /// The others did not take part in time.
    #[error("member_count: {found} of {wanted} members take part")]
    Missing {
        /// Members that take part.
        found: usize,
        wanted: usize,
    },
    /// A call on the member failed.
    #[error(transparent)]
    Member(#[from] MemberError),
}

/// Operations to measure, and the member that runs them.
#[derive(Clone, Debug)]
pub(crate) struct OperationRun {
    node: NodeName,
    group: GroupName,
    process: ProcessName,
    members: usize,
    steps: Vec<Step>,
}

/// An operation, and how often it runs.
#[derive(Clone, Debug)]
struct Step {
    kind: v1::CollectiveOperation,
    bytes: usize,
    rounds: u32,
}

impl OperationRun {
    /// Reads the operations.
    ///
    /// # Errors
    ///
    /// [`MeasurementError`] with the operation that cannot be measured.
    pub(crate) fn new(
        node: NodeName,
        group: GroupName,
        process: ProcessName,
        members: usize,
        operations: &[v1::MeasuredOperation],
    ) -> Result<Self, MeasurementError> {
        if operations.len() > MAX_OPERATIONS {
            return Err(MeasurementError::TooMany);
        }
        let steps = operations.iter().enumerate().map(|(index, one)| {
            Step::new(one).map_err(|problem| MeasurementError::Invalid { index, problem })
        });
        Ok(Self { node, group, process, members, steps: steps.collect::<Result<_, _>>()? })
    }

    /// Runs the operations; answers how long each round of each took.
    ///
    /// # Errors
    ///
    /// [`MeasurementError`] if the member or the others are missing, or one fails.
    pub(crate) async fn run(
        self,
        nodes: &Nodes,
    ) -> Result<Vec<v1::OperationTimes>, MeasurementError> {
        let (handle, events) = self.open(nodes).await?;
        let waited = self.wait(events).await?;
        let drain = tokio::spawn(drain(waited));
        let mut times = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let mut seconds = Vec::new();
            for _ in 0..step.rounds {
                let operation = step.operation(handle.pn());
                let begun = Instant::now();
                handle.operate(&operation, OnFailure::Fail).await?;
                seconds.push(begun.elapsed().as_secs_f64());
            }
            times.push(v1::OperationTimes { seconds });
        }
        drain.abort();
        Ok(times)
    }

    async fn open(&self, nodes: &Nodes) -> Result<(MemberHandle, MemberEvents), MeasurementError> {
        let latest = Instant::now() + PATIENCE;
        loop {
            let place = nodes.read(&self.node, |agent| {
                let held = agent.membership(&self.group, &self.process)?;
                held.position.as_ref().map(|_| (held.member.gn, held.member.pn))
            });
            match place.flatten() {
                Some((gn, pn)) => {
                    return Ok(Messages(nodes.clone()).open_member(&self.node, gn, pn)?);
                }
                None if Instant::now() < latest => tokio::time::sleep(PAUSE).await,
                None => {
                    let (group, process) = (self.group.clone(), self.process.clone());
                    return Err(MeasurementError::NoPlace { group, process });
                }
            }
        }
    }

    async fn wait(&self, mut events: MemberEvents) -> Result<MemberEvents, MeasurementError> {
        let (latest, wanted) = (Instant::now() + PATIENCE, self.members);
        let mut found = 0;
        while found < wanted {
            match timeout_at(latest, events.next()).await {
                Ok(Some(MemberEvent::Roster(members))) => found = members.len(),
                Ok(Some(MemberEvent::Message { .. })) => {}
                Ok(Some(MemberEvent::Ended) | None) | Err(_) => {
                    return Err(MeasurementError::Missing { found, wanted });
                }
            }
        }
        Ok(events)
    }
}

async fn drain(mut events: MemberEvents) {
    while events.next().await.is_some() {}
}

impl Step {
    fn new(wire: &v1::MeasuredOperation) -> Result<Self, String> {
        let v1::MeasuredOperation { byte_count, round_count, .. } = *wire;
        let kind = v1::CollectiveOperation::try_from(wire.operation).ok();
        let kind = kind.filter(|kind| *kind != v1::CollectiveOperation::Unspecified);
        let kind = kind.ok_or_else(|| format!("operation: {} is none", wire.operation))?;
        if !byte_count.is_multiple_of(8) || byte_count > MAX_BYTES {
            return Err(format!(
                "byte_count is {byte_count}, which must be a multiple of 8 and at most {MAX_BYTES}"
            ));
        }
        if round_count > MAX_ROUNDS {
            return Err(format!(
                "round_count is {round_count}, which must be at most {MAX_ROUNDS}"
            ));
        }
        let bytes = usize::try_from(byte_count).map_err(|error| error.to_string())?;
        Ok(Self { kind, bytes, rounds: round_count })
    }

    fn operation(&self, pn: Pn) -> Operation {
        let values = || Values::U64(vec![1; self.bytes / 8]);
        match self.kind {
            v1::CollectiveOperation::Unspecified | v1::CollectiveOperation::Barrier => {
                Operation::Barrier
            }
            v1::CollectiveOperation::Broadcast => {
                let bytes = if pn == Pn(0) { self.bytes } else { 0 };
                Operation::Broadcast { source: Pn(0), payload: vec![1; bytes] }
            }
            v1::CollectiveOperation::Reduce => {
                Operation::Reduce { root: Pn(0), reduction: Reduction::Sum, values: values() }
            }
            v1::CollectiveOperation::AllReduce => {
                Operation::AllReduce { reduction: Reduction::Sum, values: values() }
            }
        }
    }
}
