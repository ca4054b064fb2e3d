//! What the creator of a group may know of it; it helps the TIC to choose the MGID and binds nobody.

use crate::names::{EndpointName, LayerName};

/// Hints for the choice of an MGID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgidHints {
    /// Endpoints that will be members, as far as they are known.
    pub expected: Vec<EndpointName>,
    /// The layer it is in.
    pub layer: Option<Layer>,
}

/// Groups none of which has an endpoint in common with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name. Layers whose names agree up to the last `/` belong together, as the rows and columns of one grid.
    pub name: LayerName,
    /// Groups it will have; 0 if not known.
    pub groups: u32,
    /// Groups that all layers which belong together will have; 0 if not known.
    pub all_groups: u32,
}
