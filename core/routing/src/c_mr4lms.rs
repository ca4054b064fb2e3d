//! C-MR4LMS: conflict-free spanning trees on fat trees, with fixed or dynamic roots.
//!
//! Source: C-MR4LMS (Journal of Computer Research and Development 59(12), 2022). Read
//! [`FixedRootEngine`] first; [`DynamicRootEngine`] shares its view of the fabric, its registry of
//! groups and its [`tree_builder`].

mod assignment;
mod disjoint_sets;
mod dynamic_root;
mod fabric;
mod fixed_root;
mod footprint;
mod group_trees;
mod home_trees;
mod incremental;
mod link_users;
mod numbers;
mod pending;
mod registry;
mod staging;
mod tree_builder;

pub use dynamic_root::DynamicRootEngine;
pub(crate) use dynamic_root::ENTRY as DYNAMIC_ROOT;
pub(crate) use fixed_root::ENTRY as FIXED_ROOT;
pub use fixed_root::FixedRootEngine;
pub(crate) use home_trees::HomeTrees;
