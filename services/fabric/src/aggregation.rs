//! Aggregation entries and contributions to operations, between the wire and the emulator.

use fabricast_emulator::{
    AggregationPlace, AggregationProblem, AggregationWrite, Contribution, Fence, Reduction, Values,
    Work,
};
use fabricast_proto::v1;
use fabricast_proto::v1::{aggregation_node, aggregation_place, collective_values};
use fabricast_rpc::Reason;
use fabricast_topology::{AggregationEntry, AggregationNode, Graph};

use crate::fabric::{Core, Fabric};
use crate::tables::StaleFence;
use crate::wire::{self, Refusal};

/// Reads switches and the adapters behind them, all if no names are given. Dead places and adapters
/// without entries are left out.
pub(crate) fn read(
    fabric: &Fabric,
    names: &[String],
) -> Result<Vec<v1::AggregationTable>, Refusal> {
    let graph = &fabric.graph;
    let switches = crate::tables::find_all(fabric, names)?;
    let core = fabric.core();
    let mut tables = Vec::new();
    let adapters = graph.endpoints().filter(|endpoint| match graph.attachment(*endpoint) {
        Some(port) => names.is_empty() || switches.contains(&graph.switch_of(port)),
        None => false,
    });
    let places = switches.iter().map(|switch| AggregationPlace::Switch(*switch));
    for place in places.chain(adapters.map(AggregationPlace::Adapter)) {
        let (Ok(entries), Ok(fence)) =
            (core.emulator.read_aggregation(place), core.emulator.aggregation_fence(place))
        else {
            continue;
        };
        if matches!(place, AggregationPlace::Switch(_)) || !entries.is_empty() {
            tables.push(v1::AggregationTable {
                place: Some(place_to_wire(graph, place)),
                entries: entries.iter().map(|one| entry_to_wire(graph, one)).collect(),
                fence: wire::fence(fence),
            });
        }
    }
    Ok(tables)
}

/// Writes places, the part of each all or nothing. Writes nothing if a place has seen a newer
/// fence.
pub(crate) fn write(
    fabric: &Fabric,
    fence: Fence,
    writes: Vec<v1::AggregationWrite>,
) -> Result<Vec<v1::AggregationRefusal>, StaleFence> {
    let mut core = fabric.core();
    let mut refusals = Vec::new();
    for write in &writes {
        let place = write.place.as_ref().and_then(|one| read_place(&fabric.graph, one).ok());
        let seen = place.and_then(|place| core.emulator.aggregation_fence(place).ok());
        if let Some(seen) = seen.filter(|seen| fence < *seen) {
            let switch = write.place.as_ref().map(place_text).unwrap_or_default();
            return Err(StaleFence { switch, offered: fence, seen });
        }
    }
    for write in writes {
        let place = write.place.clone();
        if let Err((reason, message)) = write_one(&fabric.graph, &mut core, fence, write) {
            let reason = reason.text().to_owned();
            refusals.push(v1::AggregationRefusal { place, reason, message });
        }
    }
    // Operations that have lost an entry end with an error.
    core.settle();
    Ok(refusals)
}

fn write_one(
    graph: &Graph,
    core: &mut Core,
    fence: Fence,
    write: v1::AggregationWrite,
) -> Result<(), (Reason, String)> {
    let bad = |refusal: Refusal| (refusal.reason(), refusal.to_string());
    let v1::AggregationWrite { place, removed, added } = write;
    let place = place.ok_or(Refusal::Missing { field: "place" }).map_err(bad)?;
    let place = read_place(graph, &place).map_err(bad)?;
    let mut changes = Vec::with_capacity(removed.len() + added.len());
    for v1::AggregationKey { tree, holder } in removed {
        let holder = read_node(graph, holder.as_ref(), "removed.holder").map_err(bad)?;
        changes.push(AggregationWrite::Remove { holder, tree });
    }
    for entry in added {
        changes.push(AggregationWrite::Put(read_entry(graph, &entry).map_err(bad)?));
    }
    core.emulator.write_aggregation(place, fence, &changes).map_err(|error| {
        let reason = match error.problem {
            AggregationProblem::Unknown => Reason::UnknownSwitch,
            AggregationProblem::Dead => Reason::SwitchDown,
            AggregationProblem::StaleFence { .. } => Reason::StaleFence,
            AggregationProblem::Full { .. } => Reason::LimitReached,
            AggregationProblem::Change { .. } => Reason::BadEntry,
        };
        (reason, error.problem.to_string())
    })?;
    core.note_entries(place);
    Ok(())
}

/// Decodes a contribution.
pub(crate) fn read_contribution(
    graph: &Graph,
    request: v1::ContributeValuesRequest,
) -> Result<Contribution, Refusal> {
    let process = request.process.ok_or(Refusal::Missing { field: "process" })?;
    if request.process_count == 0 {
        return Err(Refusal::Missing { field: "process_count" });
    }
    Ok(Contribution {
        tree: request.tree,
        sequence: request.sequence,
        process: process.process,
        endpoint: wire::endpoint(graph, &process.endpoint)?,
        processes: request.process_count,
        to: read_node(graph, request.to.as_ref(), "to")?,
        work: read_work(request.work.ok_or(Refusal::Missing { field: "work" })?)?,
        values: read_values(request.values)?,
    })
}

fn read_work(work: v1::CollectiveWork) -> Result<Work, Refusal> {
    let reduction = || match work.reduction() {
        v1::Reduction::Unspecified => Err(Refusal::Missing { field: "work.reduction" }),
        v1::Reduction::Sum => Ok(Reduction::Sum),
        v1::Reduction::Min => Ok(Reduction::Min),
        v1::Reduction::Max => Ok(Reduction::Max),
        v1::Reduction::And => Ok(Reduction::And),
        v1::Reduction::Or => Ok(Reduction::Or),
        other @ (v1::Reduction::Xor
        | v1::Reduction::Product
        | v1::Reduction::LogicalAnd
        | v1::Reduction::LogicalOr
        | v1::Reduction::LogicalXor
        | v1::Reduction::MinLoc
        | v1::Reduction::MaxLoc) => Err(Refusal::Reduction { name: other.as_str_name() }),
    };
    Ok(match work.operation() {
        v1::CollectiveOperation::Unspecified => {
            return Err(Refusal::Missing { field: "work.operation" });
        }
        v1::CollectiveOperation::Barrier => Work::Barrier,
        v1::CollectiveOperation::Broadcast => Work::Broadcast { source: work.root_process },
        v1::CollectiveOperation::Reduce => {
            Work::Reduce { reduction: reduction()?, root: work.root_process }
        }
        v1::CollectiveOperation::AllReduce => Work::AllReduce { reduction: reduction()? },
    })
}

fn read_values(values: Option<v1::CollectiveValues>) -> Result<Option<Values>, Refusal> {
    let Some(kind) = values.and_then(|values| values.kind) else { return Ok(None) };
    let (count, values) = match kind {
        collective_values::Kind::SignedValues(some) => {
            (some.values.len(), Values::I64(some.values))
        }
        collective_values::Kind::UnsignedValues(some) => {
            (some.values.len(), Values::U64(some.values))
        }
        collective_values::Kind::FloatValues(some) => (some.values.len(), Values::F64(some.values)),
    };
    if count > wire::VALUES_LIMIT {
        return Err(Refusal::TooManyValues { count });
    }
    Ok(Some(values))
}

/// Encodes the result of an operation.
pub(crate) fn values_to_wire(values: Values) -> v1::CollectiveValues {
    let kind = match values {
        Values::I64(values) => collective_values::Kind::SignedValues(v1::SignedValues { values }),
        Values::U64(values) => {
            collective_values::Kind::UnsignedValues(v1::UnsignedValues { values })
        }
        Values::F64(values) => collective_values::Kind::FloatValues(v1::FloatValues { values }),
    };
    v1::CollectiveValues { kind: Some(kind) }
}

fn place_to_wire(graph: &Graph, place: AggregationPlace) -> v1::AggregationPlace {
    let kind = match place {
        AggregationPlace::Switch(switch) => {
            aggregation_place::Kind::SwitchName(graph.switch_name(switch).to_owned())
        }
        AggregationPlace::Adapter(endpoint) => {
            aggregation_place::Kind::Endpoint(graph.endpoint_name(endpoint).to_owned())
        }
    };
    v1::AggregationPlace { kind: Some(kind) }
}

fn place_text(place: &v1::AggregationPlace) -> String {
    match &place.kind {
        Some(
            aggregation_place::Kind::SwitchName(name) | aggregation_place::Kind::Endpoint(name),
        ) => name.clone(),
        None => String::new(),
    }
}

fn read_place(graph: &Graph, place: &v1::AggregationPlace) -> Result<AggregationPlace, Refusal> {
    match place.kind.as_ref().ok_or(Refusal::Missing { field: "place" })? {
        aggregation_place::Kind::SwitchName(name) => {
            wire::switch(graph, name).map(AggregationPlace::Switch)
        }
        aggregation_place::Kind::Endpoint(name) => {
            wire::endpoint(graph, name).map(AggregationPlace::Adapter)
        }
    }
}

fn read_node(
    graph: &Graph,
    node: Option<&v1::AggregationNode>,
    field: &'static str,
) -> Result<AggregationNode, Refusal> {
    let kind = node.and_then(|node| node.kind.as_ref());
    match kind.ok_or(Refusal::Missing { field })? {
        aggregation_node::Kind::SwitchName(name) => {
            wire::switch(graph, name).map(AggregationNode::Switch)
        }
        aggregation_node::Kind::Process(v1::AggregationProcess { process, endpoint }) => {
            let endpoint = wire::endpoint(graph, endpoint)?;
            Ok(AggregationNode::Process { process: *process, endpoint })
        }
    }
}

fn read_entry(graph: &Graph, entry: &v1::AggregationEntry) -> Result<AggregationEntry, Refusal> {
    let parent = entry.parent.as_ref();
    let child = |node| read_node(graph, Some(node), "added.children");
    Ok(AggregationEntry {
        holder: read_node(graph, entry.holder.as_ref(), "added.holder")?,
        tree: entry.tree,
        parent: parent.map(|node| read_node(graph, Some(node), "added.parent")).transpose()?,
        children: entry.children.iter().map(child).collect::<Result<_, _>>()?,
    })
}

fn entry_to_wire(graph: &Graph, entry: &AggregationEntry) -> v1::AggregationEntry {
    let node = |node: AggregationNode| {
        let kind = match node {
            AggregationNode::Switch(switch) => {
                aggregation_node::Kind::SwitchName(graph.switch_name(switch).to_owned())
            }
            AggregationNode::Process { process, endpoint } => {
                let endpoint = graph.endpoint_name(endpoint).to_owned();
                aggregation_node::Kind::Process(v1::AggregationProcess { process, endpoint })
            }
        };
        v1::AggregationNode { kind: Some(kind) }
    };
    v1::AggregationEntry {
        tree: entry.tree,
        holder: Some(node(entry.holder)),
        parent: entry.parent.map(node),
        children: entry.children.iter().copied().map(node).collect(),
    }
}
