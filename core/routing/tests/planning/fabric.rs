//! A fabric to plan for.

use std::sync::Arc;

use fabricast_routing::{EngineKind, EngineOptions, GroupSource, Scenario};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, Graph};

#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) graph: Arc<Graph>,
    pub(crate) fat_tree: Option<Arc<FatTree>>,
}

impl Fabric {
    pub(crate) fn new(spec: &str) -> Self {
        let graph = TopologySpec::parse(spec).expect("valid").generate().expect("valid");
        let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
        Self { graph: Arc::new(graph), fat_tree }
    }

    pub(crate) fn scenario<'a>(
        &'a self,
        kind: EngineKind,
        options: EngineOptions,
        groups: GroupSource<'a>,
    ) -> Scenario<'a> {
        let (graph, fat_tree) = (&self.graph, self.fat_tree.as_ref());
        Scenario { graph, fat_tree, kind, options, loads: None, groups }
    }
}
