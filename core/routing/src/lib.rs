//! Multicast routing: assigns every group a tree so that the table entries of the switches suffice.
//!
//! Read [`RoutingEngine`] first: groups and faults in, a [`Plan`] out. [`build_engine()`] makes
//! one; [`FixedRootEngine`] is the C-MR4LMS of the paper. [`Layout`] numbers the conflict-free
//! spanning trees that C-MR4LMS rests on, [`table_entries`] lists the table rows that a plan needs,
//! and [`verify`](verify::verify) checks tables by sending packets through them, without knowing
//! any engine.
#![warn(clippy::wildcard_enum_match_arm)]

mod advice;
mod allocator;
mod baselines;
mod better_homes;
mod build_engine;
mod c_mr4lms;
mod capacity;
mod change;
mod explain;
mod fault_preview;
pub mod formats;
mod group_tree;
mod hybrid;
mod layers;
mod links;
mod metrics;
mod min_hop;
mod mr4lms;
mod patterns;
mod plan;
mod reach;
mod root_choice;
mod root_policy;
mod route_facts;
mod route_reason;
mod routing_engine;
mod scenario;
mod spt;
mod tables;
mod up_down;
pub mod verify;

pub use advice::{
    Advice, BestEngine, ChosenEngine, Comparison, Estimate, HYBRID_SPEED, PerSwitchPromise,
    Preference, advise, choose_engine,
};
pub use allocator::{
    AllocatorError, BatchGroup, BatchMgid, Choice, LayerHint, MgidAllocator, MgidPlanner, Wanted,
};
pub use baselines::{Baseline, BaselineRule};
pub use better_homes::{BetterHomes, HomeError, HomeMove, HomeSearch, HomedGroup, better_homes};
pub use build_engine::{build_engine, mgid_space, refused_options};
pub use c_mr4lms::{DynamicRootEngine, FixedRootEngine};
pub use capacity::{
    Capacity, CapacityQuestion, CapacityStep, RoutingCost, SizeCost, capacity, least_entries,
};
pub use change::{Change, ChangeError, ChangeProblem};
pub use explain::{
    ExplainedRoute, ExplainedTree, Explanation, OtherSize, SharedPart, Sharer, Step, at_other_size,
    explain,
};
pub use fault_preview::{FaultPreview, KeptOut, PlannedFabric, PreviewError, preview_faults};
pub use group_tree::GroupTree;
pub use layers::{
    Grid, GridError, LayerPlan, LayerSize, Line, TooFewColors, assign_mgids, divide_colors,
};
pub use links::{Link, REACH, SwitchLinks};
pub use metrics::{LinkLoads, Metrics, efi_by_port, metrics};
pub use min_hop::{HopSearch, MOST_HOPS, MinHops, NO_PATH};
pub use mr4lms::{MergePartner, MergePolicy, Mr4lms, Mr4lmsOptions, Turn};
pub use patterns::{
    MR4LMS_FABRICS, Mr4lmsFabric, Mr4lmsPattern, PatternError, PatternGroup, PatternShape,
    global_group, grid_groups, hierarchy_groups, random_groups,
};
pub use plan::{
    BrokenLink, CutOff, CutOffReason, Displacement, GroupPlan, Moved, PartBuilder, PartCounts,
    Plan, PlannedTree, Unprotected, Unrouted, VirtualGroup, VirtualGroupId,
};
pub use reach::ReachWalker;
pub use root_choice::PortLoads;
pub use root_policy::{RootCandidate, RootPolicy, UnknownRootPolicy, choose_root};
pub use route_facts::{TreeLink, special_reasons, tree_links, unrouted_reason};
pub use route_reason::RouteReason;
pub use routing_engine::{
    BuildError, EngineKind, EngineOptions, RecordedChoice, RestoreError, RestoreProblem, RootScope,
    RoutingEngine, UnknownEngine,
};
pub use scenario::{GroupSource, PatternMaker, Routed, Scenario, ScenarioError};
pub use spt::{Layout, LayoutError, MAX_COLORS, MgidSpace, SpanningTree};
pub use tables::{TableImage, table_entries, virtual_group_entries};
pub use up_down::UpDown;
