//! Collective operations in the network: what they cost, and the trees they run on.
//!
//! Source: Chen et al., "aggregation trees for hardware-supported collectives", Journal of Computer
//! Research and Development 61(2), 2024. A collective's data is reduced from the processes to the
//! root of a tree, and the result is sent back. The paper's type I is an *adapter tree* here: only
//! the processes' own adapters reduce. Its type II is a *switch tree*: switches reduce.
//!
//! Read [`CostParameters`] first: it says what a tree of some shape costs. [`Trade`] finds the
//! width that costs least, [`fit()`] the parameters from measurements, [`ChoiceTable`] which kind
//! of tree an operation of some size should run on.
//!
//! [`AdapterTree`] builds adapter trees over processes that a [`Nesting`] groups by where they are.
//! [`AdapterCost`] chooses their shape from the sizes of these groups alone.
//!
//! [`choose_shape`] chooses the tree over a group's members, which the message layer uses where no
//! switch combines.
//!
//! A [`Fabric`] is a fat tree, or any other topology; on those a switch tree is one of shortest
//! ways to a switch in the middle.
//!
//! [`minimum_tree`] finds switch trees of fewest entries, and [`Allocator`] gives collectives their
//! trees, within the entries that switches have.
//!
//! Nothing here reads a file, a clock or a random number: values in, values out.
#![warn(clippy::wildcard_enum_match_arm)]

mod adapter_shape;
mod adapter_tree;
mod allocator;
mod choice;
mod cost;
mod fabric;
mod fit;
mod measurement;
mod member_tree;
mod nesting;
mod operation;
mod survey;
mod switch_tree;
mod width;

pub use adapter_shape::{AdapterCost, AdapterShape};
pub use adapter_tree::{AdapterTree, Crossing, TreeError};
pub use allocator::{
    Allocator, AllocatorState, Collective, CollectiveId, Demand, EntryLedger, Fallback,
    FaultChanges, Holder, Holding, JobId, Owner, Quota, Refusal, Request, Reservation,
    ReservationId, ReserveError, RestoreError, Service, Settings, SizeRange, TenantId, TreeId,
    TreeProblem, Usage,
};
pub use choice::{Choice, ChoiceTable, Comparison, Limits};
pub use cost::{CostParameters, ParametersError, Shape, Term};
pub use fabric::Fabric;
pub use fit::{Fit, FitError, fit, fit_with_defaults};
pub use measurement::{Measurement, MeasurementError, read_measurements, read_measurements_csv};
pub use member_tree::{ShapeInputs, choose_shape, shape_us};
pub use nesting::{Division, Nesting, NestingError, NestingSizes};
pub use operation::{Operation, TreeKind};
pub use survey::{Method, Survey, survey};
pub use switch_tree::{
    Climber, CutOff, KeptSwitch, PhysicalSwitch, PhysicalTree, SwitchTree, UpLink, minimum_tree,
};
pub use width::{Trade, WidthRange};
