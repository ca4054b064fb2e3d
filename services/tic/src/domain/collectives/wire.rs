//! Collectives and trees as messages.

use fabricast_collectives::{Fallback, Holder, Operation, Refusal, ReserveError};
use fabricast_proto::v1;
use fabricast_proto::v1::aggregation_node::Kind;
use fabricast_topology::{AggregationEntry, AggregationNode, Graph};

use crate::domain::collectives::error::CollectiveError;
use crate::domain::collectives::text::Ledger;

/// An entry with names instead of numbers.
fn entry(graph: &Graph, entry: &AggregationEntry) -> v1::AggregationEntry {
    let node = |node: &AggregationNode| v1::AggregationNode {
        kind: Some(match *node {
            AggregationNode::Switch(switch) => {
                Kind::SwitchName(graph.switch_name(switch).to_owned())
            }
            AggregationNode::Process { process, endpoint } => {
                let endpoint = graph.endpoint_name(endpoint).to_owned();
                Kind::Process(v1::AggregationProcess { process, endpoint })
            }
        }),
    };
    v1::AggregationEntry {
        tree: entry.tree,
        holder: Some(node(&entry.holder)),
        parent: entry.parent.as_ref().map(node),
        children: entry.children.iter().map(node).collect(),
    }
}

/// A tree; `None` without entries.
pub(super) fn tree(
    graph: &Graph,
    number: u32,
    entries: &[AggregationEntry],
) -> Option<v1::AggregationTree> {
    let wire = || entries.iter().map(|one| entry(graph, one)).collect();
    (!entries.is_empty()).then(|| v1::AggregationTree { tree: number, entries: wire() })
}

pub(super) fn operation(operation: Operation) -> v1::CollectiveOperation {
    match operation {
        Operation::Barrier => v1::CollectiveOperation::Barrier,
        Operation::Broadcast => v1::CollectiveOperation::Broadcast,
        Operation::Reduce => v1::CollectiveOperation::Reduce,
        Operation::AllReduce => v1::CollectiveOperation::AllReduce,
    }
}

/// Reads the number of an operation.
pub(crate) fn read_operation(number: i32) -> Option<Operation> {
    match v1::CollectiveOperation::try_from(number).ok()? {
        v1::CollectiveOperation::Unspecified => None,
        v1::CollectiveOperation::Barrier => Some(Operation::Barrier),
        v1::CollectiveOperation::Broadcast => Some(Operation::Broadcast),
        v1::CollectiveOperation::Reduce => Some(Operation::Reduce),
        v1::CollectiveOperation::AllReduce => Some(Operation::AllReduce),
    }
}

pub(super) fn holder(ledger: &Ledger, holder: Holder) -> v1::CollectiveHolder {
    let tenant = |tenant| ledger.tenant_name(tenant).unwrap_or_default().to_owned();
    match holder {
        Holder::Tenant(one) => v1::CollectiveHolder { tenant: tenant(one), job: None },
        Holder::Job(owner) => {
            let job = ledger.job_name(owner.job).unwrap_or_default().to_owned();
            v1::CollectiveHolder { tenant: tenant(owner.tenant), job: Some(job) }
        }
    }
}

pub(super) fn holder_text(ledger: &Ledger, one: Holder) -> String {
    let v1::CollectiveHolder { tenant, job } = holder(ledger, one);
    match job {
        None => format!("tenant '{tenant}'"),
        Some(job) => format!("job '{job}' of tenant '{tenant}'"),
    }
}

/// The reason why there is no switch tree, with names.
pub(super) fn fallback(ledger: &Ledger, why: &Fallback) -> String {
    match why {
        Fallback::Quota { holder, limit, has, needs } => {
            let holder = holder_text(ledger, *holder);
            format!("{holder} may hold {limit} entries, has {has} and would need {needs} more")
        }
        Fallback::Slower | Fallback::NoCommonSwitch | Fallback::NoEntries { .. } => why.to_string(),
    }
}

/// The refusal with names in place of numbers.
pub(super) fn refused(ledger: &Ledger, refusal: Refusal) -> CollectiveError {
    let text = match &refusal {
        Refusal::Exists { .. } => refusal.to_string(),
        Refusal::NoMembers => "group: it has no members".to_owned(),
        Refusal::NoOperations => "operations: required, but missing".to_owned(),
        Refusal::Sizes { min, max } => format!("min_bytes: {min} is larger than max_bytes {max}"),
        Refusal::CutOff { endpoint, .. } => {
            format!("group: member at {endpoint} is not connected to a leaf switch")
        }
        Refusal::Quota { holder, limit } => {
            let holder = holder_text(ledger, *holder);
            format!("{holder} may hold {limit} collectives and has them")
        }
        Refusal::NoSwitchTree { why } => format!("no switch tree: {}", fallback(ledger, why)),
    };
    CollectiveError::Refused { refusal, text }
}

/// The refusal of a reservation with names in place of numbers.
pub(super) fn not_reserved(ledger: &Ledger, graph: &Graph, error: ReserveError) -> CollectiveError {
    let switch_name = |switch| graph.switch_name(switch).to_owned();
    match error {
        ReserveError::CutOff { endpoint } => {
            let endpoint = graph.endpoint_name(endpoint).to_owned();
            CollectiveError::CutOff { field: "reservation.endpoints", endpoint }
        }
        ReserveError::TooFew { switch, missing } => {
            let (field, switch) = ("reservation.entries", switch_name(switch));
            CollectiveError::TooFewEntries { field, switch, missing }
        }
        ReserveError::Quota { holder, limit, needs, switch } => CollectiveError::OverQuota {
            field: "reservation.entries",
            holder: holder_text(ledger, holder),
            limit,
            needs,
            switch: switch.map(switch_name),
        },
    }
}
