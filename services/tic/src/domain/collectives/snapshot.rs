//! One collective as readers see it.
//!
//! Its message has the names of all processes, twice and more, and its adapter tree is computed.
//! Its first reader builds both, not the writer.

use std::sync::{Arc, OnceLock};

use fabricast_collectives::{AdapterTree, Collective, Fabric, Nesting, TreeId};
use fabricast_proto::v1;

use crate::domain::collectives::adapters::AdapterPlan;
use crate::domain::collectives::text::Member;
use crate::domain::collectives::wire;

/// Processes from which on it takes a while to build a message.
const LONG: usize = 1 << 10;

/// One collective as readers see it.
#[derive(Debug)]
pub(crate) struct CollectiveSnapshot {
    parts: SnapshotParts,
    trees: Vec<PublishedTree>,
    whole: OnceLock<v1::Collective>,
}

/// A tree of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublishedTree {
    pub(crate) number: u32,
    /// No revision before this one has it.
    pub(crate) since: u64,
}

/// Everything that the message of a collective is built from.
#[derive(Debug)]
pub(super) struct SnapshotParts {
    /// Its message without processes and trees, as if no switch held a tree.
    pub(super) listed: v1::Collective,
    pub(super) members: Arc<[Member]>,
    pub(super) collective: Collective,
    pub(super) adapters: Option<AdapterPlan>,
    /// The fabric as it is without faults.
    pub(super) fabric: Arc<Fabric>,
}

impl CollectiveSnapshot {
    /// - `before`: the collective of this name before the change.
    /// - `revision`: the first that trees which are new may have.
    pub(super) fn new(mut parts: SnapshotParts, before: Option<&Self>, revision: u64) -> Self {
        let known = before.map_or(&[][..], |before| before.trees.as_slice());
        let of_switches = parts.collective.service.switch_tree().map(|(tree, _)| tree);
        // A single process sends to nobody.
        let of_adapters = parts.adapters.filter(|_| parts.members.len() > 1);
        let numbers = of_switches.into_iter().chain(of_adapters.map(|plan| plan.tree));
        let tree = |TreeId(number)| {
            let same = known.iter().find(|tree| tree.number == number);
            same.copied().unwrap_or(PublishedTree { number, since: revision })
        };
        let trees: Vec<PublishedTree> = numbers.map(tree).collect();
        let unchanged = before.filter(|_| trees == known);
        parts.listed.revision = unchanged.map_or(revision, |before| before.parts.listed.revision);
        Self { parts, trees, whole: OnceLock::new() }
    }

    /// Its message without processes and trees, as if no switch held a tree.
    pub(crate) fn listed(&self) -> &v1::Collective {
        &self.parts.listed
    }

    /// Its message, as if no switch held a tree.
    pub(crate) fn whole(&self) -> &v1::Collective {
        self.whole.get_or_init(|| self.build())
    }

    /// True if it takes a while to build the message.
    pub(crate) fn is_long_to_build(&self) -> bool {
        self.parts.members.len() >= LONG && self.whole.get().is_none()
    }

    pub(crate) fn trees(&self) -> &[PublishedTree] {
        &self.trees
    }

    /// The tree of a number.
    pub(crate) fn tree(&self, number: u32) -> Option<&v1::AggregationTree> {
        let v1::Collective { switch_tree, adapter_tree, .. } = self.whole();
        switch_tree.iter().chain(adapter_tree).find(|tree| tree.tree == number)
    }

    fn build(&self) -> v1::Collective {
        let SnapshotParts { listed, members, collective, fabric, .. } = &self.parts;
        let processes = members.iter().map(|member| v1::CollectiveProcess {
            node: member.node.to_string(),
            process: member.process.to_string(),
            endpoint: member.endpoint.to_string(),
        });
        let switches = collective.service.switch_tree();
        v1::Collective {
            processes: processes.collect(),
            switch_tree: switches
                .and_then(|(tree, _)| wire::tree(fabric.graph(), tree.0, &collective.entries())),
            adapter_tree: self.build_adapter_tree(),
            ..listed.clone()
        }
    }

    /// The adapter tree: the same every time, whatever has failed and whatever the settings are.
    fn build_adapter_tree(&self) -> Option<v1::AggregationTree> {
        let SnapshotParts { collective, adapters, fabric, .. } = &self.parts;
        let AdapterPlan { tree, choice, most_children } = (*adapters)?;
        let members = &collective.request.members;
        let nesting = Nesting::of_fabric(fabric, members).ok()?;
        let adapters = AdapterTree::of_shape(&nesting, choice.shape, most_children).ok()?;
        wire::tree(fabric.graph(), tree.0, &adapters.entries(tree.0, members))
    }
}
