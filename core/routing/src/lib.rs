//! Multicast routing on fat trees: which tree every group uses, so that the table entries suffice.
//!
//! Read [`RoutingEngine`] first: groups and faults in, a [`Plan`] out; [`Engine`] is C-MR4LMS. [`Layout`] numbers the conflict-free
//! spanning trees everything rests on; [`Plan`] is what the engine decided and
//! [`table_entries`] what switches have to hold for it; [`verify`](verify::verify) checks tables by sending
//! packets through them and knows nothing of engines.
#![warn(clippy::wildcard_enum_match_arm)]

mod allocator;
mod baselines;
mod engine;
mod engines;
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
mod root_policy;
mod spt;
mod tables;
pub mod verify;

pub use allocator::{AllocatorError, Choice, LayerHint, MgidAllocator, Wanted};
pub use baselines::{Baseline, Rule};
pub use engine::{Change, ChangeError, ChangeProblem, DynamicEngine, Engine, RootScope};
pub use engines::{
    BuildError, EngineKind, EngineOptions, RecordedChoice, RestoreError, RestoreProblem,
    RoutingEngine, UnknownEngine, build_engine, mgid_space,
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
    PlannedTree, Unrouted, VirtualGroup, VirtualGroupId,
};
pub use root_policy::{RootCandidate, RootPolicy, UnknownRootPolicy, choose_root};
pub use spt::{Layout, LayoutError, MAX_COLORS, MgidSpace, SpanningTree};
pub use tables::{SwitchDiff, TableImage, table_diff, table_entries, virtual_group_entries};
