//! Chooses the adapter trees of collectives by the cost model.
//!
//! The constants are those that were measured between the agents, else those that the settings
//! name, else stated defaults, since with bytes that cost nothing no size would change a tree. The
//! choice is in the record of the collective, so that every TIC builds the same tree from it.
//!
//! Invariants
//! - AGG-11: new constants, or another limit on children, change no adapter tree that a collective
//!   has.

use fabricast_collectives::{
    AdapterCost, AdapterShape, CostParameters, Fabric, NestingSizes, Request, TreeId,
};
use fabricast_proto::v1;
use serde::{Deserialize, Serialize};

use crate::domain::collectives::member_trees::MeasuredConstants;

/// Constants that adapter trees are chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AdapterConstants {
    origin: ConstantsOrigin,
    parameters: CostParameters,
}

/// Origin of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ConstantsOrigin {
    /// Measured between the agents of this fabric.
    Measured,
    /// Named by the settings.
    Configured,
    /// Stated numbers that nobody has measured.
    Default,
}

/// Shape of an adapter tree as it was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdapterChoice {
    pub(super) shape: AdapterShape,
    /// `None` if a TIC of an earlier version chose it.
    pub(super) constants: Option<ConstantsOrigin>,
}

/// An adapter tree of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdapterPlan {
    pub(super) tree: TreeId,
    pub(super) choice: AdapterChoice,
    /// Most children of a node, as the settings had it when the tree was chosen.
    pub(super) most_children: u32,
}

impl AdapterConstants {
    pub(super) fn new(
        measured: Option<&MeasuredConstants>,
        configured: Option<CostParameters>,
    ) -> Self {
        let (origin, parameters) = match (measured, configured) {
            (Some(measured), _) => (ConstantsOrigin::Measured, measured.parameters),
            (None, Some(configured)) => (ConstantsOrigin::Configured, configured),
            (None, None) => (ConstantsOrigin::Default, CostParameters::DEFAULT),
        };
        Self { origin, parameters }
    }

    /// Chooses the shape of an adapter tree whose nodes have at most `most` children. `None` if a
    /// member is not connected.
    ///
    /// Cost: some tens of nanoseconds for each process, and some hundred evaluations of the model.
    pub(super) fn choose(
        &self,
        fabric: &Fabric,
        request: &Request,
        most: u32,
    ) -> Option<AdapterChoice> {
        // The operation whose messages grow on the way decides, if there is one.
        let operation = request.operations.iter().copied().max()?;
        let sizes = NestingSizes::of_fabric(fabric, &request.members).ok()?;
        let cost = AdapterCost::new(&self.parameters, &sizes, operation, request.bytes.max);
        Some(AdapterChoice { shape: cost.cheapest(most), constants: Some(self.origin) })
    }
}

impl AdapterChoice {
    pub(super) fn wire(self) -> v1::AdapterTreeChoice {
        let (family, width) = match self.shape {
            AdapterShape::KAry { width } => (v1::TreeFamily::KAry, width),
            AdapterShape::KNomial { width } => (v1::TreeFamily::KNomial, width),
            AdapterShape::Hierarchical { width } => (v1::TreeFamily::Hierarchical, width),
        };
        let constants = match self.constants {
            None => v1::ConstantsOrigin::Unspecified,
            Some(ConstantsOrigin::Measured) => v1::ConstantsOrigin::Measured,
            Some(ConstantsOrigin::Configured) => v1::ConstantsOrigin::Configured,
            Some(ConstantsOrigin::Default) => v1::ConstantsOrigin::Default,
        };
        v1::AdapterTreeChoice { family: family.into(), width, constants: constants.into() }
    }
}
