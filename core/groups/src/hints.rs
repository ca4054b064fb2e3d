//! Hints of a group's creator, which help the TIC to choose the MGID and are never binding.

use fabricast_topology::Mgid;

use crate::names::{EndpointName, LayerName};

/// Hints for the choice of an MGID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgidHints {
    /// Endpoints that will be members; may be incomplete.
    pub expected: Vec<EndpointName>,
    /// Layer that the group belongs to.
    pub layer: Option<Layer>,
    /// MGID that was chosen for the group together with all that it is formed with; never sent.
    pub planned: Option<Mgid>,
}

/// Groups of which no two share an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Name of the layer. Layers whose names agree up to the last `/` belong together, like the
    /// rows and columns of one grid.
    pub name: LayerName,
    /// Number of groups that the layer will have; 0 if unknown.
    pub groups: u32,
    /// Number of groups that all layers of the grid will have together; 0 if unknown.
    pub all_groups: u32,
}
