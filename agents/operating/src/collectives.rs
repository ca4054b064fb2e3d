//! Trees of collectives: the place of a process, and the tree that a run takes.

use fabricast_proto::v1;
use fabricast_proto::v1::aggregation_node::Kind;
use thiserror::Error;

/// Bytes of the most numbers in one message to the switches, at eight for each number.
const MOST_BYTES: u32 = 64 << 10;

/// A process of a collective.
#[derive(Debug)]
pub(crate) struct CollectiveProcess {
    pub(crate) process: v1::AggregationProcess,
    /// Processes of the collective.
    pub(crate) count: u32,
}

/// The reason why a collective cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum CollectiveError {
    #[error("process: '{process}' of node '{node}' is not in collective '{collective}'")]
    NotAMember { collective: String, node: String, process: String },
    #[error("collective '{collective}': {reason}")]
    Suspended { collective: String, reason: String },
    #[error("switches do not hold the tree of '{collective}' yet")]
    NotProgrammed { collective: String },
    #[error("collective '{collective}' has no tree to run on")]
    NoTree { collective: String },
    #[error("the process is in no entry of the tree")]
    NotInTree,
}

impl CollectiveProcess {
    pub(crate) fn find(collective: &v1::Collective, node: &str, process: &str) -> Option<Self> {
        let all = &collective.processes;
        let mut numbered = (0_u32..).zip(all);
        let (number, one) =
            numbered.find(|(_, one)| (&*one.node, &*one.process) == (node, process))?;
        let endpoint = one.endpoint.clone();
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        Some(Self { process: v1::AggregationProcess { process: number, endpoint }, count })
    }

    /// The node of a tree that the process sends to: itself if it combines, else the one that has
    /// it as a child.
    pub(crate) fn target(&self, tree: &v1::AggregationTree) -> Option<v1::AggregationNode> {
        let own = v1::AggregationNode { kind: Some(Kind::Process(self.process.clone())) };
        let mut entries = tree.entries.iter();
        if tree.entries.iter().any(|entry| entry.holder.as_ref() == Some(&own)) {
            return Some(own);
        }
        entries.find(|entry| entry.children.contains(&own))?.holder.clone()
    }
}

/// Chooses the tree of a run; all processes of a run choose the same.
///
/// - `bytes`: length of a contribution.
pub(crate) fn choose_tree<'a>(
    collective: &'a v1::Collective,
    work: Option<&v1::CollectiveWork>,
    bytes: usize,
) -> Result<&'a v1::AggregationTree, CollectiveError> {
    let name = || collective.name.clone();
    if collective.state() == v1::CollectiveState::Suspended {
        let reason = collective.reason.clone();
        return Err(CollectiveError::Suspended { collective: name(), reason });
    }
    if !collective.programmed && collective.processes.len() > 1 {
        return Err(CollectiveError::NotProgrammed { collective: name() });
    }
    let reduces = work.is_some_and(|work| match work.operation() {
        v1::CollectiveOperation::Reduce | v1::CollectiveOperation::AllReduce => true,
        v1::CollectiveOperation::Unspecified
        | v1::CollectiveOperation::Barrier
        | v1::CollectiveOperation::Broadcast => false,
    });
    let limit = usize::try_from(collective.switch_tree_max_bytes).unwrap_or(usize::MAX);
    let fits_switches = !reduces || bytes <= limit;
    let switch = collective.switch_tree.as_ref();
    let adapters = collective.adapter_tree.as_ref();
    let tree = if fits_switches { switch.or(adapters) } else { adapters.or(switch) };
    tree.ok_or_else(|| CollectiveError::NoTree { collective: name() })
}

/// Bytes of the longest contribution that agents give to the switches of a collective.
pub(crate) fn switch_bytes(collective: &v1::Collective) -> u32 {
    collective.max_bytes.min(collective.switch_tree_max_bytes).min(MOST_BYTES)
}

/// Bytes of a contribution: eight for each number.
pub(crate) fn bytes_of(values: Option<&v1::CollectiveValues>) -> usize {
    use v1::collective_values::Kind;
    let count = match values.and_then(|values| values.kind.as_ref()) {
        None => 0,
        Some(Kind::SignedValues(some)) => some.values.len(),
        Some(Kind::UnsignedValues(some)) => some.values.len(),
        Some(Kind::FloatValues(some)) => some.values.len(),
    };
    8 * count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: u32) -> v1::AggregationNode {
        let process = v1::AggregationProcess { process: number, endpoint: format!("h{number}") };
        v1::AggregationNode { kind: Some(Kind::Process(process)) }
    }

    fn entry(holder: v1::AggregationNode, children: &[u32]) -> v1::AggregationEntry {
        let children = children.iter().copied().map(process).collect();
        v1::AggregationEntry { tree: 1, holder: Some(holder), parent: None, children }
    }

    fn collective() -> v1::Collective {
        let one = |number: u32| v1::CollectiveProcess {
            node: format!("n{number}"),
            process: "p".to_owned(),
            endpoint: format!("h{number}"),
        };
        let switch = v1::AggregationNode { kind: Some(Kind::SwitchName("s".to_owned())) };
        v1::Collective {
            name: "c".to_owned(),
            state: v1::CollectiveState::SwitchTree.into(),
            processes: (0..3).map(one).collect(),
            switch_tree: Some(v1::AggregationTree {
                tree: 1,
                entries: vec![entry(switch, &[0, 1, 2])],
            }),
            adapter_tree: Some(v1::AggregationTree {
                tree: 2,
                entries: vec![entry(process(0), &[0, 1, 2])],
            }),
            switch_tree_max_bytes: 8,
            programmed: true,
            ..v1::Collective::default()
        }
    }

    #[test]
    fn a_process_sends_to_its_parent_or_to_itself() {
        let collective = collective();
        let find = |node, process| CollectiveProcess::find(&collective, node, process);
        let other = find("n1", "p").unwrap();
        let trees = [&collective.switch_tree, &collective.adapter_tree];
        let [switch, adapter] = trees.map(|tree| tree.as_ref().unwrap());
        assert_eq!(other.target(switch).unwrap(), switch.entries[0].holder.clone().unwrap());
        assert_eq!(other.target(adapter).unwrap(), process(0));
        let root = find("n0", "p").unwrap();
        assert_eq!(root.target(adapter).unwrap(), process(0));
        assert!(find("n0", "q").is_none());
    }

    #[test]
    fn large_reductions_run_on_adapters_and_the_rest_on_switches() {
        let collective = collective();
        let chosen = |operation: v1::CollectiveOperation, bytes| {
            let work = v1::CollectiveWork { operation: operation.into(), ..Default::default() };
            choose_tree(&collective, Some(&work), bytes).unwrap().tree
        };
        assert_eq!(chosen(v1::CollectiveOperation::AllReduce, 8), 1);
        assert_eq!(chosen(v1::CollectiveOperation::AllReduce, 16), 2);
        assert_eq!(chosen(v1::CollectiveOperation::Broadcast, 16), 1);
    }

    #[test]
    fn nothing_runs_before_the_tree_is_programmed() {
        let waits = v1::Collective { programmed: false, ..collective() };
        let refused = choose_tree(&waits, None, 0).unwrap_err();
        assert!(matches!(refused, CollectiveError::NotProgrammed { .. }), "{refused}");
        let state = v1::CollectiveState::Suspended.into();
        let cut = v1::Collective { state, ..collective() };
        let refused = choose_tree(&cut, None, 0).unwrap_err();
        assert!(matches!(refused, CollectiveError::Suspended { .. }), "{refused}");
    }
}
