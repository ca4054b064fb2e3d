//! Multicast routing on fat trees: which tree every group uses, so that the table entries suffice.
//!
//! Read [`RoutingEngine`] first: groups and faults in, a [`Plan`] out; [`Engine`] is C-MR4LMS. [`Layout`] numbers the conflict-free
//! spanning trees everything rests on; [`Plan`] is what the engine decided and
//! [`table_entries`] what switches have to hold for it; [`verify`](verify::verify) checks tables by sending
//! packets through them and knows nothing of engines.
#![warn(clippy::wildcard_enum_match_arm)]

mod advice;
mod allocator;
mod baselines;
mod capacity;
mod engine;
mod engines;
mod explain;
pub mod formats;
mod group_tree;
pub mod jobs;
mod layers;
mod links;
mod metrics;
mod mgid;
mod min_hop;
mod mr4lms;
mod patterns;
mod plan;
mod root_choice;
mod root_policy;
mod scenario;
mod spt;
mod tables;
pub mod verify;

pub use advice::{Advice, Comparison, Estimate, PerSwitchPromise, Preference, advise};
pub use allocator::{AllocatorError, Choice, LayerHint, MgidAllocator, Wanted};
pub use baselines::{Baseline, Rule};
pub use capacity::{
    Capacity, CapacityQuestion, CapacityStep, RoutingCost, SizeCost, capacity, least_entries,
};
pub use engine::{Change, ChangeError, ChangeProblem, DynamicEngine, Engine, RootScope};
pub use engines::{
    BuildError, EngineKind, EngineOptions, RecordedChoice, RestoreError, RestoreProblem,
    RoutingEngine, UnknownEngine, build_engine, mgid_space,
};
pub use explain::{
    ExplainedRoute, ExplainedTree, Explanation, Meeting, OtherSize, Sharer, Step, at_other_size,
    explain,
};
pub use group_tree::GroupTree;
pub use layers::{
    Grid, GridError, LayerPlan, LayerSize, Line, TooFewColors, assign_mgids, divide_colors,
};
pub use links::{Link, REACH, SwitchLinks};
pub use metrics::{LinkLoads, Metrics, efi_by_port, metrics};
pub use mgid::Mgid;
pub use min_hop::{HopSearch, MOST_HOPS, MinHops, NO_PATH};
pub use mr4lms::{MergePartner, MergePolicy, Mr4lms, Mr4lmsOptions, Turn};
pub use patterns::{
    MR4LMS_FABRICS, Mr4lmsFabric, Mr4lmsPattern, PatternError, PatternGroup, PatternShape,
    global_group, grid_groups, hierarchy_groups, random_groups,
};
pub use plan::{
    BrokenLink, CutOff, CutOffReason, Displacement, GroupPlan, Moved, PartBuilder, Plan,
    PlannedTree, Unprotected, Unrouted, VirtualGroup, VirtualGroupId,
};
pub use root_choice::PortLoads;
pub use root_policy::{RootCandidate, RootPolicy, UnknownRootPolicy, choose_root};
pub use scenario::{GroupSource, PatternMaker, Routed, Scenario, ScenarioError};
pub use spt::{Layout, LayoutError, MAX_COLORS, MgidSpace, SpanningTree};
pub use tables::{TableImage, table_entries, virtual_group_entries};
