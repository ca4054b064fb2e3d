//! The parts of the fabric that aggregation reads: its graph and its faults.

use fabricast_topology::{AggregationNode, EndpointId, Faults, Graph, SwitchId};

/// A switch or adapter that holds aggregation entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AggregationPlace {
    /// A switch, which reduces for the trees it is a node of.
    Switch(SwitchId),
    /// An adapter, which reduces for all processes on the endpoint.
    Adapter(EndpointId),
}

impl AggregationPlace {
    /// Finds the place of a node.
    #[must_use]
    pub const fn of(node: AggregationNode) -> Self {
        match node {
            AggregationNode::Switch(switch) => Self::Switch(switch),
            AggregationNode::Process { endpoint, .. } => Self::Adapter(endpoint),
        }
    }
}

/// Graph and faults of the fabric at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FabricState<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) faults: &'a Faults,
    /// Indexed by port: true if packets pass it.
    pub(crate) live: &'a [bool],
}

impl FabricState<'_> {
    pub(super) fn has_place(&self, place: AggregationPlace) -> bool {
        match place {
            AggregationPlace::Switch(switch) => switch.index() < self.graph.switch_count(),
            AggregationPlace::Adapter(endpoint) => endpoint.index() < self.graph.endpoint_count(),
        }
    }

    pub(super) fn place_is_live(&self, place: AggregationPlace) -> bool {
        match place {
            AggregationPlace::Switch(switch) => self.faults.switch_is_live(switch),
            AggregationPlace::Adapter(endpoint) => self.faults.endpoint_is_live(endpoint),
        }
    }

    /// Names a place for error messages, by number if the graph has no such place.
    pub(super) fn place_name(&self, place: AggregationPlace) -> String {
        let known = self.has_place(place);
        match place {
            AggregationPlace::Switch(switch) if known => {
                format!("switch {}", self.graph.switch_name(switch))
            }
            AggregationPlace::Adapter(endpoint) if known => {
                format!("adapter {}", self.graph.endpoint_name(endpoint))
            }
            AggregationPlace::Switch(switch) => format!("switch #{}", switch.0),
            AggregationPlace::Adapter(endpoint) => format!("adapter #{}", endpoint.0),
        }
    }
}
